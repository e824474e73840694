//! What a deletion waits for, said to people.

use super::{DELETION_BLOCKED, FORCE, Layer, Left, Step};
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
        Layer::Pools => {
            "see `kubectl describe nodepool` of each: its machines are drained and deleted first".to_owned()
        }
        Layer::Machines => format!(
            "see the machines' conditions and the logs of Deployment capi-provider; check that the identity nodePoolManagement may delete in Azure; give the machines up (Azure keeps what is left of them) with {}",
            force("machines")
        ),
        Layer::Plane => format!(
            "see the logs of Deployment control-plane-operator, and the conditions of AzurePrivateLinkServices if it has some; take the control plane away without its cleanup (what the guest made in Azure stays there, private endpoints too) with {}",
            force("control-plane")
        ),
        Layer::Namespace => format!(
            "see `kubectl get namespace <it> -o yaml` for what is left in it; take the finalizers off with {}",
            force("namespace")
        ),
        Layer::Operators | Layer::Traces | Layer::Grace | Layer::Gone => String::new(),
    }
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
