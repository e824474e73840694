//! The controller of NodePools: looks, plans, applies, and says how things stand.
//!
//! It reads the views of the HostedCluster controller and writes by its applier: both are one operator, and one watch
//! serves both.

mod look;
mod remove;
mod room;
mod watches;
mod work;

pub use watches::Views;
pub(crate) use watches::{attach, of_cluster, of_input};

use super::machines::{Has, Refs};
use super::room::{Room, Rooms};
use super::status::{self, Endpoint, Seen, Target};
use super::tuning::{Shared, What};
use super::watched::{Machine, Token, Workload};
use super::{home, key, machines, name, secrets};
use crate::around::{NoRelease, Payload};
use crate::operate::Operator;
use crate::validate::Problem;
use crate::{kinds, naming};
use apis::conditions::node_pool as condition;
use apis::hypershift::{HostedCluster, NodePool};
use apis::names::{annotation, finalizer};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use parking_lot::Mutex;
use reconcile::conditions::Conditions;
use reconcile::{Controller, Failure, Kind, Outcome, Pause, Waiting, chain, split};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Keeps node pools as their objects say.
pub struct Pools {
    operator: Arc<Operator>,
    /// Names that were found once: they are not asked for again.
    resolved: Mutex<HashSet<String>>,
    rooms: Rooms,
    /// What machines of a pool were last told to be: a roll that began is not held, however late the watch is.
    rolling: Mutex<HashMap<String, Refs>>,
}

impl Controller for Pools {
    fn name(&self) -> &'static str {
        "node-pool"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

/// What a pass has looked at.
pub(super) struct Look {
    seen: Arc<DynamicObject>,
    np: NodePool,
    hc: Arc<HostedCluster>,
    namespace: String,
    problems: Vec<Problem>,
    pause: Result<Pause, String>,
    release: Option<Arc<Result<Payload, NoRelease>>>,
    endpoint: Endpoint,
    skew: Option<String>,
    /// What machines are to be; nothing while that cannot be said.
    target: Option<Target>,
    /// Written if there is a target.
    objects: Vec<Value>,
    /// For the node tuning operator; nothing: what users wrote cannot be read, and what it has stays.
    tuning: Option<Vec<Value>>,
    has: Has,
    /// Why an empty pool cannot grow by itself.
    unscalable: Option<String>,
    boot: Option<Boot>,
    waiting: Option<String>,
    conflict: Option<String>,
    /// What Azure has for it.
    room: Room,
    /// A roll is out of the question, and so is everything else.
    stopped: bool,
    again: Option<SignedDuration>,
}

/// What stubs are made from.
pub(super) struct Boot {
    endpoint: String,
    ca: Vec<u8>,
}

fn sooner(a: Option<SignedDuration>, b: Option<SignedDuration>) -> Option<SignedDuration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Pools {
    pub(crate) fn new(operator: Arc<Operator>) -> Arc<Pools> {
        Arc::new(Pools {
            operator,
            resolved: Mutex::default(),
            rooms: Rooms::default(),
            rolling: Mutex::default(),
        })
    }

    fn views(&self) -> &Views {
        &self.operator.views.np
    }

    async fn run(&self, key: &str) -> Result<Outcome, Failure> {
        let (namespace, n) = split(key);
        let Some(seen) = self.views().pools.get(namespace, n) else { return Ok(Outcome::Done) };
        let np: NodePool = serde_json::from_value(serde_json::to_value(&*seen)?)?;
        let cluster = self.operator.views.clusters.get(namespace, &np.spec.cluster_name);
        if cluster.as_ref().is_some_and(|c| !self.operator.covers(c)) {
            return Ok(Outcome::Done);
        }
        if seen.metadata.deletion_timestamp.is_some() {
            return self.remove(&seen, &np).await;
        }
        let Some(cluster) = cluster else { return self.orphan(&seen, &np).await };
        if self.prepare(&seen, &cluster).await? {
            // The change wakes us.
            return Ok(Outcome::Done);
        }
        let hc_key = format!("{namespace}/{}", np.spec.cluster_name);
        let hc = self.operator.memos.read(&hc_key, &cluster)?;
        let pause = Pause::read(np.spec.paused_until.as_deref(), self.operator.clock.now());
        let paused = matches!(pause, Ok(Pause::Until(_) | Pause::Forever));
        if paused {
            // First: whatever cannot be looked at, nothing is to move.
            self.pause_machines(&np, &naming::namespace(&hc), true).await?;
        }
        let mut look = Box::pin(self.look(seen, np, hc, &cluster, pause)).await?;
        if paused {
            // Room is promised to who grows, and this one does not.
            return self.paused(look).await;
        }
        self.room(&mut look).await;
        let worked = match cluster.metadata.deletion_timestamp.is_some() {
            true => Ok(None),
            false => Box::pin(self.work(&look)).await,
        };
        let error = worked.as_ref().err().map(|e| chain(&**e).to_string());
        let ready = self.report(&look, error.as_deref()).await?;
        let again = sooner(look.again, worked?);
        Ok(self.outcome(&look, ready, again))
    }

    /// Finalizer and owner. Says whether something was written.
    async fn prepare(&self, seen: &DynamicObject, cluster: &DynamicObject) -> Result<bool, Failure> {
        let mut change = json!({});
        let mut finalizers = seen.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|f| f == finalizer::HYPERSHIFT) {
            finalizers.push(finalizer::HYPERSHIFT.to_owned());
            change["metadata"]["finalizers"] = json!(finalizers);
        }
        let owned = seen
            .metadata
            .owner_references
            .iter()
            .flatten()
            .any(|r| Some(&r.uid) == cluster.metadata.uid.as_ref());
        if !owned {
            let mut owners = seen.metadata.owner_references.clone().unwrap_or_default();
            // One that is no more, of the same name, is not an owner.
            owners.retain(|r| r.kind != kinds::CLUSTER.kind);
            let mut list = json!(owners);
            if let Some(list) = list.as_array_mut() {
                list.push(json!({"apiVersion": kinds::CLUSTER.api_version(), "kind": kinds::CLUSTER.kind,
                    "name": cluster.metadata.name, "uid": cluster.metadata.uid}));
            }
            change["metadata"]["ownerReferences"] = list;
        }
        if change.as_object().is_none_or(serde_json::Map::is_empty) {
            return Ok(false);
        }
        self.patch(&kinds::POOL, seen, change).await?;
        Ok(true)
    }

    /// A merge patch that only holds for what was seen; who was quicker wakes us. Says whether it was us.
    async fn patch(&self, kind: &Kind, seen: &DynamicObject, mut patch: Value) -> Result<bool, Failure> {
        patch["metadata"]["resourceVersion"] = json!(seen.metadata.resource_version);
        patch["metadata"]["uid"] = json!(seen.metadata.uid);
        let (ns, n) = (seen.metadata.namespace.as_deref(), seen.metadata.name.as_deref());
        self.send(kind, ns.unwrap_or_default(), n.unwrap_or_default(), &patch).await
    }

    async fn send(&self, kind: &Kind, namespace: &str, n: &str, patch: &Value) -> Result<bool, Failure> {
        let params =
            PatchParams { field_manager: Some(crate::operate::MANAGER.to_owned()), ..PatchParams::default() };
        let api = kind.api(self.operator.applier.client(), namespace);
        match api.patch(n, &params, &Patch::Merge(patch)).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(s)) if matches!(s.code, 404 | 409) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Puts one condition down and leaves the others as they are.
    async fn say(
        &self,
        seen: &DynamicObject,
        finding: reconcile::conditions::Finding,
    ) -> Result<(), Failure> {
        let now = self.operator.clock.now();
        let (ns, n) = (seen.metadata.namespace.as_deref(), seen.metadata.name.as_deref());
        let at = kinds::POOL.at(ns.unwrap_or_default(), n.unwrap_or_default());
        self.operator
            .applier
            .status(&at, seen, |o| {
                let mut new = o.data.get("status").cloned().filter(Value::is_object).unwrap_or(json!({}));
                let mut all = Conditions::of(&new);
                all.set(finding.clone(), o.metadata.generation, now);
                new["conditions"] = all.to_value();
                new
            })
            .await?;
        Ok(())
    }

    async fn orphan(&self, seen: &DynamicObject, np: &NodePool) -> Result<Outcome, Failure> {
        let text = format!(
            "there is no HostedCluster {}/{}: create it, or delete this NodePool",
            home(np),
            np.spec.cluster_name
        );
        let finding = reconcile::conditions::Finding::new(
            condition::READY,
            false,
            apis::conditions::reason::NOT_FOUND,
            text.clone(),
        );
        self.say(seen, finding).await?;
        let on = vec![Waiting::new("its HostedCluster", text, self.operator.clock.now())];
        Ok(Outcome::Waiting { on, again: None })
    }

    /// Nothing is changed but that whoever keeps machines pauses too. How they are is told all the same.
    async fn paused(&self, mut look: Look) -> Result<Outcome, Failure> {
        let live = self.workload(&look.np, &look.namespace).map(|(_, w)| w);
        // What machines were not told is not on its way.
        look.target = look.target.filter(|t| live.as_ref().is_some_and(|w| w.refs() == t.refs));
        self.report(&look, None).await?;
        let end = match &look.pause {
            Ok(Pause::Until(t)) => Some(t.duration_since(self.operator.clock.now())),
            _ => None,
        };
        Ok(sooner(look.again, end).map_or(Outcome::Done, Outcome::After))
    }

    async fn pause_machines(&self, np: &NodePool, namespace: &str, stop: bool) -> Result<(), Failure> {
        let Some((kind, live)) = self.workload(np, namespace) else { return Ok(()) };
        if live.paused == stop {
            return Ok(());
        }
        let value = stop.then_some("true");
        let patch = json!({"metadata": {"annotations": {annotation::CAPI_PAUSED: value}}});
        self.send(&kind, namespace, name(np), &patch).await?;
        Ok(())
    }

    /// The pool's own MachineDeployment or MachineSet, as last seen.
    fn workload(&self, np: &NodePool, namespace: &str) -> Option<(Kind, Arc<Workload>)> {
        let (kind, view) = match machines::is_in_place(np) {
            true => (kinds::MACHINE_SET, &self.views().sets),
            false => (kinds::MACHINE_DEPLOYMENT, &self.views().deployments),
        };
        let live = view.get(namespace, name(np)).filter(|w| w.pool == key(np))?;
        Some((kind, live))
    }

    fn machines(&self, np: &NodePool, namespace: &str) -> Vec<Arc<Machine>> {
        let pool = key(np);
        self.views().machines.within(namespace).into_iter().filter(|m| m.pool == pool).collect()
    }

    /// What the pool and the node tuning operator share.
    fn tunings(&self, np: &NodePool, namespace: &str) -> Vec<Arc<Shared>> {
        let all = self.views().tunings.within(namespace);
        let mut all: Vec<_> = all.into_iter().filter(|t| t.pool == name(np)).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    fn tokens(&self, np: &NodePool, namespace: &str) -> Vec<Arc<Token>> {
        let pool = key(np);
        self.views().tokens.within(namespace).into_iter().filter(|t| t.pool == pool).collect()
    }

    /// Writes the status, moves what is current if everything is, and says whether all is well.
    async fn report(&self, look: &Look, error: Option<&str>) -> Result<bool, Failure> {
        let np = &look.np;
        let machines = self.machines(np, &look.namespace);
        let workload = self.workload(np, &look.namespace).map(|(_, w)| w);
        let hash = match (&look.target, &workload) {
            (Some(t), _) => t.rollout.hash.as_str(),
            (None, Some(w)) => secrets::hash_of(name(np), &w.data_secret).unwrap_or_default(),
            (None, None) => "",
        };
        let token = self.views().tokens.get(&look.namespace, &secrets::token_name(name(np), hash));
        let check = self.views().checks.get(&look.namespace, name(np));
        let shared = self.tunings(np, &look.namespace);
        let profile = shared.iter().filter_map(|s| match &s.what {
            What::Said(all) => Some(all.clone()),
            _ => None,
        });
        let profile: Vec<_> = profile.flatten().collect();
        let report = Seen {
            np,
            problems: &look.problems,
            pause: &look.pause,
            release: look.release.as_deref(),
            endpoint: &look.endpoint,
            skew: look.skew.clone(),
            target: look.target.as_ref(),
            token: token.as_deref(),
            machines: &machines,
            workload: workload.as_deref(),
            check: check.as_deref(),
            conflict: look.conflict.clone(),
            profile: &profile,
            unscalable: look.unscalable.as_deref(),
            room: &look.room,
            waiting: look.waiting.as_deref(),
            error,
        };
        let now = self.operator.clock.now();
        let at = kinds::POOL.at(home(np), name(np));
        // Annotations first: they say what the status means, and a status without them would be taken for a roll. Who
        // reads that all is well and changes something at once would keep them from ever being written.
        if let Some(annotations) = status::advance(&report)
            && !self
                .patch(&kinds::POOL, &look.seen, json!({"metadata": {"annotations": annotations}}))
                .await?
        {
            return Ok(false);
        }
        self.operator.applier.status(&at, &look.seen, |o| status::status(o, &report, now)).await?;
        let all = Conditions::of(&status::status(&look.seen, &report, now));
        self.milestones(look, &all, now);
        Ok(all.is_true(condition::READY))
    }

    /// Counts what a pool has reached for the first time.
    fn milestones(&self, look: &Look, after: &Conditions, now: jiff::Timestamp) {
        let Some(made) = look.seen.metadata.creation_timestamp.as_ref() else { return };
        let before = Conditions::of(&look.seen.data["status"]);
        let first = status::current(&look.np, annotation::NODE_POOL_CURRENT_CONFIG_VERSION).is_empty();
        if first && after.is_true(condition::READY) && !before.is_true(condition::READY) {
            let seconds = now.duration_since(made.0).as_secs_f64().max(0.0);
            self.operator.metrics.observe(&crate::metrics::POOL_TRANSITIONS, &["Ready"], seconds);
        }
    }

    fn outcome(&self, look: &Look, ready: bool, again: Option<SignedDuration>) -> Outcome {
        let now = self.operator.clock.now();
        let mut on: Vec<Waiting> = look
            .problems
            .iter()
            .map(|p| Waiting::new(format!("{} to be True", p.condition), p.message.clone(), now))
            .collect();
        on.extend(look.waiting.iter().map(|w| Waiting::new("its cluster", w.clone(), now)));
        on.extend(
            look.skew.iter().map(|w| Waiting::new("a version that its cluster supports", w.clone(), now)),
        );
        if on.is_empty() && !ready {
            on.push(Waiting::new(format!("machines of {}", key(&look.np)), "see its conditions", now));
        }
        match (on.is_empty(), again) {
            (true, None) => Outcome::Done,
            (true, Some(again)) => Outcome::After(again),
            (false, again) => Outcome::Waiting { on, again },
        }
    }
}
