//! Days of a control plane's authorities, and revocations that are cut short at every step.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::plan::{BUNDLE, Kind, Plan, Seen, plan};
use super::revocation::{
    CLASS_VALID, Facts, Heard, LEAVES, Question, REVOKED, ROOT, Revocation, TRUSTED, question, status,
};
use super::{CLIENTS, Class, Lives, TOTAL};
use clock::Random;
use jiff::{SignedDuration, Timestamp};
use kube::core::DynamicObject;
use pki::{Authority, Bundle, Pair, Private};
use serde_json::json;
use std::collections::BTreeMap;

const NAMESPACE: &str = "clusters-demo";

/// What is stored, a control plane that carries bundles on, and an API server that reads them.
struct Place {
    seen: Seen,
    requests: Vec<DynamicObject>,
    /// Whom the API server believes.
    believed: Bundle,
    now: Timestamp,
    random: Random,
}

impl Place {
    fn new() -> Place {
        Place {
            seen: Seen::default(),
            requests: Vec::new(),
            believed: Bundle::new(),
            now: "2026-11-16T06:00:00.7Z".parse().unwrap(),
            random: Random::seeded(7),
        }
    }

    fn settled() -> Place {
        let mut place = Place::new();
        place.settle();
        place
    }

    fn plan(&self) -> Plan {
        plan(&self.seen, NAMESPACE, Lives::default(), self.now, &self.random).unwrap()
    }

    /// One pass, of which at most so many writes come to pass. Says how many there were.
    fn pass(&mut self, at_most: usize) -> usize {
        self.seen.revocations = self.requests.iter().map(Revocation::read).collect();
        let before = self.seen.clone();
        let mut left = at_most;
        let planned = self.plan();
        for w in &planned.writes {
            if left == 0 {
                return at_most;
            }
            left -= 1;
            self.seen.objects.entry((w.kind, w.name.clone())).or_default().extend(w.data.clone());
        }
        for i in 0..self.requests.len() {
            let r = Revocation::read(&self.requests[i]);
            let facts = Facts::of(&before, r.class.unwrap(), Lives::default(), self.now);
            let asked = question(&before, &r, &facts);
            let heard = asked.as_ref().map(|q| Ok(self.answer(q)));
            let answer = asked.as_ref().zip(heard.as_ref());
            let said = status(&self.requests[i], &before, Lives::default(), answer, self.now);
            if self.requests[i].data["status"] != said {
                if left == 0 {
                    return at_most;
                }
                left -= 1;
                self.requests[i].data["status"] = said;
            }
        }
        at_most - left
    }

    fn answer(&self, q: &Question) -> Heard {
        if self.believed.contains(q.authority().cert()) { Heard::Believed } else { Heard::Refused }
    }

    /// The control plane and the API server come after.
    fn carry(&mut self) {
        let total = self.text(Kind::ConfigMap, TOTAL, BUNDLE);
        self.believed = Bundle::new().with(&self.text(Kind::ConfigMap, CLIENTS, "ca.crt"));
        let clients = BTreeMap::from([("ca.crt".to_owned(), Private::new(total))]);
        self.seen.objects.insert((Kind::ConfigMap, CLIENTS.into()), clients);
    }

    fn settle_by(&mut self, at_most: usize) {
        for _ in 0..200 {
            let (before, told) = (self.text(Kind::ConfigMap, CLIENTS, "ca.crt"), self.believed.pem());
            let done = self.pass(at_most);
            self.carry();
            self.check();
            let still =
                before == self.text(Kind::ConfigMap, CLIENTS, "ca.crt") && told == self.believed.pem();
            if done == 0 && still {
                return;
            }
            self.now += SignedDuration::from_millis(300);
        }
        panic!("it never settles: {:?}", self.requests.iter().map(|r| &r.data["status"]).collect::<Vec<_>>());
    }

    fn settle(&mut self) {
        self.settle_by(usize::MAX);
    }

    /// At no time is a client certificate there that the API server is not at least told to believe.
    fn check(&self) {
        for class in Class::ALL {
            let Some(pair) = self.seen.pair(class.client()) else { continue };
            let told = self.text(Kind::ConfigMap, CLIENTS, "ca.crt");
            let signed = told.split_inclusive("-----END CERTIFICATE-----").filter(|c| c.contains("BEGIN"));
            let ok = signed.into_iter().any(|ca| pki::signed(&pair.cert, ca).unwrap_or(false));
            assert!(ok, "{class:?}: its client certificate is nobody's");
        }
    }

    fn text(&self, kind: Kind, name: &str, key: &str) -> String {
        self.seen.text(kind, name, key).unwrap_or_default().to_owned()
    }

    fn signer(&self, class: Class) -> Authority {
        self.seen.authority(class.signer()).unwrap()
    }

    fn client(&self, class: Class) -> Pair {
        self.seen.pair(class.client()).unwrap()
    }

    fn revoke(&mut self, name: &str, class: &str) {
        let o = json!({"apiVersion": "certificates.hypershift.openshift.io/v1alpha1",
            "kind": "CertificateRevocationRequest",
            "metadata": {"name": name, "uid": name, "generation": 1}, "spec": {"signerClass": class}});
        self.requests.push(serde_json::from_value(o).unwrap());
    }

    fn conditions(&self, at: usize) -> Vec<(String, String)> {
        let all = self.requests[at].data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
        all.iter().map(|c| (text(&c["type"]), text(&c["status"]))).collect()
    }
}

#[test]
fn the_first_passes_make_everything_and_then_nothing() {
    let mut place = Place::new();
    let first = place.plan();
    let names: Vec<&str> = first.writes.iter().map(|w| w.name.as_str()).collect();
    let expected = [
        "customer-system-admin-signer",
        "customer-system-admin-signer-ca",
        "sre-system-admin-signer",
        "sre-system-admin-signer-ca",
        "total-client-ca",
    ];
    assert_eq!(names, expected, "no client certificate before it would be believed");
    assert!(!format!("{first:?}").contains("PRIVATE KEY"), "nothing secret is printed");
    place.settle();
    assert!(place.plan().writes.is_empty());
    assert_ne!(place.signer(Class::Customer).cert(), place.signer(Class::Sre).cert());
    for class in Class::ALL {
        let facts = place.client(class).facts().unwrap();
        assert!(facts.common_name.starts_with(&format!("system:{}:", class.name())));
        assert!(facts.common_name.len() > class.prefix().len() + 40 && facts.client && !facts.server);
        assert_eq!(facts.organizations.iter().collect::<Vec<_>>(), ["system:masters"]);
        assert_eq!(facts.not_after.duration_since(place.now).as_secs() / 60, 36 * 60 - 1);
        let ca = place.signer(class).facts().unwrap();
        assert_eq!(ca.not_after.duration_since(ca.not_before), SignedDuration::from_hours(24 * 7));
    }
}

#[test]
fn a_client_certificate_is_another_after_six_hours_and_an_authority_after_two_days() {
    let mut place = Place::settled();
    let (ca, leaf) = (place.signer(Class::Sre), place.client(Class::Sre));
    let hour = SignedDuration::from_hours(1);
    place.now += hour * 5;
    assert!(place.plan().writes.is_empty());
    place.now += hour;
    place.settle();
    assert_eq!(place.signer(Class::Sre).cert(), ca.cert());
    assert_ne!(place.client(Class::Sre).cert, leaf.cert);
    place.now += hour * 42;
    place.settle();
    let next = place.signer(Class::Sre);
    assert_ne!(next.cert(), ca.cert());
    assert!(
        place.believed.contains(ca.cert()) && place.believed.contains(next.cert()),
        "both, until it ends"
    );
    assert!(next.signed(&place.client(Class::Sre).cert).unwrap());
    // Seven days after the first was made it is over.
    place.now += hour * 24 * 5;
    place.settle();
    assert!(!place.believed.contains(ca.cert()));
}

#[test]
fn an_unusable_authority_is_replaced_and_what_it_signed_is_believed_on() {
    let mut place = Place::settled();
    let ca = place.signer(Class::Customer);
    let data = BTreeMap::from([("tls.crt".to_owned(), Private::new("x"))]);
    place.seen.objects.insert((Kind::Secret, Class::Customer.signer().into()), data);
    place.settle();
    assert!(place.believed.contains(ca.cert()) && place.signer(Class::Customer).cert() != ca.cert());
}

/// Whatever number of writes each life of the operator gets to make, the end is the same.
#[test]
fn a_revocation_comes_to_its_end_however_often_it_is_cut_short() {
    for at_most in [1, 2, 3, usize::MAX] {
        let mut place = Place::settled();
        let (old, other) = (place.signer(Class::Customer), place.signer(Class::Sre));
        let client = place.client(Class::Customer);
        place.revoke("now", "customer-break-glass");
        place.settle_by(at_most);
        let all: Vec<(String, String)> =
            [LEAVES, TRUSTED, REVOKED, ROOT, CLASS_VALID].map(|c| (c.to_owned(), "True".to_owned())).into();
        assert_eq!(place.conditions(0), all, "{at_most}");
        assert!(!place.believed.contains(old.cert()), "{at_most}: the old one is believed by nobody");
        let new = place.signer(Class::Customer);
        assert!(place.believed.contains(new.cert()) && new.cert() != old.cert());
        assert_ne!(place.client(Class::Customer).cert, client.cert);
        assert_eq!(place.signer(Class::Sre).cert(), other.cert(), "nobody else is touched");
        let s = &place.requests[0].data["status"];
        let cut: Timestamp = s["revocationTimestamp"].as_str().unwrap().parse().unwrap();
        assert!(new.facts().unwrap().not_before > cut && old.facts().unwrap().not_before <= cut);
        let copy = s["previousSigner"]["name"].as_str().unwrap();
        assert_eq!(place.seen.authority(copy).unwrap().cert(), old.cert());
        assert!(place.plan().writes.is_empty(), "and it is over");
    }
}

#[test]
fn a_revocation_waits_for_the_api_server_at_both_ends() {
    let mut place = Place::settled();
    let old = place.signer(Class::Customer);
    place.revoke("now", "customer-break-glass");
    // Nobody carries bundles on: the new one cannot be believed, so the old one must be.
    for _ in 0..20 {
        place.pass(usize::MAX);
    }
    let of = |place: &Place, kind: &str| place.conditions(0).into_iter().find(|c| c.0 == kind).unwrap().1;
    assert_eq!(
        (of(&place, ROOT), of(&place, TRUSTED), of(&place, REVOKED)),
        ("True".into(), "False".into(), "False".into())
    );
    let bundle = Bundle::new().with(&place.text(Kind::ConfigMap, TOTAL, BUNDLE));
    assert!(bundle.contains(old.cert()));
    // The API server believes the new one, and then never hears again.
    place.carry();
    place.carry();
    for _ in 0..20 {
        place.pass(usize::MAX);
    }
    assert_eq!(
        (of(&place, TRUSTED), of(&place, LEAVES), of(&place, REVOKED)),
        ("True".into(), "True".into(), "False".into())
    );
    let bundle = Bundle::new().with(&place.text(Kind::ConfigMap, TOTAL, BUNDLE));
    assert!(!bundle.contains(old.cert()) && place.believed.contains(old.cert()));
    place.settle();
    assert_eq!(of(&place, REVOKED), "True");
}

#[test]
fn two_revocations_of_one_class_and_one_of_the_other_do_not_disturb_each_other() {
    for at_most in [1, usize::MAX] {
        let mut place = Place::settled();
        let old: Vec<Authority> = Class::ALL.map(|c| place.signer(c)).into();
        place.revoke("a", "customer-break-glass");
        place.revoke("b", "sre-break-glass");
        for _ in 0..4 {
            place.pass(at_most);
            place.now += SignedDuration::from_secs(2);
        }
        place.revoke("c", "customer-break-glass");
        place.settle_by(at_most);
        for i in 0..3 {
            assert!(place.conditions(i).iter().all(|c| c.1 == "True"), "{:?}", place.conditions(i));
        }
        assert!(old.iter().all(|a| !place.believed.contains(a.cert())));
    }
}

#[test]
fn a_revocation_in_a_new_namespace_has_nothing_to_revoke() {
    let mut place = Place::new();
    place.revoke("early", "sre-break-glass");
    place.settle();
    assert!(place.conditions(0).iter().all(|c| c.1 == "True"), "{:?}", place.conditions(0));
}
