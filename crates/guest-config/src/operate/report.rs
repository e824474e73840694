//! What the HostedControlPlane's status says of the guest.
//!
//! Conditions are a map by type, and other operators write theirs. Ours are applied by server-side apply with our own
//! field manager: we name only what is ours, so neither takes anything from the other. All of ours go in every apply,
//! because what an applier stops naming is removed; what we do not know (yet, or after a restart) is repeated as it is.

use super::{MANAGER, Operator, asking};
use crate::kinds;
use apis::conditions::{hosted_cluster as condition, reason};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use reconcile::conditions::{Condition, Conditions, Finding, Status};
use reconcile::{Failure, Outcome};
use serde_json::{Map, Value, json};

/// Types that are ours on a HostedControlPlane. Nobody else writes them.
pub const OURS: [&str; 13] = [
    condition::CONFIG_OPERATOR_RECONCILIATION_SUCCEEDED,
    condition::DATA_PLANE_CONNECTION_AVAILABLE,
    condition::CONTROL_PLANE_CONNECTION_AVAILABLE,
    condition::ETCD_DATA_ENCRYPTION_UP_TO_DATE,
    condition::CLOUD_RESOURCES_DESTROYED,
    condition::HOSTED_CLUSTER_RESTORED_FROM_BACKUP,
    condition::CLUSTER_VERSION_AVAILABLE,
    condition::control_plane::CLUSTER_VERSION_FAILING,
    condition::CLUSTER_VERSION_SUCCEEDING,
    condition::CLUSTER_VERSION_PROGRESSING,
    condition::CLUSTER_VERSION_RELEASE_ACCEPTED,
    condition::CLUSTER_VERSION_RETRIEVED_UPDATES,
    condition::CLUSTER_VERSION_UPGRADEABLE,
];

/// A condition of ClusterVersion under one of our names. Its time is the guest's.
fn mirrored(
    all: &mut Conditions,
    from: &Conditions,
    theirs: &str,
    ours: &str,
    generation: Option<i64>,
) -> bool {
    let Some(c) = from.get(theirs) else { return false };
    let why = if c.reason.is_empty() { reason::FROM_CLUSTER_VERSION } else { &c.reason };
    let copy = Condition { reason: why.to_owned(), ..c.clone() };
    all.mirror(ours, Some(&copy), generation, c.last_transition_time);
    true
}

fn version_conditions(all: &mut Conditions, version: &Value, generation: Option<i64>, now: Timestamp) {
    let theirs = Conditions::of(&version["status"]);
    for (from, to) in [
        ("Available", condition::CLUSTER_VERSION_AVAILABLE),
        ("Progressing", condition::CLUSTER_VERSION_PROGRESSING),
        ("ReleaseAccepted", condition::CLUSTER_VERSION_RELEASE_ACCEPTED),
        ("Failing", condition::control_plane::CLUSTER_VERSION_FAILING),
    ] {
        mirrored(all, &theirs, from, to, generation);
    }
    if let Some(failing) = theirs.get("Failing") {
        let status = match failing.status {
            Status::True => Status::False,
            Status::False => Status::True,
            Status::Unknown => Status::Unknown,
        };
        let turned = Condition { status, ..failing.clone() };
        let turned: Conditions = [turned].into_iter().collect();
        mirrored(all, &turned, "Failing", condition::CLUSTER_VERSION_SUCCEEDING, generation);
    }
    // A version operator says nothing of this while there is nothing against it.
    let upgradeable = condition::CLUSTER_VERSION_UPGRADEABLE;
    if !mirrored(all, &theirs, "Upgradeable", upgradeable, generation) && theirs.iter().next().is_some() {
        all.set(Finding::new(upgradeable, true, reason::FROM_CLUSTER_VERSION, ""), generation, now);
    }
    let updates = condition::CLUSTER_VERSION_RETRIEVED_UPDATES;
    let known = theirs.get("RetrievedUpdates").is_some_and(|c| c.status != Status::Unknown);
    if !known || !mirrored(all, &theirs, "RetrievedUpdates", updates, generation) {
        all.remove(updates);
    }
}

/// `status.versionStatus`, as the guest has it.
fn version_status(version: &Value) -> Option<Value> {
    let status = &version["status"];
    status["desired"]["version"].as_str()?;
    let mut out = Map::new();
    let desired = &status["desired"];
    let mut release = Map::new();
    for field in ["version", "image", "url", "channels"] {
        if !desired[field].is_null() {
            release.insert(field.into(), desired[field].clone());
        }
    }
    release.entry("image").or_insert_with(|| json!(""));
    out.insert("desired".into(), Value::Object(release));
    if status["history"].is_array() {
        out.insert("history".into(), status["history"].clone());
    }
    out.insert("observedGeneration".into(), json!(status["observedGeneration"].as_i64().unwrap_or(0)));
    out.insert("availableUpdates".into(), status["availableUpdates"].clone());
    if status["conditionalUpdates"].is_array() {
        out.insert("conditionalUpdates".into(), status["conditionalUpdates"].clone());
    }
    Some(Value::Object(out))
}

/// Our part of the status; nothing if it is there already. Pure.
pub fn report(
    seen: &Value,
    generation: Option<i64>,
    found: Vec<Finding>,
    version: Option<&Value>,
    nodes: usize,
    now: Timestamp,
) -> Option<Value> {
    // While no key was ever changed, the control-plane operator says what there is to say of encryption.
    let is_rotated = seen["secretEncryption"]["history"].as_array().is_some_and(|h| !h.is_empty());
    let is_ours = |kind: &str| {
        OURS.contains(&kind) && (is_rotated || kind != condition::ETCD_DATA_ENCRYPTION_UP_TO_DATE)
    };
    let before: Conditions = Conditions::of(seen).iter().filter(|c| is_ours(&c.kind)).cloned().collect();
    let mut all = before.clone();
    for finding in found {
        all.set(finding, generation, now);
    }
    let mut status = Map::new();
    if let Some(version) = version {
        version_conditions(&mut all, version, generation, now);
        if let Some(v) = version_status(version) {
            status.insert("versionStatus".into(), v);
        }
    }
    let kept = |field: &str| !seen[field].is_null();
    if !status.contains_key("versionStatus") && kept("versionStatus") {
        status.insert("versionStatus".into(), seen["versionStatus"].clone());
    }
    status.insert("nodeCount".into(), json!(nodes));
    let same = all == before && status.iter().all(|(k, v)| seen[k] == *v);
    status.insert("conditions".into(), all.to_value());
    (!same).then_some(Value::Object(status))
}

impl Operator {
    pub(super) async fn report(&self, seen: &DynamicObject) -> Result<Outcome, Failure> {
        let before = seen.data.get("status").unwrap_or(&Value::Null);
        if !before["ready"].is_boolean() {
            // The control-plane operator writes the first status; a part of one would not be valid.
            let on = self.waiting(
                "the first status of the HostedControlPlane",
                "the control-plane operator writes it",
            );
            return Ok(Outcome::Waiting { on: vec![on], again: None });
        }
        let version = self.versions.get("", "version");
        let version = version.as_deref().map(|v| &v.data);
        let nodes = self.nodes.len();
        let Some(status) =
            report(before, seen.metadata.generation, self.found.all(), version, nodes, self.clock.now())
        else {
            return Ok(Outcome::Done);
        };
        let (ns, name) = (&self.told.namespace, &self.told.name);
        let body = json!({"apiVersion": kinds::PLANE.api_version(), "kind": kinds::PLANE.kind,
            "metadata": {"name": name, "namespace": ns}, "status": status});
        let params = PatchParams::apply(MANAGER).force();
        match kinds::PLANE.api(&self.management, ns).patch_status(name, &params, &Patch::Apply(&body)).await {
            Ok(_) => Ok(Outcome::Done),
            Err(kube::Error::Api(s)) if s.code == 404 => Ok(Outcome::Done),
            Err(e) => Err(asking("write the status of the HostedControlPlane")(e).into()),
        }
    }
}
