//! Services and what routes to and around them.

use crate::json::{Obj, descend, each, ensure, fill, fill_zero, is_zero, text, zero};
use serde_json::json;

pub(super) fn service(m: &mut Obj) {
    let Some(spec) = ensure(m, "spec") else { return };
    fill_zero(spec, "sessionAffinity", "None");
    fill_zero(spec, "type", "ClusterIP");
    if text(spec, "sessionAffinity") == "ClientIP" {
        if let Some(c) = ensure(spec, "sessionAffinityConfig").and_then(|c| ensure(c, "clientIP")) {
            fill(c, "timeoutSeconds", 10800);
        }
    } else {
        spec.shift_remove("sessionAffinityConfig");
    }
    each(spec, "ports", |p| {
        fill_zero(p, "protocol", "TCP");
        if zero(p, "targetPort")
            && let Some(port) = p.get("port").cloned()
        {
            p.insert("targetPort".into(), port);
        }
    });
    let (outside, inside) = match text(spec, "type") {
        "NodePort" => (true, true),
        "LoadBalancer" => {
            fill(spec, "allocateLoadBalancerNodePorts", true);
            (true, true)
        }
        "ClusterIP" => (!zero(spec, "externalIPs"), true),
        _ => (false, false),
    };
    if outside {
        fill_zero(spec, "externalTrafficPolicy", "Cluster");
    }
    if inside {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
}

pub(super) fn endpoints(m: &mut Obj) {
    each(m, "subsets", |s| each(s, "ports", |p| fill_zero(p, "protocol", "TCP")));
}

pub(super) fn endpoint_slice(m: &mut Obj) {
    each(m, "ports", |p| {
        fill(p, "name", "");
        fill(p, "protocol", "TCP");
    });
    // Printed even when empty.
    fill(m, "endpoints", json!([]));
}

pub(super) fn network_policy(m: &mut Obj) {
    let Some(spec) = ensure(m, "spec") else { return };
    ensure(spec, "podSelector");
    for rules in ["ingress", "egress"] {
        each(spec, rules, |r| each(r, "ports", |p| fill(p, "protocol", "TCP")));
    }
    if zero(spec, "policyTypes") {
        let egress = spec.get("egress").is_some_and(|e| !is_zero(e));
        let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        spec.insert("policyTypes".into(), types);
    }
}

pub(super) fn ingress_class(m: &mut Obj) {
    if let Some(p) = descend(m, &["spec", "parameters"]) {
        fill(p, "scope", "Cluster");
    }
}
