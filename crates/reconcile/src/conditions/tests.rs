use super::combine::Severity;
use super::*;
use proptest::prelude::*;
use serde_json::json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn condition(kind: &str, status: Status, reason: &str, message: &str) -> Condition {
    let mut cs = Conditions::default();
    cs.set(Finding::new(kind, status, reason, message), Some(1), at(1));
    cs.get(kind).unwrap().clone()
}

#[test]
fn a_condition_begins_when_its_status_changes() {
    let mut cs = Conditions::default();
    assert!(cs.set(Finding::new("Available", false, "Starting", "a"), Some(1), at(10)));
    assert!(!cs.set(Finding::new("Available", false, "Starting", "a"), Some(1), at(20)), "no news");
    assert!(cs.set(Finding::new("Available", false, "Waiting", "b"), Some(2), at(30)));
    assert_eq!(cs.get("Available").unwrap().last_transition_time, at(10), "still not available");
    assert!(cs.set(Finding::new("Available", true, AS_EXPECTED, ""), Some(2), at(40)));
    assert_eq!(cs.get("Available").unwrap().last_transition_time, at(40));
}

#[test]
fn written_as_the_api_has_it_and_read_back_in_order() {
    let mut cs = Conditions::default();
    let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
    cs.set(Finding::new("Ready", true, AS_EXPECTED, ""), Some(3), now);
    cs.set(Finding::new("Available", Status::Unknown, "", "?"), None, now);
    let text = json!([
        {"type": "Available", "status": "Unknown", "reason": "Unknown", "message": "?", "lastTransitionTime": "2026-01-02T03:04:05Z"},
        {"type": "Ready", "status": "True", "reason": "AsExpected", "message": "", "observedGeneration": 3,
         "lastTransitionTime": "2026-01-02T03:04:05Z"}]);
    assert_eq!(cs.to_value(), text);
    assert_eq!(Conditions::of(&json!({"conditions": text})), cs);
    let odd = json!({"conditions": [{"type": "A", "status": "True", "lastTransitionTime": null}, "what", {"status": "True"}]});
    assert_eq!(Conditions::of(&odd).iter().map(|c| &*c.kind).collect::<Vec<_>>(), ["A"]);
}

#[test]
fn a_mirror_shows_when_it_began_there() {
    let mut source = Conditions::default();
    source.set(Finding::new("EtcdAvailable", false, "QuorumLost", "1 of 3"), Some(9), at(5));
    let mut cs = Conditions::default();
    assert!(cs.mirror("Etcd", None, Some(2), at(7)));
    assert_eq!(cs.get("Etcd").unwrap().reason, NOT_REPORTED);
    assert!(cs.mirror("Etcd", source.get("EtcdAvailable"), Some(2), at(8)));
    let c = cs.get("Etcd").unwrap();
    assert_eq!((c.status, &*c.reason, c.observed_generation), (Status::False, "QuorumLost", Some(2)));
    assert_eq!(c.last_transition_time, at(5));
    assert!(!cs.mirror("Etcd", source.get("EtcdAvailable"), Some(2), at(9)));
}

#[test]
fn the_worst_counts_and_is_named() {
    let good = condition("Available", Status::True, AS_EXPECTED, "");
    let bad = condition("Available", Status::False, "CrashLoop", "exit 1");
    let p = Polarity::default();
    let f = aggregate("Available", "Available", [("etcd", Some(&good)), ("kas", Some(&good))], p);
    assert_eq!((f.status, &*f.reason), (Status::True, AS_EXPECTED));
    let f =
        aggregate("Available", "Available", [("kas", Some(&bad)), ("cvo", None), ("etcd", Some(&good))], p);
    assert_eq!(
        (f.status, &*f.reason, &*f.message),
        (Status::False, "CrashLoop", "kas: exit 1; cvo: not reported yet")
    );
    let f = aggregate("Available", "Available", [], p);
    assert_eq!((f.status, &*f.reason), (Status::Unknown, NOT_REPORTED));
}

#[test]
fn negative_conditions_are_good_when_false() {
    let p = Polarity { negative: &["Degraded"] };
    let mut cs = Conditions::default();
    cs.set(Finding::new("Available", true, AS_EXPECTED, ""), None, at(1));
    cs.set(Finding::new("Degraded", false, AS_EXPECTED, ""), None, at(1));
    assert_eq!(summarise("Ready", &["Available", "Degraded"], &cs, p).status, Status::True);
    cs.set(Finding::new("Degraded", true, "Slow", "disk"), None, at(1));
    let f = summarise("Ready", &["Available", "Degraded"], &cs, p);
    assert_eq!((f.status, &*f.reason, &*f.message), (Status::False, "Slow", "Degraded: disk"));
    let f = summarise("Degraded", &["Available", "Degraded"], &cs, p);
    assert_eq!(f.status, Status::True, "the same trouble under a negative name");
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![Just(Status::True), Just(Status::False), Just(Status::Unknown)]
}

fn child() -> impl Strategy<Value = (String, Option<Condition>)> {
    let c = (status(), "[A-Z][a-z]{0,3}", "\\PC{0,400}").prop_map(|(s, r, m)| condition("T", s, &r, &m));
    ("[a-z]{1,6}", prop::option::weighted(0.9, c))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn aggregates_are_the_worst_bounded_and_the_same_in_any_order(
        (children, shuffled) in prop::collection::vec(child(), 0..24)
            .prop_flat_map(|c| (Just(c.clone()), Just(c).prop_shuffle())),
        negative in any::<bool>(),
    ) {
        let p = Polarity { negative: if negative { &["T"] } else { &[] } };
        let run = |cs: &[(String, Option<Condition>)]|
            aggregate("T", "T", cs.iter().map(|(n, c)| (&**n, c.as_ref())), p);
        let f = run(&children);
        prop_assert_eq!(&f, &run(&shuffled));
        prop_assert!(f.message.len() <= LONGEST_MESSAGE);
        let worst = children.iter()
            .map(|(_, c)| c.as_ref().map_or(Severity::Unknown, |c| p.severity("T", c.status))).max();
        prop_assert_eq!(p.severity("T", f.status), worst.unwrap_or(Severity::Unknown));
        // The worst child is named, and aggregating an aggregate changes nothing.
        if let Some(Severity::Bad) = worst {
            let named = children.iter().any(|(n, c)| c.as_ref().is_some_and(|c| p.severity("T", c.status) == Severity::Bad)
                && f.message.starts_with(&format!("{n}: ")));
            prop_assert!(named, "{}", f.message);
        }
    }

    #[test]
    fn setting_twice_is_setting_once_and_order_is_by_type(
        sets in prop::collection::vec(("[A-D]", status(), "[A-Z]{0,2}", 0i64..100), 0..30)
    ) {
        let mut cs = Conditions::default();
        let mut now = 0;
        for (kind, s, reason, pass) in sets {
            now += pass;
            let before = cs.get(&kind).cloned();
            let finding = Finding::new(&kind, s, &reason, "m");
            cs.set(finding.clone(), Some(1), at(now));
            let c = cs.get(&kind).unwrap().clone();
            match before {
                Some(b) if b.status == s => prop_assert_eq!(c.last_transition_time, b.last_transition_time),
                _ => prop_assert_eq!(c.last_transition_time, at(now)),
            }
            prop_assert!(!cs.set(finding, Some(1), at(now + 1)));
            prop_assert!(cs.iter().map(|c| &c.kind).is_sorted());
            prop_assert_eq!(&Conditions::of(&json!({"conditions": cs.to_value()})), &cs);
        }
    }

    #[test]
    fn reasons_are_always_valid(reason in "\\PC{0,40}") {
        let f = Finding::new("T", true, &reason, "");
        let ok = |c: char| c.is_ascii_alphanumeric() || "_,:".contains(c);
        prop_assert!(f.reason.starts_with(|c: char| c.is_ascii_alphabetic()) && f.reason.chars().all(ok));
        prop_assert!(!f.reason.ends_with([',', ':']));
    }
}
