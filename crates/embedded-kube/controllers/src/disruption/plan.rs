//! How many pods of a budget may go.

use crate::objects::{counts, int, list, scaled, seconds_after, set_condition, sooner};
use crate::pods::Pod;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// An eviction that was allowed and is not seen after this long did not happen.
const EVICTION_SECONDS: i64 = 120;

pub(super) struct Plan {
    pub(super) status: Map<String, Value>,
    pub(super) at: Option<Timestamp>,
}

/// `scale`: how many pods their controllers want altogether, or why that is unknown.
pub(super) fn plan(
    budget: &Value,
    pods: &[Pod],
    scale: Result<i64, String>,
    now: Timestamp,
    stamp: &str,
) -> Plan {
    let spec = &budget["spec"];
    let (mut at, mut disrupted) = (None, Map::new());
    for (name, when) in crate::objects::members(budget, "/status/disruptedPods") {
        let until = when.as_str().and_then(ek_meta::time::parse).map(|t| seconds_after(t, EVICTION_SECONDS));
        let still = pods.iter().any(|p| p.name == *name && !p.deleting);
        if let Some(until) = until.filter(|u| *u > now && still) {
            at = sooner(at, Some(until));
            disrupted.insert(name.clone(), when.clone());
        }
    }
    let live = || pods.iter().filter(|p| !p.ended());
    let healthy =
        live().filter(|p| p.ready && !p.deleting && !disrupted.contains_key(&p.name)).count() as i64;
    let count = live().count() as i64;
    let is_percent = |v: &Value| v.is_string();
    let numbers = match (&spec["maxUnavailable"], &spec["minAvailable"]) {
        (Value::Null, min) if !is_percent(min) => Ok((count, min.as_i64().unwrap_or(1))),
        (Value::Null, min) => scale.map(|n| (n, scaled(Some(min), n, true))),
        (max, _) => scale.map(|n| (n, (n - scaled(Some(max), n, true)).max(0))),
    };
    let (expected, desired, failure) = match numbers {
        Ok((expected, desired)) => (expected, desired, None),
        Err(why) => (0, 0, Some(why)),
    };
    let allowed = if expected <= 0 || failure.is_some() { 0 } else { (healthy - desired).max(0) };
    let mut status = counts(
        &[
            ("disruptionsAllowed", allowed),
            ("currentHealthy", healthy),
            ("desiredHealthy", desired),
            ("expectedPods", expected),
        ],
        &[("observedGeneration", int(budget, "/metadata/generation").unwrap_or(0))],
    );
    if !disrupted.is_empty() {
        status.insert("disruptedPods".into(), Value::Object(disrupted));
    }
    let mut conditions = list(budget, "/status/conditions").to_vec();
    let (is, reason, message) = match &failure {
        Some(why) => ("False", "SyncFailed", why.as_str()),
        None if allowed > 0 => ("True", "SufficientPods", ""),
        None => ("False", "InsufficientPods", ""),
    };
    let c = json!({"type": "DisruptionAllowed", "status": is, "reason": reason, "message": message,
        "observedGeneration": int(budget, "/metadata/generation").unwrap_or(0)});
    set_condition(&mut conditions, c, stamp);
    status.insert("conditions".into(), json!(conditions));
    Plan { status, at }
}
