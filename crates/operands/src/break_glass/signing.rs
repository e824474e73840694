//! Approves and signs requests.

use super::judge::{Verdict, class, judge, sign};
use super::plan::{Kind, Seen};
use super::revocation::Revocation;
use super::{APPROVAL, CLIENTS, Class, Setup};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use kube::api::PostParams;
use pki::Authority;
use reconcile::{Controller, Failure, Outcome};
use serde_json::json;
use std::sync::Arc;

/// How soon an authority that may not sign is looked at again.
const AGAIN: SignedDuration = SignedDuration::from_secs(1);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot read what belongs to request {name}")]
    Read { name: String, source: Box<kube::Error> },
    #[error("cannot {verb} request {name}")]
    Decide { verb: &'static str, name: String, source: Box<kube::Error> },
}

pub struct Signer(Arc<Setup>);

impl Signer {
    pub fn new(setup: Arc<Setup>) -> Signer {
        Signer(setup)
    }
}

impl Controller for Signer {
    fn name(&self) -> &'static str {
        "break-glass-requests"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

impl Signer {
    async fn run(&self, name: &str) -> Result<Outcome, Failure> {
        let setup = &*self.0;
        let failed = |e| Error::Read { name: name.to_owned(), source: Box::new(e) };
        let all: Api<CertificateSigningRequest> = Api::all(setup.management.clone());
        let Some(mut csr) = all.get_opt(name).await.map_err(failed)? else { return Ok(Outcome::Done) };
        let Some(class) = class(&csr, &setup.namespace) else { return Ok(Outcome::Done) };
        let approvals = APPROVAL.api(&setup.management, &setup.namespace);
        let approval = approvals.get_opt(name).await.map_err(failed)?.is_some();
        let now = setup.clock.now();
        let (sub, verb) = match judge(&csr, class, approval, setup.lives) {
            Verdict::Leave => return Ok(Outcome::Done),
            Verdict::Approve => {
                let message = format!("there is an approval of this name in namespace {}", setup.namespace);
                add(&mut csr, "Approved", "ApprovalPresent", &message, now);
                ("approval", "approve")
            }
            Verdict::Fail(why) => {
                (setup.say)(format!("{name} is not signed: {why}"));
                add(&mut csr, "Failed", "SignerValidationFailure", &why, now);
                ("status", "refuse")
            }
            Verdict::Sign(request, life) => {
                let Some(by) = self.authority(class).await? else { return Ok(Outcome::After(AGAIN)) };
                let cert = sign(&by, &request, life, now)?;
                csr.status.get_or_insert_default().certificate = Some(ByteString(cert.into_bytes()));
                ("status", "sign")
            }
        };
        match all.replace_subresource(sub, name, &PostParams::default(), &csr).await {
            Ok(_) => {
                (setup.say)(format!("{verb} {name} ({})", class.name()));
                Ok(Outcome::Done)
            }
            // Gone or changed: a watch has told or will.
            Err(kube::Error::Api(s)) if s.code == 404 || s.code == 409 => Ok(Outcome::Done),
            Err(e) => Err(Error::Decide { verb, name: name.to_owned(), source: Box::new(e) }.into()),
        }
    }

    /// The authority, if what it signs is of use: the API server is told of it, and nobody is revoking it.
    async fn authority(&self, class: Class) -> Result<Option<Authority>, Failure> {
        let setup = &*self.0;
        let mut seen = Seen::default();
        setup.read(&mut seen, Kind::Secret, class.signer()).await?;
        setup.read(&mut seen, Kind::ConfigMap, CLIENTS).await?;
        let revocations = setup.revocations().await?;
        let Some(by) = seen.authority(class.signer()) else { return Ok(None) };
        let began = by.facts()?.not_before;
        let doomed = revocations
            .iter()
            .map(Revocation::read)
            .any(|r| r.class == Some(class) && !r.done() && r.cut.is_none_or(|cut| began <= cut));
        Ok((!doomed && seen.told(by.cert())).then_some(by))
    }
}

fn add(csr: &mut CertificateSigningRequest, kind: &str, reason: &str, message: &str, now: jiff::Timestamp) {
    let condition = json!({"type": kind, "status": "True", "reason": reason, "message": message,
        "lastUpdateTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()});
    let all = csr.status.get_or_insert_default().conditions.get_or_insert_default();
    all.extend(serde_json::from_value(condition));
}
