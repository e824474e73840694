//! Bad days of what clusters share: issuers with their blobs, managed identities with the directory and the vault.

use crate::support::{World, quiet, world, world_with};
use crate::{managed, oidc};
use azure_sim::{Profile, Rule, preset};
use landing_zone::issuer::{self, Rotation};
use landing_zone::run::Options;
use landing_zone::{MadeBy, destroy};
use std::path::Path;
use std::time::Duration;

/// A run may fail; so many in a row may not.
const RUNS: usize = 15;

#[derive(Clone, Copy, Debug)]
enum What {
    Issuer,
    Managed,
}

/// Beside the presets, which are mostly about Resource Manager and networks.
const OURS: [(&str, &str); 6] = [
    ("throttle storm everywhere", r#"[{"name": "storm", "match": {"every": 3}, "then": {"throttle": 1}}]"#),
    (
        "late failures of all that takes time",
        r#"[{"name": "late", "match": {"method": "PUT", "type": "Microsoft.*", "nth": 1, "each": "id"},
            "then": {"failLate": {"code": "InternalServerError", "message": "An error occurred."}}}]"#,
    ),
    (
        "stale reads everywhere",
        r#"[{"name": "stale", "match": {"method": "GET", "every": 3}, "then": {"stale": {"versions": 1}}}]"#,
    ),
    (
        "stale reads of the directory",
        r#"[{"name": "stale", "match": {"host": "graph", "method": "GET", "every": 2}, "then": {"stale": {"versions": 2}}}]"#,
    ),
    (
        "answers of the directory are lost",
        r#"[{"name": "lost", "match": {"host": "graph", "method": "P*", "every": 5}, "then": {"drop": "after"}}]"#,
    ),
    (
        "answers of data planes are lost",
        r#"[{"name": "lost-vault", "match": {"host": "vault", "method": "PUT", "every": 3}, "then": {"drop": "after"}},
            {"name": "lost-blob", "match": {"host": "blob", "method": "PUT", "every": 2}, "then": {"drop": "after"}}]"#,
    ),
];

const PRESETS: [&str; 8] = [
    "throttled",
    "data-throttled",
    "stale-reads",
    "dropped-answers",
    "dropped-requests",
    "partial-writes",
    "half-deleted",
    "msi-429",
];

fn troubles() -> impl Iterator<Item = (&'static str, Vec<Rule>)> {
    let ours = OURS.iter().map(|(name, text)| (*name, azure_sim::read_faults(text.as_bytes()).unwrap()));
    PRESETS.iter().map(|name| (*name, preset(name).unwrap())).chain(ours)
}

/// How often anything went wrong.
fn fired(w: &World) -> u64 {
    w.sim.world().faults().iter().map(|f| f["fired"].as_u64().unwrap()).sum()
}

impl What {
    async fn try_make(self, w: &World, dir: &Path) -> Result<(), String> {
        match self {
            What::Issuer => {
                let keys = oidc::keys(dir, Rotation::Keep);
                match issuer::create(&w.client, &oidc::issuer(w), &keys, Options::default(), &quiet).await {
                    Ok((o, Some(_))) if o.is_good() => Ok(()),
                    Ok((o, _)) => Err(format!("{:#?}", o.report.failures().collect::<Vec<_>>())),
                    Err(e) => Err(format!("{e:?}")),
                }
            }
            What::Managed => {
                let m = managed::managed(w);
                match landing_zone::managed::create(&w.client, &m, Options::default(), &quiet).await {
                    Ok(made) if managed::good(&made) => Ok(()),
                    Ok(made) => Err(format!("{made:#?}")),
                    Err(e) => Err(format!("{e:?}")),
                }
            }
        }
    }

    async fn make(self, w: &World, dir: &Path, trouble: &str) {
        let mut last = String::new();
        for _ in 0..RUNS {
            match self.try_make(w, dir).await {
                Ok(()) => return,
                Err(e) => last = e,
            }
        }
        panic!("{self:?} not made after {RUNS} runs, {trouble}: {last}");
    }

    async fn remove(self, w: &World, trouble: &str) {
        let d = match self {
            What::Issuer => w.shared("demooidc", MadeBy::OidcIssuer),
            What::Managed => w.shared("aro", MadeBy::ManagedIdentities),
        };
        let mut last = String::new();
        for _ in 0..RUNS {
            match destroy::destroy(&w.client, &d, Options::default(), &quiet).await {
                Ok(d) if d.outcome.is_good() && d.failed.is_empty() => return,
                Ok(d) => last = format!("{d:#?}"),
                Err(e) => last = format!("{e:?}"),
            }
        }
        panic!("{self:?} still there after {RUNS} runs, {trouble}: {last}");
    }

    /// What is there, by names that are the same in every world; and all of it works.
    async fn left(self, w: &World, dir: &Path) -> Vec<String> {
        let mut all = w.left();
        match self {
            What::Issuer => {
                let container = w.client.blobs("demooidc").unwrap().container("demooidc").unwrap();
                let blob = container.get(issuer::KEYS, 1 << 20).await.unwrap();
                let jwks: serde_json::Value = serde_json::from_slice(&blob.content).unwrap();
                let kids: Vec<&serde_json::Value> =
                    jwks["keys"].as_array().unwrap().iter().map(|k| &k["kid"]).collect();
                assert_eq!(kids, [oidc::kid_in(dir).as_str()]);
                all.push(format!("{} files", std::fs::read_dir(dir).unwrap().count()));
            }
            What::Managed => managed::fits(w, &[]).await,
        }
        all
    }

    /// Made and taken away, both under a trouble.
    async fn through(self, w: &World, rules: &[Rule], want: &[String], trouble: &str) {
        let dir = tempfile::tempdir().unwrap();
        let all = async {
            let on = || w.sim.world().add_faults(rules.to_vec()).unwrap();
            w.sim.world().clear_faults();
            on();
            self.make(w, dir.path(), trouble).await;
            let mut met = fired(w);
            w.sim.world().clear_faults();
            // The dust settles: what stale reads missed is made now.
            self.make(w, dir.path(), trouble).await;
            assert_eq!(self.left(w, dir.path()).await, want, "{self:?} {trouble}");
            on();
            self.remove(w, trouble).await;
            met += fired(w);
            assert!(met > 0, "{self:?}: nothing went wrong, {trouble}");
            w.sim.world().clear_faults();
            self.remove(w, trouble).await;
            assert_eq!(w.left(), Vec::<String>::new(), "{self:?} {trouble}");
            assert_eq!(managed::applications(w).await.len(), 0, "{self:?} {trouble}");
        };
        tokio::time::timeout(Duration::from_secs(240), all).await.expect("within four minutes");
    }

    async fn undisturbed(self) -> Vec<String> {
        let (w, dir) = (world().await, tempfile::tempdir().unwrap());
        self.try_make(&w, dir.path()).await.unwrap();
        self.left(&w, dir.path()).await
    }

    async fn each_trouble(self) {
        let want = self.undisturbed().await;
        for (trouble, rules) in troubles() {
            // An issuer has to do neither with identities nor with the directory.
            if matches!(self, What::Issuer) && (trouble == "msi-429" || trouble.contains("directory")) {
                continue;
            }
            self.through(&world().await, &rules, &want, trouble).await;
        }
    }
}

#[tokio::test]
async fn each_trouble_of_an_issuer() {
    What::Issuer.each_trouble().await;
}

#[tokio::test]
async fn each_trouble_of_managed_identities() {
    What::Managed.each_trouble().await;
}

#[tokio::test]
async fn all_of_it_at_once() {
    for what in [What::Issuer, What::Managed] {
        let want = what.undisturbed().await;
        let rules = preset("bad-day").unwrap();
        what.through(&world_with(Profile::BadDay).await, &rules, &want, "bad-day").await;
    }
}
