//! What schedulers and drains do to pods: binding and eviction.

use super::Call;
use super::update::{self, Next};
use crate::cluster::tables;
use crate::wire::body;
use crate::wire::negotiate;
use crate::wire::params::{FieldValidation, WriteOptions, parse_dry_run};
use crate::wire::respond::{self, Reply};
use ek_meta::object;
use ek_meta::selector::LabelSelector;
use ek_meta::{FieldError, FieldPath, Reason, Status};
use serde_json::{Value, json};

fn created() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

/// Assigns a pod to a node.
pub async fn bind(call: &Call) -> Result<Reply, Status> {
    let options = WriteOptions::parse(&call.params, "CreateOptions")?;
    let ty = negotiate::body_type(&call.headers, true)?;
    let binding = body::decode(&call.body, ty)?.value;
    let mut pod = call.clone();
    let registry = call.cluster.registry();
    pod.res = registry.find("", "v1", "pods").cloned().ok_or_else(|| call.res.not_found("pods"))?;
    pod.info.subresource = "binding".into();
    if pod.info.name.is_empty() {
        pod.info.name = object::name(&binding).to_owned();
    }
    let named = object::name(&binding);
    if !named.is_empty() && named != pod.info.name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let target = object::str_at(&binding, &["target", "name"]).unwrap_or_default().to_owned();
    let kind = object::str_at(&binding, &["target", "kind"]).unwrap_or_default();
    let mut wrong = Vec::new();
    if !matches!(kind, "" | "Node") {
        wrong.push(FieldError::not_supported(&FieldPath::new("target.kind"), kind, &["Node", "<empty>"]));
    }
    if target.is_empty() {
        wrong.push(FieldError::required(&FieldPath::new("target.name"), ""));
    }
    if !wrong.is_empty() {
        let text = match wrong.as_slice() {
            [one] => one.to_string(),
            many => format!("[{}]", many.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        };
        // A code without a reason: upstream hands these on as they are.
        return Err(Status { reason: None, ..Status::failure(500, Reason::InternalError, text) });
    }
    let now = call.cluster.timestamp();
    let transform = |old: &Value| {
        let conflict = |why: String| Status::conflict("", "pods/binding", &pod.info.name, &why);
        if !old["metadata"]["deletionTimestamp"].is_null() {
            return Err(conflict(format!(
                "pod {} is being deleted, cannot be assigned to a host",
                pod.info.name
            )));
        }
        if let Some(n) = old["spec"]["nodeName"].as_str().filter(|n| !n.is_empty()) {
            return Err(conflict(format!("pod {} is already assigned to node {n:?}", pod.info.name)));
        }
        let mut new = old.clone();
        new["spec"]["nodeName"] = json!(target);
        let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
        let conditions = &mut new["status"]["conditions"];
        match conditions.as_array_mut() {
            Some(a) => {
                a.retain(|c| c["type"] != "PodScheduled");
                a.push(scheduled);
            }
            None => *conditions = json!([scheduled]),
        }
        for (k, v) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
            new["metadata"]["annotations"][k] = v.clone();
        }
        // Nobody owns where a pod runs: it is never taken back.
        Ok(Next { object: new, applied: true })
    };
    update::run(&pod, &transform, &options, None).await?;
    Ok(respond::json(201, &created()))
}

/// Deletes a pod if its disruption budgets allow.
pub async fn evict(call: &Call) -> Result<Reply, Status> {
    let ty = negotiate::body_type(&call.headers, true)?;
    let eviction = body::decode(&call.body, ty)?.value;
    let name = object::name(&eviction);
    if !name.is_empty() && name != call.info.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let entry = call.live()?;
    let pod: Value = serde_json::from_slice(&entry.bytes()).map_err(Status::internal)?;
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending"));
    let dying = !pod["metadata"]["deletionTimestamp"].is_null();
    let mut options = eviction.get("deleteOptions").cloned().unwrap_or_else(|| json!({}));
    let mut errors = Vec::new();
    let dry = options["dryRun"].as_array().map(Vec::as_slice).unwrap_or_default();
    let dry = dry.iter().filter_map(Value::as_str).chain(call.params.all("dryRun"));
    let dry_run = parse_dry_run(dry, &mut errors);
    if !errors.is_empty() {
        return Err(Status::invalid("policy", "Eviction", name, &errors));
    }
    if !ended && !dying {
        spend_budget(call, &pod, dry_run).await?;
    }
    if !dry_run {
        mark_evicted(call).await?;
    }
    let mut del = call.clone();
    del.info.subresource.clear();
    del.info.verb = "delete";
    if let Some(m) = options.as_object_mut() {
        m.insert("kind".into(), json!("DeleteOptions"));
        if dry_run {
            m.insert("dryRun".into(), json!(["All"]));
        }
    }
    del.headers.remove(http::header::CONTENT_TYPE);
    del.body = options.to_string().into();
    super::delete::delete(&del).await?;
    Ok(respond::json(201, &created()))
}

/// Says on the pod why it goes, for whoever counts failures.
async fn mark_evicted(call: &Call) -> Result<(), Status> {
    let mut own = call.clone();
    own.info.subresource = "status".into();
    let now = call.cluster.timestamp();
    let transform = |old: &Value| {
        let mut new = old.clone();
        let why = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now});
        let conditions = &mut new["status"]["conditions"];
        match conditions.as_array_mut() {
            Some(a) if a.iter().any(|c| c["type"] == "DisruptionTarget" && c["status"] == "True") => {}
            Some(a) => a.push(why),
            None => *conditions = json!([why]),
        }
        Ok(Next { object: new, applied: true })
    };
    let options = WriteOptions {
        dry_run: false,
        field_manager: None,
        field_validation: FieldValidation::Ignore,
        force: false,
    };
    Box::pin(update::run(&own, &transform, &options, None)).await.map(|_| ())
}

/// Takes one disruption from the pod's budget, so that two evictions cannot share it.
async fn spend_budget(call: &Call, pod: &Value, dry_run: bool) -> Result<(), Status> {
    let ns = &call.info.namespace;
    let matching: Vec<Value> = (call.cluster.objects(&tables::DISRUPTION_BUDGETS).into_iter())
        .filter(|b| object::namespace(b) == ns)
        .filter(|b| {
            LabelSelector::from_json(&b["spec"]["selector"]).is_ok_and(|s| {
                !b["spec"]["selector"].is_null() && s.matches_value(pod["metadata"].get("labels"))
            })
        })
        .collect();
    let budget = match matching.as_slice() {
        [] => return Ok(()),
        [b] => object::name(b).to_owned(),
        _ => {
            return Err(Status::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    let registry = call.cluster.registry();
    let Some(res) = registry.find("policy", "v1", "poddisruptionbudgets").cloned() else { return Ok(()) };
    drop(registry);
    let own = call.cluster.own_call(&res, ns, &budget, "status");
    let now = call.cluster.timestamp();
    let spend = |b: &Value| {
        let status = &b["status"];
        let generation = |v: &Value| v.as_i64().unwrap_or(0);
        let violated = "Cannot evict pod as it would violate the pod's disruption budget.";
        if generation(&status["observedGeneration"]) < generation(&b["metadata"]["generation"]) {
            let why = format!("The disruption budget {budget} is still being processed by the server.");
            return Err(Status::too_many_requests(violated, 10).with_cause("DisruptionBudget", &why, ""));
        }
        let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
        if allowed <= 0 {
            let why = format!(
                "The disruption budget {budget} needs {} healthy pods and has {} currently",
                status["desiredHealthy"].as_i64().unwrap_or(0),
                status["currentHealthy"].as_i64().unwrap_or(0)
            );
            // Without a time to retry after: whoever drains decides how long to wait.
            return Err(Status::failure(429, Reason::TooManyRequests, violated).with_cause(
                "DisruptionBudget",
                &why,
                "",
            ));
        }
        let mut new = b.clone();
        new["status"]["disruptionsAllowed"] = json!(allowed - 1);
        if !new["status"]["disruptedPods"].is_object() {
            new["status"]["disruptedPods"] = json!({});
        }
        new["status"]["disruptedPods"][object::name(pod)] = json!(now);
        Ok(update::Next { object: new, applied: false })
    };
    let options = WriteOptions {
        dry_run,
        field_manager: Some("eviction".into()),
        field_validation: FieldValidation::Ignore,
        force: false,
    };
    Box::pin(update::run(&own, &spend, &options, None)).await.map(|_| ())
}
