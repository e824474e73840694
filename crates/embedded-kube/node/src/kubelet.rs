//! Pods on our nodes: one controller for all of them, no task each.

use crate::pod::Memory;
use crate::pod::plan::{Plan, Surroundings, plan};
use crate::{Inner, NodeState, events, tables};
use ek_engine::{ClusterId, Controller, Delta, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::{Access, Deletion};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::{Arc, Weak};
use std::time::Duration;

pub(crate) const NAME: &str = "kubelet";

/// How long a change of a pod's programs may wait for the next before it is told.
const MOMENT: Duration = Duration::from_millis(20);
/// More steps are not taken together.
const ROUNDS: usize = 64;

/// Knows the nodes only as long as somebody else does: the nodes know the engine, which knows this.
pub(crate) struct Kubelet(pub(crate) Weak<Inner>);

/// What tells whose pod it is, without reading the rest.
#[derive(Deserialize)]
struct Assigned<'a> {
    #[serde(borrow, default)]
    spec: AssignedSpec<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct AssignedSpec<'a> {
    #[serde(borrow, default)]
    node_name: Cow<'a, str>,
}

/// The node a stored pod is on.
pub(crate) fn node_name(bytes: &[u8]) -> Option<Cow<'_, str>> {
    let pod: Assigned<'_> = serde_json::from_slice(bytes).ok()?;
    Some(pod.spec.node_name).filter(|n| !n.is_empty())
}

impl Controller for Kubelet {
    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self) -> &'static [&'static str] {
        &["/pods", "/secrets", "/configmaps", "/persistentvolumeclaims", "discovery.k8s.io/endpointslices"]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        let Some(inner) = self.0.upgrade() else { return };
        match &*delta.table {
            "/pods" => {
                // A pod comes to a node once and stays: whichever state there is tells.
                if delta.latest().is_some_and(|e| node_name(&e.bytes()).is_some()) {
                    keys.push(delta.key.clone());
                }
            }
            "/persistentvolumeclaims" => {
                if let (None, Some(gone)) = (&delta.current, &delta.previous) {
                    inner.runtime.remove_claims(&delta.cluster, Some(&gone.meta.uid));
                }
            }
            "discovery.k8s.io/endpointslices" => inner.runtime.moved(&delta.cluster, split(&delta.key).0),
            table => {
                for key in inner.runtime.readers(&delta.cluster, table, &delta.key) {
                    keys.push(key);
                }
            }
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(self.sync(access, key))
    }

    fn forget(&self, cluster: &ClusterId) {
        if let Some(inner) = self.0.upgrade() {
            inner.forget(cluster);
        }
    }

    /// Machines run on while their API server is away.
    fn closed(&self, _: &ClusterId) {}
}

impl Kubelet {
    async fn sync(&self, access: &Access, key: &str) -> Result<Outcome, Status> {
        let Some(inner) = &self.0.upgrade() else { return Ok(Outcome::Done) };
        let (ns, name) = split(key);
        let Some(pod) = access.look(&tables::PODS, ns, name) else {
            inner.forget_pod(access.id(), key);
            return Ok(Outcome::Done);
        };
        let node_name = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let Some(node) = inner.node(access.id(), node_name) else { return Ok(Outcome::Done) };
        if node.is_lost() {
            return Ok(Outcome::Done);
        }
        let uid = object::uid(&pod).to_owned();
        inner.runtime.replace_stale(access.id(), key, &uid);
        let ip = match pod["spec"]["hostNetwork"] == true {
            true => node.address.clone(),
            false => inner.address(access.id(), key, &uid, &node).to_string(),
        };
        let memory = inner.memory(access.id(), key, &uid);
        inner.runtime.clear_blocked(&uid);
        let step = Step { inner, node: &node, ip: &ip, memory: &memory, access };
        if step.has_programs(&pod) {
            step.begin(&pod).await;
        }
        let made: Mutex<Plan> = Mutex::default();
        let change = |p: &Value| {
            // Another pod of the same name is another story.
            if object::uid(p) != uid {
                return None;
            }
            let mut new = step.plan(p);
            let pod = new.changed.then(|| new.pod.take());
            *made.lock() = new;
            pod
        };
        match access.replace(&tables::PODS, ns, name, "status", change).await {
            Ok(_) => {}
            Err(s) if s.code == 404 => return Ok(Outcome::Done),
            Err(s) => return Err(s),
        }
        let mut made = made.into_inner();
        inner.remember(access.id(), key, &uid, made.memory);
        made.notes.extend(inner.runtime.take_notes(&uid));
        events::record(access, inner.options.events, &pod, node_name, &made.notes).await;
        if !made.stop.is_empty() {
            let grace = pod["metadata"]["deletionGracePeriodSeconds"]
                .as_i64()
                .or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64());
            inner.runtime.stop(&uid, &made.stop, grace.unwrap_or(30).max(0));
        }
        if made.gone {
            let how = Deletion { uid: Some(&uid), grace_seconds: Some(0), propagation: None };
            access.delete(&tables::PODS, ns, name, how).await?;
            return Ok(Outcome::Done);
        }
        let now = access.now();
        let refresh = inner.runtime.refresh(inner, access, &pod, &ip).await;
        let next = [made.wake, refresh].into_iter().flatten().min();
        Ok(match next {
            Some(at) => Outcome::After(at.duration_since(now).max(SignedDuration::ZERO)),
            None => Outcome::Done,
        })
    }
}

struct Step<'a> {
    inner: &'a Arc<Inner>,
    node: &'a NodeState,
    ip: &'a str,
    memory: &'a Memory,
    access: &'a Access,
}

impl Step<'_> {
    fn has_programs(&self, pod: &Value) -> bool {
        let lists = [&pod["spec"]["initContainers"], &pod["spec"]["containers"]];
        let mut all = lists.into_iter().filter_map(Value::as_array).flatten();
        all.any(|c| self.inner.options.programs.find(c).is_some())
    }

    /// Programs start before a status says that they run; each round starts all that are due. What goes on by itself
    /// is awaited for a moment: a container that prepares something and ends, and the one after it that is ready at
    /// once, are one change of the status and not four.
    async fn begin(&self, pod: &Value) {
        let uid = object::uid(pod);
        // Where time is played, each step is seen.
        let patience = if self.inner.options.stages.probes { Duration::ZERO } else { MOMENT };
        let until = tokio::time::Instant::now() + patience;
        let mut begun = false;
        for _ in 0..ROUNDS {
            let mut news = self.inner.runtime.news(uid);
            let made = self.plan(pod);
            for (container, round) in &made.start {
                begun = true;
                self.inner.runtime.start(self.inner, self.access, pod, self.ip, container, *round).await;
            }
            if !made.start.is_empty() {
                continue;
            }
            let Some(news) = news.as_mut().filter(|_| begun && made.moving) else { return };
            if tokio::time::timeout_at(until, news.changed()).await.is_err() {
                return;
            }
        }
    }

    fn plan(&self, pod: &Value) -> Plan {
        let facts = self.inner.runtime.facts(object::uid(pod));
        let programs = &self.inner.options.programs;
        let real = |container: &Value| programs.find(container).is_some();
        plan(
            pod,
            self.memory,
            &Surroundings {
                stages: &self.inner.options.stages,
                seed: self.inner.options.seed,
                now: self.access.now(),
                host_ip: &self.node.address,
                pod_ip: self.ip,
                facts: &facts,
                real: &real,
            },
        )
    }
}
