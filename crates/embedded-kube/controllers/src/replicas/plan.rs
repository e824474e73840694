//! How many pods a replica set makes or deletes, and what it says of itself.

use crate::objects::{condition, counts, int, list, set_condition, sooner};
use crate::pods::{Pod, least_useful_first};
use ek_meta::Status;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// At once; the rest come in the next run.
const BURST: i64 = 500;

#[derive(Debug, Default)]
pub(super) struct Plan<'a> {
    pub(super) create: usize,
    pub(super) delete: Vec<&'a Pod>,
}

pub(super) fn plan(wanted: i64, pods: &[Pod]) -> Plan<'_> {
    let mut active: Vec<&Pod> = pods.iter().filter(|p| p.active()).collect();
    let missing = wanted - active.len() as i64;
    if missing >= 0 {
        return Plan { create: missing.min(BURST) as usize, ..Plan::default() };
    }
    least_useful_first(&mut active);
    active.truncate((-missing).min(BURST) as usize);
    Plan { create: 0, delete: active }
}

/// The status, and when it changes by the mere passing of time.
pub(super) fn status(
    owner: &Value,
    pods: &[Pod],
    failed: Option<(&'static str, &Status)>,
    now: Timestamp,
    stamp: &str,
) -> (Map<String, Value>, Option<Timestamp>) {
    let min_ready = int(owner, "/spec/minReadySeconds").unwrap_or(0);
    let labels = owner.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
    let full = |p: &&Pod| labels.into_iter().flatten().all(|(k, v)| p.label(k) == v.as_str());
    let active = || pods.iter().filter(|p| p.active());
    let ready = active().filter(|p| p.ready).count() as i64;
    let available = active().filter(|p| p.available(min_ready, now)).count() as i64;
    let next = active()
        .filter_map(|p| p.available_at(min_ready).filter(|t| *t > now))
        .fold(None, |a, t| sooner(a, Some(t)));
    let mut status = counts(
        &[("replicas", active().count() as i64)],
        &[
            ("fullyLabeledReplicas", active().filter(full).count() as i64),
            ("readyReplicas", ready),
            ("availableReplicas", available),
            ("observedGeneration", int(owner, "/metadata/generation").unwrap_or(0)),
        ],
    );
    let mut conditions = list(owner, "/status/conditions").to_vec();
    match failed {
        Some((reason, e)) => {
            // The generated name in the message differs each time; what matters is said once.
            let known = condition(owner, "ReplicaFailure").is_some_and(|c| c["reason"] == reason);
            if !known {
                let c = json!({"type": "ReplicaFailure", "status": "True", "reason": reason, "message": e.message});
                set_condition(&mut conditions, c, stamp);
            }
        }
        None => conditions.retain(|c| c["type"] != "ReplicaFailure"),
    }
    if !conditions.is_empty() {
        status.insert("conditions".into(), Value::Array(conditions));
    }
    (status, next)
}
