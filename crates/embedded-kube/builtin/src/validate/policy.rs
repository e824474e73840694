//! Numbers that bound others: quotas, budgets, priorities, scales, leases.

use super::path::{Errors, Path};
use super::{int_or_percent, quantities, quantity, selector, spec};
use crate::json::{bool_of, int_of, is_zero, list, str_of};
use ek_meta::names;
use serde_json::{Value, json};

pub(super) fn limit_range(e: &mut Errors, new: &Value) {
    let sp = Path::ROOT.child("spec");
    let (p, all) = (sp.child("limits"), list(spec(new), "limits"));
    for (i, l) in all.iter().enumerate() {
        let p = p.index(i);
        let ty = e.need(&p, l, "type");
        if !ty.is_empty() && all.iter().take(i).any(|o| str_of(o, "type") == ty) {
            e.duplicate(&p.child("type"), ty);
        }
        for key in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            quantities(e, &p, l, key);
        }
        if ty == "Pod" {
            for key in ["default", "defaultRequest"] {
                if l.get(key).is_some_and(|v| !is_zero(v)) {
                    e.forbidden(&p.child(key), "may not be specified when `type` is 'Pod'");
                }
            }
        }
        for (low, high, what) in [
            ("min", "max", "min value {a} is greater than max value {b}"),
            ("min", "defaultRequest", "min value {a} is greater than default request value {b}"),
            ("min", "default", "min value {a} is greater than default value {b}"),
            ("defaultRequest", "max", "default request value {a} is greater than max value {b}"),
            (
                "defaultRequest",
                "default",
                "default request value {a} is greater than default limit value {b}",
            ),
            ("default", "max", "default value {a} is greater than max value {b}"),
        ] {
            let Some(Value::Object(m)) = l.get(low) else { continue };
            for (name, v) in m {
                let Some(bound) = l.get(high).and_then(|h| h.get(name.as_str())) else { continue };
                if let (Some(a), Some(b)) = (quantity(v), quantity(bound))
                    && a > b
                {
                    let text = what.replace("{a}", &a.to_string()).replace("{b}", &b.to_string());
                    // Named after the default, and with its value or the other's, as upstream does.
                    let (at, shown) = match (low, high) {
                        ("min", "defaultRequest") => (high, bound),
                        ("min", "default") => (high, v),
                        _ => (low, v),
                    };
                    e.invalid(&p.child(at).key(name), shown.clone(), text);
                }
            }
        }
    }
}

/// Objects that can be counted by name.
const COUNTED: [&str; 7] = [
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
];

fn is_quota_resource(name: &str) -> bool {
    let plain = |n: &str| matches!(n, "cpu" | "memory" | "ephemeral-storage");
    plain(name)
        || COUNTED.contains(&name)
        || matches!(name, "requests.storage" | "services.nodeports" | "services.loadbalancers")
        || ["requests.", "limits."].iter().any(|f| name.strip_prefix(f).is_some_and(plain))
        || ["hugepages-", "requests.hugepages-"].iter().any(|f| name.starts_with(f))
}

/// Names without a domain that mean something somewhere.
pub(super) fn is_standard_resource(name: &str) -> bool {
    is_quota_resource(name) || name == "storage"
}

pub(super) fn resource_quota(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    quantities(e, &p, s, "hard");
    if let Some(Value::Object(hard)) = s.get("hard") {
        let p = p.child("hard");
        for k in hard.keys() {
            e.named(&p.key(k), k, names::qualified_name);
            if !k.contains('/') && !is_quota_resource(k) {
                e.invalid(&p.key(k), k.as_str(), "must be a standard resource for quota");
            }
        }
    }
    if let Some(old) = old {
        e.fixed(&p, s, spec(old), "scopes");
    }
}

pub(super) fn autoscaler(e: &mut Errors, new: &Value) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    let (min, max) = (int_of(s, "minReplicas"), int_of(s, "maxReplicas").unwrap_or_default());
    if let Some(n) = min.filter(|n| *n < 1) {
        e.invalid(&p.child("minReplicas"), n, "must be greater than or equal to 1");
    }
    if max < 1 {
        e.invalid(&p.child("maxReplicas"), max, "must be greater than 0");
    }
    if min.is_some_and(|m| max < m) {
        e.invalid(&p.child("maxReplicas"), max, "must be greater than or equal to `minReplicas`");
    }
    let (rp, r) = (p.child("scaleTargetRef"), s.get("scaleTargetRef").unwrap_or(&Value::Null));
    let version = str_of(r, "apiVersion");
    if version.matches('/').count() > 1 {
        e.invalid(&rp.child("apiVersion"), version, format!("unexpected GroupVersion string: {version}"));
    } else if !version.contains('/') && str_of(r, "kind") != "ReplicationController" {
        e.invalid(&rp.child("apiVersion"), version, "apiVersion must specify API group");
    }
    for key in ["kind", "name"] {
        let v = e.need(&rp, r, key);
        e.named(&rp.child(key), v, names::path_segment);
    }
    let mp = p.child("metrics");
    for (i, m) in list(s, "metrics").iter().enumerate() {
        let p = mp.index(i);
        let ty = e.need(&p, m, "type");
        let types = ["ContainerResource", "External", "Object", "Pods", "Resource"];
        if !ty.is_empty() && !types.contains(&ty) {
            e.not_supported(&p.child("type"), ty, &types);
        }
        if let Some(r) = m.get("resource").filter(|r| r.is_object()) {
            let p = p.child("resource");
            e.need(&p, r, "name");
            let t = r.get("target").unwrap_or(&Value::Null);
            let tp = p.child("target");
            if let Some(n) = int_of(t, "averageUtilization").filter(|n| *n < 1) {
                e.invalid(&tp.child("averageUtilization"), n, "must be greater than 0");
            }
        }
    }
}

pub(super) fn disruption_budget(e: &mut Errors, new: &Value) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    let set = |k: &str| s.get(k).is_some_and(|v| !v.is_null());
    if set("minAvailable") && set("maxUnavailable") {
        let get = |k: &str| s.get(k).cloned().unwrap_or_default();
        let shown = json!({"MinAvailable": get("minAvailable"), "Selector": get("selector"),
            "MaxUnavailable": get("maxUnavailable"),
            "UnhealthyPodEvictionPolicy": get("unhealthyPodEvictionPolicy")});
        e.invalid(&p, shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for key in ["minAvailable", "maxUnavailable"] {
        int_or_percent(e, &p.child(key), s.get(key));
    }
    e.one_of(
        &p.child("unhealthyPodEvictionPolicy"),
        s.get("unhealthyPodEvictionPolicy"),
        &["AlwaysAllow", "IfHealthyBudget"],
    );
    if let Some(sel) = s.get("selector") {
        selector(e, &p.child("selector"), sel);
    }
}

/// The two classes a cluster starts with, which alone may have these names and values.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
const HIGHEST: i64 = 1_000_000_000;

pub(super) fn priority_class(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let (name, value) = (ek_meta::object::name(new), int_of(new, "value").unwrap_or_default());
    if name.starts_with("system-") {
        if !SYSTEM_CLASSES.contains(&(name, value)) || bool_of(new, "globalDefault") {
            let meta = Path::ROOT.child("metadata");
            e.forbidden(
                &meta.child("name"),
                &format!("priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"),
            );
        }
    } else if value > HIGHEST {
        e.forbidden(
            &Path::ROOT.child("value"),
            &format!("maximum allowed value of a user defined priority is {HIGHEST}"),
        );
    }
    e.one_of(
        &Path::ROOT.child("preemptionPolicy"),
        new.get("preemptionPolicy"),
        &["Never", "PreemptLowerPriority"],
    );
    if let Some(old) = old {
        if int_of(old, "value").unwrap_or_default() != value {
            e.forbidden(&Path::ROOT.child("value"), "may not be changed in an update.");
        }
        e.fixed(&Path::ROOT, new, old, "preemptionPolicy");
    }
}

pub(super) fn lease(e: &mut Errors, new: &Value) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    if let Some(n) = int_of(s, "leaseDurationSeconds").filter(|n| *n <= 0) {
        e.invalid(&p.child("leaseDurationSeconds"), n, "must be greater than 0");
    }
    e.not_negative(&p, s, &["leaseTransitions"]);
    if let Some("") = s.get("holderIdentity").and_then(Value::as_str)
        && s.get("strategy").is_some_and(|v| !is_zero(v))
    {
        e.invalid(&p.child("holderIdentity"), "", "must not be empty");
    }
}

pub(super) fn runtime_class(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let handler = str_of(new, "handler");
    e.named(&Path::ROOT.child("handler"), handler, names::dns_label);
    if let Some(old) = old {
        e.fixed(&Path::ROOT, new, old, "handler");
    }
}

pub(super) fn flow_schema(e: &mut Errors, new: &Value) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    match int_of(s, "matchingPrecedence") {
        Some(n) if n > 10000 => {
            e.invalid(&p.child("matchingPrecedence"), n, "must not be greater than 10000");
        }
        Some(n) if n < 1 => {
            e.invalid(&p.child("matchingPrecedence"), n, "must be a positive value");
        }
        _ => {}
    }
    let level = s.get("priorityLevelConfiguration").unwrap_or(&Value::Null);
    let lp = p.child("priorityLevelConfiguration");
    let name = str_of(level, "name");
    if name.is_empty() {
        e.required(&lp.child("name"), "must reference a priority level");
    } else {
        e.named(&lp.child("name"), name, names::dns_subdomain);
    }
    if let Some(d) = s.get("distinguisherMethod") {
        let dp = p.child("distinguisherMethod");
        let kinds = ["ByNamespace", "ByUser"];
        if d.is_object() && !kinds.contains(&str_of(d, "type")) {
            e.not_supported(&dp, str_of(d, "type"), &kinds);
        }
    }
    let rp = p.child("rules");
    for (i, r) in list(s, "rules").iter().enumerate() {
        let p = rp.index(i);
        if list(r, "subjects").is_empty() {
            e.required(&p.child("subjects"), "subjects must contain at least one value");
        }
        let sp = p.child("subjects");
        for (j, subject) in list(r, "subjects").iter().enumerate() {
            let at = sp.index(j);
            let kinds = ["Group", "ServiceAccount", "User"];
            if !kinds.contains(&str_of(subject, "kind")) {
                e.not_supported(&at.child("kind"), str_of(subject, "kind"), &kinds);
            }
        }
        let resources = p.child("resourceRules");
        for (j, rule) in list(r, "resourceRules").iter().enumerate() {
            let at = resources.index(j);
            for (key, why) in [
                ("verbs", "verbs must contain at least one value"),
                ("apiGroups", "resource rules must supply at least one api group"),
                ("resources", "resource rules must supply at least one resource"),
            ] {
                if list(rule, key).is_empty() {
                    e.required(&at.child(key), why);
                }
            }
            if list(rule, "namespaces").is_empty() && !bool_of(rule, "clusterScope") {
                let why = "resource rules that are not cluster scoped must supply at least one namespace";
                e.required(&at.child("namespaces"), why);
            }
        }
        if list(r, "resourceRules").is_empty() && list(r, "nonResourceRules").is_empty() {
            e.required(&p, "at least one of resourceRules and nonResourceRules has to be non-empty");
        }
    }
}

pub(super) fn priority_level(e: &mut Errors, new: &Value) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    let has = |k: &str| s.get(k).is_some_and(Value::is_object);
    match str_of(s, "type") {
        "Exempt" => {
            if has("limited") {
                e.forbidden(&p.child("limited"), "must be nil if the type is not Limited");
            }
        }
        "Limited" => {
            if has("exempt") {
                e.forbidden(&p.child("exempt"), "must be nil if the type is Limited");
            }
            let lp = p.child("limited");
            let Some(l) = s.get("limited").filter(|l| l.is_object()) else {
                e.required(&lp, "must not be empty when type is Limited");
                return;
            };
            e.not_negative(&lp, l, &["nominalConcurrencyShares"]);
            if let Some(n) = int_of(l, "lendablePercent").filter(|n| !(0..=100).contains(n)) {
                e.invalid(&lp.child("lendablePercent"), n, "must be between 0 and 100, inclusive");
            }
            let rp = lp.child("limitResponse");
            let response = l.get("limitResponse").unwrap_or(&Value::Null);
            match str_of(response, "type") {
                "Queue" if !response.get("queuing").is_some_and(Value::is_object) => {
                    e.required(
                        &rp.child("queuing"),
                        "must not be empty if limited.limitResponse.type is Limited",
                    );
                }
                "Reject" if response.get("queuing").is_some_and(Value::is_object) => {
                    e.forbidden(
                        &rp.child("queuing"),
                        "must be nil if limited.limitResponse.type is not Limited",
                    );
                }
                "Queue" | "Reject" => {}
                other => e.not_supported(&rp.child("type"), other, &["Queue", "Reject"]),
            }
        }
        other => e.not_supported(&p.child("type"), other, &["Exempt", "Limited"]),
    }
}

pub(super) fn api_service(e: &mut Errors, new: &Value) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    let (name, group, version) = (ek_meta::object::name(new), str_of(s, "group"), str_of(s, "version"));
    let expected = format!("{version}.{group}");
    if name != expected {
        let meta = Path::ROOT.child("metadata");
        e.invalid(
            &meta.child("name"),
            name,
            format!("must be `spec.version+\".\"+spec.group`: \"{expected}\""),
        );
    }
    if version.is_empty() {
        e.required(&p.child("version"), "");
    }
    for (key, most) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
        let n = int_of(s, key).unwrap_or_default();
        if !(1..=most).contains(&n) {
            e.invalid(&p.child(key), n, format!("must be positive and less than {most}"));
        }
    }
    match s.get("service").filter(|v| v.is_object()) {
        None => {
            if s.get("caBundle").is_some_and(|v| !is_zero(v)) {
                e.invalid(&p.child("caBundle"), "", "local APIServices may not have a caBundle");
            }
            if bool_of(s, "insecureSkipTLSVerify") {
                e.invalid(
                    &p.child("insecureSkipTLSVerify"),
                    true,
                    "local APIServices may not have insecureSkipTLSVerify",
                );
            }
        }
        Some(service) => {
            let sp = p.child("service");
            e.need(&sp, service, "namespace");
            e.need(&sp, service, "name");
            if bool_of(s, "insecureSkipTLSVerify") && s.get("caBundle").is_some_and(|v| !is_zero(v)) {
                e.invalid(&p.child("insecureSkipTLSVerify"), true, "may not be true if caBundle is present");
            }
        }
    }
}
