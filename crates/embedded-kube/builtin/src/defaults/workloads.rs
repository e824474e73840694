//! Controllers of pods that keep running.

use super::{pod, storage};
use crate::json::{Obj, child, descend, each, ensure, fill, fill_zero, is_zero, text, zero};

pub(super) fn deployment(m: &mut Obj) {
    let Some(spec) = ensure(m, "spec") else { return };
    pod::template_of(spec);
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
    let Some(strategy) = ensure(spec, "strategy") else { return };
    fill_zero(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate"
        && let Some(r) = ensure(strategy, "rollingUpdate")
    {
        fill(r, "maxUnavailable", "25%");
        fill(r, "maxSurge", "25%");
    }
}

pub(super) fn replica_set(m: &mut Obj) {
    let Some(spec) = ensure(m, "spec") else { return };
    pod::template_of(spec);
    fill(spec, "replicas", 1);
}

/// The oldest controller guesses most: its selector and its own labels come from the template.
pub(super) fn replication_controller(m: &mut Obj) {
    let Some(spec) = ensure(m, "spec") else { return };
    pod::template_of(spec);
    fill(spec, "replicas", 1);
    let labels = descend(spec, &["template", "metadata"])
        .and_then(|t| t.get("labels"))
        .filter(|l| !is_zero(l))
        .cloned();
    let Some(labels) = labels else { return };
    fill_zero(spec, "selector", labels.clone());
    if let Some(meta) = ensure(m, "metadata") {
        fill_zero(meta, "labels", labels);
    }
}

pub(super) fn daemon_set(m: &mut Obj) {
    if let Some(a) = ensure(m, "metadata").and_then(|m| ensure(m, "annotations")) {
        fill(a, crate::prepare::TEMPLATE_GENERATION, "0");
    }
    let Some(spec) = ensure(m, "spec") else { return };
    pod::template_of(spec);
    fill(spec, "revisionHistoryLimit", 10);
    let Some(strategy) = ensure(spec, "updateStrategy") else { return };
    fill_zero(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate"
        && let Some(r) = ensure(strategy, "rollingUpdate")
    {
        fill(r, "maxUnavailable", 1);
        fill(r, "maxSurge", 0);
    }
}

pub(super) fn stateful_set(m: &mut Obj) {
    let Some(spec) = ensure(m, "spec") else { return };
    pod::template_of(spec);
    fill_zero(spec, "podManagementPolicy", "OrderedReady");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    if let Some(r) = ensure(spec, "persistentVolumeClaimRetentionPolicy") {
        fill_zero(r, "whenDeleted", "Retain");
        fill_zero(r, "whenScaled", "Retain");
    }
    if let Some(strategy) = ensure(spec, "updateStrategy") {
        if zero(strategy, "type") {
            strategy.insert("type".into(), "RollingUpdate".into());
            ensure(strategy, "rollingUpdate");
        }
        if text(strategy, "type") == "RollingUpdate"
            && let Some(r) = child(strategy, "rollingUpdate")
        {
            fill(r, "partition", 0);
        }
    }
    each(spec, "volumeClaimTemplates", |t| {
        t.insert("apiVersion".into(), "v1".into());
        t.insert("kind".into(), "PersistentVolumeClaim".into());
        storage::claim(t);
    });
}
