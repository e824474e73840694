//! The life of nodes: silence makes them unknown, conditions become taints, taints make pods leave, and pods of
//! nodes that are gone go, too.
//!
//! Keys are names of nodes; the key `|ended` stands for the pods of a cluster that have ended.

mod plan;

use crate::events::{self, Note};
use crate::objects::{condition, find, has_ended, has_node, node_in, set_condition, sooner, text, until};
use crate::pods::Pod;
use crate::{MANAGER, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::{Access, Deletion, parse};
use ek_store::{ClusterId, Entry};
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const COMPONENT: &str = "node-controller";
const LEASES: &str = "kube-node-lease";
const ENDED: &str = "|ended";

pub struct Nodes {
    /// Ended pods a cluster keeps.
    keep_ended: usize,
    known: Mutex<HashMap<ClusterId, Known>>,
}

#[derive(Default)]
struct Known {
    /// Nodes that make pods leave.
    repelling: HashSet<String>,
    /// Nodes that pods name and that are not there, since when.
    missing: HashMap<String, Timestamp>,
    /// Pods that have ended.
    ended: HashSet<Arc<str>>,
}

impl Nodes {
    pub fn new(keep_ended: usize) -> Nodes {
        Nodes { keep_ended, known: Mutex::default() }
    }
}

impl Controller for Nodes {
    fn name(&self) -> &'static str {
        "nodelifecycle"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["/nodes", "/pods", "coordination.k8s.io/leases"]
    }

    fn concerns(&self, access: &Access, delta: &Delta, keys: &mut Keys) {
        match &*delta.table {
            "/nodes" => {
                let repels = delta
                    .current
                    .as_ref()
                    .is_some_and(|e| find(&e.bytes(), b"\"effect\":\"NoExecute\"").is_some());
                let mut known = self.known.lock();
                if repels {
                    known.entry(delta.cluster.clone()).or_default().repelling.insert(delta.key.to_string());
                } else if let Some(k) = known.get_mut(&delta.cluster) {
                    k.repelling.remove(&*delta.key);
                }
                keys.push(delta.key.clone());
            }
            "/pods" => {
                self.note_ended(delta, keys);
                let Some(current) = &delta.current else { return };
                let Some(node) = node_in(current) else { return };
                let came = delta.previous.as_ref().is_none_or(|p| !has_node(p));
                let repelled = || {
                    let known = self.known.lock();
                    known.get(&delta.cluster).is_some_and(|k| k.repelling.contains(&node))
                };
                if came && (repelled() || access.entry(&tables::NODES, "", &node).is_none()) {
                    keys.push(node);
                }
            }
            _ => {
                let (namespace, name) = split(&delta.key);
                if namespace == LEASES {
                    keys.push(name);
                }
            }
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            let access = access.manager(MANAGER);
            if key == ENDED {
                self.trim_ended(&access).await?;
                return Ok(Outcome::Done);
            }
            match access.get(&tables::NODES, "", key) {
                Some(node) => {
                    if let Some(k) = self.known.lock().get_mut(access.id()) {
                        k.missing.remove(key);
                    }
                    live(&access, node).await
                }
                None => self.gone(&access, key).await,
            }
        })
    }

    fn forget(&self, cluster: &ClusterId) {
        self.known.lock().remove(cluster);
    }
}

async fn live(access: &Access, mut node: Value) -> Result<Outcome, Status> {
    let name = object::name(&node).to_owned();
    let (now, stamp) = (access.now(), access.timestamp());
    let lease = access.get(&tables::LEASES, LEASES, &name);
    let mut next = plan::deadline(&node, lease.as_ref());
    if next.is_some_and(|t| t <= now) {
        next = None;
        if plan::unknown(&node, &stamp).is_some() {
            let was_ready = condition(&node, "Ready").is_some_and(|c| c["status"] == "True");
            let lost = |n: &mut Value| match plan::unknown(n, &stamp) {
                Some(conditions) => {
                    n["status"]["conditions"] = json!(conditions);
                    true
                }
                None => false,
            };
            access.update(&tables::NODES, "", &name, "status", lost).await?;
            if was_ready {
                let note = Note::normal("NodeNotReady", format!("Node {name} status is now: NodeNotReady"));
                events::tell(access, COMPONENT, &node, &note).await;
            }
            let Some(fresh) = access.get(&tables::NODES, "", &name) else { return Ok(Outcome::Done) };
            node = fresh;
        }
        silence_pods(access, &name, &stamp).await?;
    }
    if plan::taints(&node, &stamp).is_some() {
        let put = |n: &mut Value| match plan::taints(n, &stamp) {
            Some(taints) => {
                n["spec"]["taints"] = json!(taints);
                true
            }
            None => false,
        };
        access.update(&tables::NODES, "", &name, "", put).await?;
        let Some(fresh) = access.get(&tables::NODES, "", &name) else { return Ok(Outcome::Done) };
        node = fresh;
    }
    next = sooner(next, repel(access, &node, now).await?);
    Ok(next.map_or(Outcome::Done, |at| Outcome::After(until(now, at))))
}

fn pods_on(access: &Access, node: &str) -> Vec<Arc<Entry>> {
    let pods = access.table(&tables::PODS);
    pods.objects.values().filter(|e| node_in(e).is_some_and(|n| n == node)).cloned().collect()
}

/// Nobody can say that the pods of a silent node are ready.
async fn silence_pods(access: &Access, node: &str, stamp: &str) -> Result<(), Status> {
    for entry in pods_on(access, node) {
        let Some(pod) = Pod::read(&entry).filter(|p| p.ready) else { continue };
        let (namespace, _) = split_entry(&entry);
        let quiet = |p: &mut Value| {
            let Some(Value::Array(all)) = p.pointer_mut("/status/conditions") else { return false };
            set_condition(all, json!({"type": "Ready", "status": "False", "lastProbeTime": null}), stamp)
        };
        match access.update(&tables::PODS, &namespace, &pod.name, "status", quiet).await {
            Err(e) if e.code != 404 => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

fn split_entry(entry: &Entry) -> (String, String) {
    let obj = parse(entry).unwrap_or_default();
    (object::namespace(&obj).to_owned(), object::name(&obj).to_owned())
}

/// Deletes the pods that must leave; says when the next must.
async fn repel(access: &Access, node: &Value, now: Timestamp) -> Result<Option<Timestamp>, Status> {
    let repels = crate::objects::list(node, "/spec/taints").iter().any(|t| text(t, "/effect") == "NoExecute");
    if !repels {
        return Ok(None);
    }
    let mut next = None;
    for entry in pods_on(access, object::name(node)).iter().filter(|e| !e.meta.deleting && !has_ended(e)) {
        let Some(pod) = parse(entry) else { continue };
        match plan::leaves_at(node, &pod, now) {
            None => {}
            Some(at) if at > now => next = sooner(next, Some(at)),
            Some(_) => {
                let (ns, name) = (object::namespace(&pod), object::name(&pod));
                let text = format!("Marking for deletion Pod {ns}/{name}");
                events::tell(
                    access,
                    "taint-eviction-controller",
                    &pod,
                    &Note::normal("TaintManagerEviction", text),
                )
                .await;
                doom(
                    access,
                    &pod,
                    "DeletionByTaintManager",
                    "Taint manager: deleting due to NoExecute taint",
                    false,
                )
                .await?;
                let how = Deletion { uid: Some(object::uid(&pod)), ..Deletion::default() };
                access.delete(&tables::PODS, ns, name, how).await?;
            }
        }
    }
    Ok(next)
}

/// Says on a pod why it goes, for whoever counts failures.
async fn doom(access: &Access, pod: &Value, reason: &str, message: &str, fail: bool) -> Result<(), Status> {
    let stamp = access.timestamp();
    let mark = |p: &mut Value| {
        if object::uid(p) != object::uid(pod) {
            return false;
        }
        if fail && !matches!(text(p, "/status/phase"), "Succeeded" | "Failed") {
            p["status"]["phase"] = json!("Failed");
        }
        let mut all = crate::objects::list(p, "/status/conditions").to_vec();
        let c = json!({"type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "reason": reason, "message": message});
        set_condition(&mut all, c, &stamp);
        p["status"]["conditions"] = json!(all);
        true
    };
    match access.update(&tables::PODS, object::namespace(pod), object::name(pod), "status", mark).await {
        Err(e) if e.code != 404 => Err(e),
        _ => Ok(()),
    }
}

impl Nodes {
    /// A node that is gone may come back in a moment, as when it registers anew; then its pods are still there.
    async fn gone(&self, access: &Access, name: &str) -> Result<Outcome, Status> {
        let lease = access.entry(&tables::LEASES, LEASES, name);
        let now = access.now();
        let pods = pods_on(access, name);
        let since = {
            let mut known = self.known.lock();
            let missing = &mut known.entry(access.id().clone()).or_default().missing;
            let since = *missing.entry(name.to_owned()).or_insert(now);
            if pods.is_empty() && lease.is_none() {
                missing.remove(name);
            }
            since
        };
        let at = crate::objects::seconds_after(since, plan::GRACE);
        if at > now && !(pods.is_empty() && lease.is_none()) {
            return Ok(Outcome::After(until(now, at)));
        }
        for entry in &pods {
            let Some(pod) = parse(entry) else { continue };
            doom(access, &pod, "DeletionByPodGC", "PodGC: node no longer exists", true).await?;
            let how =
                Deletion { uid: Some(object::uid(&pod)), grace_seconds: Some(0), ..Deletion::default() };
            access.delete(&tables::PODS, object::namespace(&pod), object::name(&pod), how).await?;
        }
        if lease.is_some() {
            access.delete(&tables::LEASES, LEASES, name, Deletion::default()).await?;
        }
        if let Some(k) = self.known.lock().get_mut(access.id()) {
            k.missing.remove(name);
        }
        Ok(Outcome::Done)
    }

    /// Remembers pods that have ended, so that nobody walks over those that live.
    fn note_ended(&self, delta: &Delta, keys: &mut Keys) {
        let ended = delta.current.as_ref().is_some_and(|e| !e.meta.deleting && has_ended(e));
        let mut known = self.known.lock();
        if ended {
            let all = &mut known.entry(delta.cluster.clone()).or_default().ended;
            if all.insert(delta.key.clone()) && all.len() > self.keep_ended {
                keys.push(ENDED);
            }
        } else if let Some(k) = known.get_mut(&delta.cluster) {
            k.ended.remove(&delta.key);
        }
    }

    /// Of pods that have ended only so many are kept, the oldest go.
    async fn trim_ended(&self, access: &Access) -> Result<(), Status> {
        let ended: Vec<Arc<str>> =
            self.known.lock().get(access.id()).map(|k| k.ended.iter().cloned().collect()).unwrap_or_default();
        let view = access.table(&tables::PODS);
        let mut done: Vec<(Pod, String)> = (ended.iter())
            .filter_map(|k| Some((k, view.objects.get(k)?)))
            .filter(|(_, e)| !e.meta.deleting)
            .filter_map(|(k, e)| Some((Pod::read(e).filter(Pod::ended)?, split(k).0.to_owned())))
            .collect();
        done.sort_by(|(a, _), (b, _)| (a.created, &a.name).cmp(&(b.created, &b.name)));
        let surplus = done.len().saturating_sub(self.keep_ended);
        for (pod, namespace) in done.iter().take(surplus) {
            let how = Deletion { uid: Some(&pod.uid), grace_seconds: Some(0), ..Deletion::default() };
            access.delete(&tables::PODS, namespace, &pod.name, how).await?;
        }
        Ok(())
    }
}
