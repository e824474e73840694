//! What a job says of itself.

use super::plan::{Plan, Tally, is_indexed};
use crate::events::Note;
use crate::objects::{condition, counts, flag, list, set_condition};
use crate::pods::Pod;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub(super) fn status(
    job: &Value,
    pods: &[Pod],
    tally: &Tally,
    plan: &Plan,
    now: Timestamp,
    stamp: &str,
) -> (Map<String, Value>, Vec<Note>) {
    let mut notes = Vec::new();
    let active = pods.iter().filter(|p| p.active()).count() as i64;
    let ready = pods.iter().filter(|p| p.active() && p.ready).count() as i64;
    let terminating = pods.iter().filter(|p| p.deleting && !p.ended()).count() as i64;
    let mut status = counts(
        &[("terminating", terminating), ("ready", ready)],
        &[("active", active), ("succeeded", tally.succeeded), ("failed", tally.failed)],
    );
    let mut uncounted = Map::new();
    for (field, uids) in [("succeeded", &tally.uncounted_succeeded), ("failed", &tally.uncounted_failed)] {
        if !uids.is_empty() {
            uncounted.insert(field.into(), json!(uids));
        }
    }
    let waits = !uncounted.is_empty() || !tally.release.is_empty();
    status.insert("uncountedTerminatedPods".into(), Value::Object(uncounted));
    if is_indexed(job) {
        for (field, indexes) in
            [("completedIndexes", &tally.completed), ("failedIndexes", &tally.failed_indexes)]
        {
            if indexes.len() > 0
                || (field == "failedIndexes" && !job["spec"]["backoffLimitPerIndex"].is_null())
            {
                status.insert(field.into(), json!(indexes.write()));
            }
        }
    }
    let mut conditions = list(job, "/status/conditions").to_vec();
    let suspended = flag(job, "/spec/suspend");
    let was = condition(job, "Suspended").is_some_and(|c| c["status"] == "True");
    let mut put = |kind: &str, is: &str, reason: &str, message: &str| {
        let c =
            json!({"type": kind, "status": is, "lastProbeTime": stamp, "reason": reason, "message": message});
        set_condition(&mut conditions, c, stamp)
    };
    if suspended && !was && plan.end.is_none() {
        put("Suspended", "True", "JobSuspended", "Job suspended");
        notes.push(Note::normal("Suspended", "Job suspended"));
    } else if !suspended && was {
        put("Suspended", "False", "JobResumed", "Job resumed");
        notes.push(Note::normal("Resumed", "Job resumed"));
    }
    let before = job["status"]["startTime"].as_str();
    match before.filter(|_| !suspended && !was) {
        Some(t) => _ = status.insert("startTime".into(), json!(t)),
        None if suspended && plan.end.is_none() => {}
        None => _ = status.insert("startTime".into(), json!(stamp)),
    }
    if let Some(end) = &plan.end {
        put(end.interim(), "True", &end.reason, &end.message);
        // Said for good once nothing runs and nothing waits to be counted.
        if active == 0 && terminating == 0 && !waits {
            put(if end.complete { "Complete" } else { "Failed" }, "True", &end.reason, &end.message);
            if end.complete {
                status.insert("completionTime".into(), json!(ek_meta::time::rfc3339(now)));
                notes.push(Note::normal("Completed", "Job completed"));
            } else {
                notes.push(Note::warning(reason_of(&end.reason), end.message.clone()));
            }
        }
    }
    if !conditions.is_empty() {
        status.insert("conditions".into(), Value::Array(conditions));
    }
    (status, notes)
}

/// Reasons as events carry them.
fn reason_of(reason: &str) -> &'static str {
    match reason {
        "BackoffLimitExceeded" => "BackoffLimitExceeded",
        "DeadlineExceeded" => "DeadlineExceeded",
        "PodFailurePolicy" => "PodFailurePolicy",
        "FailedIndexes" => "FailedIndexes",
        "MaxFailedIndexesExceeded" => "MaxFailedIndexesExceeded",
        _ => "Failed",
    }
}
