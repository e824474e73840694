//! Passes over a control plane's certificates: once everything, then nothing, then only what has to be.

use crate::world::{managed, self_managed};
use control_plane::Scope;
use control_plane::certificates::plan::{Data, Kept, Kind, Plan, plan};
use control_plane::certificates::{AUTHORITIES, leaves};
use jiff::{SignedDuration, Timestamp};
use pki::rotation::{Known, Step};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
struct Store(BTreeMap<(Kind, String), Data>);

impl Kept for Store {
    fn data(&self, kind: Kind, name: &str) -> Option<Arc<Data>> {
        self.0.get(&(kind, name.to_owned())).cloned().map(Arc::new)
    }
}

impl Store {
    fn keep(&mut self, plan: &Plan) {
        for w in &plan.writes {
            self.0.entry((w.kind, w.name.clone())).or_default().extend(w.data.clone());
        }
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.writes.iter().map(|w| w.name.as_str()).collect()
    }
}

fn now() -> Timestamp {
    "2026-11-16T06:00:00Z".parse().unwrap()
}

fn idle(_: &str) -> Known {
    Known::default()
}

fn settled(scope: &Scope) -> Store {
    let mut store = Store::default();
    let first = plan(scope, &store, &idle, now()).unwrap();
    assert!(first.writes.iter().all(|w| w.why == "there is none"));
    store.keep(&first);
    store
}

#[test]
fn the_first_pass_makes_everything_and_the_second_nothing() {
    for scope in [self_managed(), managed()] {
        let store = settled(&scope);
        assert!(store.0.len() > AUTHORITIES.len() + leaves(&scope).len());
        let second = plan(&scope, &store, &idle, now()).unwrap();
        assert_eq!(Store::names(&second), Vec::<&str>::new());
        assert_eq!(
            second.until,
            Some(now() + SignedDuration::from_hours(24 * 335)),
            "the first leaf to be renewed"
        );
    }
}

#[test]
fn a_new_name_reissues_one_certificate_and_what_carries_it() {
    let store = settled(&self_managed());
    let mut scope = self_managed();
    scope.endpoints.oauth.host = "login.example.com".into();
    let next = plan(&scope, &store, &idle, now()).unwrap();
    assert_eq!(Store::names(&next), ["oauth-server-crt"]);
    assert!(next.writes[0].why.contains("missing login.example.com"), "{}", next.writes[0].why);
}

#[test]
fn what_ends_is_renewed_with_the_kubeconfigs_that_show_it() {
    let store = settled(&self_managed());
    let later = now() + SignedDuration::from_hours(24 * 336);
    let next = plan(&self_managed(), &store, &idle, later).unwrap();
    let names = Store::names(&next);
    assert!(names.contains(&"kas-server-crt") && names.contains(&"admin-kubeconfig"));
    assert!(!names.iter().any(|n| AUTHORITIES.iter().any(|c| c.secret == *n)), "authorities live longer");
    assert!(!names.contains(&"root-ca"), "and so nobody's trust changes");
}

/// A whole rotation, step by step: at no time is anything shown that is not trusted.
#[test]
fn an_authority_is_replaced_without_a_gap() {
    let scope = self_managed();
    let mut store = settled(&scope);
    let old = store.data(Kind::Secret, "system-admin-signer").unwrap()["ca.crt"].clone();
    let trusted = |store: &Store| {
        String::from_utf8(store.data(Kind::ConfigMap, "client-ca").unwrap()["ca.crt"].clone()).unwrap()
    };
    let asked = |bundle_in_use, leaves_in_use| {
        move |name: &str| match name {
            "system-admin-signer" => {
                Known { asked: Some("now".into()), bundle_in_use, leaves_in_use, ..Known::default() }
            }
            _ => Known::default(),
        }
    };
    let kubeconfig = |s: &Store| s.data(Kind::Secret, "admin-kubeconfig").unwrap();
    let before = kubeconfig(&store);

    let announced = plan(&scope, &store, &asked(false, false), now()).unwrap();
    assert_eq!(Store::names(&announced), ["system-admin-signer", "client-ca", "total-client-ca"]);
    store.keep(&announced);
    let waiting = plan(&scope, &store, &asked(false, false), now()).unwrap();
    assert!(waiting.writes.is_empty());
    assert_eq!(waiting.rotating, [("system-admin-signer", Step::AwaitTrust)]);
    assert_eq!(kubeconfig(&store), before, "nobody shows the new one before it is trusted");

    let promoted = plan(&scope, &store, &asked(true, false), now()).unwrap();
    store.keep(&promoted);
    assert!(Store::names(&promoted).contains(&"system-admin-client"));
    assert_ne!(kubeconfig(&store), before);
    let old = String::from_utf8(old).unwrap();
    assert!(trusted(&store).contains(old.trim()), "the old one is trusted while somebody may show it");

    let retired = plan(&scope, &store, &asked(true, true), now()).unwrap();
    store.keep(&retired);
    assert!(!trusted(&store).contains(old.trim()));
    let done = plan(&scope, &store, &asked(true, true), now()).unwrap();
    assert!(done.writes.is_empty() && done.rotating.is_empty(), "one wish, one rotation");
}

#[test]
fn a_damaged_authority_is_not_replaced_in_silence() {
    let mut store = settled(&self_managed());
    let damaged: Data =
        [("ca.crt".to_owned(), b"nonsense".to_vec()), ("ca.key".to_owned(), b"x".to_vec())].into();
    store.0.insert((Kind::Secret, "root-ca".into()), damaged);
    let said = plan(&self_managed(), &store, &idle, now()).unwrap_err().to_string();
    assert!(said.contains("cannot read a certificate"), "{said}");
    store.0.insert((Kind::Secret, "root-ca".into()), Data::new());
    let said = plan(&self_managed(), &store, &idle, now()).unwrap_err().to_string();
    assert!(said.contains("no ca.crt and ca.key"), "{said}");
}

/// Somebody deletes or spoils a certificate: it is made again, and nothing else.
#[test]
fn what_is_lost_is_made_again() {
    let mut store = settled(&self_managed());
    store.0.remove(&(Kind::Secret, "cvo-server".into()));
    let next = plan(&self_managed(), &store, &idle, now()).unwrap();
    assert_eq!(Store::names(&next), ["cvo-server"]);
    store.keep(&next);
    store
        .0
        .get_mut(&(Kind::Secret, "kcm-server".into()))
        .unwrap()
        .insert("tls.key".into(), b"other".to_vec());
    let next = plan(&self_managed(), &store, &idle, now()).unwrap();
    assert_eq!(
        (Store::names(&next), next.writes[0].why.as_str()),
        (vec!["kcm-server"], "its key is not its own")
    );
}

/// What is written in each step when everything is replaced at once, and that a step lasts as long as was asked.
#[test]
fn all_authorities_step_by_step() {
    use std::fmt::Write;
    let scope = managed();
    let mut store = settled(&scope);
    let hour = SignedDuration::from_hours(1);
    let known = |_: &str| Known {
        asked: Some("now".into()),
        bundle_in_use: true,
        leaves_in_use: true,
        overlap: hour,
    };
    let (mut at, mut told) = (now(), String::new());
    for step in ["announced", "promoted", "retired"] {
        let next = plan(&scope, &store, &known, at).unwrap();
        assert!(next.writes.iter().any(|w| w.name == "root-ca"));
        writeln!(told, "{step}").unwrap();
        for w in &next.writes {
            writeln!(told, "  {:?} {}: {}", w.kind, w.name, w.why).unwrap();
        }
        store.keep(&next);
        let early = plan(&scope, &store, &known, at + hour / 2).unwrap();
        assert_eq!(Store::names(&early), Vec::<&str>::new(), "{step} lasts an hour");
        assert!(step == "retired" || early.until == Some(at + hour), "{:?}", early.until);
        at += hour;
    }
    let done = plan(&scope, &store, &known, at).unwrap();
    assert!(done.writes.is_empty() && done.rotating.is_empty());
    // Beside the objects, whose directory holds nothing else.
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rotation.txt");
    if let Err(e) = testkit::golden::check(&file, &told, testkit::golden::Mode::from_env()) {
        panic!("{e}");
    }
}
