//! ResourceQuota: what a namespace may use in all.
//!
//! What is in use is counted from the objects themselves, while nobody else may add to them: two requests cannot
//! both take the last place, and a request that fails later has taken nothing. The controller writes what is used
//! into the quota's status; nothing here writes.

use super::Operation;
use super::limits::in_namespace;
use crate::cluster::tables;
use crate::verbs::Call;
use ek_builtin::quota::{self, Usage};
use ek_meta::{Status, object};
use serde_json::Value;
use tokio::sync::MutexGuard;

/// Checks an object against the quotas of its namespace. The guard, if any, must be held until it is stored.
pub async fn reserve<'a>(
    call: &'a Call,
    op: Operation,
    obj: &Value,
    old: Option<&Value>,
) -> Result<Option<MutexGuard<'a, ()>>, Status> {
    if !call.res.namespaced || !call.info.subresource.is_empty() || op == Operation::Delete {
        return Ok(None);
    }
    let quotas = in_namespace(call, &tables::QUOTAS);
    if quotas.is_empty() {
        return Ok(None);
    }
    let (group, plural) = (call.res.group.as_str(), call.res.plural.as_str());
    let mut more = quota::usage(group, plural, obj);
    let before = old.map(|o| quota::usage(group, plural, o)).unwrap_or_default();
    // An update is charged for what it adds; a pod's resources change only by its own endpoint.
    more.retain(|k, q| before.get(k).is_none_or(|b| *q > *b));
    if more.is_empty() {
        return Ok(None);
    }
    let guard = call.cluster.quota_writes.lock().await;
    for q in &quotas {
        if !quota::in_scope(&q["spec"], group, plural, obj) {
            continue;
        }
        check(call, q, obj, &more, &before)?;
    }
    Ok(Some(guard))
}

fn check(call: &Call, q: &Value, obj: &Value, more: &Usage, before: &Usage) -> Result<(), Status> {
    let (group, plural) = (call.res.group.as_str(), call.res.plural.as_str());
    let refuse = |why: String| Err(Status::forbidden(group, plural, object::name(obj), &why));
    let spec = &q["spec"];
    let hard = quota::limits(&spec["hard"]);
    if call.res.table == *tables::PODS
        && let Some(missing) = quota::unspecified(&spec["hard"], obj)
    {
        return refuse(format!("failed quota: {}: must specify {missing}", object::name(q)));
    }
    let limited: Vec<&String> = hard.keys().filter(|k| more.contains_key(*k)).collect();
    if limited.is_empty() {
        return Ok(());
    }
    let mut used = Usage::new();
    for other in in_namespace(call, &call.res.table) {
        if quota::in_scope(spec, group, plural, &other) {
            for (k, amount) in quota::usage(group, plural, &other) {
                quota::add(&mut used, &k, amount);
            }
        }
    }
    let zero = || ek_meta::quantity::Quantity::from_int(0);
    let (mut requested, mut have, mut most) = (Vec::new(), Vec::new(), Vec::new());
    for k in limited {
        let now = used.get(k).cloned().unwrap_or_else(zero);
        let delta = more[k] - before.get(k).cloned().unwrap_or_else(zero);
        if now + delta > hard[k] {
            requested.push(format!("{k}={delta}"));
            have.push(format!("{k}={now}"));
            most.push(format!("{k}={}", hard[k]));
        }
    }
    if requested.is_empty() {
        return Ok(());
    }
    refuse(format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        object::name(q),
        requested.join(","),
        have.join(","),
        most.join(",")
    ))
}
