//! MachineSets: a number of equal machines, each with its AzureMachine.
//!
//! The Machine is made first and the AzureMachine after it, owned by it: whoever dies between the two leaves a Machine
//! that the next run completes. The other way round would leave an AzureMachine that nobody owns and that makes a
//! virtual machine.

use super::Shared;
use super::index::controller;
use super::views::{Seen, created, has_annotation, name, namespace, typed};
use super::write::Changed;
use crate::kinds::{self, annotation, finalizer, label};
use crate::order::{Member, Policy, victims};
use crate::text::{int, replicas, selector_text, selects};
use crate::words::{self, Word};
use apis::capi::MachineSetSpec;
use futures::StreamExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::core::DynamicObject;
use reconcile::conditions::{self, Conditions, Finding, Polarity, Status};
use reconcile::{Controller, Failure, Outcome, Place, own, place, split};
use serde_json::{Value, json};
use std::sync::Arc;

pub struct Sets(pub Arc<Shared>);

/// Machines of one set that are made or taken away at the same time.
const PARALLEL: usize = 16;
/// What may be said anew of a machine that is there already.
pub const TIMEOUTS: [&str; 3] = ["nodeDrainTimeout", "nodeVolumeDetachTimeout", "nodeDeletionTimeout"];
/// Which labels and annotations came from the template, so that they can be taken away again.
const PROPAGATED: &str = "machines.zaffre.io/propagated";

impl Controller for Sets {
    fn name(&self) -> &'static str {
        "machine-set"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

struct Look {
    seen: Seen,
    spec: MachineSetSpec,
    machines: Vec<Seen>,
    /// Asked for, and not heard of yet.
    coming: Vec<Place>,
}

impl Sets {
    async fn run(&self, key: &str) -> Result<Outcome, Failure> {
        let (ns, n) = split(key);
        let shared = &self.0;
        let Some(seen) = shared.views.sets.get(ns, n) else { return Ok(Outcome::Done) };
        if shared.is_stale(&seen) || shared.rests(&seen) {
            return Ok(Outcome::Done);
        }
        let at = kinds::SET.at(ns, n);
        let machines = shared.views.machines_of("MachineSet", &seen);
        if seen.metadata.deletion_timestamp.is_some() {
            let left: Vec<&Seen> = machines.iter().filter(|m| !shared.views.is_going(m)).collect();
            self.delete(left).await?;
            if machines.is_empty() && self.coming(key).await?.is_empty() {
                shared.applier.remove_finalizer(&at, &seen, finalizer::SET).await?;
            }
            return Ok(Outcome::Done);
        }
        if shared.applier.add_finalizer(&at, &seen, finalizer::SET).await?.is_some() {
            return Ok(Outcome::Done);
        }
        let spec: MachineSetSpec = typed(&seen, "spec")?;
        let coming = self.coming(key).await?;
        let look = Look { seen, spec, machines, coming };
        let worked = self.work(&look, key).await;
        let again =
            self.report(&look, worked.as_ref().err().map(|e| reconcile::chain(&**e).to_string())).await?;
        let waits = worked?;
        Ok(match (waits, again) {
            (Some(on), again) => {
                let hint = "is it there, and of the kind that spec.template.spec.infrastructureRef names?";
                Outcome::Waiting { on: vec![reconcile::Waiting::new(on, hint, shared.clock.now())], again }
            }
            (None, Some(again)) => Outcome::After(again),
            (None, None) => Outcome::Done,
        })
    }

    /// Machines that were asked for without an answer: the server is asked whether they are there.
    async fn coming(&self, key: &str) -> Result<Vec<Place>, Failure> {
        let mut out = Vec::new();
        for at in self.0.views.expected.made_for(key) {
            match kinds::MACHINE.api(self.0.applier.client(), &at.0).get_metadata_opt(&at.1).await? {
                Some(_) => out.push(at),
                None => self.0.views.expected.refused(&at),
            }
        }
        Ok(out)
    }

    /// What is waited for, if anything.
    async fn work(&self, look: &Look, key: &str) -> Result<Option<String>, Failure> {
        let shared = &self.0;
        if self.adopt(look).await? {
            return Ok(None);
        }
        let (going, live): (Vec<&Seen>, Vec<&Seen>) =
            look.machines.iter().partition(|m| shared.views.is_going(m));
        // Whoever lets a drain end sooner means the one that hangs.
        for m in going {
            self.propagate(look, m, timeouts).await?;
        }
        let template = look.spec.template.spec.infrastructure_ref.name.clone().unwrap_or_default();
        let source = shared.views.templates.get(namespace(&look.seen), &template);
        let mut doomed: Vec<&Seen> = self.remediated(look, &live);
        for m in &live {
            // Half a machine, whose other half can no longer be made.
            if !self.complete(look, m).await? && !doomed.iter().any(|d| Arc::ptr_eq(d, m)) {
                doomed.push(m);
            }
            self.propagate(look, m, given).await?;
        }
        let staying: Vec<&Seen> =
            live.iter().copied().filter(|m| !doomed.iter().any(|d| Arc::ptr_eq(d, m))).collect();
        let wanted = replicas(look.spec.replicas) as usize;
        let there = staying.len() + look.coming.len();
        if there > wanted {
            let members: Vec<Member> = staying.iter().map(|m| member(m)).collect();
            let policy = Policy::read(look.spec.delete_policy.as_deref());
            let names = victims(&members, there - wanted, policy);
            doomed.extend(staying.iter().filter(|m| names.iter().any(|n| n == name(m))));
        }
        self.delete(doomed).await?;
        if there >= wanted {
            return Ok(None);
        }
        let Some(source) = source else {
            return Ok(Some(format!("AzureMachineTemplate {}/{template}", namespace(&look.seen))));
        };
        let mut makes: Vec<BoxFuture<'_, Result<(), Failure>>> = Vec::new();
        for _ in there..wanted {
            makes.push(Box::pin(self.make(look, &source, key)));
        }
        let results: Vec<Result<(), Failure>> =
            futures::stream::iter(makes).buffer_unordered(PARALLEL).collect().await;
        results.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(None)
    }

    /// Machines that match and belong to nobody. Says whether there were any: the watch will tell of them again.
    async fn adopt(&self, look: &Look) -> Result<bool, Failure> {
        let shared = &self.0;
        let mut any = false;
        for (ns, n) in shared.views.machines_by.get(&format!("orphan/{}", namespace(&look.seen))) {
            let Some(m) = shared.views.machines.get(&ns, &n) else { continue };
            let labels = m.metadata.labels.clone().unwrap_or_default();
            let ours = m.data["spec"]["clusterName"] == json!(look.spec.cluster_name)
                && selects(&look.spec.selector, &labels);
            if !ours || m.metadata.deletion_timestamp.is_some() || controller(&m).is_some() {
                continue;
            }
            let changed = shared.change(&kinds::MACHINE, &m, |o| own(o, &kinds::SET, &look.seen)).await?;
            any |= !matches!(changed, Changed::Same);
        }
        Ok(any)
    }

    /// Those that the health check wants replaced, as many at once as the deployment allows.
    fn remediated<'a>(&self, look: &Look, live: &[&'a Seen]) -> Vec<&'a Seen> {
        let marked = |m: &Seen| words::is(&m.data["status"], "OwnerRemediated", "False");
        let under_way = look.machines.iter().filter(|m| self.0.views.is_going(m) && marked(m)).count();
        let deployment = controller(&look.seen).filter(|(kind, _)| *kind == "MachineDeployment");
        let deployment = deployment.and_then(|(_, n)| self.0.views.deployments.get(namespace(&look.seen), n));
        let limit = deployment.and_then(|d| {
            let v = &d.data["spec"]["strategy"]["remediation"]["maxInFlight"];
            let v: apis::common::IntOrString = serde_json::from_value(v.clone()).ok()?;
            v.of(replicas(look.spec.replicas), true)
        });
        let room = limit.map_or(usize::MAX, |n| (n as usize).saturating_sub(under_way));
        live.iter().copied().filter(|m| marked(m)).take(room).collect()
    }

    fn manifest(&self, look: &Look, machine: &str) -> Value {
        let template = &look.spec.template;
        let meta = template.metadata.clone().unwrap_or_default();
        let mut spec = json!(template.spec);
        spec["clusterName"] = json!(look.spec.cluster_name);
        let from = spec["infrastructureRef"].take();
        let kind = from["kind"].as_str().unwrap_or_default().trim_end_matches("Template").to_owned();
        spec["infrastructureRef"] = json!({"apiVersion": from["apiVersion"], "kind": kind, "name": machine,
            "namespace": namespace(&look.seen)});
        let mut o = json!({"metadata": {"name": machine, "namespace": namespace(&look.seen),
            "labels": meta.labels.unwrap_or_default(), "annotations": meta.annotations.unwrap_or_default(),
            "finalizers": [finalizer::MACHINE]}, "spec": spec});
        let keys =
            |v: &Value| v.as_object().map(|m| m.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
        let ours = [keys(&o["metadata"]["labels"]), keys(&o["metadata"]["annotations"])].concat().join(",");
        o["metadata"]["labels"][label::CLUSTER] = json!(look.spec.cluster_name);
        o["metadata"]["labels"][label::SET] = json!(name(&look.seen));
        o["metadata"]["annotations"][annotation::CLONED_FROM_NAME] = from["name"].clone();
        o["metadata"]["annotations"][PROPAGATED] = json!(ours);
        own(&mut o, &kinds::SET, &look.seen);
        o
    }

    async fn make(&self, look: &Look, source: &Seen, key: &str) -> Result<(), Failure> {
        let shared = &self.0;
        let cut: String = name(&look.seen).chars().take(57).collect();
        // Letters and digits that are not mistaken for each other, as Kubernetes draws its suffixes.
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let suffix: String =
            (0..5).map(|_| char::from(LETTERS[shared.random.below(LETTERS.len())])).collect();
        let machine = format!("{}-{suffix}", cut.trim_end_matches(['-', '.']));
        let at = (namespace(&look.seen).to_owned(), machine.clone());
        shared.views.expected.make(&at, key);
        match shared.writer.create(&kinds::MACHINE, self.manifest(look, &machine)).await {
            Ok(Some(made)) => {
                self.make_azure(&made, source).await?;
                Ok(())
            }
            // Chance gave a name that is taken; the next run draws another.
            Ok(None) => {
                shared.views.expected.refused(&at);
                Err("the name of a new machine is taken; another will be drawn".into())
            }
            Err(e) => {
                let said_no = matches!(&e, super::write::Error::Request { source, .. } if matches!(**source, kube::Error::Api(_)));
                if said_no {
                    shared.views.expected.refused(&at);
                }
                Err(e.into())
            }
        }
    }

    async fn make_azure(&self, machine: &DynamicObject, source: &Seen) -> Result<(), Failure> {
        let template = &source.data["spec"]["template"];
        let mut spec = template["spec"].clone();
        if let Some(zone) = machine.data["spec"]["failureDomain"].as_str() {
            spec["failureDomain"] = json!(zone);
        }
        let mut meta = template["metadata"].clone();
        if !meta.is_object() {
            meta = json!({});
        }
        for (k, v) in machine.metadata.labels.iter().flatten() {
            meta["labels"][k] = json!(v);
        }
        for (k, v) in machine
            .metadata
            .annotations
            .iter()
            .flatten()
            .filter(|(k, _)| k.starts_with("hypershift.openshift.io/"))
        {
            meta["annotations"][k] = json!(v);
        }
        meta["annotations"][annotation::CLONED_FROM_NAME] = json!(source.metadata.name);
        meta["annotations"][annotation::CLONED_FROM_KIND] =
            json!("AzureMachineTemplate.infrastructure.cluster.x-k8s.io");
        (meta["name"], meta["namespace"]) = (json!(machine.metadata.name), json!(machine.metadata.namespace));
        meta["finalizers"] = json!([finalizer::AZURE_MACHINE]);
        let mut o = json!({"metadata": meta, "spec": spec});
        own(&mut o, &kinds::MACHINE, machine);
        self.0.writer.create(&kinds::AZURE_MACHINE, o).await?;
        Ok(())
    }

    /// Sees to it that a machine has its AzureMachine. `false`: it has none, and its template is gone.
    async fn complete(&self, look: &Look, machine: &Seen) -> Result<bool, Failure> {
        let views = &self.0.views;
        let infra = &machine.data["spec"]["infrastructureRef"];
        let started = machine.data["status"]["infrastructureReady"] == true;
        if infra["kind"] != "AzureMachine"
            || started
            || views
                .azure_machines
                .get(namespace(machine), infra["name"].as_str().unwrap_or_default())
                .is_some()
        {
            return Ok(true);
        }
        let from = machine.metadata.annotations.as_ref().and_then(|a| a.get(annotation::CLONED_FROM_NAME));
        let Some(from) = from else { return Ok(true) };
        match views.templates.get(namespace(&look.seen), from) {
            Some(source) => {
                self.make_azure(machine, &source).await?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// What reaches machines while they run, or while they go.
    async fn propagate(
        &self,
        look: &Look,
        machine: &Seen,
        give: impl FnOnce(&mut Value, &Value, &str),
    ) -> Result<(), Failure> {
        let before = machine.metadata.annotations.as_ref().and_then(|a| a.get(PROPAGATED)).cloned();
        // Adopted machines are left as they are.
        let Some(before) = before else { return Ok(()) };
        let wanted = self.manifest(look, name(machine));
        self.0.change(&kinds::MACHINE, machine, |o| give(o, &wanted, &before)).await?;
        Ok(())
    }

    async fn delete(&self, machines: Vec<&Seen>) -> Result<(), Failure> {
        let mut deletes: Vec<BoxFuture<'_, Result<(), Failure>>> = Vec::new();
        for m in machines {
            deletes.push(Box::pin(async move {
                let (at, expected) = (place(m), &self.0.views.expected);
                expected.delete(&at, m.metadata.uid.as_deref().unwrap_or_default());
                let done = self.0.writer.delete(&kinds::MACHINE, m).await;
                if done.is_err() {
                    expected.kept(&at);
                }
                Ok(done?)
            }));
        }
        let results: Vec<Result<(), Failure>> =
            futures::stream::iter(deletes).buffer_unordered(PARALLEL).collect().await;
        results.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(())
    }

    /// Writes the status; when to look again because a machine will have been ready for long enough.
    async fn report(&self, look: &Look, error: Option<String>) -> Result<Option<SignedDuration>, Failure> {
        let now = self.0.clock.now();
        let least = SignedDuration::from_secs(look.spec.min_ready_seconds.unwrap_or(0).into());
        let live: Vec<&Seen> = look.machines.iter().filter(|m| !self.0.views.is_going(m)).collect();
        let since = |m: &Seen| {
            let c = Conditions::of(&m.data["status"]["v1beta2"]);
            c.get("Ready").filter(|c| c.status == Status::True).map(|c| c.last_transition_time)
        };
        let ready: Vec<Timestamp> = live.iter().filter_map(|m| since(m)).collect();
        let due: Vec<Timestamp> = ready.iter().map(|t| crate::text::after(*t, least)).collect();
        let available = due.iter().filter(|d| **d <= now).count();
        let next = due.iter().filter(|d| **d > now).min().map(|d| d.duration_since(now));
        let counts = [look.machines.len(), ready.len(), available].map(|n| int(n as u32));
        let at = kinds::SET.at(namespace(&look.seen), name(&look.seen));
        self.0.status(&at, &look.seen, |o| status(o, look, counts, error.as_deref(), now)).await?;
        Ok(next)
    }
}

/// Labels, annotations and timeouts. `before` has the names of those that came from the template.
fn given(o: &mut Value, wanted: &Value, before: &str) {
    for field in ["labels", "annotations"] {
        let new = wanted["metadata"][field].as_object().cloned().unwrap_or_default();
        if let Some(map) = o["metadata"][field].as_object_mut() {
            map.retain(|k, _| new.contains_key(k) || !before.split(',').any(|b| b == k));
        }
        for (k, v) in new.into_iter().filter(|(k, _)| k != annotation::CLONED_FROM_NAME) {
            o["metadata"][field][k] = v;
        }
    }
    timeouts(o, wanted, before);
}

/// How long each part of a machine's way out may take.
fn timeouts(o: &mut Value, wanted: &Value, _: &str) {
    for field in TIMEOUTS {
        o["spec"][field] = wanted["spec"][field].clone();
    }
}

fn member(m: &Seen) -> Member {
    let status = &m.data["status"];
    let unwell = status["failureReason"].is_string() || status["failureMessage"].is_string();
    let ready = Conditions::of(&status["v1beta2"]).is_true("Ready");
    Member {
        name: name(m).to_owned(),
        created: created(m),
        marked: has_annotation(m, annotation::DELETE_MACHINE),
        broken: unwell
            || !status["nodeRef"].is_object()
            || !ready
            || words::is(status, "HealthCheckSucceeded", "False"),
    }
}

fn status(
    o: &DynamicObject,
    look: &Look,
    [all, ready, available]: [i32; 3],
    error: Option<&str>,
    now: Timestamp,
) -> Value {
    let wanted = int(replicas(look.spec.replicas));
    let machines = &look.machines;
    let conditions_of: Vec<Conditions> =
        machines.iter().map(|m| Conditions::of(&m.data["status"]["v1beta2"])).collect();
    let each = machines.iter().zip(&conditions_of).map(|(m, c)| (name(m), c.get("Ready")));
    let generation = look.seen.metadata.generation;
    let ready_all = match machines.is_empty() {
        true => Finding::new("MachinesReady", true, conditions::AS_EXPECTED, ""),
        false => conditions::aggregate("MachinesReady", "Ready", each, Polarity::default()),
    };
    let machines_word = match ready_all.status {
        Status::True => Word::good("MachinesReady"),
        _ => Word::bad("MachinesReady", "Warning", &ready_all.reason, ready_all.message.clone()),
    };
    let sized = match (error, all.cmp(&wanted)) {
        (Some(e), _) => Word::bad("MachinesCreated", "Error", "MachineCreationFailed", e),
        (None, std::cmp::Ordering::Less) => Word::bad(
            "Resized",
            "Info",
            "ScalingUp",
            format!("scaling up to {wanted} machines, {all} are there"),
        ),
        (None, std::cmp::Ordering::Greater) => Word::bad(
            "Resized",
            "Info",
            "ScalingDown",
            format!("scaling down to {wanted} machines, {all} are there"),
        ),
        (None, std::cmp::Ordering::Equal) => Word::good("Resized"),
    };
    let mut list = words::list(&o.data["status"]);
    let created = if error.is_some() { sized.clone() } else { Word::good("MachinesCreated") };
    let resized = if error.is_some() { Word::bad("Resized", "Info", "Waiting", "") } else { sized };
    words::set(&mut list, &words::summary(&[created.clone(), resized.clone(), machines_word.clone()]), now);
    for word in [&created, &resized, &machines_word] {
        words::set(&mut list, word, now);
    }
    let mut v2 = Conditions::of(&o.data["status"]["v1beta2"]);
    v2.set(ready_all, generation, now);
    v2.set(
        Finding::new(
            "ScalingUp",
            all < wanted,
            if all < wanted { "ScalingUp" } else { "NotScalingUp" },
            error.unwrap_or_default(),
        ),
        generation,
        now,
    );
    v2.set(
        Finding::new(
            "ScalingDown",
            all > wanted,
            if all > wanted { "ScalingDown" } else { "NotScalingDown" },
            "",
        ),
        generation,
        now,
    );
    let mut status = o.data.get("status").filter(|s| s.is_object()).cloned().unwrap_or_else(|| json!({}));
    for (field, value) in [
        ("observedGeneration", json!(generation)),
        ("selector", json!(selector_text(&look.spec.selector))),
        ("replicas", json!(all)),
        ("fullyLabeledReplicas", json!(all)),
        ("readyReplicas", json!(ready)),
        ("availableReplicas", json!(available)),
        ("conditions", json!(list)),
        (
            "v1beta2",
            json!({"conditions": v2.to_value(), "readyReplicas": ready, "availableReplicas": available, "upToDateReplicas": all}),
        ),
    ] {
        status[field] = value;
    }
    status
}
