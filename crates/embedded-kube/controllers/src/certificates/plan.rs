//! What becomes of a signing request.

use crate::objects::{condition, int, list, seconds_after, text, when};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;

pub(super) const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
pub(super) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub(super) const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Sign,
    /// May be approved, if the requester has this permission.
    Consider {
        permission: &'static str,
        message: &'static str,
    },
    Delete,
    /// Nothing until then.
    Wait(Option<Timestamp>),
}

/// Who a request is for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) organizations: Vec<String>,
    pub(super) has_alternatives: bool,
}

pub(super) fn subject(pem: &[u8]) -> Option<Subject> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem).ok()?;
    let (_, csr) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let subject = &csr.certification_request_info.subject;
    let text = |a: &x509_parser::x509::AttributeTypeAndValue<'_>| a.as_str().ok().map(str::to_owned);
    let alternatives = csr.requested_extensions().into_iter().flatten();
    let has_alternatives = alternatives
        .into_iter()
        .any(|e| matches!(e, ParsedExtension::SubjectAlternativeName(n) if !n.general_names.is_empty()));
    Some(Subject {
        name: subject.iter_common_name().next().and_then(text).unwrap_or_default(),
        organizations: subject.iter_organization().filter_map(text).collect(),
        has_alternatives,
    })
}

/// How long a request is kept: what nobody decided a day, what is decided an hour.
fn expiry(csr: &Value) -> Option<Timestamp> {
    const HOUR: i64 = 3600;
    let decided = list(csr, "/status/conditions").iter().filter_map(|c| when(c, "/lastUpdateTime")).max();
    match decided {
        Some(t) => Some(seconds_after(t, HOUR)),
        None => when(csr, "/metadata/creationTimestamp").map(|t| seconds_after(t, 24 * HOUR)),
    }
}

fn is(csr: &Value, kind: &str) -> bool {
    condition(csr, kind).is_some_and(|c| c["status"] == "True")
}

pub(super) fn plan(csr: &Value, subject: Option<&Subject>, now: Timestamp) -> Step {
    let expiry = expiry(csr);
    if expiry.is_some_and(|t| t <= now) {
        return Step::Delete;
    }
    let signer = text(csr, "/spec/signerName");
    let issued = !text(csr, "/status/certificate").is_empty();
    if is(csr, "Denied") || is(csr, "Failed") || issued {
        return Step::Wait(expiry);
    }
    if is(csr, "Approved") {
        let ours = matches!(signer, CLIENT | KUBELET_CLIENT | KUBELET_SERVING);
        return if ours { Step::Sign } else { Step::Wait(expiry) };
    }
    let Some(subject) = subject.filter(|s| signer == KUBELET_CLIENT && is_node_client(s, csr)) else {
        return Step::Wait(expiry);
    };
    if text(csr, "/spec/username") == subject.name {
        return Step::Consider {
            permission: "selfnodeclient",
            message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
        };
    }
    Step::Consider {
        permission: "nodeclient",
        message: "Auto approving kubelet client certificate after SubjectAccessReview.",
    }
}

/// What a kubelet asks for when it wants to talk to the API, and nothing more.
fn is_node_client(s: &Subject, csr: &Value) -> bool {
    let usages: Vec<&str> = list(csr, "/spec/usages").iter().filter_map(Value::as_str).collect();
    s.name.strip_prefix("system:node:").is_some_and(|n| !n.is_empty())
        && s.organizations == ["system:nodes"]
        && !s.has_alternatives
        && usages.contains(&"client auth")
        && usages.contains(&"digital signature")
        && usages.iter().all(|u| matches!(*u, "client auth" | "digital signature" | "key encipherment"))
}

/// How long the certificate is valid: as asked, within reason.
pub(super) fn validity(csr: &Value) -> SignedDuration {
    const YEAR: i64 = 365 * 24 * 3600;
    SignedDuration::from_secs(int(csr, "/spec/expirationSeconds").unwrap_or(YEAR).clamp(600, YEAR))
}
