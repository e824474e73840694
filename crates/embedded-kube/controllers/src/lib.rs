//! What kube-controller-manager and kube-scheduler do, in the process of the API server.
//!
//! Each controller is a value of the trait [`Controller`]: it says which changes concern which keys, and brings
//! one key into order. The [`ek_engine::Engine`] does the rest: one queue and one heap of timers for all
//! controllers of all clusters, no task for any of them.
//!
//! How a controller is made:
//!
//! * `plan.rs` is pure: what there is goes in, what is to be done comes out. `mod.rs` reads, plans and writes.
//! * Reads are looks into the store and therefore always current, so nothing here needs the expectations and
//!   caches that remote controllers keep. The two exceptions are indexes that follow the feed: the garbage
//!   collector's graph, and the scheduler's list of pods that wait.
//! * A change is judged by the side record of its entry before any body is read; most changes concern nobody.
//! * Status is written once per run and only when it differs. Nothing polls: a run that depends on time asks to
//!   be looked at again when that time has come.
//! * Failing to do something is said where users look: a condition, an event. The engine tries again.
//!
//! Rejected: sharing typed structs (k8s-openapi) between controllers. Each reads a handful of fields of kinds
//! with hundreds, unknown fields must survive a rewrite, and a pod parsed in full costs ten times a pod of which
//! six fields are read.

mod backoff;
mod certificates;
mod cron;
mod daemon;
mod deployment;
mod disruption;
mod events;
mod expiry;
mod gc;
mod job;
mod namespaces;
mod nodes;
mod objects;
mod placement;
mod pods;
mod quota;
mod replicas;
mod revisions;
mod scheduler;
mod services;
mod stateful;
mod tables;
mod volumes;
mod whom;

use ek_engine::Controller;
use std::sync::Arc;

/// Whose fields these are, to everybody who looks at managed fields.
const MANAGER: &str = "kube-controller-manager";

pub use services::LoadBalancers;

/// What the controllers need from outside.
#[derive(Clone)]
pub struct Options {
    /// Who gives addresses to services of type LoadBalancer. Without one they wait, as on bare metal.
    pub load_balancers: Option<Arc<dyn LoadBalancers>>,
    /// Pods that have ended and that a cluster keeps; of more the oldest go.
    pub keep_ended_pods: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { load_balancers: None, keep_ended_pods: 12_500 }
    }
}

/// Every controller there is.
pub fn all(options: Options) -> Vec<Arc<dyn Controller>> {
    let mut all: Vec<Arc<dyn Controller>> = vec![
        Arc::new(gc::GarbageCollector::default()),
        Arc::new(namespaces::NamespaceFurniture),
        Arc::new(deployment::Deployments),
        Arc::new(replicas::REPLICA_SETS),
        Arc::new(replicas::REPLICATION_CONTROLLERS),
        Arc::new(stateful::StatefulSets),
        Arc::new(daemon::DaemonSets::default()),
        Arc::new(job::Jobs),
        Arc::new(job::FinishedJobs),
        Arc::new(cron::CronJobs),
        Arc::new(scheduler::Scheduler::default()),
        Arc::new(services::Endpoints::default()),
        Arc::new(volumes::Volumes),
        Arc::new(volumes::DefaultClass),
        Arc::new(disruption::Budgets::default()),
        Arc::new(quota::Quotas::default()),
        Arc::new(certificates::SigningRequests),
        Arc::new(nodes::Nodes::new(options.keep_ended_pods)),
        Arc::new(expiry::OldEvents),
    ];
    if let Some(balancers) = options.load_balancers {
        all.push(Arc::new(services::ServiceBalancers(balancers)));
    }
    all
}
