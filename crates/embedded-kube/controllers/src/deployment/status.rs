//! What a deployment says of itself.

use super::plan::{Set, bounds};
use crate::objects::{condition, counts, flag, int, list, seconds_after, set_condition, text, when};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub(super) const AVAILABLE_REASON: &str = "NewReplicaSetAvailable";
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";

pub(super) struct Status {
    pub(super) status: Map<String, Value>,
    pub(super) complete: bool,
    /// When it will have taken too long.
    pub(super) deadline: Option<Timestamp>,
}

/// `created`: the set made in this run.
pub(super) fn status(
    d: &Value,
    sets: &[Set],
    new: Option<&Set>,
    created: Option<&str>,
    now: Timestamp,
    stamp: &str,
) -> Status {
    let wanted = int(d, "/spec/replicas").unwrap_or(1);
    let sum = |field: &str| -> i64 {
        sets.iter().map(|s| int(&s.object, &format!("/status/{field}")).unwrap_or(0)).sum()
    };
    let of_new = |field: &str| new.and_then(|s| int(&s.object, &format!("/status/{field}"))).unwrap_or(0);
    let (replicas, ready, available) = (sum("replicas"), sum("readyReplicas"), sum("availableReplicas"));
    let updated = of_new("replicas");
    let mut status = counts(
        &[],
        &[
            ("observedGeneration", int(d, "/metadata/generation").unwrap_or(0)),
            ("replicas", replicas),
            ("updatedReplicas", updated),
            ("readyReplicas", ready),
            ("availableReplicas", available),
            ("unavailableReplicas", (sets.iter().map(|s| s.replicas).sum::<i64>() - available).max(0)),
            ("collisionCount", int(d, "/status/collisionCount").unwrap_or(0)),
        ],
    );
    let mut conditions = list(d, "/status/conditions").to_vec();
    let (_, unavailable) = bounds(d);
    let (is, reason, message) = if available >= wanted - unavailable {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    put(&mut conditions, "Available", is, reason, message, stamp);

    let complete = updated == wanted && replicas == wanted && available == wanted && created.is_none();
    let old = &d["status"];
    let before = |field: &str| old[field].as_i64().unwrap_or(0);
    let progressed = updated > before("updatedReplicas")
        || replicas - updated < before("replicas") - before("updatedReplicas")
        || ready > before("readyReplicas")
        || available > before("availableReplicas");
    let deadline = progress(
        d,
        &mut conditions,
        Progress { new, created, complete, progressed, settled: replicas == updated },
        now,
        stamp,
    );

    let failure = sets.iter().filter_map(|s| condition(&s.object, "ReplicaFailure")).next();
    match failure {
        Some(f) => {
            put(&mut conditions, "ReplicaFailure", "True", text(f, "/reason"), text(f, "/message"), stamp);
        }
        None => conditions.retain(|c| c["type"] != "ReplicaFailure"),
    }
    status.insert("conditions".into(), Value::Array(conditions));
    Status { status, complete, deadline }
}

struct Progress<'a> {
    new: Option<&'a Set>,
    created: Option<&'a str>,
    complete: bool,
    progressed: bool,
    settled: bool,
}

fn progress(
    d: &Value,
    conditions: &mut Vec<Value>,
    p: Progress<'_>,
    now: Timestamp,
    stamp: &str,
) -> Option<Timestamp> {
    // The largest number means that nobody waits.
    let limit = int(d, "/spec/progressDeadlineSeconds").filter(|n| *n < i64::from(i32::MAX));
    let Some(limit) = limit else {
        conditions.retain(|c| c["type"] != "Progressing");
        return None;
    };
    let current = conditions.iter().find(|c| c["type"] == "Progressing").cloned();
    let reason = current.as_ref().map_or("", |c| c["reason"].as_str().unwrap_or_default()).to_owned();
    let name = p.created.or_else(|| p.new.map(|n| n.name.as_str())).unwrap_or_default();
    if flag(d, "/spec/paused") {
        if reason != TIMED_OUT && reason != "DeploymentPaused" {
            put(conditions, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", stamp);
        }
        return None;
    }
    if reason == "DeploymentPaused" {
        put(conditions, "Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", stamp);
    } else if p.created.is_some() {
        let message = format!("Created new replica set {name:?}");
        put(conditions, "Progressing", "True", "NewReplicaSetCreated", &message, stamp);
    } else if current.is_none() {
        let message = format!("Found new replica set {name:?}");
        put(conditions, "Progressing", "True", "FoundNewReplicaSet", &message, stamp);
    } else if !(p.settled && reason == AVAILABLE_REASON) {
        if p.complete {
            let message = format!("ReplicaSet {name:?} has successfully progressed.");
            put(conditions, "Progressing", "True", AVAILABLE_REASON, &message, stamp);
        } else if p.progressed {
            let message = format!("ReplicaSet {name:?} is progressing.");
            put(conditions, "Progressing", "True", "ReplicaSetUpdated", &message, stamp);
            touch(conditions, stamp);
        } else if reason != TIMED_OUT
            && current
                .as_ref()
                .and_then(|c| when(c, "/lastUpdateTime"))
                .is_some_and(|t| seconds_after(t, limit) <= now)
        {
            let message = format!("ReplicaSet {name:?} has timed out progressing.");
            put(conditions, "Progressing", "False", TIMED_OUT, &message, stamp);
        }
    }
    // Whatever comes next, it has until then.
    let c = conditions.iter().find(|c| c["type"] == "Progressing")?;
    let waits = !matches!(c["reason"].as_str(), Some(AVAILABLE_REASON | TIMED_OUT)) && !p.complete;
    when(c, "/lastUpdateTime").filter(|_| waits).map(|t| seconds_after(t, limit))
}

fn put(conditions: &mut Vec<Value>, kind: &str, is: &str, reason: &str, message: &str, stamp: &str) {
    let c =
        json!({"type": kind, "status": is, "lastUpdateTime": stamp, "reason": reason, "message": message});
    set_condition(conditions, c, stamp);
}

/// The clock of progress starts again.
fn touch(conditions: &mut [Value], stamp: &str) {
    for c in conditions.iter_mut().filter(|c| c["type"] == "Progressing") {
        c["lastUpdateTime"] = json!(stamp);
    }
}
