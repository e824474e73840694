//! Rules about other objects: who may, how many, what is admitted, in which order.

use super::{quantities, rule_scopes};
use crate::json::{Obj, absent, child, descend, each, ensure, fill, fill_zero, text, zero};
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn binding(m: &mut Obj) {
    if let Some(r) = child(m, "roleRef") {
        fill_zero(r, "apiGroup", RBAC);
    }
    each(m, "subjects", |s| {
        if matches!(text(s, "kind"), "User" | "Group") {
            fill_zero(s, "apiGroup", RBAC);
        }
    });
}

pub(super) fn webhooks(m: &mut Obj, mutating: bool) {
    each(m, "webhooks", |w| {
        if let Some(s) = descend(w, &["clientConfig", "service"]) {
            fill(s, "port", 443);
        }
        fill(w, "failurePolicy", "Fail");
        fill(w, "matchPolicy", "Equivalent");
        ensure(w, "namespaceSelector");
        ensure(w, "objectSelector");
        fill(w, "timeoutSeconds", 10);
        if mutating {
            fill(w, "reinvocationPolicy", "Never");
        }
        rule_scopes(w, "rules");
    });
}

pub(super) fn admission_policy(m: &mut Obj) {
    let Some(spec) = ensure(m, "spec") else { return };
    fill(spec, "failurePolicy", "Fail");
    if let Some(c) = child(spec, "matchConstraints") {
        match_resources(c);
    }
}

pub(super) fn policy_binding(m: &mut Obj) {
    if let Some(c) = descend(m, &["spec", "matchResources"]) {
        match_resources(c);
    }
}

fn match_resources(c: &mut Obj) {
    fill(c, "matchPolicy", "Equivalent");
    ensure(c, "namespaceSelector");
    ensure(c, "objectSelector");
    rule_scopes(c, "resourceRules");
    rule_scopes(c, "excludeResourceRules");
}

pub(crate) fn autoscaler(m: &mut Obj, v1: bool) {
    let Some(spec) = ensure(m, "spec") else { return };
    fill(spec, "minReplicas", 1);
    if v1 {
        return;
    }
    fill_zero(
        spec,
        "metrics",
        json!([{"type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]),
    );
    each(spec, "metrics", |metric| {
        for key in ["resource", "containerResource", "pods", "object", "external"] {
            if let Some(t) = child(metric, key).and_then(|s| child(s, "target")) {
                for q in ["value", "averageValue"] {
                    if let Some(v) = t.get_mut(q) {
                        super::quantity(v);
                    }
                }
            }
        }
    });
    let Some(behavior) = child(spec, "behavior") else { return };
    if let Some(up) = ensure(behavior, "scaleUp") {
        fill(up, "stabilizationWindowSeconds", 0);
        fill(up, "selectPolicy", "Max");
        fill_zero(
            up,
            "policies",
            json!([{"type": "Pods", "value": 4, "periodSeconds": 15},
                   {"type": "Percent", "value": 100, "periodSeconds": 15}]),
        );
    }
    if let Some(down) = ensure(behavior, "scaleDown") {
        fill(down, "selectPolicy", "Max");
        fill_zero(down, "policies", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
    }
}

/// Limits imply defaults: a maximum is also the default limit, which is also the default request.
pub(super) fn limit_range(m: &mut Obj) {
    let Some(spec) = ensure(m, "spec") else { return };
    each(spec, "limits", |item| {
        for key in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            quantities(item, key);
        }
        if text(item, "type") != "Container" {
            return;
        }
        inherit(item, "max", "default");
        inherit(item, "default", "defaultRequest");
        inherit(item, "min", "defaultRequest");
    });
}

fn inherit(item: &mut Obj, from: &str, to: &str) {
    let Some(Value::Object(source)) = item.get(from) else { return };
    let missing: Vec<(String, Value)> = source
        .iter()
        .filter(|(k, _)| item.get(to).and_then(|t| t.get(k.as_str())).is_none())
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    if !missing.is_empty()
        && let Some(target) = ensure(item, to)
    {
        target.extend(missing);
    }
}

pub(super) fn resource_quota(m: &mut Obj) {
    if let Some(spec) = ensure(m, "spec") {
        quantities(spec, "hard");
    }
    if let Some(status) = child(m, "status") {
        quantities(status, "hard");
        quantities(status, "used");
    }
}

pub(super) fn flow_schema(m: &mut Obj) {
    if let Some(spec) = ensure(m, "spec") {
        fill_zero(spec, "matchingPrecedence", 1000);
    }
}

pub(super) fn priority_level(m: &mut Obj) {
    let Some(spec) = ensure(m, "spec") else { return };
    match text(spec, "type") {
        "Exempt" => {
            if let Some(e) = ensure(spec, "exempt") {
                fill(e, "nominalConcurrencyShares", 0);
                fill(e, "lendablePercent", 0);
            }
        }
        _ => {
            let Some(l) = child(spec, "limited") else { return };
            fill(l, "nominalConcurrencyShares", 30);
            fill(l, "lendablePercent", 0);
            if let Some(q) = descend(l, &["limitResponse", "queuing"]) {
                fill_zero(q, "queues", 64);
                fill_zero(q, "handSize", 8);
                fill_zero(q, "queueLengthLimit", 50);
            }
        }
    }
}

pub(super) fn resource_claim(m: &mut Obj) {
    let Some(devices) = descend(m, &["spec", "devices"]) else { return };
    let count = |r: &mut Obj| {
        if zero(r, "allocationMode") {
            r.insert("allocationMode".into(), "ExactCount".into());
        }
        if text(r, "allocationMode") == "ExactCount" && (absent(r, "count") || zero(r, "count")) {
            r.insert("count".into(), 1.into());
        }
    };
    each(devices, "requests", |r| {
        if let Some(e) = child(r, "exactly") {
            count(e);
        }
        each(r, "firstAvailable", count);
    });
}
