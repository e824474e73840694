//! Controllers of pods that keep running.

use super::path::{Errors, IMMUTABLE, Path};
use super::{int_or_percent, is_nothing, pod, selector, spec};
use crate::json::{int_of, is_zero, str_of};
use ek_meta::selector::LabelSelector;
use serde_json::{Value, json};

const MISMATCH: &str = "`selector` does not match template `labels`";

/// A selector that is there, selects something, and selects the template's own pods.
fn owns_template(e: &mut Errors, p: &Path<'_>, s: &Value, kind: &str) {
    let at = p.child("selector");
    let Some(sel) = s.get("selector").filter(|v| !v.is_null()) else {
        e.required(&at, "");
        owns(e, p, s, None);
        return;
    };
    selector(e, &at, sel);
    let empty = ["matchLabels", "matchExpressions"].iter().all(|k| sel.get(*k).is_none_or(is_zero));
    if empty {
        e.invalid(&at, sel.clone(), format!("empty selector is invalid for {kind}"));
        return;
    }
    owns(e, p, s, Some(sel));
}

/// Also said without a selector: nothing selects nothing.
fn owns(e: &mut Errors, p: &Path<'_>, s: &Value, sel: Option<&Value>) {
    let labels = s.get("template").and_then(|t| t.get("metadata")).and_then(|m| m.get("labels"));
    let matches = sel.is_some_and(|v| match LabelSelector::from_json(v) {
        Ok(sel) => sel.matches_value(labels),
        Err(_) => {
            e.invalid(&p.child("selector"), v.clone(), "invalid label selector");
            true
        }
    });
    if !matches {
        let t = p.child("template");
        let m = t.child("metadata");
        e.invalid(&m.child("labels"), labels.cloned().unwrap_or_default(), MISMATCH);
    }
}

fn always_running(e: &mut Errors, p: &Path<'_>, s: &Value, kind: &str) {
    if !s.get("template").is_some_and(Value::is_object) {
        e.required(&p.child("template"), "");
        return;
    }
    pod::template(e, p, s, &["Always"]);
    let t = s.get("template").map_or(&Value::Null, spec);
    if int_of(t, "activeDeadlineSeconds").is_some() {
        let tp = p.child("template");
        let sp = tp.child("spec");
        e.forbidden(
            &sp.child("activeDeadlineSeconds"),
            &format!("activeDeadlineSeconds in {kind} is not Supported"),
        );
    }
}

pub(super) fn deployment(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    e.not_negative(&p, s, &["replicas", "minReadySeconds", "revisionHistoryLimit"]);
    owns_template(e, &p, s, "deployment");
    always_running(e, &p, s, "ReplicaSet");
    let sp = p.child("strategy");
    let strategy = s.get("strategy").unwrap_or(&Value::Null);
    match str_of(strategy, "type") {
        "Recreate" => {
            if strategy.get("rollingUpdate").is_some_and(|r| !r.is_null()) {
                e.forbidden(
                    &sp.child("rollingUpdate"),
                    "may not be specified when strategy `type` is 'Recreate'",
                );
            }
        }
        "RollingUpdate" => rolling(e, &sp, strategy, true),
        other => {
            let shown = json!({"Type": other, "RollingUpdate": strategy.get("rollingUpdate")});
            let supported = ["Recreate", "RollingUpdate"];
            e.0.push(ek_meta::FieldError::not_supported(&sp.text(), shown, &supported));
        }
    }
    if let Some(n) = int_of(s, "progressDeadlineSeconds") {
        e.not_negative(&p, s, &["progressDeadlineSeconds"]);
        if n <= int_of(s, "minReadySeconds").unwrap_or_default() {
            e.invalid(&p.child("progressDeadlineSeconds"), n, "must be greater than minReadySeconds");
        }
    }
    if let Some(old) = old {
        e.fixed(&p, s, spec(old), "selector");
    }
}

/// An update must be allowed to add a pod or to take one away.
fn rolling(e: &mut Errors, p: &Path<'_>, strategy: &Value, both: bool) {
    let p = p.child("rollingUpdate");
    let Some(r) = strategy.get("rollingUpdate").filter(|r| r.is_object()) else {
        e.required(&p, "");
        return;
    };
    int_or_percent(e, &p.child("maxUnavailable"), r.get("maxUnavailable"));
    int_or_percent(e, &p.child("maxSurge"), r.get("maxSurge"));
    let none = is_nothing(r.get("maxUnavailable")) && is_nothing(r.get("maxSurge"));
    if none && both {
        let v = r.get("maxUnavailable").cloned().unwrap_or_default();
        e.invalid(&p.child("maxUnavailable"), v, "may not be 0 when `maxSurge` is 0");
    } else if none {
        e.required(&p.child("maxUnavailable"), "cannot be 0 when maxSurge is 0");
    }
}

pub(super) fn replica_set(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    e.not_negative(&p, s, &["replicas", "minReadySeconds"]);
    owns_template(e, &p, s, "deployment");
    always_running(e, &p, s, "ReplicaSet");
    if let Some(old) = old {
        e.fixed(&p, s, spec(old), "selector");
    }
}

pub(super) fn daemon_set(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    e.not_negative(&p, s, &["minReadySeconds", "revisionHistoryLimit"]);
    owns_template(e, &p, s, "daemonset");
    always_running(e, &p, s, "DaemonSet");
    let sp = p.child("updateStrategy");
    let strategy = s.get("updateStrategy").unwrap_or(&Value::Null);
    match str_of(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => rolling(e, &sp, strategy, false),
        other => e.not_supported(&sp.child("type"), other, &["RollingUpdate", "OnDelete"]),
    }
    if let Some(old) = old {
        e.fixed(&p, s, spec(old), "selector");
    }
}

pub(super) fn stateful_set(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    match str_of(s, "podManagementPolicy") {
        "" => e.required(&p.child("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        other => e.invalid(&p.child("podManagementPolicy"), other, "must be 'OrderedReady' or 'Parallel'"),
    }
    let sp = p.child("updateStrategy");
    let strategy = s.get("updateStrategy").unwrap_or(&Value::Null);
    match str_of(strategy, "type") {
        "" => e.required(&sp, ""),
        "OnDelete" => {
            if strategy.get("rollingUpdate").is_some_and(|r| !r.is_null()) {
                e.invalid(
                    &sp.child("rollingUpdate"),
                    strategy.get("rollingUpdate").cloned().unwrap_or_default(),
                    "only allowed for updateStrategy 'RollingUpdate'",
                );
            }
        }
        "RollingUpdate" => {
            if let Some(r) = strategy.get("rollingUpdate") {
                e.not_negative(&sp.child("rollingUpdate"), r, &["partition"]);
            }
        }
        other => {
            let shown = json!({"Type": other, "RollingUpdate": strategy.get("rollingUpdate")});
            e.invalid(&sp, shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
    e.not_negative(&p, s, &["replicas", "minReadySeconds", "revisionHistoryLimit"]);
    owns_template(e, &p, s, "statefulset");
    always_running(e, &p, s, "StatefulSet");
    if let Some(old) = old {
        let free = |k: &str| {
            matches!(
                k,
                "replicas"
                    | "ordinals"
                    | "template"
                    | "updateStrategy"
                    | "revisionHistoryLimit"
                    | "persistentVolumeClaimRetentionPolicy"
                    | "minReadySeconds"
            )
        };
        if !pod::differs_only(s, spec(old), free) {
            e.forbidden(&p, "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden");
        }
    }
}

pub(super) fn replication_controller(e: &mut Errors, new: &Value) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    e.not_negative(&p, s, &["replicas", "minReadySeconds"]);
    let Some(Value::Object(sel)) = s.get("selector").filter(|v| !is_zero(v)) else {
        e.required(&p.child("selector"), "");
        return;
    };
    let labels = s.get("template").and_then(|t| t.get("metadata")).and_then(|m| m.get("labels"));
    if s.get("template").is_some_and(Value::is_object)
        && !sel.iter().all(|(k, v)| labels.and_then(|l| l.get(k.as_str())) == Some(v))
    {
        let t = p.child("template");
        let m = t.child("metadata");
        e.invalid(&m.child("labels"), labels.cloned().unwrap_or_default(), MISMATCH);
    }
    always_running(e, &p, s, "ReplicationController");
}

pub(super) fn controller_revision(e: &mut Errors, new: &Value, old: Option<&Value>) {
    e.not_negative(&Path::ROOT, new, &["revision"]);
    if new.get("data").is_none_or(Value::is_null) {
        e.required(&Path::ROOT.child("data"), "data is mandatory");
    }
    if let Some(old) = old
        && new.get("data") != old.get("data")
    {
        e.invalid(&Path::ROOT.child("data"), new.get("data").cloned().unwrap_or_default(), IMMUTABLE);
    }
}
