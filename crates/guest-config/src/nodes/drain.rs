//! Drains that a node asks for: `desiredDrain` is done, and then said in `lastAppliedDrain`.

use super::facts::{NodeFact, word};
use super::{Keeper, asking};
use apis::names::label;
use futures::StreamExt;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{EvictParams, ListParams};
use kube::{Api, Client};
use reconcile::{Failure, Outcome, Waiting};
use serde_json::json;

/// Pods that were not allowed to go, or have not gone yet, are looked at again.
const AGAIN: SignedDuration = SignedDuration::from_secs(2);
const PARALLEL: usize = 16;
/// How many pods are named.
const TOLD: usize = 5;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Drain,
    Uncordon,
}

pub fn wish(node: &NodeFact) -> Option<Wish> {
    let (desired, applied) = (node.mark(word::DESIRED_DRAIN), node.mark(word::APPLIED_DRAIN));
    match desired.split('-').next() {
        _ if desired == applied => None,
        Some("drain") => Some(Wish::Drain),
        Some("uncordon") => Some(Wish::Uncordon),
        _ => None,
    }
}

/// Whether a drain has to wait for a pod.
pub fn leaves(pod: &Pod) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    let of_daemons = owners.into_iter().any(|o| o.kind == "DaemonSet" && o.controller == Some(true));
    let marks = pod.metadata.annotations.as_ref();
    let mirror = marks.is_some_and(|a| a.contains_key("kubernetes.io/config.mirror"));
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    let ended = matches!(phase, Some("Succeeded" | "Failed"));
    // The one that does the upgrade cannot leave before it is done.
    let daemon = pod.metadata.name.as_deref().is_some_and(|n| n.starts_with(super::inplace::DAEMON));
    let skipped =
        pod.metadata.labels.as_ref().and_then(|l| l.get(label::POD_DRAIN)).is_some_and(|v| v == "skip");
    !(of_daemons || mirror || ended || daemon || skipped)
}

pub(super) async fn run(keeper: &Keeper, node: &NodeFact) -> Result<Outcome, Failure> {
    let Some(wish) = wish(node) else { return Ok(Outcome::Done) };
    if node.unschedulable != (wish == Wish::Drain) {
        let value = (wish == Wish::Drain).then_some(true);
        keeper.patch_node(&node.name, &json!({"spec": {"unschedulable": value}})).await?;
    }
    if wish == Wish::Drain
        && let Some(open) = evict(keeper, &node.name).await?
    {
        let hint = "a PodDisruptionBudget may not allow it; see `kubectl get pdb -A`";
        let on = Waiting::new(format!("node {} to be drained: {open}", node.name), hint, keeper.clock.now());
        return Ok(Outcome::Waiting { on: vec![on], again: Some(AGAIN) });
    }
    let done = json!({"metadata": {"annotations": {word::APPLIED_DRAIN: node.mark(word::DESIRED_DRAIN)}}});
    keeper.patch_node(&node.name, &done).await?;
    Ok(Outcome::Done)
}

/// What a pod that was asked to leave says; nothing if it is gone.
async fn ask_to_leave(guest: Client, pod: Pod) -> String {
    let (name, namespace) =
        (pod.metadata.name.unwrap_or_default(), pod.metadata.namespace.unwrap_or_default());
    let place = format!("{namespace}/{name}");
    if pod.metadata.deletion_timestamp.is_some() {
        return format!("{place} is leaving");
    }
    let pods: Api<Pod> = Api::namespaced(guest, &namespace);
    match pods.evict(&name, &EvictParams::default()).await {
        Ok(_) => format!("{place} was asked to leave"),
        Err(kube::Error::Api(s)) if s.code == 404 => String::new(),
        Err(kube::Error::Api(s)) => format!("{place}: {}", s.message),
        Err(e) => format!("{place}: {e}"),
    }
}

/// Asks every pod to leave; what stays, if anything does.
async fn evict(keeper: &Keeper, node: &str) -> Result<Option<String>, super::Error> {
    let all: Api<Pod> = Api::all(keeper.guest.clone());
    let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let list = all.list(&here).await.map_err(asking(format!("list the pods of node {node}")))?;
    let staying = list.items.into_iter().filter(leaves);
    let asked: Vec<_> = staying.map(|pod| ask_to_leave(keeper.guest.clone(), pod)).collect();
    let said: Vec<String> = futures::stream::iter(asked).buffer_unordered(PARALLEL).collect().await;
    let mut said: Vec<String> = said.into_iter().filter(|s| !s.is_empty()).collect();
    said.sort();
    let more = said.len().saturating_sub(TOLD);
    said.truncate(TOLD);
    if more > 0 {
        said.push(format!("and {more} more"));
    }
    Ok((!said.is_empty()).then(|| said.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_done() {
        let node = |desired: &str, applied: &str| NodeFact {
            annotations: [(word::DESIRED_DRAIN, desired), (word::APPLIED_DRAIN, applied)]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
            ..NodeFact::default()
        };
        assert_eq!(wish(&node("drain-a", "")), Some(Wish::Drain));
        assert_eq!(wish(&node("uncordon-a", "drain-a")), Some(Wish::Uncordon));
        assert_eq!(wish(&node("drain-a", "drain-a")), None);
        assert_eq!(wish(&node("", "")), None);
        assert_eq!(wish(&node("what-ever", "")), None);
    }

    #[test]
    fn daemons_and_what_has_ended_may_stay() {
        let pod = |v: serde_json::Value| serde_json::from_value::<Pod>(v).unwrap();
        assert!(leaves(&pod(json!({"metadata": {"name": "a"}}))));
        for stays in [
            json!({"metadata": {"name": "machine-config-daemon-n1"}}),
            json!({"metadata": {"name": "a", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]}}),
            json!({"metadata": {"name": "a"}, "status": {"phase": "Succeeded"}}),
            json!({"metadata": {"name": "a", "labels": {"cluster.x-k8s.io/drain": "skip"}}}),
            json!({"metadata": {"name": "a", "annotations": {"kubernetes.io/config.mirror": "x"}}}),
        ] {
            assert!(!leaves(&pod(stays.clone())), "{stays}");
        }
    }
}
