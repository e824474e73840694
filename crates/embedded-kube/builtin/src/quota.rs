//! What an object uses of a ResourceQuota, and which quotas it counts against.
//!
//! Admission asks before an object is stored, the quota controller afterwards; both must come to the same sum.

use crate::json::{list, str_of};
use ek_meta::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;

pub type Usage = BTreeMap<String, Quantity>;

fn one() -> Quantity {
    Quantity::from_int(1)
}

fn quantity(v: &Value) -> Option<Quantity> {
    match v {
        Value::String(s) => s.parse().ok(),
        Value::Number(n) => n.to_string().parse().ok(),
        _ => None,
    }
}

pub fn add(to: &mut Usage, name: &str, amount: Quantity) {
    let sum = to.remove(name).map_or_else(|| amount, |have| have + amount);
    to.insert(name.to_owned(), sum);
}

/// Whether a pod has ended: then it uses nothing any more.
fn ended(pod: &Value) -> bool {
    matches!(str_of(&pod["status"], "phase"), "Succeeded" | "Failed")
}

/// What an object of this resource uses, by the names quotas know it by.
pub fn usage(group: &str, plural: &str, obj: &Value) -> Usage {
    let mut used = Usage::new();
    let counted =
        if group.is_empty() { format!("count/{plural}") } else { format!("count/{plural}.{group}") };
    match (group, plural) {
        ("", "pods") => {
            add(&mut used, &counted, one());
            if ended(obj) {
                return used;
            }
            add(&mut used, "pods", one());
            pod_compute(&obj["spec"], &mut used);
            return used;
        }
        ("", "services") => {
            add(&mut used, "services", one());
            let spec = &obj["spec"];
            let ports = i64::try_from(list(spec, "ports").len()).unwrap_or(0);
            match str_of(spec, "type") {
                "NodePort" => add(&mut used, "services.nodeports", Quantity::from_int(ports)),
                "LoadBalancer" => {
                    add(&mut used, "services.loadbalancers", one());
                    if spec["allocateLoadBalancerNodePorts"] != false {
                        add(&mut used, "services.nodeports", Quantity::from_int(ports));
                    }
                }
                _ => {}
            }
        }
        ("", "persistentvolumeclaims") => {
            let class = str_of(&obj["spec"], "storageClassName");
            let of_class = |what: &str| format!("{class}.storageclass.storage.k8s.io/{what}");
            add(&mut used, "persistentvolumeclaims", one());
            let storage = quantity(&obj["spec"]["resources"]["requests"]["storage"]);
            if !class.is_empty() {
                add(&mut used, &of_class("persistentvolumeclaims"), one());
            }
            if let Some(q) = storage {
                if !class.is_empty() {
                    add(&mut used, &of_class("requests.storage"), q);
                }
                add(&mut used, "requests.storage", q);
            }
        }
        ("", "configmaps" | "secrets" | "resourcequotas" | "replicationcontrollers") => {
            add(&mut used, plural, one());
        }
        _ => {}
    }
    add(&mut used, &counted, one());
    used
}

/// Requests and limits of a pod: containers together, or the largest start-up step if that is more.
fn pod_compute(spec: &Value, used: &mut Usage) {
    for kind in ["requests", "limits"] {
        let of = |c: &Value| -> Usage {
            let all = c["resources"][kind].as_object().into_iter().flatten();
            all.filter_map(|(k, v)| Some((k.clone(), quantity(v)?))).collect()
        };
        let mut running = Usage::new();
        for c in list(spec, "containers") {
            for (k, q) in of(c) {
                add(&mut running, &k, q);
            }
        }
        let (mut sidecars, mut peak) = (Usage::new(), Usage::new());
        for c in list(spec, "initContainers") {
            let stays = str_of(c, "restartPolicy") == "Always";
            for (k, q) in of(c) {
                let mut step = sidecars.get(&k).cloned().map_or_else(|| q, |s| s + q);
                if stays {
                    add(&mut sidecars, &k, q);
                    add(&mut running, &k, q);
                    step = sidecars[&k];
                }
                let most = peak.entry(k).or_insert_with(|| step);
                if *most < step {
                    *most = step;
                }
            }
        }
        for (k, p) in peak {
            let most = running.entry(k).or_insert_with(|| p);
            if *most < p {
                *most = p;
            }
        }
        for (k, v) in spec["overhead"].as_object().into_iter().flatten() {
            if let (Some(q), true) = (quantity(v), running.contains_key(k)) {
                add(&mut running, k, q);
            }
        }
        for (k, q) in running {
            let plain = kind == "requests" && matches!(k.as_str(), "cpu" | "memory" | "ephemeral-storage");
            if plain {
                add(used, &k, q);
            }
            add(used, &format!("{kind}.{k}"), q);
        }
    }
}

/// Whether an object counts against a quota with these scopes.
pub fn in_scope(spec: &Value, group: &str, plural: &str, obj: &Value) -> bool {
    let pod = group.is_empty() && plural == "pods";
    let scopes = list(spec, "scopes").iter().filter_map(Value::as_str).map(|s| (s, "Exists", Vec::new()));
    let selected = list(&spec["scopeSelector"], "matchExpressions").iter().map(|e| {
        let values = list(e, "values").iter().filter_map(Value::as_str).collect();
        (str_of(e, "scopeName"), str_of(e, "operator"), values)
    });
    scopes
        .chain(selected)
        .all(|(scope, operator, values)| pod && pod_in(scope, operator, &values, &obj["spec"]))
}

fn pod_in(scope: &str, operator: &str, values: &[&str], spec: &Value) -> bool {
    let terminating = spec["activeDeadlineSeconds"].as_i64().is_some_and(|s| s >= 0);
    match scope {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => best_effort(spec),
        "NotBestEffort" => !best_effort(spec),
        "CrossNamespacePodAffinity" => crosses_namespaces(spec),
        "PriorityClass" => {
            let class = str_of(spec, "priorityClassName");
            match operator {
                "In" => values.contains(&class),
                "NotIn" => !values.contains(&class),
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        _ => false,
    }
}

fn best_effort(spec: &Value) -> bool {
    let all = list(spec, "containers").iter().chain(list(spec, "initContainers"));
    !all.flat_map(|c| ["requests", "limits"].map(|k| &c["resources"][k])).any(|r| {
        r.as_object().is_some_and(|m| {
            m.iter().any(|(k, v)| {
                matches!(k.as_str(), "cpu" | "memory") && quantity(v).is_some_and(|q| !q.is_zero())
            })
        })
    })
}

fn crosses_namespaces(spec: &Value) -> bool {
    let crosses = |t: &Value| !list(t, "namespaces").is_empty() || t["namespaceSelector"].is_object();
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let a = &spec["affinity"][kind];
        list(a, "requiredDuringSchedulingIgnoredDuringExecution").iter().any(crosses)
            || list(a, "preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .any(|p| crosses(&p["podAffinityTerm"]))
    })
}

/// What a pod must say of itself to be counted: `cpu for: a,b; memory for: c`, where it does not.
pub fn unspecified(hard: &Value, pod: &Value) -> Option<String> {
    let spec = &pod["spec"];
    let mut missing: Vec<String> = Vec::new();
    for name in hard.as_object().into_iter().flatten().map(|(k, _)| k.as_str()) {
        let (kind, resource) = match name {
            "cpu" | "memory" => ("requests", name),
            _ => match name.split_once('.') {
                Some((kind @ ("requests" | "limits"), r)) if matches!(r, "cpu" | "memory") => (kind, r),
                _ => continue,
            },
        };
        let silent: Vec<&str> = (list(spec, "containers").iter().chain(list(spec, "initContainers")))
            .filter(|c| quantity(&c["resources"][kind][resource]).is_none())
            .map(|c| str_of(c, "name"))
            .collect();
        if !silent.is_empty() {
            missing.push(format!("{name} for: {}", silent.join(",")));
        }
    }
    missing.sort();
    (!missing.is_empty()).then(|| missing.join("; "))
}

/// `hard` as quantities.
pub fn limits(hard: &Value) -> Usage {
    hard.as_object().into_iter().flatten().filter_map(|(k, v)| Some((k.clone(), quantity(v)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(u: &Usage) -> Vec<String> {
        u.iter().map(|(k, q)| format!("{k}={q}")).collect()
    }

    #[test]
    fn pods_use_what_runs_at_once() {
        let pod = json!({"spec": {
            "initContainers": [
                {"name": "big", "resources": {"requests": {"cpu": "2"}}},
                {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}],
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1"}}}]}});
        assert_eq!(
            shown(&usage("", "pods", &pod)),
            [
                "count/pods=1",
                "cpu=2",
                "limits.cpu=1",
                "memory=1Gi",
                "pods=1",
                "requests.cpu=2",
                "requests.memory=1Gi"
            ]
        );
        let mut over = pod;
        over["status"] = json!({"phase": "Succeeded"});
        assert_eq!(shown(&usage("", "pods", &over)), ["count/pods=1"]);
    }

    #[test]
    fn scopes_choose_pods() {
        let quota = json!({"scopes": ["BestEffort", "NotTerminating"]});
        let pod = json!({"spec": {"containers": [{"name": "a"}]}});
        assert!(in_scope(&quota, "", "pods", &pod));
        let busy = json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": 1}}}]}});
        assert!(!in_scope(&quota, "", "pods", &busy));
        let short = json!({"spec": {"activeDeadlineSeconds": 5, "containers": [{"name": "a"}]}});
        assert!(!in_scope(&quota, "", "pods", &short));
        assert!(!in_scope(&quota, "", "secrets", &json!({})));
        let classes = json!({"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["gold"]}]}});
        let gold = json!({"spec": {"priorityClassName": "gold", "containers": []}});
        assert!(in_scope(&classes, "", "pods", &gold) && !in_scope(&classes, "", "pods", &pod));
    }

    #[test]
    fn services_and_claims() {
        let s = json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 1}, {"port": 2}]}});
        assert_eq!(
            shown(&usage("", "services", &s)),
            ["count/services=1", "services=1", "services.loadbalancers=1", "services.nodeports=2"]
        );
        assert_eq!(shown(&usage("apps", "deployments", &json!({}))), ["count/deployments.apps=1"]);
        let hard = json!({"limits.cpu": "1", "requests.memory": "1", "pods": "1"});
        let pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": 1}}}]}});
        assert_eq!(unspecified(&hard, &pod).as_deref(), Some("limits.cpu for: a; requests.memory for: a,b"));
    }
}
