//! Volumes, claims, classes and drivers.

use super::cells::{self, UNSET};
use super::{AGE, Column, NAME, Table, col, int, text, wide};
use crate::json::{bool_of, list, str_of};
use ek_meta::object::{at, str_at};
use serde_json::{Value, json};

const MODE: Column = wide("VolumeMode", "Filesystem or block device.");
const ATTRIBUTES: Column = text("VolumeAttributesClass", "Class of changeable properties.");

fn modes(v: Option<&Value>) -> String {
    let all = v.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let has = |m: &str| all.iter().any(|x| x == m);
    [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .into_iter()
    .filter(|(m, _)| has(m))
    .map(|(_, short)| short)
    .collect::<Vec<_>>()
    .join(",")
}

fn phase(obj: &Value) -> Value {
    if cells::deleting(obj) { json!("Terminating") } else { cells::string(obj, &["status", "phase"]) }
}

/// The class, also where it was before it had a field.
fn class(obj: &Value) -> &str {
    let old = at(obj, &["metadata", "annotations"])
        .and_then(|a| a.get("volume.beta.kubernetes.io/storage-class"))
        .and_then(Value::as_str);
    old.or_else(|| str_at(obj, &["spec", "storageClassName"])).unwrap_or_default()
}

fn storage(v: Option<&Value>) -> String {
    v.and_then(|c| c.get("storage")).map_or_else(String::new, cells::plain)
}

pub(super) const VOLUMES: Table = (
    &[
        NAME,
        text("Capacity", "How much fits."),
        text("Access Modes", "Who may mount it, and how."),
        text("Reclaim Policy", "What happens to it when its claim goes."),
        text("Status", "Whether it is free, bound, released or failed."),
        text("Claim", "The claim it is bound to."),
        text("StorageClass", "StorageClass of the pv"),
        ATTRIBUTES,
        text("Reason", "Why it is in this state."),
        AGE,
        MODE,
    ],
    |obj, now| {
        let claim = at(obj, &["spec", "claimRef"])
            .filter(|c| c.is_object())
            .map(|c| format!("{}/{}", str_of(c, "namespace"), str_of(c, "name")));
        vec![
            cells::name(obj),
            json!(storage(at(obj, &["spec", "capacity"]))),
            json!(modes(at(obj, &["spec", "accessModes"]))),
            cells::string(obj, &["spec", "persistentVolumeReclaimPolicy"]),
            phase(obj),
            json!(claim.unwrap_or_default()),
            json!(class(obj)),
            cells::string_or(obj, &["spec", "volumeAttributesClassName"], UNSET),
            cells::string(obj, &["status", "reason"]),
            cells::age(obj, now),
            cells::string_or(obj, &["spec", "volumeMode"], UNSET),
        ]
    },
);

pub(super) const CLAIMS: Table = (
    &[
        NAME,
        text("Status", "Whether it is pending, bound or lost."),
        text("Volume", "The volume it is bound to."),
        text("Capacity", "How much the volume holds."),
        text("Access Modes", "Who may mount it, and how."),
        text("StorageClass", "StorageClass of the pvc"),
        ATTRIBUTES,
        AGE,
        MODE,
    ],
    |obj, now| {
        let volume = str_at(obj, &["spec", "volumeName"]).unwrap_or_default();
        let (capacity, access) = if volume.is_empty() {
            (String::new(), String::new())
        } else {
            (storage(at(obj, &["status", "capacity"])), modes(at(obj, &["status", "accessModes"])))
        };
        vec![
            cells::name(obj),
            phase(obj),
            json!(volume),
            json!(capacity),
            json!(access),
            json!(class(obj)),
            cells::string_or(obj, &["spec", "volumeAttributesClassName"], UNSET),
            cells::age(obj, now),
            cells::string_or(obj, &["spec", "volumeMode"], UNSET),
        ]
    },
);

fn named_default(obj: &Value, annotations: &[&str]) -> Value {
    let of = at(obj, &["metadata", "annotations"]);
    let yes = annotations.iter().any(|a| of.and_then(|m| m.get(*a)).is_some_and(|v| v == "true"));
    if yes { json!(format!("{} (default)", ek_meta::object::name(obj))) } else { cells::name(obj) }
}

pub(super) const CLASSES: Table = (
    &[
        NAME,
        text("Provisioner", "Who makes the volumes."),
        text("ReclaimPolicy", "What happens to a volume when its claim goes."),
        text("VolumeBindingMode", "When claims are bound."),
        col("AllowVolumeExpansion", "string", "Whether claims may grow."),
        AGE,
    ],
    |obj, now| {
        const DEFAULTS: [&str; 2] = [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ];
        vec![
            named_default(obj, &DEFAULTS),
            cells::string(obj, &["provisioner"]),
            cells::string_or(obj, &["reclaimPolicy"], "Delete"),
            cells::string_or(obj, &["volumeBindingMode"], "Immediate"),
            json!(bool_of(obj, "allowVolumeExpansion")),
            cells::age(obj, now),
        ]
    },
);

pub(super) const ATTRIBUTES_CLASSES: Table =
    (&[NAME, text("DriverName", "The driver that understands the parameters."), AGE], |obj, now| {
        vec![
            named_default(obj, &["storageclass.kubernetes.io/is-default-class"]),
            cells::string(obj, &["driverName"]),
            cells::age(obj, now),
        ]
    });

pub(super) const ATTACHMENTS: Table = (
    &[
        NAME,
        Column { format: "name", ..text("Attacher", "Who attaches.") },
        text("PV", "The volume."),
        text("Node", "The node it goes to."),
        col("Attached", "boolean", "Whether it is there."),
        AGE,
    ],
    |obj, now| {
        vec![
            cells::name(obj),
            cells::string(obj, &["spec", "attacher"]),
            cells::string(obj, &["spec", "source", "persistentVolumeName"]),
            cells::string(obj, &["spec", "nodeName"]),
            json!(at(obj, &["status"]).is_some_and(|s| bool_of(s, "attached"))),
            cells::age(obj, now),
        ]
    },
);

pub(super) const CSI_DRIVERS: Table = (
    &[
        NAME,
        col("AttachRequired", "boolean", "Whether volumes must be attached first."),
        col("PodInfoOnMount", "boolean", "Whether the driver is told about the pod."),
        col("StorageCapacity", "boolean", "Whether the scheduler looks at free capacity."),
        text("TokenRequests", "Audiences of tokens the driver gets."),
        col("RequiresRepublish", "boolean", "Whether mounts are refreshed."),
        text("Modes", "Kinds of volume the driver makes."),
        AGE,
    ],
    |obj, now| {
        let spec = obj.get("spec").unwrap_or(&Value::Null);
        let flag =
            |key: &str, default: bool| json!(spec.get(key).and_then(Value::as_bool).unwrap_or(default));
        let or_unset = |s: String| json!(if s.is_empty() { UNSET.to_owned() } else { s });
        vec![
            cells::name(obj),
            flag("attachRequired", true),
            flag("podInfoOnMount", false),
            flag("storageCapacity", false),
            or_unset(cells::join(list(spec, "tokenRequests"), "audience", ",")),
            flag("requiresRepublish", false),
            or_unset(cells::join_strings(list(spec, "volumeLifecycleModes"), ",")),
            cells::age(obj, now),
        ]
    },
);

pub(super) const CSI_NODES: Table = (
    &[NAME, int("Drivers", "Drivers indicates the number of CSI drivers registered on the node"), AGE],
    |obj, now| {
        let drivers = at(obj, &["spec"]).map_or(0, |s| list(s, "drivers").len());
        vec![cells::name(obj), json!(drivers), cells::age(obj, now)]
    },
);
