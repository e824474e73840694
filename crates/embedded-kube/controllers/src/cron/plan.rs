//! What a cron job does now: which jobs to start, stop, forget.

use super::schedule::Schedule;
use crate::events::Note;
use crate::job::{ending, is_finished};
use crate::objects::{flag, int, list, seconds_after, text, when};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) create: Option<Value>,
    pub(super) delete: Vec<String>,
    pub(super) status: Map<String, Value>,
    pub(super) notes: Vec<Note>,
    pub(super) at: Option<Timestamp>,
}

fn zone(cron: &Value) -> Option<TimeZone> {
    match cron.pointer("/spec/timeZone").and_then(Value::as_str) {
        None => Some(TimeZone::UTC),
        Some(name) => TimeZone::get(name).ok(),
    }
}

/// The last time that is due and not yet done, how many were, and the first that is still to come.
fn due(
    s: &Schedule,
    zone: &TimeZone,
    since: Timestamp,
    now: Timestamp,
) -> (Option<Timestamp>, usize, Option<Timestamp>) {
    const MANY: usize = 100;
    let (mut last, mut missed, mut at) = (None, 0, s.next(since, zone));
    while let Some(t) = at.filter(|t| *t <= now) {
        last = Some(t);
        missed += 1;
        // After a long sleep only the present counts; nobody waits for years of minutes.
        at = if missed == MANY {
            let near = now.checked_sub(jiff::SignedDuration::from_hours(25)).unwrap_or(t);
            s.next(t.max(near), zone)
        } else {
            s.next(t, zone)
        };
    }
    (last, missed, at)
}

pub(super) fn plan(cron: &Value, jobs: &[Value], now: Timestamp) -> Plan {
    let mut out = Plan::default();
    follow(cron, jobs, &mut out);
    trim(cron, jobs, &mut out);
    let mut last_schedule = text(cron, "/status/lastScheduleTime").to_owned();
    if !flag(cron, "/spec/suspend")
        && !crate::objects::is_deleting(cron)
        && let Some(t) = start(cron, jobs, now, &mut out)
    {
        last_schedule = ek_meta::time::rfc3339(t);
    }
    if !last_schedule.is_empty() {
        out.status.insert("lastScheduleTime".into(), json!(last_schedule));
    }
    out
}

/// Which of its jobs are under way, and when one last succeeded.
fn follow(cron: &Value, jobs: &[Value], out: &mut Plan) {
    let name = |j: &Value| text(j, "/metadata/name").to_owned();
    let listed = list(cron, "/status/active");
    for job in jobs.iter().filter(|j| is_finished(j)) {
        if listed.iter().any(|r| r["uid"] == job["metadata"]["uid"]) {
            let text = format!("Saw completed job: {}, condition: {}", name(job), ending(job));
            out.notes.push(Note::normal("SawCompletedJob", text));
        }
    }
    let active: Vec<Value> = jobs.iter().filter(|j| !is_finished(j)).map(reference).collect();
    if !active.is_empty() {
        out.status.insert("active".into(), json!(active));
    }
    let succeeded = jobs.iter().filter_map(|j| j.pointer("/status/completionTime")).filter_map(Value::as_str);
    let before = text(cron, "/status/lastSuccessfulTime");
    if let Some(t) = succeeded.chain([before]).filter(|t| !t.is_empty()).max() {
        out.status.insert("lastSuccessfulTime".into(), json!(t));
    }
}

pub(super) fn reference(job: &Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "namespace": job["metadata"]["namespace"],
        "uid": job["metadata"]["uid"], "resourceVersion": job["metadata"]["resourceVersion"]})
}

/// Finished jobs beyond what is kept.
fn trim(cron: &Value, jobs: &[Value], out: &mut Plan) {
    for (how, field) in [("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")] {
        let Some(limit) = int(cron, &format!("/spec/{field}")) else { continue };
        let mut done: Vec<&Value> = jobs.iter().filter(|j| is_finished(j) && ending(j) == how).collect();
        done.sort_by_key(|j| (text(j, "/status/startTime").to_owned(), text(j, "/metadata/name").to_owned()));
        let surplus = done.len().saturating_sub(limit.max(0) as usize);
        out.delete.extend(done.iter().take(surplus).map(|j| text(j, "/metadata/name").to_owned()));
    }
}

/// Starts what is due; returns the time it was due at.
fn start(cron: &Value, jobs: &[Value], now: Timestamp, out: &mut Plan) -> Option<Timestamp> {
    let Some(schedule) = Schedule::parse(text(cron, "/spec/schedule")) else {
        let text = format!("unparseable schedule: {}", text(cron, "/spec/schedule"));
        out.notes.push(Note::warning("UnparseableSchedule", text));
        return None;
    };
    let Some(zone) = zone(cron) else {
        let text = format!("invalid timeZone: {:?}", text(cron, "/spec/timeZone"));
        out.notes.push(Note::warning("UnknownTimeZone", text));
        return None;
    };
    let created = when(cron, "/metadata/creationTimestamp").unwrap_or(now);
    let mut since = when(cron, "/status/lastScheduleTime").unwrap_or(created);
    let deadline = int(cron, "/spec/startingDeadlineSeconds");
    if let Some(d) = deadline {
        since = since.max(seconds_after(now, -d));
    }
    let (last, missed, next) = due(&schedule, &zone, since, now);
    out.at = next;
    let at = last?;
    if missed >= 100 {
        let text = format!(
            "too many missed start times: {missed}. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        );
        out.notes.push(Note::warning("TooManyMissedTimes", text));
    }
    if deadline.is_some_and(|d| seconds_after(at, d) < now) {
        let text = format!("Missed scheduled time to start a job: {}", ek_meta::time::rfc3339(at));
        out.notes.push(Note::warning("MissSchedule", text));
        return None;
    }
    let active: Vec<&Value> = jobs.iter().filter(|j| !is_finished(j)).collect();
    match text(cron, "/spec/concurrencyPolicy") {
        "Forbid" if !active.is_empty() => {
            let text = "Not starting job because prior execution is running and concurrency policy is Forbid";
            out.notes.push(Note::normal("JobAlreadyActive", text));
            return None;
        }
        "Replace" => out.delete.extend(active.iter().map(|j| text(j, "/metadata/name").to_owned())),
        _ => {}
    }
    out.create = Some(job(cron, at, &zone));
    Some(at)
}

fn job(cron: &Value, at: Timestamp, zone: &TimeZone) -> Value {
    let template = &cron["spec"]["jobTemplate"];
    // The minute in the name: the same time is started once, whoever tries.
    let name = format!("{}-{}", text(cron, "/metadata/name"), at.as_second() / 60);
    let mut meta = json!({"name": name, "namespace": text(cron, "/metadata/namespace"),
        "ownerReferences": [crate::objects::controller_ref(cron)], "annotations": {}});
    for field in ["labels", "annotations"] {
        if let Some(v) = template.pointer(&format!("/metadata/{field}")).filter(|v| v.is_object()) {
            meta[field] = v.clone();
        }
    }
    let local = at.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string().replace("+00:00", "Z");
    meta["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] = json!(local);
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": template["spec"]})
}
