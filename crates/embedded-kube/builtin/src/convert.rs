//! Between the served versions of one kind.
//!
//! Only two built-in kinds are served in more than one shape. Events were renamed field by field when they got
//! their own group. Autoscalers learned metrics other than CPU in `v2`; what `v1` has no field for travels in
//! annotations, so that an old client that reads, changes and writes back loses nothing. Those annotations have
//! their own, older spelling of metrics, which is why most of this file is renaming.

use crate::defaults::default_autoscaler;
use crate::json::{Obj, child, ensure, str_of, text};
use serde_json::{Map, Value, json};

/// Rewrites `obj` in place to `api_version` of the same kind.
pub fn convert(obj: &mut Value, api_version: &str) {
    let Some(m) = obj.as_object_mut() else { return };
    let kind = text(m, "kind");
    match (kind, text(m, "apiVersion"), api_version) {
        (_, from, to) if from == to => return,
        ("Event", "v1", "events.k8s.io/v1") => rename_event(m, false),
        ("Event", "events.k8s.io/v1", "v1") => rename_event(m, true),
        ("HorizontalPodAutoscaler", "autoscaling/v2", "autoscaling/v1") => autoscaler_to_v1(m),
        ("HorizontalPodAutoscaler", "autoscaling/v1", "autoscaling/v2") => autoscaler_to_v2(m),
        _ => {}
    }
    m.insert("apiVersion".into(), api_version.into());
}

/// Whether two versions of one kind differ in nothing but `apiVersion`.
pub fn is_rename_only(from_api_version: &str, to_api_version: &str) -> bool {
    if from_api_version == to_api_version {
        return true;
    }
    let shaped = |v: &str| v.starts_with("autoscaling/") || v.starts_with("events.k8s.io/");
    !shaped(from_api_version) && !shaped(to_api_version)
}

/// Core name, name in `events.k8s.io`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn rename_event(m: &mut Obj, to_core: bool) {
    for (core, new) in EVENT_FIELDS {
        let (from, to) = if to_core { (new, core) } else { (core, new) };
        rename(m, from, to);
    }
}

fn rename(m: &mut Obj, from: &str, to: &str) {
    if let Some(v) = m.shift_remove(from) {
        m.insert(to.to_owned(), v);
    }
}

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

fn annotate(m: &mut Obj, key: &str, v: &Value) {
    if let Some(a) = ensure(m, "metadata").and_then(|meta| ensure(meta, "annotations")) {
        a.insert(key.to_owned(), Value::String(v.to_string()));
    }
}

fn take_annotation(m: &mut Obj, key: &str) -> Option<Value> {
    let meta = child(m, "metadata")?;
    let annotations = child(meta, "annotations")?;
    let v = annotations.shift_remove(key)?;
    if annotations.is_empty() {
        meta.shift_remove("annotations");
    }
    serde_json::from_str(v.as_str()?).ok()
}

/// CPU utilisation, the one metric `v1` has a field for.
fn cpu_utilisation(metric: &Value, values: &str) -> Option<Value> {
    if str_of(metric, "type") != "Resource" {
        return None;
    }
    let r = metric.get("resource").filter(|r| str_of(r, "name") == "cpu")?;
    r.get(values)?.get("averageUtilization").filter(|v| !v.is_null()).cloned()
}

fn autoscaler_to_v1(m: &mut Obj) {
    let spec = child(m, "spec");
    let (mut metrics, behavior) = match spec {
        Some(s) => (taken_list(s, "metrics"), s.shift_remove("behavior")),
        None => (Vec::new(), None),
    };
    if let Some(i) = metrics.iter().position(|x| cpu_utilisation(x, "target").is_some()) {
        let cpu = cpu_utilisation(&metrics[i], "target");
        metrics.retain(|x| cpu_utilisation(x, "target").is_none());
        if let (Some(cpu), Some(s)) = (cpu, child(m, "spec")) {
            s.insert("targetCPUUtilizationPercentage".into(), cpu);
        }
    }
    let (mut current, conditions) = match child(m, "status") {
        Some(s) => (taken_list(s, "currentMetrics"), taken_list(s, "conditions")),
        None => (Vec::new(), Vec::new()),
    };
    if let Some(i) = current.iter().position(|x| cpu_utilisation(x, "current").is_some()) {
        let cpu = cpu_utilisation(&current[i], "current");
        current.retain(|x| cpu_utilisation(x, "current").is_none());
        if let (Some(cpu), Some(s)) = (cpu, child(m, "status")) {
            s.insert("currentCPUUtilizationPercentage".into(), cpu);
        }
    }
    if !metrics.is_empty() {
        annotate(m, METRICS, &metrics.into_iter().map(|x| old_metric(x, "target")).collect());
    }
    if !current.is_empty() {
        annotate(m, CURRENT_METRICS, &current.into_iter().map(|x| old_metric(x, "current")).collect());
    }
    if !conditions.is_empty() {
        annotate(m, CONDITIONS, &Value::Array(conditions));
    }
    if let Some(b) = behavior {
        annotate(m, BEHAVIOR, &recase(b, upper));
    }
}

fn autoscaler_to_v2(m: &mut Obj) {
    let cpu = child(m, "spec").and_then(|s| s.shift_remove("targetCPUUtilizationPercentage"));
    let mut metrics: Vec<Value> = cpu.into_iter().map(|v| cpu_metric("target", v)).collect();
    if let Some(Value::Array(more)) = take_annotation(m, METRICS) {
        metrics.extend(more.into_iter().map(|x| new_metric(x, "target")));
    }
    let behavior = take_annotation(m, BEHAVIOR).map(|b| recase(b, lower));
    if let Some(spec) = child(m, "spec") {
        if !metrics.is_empty() {
            spec.insert("metrics".into(), Value::Array(metrics));
        }
        if let Some(b) = behavior {
            spec.insert("behavior".into(), b);
        }
    }
    let cpu = child(m, "status").and_then(|s| s.shift_remove("currentCPUUtilizationPercentage"));
    let mut current: Vec<Value> = cpu.into_iter().map(|v| cpu_metric("current", v)).collect();
    if let Some(Value::Array(more)) = take_annotation(m, CURRENT_METRICS) {
        current.extend(more.into_iter().map(|x| new_metric(x, "current")));
    }
    let conditions = take_annotation(m, CONDITIONS);
    if !current.is_empty() || conditions.is_some() {
        let Some(status) = ensure(m, "status") else { return };
        if !current.is_empty() {
            status.insert("currentMetrics".into(), Value::Array(current));
        }
        if let Some(c) = conditions {
            status.insert("conditions".into(), c);
        }
    }
    default_autoscaler(m, false);
}

fn taken_list(m: &mut Obj, key: &str) -> Vec<Value> {
    match m.shift_remove(key) {
        Some(Value::Array(a)) => a,
        _ => Vec::new(),
    }
}

fn cpu_metric(values: &str, utilisation: Value) -> Value {
    let mut value = json!({"averageUtilization": utilisation});
    if values == "target" {
        value["type"] = "Utilization".into();
    }
    json!({"type": "Resource", "resource": {"name": "cpu", values: value}})
}

const SOURCES: [&str; 5] = ["resource", "containerResource", "pods", "object", "external"];

/// Names of `averageUtilization`, `averageValue` and `value` in the old spelling of a source.
fn old_names(source: &str, values: &str) -> [&'static str; 3] {
    match (source, values) {
        ("object", "target") => ["", "averageValue", "targetValue"],
        ("object", _) => ["", "averageValue", "currentValue"],
        (_, "target") => ["targetAverageUtilization", "targetAverageValue", "targetValue"],
        _ => ["currentAverageUtilization", "currentAverageValue", "currentValue"],
    }
}

const NEW_NAMES: [&str; 3] = ["averageUtilization", "averageValue", "value"];

fn old_metric(mut metric: Value, values: &str) -> Value {
    for source in SOURCES {
        let Some(s) = metric.get_mut(source).and_then(Value::as_object_mut) else { continue };
        if let Some(Value::Object(v)) = s.shift_remove(values) {
            for (new, old) in NEW_NAMES.into_iter().zip(old_names(source, values)) {
                if let Some(x) = v.get(new).filter(|_| !old.is_empty()) {
                    s.insert(old.to_owned(), x.clone());
                }
            }
        }
        if let Some(Value::Object(mut id)) = s.shift_remove("metric") {
            rename(&mut id, "name", "metricName");
            if source == "external" {
                rename(&mut id, "selector", "metricSelector");
            }
            s.extend(id);
        }
        rename(s, "describedObject", "target");
    }
    metric
}

fn new_metric(mut metric: Value, values: &str) -> Value {
    for source in SOURCES {
        let Some(s) = metric.get_mut(source).and_then(Value::as_object_mut) else { continue };
        if source == "object" {
            rename(s, "target", "describedObject");
        }
        let mut id = Map::new();
        for (old, new) in [("metricName", "name"), ("selector", "selector"), ("metricSelector", "selector")] {
            if let Some(v) = s.shift_remove(old) {
                id.insert(new.to_owned(), v);
            }
        }
        if !id.is_empty() {
            s.insert("metric".into(), Value::Object(id));
        }
        let mut v = Map::new();
        for (new, old) in NEW_NAMES.into_iter().zip(old_names(source, values)) {
            if let Some(x) = s.shift_remove(old) {
                v.insert(new.to_owned(), x);
            }
        }
        if values == "target" {
            // An average takes precedence where the old spelling allowed both.
            let ty = match () {
                () if v.contains_key("averageUtilization") => "Utilization",
                () if v.contains_key("averageValue") => "AverageValue",
                () => "Value",
            };
            v.insert("type".into(), ty.into());
        }
        s.insert(values.to_owned(), Value::Object(v));
    }
    metric
}

/// The behaviour annotation has upper-case keys, an accident of which Go type was serialised.
fn recase(v: Value, case: fn(char) -> char) -> Value {
    match v {
        Value::Object(m) => Value::Object(
            m.into_iter()
                .map(|(k, v)| {
                    let mut chars = k.chars();
                    let k = chars.next().map_or_else(String::new, |c| case(c).to_string() + chars.as_str());
                    (k, recase(v, case))
                })
                .collect(),
        ),
        Value::Array(a) => Value::Array(a.into_iter().map(|v| recase(v, case)).collect()),
        other => other,
    }
}

fn upper(c: char) -> char {
    c.to_ascii_uppercase()
}

fn lower(c: char) -> char {
    c.to_ascii_lowercase()
}
