//! What is known before an upgrade is judged. Read by the caller, who may not have been allowed to read all of it.

use apis::version::Version;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Cluster,
    /// By its name.
    NodePool(String),
}

/// The release that is wanted.
#[derive(Clone, Debug)]
pub struct Release {
    pub image: String,
    pub version: Version,
}

/// Something that could be found out, or why it could not.
#[derive(Clone, Debug)]
pub enum Known<T> {
    Yes(T),
    No(String),
}

/// Processors (thousandths) and memory (bytes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    pub cpu: i64,
    pub memory: i64,
}

impl Demand {
    pub fn fits(self, into: Demand) -> bool {
        self.cpu <= into.cpu && self.memory <= into.memory
    }

    #[must_use]
    pub fn plus(self, other: Demand) -> Demand {
        Demand { cpu: self.cpu.saturating_add(other.cpu), memory: self.memory.saturating_add(other.memory) }
    }

    #[must_use]
    pub fn minus(self, other: Demand) -> Demand {
        Demand { cpu: self.cpu.saturating_sub(other.cpu), memory: self.memory.saturating_sub(other.memory) }
    }
}

/// A Deployment or StatefulSet of a control plane.
#[derive(Clone, Debug)]
pub struct Workload {
    pub name: String,
    pub pods: i64,
    /// Of one pod.
    pub demand: Demand,
    /// New pods come before old ones go.
    pub surges: bool,
    /// Whether the wanted release has other images for it.
    pub changes: bool,
}

/// What is free on the nodes of the management cluster.
#[derive(Clone, Debug, Default)]
pub struct Room {
    pub free: Vec<Demand>,
}

/// A PodDisruptionBudget of the guest.
#[derive(Clone, Debug)]
pub struct Budget {
    pub namespace: String,
    pub name: String,
    pub pods: i64,
    pub allowed: i64,
}

/// The guest as far as its nodes go.
#[derive(Clone, Debug, Default)]
pub struct Guest {
    /// What each ready node of the pool has for pods.
    pub pool: Vec<Demand>,
    /// What all ready nodes have together.
    pub all: Demand,
    /// What pods have asked for, on all of them.
    pub asked: Demand,
    pub budgets: Vec<Budget>,
}

/// Processors that a subscription may still have, of a pool's size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    pub size: String,
    pub location: String,
    /// Of one machine.
    pub cpus: i64,
    /// Left: the smaller of the region's and the family's.
    pub left: i64,
}

#[derive(Clone, Debug)]
pub struct Facts {
    pub target: Target,
    /// The HostedCluster.
    pub cluster: Value,
    /// Its NodePools.
    pub pools: Vec<Value>,
    pub release: Release,
    /// The version that somebody named, if it was not an image.
    pub asked: Option<Version>,
    pub workloads: Known<Vec<Workload>>,
    pub room: Known<Room>,
    pub guest: Known<Guest>,
    pub quota: Known<Quota>,
}
