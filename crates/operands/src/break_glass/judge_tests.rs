//! What is signed, what is not, and in which words.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::judge::{Verdict, class, judge, sign};
use super::{Class, Lives};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use pki::{Authority, Facts, Request};
use serde_json::{Value, json};

const SIGNER: &str = "hypershift.openshift.io/clusters-demo.customer-break-glass";

fn request(name: &str, group: &str, dns: &[&str]) -> String {
    Request::make(name, group, dns).unwrap().0
}

fn csr(pem: &str, edit: impl FnOnce(&mut Value)) -> CertificateSigningRequest {
    let mut o = json!({"metadata": {"name": "me"}, "spec": {"signerName": SIGNER,
        "request": STANDARD.encode(pem), "usages": ["client auth"]},
        "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "ApprovalPresent"}]}});
    edit(&mut o);
    serde_json::from_value(o).unwrap()
}

fn good() -> String {
    request("system:customer-break-glass:me", "system:masters", &[])
}

fn verdict(csr: &CertificateSigningRequest) -> Verdict {
    judge(csr, Class::Customer, false, Lives::default())
}

#[test]
fn a_request_is_left_alone_until_somebody_approves_it_here() {
    let asked = csr(&good(), |o| o["status"] = json!({}));
    assert_eq!(class(&asked, "clusters-demo"), Some(Class::Customer));
    assert_eq!(class(&asked, "clusters-other"), None, "another control plane's");
    assert_eq!(verdict(&asked), Verdict::Leave);
    assert_eq!(judge(&asked, Class::Customer, true, Lives::default()), Verdict::Approve);
    for kind in ["Denied", "Failed"] {
        let decided = csr(&good(), |o| o["status"]["conditions"][0]["type"] = json!(kind));
        assert_eq!(judge(&decided, Class::Customer, true, Lives::default()), Verdict::Leave, "{kind}");
    }
    let issued = csr(&good(), |o| o["status"]["certificate"] = json!(STANDARD.encode("x")));
    assert_eq!(verdict(&issued), Verdict::Leave);
}

#[test]
fn what_does_not_fit_is_told_by_field_and_with_what_to_write() {
    let usages = |all: &[&str]| {
        let all = json!(all);
        csr(&good(), |o| o["spec"]["usages"] = all)
    };
    let of = |pem: &str| csr(pem, |_| {});
    let masters = "system:masters";
    let cases = [
        (usages(&["digital signature"]), "spec.usages has no \"client auth\""),
        (
            usages(&["client auth", "server auth"]),
            "spec.usages has \"server auth\", which is not signed here",
        ),
        (of("hello"), "spec.request cannot be used: cannot read a signing request"),
        (of(&request("system:admin", masters, &[])), "spec.request is for user \"system:admin\""),
        (
            of(&request("system:sre-break-glass:me", masters, &[])),
            "begin with \"system:customer-break-glass:\"",
        ),
        (
            of(&request("system:customer-break-glass:", masters, &[])),
            "ask for subject /CN=system:customer-break-glass:<name>",
        ),
        (
            of(&request("system:customer-break-glass:me", "devs", &[])),
            "organizations [\"devs\"], which must be exactly [\"system:masters\"]",
        ),
        (of(&request("system:customer-break-glass:me", "", &[])), "organizations [], which must be exactly"),
        (of(&request("system:customer-break-glass:me", masters, &["a.b"])), "leave subjectAltName out"),
    ];
    for (csr, words) in cases {
        match verdict(&csr) {
            Verdict::Fail(why) => assert!(why.contains(words), "{why}\n(no {words:?})"),
            other => panic!("{other:?} (should fail: {words})"),
        }
    }
}

#[test]
fn a_certificate_lives_as_long_as_asked_and_never_longer_than_its_authority() {
    let now: Timestamp = "2026-11-16T06:00:00Z".parse().unwrap();
    let life = |asked: Option<i64>| {
        let asked = csr(&good(), |o| o["spec"]["expirationSeconds"] = json!(asked));
        let Verdict::Sign(request, life) = verdict(&asked) else { panic!("not signed") };
        (request, life)
    };
    let hours = SignedDuration::from_hours;
    assert_eq!(life(None).1, hours(36));
    assert_eq!(life(Some(86400)).1, hours(24));
    assert_eq!(life(Some(86400 * 30)).1, hours(36));
    assert_eq!(life(Some(1)).1, SignedDuration::from_mins(10));
    for (left, expected) in [(hours(100), hours(24)), (hours(5), hours(5))] {
        let by = Authority::starting("ca", now, left).unwrap();
        let (request, life) = life(Some(86400));
        let cert = sign(&by, &request, life, now).unwrap();
        let facts = Facts::of(&cert).unwrap();
        assert!(by.signed(&cert).unwrap());
        assert_eq!(facts.not_after, now + expected);
        assert_eq!(facts.common_name, "system:customer-break-glass:me");
        assert_eq!(facts.organizations.iter().collect::<Vec<_>>(), ["system:masters"]);
    }
}
