//! Volumes, claims and classes.

use super::{pod, quantities, resources};
use crate::json::{Obj, absent, ensure, fill, fill_zero};
use serde_json::{Value, json};

pub(super) fn volume(m: &mut Obj) {
    let Some(spec) = ensure(m, "spec") else { return };
    quantities(spec, "capacity");
    pod::source(spec);
    fill_zero(spec, "persistentVolumeReclaimPolicy", "Retain");
    fill(spec, "volumeMode", "Filesystem");
    if let Some(status) = ensure(m, "status") {
        fill_zero(status, "phase", "Pending");
    }
}

pub(super) fn claim(m: &mut Obj) {
    if let Some(spec) = ensure(m, "spec") {
        claim_spec(spec);
    }
    if let Some(status) = ensure(m, "status") {
        fill_zero(status, "phase", "Pending");
        quantities(status, "capacity");
    }
}

pub(super) fn claim_spec(spec: &mut Obj) {
    resources(spec);
    fill(spec, "volumeMode", "Filesystem");
    // The two names of a data source are kept equal while they can be.
    let same = |v: &Value| v.get("namespace").is_none_or(Value::is_null);
    match (absent(spec, "dataSource"), absent(spec, "dataSourceRef")) {
        (false, true) => {
            if let Some(v) = spec.get("dataSource").cloned() {
                spec.insert("dataSourceRef".into(), v);
            }
        }
        (true, false) => {
            if let Some(v) = spec.get("dataSourceRef").filter(|v| same(v)).cloned() {
                spec.insert("dataSource".into(), v);
            }
        }
        _ => {}
    }
}

pub(super) fn class(m: &mut Obj) {
    fill(m, "reclaimPolicy", "Delete");
    fill(m, "volumeBindingMode", "Immediate");
}

pub(super) fn csi_driver(m: &mut Obj) {
    let Some(spec) = ensure(m, "spec") else { return };
    fill(spec, "attachRequired", true);
    fill(spec, "podInfoOnMount", false);
    fill(spec, "storageCapacity", false);
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    fill_zero(spec, "volumeLifecycleModes", json!(["Persistent"]));
    fill(spec, "requiresRepublish", false);
    fill(spec, "seLinuxMount", false);
}
