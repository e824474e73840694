//! What follows from a size: a label, and annotations that the control plane and the pools read.
//!
//! Which annotations are there because of a size is itself an annotation, so that those that the next size does not have
//! are taken away, and those that a user wrote stay. A size that says something says it over a user.

use super::Size;
use apis::common::IntOrString;
use apis::names::{annotation, label};
use apis::scheduling::ResourceRequest;
use kube::core::ObjectMeta;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// `memory=8Gi,cpu=2`.
fn requests(r: &ResourceRequest) -> String {
    let part = |name: &str, q: &Option<IntOrString>| q.as_ref().map(|q| format!("{name}={q}"));
    let parts = [part("memory", &r.memory), part("cpu", &r.cpu)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(",")
}

/// The annotations of a size.
pub fn annotations(size: &Size) -> BTreeMap<String, String> {
    let e = &size.effects;
    let number = |n: &Option<i64>| n.map(|n| n.to_string());
    let single = [
        (annotation::KUBE_APISERVER_GOMEMLIMIT, e.kas_go_mem_limit.clone()),
        (annotation::CONTROL_PLANE_PRIORITY_CLASS, e.control_plane_priority_class_name.clone()),
        (annotation::ETCD_PRIORITY_CLASS, e.etcd_priority_class_name.clone()),
        (annotation::API_CRITICAL_PRIORITY_CLASS, e.api_critical_priority_class_name.clone()),
        (annotation::MACHINE_HEALTH_CHECK_TIMEOUT, e.machine_health_check_timeout.clone()),
        (annotation::KUBE_APISERVER_MAX_REQUESTS_INFLIGHT, number(&e.maximum_requests_inflight)),
        (
            annotation::KUBE_APISERVER_MAX_MUTATING_REQUESTS_INFLIGHT,
            number(&e.maximum_mutating_requests_inflight),
        ),
    ];
    let mut all: BTreeMap<String, String> = single
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value.filter(|v| !v.is_empty())?)))
        .collect();
    let prefix = annotation::RESOURCE_REQUEST_OVERRIDE_PREFIX;
    for r in e.resource_requests.iter().flatten() {
        let value = requests(r);
        if !value.is_empty() {
            all.insert(format!("{prefix}/{}.{}", r.deployment_name, r.container_name), value);
        }
    }
    all
}

/// What has to be changed of a cluster's metadata so that it has a size; nothing if it has.
pub fn change(meta: &ObjectMeta, size: &Size) -> Option<Value> {
    let has = |key: &str| meta.annotations.as_ref().and_then(|a| a.get(key));
    let wanted = annotations(size);
    let mut out: Map<String, Value> = Map::new();
    for (key, value) in &wanted {
        if has(key) != Some(value) {
            out.insert(key.clone(), json!(value));
        }
    }
    let list = wanted.keys().map(String::as_str).collect::<Vec<_>>().join(",");
    let before = has(annotation::SIZE_EFFECTS).map(String::as_str).unwrap_or_default();
    for gone in before.split(',').filter(|k| !k.is_empty() && !wanted.contains_key(*k)) {
        // What is listed is in our hands only as far as sizes reach: a list can be edited.
        if ours(gone) && has(gone).is_some() {
            out.insert(gone.to_owned(), Value::Null);
        }
    }
    if before != list {
        out.insert(annotation::SIZE_EFFECTS.into(), if list.is_empty() { Value::Null } else { json!(list) });
    }
    if has(annotation::CLUSTER_SCHEDULED).is_none_or(|v| v != "true") {
        out.insert(annotation::CLUSTER_SCHEDULED.into(), json!("true"));
    }
    let labelled = meta.labels.as_ref().and_then(|l| l.get(label::HOSTED_CLUSTER_SIZE)) == Some(&size.name);
    if labelled && out.is_empty() {
        return None;
    }
    let mut patch = json!({"metadata": {"labels": {label::HOSTED_CLUSTER_SIZE: size.name}}});
    if !out.is_empty() {
        patch["metadata"]["annotations"] = Value::Object(out);
    }
    Some(patch)
}

/// Whether an annotation is one that sizes set.
fn ours(key: &str) -> bool {
    let single = [
        annotation::KUBE_APISERVER_GOMEMLIMIT,
        annotation::CONTROL_PLANE_PRIORITY_CLASS,
        annotation::ETCD_PRIORITY_CLASS,
        annotation::API_CRITICAL_PRIORITY_CLASS,
        annotation::MACHINE_HEALTH_CHECK_TIMEOUT,
        annotation::KUBE_APISERVER_MAX_REQUESTS_INFLIGHT,
        annotation::KUBE_APISERVER_MAX_MUTATING_REQUESTS_INFLIGHT,
    ];
    single.contains(&key) || key.starts_with(annotation::RESOURCE_REQUEST_OVERRIDE_PREFIX)
}
