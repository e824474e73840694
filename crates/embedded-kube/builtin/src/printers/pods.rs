//! Pods: one word for a state machine spread over a dozen fields.

use super::cells::{self, NONE};
use super::{AGE, Column, NAME, Table, text, wide};
use crate::json::{bool_of, int_of, list, str_of};
use ek_meta::object::{at, str_at};
use ek_meta::time;
use jiff::Timestamp;
use serde_json::{Value, json};

const COLUMNS: &[Column] = &[
    NAME,
    text("Ready", "The aggregate readiness state of this pod for accepting traffic."),
    text("Status", "The aggregate status of the containers in this pod."),
    text(
        "Restarts",
        "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
    ),
    AGE,
    wide("IP", "First address of the pod."),
    wide("Node", "Node the pod is bound to."),
    wide("Nominated Node", "Node on which room is being made for the pod."),
    wide("Readiness Gates", "Conditions beyond its containers the pod waits for."),
];

pub(super) const PODS: Table = (COLUMNS, row);

fn row(pod: &Value, now: Timestamp) -> Vec<Value> {
    let s = summarise(pod);
    let restarts = match s.last_restart {
        Some(t) if s.restarts != 0 => {
            let ago = time::human_duration(now.as_second().saturating_sub(t.as_second()));
            format!("{} ({ago} ago)", s.restarts)
        }
        _ => s.restarts.to_string(),
    };
    let status = at(pod, &["status"]).unwrap_or(&Value::Null);
    let ip = list(status, "podIPs").first().map(|i| str_of(i, "ip")).filter(|i| !i.is_empty());
    let ip = ip.or_else(|| Some(str_of(status, "podIP")).filter(|i| !i.is_empty()));
    vec![
        cells::name(pod),
        json!(format!("{}/{}", s.ready, s.total)),
        json!(s.reason),
        json!(restarts),
        cells::age(pod, now),
        json!(ip.unwrap_or(NONE)),
        cells::string_or(pod, &["spec", "nodeName"], NONE),
        cells::string_or(pod, &["status", "nominatedNodeName"], NONE),
        json!(gates(pod)),
    ]
}

fn gates(pod: &Value) -> String {
    let gates = at(pod, &["spec"]).map_or(&[][..], |s| list(s, "readinessGates"));
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = gates.iter().filter(|g| cells::condition(pod, str_of(g, "conditionType")) == "True").count();
    format!("{open}/{}", gates.len())
}

struct Summary {
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
    reason: String,
}

/// Restarts of one container and when the last of them began.
fn restarts(c: &Value) -> (i64, Option<Timestamp>) {
    let finished = str_at(c, &["lastState", "terminated", "finishedAt"]).and_then(time::parse);
    (int_of(c, "restartCount").unwrap_or_default(), finished)
}

/// Why a container ended, in the words of its runtime or else by number.
fn ended(t: &Value) -> String {
    let reason = str_of(t, "reason");
    if !reason.is_empty() {
        return reason.to_owned();
    }
    match int_of(t, "signal").unwrap_or_default() {
        0 => format!("ExitCode:{}", int_of(t, "exitCode").unwrap_or_default()),
        n => format!("Signal:{n}"),
    }
}

fn state<'a>(c: &'a Value, key: &str) -> Option<&'a Value> {
    at(c, &["state", key]).filter(|s| s.is_object())
}

fn summarise(pod: &Value) -> Summary {
    let (spec, status) = (pod.get("spec").unwrap_or(&Value::Null), pod.get("status").unwrap_or(&Value::Null));
    let inits = list(spec, "initContainers");
    let is_sidecar = |name: &str| {
        inits.iter().any(|c| str_of(c, "name") == name && str_of(c, "restartPolicy") == "Always")
    };
    let mut s = Summary {
        ready: 0,
        total: list(spec, "containers").len()
            + inits.iter().filter(|c| str_of(c, "restartPolicy") == "Always").count(),
        restarts: 0,
        last_restart: None,
        reason: str_of(status, "phase").to_owned(),
    };
    if !str_of(status, "reason").is_empty() {
        s.reason = str_of(status, "reason").to_owned();
    }
    let gated = |c: &Value| str_of(c, "type") == "PodScheduled" && str_of(c, "reason") == "SchedulingGated";
    if list(status, "conditions").iter().any(gated) {
        s.reason = "SchedulingGated".to_owned();
    }

    let (mut sidecar_restarts, mut sidecar_last) = (0i64, None);
    let mut initialising = false;
    for (i, c) in list(status, "initContainerStatuses").iter().enumerate() {
        let (n, last) = restarts(c);
        s.restarts = s.restarts.saturating_add(n);
        s.last_restart = s.last_restart.max(last);
        let sidecar = is_sidecar(str_of(c, "name"));
        if sidecar {
            sidecar_restarts = n.saturating_add(sidecar_restarts);
            sidecar_last = last.max(sidecar_last);
        }
        let terminated = state(c, "terminated");
        if terminated.is_some_and(|t| int_of(t, "exitCode").unwrap_or_default() == 0) {
            continue;
        }
        if sidecar && bool_of(c, "started") {
            s.ready += usize::from(bool_of(c, "ready"));
            continue;
        }
        initialising = true;
        s.reason = match (terminated, state(c, "waiting").map(|w| str_of(w, "reason"))) {
            (Some(t), _) => format!("Init:{}", ended(t)),
            (None, Some(r)) if !r.is_empty() && r != "PodInitializing" => format!("Init:{r}"),
            _ => format!("Init:{i}/{}", inits.len()),
        };
        break;
    }

    if !initialising || cells::condition(pod, "Initialized") == "True" {
        (s.restarts, s.last_restart) = (sidecar_restarts, sidecar_last);
        let mut running = false;
        // The first container has the last word.
        for c in list(status, "containerStatuses").iter().rev() {
            let (n, last) = restarts(c);
            s.restarts = s.restarts.saturating_add(n);
            s.last_restart = s.last_restart.max(last);
            let waiting = state(c, "waiting").map_or("", |w| str_of(w, "reason"));
            if !waiting.is_empty() {
                s.reason = waiting.to_owned();
            } else if let Some(t) = state(c, "terminated") {
                s.reason = ended(t);
            } else if bool_of(c, "ready") && state(c, "running").is_some() {
                running = true;
                s.ready += 1;
            }
        }
        if s.reason == "Completed" && running {
            let ready = cells::condition(pod, "Ready") == "True";
            s.reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
    if cells::deleting(pod) {
        if str_of(status, "reason") == "NodeLost" {
            s.reason = "Unknown".to_owned();
        } else if !matches!(str_of(status, "phase"), "Succeeded" | "Failed") {
            s.reason = "Terminating".to_owned();
        }
    }
    s
}

pub(super) fn conditions(pod: &Value) -> Option<Value> {
    match str_at(pod, &["status", "phase"])? {
        "Succeeded" => Some(json!([{
            "type": "Completed", "status": "True", "reason": "Succeeded",
            "message": "The pod has completed successfully."
        }])),
        "Failed" => Some(json!([{
            "type": "Completed", "status": "True", "reason": "Failed",
            "message": "The pod failed."
        }])),
        _ => None,
    }
}
