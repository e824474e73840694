//! Jobs, and the schedules that start them.

use super::path::{Errors, IMMUTABLE, Path};
use super::{pod, selector, spec};
use crate::json::{bool_of, int_of, is_zero, str_of};
use ek_meta::selector::LabelSelector;
use serde_json::Value;

/// The names of the time zone database. Only names: what they mean is the controller's business.
const ZONES: &str = include_str!("zones.txt");

pub(super) fn job(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    job_spec(e, &p, s);
    let at = p.child("selector");
    match s.get("selector").filter(|v| !v.is_null()) {
        None => e.required(&at, ""),
        Some(sel) => {
            selector(e, &at, sel);
            let labels = s.get("template").and_then(|t| t.get("metadata")).and_then(|m| m.get("labels"));
            if LabelSelector::from_json(sel).is_ok_and(|s| !s.matches_value(labels)) {
                let t = p.child("template");
                let m = t.child("metadata");
                let v = labels.cloned().unwrap_or_default();
                e.invalid(&m.child("labels"), v, "`selector` does not match template `labels`");
            }
        }
    }
    let Some(old) = old else { return };
    let o = spec(old);
    e.fixed(&p, s, o, "selector");
    e.fixed(&p, s, o, "completionMode");
    e.fixed(&p, s, o, "podFailurePolicy");
    e.fixed(&p, s, o, "backoffLimitPerIndex");
    // An indexed job may grow and shrink as one, with its parallelism.
    let elastic = str_of(s, "completionMode") == "Indexed" && s.get("completions") == s.get("parallelism");
    if !elastic {
        e.fixed(&p, s, o, "completions");
    }
    // Before it starts, where its pods may run can still be decided.
    let waiting = bool_of(o, "suspend") && old.get("status").is_none_or(|st| st.get("startTime").is_none());
    let same =
        if waiting { template_same_but_placement(s, o) } else { s.get("template") == o.get("template") };
    if !same {
        e.invalid(&p.child("template"), s.get("template").cloned().unwrap_or_default(), IMMUTABLE);
    }
}

fn template_same_but_placement(new: &Value, old: &Value) -> bool {
    let (Some(n), Some(o)) = (new.get("template"), old.get("template")) else { return false };
    let placement = |k: &str| matches!(k, "nodeSelector" | "affinity" | "tolerations" | "schedulingGates");
    pod::differs_only(n, o, |k| matches!(k, "spec" | "metadata"))
        && pod::differs_only(spec(n), spec(o), placement)
}

fn job_spec(e: &mut Errors, p: &Path<'_>, s: &Value) {
    e.not_negative(
        p,
        s,
        &[
            "parallelism",
            "completions",
            "activeDeadlineSeconds",
            "backoffLimit",
            "ttlSecondsAfterFinished",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
        ],
    );
    let modes = ["NonIndexed", "Indexed"];
    e.one_of(&p.child("completionMode"), s.get("completionMode"), &modes);
    if str_of(s, "completionMode") == "Indexed" && int_of(s, "completions").is_none() {
        e.required(&p.child("completions"), "when completion mode is Indexed");
    }
    e.one_of(
        &p.child("podReplacementPolicy"),
        s.get("podReplacementPolicy"),
        &["Failed", "TerminatingOrFailed"],
    );
    let restart = s.get("template").map(spec).map_or("", |t| str_of(t, "restartPolicy"));
    if matches!(restart, "" | "Always") {
        // Always is the default of pods, so here it means that nothing was chosen.
        let t = p.child("template");
        let at = t.child("spec");
        e.required(&at.child("restartPolicy"), "valid values: \"OnFailure\", \"Never\"");
        pod::template(e, p, s, &[]);
    } else {
        pod::template(e, p, s, &["OnFailure", "Never"]);
    }
}

pub(super) fn cron_job(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    let name = ek_meta::object::name(new);
    // Jobs are named after it, with eleven more characters.
    if old.is_none() && name.len() > 52 {
        let meta = Path::ROOT.child("metadata");
        e.invalid(&meta.child("name"), name, "must be no more than 52 characters");
    }
    let schedule = e.need(&p, s, "schedule");
    if schedule.contains("TZ") {
        e.invalid(
            &p.child("schedule"),
            schedule,
            "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        );
    } else if !schedule.is_empty()
        && let Err(m) = cron(schedule)
    {
        e.invalid(&p.child("schedule"), schedule, m);
    }
    if let Some(zone) = s.get("timeZone").and_then(Value::as_str) {
        if zone.is_empty() {
            e.invalid(&p.child("timeZone"), zone, "timeZone must be nil or non-empty string");
        } else if zone.eq_ignore_ascii_case("local") {
            e.invalid(
                &p.child("timeZone"),
                zone,
                "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
            );
        } else if !ZONES.lines().any(|z| z == zone) {
            e.invalid(&p.child("timeZone"), zone, format!("unknown time zone {zone}"));
        }
    }
    e.not_negative(
        &p,
        s,
        &["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"],
    );
    let policies = ["Allow", "Forbid", "Replace"];
    match str_of(s, "concurrencyPolicy") {
        "" => e.required(&p.child("concurrencyPolicy"), ""),
        policy if !policies.contains(&policy) => {
            e.not_supported(&p.child("concurrencyPolicy"), policy, &policies);
        }
        _ => {}
    }
    let (tp, t) = (p.child("jobTemplate"), s.get("jobTemplate").unwrap_or(&Value::Null));
    let (jp, js) = (tp.child("spec"), spec(t));
    job_spec(e, &jp, js);
    if js.get("selector").is_some_and(|v| !is_zero(v)) {
        e.invalid(
            &jp.child("selector"),
            js.get("selector").cloned().unwrap_or_default(),
            "`selector` will be auto-generated",
        );
    }
    if bool_of(js, "manualSelector") {
        e.not_supported(&jp.child("manualSelector"), "true", &["nil", "false"]);
    }
}

/// Minute, hour, day, month, weekday: each with the names and bounds of its unit.
const UNITS: [(u32, u32, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    (0, 7, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

/// Whether a schedule can be read.
fn cron(s: &str) -> Result<(), String> {
    if let Some(word) = s.strip_prefix('@') {
        return match word {
            "yearly" | "annually" | "monthly" | "weekly" | "daily" | "midnight" | "hourly" => Ok(()),
            _ if word.strip_prefix("every ").is_some_and(|d| d.ends_with(['s', 'm', 'h'])) => Ok(()),
            _ => Err(format!("unrecognized descriptor: {s}")),
        };
    }
    let fields: Vec<&str> = s.split_whitespace().collect();
    if fields.len() != 5 {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, unit) in fields.iter().zip(UNITS) {
        for part in field.split(',') {
            cron_range(part, unit)?;
        }
    }
    Ok(())
}

fn cron_range(part: &str, (low, high, names): (u32, u32, &[&str])) -> Result<(), String> {
    let (range, step) = part.split_once('/').map_or((part, None), |(r, s)| (r, Some(s)));
    if let Some(step) = step {
        match step.parse::<u32>() {
            Ok(0) => return Err(format!("step of range should be a positive number: {part}")),
            Ok(_) => {}
            Err(_) => return Err(format!("failed to parse int from {step}")),
        }
    }
    if range == "*" || range == "?" {
        return Ok(());
    }
    let number = |s: &str| -> Result<u32, String> {
        if let Some(i) = names.iter().position(|n| n.eq_ignore_ascii_case(s)) {
            return Ok(i as u32 + if high == 12 { 1 } else { 0 });
        }
        s.parse()
            .map_err(|_| format!("failed to parse int from {s}: strconv.Atoi: parsing {s:?}: invalid syntax"))
    };
    let (from, to) = range.split_once('-').map_or((range, range), |(a, b)| (a, b));
    let (from, to) = (number(from)?, number(to)?);
    match () {
        () if from < low => Err(format!("beginning of range ({from}) below minimum ({low}): {part}")),
        () if to > high => Err(format!("end of range ({to}) above maximum ({high}): {part}")),
        () if from > to => Err(format!("beginning of range ({from}) beyond end of range ({to}): {part}")),
        () => Ok(()),
    }
}
