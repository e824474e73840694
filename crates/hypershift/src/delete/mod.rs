//! Taking a cluster away: layers, one after another, each with a deadline and a way to force it.
//!
//! ```text
//! pools ─> machines ─> operators ─> control plane ─> namespace ─> traces ─> grace ─> gone
//! ```
//!
//! Where a deletion stands is read from what is still there, never remembered: an operator that restarts goes on where the
//! last one stopped, and a deletion that begins in the middle of a creation begins at the first layer that has anything. A
//! layer that takes longer than it should says what it waits for: the object, its finalizers, since when, and what to do.
//!
//! # Force
//!
//! The annotation [`FORCE`] on the HostedCluster names the layers whose finalizers are taken off without waiting:
//! `node-pools`, `machines`, `control-plane`, `namespace`, or `all`. What those finalizers would have cleaned up in Azure
//! is then left to whoever forces; the condition says so. A pool that is forced leaves its machines to the next layer.
//!
//! Two things are forced by themselves, because nobody could do anything else: machines and private endpoints whose deletion
//! Azure has refused for ten minutes, and machines, endpoints and control planes whose resource group is gone. Pools wait
//! for their machines, so machines are given up while pools are there too.

mod blockers;

pub use apis::duration::go_duration;
pub use blockers::{finding, skipped};

use apis::names::finalizer::HYPERSHIFT;
use jiff::{SignedDuration, Timestamp};

/// See the module.
pub const FORCE: &str = "hypershift.openshift.io/force-delete";

/// True while a layer is overdue; False while deletion goes on as it should. Ours, documented with [`FORCE`].
pub const DELETION_BLOCKED: &str = "DeletionBlocked";

/// How long Azure may refuse before a machine or an endpoint is given up.
pub const MACHINE_PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// Where a deletion stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    Pools,
    Machines,
    Operators,
    Plane,
    Namespace,
    Traces,
    Grace,
    Gone,
}

impl Layer {
    /// How people call it; `force-delete` uses the same words.
    pub fn word(self) -> &'static str {
        match self {
            Layer::Pools => "node-pools",
            Layer::Machines => "machines",
            Layer::Operators => "operators",
            Layer::Plane => "control-plane",
            Layer::Namespace => "namespace",
            Layer::Traces => "traces",
            Layer::Grace => "grace-period",
            Layer::Gone => "gone",
        }
    }

    /// In reasons of conditions.
    pub fn reason(self) -> &'static str {
        match self {
            Layer::Pools => "NodePools",
            Layer::Machines => "Machines",
            Layer::Operators => "Operators",
            Layer::Plane => "ControlPlane",
            Layer::Namespace => "Namespace",
            Layer::Traces | Layer::Gone => "Traces",
            Layer::Grace => "GracePeriod",
        }
    }

    /// How long it may take: nodes are drained, Azure deletes machines in minutes, the guest cleans its own resources
    /// for up to ten.
    pub fn patience(self) -> SignedDuration {
        SignedDuration::from_mins(match self {
            Layer::Pools => 30,
            Layer::Machines => 20,
            Layer::Plane => 15,
            Layer::Namespace => 10,
            Layer::Operators | Layer::Traces | Layer::Grace | Layer::Gone => 5,
        })
    }
}

/// An object that is still there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// `HostedControlPlane clusters-demo/demo`.
    pub object: String,
    pub name: String,
    /// When its deletion began; nothing: it was not asked for yet.
    pub since: Option<Timestamp>,
    pub finalizers: Vec<String>,
    /// What it says itself.
    pub note: String,
}

/// A machine in Azure that is still there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    pub left: Left,
    /// Azure has refused to delete it since then.
    pub refused: Option<Timestamp>,
}

/// Whether the guest takes away what it made in Azure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cleanup {
    /// Nobody asked for it, or there never was a guest.
    #[default]
    No,
    Running,
    /// Done, or the guest cannot be asked.
    Over,
}

/// How long the guest may take.
pub const CLEANUP_PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// Everything that is left of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Remains {
    /// When the HostedCluster's deletion began.
    pub began: Timestamp,
    pub pools: Vec<Left>,
    pub cluster: Option<Left>,
    pub machines: Vec<Machine>,
    /// Deployments that still hold their finalizer.
    pub operators: Vec<Left>,
    pub plane: Option<Left>,
    /// Private links whose endpoint is still there; the control plane waits for them.
    pub links: Vec<Machine>,
    pub cleanup: Cleanup,
    /// There is a guest, and nobody asked it to take away what it made in Azure.
    pub skipped: bool,
    pub namespace: Option<Left>,
    pub keep_namespace: bool,
    /// Rights and marks that are left outside of the namespace.
    pub traces: bool,
    /// Words of [`FORCE`].
    pub force: Vec<String>,
    /// The resource group is known to be gone, and everything in it.
    pub group_gone: bool,
    pub grace: Option<SignedDuration>,
    /// Since when nothing but the grace period is left.
    pub destroyed: Option<Timestamp>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    DeletePool(String),
    /// Take its finalizers off; its machines go with the Cluster.
    DropPool(String),
    DeleteCluster,
    /// Take its finalizers off: Azure has nothing of it, or will not let go.
    DropMachine(String),
    DropCluster,
    ReleaseOperator(String),
    DeletePlane,
    /// Give their endpoints up: Azure has nothing of them, or will not let go.
    DropLinks(Vec<String>),
    /// The guest has cleaned up, or had its time: our own finalizer goes.
    ReleasePlane,
    DropPlane,
    DeleteNamespace,
    /// Take finalizers off whatever is left in the namespace.
    EmptyNamespace,
    RemoveTraces,
    Finish,
}

/// One step of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub layer: Layer,
    pub acts: Vec<Act>,
    /// What is waited for.
    pub blockers: Vec<Left>,
    pub since: Timestamp,
    pub overdue: bool,
    pub forced: bool,
    /// When to look again, if nothing happens.
    pub again: Option<SignedDuration>,
}

/// The next step. Pure.
pub fn step(r: &Remains, now: Timestamp) -> Step {
    let forced =
        |layer: Layer| r.force.iter().any(|w| matches!(w.as_str(), "all" | "true") || w == layer.word());
    let (layer, acts, blockers) = next(r, now, &forced);
    let since =
        blockers.iter().filter_map(|b| b.since).min().unwrap_or_else(|| r.began.max(now_or(r, layer, now)));
    let due = since.checked_add(layer.patience()).unwrap_or(Timestamp::MAX);
    let again = match layer {
        Layer::Grace => {
            r.grace.zip(r.destroyed).and_then(|(g, d)| d.checked_add(g).ok()).map(|t| t.duration_since(now))
        }
        Layer::Gone => None,
        // Something is said when the deadline passes, whether or not anything happens; machines have one of their own.
        _ => {
            Some(due.duration_since(now).max(SignedDuration::from_secs(30)).min(SignedDuration::from_mins(1)))
        }
    };
    Step { layer, acts, blockers, since, overdue: now >= due, forced: forced(layer), again }
}

/// A layer that has only just been reached began now.
fn now_or(r: &Remains, layer: Layer, now: Timestamp) -> Timestamp {
    match layer {
        Layer::Grace => r.destroyed.unwrap_or(now),
        _ => now,
    }
}

fn next(r: &Remains, now: Timestamp, forced: &dyn Fn(Layer) -> bool) -> (Layer, Vec<Act>, Vec<Left>) {
    if !r.pools.is_empty() {
        let fresh = r.pools.iter().filter(|p| p.since.is_none());
        let mut acts: Vec<Act> = fresh.map(|p| Act::DeletePool(p.name.clone())).collect();
        acts.extend(given_up(r, now, forced(Layer::Machines)));
        if forced(Layer::Pools) {
            let held = r.pools.iter().filter(|p| p.since.is_some() && !p.finalizers.is_empty());
            acts.extend(held.map(|p| Act::DropPool(p.name.clone())));
        }
        let refused = r.machines.iter().filter(|m| m.refused.is_some()).map(|m| m.left.clone());
        return (Layer::Pools, acts, r.pools.iter().cloned().chain(refused).collect());
    }
    if let Some(cluster) = &r.cluster {
        return machines(r, cluster, now, forced);
    }
    if !r.operators.is_empty() {
        let acts = r.operators.iter().map(|o| Act::ReleaseOperator(o.name.clone())).collect();
        return (Layer::Operators, acts, r.operators.clone());
    }
    if let Some(left) = &r.plane {
        let (acts, blockers) = plane(r, left, now, forced(Layer::Plane));
        return (Layer::Plane, acts, blockers);
    }
    if let Some(space) = r.namespace.as_ref().filter(|_| !r.keep_namespace) {
        let mut acts = Vec::new();
        if space.since.is_none() {
            acts.push(Act::DeleteNamespace);
        } else if forced(Layer::Namespace) {
            acts.push(Act::EmptyNamespace);
        }
        return (Layer::Namespace, acts, vec![space.clone()]);
    }
    if r.traces {
        return (Layer::Traces, vec![Act::RemoveTraces], Vec::new());
    }
    if let Some(grace) = r.grace {
        let over = r.destroyed.is_some_and(|d| now.duration_since(d) >= grace);
        if !over {
            return (Layer::Grace, Vec::new(), Vec::new());
        }
    }
    (Layer::Gone, vec![Act::Finish], Vec::new())
}

fn plane(r: &Remains, plane: &Left, now: Timestamp, forced: bool) -> (Vec<Act>, Vec<Left>) {
    let mut acts = Vec::new();
    let overdue = plane.since.is_some_and(|s| now.duration_since(s) >= Layer::Plane.patience());
    let held = plane.finalizers.iter().any(|f| f == HYPERSHIFT);
    match plane.since {
        None => acts.push(Act::DeletePlane),
        Some(since)
            if held && (r.cleanup != Cleanup::Running || now.duration_since(since) >= CLEANUP_PATIENCE) =>
        {
            acts.push(Act::ReleasePlane);
        }
        Some(_) => {}
    }
    let dropped = links(r, now, forced);
    if !dropped.is_empty() {
        acts.push(Act::DropLinks(dropped));
    }
    if (forced || (overdue && r.group_gone)) && !plane.finalizers.is_empty() {
        acts.push(Act::DropPlane);
    }
    (acts, r.links.iter().map(|l| l.left.clone()).chain([plane.clone()]).collect())
}

/// Links whose endpoints are given up.
fn links(r: &Remains, now: Timestamp, forced: bool) -> Vec<String> {
    let all = r.links.iter().filter(|l| l.left.since.is_some());
    let lost = |l: &&Machine| {
        forced || r.group_gone || l.refused.is_some_and(|t| now.duration_since(t) >= MACHINE_PATIENCE)
    };
    all.filter(lost).map(|l| l.left.name.clone()).collect()
}

/// Machines that nobody waits for any more.
fn given_up(r: &Remains, now: Timestamp, forced: bool) -> Vec<Act> {
    let held = r.machines.iter().filter(|m| m.left.since.is_some() && !m.left.finalizers.is_empty());
    let lost = |m: &&Machine| {
        forced || r.group_gone || m.refused.is_some_and(|t| now.duration_since(t) >= MACHINE_PATIENCE)
    };
    held.filter(lost).map(|m| Act::DropMachine(m.left.name.clone())).collect()
}

fn machines(
    r: &Remains,
    cluster: &Left,
    now: Timestamp,
    forced: &dyn Fn(Layer) -> bool,
) -> (Layer, Vec<Act>, Vec<Left>) {
    let mut acts = Vec::new();
    if cluster.since.is_none() {
        acts.push(Act::DeleteCluster);
    }
    let of_plane = forced(Layer::Plane);
    let forced = forced(Layer::Machines);
    acts.extend(given_up(r, now, forced));
    if forced && cluster.since.is_some() && r.machines.is_empty() && !cluster.finalizers.is_empty() {
        acts.push(Act::DropCluster);
    }
    let mut blockers: Vec<Left> = r.machines.iter().map(|m| m.left.clone()).collect();
    // Upstream's controller deletes the control plane of a Cluster that has no machines left, and waits for it; ours leaves
    // it to the next layer.
    let taken = r.plane.as_ref().filter(|p| p.since.is_some() && r.machines.is_empty());
    if let Some((further, held)) = taken.map(|p| plane(r, p, now, of_plane)) {
        acts.extend(further);
        blockers.extend(held);
    }
    blockers.push(cluster.clone());
    (Layer::Machines, acts, blockers)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
