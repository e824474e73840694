//! Which volume a claim gets.

use crate::objects::{annotation, list, selector, text};
use crate::placement::any_term;
use ek_meta::object;
use ek_meta::quantity::Quantity;
use serde_json::{Value, json};

/// Made on demand by us, on whatever the node has.
pub(super) const PROVISIONER: &str = "zaffre.io/local";
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Bind to the volume of this name.
    Bind(String),
    /// Make this volume, then bind.
    Provision(Value),
    /// Somebody else makes it.
    External(String),
    /// Nothing to do until something changes; why.
    Wait { reason: &'static str, message: String, warning: bool },
}

fn storage(v: &Value, pointer: &str) -> Option<Quantity> {
    v.pointer(pointer).and_then(Value::as_str).and_then(|s| s.parse().ok())
}

/// Whether a volume is meant for a claim already.
pub(super) fn claimed_by(volume: &Value, claim: &Value) -> bool {
    let r = &volume["spec"]["claimRef"];
    r["name"] == claim["metadata"]["name"]
        && r["namespace"] == claim["metadata"]["namespace"]
        && (text(r, "/uid").is_empty() || r["uid"] == claim["metadata"]["uid"])
}

fn satisfies(volume: &Value, claim: &Value, node: Option<&Value>) -> bool {
    let mode = |v: &Value| Some(text(v, "/spec/volumeMode").to_owned()).filter(|m| !m.is_empty());
    let filesystem = || Some("Filesystem".to_owned());
    let modes = list(volume, "/spec/accessModes");
    let large =
        storage(volume, "/spec/capacity/storage") >= storage(claim, "/spec/resources/requests/storage");
    let chosen = selector(claim.pointer("/spec/selector").filter(|s| !s.is_null()))
        .is_none_or(|s| s.matches_value(volume.pointer("/metadata/labels")));
    let terms = list(volume, "/spec/nodeAffinity/required/nodeSelectorTerms");
    let reachable = terms.is_empty() || node.is_none_or(|n| any_term(terms, n));
    text(volume, "/spec/storageClassName") == text(claim, "/spec/storageClassName")
        && mode(volume).or_else(filesystem) == mode(claim).or_else(filesystem)
        && list(claim, "/spec/accessModes").iter().all(|m| modes.contains(m))
        && large
        && chosen
        && reachable
        && !crate::objects::is_deleting(volume)
}

pub(super) fn plan(claim: &Value, volumes: &[Value], class: Option<&Value>, node: Option<&Value>) -> Step {
    let wait = |reason, message: &str, warning| Step::Wait { reason, message: message.to_owned(), warning };
    let named = text(claim, "/spec/volumeName");
    if !named.is_empty() {
        let Some(volume) = volumes.iter().find(|v| object::name(v) == named) else {
            return wait("FailedBinding", &format!("volume {named:?} not found"), true);
        };
        let free = volume["spec"]["claimRef"].is_null() || claimed_by(volume, claim);
        return if free {
            Step::Bind(named.to_owned())
        } else {
            wait("FailedBinding", &format!("volume {named:?} already bound to a different claim."), true)
        };
    }
    if let Some(v) = volumes.iter().find(|v| claimed_by(v, claim)) {
        return Step::Bind(object::name(v).to_owned());
    }
    let late = class.is_some_and(|c| text(c, "/volumeBindingMode") == "WaitForFirstConsumer");
    if late && annotation(claim, SELECTED_NODE).is_none() {
        return wait(
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding",
            false,
        );
    }
    let free = volumes.iter().filter(|v| v["spec"]["claimRef"].is_null() && satisfies(v, claim, node));
    // The smallest that is large enough; of equals the first by name.
    let best = free.min_by(|a, b| {
        let size = |v: &Value| storage(v, "/spec/capacity/storage");
        size(a).cmp(&size(b)).then_with(|| object::name(a).cmp(object::name(b)))
    });
    if let Some(v) = best {
        return Step::Bind(object::name(v).to_owned());
    }
    let Some(class) = class else {
        let name = text(claim, "/spec/storageClassName");
        return if name.is_empty() {
            let message = "no persistent volumes available for this claim and no storage class is set";
            wait("FailedBinding", message, false)
        } else {
            wait("ProvisioningFailed", &format!("storageclass.storage.k8s.io {name:?} not found"), true)
        };
    };
    match text(class, "/provisioner") {
        PROVISIONER => Step::Provision(volume(claim, class)),
        "kubernetes.io/no-provisioner" => wait(
            "FailedBinding",
            "no persistent volumes available for this claim and its class makes none",
            false,
        ),
        other => Step::External(other.to_owned()),
    }
}

/// A new volume for a claim.
fn volume(claim: &Value, class: &Value) -> Value {
    let name = format!("pvc-{}", object::uid(claim));
    let policy = Some(text(class, "/reclaimPolicy")).filter(|p| !p.is_empty()).unwrap_or("Delete");
    let mut v = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}, "finalizers": [super::VOLUME_PROTECTION]},
        "spec": {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"]["accessModes"], "persistentVolumeReclaimPolicy": policy,
            "storageClassName": object::name(class), "volumeMode": claim["spec"]["volumeMode"],
            "claimRef": reference(claim),
            "hostPath": {"path": format!("/var/lib/zaffre/volumes/{name}"), "type": "DirectoryOrCreate"},
        },
    });
    if let Some(node) = annotation(claim, SELECTED_NODE) {
        v["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}});
    }
    v
}

pub(super) fn reference(claim: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": object::name(claim), "namespace": object::namespace(claim),
        "uid": object::uid(claim), "resourceVersion": object::resource_version(claim)})
}
