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
    assert_eq!(Store::names(&announced), ["system-admin-signer", "client-ca"]);
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

/// Who has a certificate for emergencies, or of the user's own authority (`configuration.apiServer.clientCA`), is a client of
/// the API server as long as the PKI operator, or the user, says so.
#[test]
fn authorities_of_others_are_believed_as_long_as_they_are_in_their_bundle() {
    let mut scope = self_managed();
    believed_while_there(&scope, "total-client-ca");
    scope.configuration["apiServer"]["clientCA"]["name"] = serde_json::json!("mine");
    believed_while_there(&scope, "mine");
}

fn believed_while_there(scope: &Scope, bundle: &str) {
    let mut store = settled(scope);
    let glass = pki::Authority::starting("glass", now(), SignedDuration::from_hours(24)).unwrap();
    let put = |store: &mut Store, pem: &str| {
        let data = Data::from([("ca-bundle.crt".to_owned(), pem.as_bytes().to_vec())]);
        store.0.insert((Kind::ConfigMap, bundle.to_owned()), data);
    };
    let trusted = |store: &Store| {
        let all = store.data(Kind::ConfigMap, "client-ca").unwrap()["ca.crt"].clone();
        pki::Bundle::new().with(&String::from_utf8(all).unwrap())
    };
    put(&mut store, glass.cert());
    let added = plan(scope, &store, &idle, now()).unwrap();
    assert_eq!(Store::names(&added), ["client-ca"]);
    store.keep(&added);
    assert!(trusted(&store).contains(glass.cert()));
    assert!(plan(scope, &store, &idle, now()).unwrap().writes.is_empty());
    put(&mut store, "");
    let removed = plan(scope, &store, &idle, now()).unwrap();
    assert_eq!(Store::names(&removed), ["client-ca"]);
    store.keep(&removed);
    assert!(!trusted(&store).contains(glass.cert()) && !trusted(&store).is_empty());
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

fn kubeconfig(plan: &Plan, name: &str) -> String {
    let w = plan.writes.iter().find(|w| w.name == name).unwrap();
    String::from_utf8(w.data["kubeconfig"].clone()).unwrap()
}

/// A name that a user gave the API has a kubeconfig, and is in the API's certificate unless the user brought one for it.
#[test]
fn a_name_of_the_users_own_leads_to_the_api() {
    let store = settled(&self_managed());
    assert!(store.data(Kind::Secret, "custom-admin-kubeconfig").is_none());
    let mut scope = self_managed();
    scope.endpoints.custom_api = Some("api.custom.example.com".into());
    let next = plan(&scope, &store, &idle, now()).unwrap();
    assert_eq!(Store::names(&next), ["kas-server-crt", "custom-admin-kubeconfig"]);
    assert!(next.writes[0].why.contains("missing api.custom.example.com"), "{}", next.writes[0].why);
    let ours = kubeconfig(&next, "custom-admin-kubeconfig");
    assert!(ours.contains("https://api.custom.example.com:7443"), "{ours}");
    // The user's own certificate serves it, is all that is shown, and is trusted.
    scope.configuration["apiServer"]["servingCerts"]["namedCertificates"] = serde_json::json!([
        {"names": ["*.custom.example.com"], "servingCertificate": {"name": "theirs"}}]);
    let mut with = settled(&self_managed());
    let shown: Data = [("tls.crt".to_owned(), b"-----BEGIN CERTIFICATE-----\n".to_vec())].into();
    with.0.insert((Kind::Secret, "theirs".into()), shown);
    let next = plan(&scope, &with, &idle, now()).unwrap();
    assert_eq!(Store::names(&next), ["custom-admin-kubeconfig"]);
    assert!(kubeconfig(&next, "custom-admin-kubeconfig").len() > ours.len(), "more is trusted");
}

/// Machines trust an authority of their own, and through its rotation the old and the new.
#[test]
fn ignition_has_an_authority_of_its_own() {
    let scope = self_managed();
    let mut store = settled(&scope);
    let all = leaves(&scope);
    for leaf in ["ignition-server", "ignition-server-serving-cert"] {
        assert_eq!(all.iter().find(|l| l.secret == leaf).unwrap().authority, "ignition-server-ca-cert");
    }
    let tls = |s: &Store| s.data(Kind::Secret, "ignition-server-ca-cert").unwrap()["tls.crt"].clone();
    let old = tls(&store);
    assert_eq!(old, store.data(Kind::Secret, "ignition-server-ca-cert").unwrap()["ca.crt"]);
    let turn = |ca: &str| Known {
        asked: (ca == "ignition-server-ca-cert").then(|| "now".to_owned()),
        ..Known::default()
    };
    let next = plan(&scope, &store, &turn, now()).unwrap();
    assert_eq!(Store::names(&next), ["ignition-server-ca-cert"], "its successor is announced");
    store.keep(&next);
    assert!(tls(&store).starts_with(&old) && tls(&store).len() > old.len(), "both are trusted");
}

/// What the control plane's programs trust: their own, and whom the user trusts.
#[test]
fn the_users_authorities_are_trusted_besides_ours() {
    let bundle = |s: &Store| {
        let data = s.data(Kind::ConfigMap, "trusted-ca-bundle-managed").unwrap();
        String::from_utf8(data["ca-bundle.crt"].clone()).unwrap()
    };
    let mut store = settled(&self_managed());
    let ours = bundle(&store);
    let theirs = store.data(Kind::Secret, "etcd-signer").unwrap()["ca.crt"].clone();
    store.0.insert((Kind::ConfigMap, "user-ca-bundle".into()), [("ca-bundle.crt".to_owned(), theirs)].into());
    let scope = Scope { trust_bundle: Some("user-ca-bundle".into()), ..self_managed() };
    let next = plan(&scope, &store, &idle, now()).unwrap();
    assert_eq!(Store::names(&next), ["trusted-ca-bundle-managed"]);
    store.keep(&next);
    assert_eq!(bundle(&store).matches("BEGIN").count(), ours.matches("BEGIN").count() + 1);
}

/// Somebody else looks after what is there; what is not there is made all the same.
#[test]
fn certificates_are_left_alone_where_somebody_says_so() {
    let mut store = settled(&self_managed());
    let mut scope = self_managed();
    scope.annotations.insert("hypershift.openshift.io/disable-pki-reconciliation".into(), "true".into());
    scope.endpoints.oauth.host = "login.example.com".into();
    store.0.remove(&(Kind::Secret, "cvo-server".to_owned()));
    let all = |_: &str| Known { asked: Some("now".into()), ..Known::default() };
    let much_later = now() + SignedDuration::from_hours(24 * 364);
    let next = plan(&scope, &store, &all, much_later).unwrap();
    assert_eq!(Store::names(&next), ["cvo-server"]);
    assert!(next.rotating.is_empty());
}

#[test]
fn certificates_live_as_long_as_somebody_says() {
    let store = settled(&self_managed());
    let hours = SignedDuration::from_hours;
    let lives = control_plane::scope::Lives { life: hours(2400), renew_before: hours(720) };
    let scope = Scope { leaves: lives, ..self_managed() };
    let mut store = store;
    let next = plan(&scope, &store, &idle, now()).unwrap();
    assert!(next.writes.iter().any(|w| w.name == "kas-server-crt" && w.why.contains("its life")));
    assert!(!Store::names(&next).iter().any(|n| AUTHORITIES.iter().any(|c| c.secret == *n)));
    store.keep(&next);
    let settled = plan(&scope, &store, &idle, now()).unwrap();
    assert_eq!(Store::names(&settled), Vec::<&str>::new());
    assert_eq!(settled.until, Some(now() + hours(2400 - 720)));
}
