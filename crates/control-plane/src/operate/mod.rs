//! Running a control plane: from a HostedControlPlane to a namespace full of components, and back to its status.
//!
//! ```text
//! HostedControlPlane ─> facts ─> Services, Routes ─> certificates ─> components whose turn it is
//!          ▲                                                              │
//!          └── conditions, one write <── progress (pure) <── workloads as they are
//! ```
//!
//! A run reads views only, plans, and applies what differs; a settled control plane renders nothing and costs no request
//! ([`memo`]). Components do not wait in line: each is applied as soon as what it depends on is rolled out at the wanted
//! version, which a watch tells. During an upgrade a component that has to wait goes on in its old version.
//!
//! A run is made when something of the control plane changed, and when something it knows ends: certificates, and pauses.
//! Only an API that should answer and does not is asked again by the clock.

mod memo;
mod objects;
mod progress;
mod tell;
mod tenants;
mod views;
mod watches;
mod work;

pub use progress::{Progress, Rollout, Turn, progress};
pub use tenants::Tenants;
pub use views::Views;
pub use watches::{KINDS, Setup, start};

use crate::facts::{self, Around};
use crate::scope::{Release, Scope};
use apis::hypershift::HostedControlPlane;
use clock::SharedClock;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use memo::{Memo, Sum};
use parking_lot::Mutex;
use reconcile::{Applier, Controller, Failure, Outcome, Pause, Waiting, chain, split};
use std::collections::HashMap;
use std::sync::Arc;

/// What an operator must be told about the world around it.
pub trait Surroundings: Send + Sync + 'static {
    /// The release a control plane is to run.
    fn release<'a>(&'a self, hcp: &'a HostedControlPlane) -> BoxFuture<'a, Result<Release, Failure>>;

    /// Whether the API answers where it is published, and if not, why.
    fn healthy<'a>(&'a self, scope: &'a Scope) -> BoxFuture<'a, Result<(), String>>;

    /// What is known of the management cluster for a namespace.
    fn management(&self, namespace: &str) -> crate::scope::Management;

    /// Client id of the identity that reads vaults.
    fn vault_reader(&self) -> String;
}

/// Keeps control planes as their objects say.
pub struct Operator {
    pub views: Views,
    pub applier: Applier,
    pub clock: SharedClock,
    pub around: Arc<dyn Surroundings>,
    pub tenants: Arc<Tenants>,
    memos: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Memo>>>>,
}

/// An API that answered is believed for this long, unless its pods change. It is asked when there is a run, never for
/// its own sake.
const BELIEVED: SignedDuration = SignedDuration::from_secs(60);
/// How soon one that did not answer is asked again: nobody watches an address from outside.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// How soon a registry that had no release for us is asked again.
const RELEASE_AGAIN: SignedDuration = SignedDuration::from_secs(30);

impl Controller for Operator {
    fn name(&self) -> &'static str {
        "hosted-control-plane"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

/// Why a control plane is not further along than it is.
#[derive(Clone, Debug)]
struct Held {
    kind: &'static str,
    reason: &'static str,
    message: String,
}

/// What a run has to go by.
struct Pass<'a> {
    seen: &'a kube::core::DynamicObject,
    scope: &'a Scope,
    /// Of the facts.
    sum: Sum,
    progress: &'a Progress,
    now: Timestamp,
}

/// What a run found.
#[derive(Default)]
struct Found {
    held: Option<Held>,
    waiting: Vec<Waiting>,
    /// When something has to be done again although nothing happened.
    until: Option<Timestamp>,
}

impl Operator {
    pub fn new(
        views: Views,
        applier: Applier,
        clock: SharedClock,
        around: Arc<dyn Surroundings>,
        tenants: Arc<Tenants>,
    ) -> Operator {
        Operator { views, applier, clock, around, tenants, memos: Mutex::default() }
    }

    async fn run(&self, key: &str) -> Result<Outcome, Failure> {
        let (namespace, name) = split(key);
        let seen = self.views.planes.get(namespace, name);
        // Everything is owned by the object and goes with it.
        let seen = seen.filter(|s| s.metadata.deletion_timestamp.is_none() && self.tenants.serves(namespace));
        let Some(seen) = seen else {
            self.memos.lock().remove(key);
            return Ok(Outcome::Done);
        };
        let memo = self.memos.lock().entry(key.to_owned()).or_default().clone();
        let mut memo = memo.lock().await;
        let hcp = memo.read(&seen)?;
        let now = self.clock.now();
        match Pause::read(hcp.spec.paused_until.as_deref(), now) {
            Ok(Pause::Forever) => return Ok(Outcome::Done),
            Ok(Pause::Until(t)) => return Ok(Outcome::After(t.duration_since(now))),
            Ok(Pause::No) | Err(_) => {}
        }
        memo.pending.settle(&self.applier, |kind, name| self.views.seen(namespace, kind, name));
        let (scope, sum) = match self.scope(&mut memo, &hcp).await {
            Ok(facts) => facts,
            Err(held) => {
                self.tell(&seen, None, Some(&held), &Err(held.message.clone())).await?;
                return Ok(Outcome::Waiting {
                    on: vec![Waiting::new(held.message, "the condition says more", now)],
                    // A registry tells nobody when it is back.
                    again: (held.kind == "ValidReleaseInfo").then_some(RELEASE_AGAIN),
                });
            }
        };
        let progress = progress(&scope, &|n| self.views.rollout(namespace, n));
        let pass = Pass { seen: &seen, scope: &scope, sum, progress: &progress, now };
        let mut found = Found::default();
        // What could not be done does not keep us from saying how things are.
        let done = self.work(&pass, &mut memo, &mut found).await;
        let health = self.health(&pass, &mut memo).await;
        self.tell(&seen, Some(&pass), found.held.as_ref(), &health).await?;
        self.tell_components(&pass, &mut memo).await?;
        done?;
        found.waiting.extend(progress.waiting(now));
        let until = found.until.map(|t| t.duration_since(now).max(SignedDuration::ZERO));
        let again = if health.is_err() { Some(ASK_AGAIN) } else { until };
        Ok(match (found.waiting.is_empty() && health.is_ok(), again) {
            (true, None) => Outcome::Done,
            (true, Some(after)) => Outcome::After(after),
            (false, again) => Outcome::Waiting { on: found.waiting, again },
        })
    }

    async fn scope(&self, memo: &mut Memo, hcp: &HostedControlPlane) -> Result<(Arc<Scope>, Sum), Held> {
        let release = self.around.release(hcp).await.map_err(|e| Held {
            kind: "ValidReleaseInfo",
            reason: "MissingReleaseImages",
            message: chain(&*e).to_string(),
        })?;
        let namespace = hcp.metadata.namespace.clone().unwrap_or_default();
        let (given, management) = (self.views.given(&namespace), self.around.management(&namespace));
        if let Some(known) = memo.facts(&given, &management, &release) {
            return Ok(known);
        }
        let around = Around {
            release,
            management: management.clone(),
            given: given.clone(),
            vault_reader: self.around.vault_reader(),
        };
        let scope = facts::read(hcp, &around).map_err(|e| Held {
            kind: "ValidHostedControlPlaneConfiguration",
            reason: "InvalidConfiguration",
            message: e.to_string(),
        })?;
        let scope = Arc::new(scope);
        let sum = memo.keep(given, management, scope.clone());
        Ok((scope, sum))
    }

    /// Whether the API answers. Who answered a moment ago and has not changed since is not asked again.
    async fn health(&self, pass: &Pass<'_>, memo: &mut Memo) -> Result<(), String> {
        let Some(api) = pass.progress.rollout("kube-apiserver").filter(|r| r.available) else {
            memo.answered = None;
            return Err("the API server is not available yet".to_owned());
        };
        let looks = memo::sum(&format!("{:?}{api:?}", pass.scope.endpoints.api));
        let fresh = |at: Timestamp| pass.now.duration_since(at) < BELIEVED;
        if memo.answered.is_some_and(|(l, at)| l == looks && fresh(at)) {
            return Ok(());
        }
        let health = self.around.healthy(pass.scope).await;
        memo.answered = health.is_ok().then_some((looks, pass.now));
        health
    }
}
