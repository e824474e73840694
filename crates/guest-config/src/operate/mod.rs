//! Keeping a guest as it should be, and telling the management cluster how it is.
//!
//! ```text
//! management cluster                                    guest
//!  HostedControlPlane, Secrets, ConfigMaps ──> plan ──> resources
//!  HostedControlPlane.status  <── report  <─────────── ClusterVersion, nodes, agents
//! ```
//!
//! One instance serves one guest. Its work has a few parts that do not wait for each other; each is a key of one
//! controller: [`RESOURCES`], [`REPORT`], [`CONNECTION`], [`WEBHOOKS`], [`REENCRYPTION`], [`RECOVERY`], [`CLEANUP`]. What a part
//! finds it leaves in [`Found`], from which alone the report is made: one writer, one write.
//!
//! # What an instance costs
//!
//! Thousands may run in one process, so nothing is cached that can be asked for. Kept are: the HostedControlPlane, some
//! ten Secrets and ConfigMaps of its namespace, ClusterVersion, one bit per node, and 90 bytes per object written.
//! Kinds that the admission policies protect are not watched: nobody but us can change them. They are applied when the
//! plan changes, when a policy had to be put right, and once an hour.

mod apply;
mod cleanup;
mod connection;
mod facts;
mod recovery;
mod reencrypt;
pub mod report;
mod watches;
mod webhooks;

pub use facts::Kept;
pub use watches::{Around, start};

use crate::facts::{Serving, Told};
use crate::probe::Backends;
use apis::hypershift::HostedControlPlane;
use apply::Memo;
use clock::{Random, SharedClock};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use reconcile::conditions::{Conditions, Finding};
use reconcile::{Applier, Controller, Failure, Handle, Outcome, Pause, View, Waiting};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Objects of the guest.
pub const RESOURCES: &str = "resources";
/// What the HostedControlPlane's status says of the guest.
pub const REPORT: &str = "report";
/// Whether control plane and nodes reach each other.
pub const CONNECTION: &str = "connection";
/// Webhooks of the guest that are aimed at its control plane.
pub const WEBHOOKS: &str = "webhooks";
/// Rewriting what an old key has encrypted.
pub const REENCRYPTION: &str = "reencryption";
/// Coming back from a backup.
pub const RECOVERY: &str = "recovery";
/// What the guest made in Azure, when it is to be deleted.
pub const CLEANUP: &str = "cleanup";

pub const MANAGER: &str = "hosted-cluster-config-operator";

/// What parts found, by the type of the condition that tells it.
#[derive(Debug, Default)]
pub struct Found(Mutex<BTreeMap<&'static str, Finding>>);

impl Found {
    /// Says whether that is news.
    pub fn put(&self, kind: &'static str, finding: Finding) -> bool {
        let mut all = self.0.lock();
        let news = all.get(kind) != Some(&finding);
        if news {
            all.insert(kind, finding);
        }
        news
    }

    pub fn get(&self, kind: &str) -> Option<Finding> {
        self.0.lock().get(kind).cloned()
    }

    pub fn all(&self) -> Vec<Finding> {
        self.0.lock().values().cloned().collect()
    }
}

/// A node, as far as we care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    pub ready: bool,
}

pub(crate) struct Operator {
    told: Told,
    management: Client,
    guest: Client,
    applier: Applier,
    planes: Arc<View<DynamicObject>>,
    secrets: Arc<View<Kept>>,
    config_maps: Arc<View<BTreeMap<String, String>>>,
    versions: Arc<View<DynamicObject>>,
    nodes: Arc<View<Node>>,
    /// Validating and mutating ones.
    webhooks: [Arc<View<webhooks::Aims>>; 2],
    backends: Arc<dyn Backends>,
    found: Found,
    memo: Memo,
    serving: Mutex<Serving>,
    /// Since when nobody has said who serves OpenShift's kinds, although somebody should.
    silent: Mutex<Option<jiff::Timestamp>>,
    kubeadmin: Mutex<Option<crate::facts::Kubeadmin>>,
    reencryption: Mutex<Option<reencrypt::Progress>>,
    /// Runs of the cleanup in a row in which the guest did not answer.
    unanswered: Mutex<u32>,
    clock: SharedClock,
    random: Random,
    handle: OnceLock<Handle>,
}

impl Controller for Operator {
    fn name(&self) -> &'static str {
        "guest-config"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

/// Why a part cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the HostedControlPlane is not what its definition says")]
    Plane(#[source] serde_json::Error),
    #[error("the HostedControlPlane cannot be used")]
    Facts(#[source] control_plane::facts::Unusable),
    #[error("cannot {what}")]
    Request { what: String, source: kube::Error },
    #[error("the password of kubeadmin cannot be hashed: {why}")]
    Hash { why: String },
}

pub(crate) fn asking(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
    let what = what.into();
    move |source| Error::Request { what, source }
}

impl Operator {
    async fn run(&self, key: &str) -> Result<Outcome, Failure> {
        let Some(seen) = self.planes.get(&self.told.namespace, &self.told.name) else {
            let hint = "the control-plane operator starts us for a HostedControlPlane; without one there is nothing to do";
            let on = Waiting::new(
                format!("HostedControlPlane {}/{}", self.told.namespace, self.told.name),
                hint,
                self.clock.now(),
            );
            return Ok(Outcome::Waiting { on: vec![on], again: None });
        };
        let document = serde_json::to_value(&*seen).map_err(Error::Plane)?;
        let hcp: HostedControlPlane = serde_json::from_value(document).map_err(Error::Plane)?;
        let now = self.clock.now();
        match Pause::read(hcp.spec.paused_until.as_deref(), now) {
            // How things are is told even so; only what changes things rests.
            Ok(Pause::Forever) if key != REPORT => return Ok(Outcome::Done),
            Ok(Pause::Until(t)) if key != REPORT => return Ok(Outcome::After(t.duration_since(now))),
            Ok(_) | Err(_) => {}
        }
        match key {
            RESOURCES => self.resources(&hcp).await,
            CONNECTION => self.connection(&hcp).await,
            WEBHOOKS => self.keep_webhooks_out().await,
            REENCRYPTION => self.reencrypt(&hcp).await,
            RECOVERY => self.recovery(&hcp, &Conditions::of(&seen.data["status"])).await,
            CLEANUP => self.cleanup(&hcp).await,
            REPORT => self.report(&seen).await,
            _ => Ok(Outcome::Done),
        }
    }

    /// Leaves a finding for the report.
    fn find(&self, kind: &'static str, finding: Finding) {
        if self.found.put(kind, finding)
            && let Some(handle) = self.handle.get()
        {
            handle.poke(REPORT);
        }
    }

    fn ready_nodes(&self) -> usize {
        self.nodes.all().iter().filter(|n| n.ready).count()
    }

    fn waiting(&self, on: impl Into<String>, hint: &str) -> Waiting {
        Waiting::new(on, hint, self.clock.now())
    }
}

fn is_deleting(hcp: &HostedControlPlane) -> bool {
    hcp.metadata.deletion_timestamp.is_some()
}

fn seconds(n: i64) -> SignedDuration {
    SignedDuration::from_secs(n)
}

/// Minutes since, never negative.
fn age(of: Timestamp, now: Timestamp) -> SignedDuration {
    now.duration_since(of).max(SignedDuration::ZERO)
}
