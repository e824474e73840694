//! How far a control plane is: whose turn it is, what is ready, and what to say of it. Pure.

use crate::component::Component;
use crate::config::catalogs;
use crate::scope::Scope;
use crate::table;
use jiff::Timestamp;
use reconcile::Waiting;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The annotation with the version a workload was rendered for.
pub const VERSION: &str = "hypershift.openshift.io/release-version";

/// A workload as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    pub there: bool,
    pub available: bool,
    /// All replicas are the wanted ones.
    pub complete: bool,
    /// A Job that gave up.
    pub failed: bool,
    pub version: String,
    pub ready: i64,
    pub wanted: i64,
    /// Operands that are not there: without them it is not rolled out.
    pub lacks: Vec<&'static str>,
    /// The image that a trigger put into it; the management cluster's to change, not ours.
    pub image: Option<String>,
    /// The resourceVersion this is of.
    pub seen: u64,
}

impl Rollout {
    /// From a Deployment, StatefulSet, Job or CronJob.
    pub fn of(
        kind: &str,
        metadata_generation: i64,
        annotations: Option<&BTreeMap<String, String>>,
        data: &Value,
    ) -> Rollout {
        let status = &data["status"];
        let n = |key: &str| status[key].as_i64().unwrap_or(0);
        let wanted = data["spec"]["replicas"].as_i64().unwrap_or(1);
        let observed = n("observedGeneration") >= metadata_generation;
        let is = |name: &str| {
            let list = status["conditions"].as_array().into_iter().flatten();
            list.clone().any(|c| c["type"] == name && c["status"] == "True")
        };
        let version = annotations.and_then(|a| a.get(VERSION)).cloned().unwrap_or_default();
        let (mut ready, mut wanted) = (n("readyReplicas"), wanted);
        let (available, complete) = match kind {
            "Deployment" => {
                let all = n("replicas") == wanted && n("updatedReplicas") == wanted;
                let up = n("readyReplicas") == wanted && n("availableReplicas") == wanted;
                (is("Available"), observed && all && up)
            }
            "StatefulSet" => {
                let revision = status["currentRevision"] == status["updateRevision"];
                (
                    n("readyReplicas") >= 1,
                    observed && revision && n("replicas") == wanted && n("readyReplicas") == wanted,
                )
            }
            "Job" => {
                (ready, wanted) = (i64::from(is("Complete")), 1);
                (is("Complete"), is("Complete"))
            }
            _ => {
                (ready, wanted) = (0, 0);
                (true, true)
            }
        };
        let (failed, lacks, seen) = (is("Failed"), Vec::new(), 0);
        let triggered = annotations.is_some_and(|a| a.contains_key(catalogs::TRIGGERS));
        let image = data["spec"]["template"]["spec"]["containers"][0]["image"].as_str();
        let image = image.filter(|_| triggered).map(str::to_owned);
        Rollout { there: true, available, complete, failed, version, ready, wanted, lacks, image, seen }
    }

    pub fn done(&self, version: &str) -> bool {
        self.there && self.available && self.complete && self.version == version && self.lacks.is_empty()
    }

    /// Of an operand, whose version is its operator's business.
    fn stands(&self) -> bool {
        self.there && self.available && self.complete
    }
}

/// Whether a component may be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Now,
    Waits,
    /// Not part of this cluster.
    Unwanted,
}

/// All components of a control plane.
#[derive(Clone, Debug)]
pub struct Progress {
    version: String,
    components: BTreeMap<&'static str, (Turn, Rollout, Vec<&'static str>)>,
}

/// Whose turn it is. `rollout` tells how a workload is.
pub fn progress(scope: &Scope, rollout: &dyn Fn(&str) -> Rollout) -> Progress {
    let version = scope.release.version.clone();
    let wanted = |name: &str| table::find(name).is_some_and(|c| (c.when)(scope));
    let of = |c: &Component| {
        let mut own = rollout(c.name);
        // Nobody makes them before it is there.
        if own.there {
            own.lacks = (c.operands)(scope).into_iter().filter(|o| !rollout(o).stands()).collect();
        }
        own
    };
    let rollouts: BTreeMap<&str, Rollout> = table::all().iter().map(|c| (c.name, of(c))).collect();
    let done = |name: &str| rollouts.get(name).is_some_and(|r| r.done(&version));
    let components = table::all()
        .iter()
        .map(|c| {
            let now = rollouts.get(c.name).cloned().unwrap_or_default();
            // What is not part of this cluster is not waited for.
            let mut open: Vec<&'static str> = c.dependencies().filter(|d| wanted(d) && !done(d)).collect();
            let lacks = if wanted(c.name) { (c.awaits)(scope) } else { Vec::new() };
            open.extend(&lacks);
            let turn = match (wanted(c.name), open.is_empty()) {
                (false, _) => Turn::Unwanted,
                (true, true) => Turn::Now,
                // It is not made of half the facts; what there is of it stays as it is.
                (true, false) if !lacks.is_empty() => Turn::Waits,
                // Once applied at this version it stays applied, whatever its dependencies go through later.
                (true, false) if now.there && now.version == version => Turn::Now,
                (true, false) => Turn::Waits,
            };
            (c.name, (turn, now, open))
        })
        .collect();
    Progress { version, components }
}

impl Progress {
    /// Of whom nothing is known but what there is: that is what belongs to it.
    pub fn seen(rollout: &dyn Fn(&str) -> Rollout) -> Progress {
        let of = |c: &Component| {
            let own = rollout(c.name);
            let turn = if own.there { Turn::Now } else { Turn::Unwanted };
            (c.name, (turn, own, Vec::new()))
        };
        Progress { version: String::new(), components: table::all().iter().map(of).collect() }
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn turn(&self, name: &str) -> Turn {
        self.components.get(name).map_or(Turn::Unwanted, |(t, _, _)| *t)
    }

    /// Whom a component waits for.
    pub fn after(&self, name: &str) -> &[&'static str] {
        self.components.get(name).map_or(&[], |(_, _, open)| open)
    }

    /// Replicas that are missing, by component.
    pub fn short(&self) -> impl Iterator<Item = (&'static str, &Rollout)> {
        self.iter().filter(|(_, _, r)| r.there && r.ready < r.wanted).map(|(n, _, r)| (n, r))
    }

    /// All that are wanted.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Turn, &Rollout)> {
        self.components.iter().filter(|(_, (t, _, _))| *t != Turn::Unwanted).map(|(n, (t, r, _))| (*n, *t, r))
    }

    pub fn rollout(&self, name: &str) -> Option<&Rollout> {
        self.components.get(name).map(|(_, r, _)| r)
    }

    pub fn complete(&self) -> bool {
        self.iter().all(|(_, _, r)| r.done(&self.version))
    }

    /// Components that are not there yet, by name.
    pub fn missing(&self) -> Vec<&'static str> {
        self.iter().filter(|(_, _, r)| !r.available).map(|(n, _, _)| n).collect()
    }

    /// What is waited for, for those who ask.
    pub fn waiting(&self, now: Timestamp) -> Vec<Waiting> {
        let open =
            self.components.iter().filter(|(_, (t, r, _))| *t != Turn::Unwanted && !r.done(&self.version));
        open.map(|(name, (turn, rollout, on))| match turn {
            Turn::Waits => Waiting::new(
                format!("{name}: {}", on.join(", ")),
                "nothing: it starts when they are rolled out",
                now,
            ),
            _ if rollout.complete && !rollout.lacks.is_empty() => Waiting::new(
                format!("{name}: Deployments {}", rollout.lacks.join(", ")),
                format!("{name} makes them: see its log, and the Deployments, if this lasts"),
                now,
            ),
            _ => Waiting::new(
                format!("{name}: {} of {} replicas ready", rollout.ready, rollout.wanted),
                format!("see `kubectl describe pods -l app={name}` if this lasts"),
                now,
            ),
        })
        .collect()
    }
}

/// The history of versions of a control plane, newest first.
pub fn history(
    before: &Value,
    scope: &Scope,
    p: &Progress,
    generation: Option<i64>,
    now: Timestamp,
) -> Value {
    let mut list = before["history"].as_array().cloned().unwrap_or_default();
    let release = &scope.release;
    let current = list.first().is_some_and(|e| e["image"] == release.image.as_str());
    if !current {
        let entry = json!({"state": "Partial", "startedTime": now.to_string(), "version": release.version,
            "image": release.image, "completionTime": Value::Null});
        list.insert(0, entry);
        list.truncate(100);
    }
    if let Some(first) = list.first_mut()
        && first["state"] == "Partial"
        && p.complete()
    {
        first["state"] = json!("Completed");
        first["completionTime"] = json!(now.to_string());
    }
    json!({
        "desired": {"image": release.image, "version": release.version},
        "history": list, "observedGeneration": generation.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_of_a_workload_with_a_trigger_is_the_image_somebody_elses() {
        let data = json!({"spec": {"template": {"spec": {"containers": [{"image": "index@sha256:2"}]}}}});
        let image = |a: &BTreeMap<String, String>| Rollout::of("Deployment", 1, Some(a), &data).image;
        assert_eq!(image(&BTreeMap::new()), None);
        let triggered = [(catalogs::TRIGGERS.to_owned(), "[]".to_owned())].into();
        assert_eq!(image(&triggered).as_deref(), Some("index@sha256:2"));
    }
}
