//! Conditions that depend on more than one thing.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn object(status: Value) -> DynamicObject {
    serde_json::from_value(json!({"metadata": {"name": "demo"}, "status": status})).unwrap()
}

/// A pass that found nothing.
fn nothing<'a>(hc: &'a HostedCluster, pause: &'a Result<Pause, String>) -> Seen<'a> {
    Seen {
        hc,
        plane: None,
        links: &[],
        snapshot: None,
        problems: &[],
        release: None,
        gate: &Gate::Open,
        pause,
        verdict: None,
        asks: true,
        ignition: Rollout::default(),
        ignition_host: None,
        error: None,
        back: [false; 3],
        size: None,
        swift: false,
        exposed: None,
    }
}

fn said(before: &DynamicObject, seen: &Seen<'_>, kind: &str) -> Option<(Status, String)> {
    let all = Conditions::of(&status(before, seen, Timestamp::UNIX_EPOCH));
    all.get(kind).map(|c| (c.status, c.reason.clone()))
}

#[test]
fn what_azure_says_of_places_blocks_only_what_was_not_begun() {
    let (hc, pause, object) = (HostedCluster::default(), Ok(Pause::No), object(json!({})));
    let verdict = Verdict { places: vec!["the security group is gone".into()], ..Verdict::default() };
    let places = [Problem::configuration("the security group is gone")];
    let both = [places[0].clone(), Problem::configuration("the spec is wrong")];
    let why = |plane, problems| {
        let seen = Seen { plane, problems, verdict: Some(&verdict), ..nothing(&hc, &pause) };
        said(&object, &seen, c::PROGRESSING).unwrap().1
    };
    assert_eq!(why(None, &places[..]), reason::BLOCKED);
    assert_eq!(why(Some(&object), &places[..]), reason::PROGRESSING, "what runs is looked after");
    assert_eq!(why(Some(&object), &both[..]), reason::BLOCKED);
}

#[test]
fn a_public_endpoint_is_told_of_as_long_as_it_comes_and_goes() {
    let (hc, pause) = (HostedCluster::default(), Ok(Pause::No));
    let was = object(json!({"conditions": [{"type": c::PUBLIC_ENDPOINT_EXPOSED, "status": "True",
        "reason": "SharedIngressConfigured", "message": "", "lastTransitionTime": "2026-03-01T00:00:00Z"}]}));
    let is = |swift, exposed| {
        let seen = Seen { swift, exposed, ..nothing(&hc, &pause) };
        said(&was, &seen, c::PUBLIC_ENDPOINT_EXPOSED).map(|(status, _)| status)
    };
    assert_eq!(is(true, Some(Exposed::Shut)), Some(Status::False));
    assert_eq!(is(true, None), Some(Status::True), "whoever does not know yet takes nothing back");
    assert_eq!(is(false, None), None);
}
