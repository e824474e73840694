//! What is issued is what was wanted; what drifted is issued again; a rotation never leaves anybody untrusted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use jiff::{SignedDuration, Timestamp};
use pki::rotation::{self, Known, Phase, Step, Stored};
use pki::{Access, Authority, Bundle, Facts, KeyKind, Leaf, Pair, Verdict, Why, kubeconfig};
use proptest::prelude::*;
use std::collections::HashMap;

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn now() -> Timestamp {
    "2026-11-16T06:00:00Z".parse().unwrap()
}

fn ca(name: &str) -> Authority {
    Authority::generate(name, "openshift", KeyKind::P256, now(), DAY * 3650).unwrap()
}

fn serving() -> Leaf {
    Leaf::server("kubernetes", ["localhost", "api.example.com"]).at(["172.20.0.1".parse().unwrap()])
}

#[test]
fn a_leaf_is_what_was_wanted() {
    let root = ca("root-ca");
    let pair = root.issue(&serving(), now()).unwrap();
    let facts = pair.facts().unwrap();
    assert_eq!(facts.common_name, "kubernetes");
    assert_eq!(facts.dns.iter().map(String::as_str).collect::<Vec<_>>(), ["api.example.com", "localhost"]);
    assert_eq!(facts.ips.iter().map(ToString::to_string).collect::<Vec<_>>(), ["172.20.0.1"]);
    assert!(facts.server && !facts.client && !facts.authority);
    assert!(pair.fits().unwrap() && root.signed(&pair.cert).unwrap());
    let until = now() + DAY * 335;
    assert_eq!(serving().assess(Some(&pair), &root, now()), Verdict::Keep { until });

    let admin = Leaf::client("system:admin", "system:masters");
    let facts = root.issue(&admin, now()).unwrap().facts().unwrap();
    assert_eq!(facts.organizations.iter().map(String::as_str).collect::<Vec<_>>(), ["system:masters"]);
    assert!(facts.client && !facts.server);
}

#[test]
fn every_drift_is_seen_and_named() {
    let root = ca("root-ca");
    let pair = root.issue(&serving(), now()).unwrap();
    let why = |leaf: &Leaf, pair: &Pair, by: &Authority, at| match leaf.assess(Some(pair), by, at) {
        Verdict::Issue(why) => why,
        keep => panic!("kept: {keep:?}"),
    };
    assert_eq!(serving().assess(None, &root, now()), Verdict::Issue(Why::Missing));
    assert_eq!(why(&serving(), &Pair::new("nonsense", "nonsense"), &root, now()), Why::Unreadable);
    let other = root.issue(&serving(), now()).unwrap();
    assert_eq!(why(&serving(), &Pair { cert: pair.cert.clone(), key: other.key }, &root, now()), Why::Key);
    // The same name signs, with another key: what upstream does not notice.
    assert_eq!(why(&serving(), &pair, &ca("root-ca"), now()), Why::Issuer);
    let mut leaf = serving();
    leaf.common_name = "other".into();
    assert_eq!(why(&leaf, &pair, &root, now()), Why::Subject);
    let mut leaf = serving();
    leaf.dns.insert("oauth.example.com".into());
    leaf.dns.remove("localhost");
    let names = why(&leaf, &pair, &root, now());
    assert_eq!(names.to_string(), "its names differ, missing oauth.example.com, not wanted localhost");
    assert_eq!(why(&serving().both(), &pair, &root, now()), Why::Usage);
    assert_eq!(why(&serving().living(DAY * 100, DAY * 30), &pair, &root, now()), Why::Life);
    let late = now() + DAY * 336;
    assert!(matches!(why(&serving(), &pair, &root, late), Why::Ending { .. }));
}

#[test]
fn bad_material_is_refused_in_words() {
    let root = ca("root-ca");
    let leaf = root.issue(&serving(), now()).unwrap();
    let said = |p: Pair| Authority::from_pair(p).unwrap_err().to_string();
    assert!(said(leaf.clone()).contains("may not sign others"));
    assert!(said(Pair { cert: root.cert().into(), key: leaf.key }).contains("the key is not the one of"));
    assert!(said(Pair::new("", "")).contains("there is no PEM block"));
    let odd = Leaf::server("x", ["not a name\u{e9}"]);
    assert!(root.issue(&odd, now()).unwrap_err().to_string().contains("as a DNS name"));
    assert!(!format!("{:?}", root.pair()).contains("PRIVATE KEY"));
}

#[test]
fn a_bundle_holds_each_certificate_once() {
    let (a, b) = (ca("a"), ca("b"));
    let both = Bundle::new().with(a.cert()).with(b.cert()).with(a.cert());
    assert_eq!(both.pem().matches("BEGIN CERTIFICATE").count(), 2);
    assert!(both.contains(b.cert()) && !Bundle::new().with(a.cert()).contains(&both.pem()));
    assert!(Bundle::new().with("# nothing here").is_empty());
}

#[test]
fn a_kubeconfig_can_be_read_back() {
    let root = ca("root-ca");
    let pair = root.issue(&Leaf::client("system:admin", "system:masters"), now()).unwrap();
    let text = kubeconfig("https://kube-apiserver:6443", root.cert(), "admin", &Access::Certificate(&pair));
    let back: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(back["clusters"][0]["cluster"]["server"], "https://kube-apiserver:6443");
    assert_eq!(back["current-context"], back["contexts"][0]["name"]);
    assert!(back["users"][0]["user"]["client-key-data"].is_string());
}

#[test]
fn an_authority_is_replaced_before_it_ends_and_once_for_each_wish() {
    let stored = Stored::new(ca("root-ca"));
    let rest = rotation::next(&stored, &Known::default(), now());
    assert_eq!(rest, Step::Rest { until: now() + DAY * (3650 - 365) });
    let late = now() + DAY * (3650 - 364);
    assert_eq!(rotation::next(&stored, &Known::default(), late), Step::Announce { why: "its life ends" });
    let mut asked = Known { asked: Some("monday".into()), ..Known::default() };
    let step = rotation::next(&stored, &asked, now());
    let stored = rotation::apply(stored, &step, Some("monday"), || Ok::<_, ()>(ca("root-ca"))).unwrap();
    assert_eq!(
        (stored.phase(), rotation::next(&stored, &asked, now())),
        (Phase::Announced, Step::AwaitTrust)
    );
    asked.bundle_in_use = true;
    let old = stored.current.cert().to_owned();
    let stored = rotation::apply(stored, &Step::Promote, None, || Err(())).unwrap();
    assert!(stored.current.cert() != old && stored.trusted().contains(&old));
    assert_eq!(rotation::next(&stored, &asked, now()), Step::AwaitLeaves);
    asked.leaves_in_use = true;
    let stored = rotation::apply(stored, &Step::Retire, None, || Err(())).unwrap();
    assert!(!stored.trusted().contains(&old));
    assert!(matches!(rotation::next(&stored, &asked, now()), Step::Rest { .. }), "a wish is honoured once");
}

/// What one program holds: the bundle it trusts and the certificate it shows.
#[derive(Clone)]
struct Program {
    trusts: Bundle,
    shows: String,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Programs read their files at any moment, in any order; the rotation steps whenever it may. Nobody ever meets
    /// somebody whose certificate it does not trust.
    #[test]
    fn nobody_is_untrusted_during_a_rotation(order in proptest::collection::vec(0usize..5, 1..80)) {
        let leaf = Leaf::client("x", "y");
        let mut made: HashMap<String, String> = HashMap::new();
        let issue = |made: &mut HashMap<String, String>, by: &Authority| {
            made.entry(by.cert().to_owned()).or_insert_with(|| by.issue(&leaf, now()).unwrap().cert).clone()
        };
        let mut stored = Stored::new(ca("root-ca"));
        let first = Program { trusts: stored.trusted(), shows: issue(&mut made, &stored.current) };
        let mut programs = vec![first; 4];
        for (i, event) in order.into_iter().enumerate() {
            if event < programs.len() {
                programs[event] = Program { trusts: stored.trusted(), shows: issue(&mut made, &stored.current) };
            } else {
                let shows = issue(&mut made, &stored.current);
                let known = Known {
                    asked: Some(format!("wish {}", i / 20)),
                    bundle_in_use: programs.iter().all(|p| p.trusts == stored.trusted()),
                    leaves_in_use: programs.iter().all(|p| p.shows == shows),
                    ..Known::default()
                };
                let step = rotation::next(&stored, &known, now());
                stored = rotation::apply(stored, &step, known.asked.as_deref(), || Ok::<_, ()>(ca("root-ca"))).unwrap();
            }
            for (a, b) in programs.iter().flat_map(|a| programs.iter().map(move |b| (a, b))) {
                let trusted = a.trusts.pem();
                let ok = trusted.split_inclusive("-----END CERTIFICATE-----\n").any(|c| {
                    // Whoever signed it is one of those that are trusted.
                    made.iter().any(|(ca, cert)| *cert == b.shows && ca.trim() == c.trim())
                });
                prop_assert!(ok, "a program shows what another does not trust");
            }
        }
    }
}

#[test]
fn facts_of_an_authority() {
    let f = Facts::of(ca("root-ca").cert()).unwrap();
    assert!(f.authority && f.common_name == "root-ca");
}
