//! What the objects of a namespace use of a quota.

use crate::objects::{list, text};
use ek_meta::quantity::Quantity;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Sums by the names quotas use.
pub(super) type Usage = BTreeMap<String, Quantity>;

fn add(usage: &mut Usage, name: &str, q: Quantity) {
    let before = usage.get(name).copied().unwrap_or_else(|| Quantity::from_int(0));
    usage.insert(name.to_owned(), before + q);
}

fn one() -> Quantity {
    Quantity::from_int(1)
}

fn amount(v: &Value) -> Option<Quantity> {
    match v {
        Value::String(s) => s.parse().ok(),
        Value::Number(n) => n.as_i64().map(Quantity::from_int),
        _ => None,
    }
}

/// What one pod uses, named as quotas name it.
pub(super) fn pod(pod: &Value) -> Usage {
    let mut out = Usage::new();
    // What has ended uses nothing but its place among the counted.
    if matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
        return out;
    }
    add(&mut out, "pods", one());
    for kind in ["requests", "limits"] {
        let mut total = Usage::new();
        for c in list(pod, "/spec/containers") {
            sum(&mut total, c, kind, Quantity::add_to);
        }
        for c in list(pod, "/spec/initContainers") {
            let always = text(c, "/restartPolicy") == "Always";
            sum(&mut total, c, kind, if always { Quantity::add_to } else { Quantity::at_least });
        }
        for (name, v) in crate::objects::members(pod, "/spec/overhead") {
            if let Some(q) = amount(v).filter(|_| total.contains_key(name)) {
                add(&mut total, name, q);
            }
        }
        for (name, q) in total {
            add(&mut out, &format!("{kind}.{name}"), q);
            let plain = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
                || name.starts_with("hugepages-");
            if kind == "requests" && plain {
                add(&mut out, &name, q);
            }
        }
    }
    out
}

trait Combine {
    fn add_to(self, other: Self) -> Self;
    fn at_least(self, other: Self) -> Self;
}

impl Combine for Quantity {
    fn add_to(self, other: Quantity) -> Quantity {
        self + other
    }

    fn at_least(self, other: Quantity) -> Quantity {
        self.max(other)
    }
}

fn sum(total: &mut Usage, container: &Value, kind: &str, combine: fn(Quantity, Quantity) -> Quantity) {
    for (name, v) in crate::objects::members(container, &format!("/resources/{kind}")) {
        if let Some(q) = amount(v) {
            let before = total.get(name).copied().unwrap_or_else(|| Quantity::from_int(0));
            total.insert(name.clone(), combine(before, q));
        }
    }
}

pub(super) fn service(service: &Value) -> Usage {
    let mut out = Usage::from([("services".to_owned(), one())]);
    let ports = list(service, "/spec/ports").len() as i64;
    let kind = text(service, "/spec/type");
    if kind == "LoadBalancer" {
        add(&mut out, "services.loadbalancers", one());
    }
    let allocates = service.pointer("/spec/allocateLoadBalancerNodePorts") != Some(&Value::Bool(false));
    if kind == "NodePort" || (kind == "LoadBalancer" && allocates) {
        add(&mut out, "services.nodeports", Quantity::from_int(ports));
    }
    out
}

pub(super) fn claim(claim: &Value) -> Usage {
    let mut out = Usage::from([("persistentvolumeclaims".to_owned(), one())]);
    let storage = claim.pointer("/spec/resources/requests/storage").and_then(amount);
    let class = text(claim, "/spec/storageClassName");
    if !class.is_empty() {
        add(&mut out, &format!("{class}.storageclass.storage.k8s.io/persistentvolumeclaims"), one());
    }
    if let Some(q) = storage {
        add(&mut out, "requests.storage", q);
        if !class.is_empty() {
            add(&mut out, &format!("{class}.storageclass.storage.k8s.io/requests.storage"), q);
        }
    }
    out
}

/// Whether a quota's scopes take a pod in.
pub(super) fn in_scope(quota: &Value, pod: &Value) -> bool {
    let simple = list(quota, "/spec/scopes").iter().filter_map(Value::as_str);
    let simple_ok = simple.into_iter().all(|s| scope(pod, s, "Exists", &[]));
    let selected = list(quota, "/spec/scopeSelector/matchExpressions");
    simple_ok
        && selected
            .iter()
            .all(|e| scope(pod, text(e, "/scopeName"), text(e, "/operator"), list(e, "/values")))
}

fn scope(pod: &Value, name: &str, operator: &str, values: &[Value]) -> bool {
    let limited = pod.pointer("/spec/activeDeadlineSeconds").is_some_and(|v| !v.is_null());
    let best_effort = text(pod, "/status/qosClass") == "BestEffort";
    match name {
        "Terminating" => limited,
        "NotTerminating" => !limited,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        "PriorityClass" => {
            let class = text(pod, "/spec/priorityClassName");
            let listed = values.iter().any(|v| v == class);
            match operator {
                "In" => listed,
                "NotIn" => !listed,
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        _ => true,
    }
}

/// Whether a quota has scopes, and so counts nothing but pods.
pub(super) fn has_scopes(quota: &Value) -> bool {
    !list(quota, "/spec/scopes").is_empty() || !list(quota, "/spec/scopeSelector/matchExpressions").is_empty()
}

/// What is used of each thing the quota limits.
pub(super) fn used(quota: &Value, usage: &Usage) -> Map<String, Value> {
    crate::objects::members(quota, "/spec/hard")
        .map(|(name, _)| {
            let q = usage.get(name).copied().unwrap_or_else(|| Quantity::from_int(0));
            (name.clone(), Value::String(q.to_string()))
        })
        .collect()
}

/// Adds up.
pub(super) fn total(all: impl IntoIterator<Item = Usage>) -> Usage {
    let mut out = Usage::new();
    for usage in all {
        for (name, q) in usage {
            add(&mut out, &name, q);
        }
    }
    out
}
