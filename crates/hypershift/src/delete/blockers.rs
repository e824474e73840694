//! What a deletion waits for, said to people.

use super::{DELETION_BLOCKED, FORCE, Layer, Left, Step};
use apis::conditions::hosted_cluster::CLOUD_RESOURCES_DESTROYED;
use apis::conditions::reason::CLOUD_RESOURCES_CLEANUP_SKIPPED;
use apis::names::annotation::CLEANUP_CLOUD_RESOURCES;
use jiff::Timestamp;
use reconcile::conditions::{Finding, Status};

/// How many are told; the rest are counted.
const TOLD: usize = 5;

fn one(b: &Left) -> String {
    let mut text = b.object.clone();
    match b.since {
        Some(since) => {
            let since = Timestamp::from_second(since.as_second()).unwrap_or(since);
            text.push_str(&format!(" (being deleted since {since}"));
        }
        None => text.push_str(" (deletion was just asked for"),
    }
    if !b.finalizers.is_empty() {
        text.push_str(&format!(", held by {}", b.finalizers.join(", ")));
    }
    text.push(')');
    if !b.note.is_empty() {
        text.push_str(&format!(": {}", b.note));
    }
    text
}

/// What to look at, and what to do about it.
fn advice(layer: Layer, cluster: &str, home: &str) -> String {
    let force = |word: &str| {
        format!("`kubectl annotate hostedcluster -n {home} {cluster} --overwrite {FORCE}={word}`")
    };
    match layer {
        Layer::Pools => format!(
            "see `kubectl describe nodepool` of each: its machines are drained and deleted first; take the pools away before their machines (which then go with the Cluster) with {}",
            force("node-pools")
        ),
        Layer::Machines => format!(
            "see the machines' conditions and the logs of Deployment capi-provider; check that the identity nodePoolManagement may delete in Azure; give the machines up (Azure keeps what is left of them) with {}",
            force("machines")
        ),
        Layer::Plane => format!(
            "see the logs of Deployment control-plane-operator, and the conditions of AzurePrivateLinkServices if it has some; take the control plane away without its cleanup (what the guest made in Azure stays there, private endpoints too) with {}",
            force("control-plane")
        ),
        Layer::Namespace => format!(
            "see `kubectl get namespace <it> -o yaml` for what is left in it; take the finalizers off everything in it with {}",
            force("namespace")
        ),
        Layer::Operators | Layer::Traces | Layer::Grace | Layer::Gone => String::new(),
    }
}

/// What is said of a guest that nobody asked to clean up.
pub fn skipped(home: &str, cluster: &str, group: &str) -> Finding {
    Finding::new(
        CLOUD_RESOURCES_DESTROYED,
        Status::False,
        CLOUD_RESOURCES_CLEANUP_SKIPPED,
        format!(
            "the guest is not asked to remove what it made in Azure: load balancers, public addresses, disks, snapshots and storage accounts of its Services, volumes and registry stay in resource group {group}; while pools and machines are still going, ask it with `kubectl annotate hostedcluster -n {home} {cluster} --overwrite {CLEANUP_CLOUD_RESOURCES}=true`; afterwards remove them there, or use `zaffre destroy cluster azure`, which asks by itself"
        ),
    )
}

/// The condition of a step.
pub fn finding(step: &Step, home: &str, cluster: &str) -> Finding {
    let told: Vec<String> = step.blockers.iter().take(TOLD).map(one).collect();
    let mut what = told.join("; ");
    if step.blockers.len() > TOLD {
        what.push_str(&format!("; and {} more", step.blockers.len() - TOLD));
    }
    let layer = step.layer;
    let mut message = match what.is_empty() {
        true => format!("deletion is at {}", layer.word()),
        false => format!("deletion is at {}: waiting for {what}", layer.word()),
    };
    if step.forced && !step.blockers.is_empty() {
        message.push_str(&format!(
            "; forced by {FORCE}: what its finalizers would have cleaned up in Azure may be left there"
        ));
    }
    if !step.overdue || step.blockers.is_empty() {
        return Finding::new(
            DELETION_BLOCKED,
            Status::False,
            &format!("{}Deleting", layer.reason()),
            message,
        );
    }
    let minutes = layer.patience().as_mins();
    let advice = advice(layer, cluster, home);
    message.push_str(&format!("; this takes longer than the {minutes} minutes it should"));
    if !advice.is_empty() {
        message.push_str(&format!(": {advice}"));
    }
    Finding::new(DELETION_BLOCKED, Status::True, &format!("{}DeadlineExceeded", layer.reason()), message)
}
