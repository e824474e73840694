//! Daemon sets: one pod on every node that wants it.

mod plan;

use crate::backoff::Backoffs;
use crate::events::{self, Note};
use crate::objects::{is_deleting, put_status, sooner, until};
use crate::whom::{Owners, selector_of};
use crate::{MANAGER, pods, revisions, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::{Access, parse};
use ek_store::ClusterId;
use futures::future::BoxFuture;
use plan::Input;
use serde_json::Value;
use std::collections::BTreeMap;

const COMPONENT: &str = "daemonset-controller";
const HASH: &str = "controller-revision-hash";

const OWNERS: Owners =
    Owners { kind: "DaemonSet", group: "apps", table: || &tables::DAEMON_SETS, selector: selector_of };

#[derive(Default)]
pub struct DaemonSets {
    failures: Backoffs,
}

impl Controller for DaemonSets {
    fn name(&self) -> &'static str {
        "daemonset"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["apps/daemonsets", "/pods", "/nodes"]
    }

    fn concerns(&self, access: &Access, delta: &Delta, keys: &mut Keys) {
        if &*delta.table != "/nodes" {
            OWNERS.of(access, delta, keys);
            return;
        }
        let sets = access.table(&tables::DAEMON_SETS);
        if sets.objects.is_empty() {
            return;
        }
        // Heartbeats change only the status; what decides is labels, taints and whether the node is there.
        let decides = |e: &std::sync::Arc<ek_store::Entry>| {
            parse(e).map(|n| (n["metadata"]["labels"].clone(), n["spec"].clone()))
        };
        if let (Some(a), Some(b)) = (&delta.previous, &delta.current)
            && decides(a) == decides(b)
        {
            return;
        }
        for key in sets.objects.keys() {
            keys.push(key.clone());
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move { self.run(&access.manager(MANAGER), key).await })
    }

    fn forget(&self, cluster: &ClusterId) {
        self.failures.forget(cluster);
    }
}

impl DaemonSets {
    async fn run(&self, access: &Access, key: &str) -> Result<Outcome, Status> {
        let (namespace, name) = split(key);
        let Some(set) = access.get(&tables::DAEMON_SETS, namespace, name) else { return Ok(Outcome::Done) };
        let Some(selector) = selector_of(&set).filter(|_| !is_deleting(&set)) else {
            return Ok(Outcome::Done);
        };
        let claim = pods::claim(access, namespace, object::uid(&set), &selector);
        let mine = pods::settle_claim(access, &set, claim).await?;
        let all = revisions::sync(access, &set, HASH).await?;
        let hash = revisions::hash_of(&set, &all.update).to_owned();
        let template = plan::template(&set);
        let mut nodes = BTreeMap::new();
        for entry in access.table(&tables::NODES).objects.values().filter(|e| !e.meta.deleting) {
            if let Some(node) = parse(entry) {
                nodes.insert(object::name(&node).to_owned(), plan::belongs(&template, &node));
            }
        }
        let mut by_node: BTreeMap<String, Vec<&pods::Pod>> = BTreeMap::new();
        for pod in &mine {
            let object =
                if pod.node.is_empty() { parse(&pod.entry).unwrap_or_default() } else { Value::Null };
            by_node.entry(plan::node_of(pod, &object)).or_default().push(pod);
        }
        let now = access.now();
        let mut plan = plan::plan(&Input { set: &set, nodes, pods: by_node, hash: &hash, now });
        let mut notes = Vec::new();
        let mut next = plan.at;
        for (node, pod) in std::mem::take(&mut plan.failed) {
            let id = format!("{}/{node}", object::uid(&set));
            match self.failures.may(access.id(), &id, now) {
                Ok(()) => {
                    let text = format!(
                        "Found failed daemon pod {namespace}/{} on node {node}, will try to kill it",
                        pod.name
                    );
                    notes.push(Note::warning("FailedDaemonPod", text));
                    plan.delete.push(pod);
                }
                Err(at) => {
                    next = sooner(next, Some(at));
                    plan.create.retain(|n| *n != node);
                }
            }
        }
        let wanted: Vec<Value> =
            plan.create.iter().map(|node| plan::pod(&set, &template, &hash, node)).collect();
        let (_, told, mut failed) = pods::create(access, wanted).await;
        notes.extend(told);
        let (told, error) = pods::delete(access, namespace, &plan.delete).await;
        notes.extend(told);
        failed = failed.or(error);
        events::tell_all(access, COMPONENT, &set, &notes).await;
        let used = |r: &Value| mine.iter().any(|p| p.label(HASH) == Some(revisions::hash_of(&set, r)));
        revisions::trim(access, &set, &all, used).await?;
        let write = |o: &mut Value| object::uid(o) == object::uid(&set) && put_status(o, &plan.status);
        match access.update(&tables::DAEMON_SETS, namespace, name, "status", write).await {
            Err(e) if e.code != 404 => return Err(e),
            _ => {}
        }
        match (failed, next) {
            (Some(e), _) => Err(e),
            (None, Some(at)) => Ok(Outcome::After(until(now, at))),
            (None, None) => Ok(Outcome::Done),
        }
    }
}
