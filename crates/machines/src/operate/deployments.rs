//! MachineDeployments: a machine set per template, and the walk from the old ones to the new one.

use super::Shared;
use super::index::is_controlled_by;
use super::sets::TIMEOUTS;
use super::views::{Seen, created, name, namespace, typed};
use super::write::Changed;
use crate::kinds::{self, annotation, finalizer, label};
use crate::rollout::{self, Wish};
use crate::text::{count, int, replicas, selector_text};
use crate::words::{self, Word};
use apis::capi::{MachineDeploymentSpec, MachineSetSpec};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::core::DynamicObject;
use reconcile::conditions::{self, Conditions, Finding, Polarity};
use reconcile::{Controller, Failure, Outcome, own, split};
use serde_json::{Value, json};
use std::sync::Arc;

pub struct Deployments(pub Arc<Shared>);

impl Controller for Deployments {
    fn name(&self) -> &'static str {
        "machine-deployment"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

/// What tells one template from another: everything but what machines can be given while they run.
fn fingerprint(spec: &MachineDeploymentSpec, after: Option<Timestamp>) -> String {
    let mut template = json!(spec.template.spec);
    for free in ["nodeDrainTimeout", "nodeVolumeDetachTimeout", "nodeDeletionTimeout", "readinessGates"] {
        template.as_object_mut().map(|t| t.remove(free));
    }
    if let Some(after) = after {
        template["rolloutAfter"] = json!(after.to_string());
    }
    let bytes = serde_json::to_vec(&template).unwrap_or_default();
    format!("{:08x}", xxhash_rust::xxh3::xxh3_64(&bytes) as u32)
}

/// A template as Cluster API compares them: who made a set from it, and by which hash, does not matter. Versions of the
/// infrastructure's API are no difference.
fn content(template: &impl serde::Serialize) -> Value {
    let mut spec = json!(template);
    for free in ["nodeDrainTimeout", "nodeVolumeDetachTimeout", "nodeDeletionTimeout", "readinessGates"] {
        spec.as_object_mut().map(|t| t.remove(free));
    }
    for reference in ["/infrastructureRef", "/bootstrap/configRef"] {
        if let Some(r) = spec.pointer_mut(reference).filter(|r| r.is_object()) {
            let group = r["apiVersion"].as_str().and_then(|v| v.split_once('/')).map(|(g, _)| g.to_owned());
            r["apiVersion"] = json!(group);
        }
    }
    spec
}

/// The hash of the set that machines are to be in. Where none is of ours, somebody else may have made one of the same
/// template (upstream's controllers, who hash otherwise): that is it, by its own hash, and nothing is rolled.
fn hash_of(spec: &MachineDeploymentSpec, due: Option<Timestamp>, sets: &[Seen]) -> String {
    let ours = fingerprint(spec, due);
    if sets.iter().any(|s| is_of(s, &ours)) {
        return ours;
    }
    let wanted = content(&spec.template.spec);
    let same = |s: &&Seen| {
        let template = typed::<MachineSetSpec>(s, "spec").map(|s| content(&s.template.spec));
        // One from before a roll that was asked for is not what was asked for.
        let late = due.is_none_or(|d| created(s) >= d);
        late && s.metadata.deletion_timestamp.is_none() && template.is_ok_and(|t| t == wanted)
    };
    let theirs = sets.iter().find(same).and_then(|s| s.metadata.labels.as_ref()?.get(label::TEMPLATE_HASH));
    theirs.filter(|h| !h.is_empty()).cloned().unwrap_or(ours)
}

/// The name of a set: the deployment's, cut so that machines' names fit in a host name.
fn set_name(deployment: &str, hash: &str) -> String {
    let most = 63 - 6 - 1 - hash.len();
    let cut: String = deployment.chars().take(most).collect();
    format!("{}-{hash}", cut.trim_end_matches(['-', '.']))
}

struct Look {
    seen: Seen,
    spec: MachineDeploymentSpec,
    /// Oldest first.
    sets: Vec<Seen>,
    hash: String,
}

impl Deployments {
    async fn run(&self, key: &str) -> Result<Outcome, Failure> {
        let (ns, n) = split(key);
        let shared = &self.0;
        let Some(seen) = shared.views.deployments.get(ns, n) else { return Ok(Outcome::Done) };
        if shared.is_stale(&seen) || shared.rests(&seen) {
            return Ok(Outcome::Done);
        }
        let at = kinds::DEPLOYMENT.at(ns, n);
        let sets = self.sets(&seen);
        if seen.metadata.deletion_timestamp.is_some() {
            for set in sets.iter().filter(|s| s.metadata.deletion_timestamp.is_none()) {
                shared.writer.delete(&kinds::SET, set).await?;
            }
            if sets.is_empty() {
                shared.applier.remove_finalizer(&at, &seen, finalizer::DEPLOYMENT).await?;
            }
            return Ok(Outcome::Done);
        }
        if shared.applier.add_finalizer(&at, &seen, finalizer::DEPLOYMENT).await?.is_some() {
            return Ok(Outcome::Done);
        }
        let spec: MachineDeploymentSpec = typed(&seen, "spec")?;
        let now = shared.clock.now();
        let due = spec.rollout_after.as_ref().map(crate::text::time);
        let hash = hash_of(&spec, due.filter(|d| *d <= now), &sets);
        let look = Look { seen, spec, sets, hash };
        let stood = self.roll(&look, now).await?;
        self.report(&look, now).await?;
        Ok(match (stood, due.filter(|d| *d > now)) {
            (_, Some(due)) => Outcome::After(due.duration_since(now)),
            _ => Outcome::Done,
        })
    }

    fn sets(&self, deployment: &DynamicObject) -> Vec<Seen> {
        let views = &self.0.views;
        let places = views.sets_by_owner.get(&format!(
            "MachineDeployment/{}/{}",
            namespace(deployment),
            name(deployment)
        ));
        let found = places.iter().filter_map(|(ns, n)| views.sets.get(ns, n));
        let mut all: Vec<Seen> = found.filter(|s| is_controlled_by(s, deployment)).collect();
        all.sort_by_key(|s| (created(s), name(s).to_owned()));
        all
    }

    fn desired(&self, look: &Look, size: u32, revision: u64) -> Value {
        let (md, hash) = (&look.seen, &look.hash);
        let mut labels =
            json!(look.spec.template.metadata.as_ref().and_then(|m| m.labels.clone()).unwrap_or_default());
        for (k, v) in [
            (label::CLUSTER, look.spec.cluster_name.as_str()),
            (label::DEPLOYMENT, name(md)),
            (label::TEMPLATE_HASH, hash),
        ] {
            labels[k] = json!(v);
        }
        let mut selector = json!(look.spec.selector);
        selector["matchLabels"][label::TEMPLATE_HASH] = json!(hash);
        let mut template = json!(look.spec.template);
        template["metadata"]["labels"] = labels.clone();
        let mut spec = json!({"clusterName": look.spec.cluster_name, "replicas": size, "selector": selector, "template": template});
        if let Some(n) = look.spec.min_ready_seconds {
            spec["minReadySeconds"] = json!(n);
        }
        let strategy = look.spec.strategy.as_ref();
        if let Some(policy) = strategy.and_then(|s| s.rolling_update.as_ref()?.delete_policy.as_ref()) {
            spec["deletePolicy"] = json!(policy);
        }
        let mut set = json!({"metadata": {"name": set_name(name(md), hash), "namespace": namespace(md), "labels": labels,
            "annotations": {annotation::REVISION: revision.to_string()}, "finalizers": [finalizer::SET]}, "spec": spec});
        // Who watches by annotation finds sets as it finds deployments.
        for (k, v) in md
            .metadata
            .annotations
            .iter()
            .flatten()
            .filter(|(k, _)| k.starts_with("hypershift.openshift.io/"))
        {
            set["metadata"]["annotations"][k] = json!(v);
        }
        own(&mut set, &kinds::DEPLOYMENT, md);
        set
    }

    /// One step of the rollout. Says whether nothing had to be done.
    async fn roll(&self, look: &Look, now: Timestamp) -> Result<bool, Failure> {
        let shared = &self.0;
        let revision_of = |s: &Seen| -> u64 {
            let a = s.metadata.annotations.as_ref().and_then(|a| a.get(annotation::REVISION));
            a.and_then(|r| r.parse().ok()).unwrap_or(0)
        };
        let newest = look.sets.iter().map(revision_of).max().unwrap_or(0);
        let current = look.sets.iter().find(|s| is_of(s, &look.hash));
        let sizes = self.sizes(look);
        let Some(current) = current else {
            let size = match look.spec.paused.unwrap_or(false) {
                true => 0,
                false => *sizes.last().unwrap_or(&0),
            };
            shared.writer.create(&kinds::SET, self.desired(look, size, newest + 1)).await?;
            return Ok(false);
        };
        let revision = if revision_of(current) < newest { newest + 1 } else { revision_of(current) };
        let mut still = true;
        for (set, size) in look.sets.iter().zip(&sizes) {
            if set.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let desired = self.desired(look, *size, revision);
            let changed = shared
                .change(&kinds::SET, set, |o| match is_of(set, &look.hash) {
                    true => {
                        o["spec"] = desired["spec"].clone();
                        for field in ["labels", "annotations"] {
                            for (k, v) in desired["metadata"][field].as_object().into_iter().flatten() {
                                o["metadata"][field][k] = v.clone();
                            }
                        }
                    }
                    false => outgoing(o, &desired),
                })
                .await?;
            still &= matches!(changed, Changed::Same);
        }
        let mark = revision.to_string();
        let marked = shared
            .change(&kinds::DEPLOYMENT, &look.seen, |o| {
                o["metadata"]["annotations"][annotation::REVISION] = json!(mark);
            })
            .await?;
        still &= matches!(marked, Changed::Same);
        self.tidy(look, &sizes, now).await?;
        Ok(still)
    }

    /// Sizes in the order of the sets; if none is of the wanted template, one more for the set to be.
    fn sizes(&self, look: &Look) -> Vec<u32> {
        let spec = &look.spec;
        let mut sets: Vec<rollout::Set> = look
            .sets
            .iter()
            .map(|s| {
                let status = &s.data["status"];
                let going = s.metadata.deletion_timestamp.is_some();
                let live = self.0.views.machines_of("MachineSet", s);
                rollout::Set {
                    current: is_of(s, &look.hash),
                    desired: if going {
                        0
                    } else {
                        replicas(s.data["spec"]["replicas"].as_i64().map(|n| n as i32))
                    },
                    available: status["availableReplicas"]
                        .as_u64()
                        .and_then(|n| u32::try_from(n).ok())
                        .unwrap_or(0),
                    live: live.iter().filter(|m| !self.0.views.is_going(m)).count() as u32,
                }
            })
            .collect();
        if !sets.iter().any(|s| s.current) {
            sets.push(rollout::Set { current: true, desired: 0, available: 0, live: 0 });
        }
        let total = replicas(spec.replicas);
        if spec.paused.unwrap_or(false) {
            // Paused: nothing moves from old to new, but the size that is asked for is kept where there is only one set.
            let active: Vec<usize> = (0..sets.len()).filter(|i| sets[*i].desired > 0).collect();
            if let [one] = active[..] {
                sets[one].desired = total;
            }
            return sets.iter().map(|s| s.desired).collect();
        }
        rollout::sizes(&wish(spec), &sets)
    }

    /// Old sets that are empty, beyond those that are kept to go back to.
    async fn tidy(&self, look: &Look, sizes: &[u32], _: Timestamp) -> Result<(), Failure> {
        let keep = look.spec.revision_history_limit.map_or(1, |n| usize::try_from(n).unwrap_or(0));
        let empty: Vec<&Seen> = look
            .sets
            .iter()
            .zip(sizes)
            .filter(|(s, size)| {
                !is_of(s, &look.hash)
                    && **size == 0
                    && s.metadata.deletion_timestamp.is_none()
                    && s.data["spec"]["replicas"] == 0
                    && s.data["status"]["replicas"].as_u64() == Some(0)
            })
            .map(|(s, _)| s)
            .collect();
        for old in empty.iter().take(empty.len().saturating_sub(keep)) {
            self.0.writer.delete(&kinds::SET, old).await?;
        }
        Ok(())
    }

    async fn report(&self, look: &Look, now: Timestamp) -> Result<(), Failure> {
        let at = kinds::DEPLOYMENT.at(namespace(&look.seen), name(&look.seen));
        let mut machines: Vec<Seen> = Vec::new();
        for set in &look.sets {
            machines.extend(self.0.views.machines_of("MachineSet", set));
        }
        self.0.status(&at, &look.seen, |o| status(o, look, &machines, now)).await?;
        Ok(())
    }
}

pub fn wish(spec: &MachineDeploymentSpec) -> Wish {
    let total = replicas(spec.replicas);
    let strategy = spec.strategy.as_ref();
    let steps = strategy.and_then(|s| s.rolling_update.as_ref());
    let surge = count(steps.and_then(|s| s.max_surge.as_ref()), total, true, 1);
    let missing = count(steps.and_then(|s| s.max_unavailable.as_ref()), total, false, 0);
    let on_delete = strategy.and_then(|s| s.type_.as_deref()) == Some("OnDelete");
    Wish::new(total, surge, missing, on_delete)
}

/// What reaches a set of an old template: its size, and what machines can be given while they run. Its machines may have a
/// long way out before them, and the rest would make them others than they are.
fn outgoing(set: &mut Value, desired: &Value) {
    set["spec"]["replicas"] = desired["spec"]["replicas"].clone();
    let (wanted, selected) = (&desired["spec"]["template"], set["spec"]["selector"]["matchLabels"].clone());
    let template = &mut set["spec"]["template"];
    let hash = template["metadata"]["labels"][label::TEMPLATE_HASH].clone();
    for field in TIMEOUTS {
        template["spec"][field] = wanted["spec"][field].clone();
    }
    for field in ["labels", "annotations"] {
        template["metadata"][field] = wanted["metadata"][field].clone();
    }
    // By these it knows its own, and tells them from those of others.
    template["metadata"]["labels"][label::TEMPLATE_HASH] = hash;
    for (k, v) in selected.as_object().into_iter().flatten() {
        template["metadata"]["labels"][k] = v.clone();
    }
}

fn is_of(set: &DynamicObject, hash: &str) -> bool {
    set.metadata.labels.as_ref().and_then(|l| l.get(label::TEMPLATE_HASH)).is_some_and(|h| h == hash)
}

fn status(o: &DynamicObject, look: &Look, machines: &[Seen], now: Timestamp) -> Value {
    let sum = |field: &str, only: bool| -> u32 {
        let sets = look.sets.iter().filter(|s| !only || is_of(s, &look.hash));
        sets.filter_map(|s| s.data["status"][field].as_u64()).map(|n| n as u32).sum()
    };
    let wanted = replicas(look.spec.replicas);
    let (all, updated) = (sum("replicas", false), sum("replicas", true));
    let (ready, available) = (sum("readyReplicas", false), sum("availableReplicas", false));
    let least = wanted.saturating_sub(wish(&look.spec).max_unavailable);
    let failing = machines
        .iter()
        .map(|m| (name(m), m))
        .filter_map(|(n, m)| Some((n, words::find(&m.data["status"], words::READY)?)));
    let failing: Vec<String> = failing
        .filter(|(_, c)| c["status"] != "True" && c["severity"] == "Error")
        .map(|(n, c)| {
            format!("{n}: {}", c["message"].as_str().or_else(|| c["reason"].as_str()).unwrap_or_default())
        })
        .collect();
    let enough = match available >= least && available > 0 || wanted == 0 {
        true => Word::good("Available"),
        false => {
            let mut message = format!("{available} of {wanted} machines are available, {least} must be");
            if !failing.is_empty() {
                message.push_str(&format!("; {}", failing.join("; ")));
            }
            Word::bad("Available", "Warning", "WaitingForAvailableMachines", message)
        }
    };
    let mut list = words::list(&o.data["status"]);
    words::set(&mut list, &enough, now);
    words::set(&mut list, &words::summary(std::slice::from_ref(&enough)), now);
    let phase = match (all == wanted && updated == wanted && available == wanted, failing.is_empty()) {
        (true, _) => "Running",
        (false, false) => "Failed",
        (false, true) if all < wanted || updated < wanted || available < wanted => "ScalingUp",
        _ => "ScalingDown",
    };
    let mut v2 = Conditions::of(&o.data["status"]["v1beta2"]);
    let children = machines.iter().map(|m| Conditions::of(&m.data["status"]["v1beta2"])).collect::<Vec<_>>();
    let each = machines.iter().zip(&children).map(|(m, c)| (name(m), c.get("Ready")));
    // Of what was looked at, which a write in between may have left behind.
    let generation = look.seen.metadata.generation;
    let ready_all = match machines.is_empty() {
        true => Finding::new("MachinesReady", true, conditions::AS_EXPECTED, ""),
        false => conditions::aggregate("MachinesReady", "Ready", each, Polarity::default()),
    };
    for finding in [
        Finding::new(
            "Available",
            enough.is_good(),
            if enough.is_good() { conditions::AS_EXPECTED } else { "NotAvailable" },
            enough.message.clone(),
        ),
        ready_all,
        Finding::new(
            "RollingOut",
            updated < all || updated < wanted,
            if updated < all { "RollingOut" } else { "NotRollingOut" },
            "",
        ),
        Finding::new("ScalingUp", all < wanted, if all < wanted { "ScalingUp" } else { "NotScalingUp" }, ""),
        Finding::new(
            "ScalingDown",
            all > wanted,
            if all > wanted { "ScalingDown" } else { "NotScalingDown" },
            "",
        ),
    ] {
        v2.set(finding, generation, now);
    }
    let mut status = o.data.get("status").cloned().unwrap_or_default();
    if !status.is_object() {
        status = json!({});
    }
    for (field, value) in [
        ("observedGeneration", json!(generation)),
        ("selector", json!(selector_text(&look.spec.selector))),
        ("replicas", json!(int(all))),
        ("updatedReplicas", json!(int(updated))),
        ("readyReplicas", json!(int(ready))),
        ("availableReplicas", json!(int(available))),
        ("unavailableReplicas", json!(int(wanted.max(all).saturating_sub(available)))),
        ("phase", json!(phase)),
        ("conditions", json!(list)),
        (
            "v1beta2",
            json!({"conditions": v2.to_value(), "readyReplicas": ready, "availableReplicas": available, "upToDateReplicas": updated}),
        ),
    ] {
        status[field] = value;
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_sets_get_what_rolls_nothing() {
        let set = |hash: &str, size: u32, template: Value| {
            json!({"spec": {"replicas": size, "selector": {"matchLabels": {"pool": "p", label::TEMPLATE_HASH: hash}},
                "template": template}})
        };
        let old = json!({"metadata": {"labels": {"pool": "p", "gone": "x", label::TEMPLATE_HASH: "old"}},
            "spec": {"version": "1", "nodeDrainTimeout": "1h", "nodeDeletionTimeout": "9s"}});
        let new = json!({"metadata": {"labels": {"pool": "p", "team": "y", label::TEMPLATE_HASH: "new"},
                "annotations": {"taints": "[]"}},
            "spec": {"version": "2", "nodeDrainTimeout": "1s", "nodeVolumeDetachTimeout": "2s"}});
        let mut now = set("old", 3, old);
        outgoing(&mut now, &set("new", 1, new));
        let template = json!({"metadata": {"labels": {"pool": "p", "team": "y", label::TEMPLATE_HASH: "old"},
                "annotations": {"taints": "[]"}},
            "spec": {"version": "1", "nodeDrainTimeout": "1s", "nodeVolumeDetachTimeout": "2s", "nodeDeletionTimeout": null}});
        assert_eq!(now, set("old", 1, template));
    }
}
