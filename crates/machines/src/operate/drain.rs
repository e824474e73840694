//! A machine's way out, as far as the guest is concerned: cordon, evict, detach, and at the end the Node.
//!
//! Pods are followed by a watch for as long as the drain lasts. What the guest does not allow is said with its names; a
//! guest that cannot be asked is waited for, until the drain's time is up, because machines that are taken away under
//! running pods lose data. If the whole cluster goes, nobody's pods are saved.

use super::Shared;
use super::guests::{Guest, NodeFact};
use super::machines::{excluded, hooks};
use super::views::{Seen, cluster_of, name, namespace};
use crate::kinds::{self, annotation};
use crate::text::{after, go_duration};
use apis::capi::MachineSpec;
use apis::names::label;
use futures::StreamExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use reconcile::Failure;
use serde_json::{Value, json};
use std::sync::Arc;

/// Evictions that were refused are tried again.
const AGAIN: SignedDuration = SignedDuration::from_secs(5);
const PARALLEL: usize = 16;
/// How many pods are named.
const TOLD: usize = 5;

/// How far it is.
#[derive(Debug, Default)]
pub struct Step {
    /// The infrastructure may go.
    pub over: bool,
    pub reason: &'static str,
    pub message: String,
    pub drain_began: Option<Timestamp>,
    pub detach_began: Option<Timestamp>,
}

pub async fn patch_node(client: &Client, node: &str, patch: &Value) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    match nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(s)) if s.code == 404 => Ok(()),
        Err(e) => Err(e),
    }
}

fn began(machine: &Seen, field: &str) -> Option<Timestamp> {
    machine.data["status"]["deletion"][field].as_str().and_then(|t| t.parse().ok())
}

/// Whether time is up; unset and zero mean: it never is.
fn expired(limit: Option<&str>, since: Timestamp, now: Timestamp) -> (bool, Option<SignedDuration>) {
    match limit.and_then(go_duration).filter(|d| !d.is_zero()) {
        Some(d) => {
            let end = after(since, d);
            (now >= end, Some(end.duration_since(now).max(SignedDuration::ZERO)))
        }
        None => (false, None),
    }
}

fn sooner(a: SignedDuration, b: Option<SignedDuration>) -> Option<SignedDuration> {
    Some(b.map_or(a, |b| a.min(b)))
}

/// The next step, and when to look again.
pub async fn step(
    shared: &Shared,
    machine: &Seen,
    spec: &MachineSpec,
    key: &str,
) -> (Step, Option<SignedDuration>) {
    let now = shared.clock.now();
    let waits = |reason, message: String, d, v| Step {
        over: false,
        reason,
        message,
        drain_began: d,
        detach_began: v,
    };
    let pre = hooks(machine, annotation::PRE_DRAIN);
    if !pre.is_empty() {
        return (waits("WaitingForPreDrainHook", format!("held by {}", pre.join(", ")), None, None), None);
    }
    let (mut drain_began, mut detach_began) =
        (began(machine, "nodeDrainStartTime"), began(machine, "waitForNodeVolumeDetachStartTime"));
    let node = machine.data["status"]["nodeRef"]["name"].as_str().map(str::to_owned);
    let cluster = shared.views.clusters.get(namespace(machine), cluster_of(machine));
    let cluster_goes = cluster.as_ref().is_none_or(|c| c.metadata.deletion_timestamp.is_some());
    let guest = match (&node, cluster_goes) {
        (Some(_), false) => Some(shared.guests.get(namespace(machine), &spec.cluster_name).await),
        _ => None,
    };
    if let (Some(node), Some(guest)) = (&node, &guest) {
        if !excluded(machine, annotation::EXCLUDE_DRAIN) {
            let since = *drain_began.get_or_insert(now);
            let (up, left) = expired(spec.node_drain_timeout.as_deref(), since, now);
            let open = match (up, guest) {
                (true, _) => None,
                (false, Ok(guest)) => drain(shared, guest, node, key).await,
                (false, Err(why)) => Some(format!(
                    "the cluster's API cannot be asked to drain node {node}: {why}; waiting for it, or for nodeDrainTimeout ({}); the annotation {} skips the drain",
                    spec.node_drain_timeout.as_deref().unwrap_or("none"),
                    annotation::EXCLUDE_DRAIN
                )),
            };
            if let Some(message) = open {
                let step = waits("DrainingNode", message, drain_began, detach_began);
                return (step, sooner(AGAIN, left));
            }
        }
        shared.guests.drained(key);
        if !excluded(machine, annotation::EXCLUDE_DETACH)
            && let Ok(guest) = guest
            && let Some(volumes) = guest.nodes.by_name(node).map(|n| attached(&n)).filter(|n| *n > 0)
        {
            let since = *detach_began.get_or_insert(now);
            let (up, left) = expired(spec.node_volume_detach_timeout.as_deref(), since, now);
            if !up {
                let message = format!(
                    "{volumes} volumes are still attached to node {node}; waiting for them, or for nodeVolumeDetachTimeout ({})",
                    spec.node_volume_detach_timeout.as_deref().unwrap_or("none")
                );
                return (waits("WaitingForVolumeDetach", message, drain_began, detach_began), left);
            }
        }
    }
    let pre = hooks(machine, annotation::PRE_TERMINATE);
    if !pre.is_empty() {
        let message = format!("held by {}", pre.join(", "));
        return (waits("WaitingForPreTerminateHook", message, drain_began, detach_began), None);
    }
    (Step { over: true, reason: "Deleting", message: String::new(), drain_began, detach_began }, None)
}

/// Volumes that a node is to give back first. A kubelet that is dead unmounts nothing: who waited for it would wait for
/// ever, and a dead node could not be replaced.
fn attached(node: &NodeFact) -> usize {
    if node.unreachable() { 0 } else { node.volumes }
}

/// Whether a pod keeps its node: not one of the node itself, not one that is over, not one that says so.
fn stays(pod: &Pod, unreachable: bool) -> bool {
    let meta = &pod.metadata;
    let mirror = meta.annotations.as_ref().is_some_and(|a| a.contains_key("kubernetes.io/config.mirror"));
    let daemon =
        meta.owner_references.iter().flatten().any(|o| o.controller == Some(true) && o.kind == "DaemonSet");
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default();
    // A kubelet that is dead will not confirm the end of anything.
    let dead = unreachable && meta.deletion_timestamp.is_some();
    let skipped = meta.labels.as_ref().and_then(|l| l.get(label::POD_DRAIN)).is_some_and(|v| v == "skip");
    !(mirror || daemon || dead || skipped || matches!(phase, "Succeeded" | "Failed"))
}

/// What is in the way, or nothing.
async fn drain(shared: &Shared, guest: &Arc<Guest>, node: &str, key: &str) -> Option<String> {
    let fact = guest.nodes.by_name(node);
    if guest.nodes.complete() && fact.is_none() {
        return None;
    }
    if !fact.as_ref().is_some_and(|f| f.unschedulable)
        && let Err(e) = patch_node(&guest.client, node, &json!({"spec": {"unschedulable": true}})).await
    {
        return Some(format!("node {node} cannot be cordoned: {}", reconcile::chain(&e)));
    }
    let pods = shared.guests.pods(guest, node, key);
    if !pods.complete() {
        return Some(format!("listing the pods of node {node}"));
    }
    let unreachable = fact.is_some_and(|f| f.unreachable());
    let left: Vec<Arc<Pod>> = pods.view.all().into_iter().filter(|p| stays(p, unreachable)).collect();
    if left.is_empty() {
        return None;
    }
    let mut evictions: Vec<BoxFuture<'static, Option<String>>> = Vec::new();
    for pod in &left {
        if pod.metadata.deletion_timestamp.is_none() {
            evictions.push(Box::pin(evict(guest.client.clone(), pod.clone())));
        }
    }
    let refused: Vec<Option<String>> =
        futures::stream::iter(evictions).buffer_unordered(PARALLEL).collect().await;
    let refused: Vec<String> = refused.into_iter().flatten().collect();
    let names: Vec<String> = left.iter().take(TOLD).map(|p| full(p)).collect();
    let more = if left.len() > TOLD { format!(" and {} more", left.len() - TOLD) } else { String::new() };
    let mut message =
        format!("draining node {node}: {} pods are left: {}{more}", left.len(), names.join(", "));
    if !refused.is_empty() {
        message.push_str(&format!("; not evicted: {}", refused[..refused.len().min(TOLD)].join("; ")));
    }
    Some(message)
}

fn full(pod: &Pod) -> String {
    let m = &pod.metadata;
    format!("{}/{}", m.namespace.as_deref().unwrap_or_default(), m.name.as_deref().unwrap_or_default())
}

/// Why not, if not.
async fn evict(client: Client, pod: Arc<Pod>) -> Option<String> {
    let m = &pod.metadata;
    let api: Api<Pod> = Api::namespaced(client, m.namespace.as_deref().unwrap_or_default());
    match api.evict(m.name.as_deref().unwrap_or_default(), &EvictParams::default()).await {
        Ok(_) => None,
        Err(kube::Error::Api(s)) if s.code == 404 => None,
        Err(kube::Error::Api(s)) => Some(format!("{}: {}", full(&pod), s.message)),
        Err(e) => Some(format!("{}: {e}", full(&pod))),
    }
}

/// Removes the Node of a machine that is gone. `true` when there is nothing more to do.
///
/// The time for it counts from the first attempt, which the machine is marked with: its drain may have taken longer than
/// that, and a guest that is away for a moment must not leave a Node behind.
pub async fn delete_node(shared: &Shared, machine: &Seen, spec: &MachineSpec) -> Result<bool, Failure> {
    let node = &machine.data["status"]["nodeRef"];
    let Some(name_of_node) = node["name"].as_str() else { return Ok(true) };
    let cluster = shared.views.clusters.get(namespace(machine), cluster_of(machine));
    if cluster.is_none_or(|c| c.metadata.deletion_timestamp.is_some()) {
        return Ok(true);
    }
    if let Ok(guest) = shared.guests.get(namespace(machine), &spec.cluster_name).await {
        let nodes: Api<Node> = Api::all(guest.client.clone());
        let exactly = Preconditions { uid: node["uid"].as_str().map(str::to_owned), resource_version: None };
        match nodes.delete(name_of_node, &DeleteParams::default().preconditions(exactly)).await {
            Ok(_) => return Ok(true),
            // Gone, or another machine's by now.
            Err(kube::Error::Api(s)) if matches!(s.code, 404 | 409) => return Ok(true),
            Err(e) => {
                tracing::warn!(machine = name(machine), node = name_of_node, error = %e, "cannot remove the node");
            }
        }
    }
    let now = shared.clock.now();
    let notes = machine.metadata.annotations.as_ref();
    match notes.and_then(|a| a.get(annotation::NODE_REMOVAL)?.parse::<Timestamp>().ok()) {
        Some(since) => {
            let limit = spec.node_deletion_timeout.as_deref().or(Some("10s"));
            Ok(expired(limit, since, now).0)
        }
        None => {
            let mark = crate::text::stamp(now);
            shared
                .change(&kinds::MACHINE, machine, |o| {
                    o["metadata"]["annotations"][annotation::NODE_REMOVAL] = json!(mark);
                })
                .await?;
            Ok(false)
        }
    }
}
