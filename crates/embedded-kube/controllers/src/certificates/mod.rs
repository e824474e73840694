//! Certificate signing requests: approved where a rule says so, signed once approved, removed when old.
//!
//! Only what a kubelet asks for as a client is approved here, and only for whoever RBAC lets ask for it (bind
//! `system:certificates.k8s.io:certificatesigningrequests:nodeclient` to those who bootstrap). Serving
//! certificates and everything else wait for an approver.

mod plan;

use crate::objects::{list, text, until};
use crate::{MANAGER, tables};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ek_auth::User;
use ek_engine::{Controller, Delta, Keys, Outcome};
use ek_meta::{Status, object};
use ek_server::{Access, Deletion};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use plan::Step;
use serde_json::{Value, json};

/// How long an approved request waits for somebody who signs, before it is looked at again.
const UNSIGNED: SignedDuration = SignedDuration::from_secs(2);

pub struct SigningRequests;

impl Controller for SigningRequests {
    fn name(&self) -> &'static str {
        "certificates"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["certificates.k8s.io/certificatesigningrequests"]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        if delta.current.is_some() {
            keys.push(delta.key.clone());
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move { run(&access.manager(MANAGER), key).await })
    }
}

async fn run(access: &Access, name: &str) -> Result<Outcome, Status> {
    let Some(csr) = access.get(&tables::SIGNING_REQUESTS, "", name) else { return Ok(Outcome::Done) };
    let request = STANDARD.decode(text(&csr, "/spec/request")).unwrap_or_default();
    let now = access.now();
    match plan::plan(&csr, plan::subject(&request).as_ref(), now) {
        Step::Wait(at) => return Ok(at.map_or(Outcome::Done, |at| Outcome::After(until(now, at)))),
        Step::Delete => access.delete(&tables::SIGNING_REQUESTS, "", name, Deletion::default()).await?,
        Step::Consider { permission, message } => {
            let sub = permission;
            if access.may(
                &requester(&csr),
                "create",
                "certificates.k8s.io",
                "certificatesigningrequests",
                sub,
            ) {
                let c = json!({"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message});
                add_condition(access, &csr, "approval", c).await?;
            }
        }
        Step::Sign => {
            let pem = String::from_utf8_lossy(&request);
            let signer = text(&csr, "/spec/signerName");
            // Without one, requests wait: whoever holds the authority may yet come.
            let Some(authority) = access.signer() else { return Ok(Outcome::After(UNSIGNED)) };
            match authority.sign_request(&pem, signer, now, plan::validity(&csr)) {
                Ok(cert) => {
                    let encoded = STANDARD.encode(cert);
                    let put = |c: &mut Value| {
                        c["status"]["certificate"] = json!(encoded);
                        true
                    };
                    access.update(&tables::SIGNING_REQUESTS, "", name, "status", put).await?;
                }
                Err(e) => {
                    let c = json!({"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": e.to_string()});
                    add_condition(access, &csr, "status", c).await?;
                }
            }
        }
    }
    Ok(Outcome::Done)
}

fn requester(csr: &Value) -> User {
    let groups = list(csr, "/spec/groups").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    User { name: text(csr, "/spec/username").to_owned(), groups, ..User::default() }
}

async fn add_condition(access: &Access, csr: &Value, sub: &str, c: Value) -> Result<(), Status> {
    let add = |o: &mut Value| {
        match o.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
            Some(a) => a.push(c.clone()),
            None => o["status"]["conditions"] = json!([c]),
        }
        true
    };
    access.update(&tables::SIGNING_REQUESTS, "", object::name(csr), sub, add).await.map(|_| ())
}
