//! The scheduler: pods that have no node get one.
//!
//! One key stands for a whole cluster, because where one pod goes depends on where all others are. A round takes
//! every pod that waits, the important ones first, decides them one after the other against one snapshot, then
//! binds them together. A cluster in which nothing waits costs nothing: rounds are asked for only when a pod
//! waits or, while some do, when something happened that may help them.
//!
//! Rejected: preemption. Nothing on a simulated node starves, and evicting pods by priority would make the small
//! clusters this serves harder to understand; pods that would preempt say why they wait instead.

mod plan;
mod snapshot;

use crate::events::{self, Note};
use crate::objects::{annotate, annotation, has_ended, has_node, int, list, text, when};
use crate::tables;
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::{Access, parse};
use ek_store::ClusterId;
use futures::StreamExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use plan::Decision;
use serde_json::Value;
use snapshot::{ClaimState, Pending, Placed, Snapshot};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

const COMPONENT: &str = "default-scheduler";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const TOGETHER: usize = 16;

#[derive(Default)]
pub struct Scheduler {
    clusters: Mutex<HashMap<ClusterId, Known>>,
}

/// What is remembered of a cluster between rounds.
#[derive(Default)]
struct Known {
    waiting: BTreeSet<Arc<str>>,
    /// Pods that are to be looked at again.
    changed: BTreeSet<Arc<str>>,
    nodes_changed: bool,
    /// The cluster as it was after the last round; nothing before the first.
    snapshot: Option<Snapshot>,
}

impl Controller for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["/pods", "/nodes", "/persistentvolumeclaims", "/persistentvolumes", "storage.k8s.io/storageclasses"]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        let mut clusters = self.clusters.lock();
        if let Some(known) = clusters.get_mut(&delta.cluster) {
            match &*delta.table {
                "/pods" => _ = known.changed.insert(delta.key.clone()),
                "/nodes" => known.nodes_changed = true,
                _ => {}
            }
        }
        if &*delta.table != "/pods" {
            if clusters.get(&delta.cluster).is_some_and(|k| !k.waiting.is_empty()) {
                keys.push("");
            }
            return;
        }
        let waits = delta.current.as_ref().is_some_and(|e| !e.meta.deleting && !has_node(e));
        if waits {
            clusters.entry(delta.cluster.clone()).or_default().waiting.insert(delta.key.clone());
            keys.push("");
            return;
        }
        let Some(known) = clusters.get_mut(&delta.cluster) else { return };
        known.waiting.remove(&delta.key);
        if !known.waiting.is_empty() && frees(delta) {
            keys.push("");
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, _: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            self.round(&access.manager("kube-scheduler")).await?;
            Ok(Outcome::Done)
        })
    }

    fn forget(&self, cluster: &ClusterId) {
        self.clusters.lock().remove(cluster);
    }
}

/// Whether others may find room, or company, because of this.
fn frees(delta: &Delta) -> bool {
    let bound = delta.previous.as_ref().is_some_and(|p| !has_node(p));
    delta.current.as_ref().is_none_or(|c| bound || has_ended(c))
}

impl Scheduler {
    async fn round(&self, access: &Access) -> Result<(), Status> {
        let waiting: Vec<Arc<str>> = {
            let clusters = self.clusters.lock();
            clusters.get(access.id()).map(|k| k.waiting.iter().cloned().collect()).unwrap_or_default()
        };
        let mut pending: Vec<Pending> = waiting.iter().filter_map(|key| read(access, key)).collect();
        if pending.is_empty() {
            return Ok(());
        }
        let order = |p: &Pending| {
            let priority = int(&p.object, "/spec/priority").unwrap_or(0);
            (std::cmp::Reverse(priority), when(&p.object, "/metadata/creationTimestamp"), p.key.clone())
        };
        pending.sort_by_cached_key(order);
        let mut snapshot = self.take_snapshot(access);
        let decisions: Vec<(Pending, Decision)> = pending
            .into_iter()
            .map(|p| {
                let decision = plan::decide(&mut snapshot, &p);
                (p, decision)
            })
            .collect();
        self.keep_snapshot(access, snapshot, &decisions);
        let mut work: Vec<BoxFuture<'_, Result<(), Status>>> = Vec::new();
        for (pod, decision) in &decisions {
            work.push(Box::pin(carry_out(access, pod, decision)));
        }
        let results: Vec<_> = futures::stream::iter(work).buffer_unordered(TOGETHER).collect().await;
        results.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }

    /// What is known, brought up to date. It is taken out meanwhile: a cluster that is dropped while we read must not
    /// come back by this.
    fn take_snapshot(&self, access: &Access) -> Snapshot {
        let (before, changed, nodes_changed) = {
            let mut clusters = self.clusters.lock();
            match clusters.get_mut(access.id()) {
                Some(k) => {
                    let nodes = std::mem::take(&mut k.nodes_changed);
                    (k.snapshot.take(), std::mem::take(&mut k.changed), nodes)
                }
                None => (None, BTreeSet::new(), true),
            }
        };
        let fresh = before.is_none();
        let mut snapshot = before.unwrap_or_default();
        if fresh || nodes_changed {
            let nodes = access.table(&tables::NODES);
            let live = nodes.objects.values().filter(|e| !e.meta.deleting);
            snapshot.set_nodes(live.filter_map(|e| parse(e)).collect());
        }
        snapshot.namespaces = access.table(&tables::NAMESPACES).objects;
        let pods = access.table(&tables::PODS);
        let mut look = |key: &Arc<str>| {
            let entry = pods.objects.get(key).filter(|e| has_node(e));
            match entry.and_then(|e| Placed::read(e)) {
                Some(placed) => snapshot.place(key.clone(), Arc::new(placed)),
                None => snapshot.remove(key),
            }
        };
        match fresh {
            true => pods.objects.keys().for_each(&mut look),
            false => changed.iter().for_each(&mut look),
        }
        snapshot
    }

    /// Keeps what is known for the next round, which looks at what this one has decided: not all of it may come true.
    fn keep_snapshot(&self, access: &Access, snapshot: Snapshot, decided: &[(Pending, Decision)]) {
        if let Some(known) = self.clusters.lock().get_mut(access.id()) {
            known.changed.extend(decided.iter().map(|(p, _)| p.key.clone()));
            known.snapshot = Some(snapshot);
        }
    }
}

/// A pod that waits for us: it has no node, no gates, and names no other scheduler.
fn read(access: &Access, key: &Arc<str>) -> Option<Pending> {
    let (namespace, name) = split(key);
    let entry = access.entry(&tables::PODS, namespace, name)?;
    if entry.meta.deleting || has_node(&entry) {
        return None;
    }
    let object = parse(&entry)?;
    let ours = matches!(text(&object, "/spec/schedulerName"), "" | COMPONENT);
    if !ours || !list(&object, "/spec/schedulingGates").is_empty() {
        return None;
    }
    let claims = list(&object, "/spec/volumes").iter().filter_map(|v| claim(access, &object, v)).collect();
    Some(Pending { key: key.clone(), placed: Placed::of(&object, &entry), object, claims })
}

fn claim(access: &Access, pod: &Value, volume: &Value) -> Option<ClaimState> {
    let name = match volume.pointer("/persistentVolumeClaim/claimName").and_then(Value::as_str) {
        Some(name) => name.to_owned(),
        None => {
            volume.get("ephemeral").filter(|e| !e.is_null())?;
            format!("{}-{}", object::name(pod), text(volume, "/name"))
        }
    };
    let Some(claim) = access.get(&tables::CLAIMS, object::namespace(pod), &name) else {
        return Some(ClaimState::Missing(name));
    };
    if text(&claim, "/status/phase") == "Bound" {
        let pv = access.get(&tables::VOLUMES, "", text(&claim, "/spec/volumeName"));
        let terms = pv.as_ref().and_then(|v| v.pointer("/spec/nodeAffinity/required/nodeSelectorTerms"));
        return Some(ClaimState::Bound(terms.cloned()));
    }
    let class = access.get(&tables::STORAGE_CLASSES, "", text(&claim, "/spec/storageClassName"));
    let waits = class.is_some_and(|c| text(&c, "/volumeBindingMode") == "WaitForFirstConsumer");
    if !waits || !text(&claim, "/spec/volumeName").is_empty() {
        return Some(ClaimState::Unbound);
    }
    let selected = annotation(&claim, SELECTED_NODE).map(str::to_owned);
    Some(ClaimState::ForConsumer { name, selected })
}

async fn carry_out(access: &Access, pod: &Pending, decision: &Decision) -> Result<(), Status> {
    let (namespace, name) = split(&pod.key);
    match decision {
        Decision::Wait => Ok(()),
        Decision::Bind { node } => match access.bind(namespace, name, node).await {
            Ok(()) => {
                let text = format!("Successfully assigned {namespace}/{name} to {node}");
                events::tell(access, COMPONENT, &pod.object, &Note::normal("Scheduled", text)).await;
                Ok(())
            }
            // Deleted, or bound by somebody else.
            Err(e) if e.code == 404 || e.code == 409 => Ok(()),
            Err(e) => Err(e),
        },
        Decision::Provide { node, claims } => {
            for claim in claims {
                let choose = |c: &mut Value| annotate(c, SELECTED_NODE, node);
                access.update(&tables::CLAIMS, namespace, claim, "", choose).await?;
            }
            Ok(())
        }
        Decision::Unschedulable { message } => {
            let now = access.timestamp();
            let mark = |p: &mut Value| {
                object::uid(p) == object::uid(&pod.object) && snapshot::mark_unschedulable(p, message, &now)
            };
            match access.update(&tables::PODS, namespace, name, "status", mark).await {
                Ok(Some(_)) => {
                    let note = Note::warning("FailedScheduling", message.clone());
                    events::tell(access, COMPONENT, &pod.object, &note).await;
                    Ok(())
                }
                Ok(None) => Ok(()),
                Err(e) if e.code == 404 => Ok(()),
                Err(e) => Err(e),
            }
        }
    }
}
