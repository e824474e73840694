//! Pods that finish.

use super::pod;
use crate::json::{Obj, absent, descend, each, ensure, fill, fill_zero, is_zero};

pub(super) fn job(m: &mut Obj) {
    let Some(spec) = ensure(m, "spec") else { return };
    job_template(spec);
    // Only when neither is given is it one pod; parallelism alone means a work queue.
    if absent(spec, "completions") && absent(spec, "parallelism") {
        spec.insert("completions".into(), 1.into());
    }
    fill(spec, "parallelism", 1);
    let per_index = !absent(spec, "backoffLimitPerIndex");
    fill(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    fill(spec, "manualSelector", false);
    let replacement = if absent(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    fill(spec, "podReplacementPolicy", replacement);
    let labels = descend(spec, &["template", "metadata"])
        .and_then(|t| t.get("labels"))
        .filter(|l| !is_zero(l))
        .cloned();
    if let Some(labels) = labels
        && let Some(meta) = ensure(m, "metadata")
    {
        fill_zero(meta, "labels", labels);
    }
}

/// What jobs and the templates of cron jobs share.
fn job_template(spec: &mut Obj) {
    pod::template_of(spec);
    if let Some(p) = crate::json::child(spec, "podFailurePolicy") {
        each(p, "rules", |r| each(r, "onPodConditions", |c| fill_zero(c, "status", "True")));
    }
}

pub(super) fn cron_job(m: &mut Obj) {
    let Some(spec) = ensure(m, "spec") else { return };
    fill_zero(spec, "concurrencyPolicy", "Allow");
    fill(spec, "suspend", false);
    fill(spec, "successfulJobsHistoryLimit", 3);
    fill(spec, "failedJobsHistoryLimit", 1);
    let Some(t) = ensure(spec, "jobTemplate") else { return };
    ensure(t, "metadata");
    if let Some(s) = ensure(t, "spec") {
        job_template(s);
    }
}
