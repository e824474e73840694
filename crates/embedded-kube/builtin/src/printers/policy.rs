//! Rules about other objects.

use super::cells::{self, NONE, UNKNOWN, UNSET, count};
use super::{AGE, NAME, Table, int, text, wide};
use crate::json::{list, str_of};
use ek_meta::object::{at, str_at};
use serde_json::{Value, json};

pub(super) const AUTOSCALERS: Table = (
    &[
        NAME,
        text("Reference", "What is scaled."),
        text("Targets", "Metrics: current and wanted."),
        text("MinPods", "Fewest pods."),
        text("MaxPods", "Most pods."),
        text("Replicas", "Pods there are."),
        AGE,
    ],
    |obj, now| {
        let target = at(obj, &["spec", "scaleTargetRef"]).unwrap_or(&Value::Null);
        let min = at(obj, &["spec", "minReplicas"]).filter(|v| !v.is_null());
        vec![
            cells::name(obj),
            json!(format!("{}/{}", str_of(target, "kind"), str_of(target, "name"))),
            json!(metrics(obj)),
            json!(min.map_or_else(|| UNSET.to_owned(), cells::plain)),
            json!(count(obj, &["spec", "maxReplicas"])),
            json!(count(obj, &["status", "currentReplicas"])),
            cells::age(obj, now),
        ]
    },
);

fn metrics(obj: &Value) -> String {
    if str_of(obj, "apiVersion") == "autoscaling/v1" {
        let mut v2 = obj.clone();
        crate::convert::convert(&mut v2, "autoscaling/v2");
        return metrics_v2(&v2);
    }
    metrics_v2(obj)
}

fn metrics_v2(obj: &Value) -> String {
    let wanted = at(obj, &["spec"]).map_or(&[][..], |s| list(s, "metrics"));
    let current = at(obj, &["status"]).map_or(&[][..], |s| list(s, "currentMetrics"));
    if wanted.is_empty() {
        return NONE.to_owned();
    }
    let mut shown: Vec<String> =
        wanted.iter().take(2).enumerate().map(|(i, m)| metric(m, current.get(i))).collect();
    if wanted.len() > 2 {
        let more = format!("{} + {} more...", shown.join(", "), wanted.len() - 2);
        shown = vec![more];
    }
    shown.join(", ")
}

fn metric(m: &Value, current: Option<&Value>) -> String {
    let ty = str_of(m, "type");
    let key = match ty {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        _ => return "<unknown type>".to_owned(),
    };
    let source = m.get(key).unwrap_or(&Value::Null);
    let target = source.get("target").unwrap_or(&Value::Null);
    let (field, unit) = match str_of(target, "type") {
        "Utilization" => ("averageUtilization", "%"),
        "AverageValue" => ("averageValue", ""),
        "Value" => ("value", ""),
        _ if target.get("averageUtilization").is_some() => ("averageUtilization", "%"),
        _ if target.get("averageValue").is_some() => ("averageValue", ""),
        _ => ("value", ""),
    };
    let show = |v: Option<&Value>| match v.filter(|v| !v.is_null()) {
        Some(v) => format!("{}{unit}", cells::plain(v)),
        None => UNKNOWN.to_owned(),
    };
    let now = current.and_then(|c| c.get(key)).and_then(|c| c.get("current")).and_then(|c| c.get(field));
    let suffix = if matches!(key, "object" | "external") && field == "averageValue" { " (avg)" } else { "" };
    let prefix = match key {
        "resource" | "containerResource" => format!("{}: ", str_of(source, "name")),
        _ => String::new(),
    };
    format!("{prefix}{}/{}{suffix}", show(now), show(target.get(field)))
}

pub(super) const DISRUPTION_BUDGETS: Table = (
    &[
        NAME,
        text("Min Available", "The minimum number of pods that must be available."),
        text("Max Unavailable", "The maximum number of pods that may be unavailable."),
        int("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
        AGE,
    ],
    |obj, now| {
        let bound = |key: &str| {
            let v = at(obj, &["spec", key]).filter(|v| !v.is_null());
            json!(v.map_or_else(|| "N/A".to_owned(), cells::plain))
        };
        vec![
            cells::name(obj),
            bound("minAvailable"),
            bound("maxUnavailable"),
            json!(count(obj, &["status", "disruptionsAllowed"])),
            cells::age(obj, now),
        ]
    },
);

pub(super) const RESOURCE_QUOTAS: Table = (
    &[
        NAME,
        text("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
        text(
            "Limit",
            "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
        ),
        AGE,
    ],
    |obj, now| {
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        if let Some(Value::Object(hard)) = at(obj, &["status", "hard"]) {
            let mut names: Vec<&String> = hard.keys().collect();
            names.sort_unstable();
            for n in names {
                let used = at(obj, &["status", "used"]).and_then(|u| u.get(n.as_str()));
                let used = used.map_or_else(|| "0".to_owned(), cells::plain);
                let text = format!("{n}: {used}/{}", hard.get(n).map_or_else(String::new, cells::plain));
                if n.starts_with("limits.") { limits.push(text) } else { requests.push(text) }
            }
        }
        vec![cells::name(obj), json!(requests.join(", ")), json!(limits.join(", ")), cells::age(obj, now)]
    },
);

pub(super) const BINDINGS: Table = (
    &[
        NAME,
        text("Role", "The role that is bound."),
        AGE,
        wide("Users", "Users in the roleBinding"),
        wide("Groups", "Groups in the roleBinding"),
        wide("ServiceAccounts", "ServiceAccounts in the roleBinding"),
    ],
    |obj, now| {
        let role = obj.get("roleRef").unwrap_or(&Value::Null);
        let of = |kind: &str| {
            let all = list(obj, "subjects").iter().filter(|s| str_of(s, "kind") == kind);
            let names = all.map(|s| match kind {
                "ServiceAccount" => format!("{}/{}", str_of(s, "namespace"), str_of(s, "name")),
                _ => str_of(s, "name").to_owned(),
            });
            json!(names.collect::<Vec<_>>().join(", "))
        };
        vec![
            cells::name(obj),
            json!(format!("{}/{}", str_of(role, "kind"), str_of(role, "name"))),
            cells::age(obj, now),
            of("User"),
            of("Group"),
            of("ServiceAccount"),
        ]
    },
);

pub(super) const WEBHOOKS: Table = (
    &[
        NAME,
        int("Webhooks", "Webhooks indicates the number of webhooks registered in this configuration"),
        AGE,
    ],
    |obj, now| vec![cells::name(obj), json!(list(obj, "webhooks").len()), cells::age(obj, now)],
);

pub(super) const ADMISSION_POLICIES: Table = (
    &[
        NAME,
        int(
            "Validations",
            "Validations indicates the number of validation rules defined in this configuration",
        ),
        text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
        AGE,
    ],
    |obj, now| {
        let kind = at(obj, &["spec", "paramKind"]).filter(|p| p.is_object());
        vec![
            cells::name(obj),
            json!(at(obj, &["spec"]).map_or(0, |s| list(s, "validations").len())),
            json!(kind.map_or_else(
                || UNSET.to_owned(),
                |k| format!("{}/{}", str_of(k, "apiVersion"), str_of(k, "kind"))
            )),
            cells::age(obj, now),
        ]
    },
);

pub(super) const POLICY_BINDINGS: Table = (
    &[
        NAME,
        text("PolicyName", "The policy that is bound."),
        text("ParamRef", "The parameters it gets."),
        AGE,
    ],
    |obj, now| {
        let reference = at(obj, &["spec", "paramRef"]).filter(|p| p.is_object()).map_or_else(
            || UNSET.to_owned(),
            |p| match (str_of(p, "namespace"), str_of(p, "name")) {
                ("", "") => "*/*".to_owned(),
                ("", name) => format!("*/{name}"),
                (ns, "") => format!("{ns}/*"),
                (ns, name) => format!("{ns}/{name}"),
            },
        );
        vec![
            cells::name(obj),
            cells::string(obj, &["spec", "policyName"]),
            json!(reference),
            cells::age(obj, now),
        ]
    },
);

pub(super) const FLOW_SCHEMAS: Table = (
    &[
        NAME,
        text("PriorityLevel", "Where matching requests queue."),
        text("MatchingPrecedence", "Which schema wins: the lowest."),
        text("DistinguisherMethod", "What makes two requests of one flow."),
        AGE,
        text("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
    ],
    |obj, now| {
        let dangling = cells::condition(obj, "Dangling");
        vec![
            cells::name(obj),
            cells::string(obj, &["spec", "priorityLevelConfiguration", "name"]),
            json!(count(obj, &["spec", "matchingPrecedence"])),
            cells::string_or(obj, &["spec", "distinguisherMethod", "type"], NONE),
            cells::age(obj, now),
            json!(if dangling.is_empty() { "?" } else { dangling }),
        ]
    },
);

pub(super) const PRIORITY_LEVELS: Table = (
    &[
        NAME,
        text("Type", "Whether requests are limited or exempt."),
        text("NominalConcurrencyShares", "Share of the server's concurrency."),
        text("Queues", "Number of queues."),
        text("HandSize", "Queues a flow may use."),
        text("QueueLengthLimit", "Most requests in a queue."),
        AGE,
    ],
    |obj, now| {
        let number = |path: &[&str]| {
            let v = at(obj, path).filter(|v| !v.is_null());
            json!(v.map_or_else(|| NONE.to_owned(), cells::plain))
        };
        let queuing = |key: &str| number(&["spec", "limited", "limitResponse", "queuing", key]);
        let shares = if str_at(obj, &["spec", "type"]) == Some("Exempt") {
            json!(NONE)
        } else {
            number(&["spec", "limited", "nominalConcurrencyShares"])
        };
        vec![
            cells::name(obj),
            cells::string(obj, &["spec", "type"]),
            shares,
            queuing("queues"),
            queuing("handSize"),
            queuing("queueLengthLimit"),
            cells::age(obj, now),
        ]
    },
);

pub(super) const RESOURCE_CLAIMS: Table = (
    &[NAME, text("State", "A summary of the current state (allocated, pending, reserved, etc.)."), AGE],
    |obj, now| {
        let mut states = Vec::new();
        if cells::deleting(obj) {
            states.push("deleted");
        }
        let allocated = at(obj, &["status", "allocation"]).is_some_and(Value::is_object);
        if !allocated && !cells::deleting(obj) {
            states.push("pending");
        } else if allocated {
            states.push("allocated");
            let reserved = at(obj, &["status"]).is_some_and(|s| !list(s, "reservedFor").is_empty());
            if reserved {
                states.push("reserved");
            }
        }
        vec![cells::name(obj), json!(states.join(",")), cells::age(obj, now)]
    },
);

pub(super) const RESOURCE_SLICES: Table = (
    &[
        NAME,
        text("Node", "Where the devices are."),
        text("Driver", "Who offers them."),
        text("Pool", "Their pool."),
        AGE,
    ],
    |obj, now| {
        vec![
            cells::name(obj),
            cells::string_or(obj, &["spec", "nodeName"], UNSET),
            cells::string(obj, &["spec", "driver"]),
            cells::string(obj, &["spec", "pool", "name"]),
            cells::age(obj, now),
        ]
    },
);
