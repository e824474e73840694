use super::*;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use proptest::prelude::*;
use serde_json::json;

const URL: &str = "https://m/subscriptions/s/resourceGroups/g/providers/A.B/c/d?api-version=2024-01-01";
const WAIT: Duration = Duration::from_secs(30);

fn answer(status: u16, headers: &[(&'static str, &str)], body: Option<Value>) -> Answer {
    let headers: HeaderMap = headers.iter().map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap())).collect();
    let body = body.map_or_else(Bytes::new, |b| Bytes::from(b.to_string()));
    Answer { status: StatusCode::from_u16(status).unwrap(), headers, body }
}

fn state(s: &str) -> Option<Value> {
    Some(json!({"id": "/x", "properties": {"provisioningState": s}}))
}

fn status(s: &str) -> Option<Value> {
    Some(json!({"status": s}))
}

/// Runs a script of answers; returns the URLs asked and the last step. Each state passes through serde.
fn run(verb: Verb, script: &[Answer]) -> (Vec<String>, Step) {
    let now = Timestamp::UNIX_EPOCH;
    let (mut lro, mut step) = Lro::start(verb, URL, &script[0], WAIT, now).unwrap();
    let mut asked = Vec::new();
    for a in &script[1..] {
        let Step::Poll { url, .. } = &step else { panic!("over before {a:?}: {step:?}") };
        asked.push(url.clone());
        lro = serde_json::from_str(&serde_json::to_string(&lro).unwrap()).unwrap();
        step = lro.step(a, now);
    }
    (asked, step)
}

fn done(verb: Verb, script: &[Answer]) -> Outcome {
    match run(verb, script).1 {
        Step::Done(o) => o,
        other => panic!("{other:?}"),
    }
}

const AAO: (&str, &str) = ("azure-asyncoperation", "https://m/op/1?s=x");
const LOC: (&str, &str) = ("location", "https://m/result/1");

#[test]
fn every_shape_of_the_reference() {
    let get = Outcome::Get(URL.to_owned());
    // Virtual networks: 201 Updating, status, then the resource.
    let vnet = [
        answer(201, &[AAO, ("retry-after", "3")], state("Updating")),
        answer(200, &[], status("InProgress")),
        answer(200, &[], status("Succeeded")),
    ];
    let (asked, last) = run(Verb::Put, &vnet);
    assert_eq!(
        (asked.as_slice(), last),
        (["https://m/op/1?s=x", "https://m/op/1?s=x"].map(String::from).as_slice(), Step::Done(get.clone()))
    );
    // Load balancers: 201 with an operation, but already Succeeded: no poll.
    assert_eq!(
        done(Verb::Put, &[answer(201, &[AAO], state("Succeeded"))]),
        Outcome::Body(state("Succeeded"))
    );
    // NICs: no operation at all; identities: a relative Location beside 201 is not one.
    assert_eq!(done(Verb::Put, &[answer(201, &[], state("Succeeded"))]), Outcome::Body(state("Succeeded")));
    assert_eq!(
        done(Verb::Put, &[answer(201, &[("location", "/subscriptions/s")], Some(json!({"id": "/y"})))]),
        Outcome::Body(Some(json!({"id": "/y"})))
    );
    // Private DNS: 202 {} and a status that is itself answered with 202.
    let dns = [
        answer(202, &[AAO, LOC, ("retry-after", "30")], Some(json!({}))),
        answer(202, &[AAO], status("InProgress")),
        answer(200, &[], status("Succeeded")),
    ];
    assert_eq!(done(Verb::Put, &dns), get);
    // Disks: 202, both headers, the resource in the operation.
    let disk = [
        answer(202, &[AAO, LOC], state("Updating")),
        answer(200, &[], Some(json!({"status": "Succeeded", "properties": {"output": {"id": "/disk"}}}))),
    ];
    assert_eq!(done(Verb::Put, &disk), Outcome::Body(Some(json!({"id": "/disk"}))));
    // Storage: 202 without a body, Location only; the resource is the answer at the end.
    let storage = [
        answer(202, &[LOC, ("retry-after", "17")], None),
        answer(202, &[LOC], None),
        answer(200, &[], state("Succeeded")),
    ];
    assert_eq!(done(Verb::Put, &storage), Outcome::Body(state("Succeeded")));
    // Vaults: no header, the body's state.
    let vault = [
        answer(200, &[], state("RegisteringDns")),
        answer(200, &[], state("RegisteringDns")),
        answer(200, &[], state("Succeeded")),
    ];
    let (asked, last) = run(Verb::Put, &vault);
    assert_eq!((asked[0].as_str(), last), (URL, Step::Done(Outcome::Body(state("Succeeded")))));
    // OpenShift clusters: statuses with words of their own.
    let aro = [
        answer(201, &[AAO], state("Creating")),
        answer(200, &[], status("Creating")),
        answer(200, &[], status("Whatever")),
        answer(200, &[], status("Succeeded")),
    ];
    assert_eq!(done(Verb::Put, &aro), get);
    // Groups: Location only, polls 202 … 200 empty.
    let group = [
        answer(202, &[LOC], None),
        answer(202, &[("location", "https://m/result/2")], None),
        answer(200, &[], None),
    ];
    let (asked, last) = run(Verb::Delete, &group);
    assert_eq!((asked[1].as_str(), last), ("https://m/result/2", Step::Done(Outcome::Body(None))));
    // Deletes: at once, or absent, or with both headers.
    assert_eq!(done(Verb::Delete, &[answer(204, &[], None)]), Outcome::Body(None));
    assert_eq!(
        done(Verb::Delete, &[answer(202, &[AAO, LOC], None), answer(200, &[], status("Succeeded"))]),
        Outcome::Body(None)
    );
    // A delete that only shows in the resource: over when it is gone.
    let shown =
        [answer(202, &[], state("Deleting")), answer(200, &[], state("Deleting")), answer(404, &[], None)];
    assert_eq!(done(Verb::Delete, &shown), Outcome::Body(None));
    // Actions: the result is at Location.
    assert_eq!(
        done(Verb::Post, &[answer(202, &[AAO, LOC], None), answer(200, &[], status("Succeeded"))]),
        Outcome::Get("https://m/result/1".into())
    );
    assert_eq!(
        done(Verb::Post, &[answer(202, &[LOC], None), answer(200, &[], Some(json!({"keys": 1})))]),
        Outcome::Body(Some(json!({"keys": 1})))
    );
    // Updates.
    assert_eq!(
        done(Verb::Patch, &[answer(200, &[AAO], state("Updating")), answer(200, &[], status("Succeeded"))]),
        get
    );
}

#[test]
fn failures_say_why() {
    let why = json!({"status": "Failed", "error": {"code": "AllocationFailed", "message": "no room"}});
    let code = |verb, script: &[Answer]| match run(verb, script).1 {
        Step::Failed(d) => d.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        code(Verb::Put, &[answer(201, &[AAO], state("Creating")), answer(200, &[], Some(why))]),
        "AllocationFailed"
    );
    assert_eq!(
        code(Verb::Put, &[answer(201, &[AAO], state("Creating")), answer(200, &[], status("Canceled"))]),
        "Canceled"
    );
    assert_eq!(
        code(Verb::Put, &[answer(200, &[], state("Creating")), answer(200, &[], state("Failed"))]),
        "Failed"
    );
    assert_eq!(code(Verb::Put, &[answer(201, &[], state("Failed"))]), "Failed");
    assert_eq!(
        code(Verb::Delete, &[answer(202, &[], state("Deleting")), answer(200, &[], state("Succeeded"))]),
        "NotDeleted"
    );
    let gone = answer(404, &[], Some(json!({"error": {"code": "NotFound", "message": "m"}})));
    assert_eq!(code(Verb::Put, &[answer(202, &[LOC], None), gone.clone()]), "NotFound");
    let conflict = answer(409, &[], Some(json!({"error": {"code": "Conflict", "message": "m"}})));
    assert_eq!(code(Verb::Delete, &[answer(202, &[LOC], None), conflict]), "Conflict");
    assert_eq!(code(Verb::Put, &[answer(202, &[LOC], None), answer(400, &[], None)]), "Http400");
    // A delete whose operation is deleted with it is over when the resource is gone, and not before.
    let (asked, last) = run(Verb::Delete, &[answer(202, &[AAO], None), gone.clone(), gone.clone()]);
    assert_eq!((asked[1].as_str(), last), (URL, Step::Done(Outcome::Body(None))));
    assert_eq!(
        code(Verb::Delete, &[answer(202, &[AAO], None), gone, answer(200, &[], state("Succeeded"))]),
        "OperationNotFound"
    );
    assert_eq!(
        Lro::start(Verb::Delete, URL, &answer(202, &[], None), WAIT, Timestamp::UNIX_EPOCH).err(),
        Some(NoPolling)
    );
}

#[test]
fn waits_as_told_and_resolves_relative_urls() {
    let now = Timestamp::UNIX_EPOCH;
    let start = |a: &Answer| Lro::start(Verb::Put, URL, a, WAIT, now).unwrap();
    let (mut lro, step) = start(&answer(202, &[("location", "/op/2?x=1"), ("retry-after-ms", "20")], None));
    assert_eq!(step, Step::Poll { url: "https://m/op/2?x=1".into(), after: Duration::from_millis(20) });
    assert_eq!(
        lro.step(&answer(202, &[], None), now),
        Step::Poll { url: "https://m/op/2?x=1".into(), after: WAIT }
    );
    let zero = lro.clone().step(&answer(202, &[("retry-after", "0")], None), now);
    assert_eq!(zero, Step::Poll { url: "https://m/op/2?x=1".into(), after: WAIT });
    assert_eq!(lro.resume(), Step::Poll { url: "https://m/op/2?x=1".into(), after: Duration::ZERO });
    lro.step(&answer(200, &[], None), now);
    assert!(lro.is_over());
    assert_eq!(lro.resume(), Step::Done(Outcome::Get(URL.into())), "a finished write is read again");
}

proptest! {
    /// Whatever arrives: no panic, the state survives serialising, and once over it stays over.
    #[test]
    fn total_and_stable(
        verb in prop_oneof![Just(Verb::Put), Just(Verb::Patch), Just(Verb::Post), Just(Verb::Delete)],
        script in proptest::collection::vec((prop_oneof![Just(200_u16), Just(201), Just(202), Just(204), Just(404), Just(409), Just(500)], 0_u8..6, "[ -~]{0,12}", 0_u8..4), 1..8),
    ) {
        let now = Timestamp::UNIX_EPOCH;
        let make = |(s, h, word, b): &(u16, u8, String, u8)| {
            let headers: &[(&'static str, &str)] = match h { 0 => &[AAO], 1 => &[LOC], 2 => &[AAO, LOC], 3 => &[("location", "::bad::")], 4 => &[("retry-after", "x")], _ => &[] };
            let body = match b { 0 => None, 1 => state(word), 2 => status(word), _ => Some(json!([word])) };
            answer(*s, headers, body)
        };
        if let Ok((mut lro, mut step)) = Lro::start(verb, URL, &make(&script[0]), WAIT, now) {
            for a in &script[1..] {
                let over = !matches!(step, Step::Poll { .. });
                let copy: Lro = serde_json::from_str(&serde_json::to_string(&lro).unwrap()).unwrap();
                prop_assert_eq!(&copy, &lro);
                prop_assert_eq!(lro.is_over(), over);
                let next = lro.step(&make(a), now);
                if over { prop_assert!(matches!(next, Step::Done(_))); }
                step = next;
            }
        }
    }
}
