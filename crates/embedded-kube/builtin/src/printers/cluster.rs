//! Kinds of the cluster itself: nodes, namespaces, plain data, events.

use super::cells::{self, NONE, UNKNOWN, count};
use super::{AGE, CREATED_AT, NAME, Table, col, int, text, wide};
use crate::json::{bool_of, int_of, list, str_of};
use ek_meta::object::{at, str_at};
use ek_meta::time::human_duration;
use jiff::Timestamp;
use serde_json::{Value, json};

fn size(obj: &Value, key: &str) -> usize {
    match obj.get(key) {
        Some(Value::Object(m)) => m.len(),
        Some(Value::Array(a)) => a.len(),
        _ => 0,
    }
}

pub(super) const NAME_AND_AGE: Table =
    (&[NAME, AGE], |obj, now| vec![cells::name(obj), cells::age(obj, now)]);

pub(super) const NAME_AND_CREATED: Table = (&[NAME, CREATED_AT], |obj, _| {
    vec![cells::name(obj), cells::string(obj, &["metadata", "creationTimestamp"])]
});

pub(super) const NODES: Table = (
    &[
        NAME,
        text("Status", "The status of the node"),
        text("Roles", "The roles of the node"),
        AGE,
        text("Version", "Version of the kubelet."),
        wide("Internal-IP", "Address inside the cluster's network."),
        wide("External-IP", "Address outside the cluster's network."),
        wide("OS-Image", "Operating system."),
        wide("Kernel-Version", "Version of the kernel."),
        wide("Container-Runtime", "What runs the containers."),
    ],
    |obj, now| {
        let mut status = match cells::condition(obj, "Ready") {
            "True" => "Ready",
            "" => "Unknown",
            _ => "NotReady",
        }
        .to_owned();
        if at(obj, &["spec"]).is_some_and(|s| bool_of(s, "unschedulable")) {
            status.push_str(",SchedulingDisabled");
        }
        let address = |ty: &str| {
            let all = at(obj, &["status"]).map_or(&[][..], |s| list(s, "addresses"));
            json!(all.iter().find(|a| str_of(a, "type") == ty).map_or(NONE, |a| str_of(a, "address")))
        };
        let info = |key: &str| cells::string_or(obj, &["status", "nodeInfo", key], UNKNOWN);
        vec![
            cells::name(obj),
            json!(status),
            json!(roles(obj)),
            cells::age(obj, now),
            cells::string(obj, &["status", "nodeInfo", "kubeletVersion"]),
            address("InternalIP"),
            address("ExternalIP"),
            info("osImage"),
            info("kernelVersion"),
            info("containerRuntimeVersion"),
        ]
    },
);

fn roles(node: &Value) -> String {
    let Some(Value::Object(labels)) = at(node, &["metadata", "labels"]) else { return NONE.to_owned() };
    let mut roles: Vec<&str> = labels
        .iter()
        .filter_map(|(k, v)| match k.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if k == "kubernetes.io/role" => v.as_str(),
            None => None,
        })
        .filter(|r| !r.is_empty())
        .collect();
    if roles.is_empty() {
        return NONE.to_owned();
    }
    roles.sort_unstable();
    roles.dedup();
    roles.join(",")
}

pub(super) const NAMESPACES: Table =
    (&[NAME, text("Status", "The status of the namespace"), AGE], |obj, now| {
        vec![cells::name(obj), cells::string(obj, &["status", "phase"]), cells::age(obj, now)]
    });

pub(super) const CONFIG_MAPS: Table = (&[NAME, text("Data", "Number of entries."), AGE], |obj, now| {
    vec![cells::name(obj), json!(size(obj, "data") + size(obj, "binaryData")), cells::age(obj, now)]
});

pub(super) const SECRETS: Table = (
    &[NAME, text("Type", "What the secret is for."), text("Data", "Number of entries."), AGE],
    |obj, now| {
        vec![cells::name(obj), cells::string(obj, &["type"]), json!(size(obj, "data")), cells::age(obj, now)]
    },
);

pub(super) const SERVICE_ACCOUNTS: Table =
    (&[NAME, text("Secrets", "Number of secrets pods may mount."), AGE], |obj, now| {
        vec![cells::name(obj), json!(size(obj, "secrets")), cells::age(obj, now)]
    });

pub(super) const EVENTS: Table = (
    &[
        text("Last Seen", "Time since it last happened."),
        text("Type", "Normal or Warning."),
        text("Reason", "Why, in one word."),
        text("Object", "What it is about."),
        wide("Subobject", "The part of the object it is about."),
        wide("Source", "Who reports it."),
        text("Message", "What happened."),
        wide("First Seen", "Time since it first happened."),
        super::Column {
            name: "Count",
            ty: "string",
            format: "",
            description: "How often it happened.",
            priority: 1,
        },
        super::Column { priority: 1, ..NAME },
    ],
    event,
);

/// Reads both spellings of an event.
fn event(obj: &Value, now: Timestamp) -> Vec<Value> {
    let either = |core: &str, new: &str| obj.get(core).or_else(|| obj.get(new)).filter(|v| !v.is_null());
    let seen = |t: Option<&Value>| t.map(|t| cells::since(Some(t), now));
    let first = seen(either("firstTimestamp", "deprecatedFirstTimestamp"))
        .or_else(|| seen(obj.get("eventTime").filter(|t| !t.is_null())));
    let mut last = seen(either("lastTimestamp", "deprecatedLastTimestamp")).or_else(|| first.clone());
    let mut times = either("count", "deprecatedCount").and_then(Value::as_i64).unwrap_or_default();
    if let Some(series) = obj.get("series").filter(|s| s.is_object()) {
        last = seen(series.get("lastObservedTime")).or(last);
        times = int_of(series, "count").unwrap_or_default();
    } else if times == 0 {
        // One that happened once is not counted.
        times = 1;
    }
    let about = either("involvedObject", "regarding").unwrap_or(&Value::Null);
    let kind = str_of(about, "kind").to_ascii_lowercase();
    let object = match str_of(about, "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = either("source", "deprecatedSource").unwrap_or(&Value::Null);
    let (mut who, mut host) = (str_of(source, "component"), str_of(source, "host"));
    if who.is_empty() {
        who = either("reportingComponent", "reportingController").and_then(Value::as_str).unwrap_or_default();
        host = str_of(obj, "reportingInstance");
    }
    let source = if host.is_empty() { who.to_owned() } else { format!("{who}, {host}") };
    let message = either("message", "note").and_then(Value::as_str).unwrap_or_default();
    vec![
        json!(last.as_deref().unwrap_or(UNKNOWN)),
        cells::string(obj, &["type"]),
        cells::string(obj, &["reason"]),
        json!(object),
        json!(str_of(about, "fieldPath")),
        json!(source),
        json!(message.trim()),
        json!(first.as_deref().unwrap_or(UNKNOWN)),
        json!(times),
        cells::name(obj),
    ]
}

pub(super) const COMPONENT_STATUSES: Table = (
    &[
        NAME,
        text("Status", "Status of the component conditions"),
        text("Message", "Message of the component conditions"),
        text("Error", "Error of the component conditions"),
    ],
    |obj, _| {
        let healthy = list(obj, "conditions").iter().find(|c| str_of(c, "type") == "Healthy");
        let c = healthy.unwrap_or(&Value::Null);
        let status = match str_of(c, "status") {
            "True" => "Healthy",
            "False" => "Unhealthy",
            _ => "Unknown",
        };
        vec![cells::name(obj), json!(status), json!(str_of(c, "message")), json!(str_of(c, "error"))]
    },
);

pub(super) const LEASES: Table = (&[NAME, text("Holder", "Who holds the lease."), AGE], |obj, now| {
    vec![cells::name(obj), cells::string(obj, &["spec", "holderIdentity"]), cells::age(obj, now)]
});

pub(super) const API_SERVICES: Table = (
    &[
        NAME,
        text("Service", "The reference to the service that hosts this API endpoint."),
        text("Available", "Whether this service is available."),
        AGE,
    ],
    |obj, now| {
        let service = at(obj, &["spec", "service"]).filter(|s| s.is_object()).map_or_else(
            || "Local".to_owned(),
            |s| format!("{}/{}", str_of(s, "namespace"), str_of(s, "name")),
        );
        let conditions = at(obj, &["status"]).map_or(&[][..], |s| list(s, "conditions"));
        let available = match conditions.iter().find(|c| str_of(c, "type") == "Available") {
            Some(c) if str_of(c, "status") == "True" => "True".to_owned(),
            Some(c) => format!("{} ({})", str_of(c, "status"), str_of(c, "reason")),
            None => "Unknown".to_owned(),
        };
        vec![cells::name(obj), json!(service), json!(available), cells::age(obj, now)]
    },
);

pub(super) const RUNTIME_CLASSES: Table =
    (&[NAME, text("Handler", "What runs pods of this class."), AGE], |obj, now| {
        vec![cells::name(obj), cells::string(obj, &["handler"]), cells::age(obj, now)]
    });

pub(super) const PRIORITY_CLASSES: Table = (
    &[
        NAME,
        int("Value", "Priority of pods of this class."),
        col("Global-Default", "boolean", "Whether pods without a class get this one."),
        AGE,
        text("PreemptionPolicy", "Whether pods of this class may push out others."),
    ],
    |obj, now| {
        vec![
            cells::name(obj),
            json!(count(obj, &["value"])),
            json!(bool_of(obj, "globalDefault")),
            cells::age(obj, now),
            cells::string(obj, &["preemptionPolicy"]),
        ]
    },
);

pub(super) const SIGNING_REQUESTS: Table = (
    &[
        NAME,
        AGE,
        text("SignerName", "Who is asked to sign."),
        text("Requestor", "Who asks."),
        text("RequestedDuration", "How long the certificate should be valid."),
        text("Condition", "What was decided."),
    ],
    |obj, now| {
        let duration = at(obj, &["spec", "expirationSeconds"]).and_then(Value::as_i64);
        let holds = |ty: &str| {
            let all = at(obj, &["status"]).map_or(&[][..], |s| list(s, "conditions"));
            all.iter().any(|c| str_of(c, "type") == ty)
        };
        let mut condition = match () {
            () if holds("Denied") => "Denied",
            () if holds("Approved") => "Approved",
            () => "Pending",
        }
        .to_owned();
        if holds("Failed") {
            condition.push_str(",Failed");
        }
        if str_at(obj, &["status", "certificate"]).is_some_and(|c| !c.is_empty()) {
            condition.push_str(",Issued");
        }
        vec![
            cells::name(obj),
            cells::age(obj, now),
            cells::string_or(obj, &["spec", "signerName"], NONE),
            cells::string(obj, &["spec", "username"]),
            json!(duration.map_or_else(|| NONE.to_owned(), human_duration)),
            json!(condition),
        ]
    },
);
