//! Whether a signing request is signed, and if not, which of its fields is in the way and what to write there; pure.

use super::plan::MASTERS;
use super::{Class, Lives};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use pki::{Authority, Error, Request};

/// Clocks differ a little; certificates start a little before now.
const SKEW: SignedDuration = SignedDuration::from_mins(5);
/// Nothing shorter is signed, whatever is asked for.
const SHORTEST: SignedDuration = SignedDuration::from_mins(10);
/// No request is larger.
const LARGEST: usize = 64 << 10;
const CLIENT_AUTH: &str = "client auth";
const USAGES: [&str; 3] = [CLIENT_AUTH, "digital signature", "key encipherment"];

/// What is done about a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is somebody else's, or decided, or nobody has approved it.
    Leave,
    Approve,
    /// It never will be signed, and why.
    Fail(String),
    /// Its certificate lives for so long, if its authority does.
    Sign(Request, SignedDuration),
}

fn has(csr: &CertificateSigningRequest, kind: &str) -> bool {
    let all = csr.status.iter().flat_map(|s| s.conditions.iter().flatten());
    // Approved and Denied count whatever their status is.
    all.into_iter().any(|c| c.type_ == kind && (kind != "Failed" || c.status == "True"))
}

/// The class that a request is for.
pub fn class(csr: &CertificateSigningRequest, namespace: &str) -> Option<Class> {
    Class::ALL.into_iter().find(|c| c.signer_name(namespace) == csr.spec.signer_name)
}

/// `approval`: whether the control plane's namespace has an approval of the request's name.
pub fn judge(csr: &CertificateSigningRequest, class: Class, approval: bool, lives: Lives) -> Verdict {
    let issued = csr.status.as_ref().and_then(|s| s.certificate.as_ref()).is_some_and(|c| !c.0.is_empty());
    if issued || has(csr, "Denied") || has(csr, "Failed") {
        return Verdict::Leave;
    }
    if !has(csr, "Approved") {
        return if approval { Verdict::Approve } else { Verdict::Leave };
    }
    match examine(csr, class) {
        Ok(request) => Verdict::Sign(request, life(csr, lives)),
        Err(why) => Verdict::Fail(why),
    }
}

fn examine(csr: &CertificateSigningRequest, class: Class) -> Result<Request, String> {
    let (prefix, subject) = (class.prefix(), format!("/CN={}<name>/O={MASTERS}", class.prefix()));
    let usages: Vec<&str> = csr.spec.usages.iter().flatten().map(String::as_str).collect();
    if !usages.contains(&CLIENT_AUTH) {
        return Err(format!("spec.usages has no {CLIENT_AUTH:?}, which is all that is signed here: add it"));
    }
    if let Some(other) = usages.iter().find(|u| !USAGES.contains(u)) {
        return Err(format!("spec.usages has {other:?}, which is not signed here: leave it out"));
    }
    let bytes = &csr.spec.request.0;
    let text = std::str::from_utf8(bytes).ok().filter(|_| bytes.len() <= LARGEST);
    let read = text.ok_or_else(|| "it is no text, or too long".to_owned());
    let read = read.and_then(|t| Request::read(t).map_err(|e| reconcile::chain(&e).to_string()));
    let request = read.map_err(|why| {
        format!("spec.request cannot be used: {why}; make one with `openssl req -new -subj {subject}`")
    })?;
    let name = &request.common_name;
    if name.strip_prefix(&prefix).is_none_or(str::is_empty) {
        return Err(format!(
            "spec.request is for user {name:?}, and users of this signer begin with {prefix:?}: ask for subject {subject}"
        ));
    }
    if request.organizations != [MASTERS] {
        let groups = &request.organizations;
        return Err(format!(
            "spec.request is for organizations {groups:?}, which must be exactly [{MASTERS:?}]: ask for subject {subject}"
        ));
    }
    if request.other_names > 0 {
        return Err(
            "spec.request has alternative names, and a client has none: leave subjectAltName out".into()
        );
    }
    Ok(request)
}

/// As asked, within bounds.
fn life(csr: &CertificateSigningRequest, lives: Lives) -> SignedDuration {
    let asked = csr.spec.expiration_seconds.map(|s| SignedDuration::from_secs(i64::from(s)));
    let most = lives.client();
    asked.unwrap_or(most).max(SHORTEST).min(most)
}

/// Signs: never for longer than the authority lives itself.
pub fn sign(
    by: &Authority,
    request: &Request,
    life: SignedDuration,
    now: Timestamp,
) -> Result<String, Error> {
    let end = by.facts()?.not_after.min(now.checked_add(life).unwrap_or(Timestamp::MAX));
    by.certify(request, now.checked_sub(SKEW).unwrap_or(now), end)
}
