//! How a job goes on: which ended pods count, whether it is decided, how many pods it needs.

use super::indexes::Indexes;
use super::policy::{self, Verdict};
use crate::objects::{condition, flag, int, list, seconds_after, sooner, text, when};
use crate::pods::Pod;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// The first pause after a failure; each further failure doubles it.
const PAUSE: i64 = 10;
const LONGEST_PAUSE: i64 = 600;

/// Where a job stands, with everything that has ended counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) succeeded: i64,
    pub(super) failed: i64,
    /// Ended, and held by our finalizer until counted.
    pub(super) uncounted_succeeded: Vec<String>,
    pub(super) uncounted_failed: Vec<String>,
    /// Pods whose finalizer can go.
    pub(super) release: Vec<String>,
    pub(super) completed: Indexes,
    pub(super) failed_indexes: Indexes,
    /// A rule says the job has failed.
    pub(super) fail: Option<String>,
}

/// How a job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) complete: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl End {
    fn new(complete: bool, reason: &str, message: &str) -> Option<End> {
        Some(End { complete, reason: reason.to_owned(), message: message.to_owned() })
    }

    /// The condition that says so while pods still end.
    pub(super) fn interim(&self) -> &'static str {
        if self.complete { "SuccessCriteriaMet" } else { "FailureTarget" }
    }
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) end: Option<End>,
    /// Indexes of pods to make; `None` for jobs without indexes.
    pub(super) create: Vec<Option<i64>>,
    pub(super) delete: Vec<String>,
    pub(super) at: Option<Timestamp>,
}

pub(super) fn is_indexed(job: &Value) -> bool {
    text(job, "/spec/completionMode") == "Indexed"
}

pub(super) fn index_of(pod: &Pod) -> Option<i64> {
    pod.annotations.get(INDEX).and_then(|i| i.parse().ok())
}

/// Whether a pod that is being deleted has failed already, or only once it has ended.
fn failed(job: &Value, pod: &Pod) -> bool {
    let early = text(job, "/spec/podReplacementPolicy") != "Failed";
    pod.phase == "Failed" || (pod.deleting && pod.phase != "Succeeded" && (early || pod.node.is_empty()))
}

/// Counts. Ended pods are first listed by uid, then released, then counted: whichever of the writes is the last
/// before a crash, none counts twice and none is lost.
pub(super) fn tally(job: &Value, pods: &[Pod], parse: impl Fn(&Pod) -> Value) -> Tally {
    let status = &job["status"];
    let mut t = Tally {
        succeeded: int(status, "/succeeded").unwrap_or(0),
        failed: int(status, "/failed").unwrap_or(0),
        completed: Indexes::parse(text(status, "/completedIndexes")),
        failed_indexes: Indexes::parse(text(status, "/failedIndexes")),
        ..Tally::default()
    };
    let held = |uid: &str| pods.iter().any(|p| p.uid == uid && p.entry.meta.has_finalizers);
    let listed = |field: &str| -> Vec<String> {
        let all = list(status, &format!("/uncountedTerminatedPods/{field}"));
        all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    for uid in listed("succeeded") {
        if held(&uid) { t.uncounted_succeeded.push(uid) } else { t.succeeded += i64::from(!is_indexed(job)) }
    }
    for uid in listed("failed") {
        if held(&uid) { t.uncounted_failed.push(uid) } else { t.failed += 1 }
    }
    let per_index = int(job, "/spec/backoffLimitPerIndex");
    let completions = int(job, "/spec/completions");
    for pod in pods.iter().filter(|p| p.entry.meta.has_finalizers) {
        if pod.phase == "Succeeded" {
            t.release.push(pod.uid.clone());
            if is_indexed(job) {
                // An index completes once, however many pods of it do.
                let fits = |i: &i64| completions.is_none_or(|c| *i < c);
                if let Some(i) = index_of(pod).filter(fits) {
                    t.completed.insert(i);
                }
            } else if !t.uncounted_succeeded.contains(&pod.uid) {
                t.uncounted_succeeded.push(pod.uid.clone());
            }
        } else if failed(job, pod) {
            t.release.push(pod.uid.clone());
            let verdict = policy::judge(job, &parse(pod));
            match &verdict {
                Verdict::Ignore => continue,
                Verdict::FailJob(why) => t.fail = t.fail.or_else(|| Some(why.clone())),
                Verdict::Count | Verdict::FailIndex => {}
            }
            if !t.uncounted_failed.contains(&pod.uid) {
                t.uncounted_failed.push(pod.uid.clone());
            }
            if let (Some(limit), Some(i)) = (per_index, index_of(pod)) {
                let before: i64 = pod.annotations.get(FAILURES).and_then(|n| n.parse().ok()).unwrap_or(0);
                if verdict == Verdict::FailIndex || before >= limit {
                    t.failed_indexes.insert(i);
                }
            }
        }
    }
    if is_indexed(job) {
        t.succeeded = t.completed.len();
    }
    t
}

pub(super) fn plan(job: &Value, pods: &[Pod], t: &Tally, now: Timestamp) -> Plan {
    let mut out = Plan::default();
    let active: Vec<&Pod> = pods.iter().filter(|p| p.active()).collect();
    out.end = decided(job, t, &active, now);
    if out.end.is_some() {
        out.delete = active.iter().map(|p| p.name.clone()).collect();
        return out;
    }
    if flag(job, "/spec/suspend") {
        out.delete = active.iter().map(|p| p.name.clone()).collect();
        return out;
    }
    if let (Some(limit), Some(start)) =
        (int(job, "/spec/activeDeadlineSeconds"), when(job, "/status/startTime"))
    {
        out.at = Some(seconds_after(start, limit));
    }
    let parallelism = int(job, "/spec/parallelism").unwrap_or(1);
    let succeeded = t.succeeded + t.uncounted_succeeded.len() as i64;
    let wanted = match int(job, "/spec/completions") {
        // A work queue: once one has succeeded the others only finish.
        None if succeeded > 0 => active.len() as i64,
        None => parallelism,
        Some(_) if is_indexed(job) => parallelism,
        Some(c) => parallelism.min(c - succeeded),
    };
    // Where only the failed are replaced, those that are going still hold their places.
    let going = pods.iter().filter(|p| p.deleting && !p.ended() && !failed(job, p)).count() as i64;
    let surplus = active.len() as i64 - wanted;
    if surplus > 0 {
        let mut rest = active;
        crate::pods::least_useful_first(&mut rest);
        out.delete = rest.iter().take(surplus as usize).map(|p| p.name.clone()).collect();
        return out;
    }
    let room = (-surplus - going).max(0);
    if room == 0 {
        return out;
    }
    if let Some(at) = pause_until(pods).filter(|at| *at > now) {
        out.at = sooner(out.at, Some(at));
        return out;
    }
    if is_indexed(job) {
        let taken: BTreeSet<i64> = pods
            .iter()
            .filter(|p| p.active() || (p.deleting && !failed(job, p)))
            .filter_map(index_of)
            .collect();
        let all = 0..int(job, "/spec/completions").unwrap_or(0);
        let free =
            all.filter(|i| !taken.contains(i) && !t.completed.contains(*i) && !t.failed_indexes.contains(*i));
        out.create = free.take(room as usize).map(Some).collect();
    } else {
        out.create = vec![None; room as usize];
    }
    out
}

/// Whether the job has come to its end.
fn decided(job: &Value, t: &Tally, active: &[&Pod], now: Timestamp) -> Option<End> {
    // What is decided stays decided.
    for (complete, kind) in [(true, "SuccessCriteriaMet"), (false, "FailureTarget")] {
        if let Some(c) = condition(job, kind).filter(|c| c["status"] == "True") {
            return End::new(complete, text(c, "/reason"), text(c, "/message"));
        }
    }
    let fail = |reason, message: &str| End::new(false, reason, message);
    if let Some(why) = &t.fail {
        return fail("PodFailurePolicy", why);
    }
    let failed = t.failed + t.uncounted_failed.len() as i64;
    let limit = int(job, "/spec/backoffLimit").unwrap_or(6);
    let restarts: i64 = active.iter().map(|p| p.restarts).sum();
    let on_failure = text(job, "/spec/template/spec/restartPolicy") == "OnFailure";
    if failed > limit || (on_failure && restarts > 0 && restarts >= limit) {
        return fail("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    if let (Some(limit), Some(start)) =
        (int(job, "/spec/activeDeadlineSeconds"), when(job, "/status/startTime"))
        && !flag(job, "/spec/suspend")
        && seconds_after(start, limit) <= now
    {
        return fail("DeadlineExceeded", "Job was active longer than specified deadline");
    }
    if let Some(max) = int(job, "/spec/maxFailedIndexes")
        && t.failed_indexes.len() > max
    {
        return fail(
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes",
        );
    }
    if policy::succeeded(job, &t.completed) {
        return End::new(true, "SuccessPolicy", "Matched a rule of the success policy");
    }
    let succeeded = t.succeeded + t.uncounted_succeeded.len() as i64;
    let reached = match int(job, "/spec/completions") {
        None => succeeded > 0 && active.is_empty(),
        Some(c) if is_indexed(job) && t.failed_indexes.len() > 0 => {
            if t.completed.len() + t.failed_indexes.len() >= c {
                return fail("FailedIndexes", "Job has failed indexes");
            }
            false
        }
        Some(c) => succeeded >= c,
    };
    if !reached {
        return None;
    }
    End::new(true, "CompletionsReached", "Reached expected number of succeeded pods")
}

/// After failures in a row the next pod waits.
fn pause_until(pods: &[Pod]) -> Option<Timestamp> {
    let ended = |p: &Pod| p.finished.or(p.deletion).unwrap_or(p.created);
    let last_success = pods.iter().filter(|p| p.phase == "Succeeded").map(ended).max();
    let failures = pods.iter().filter(|p| p.phase == "Failed").map(ended).filter(|t| Some(*t) > last_success);
    let (mut count, mut last) = (0_u32, None);
    for t in failures {
        count += 1;
        last = last.max(Some(t));
    }
    let pause = PAUSE.saturating_mul(1 << count.saturating_sub(1).min(10)).min(LONGEST_PAUSE);
    last.map(|t| seconds_after(t, pause))
}
