//! `Microsoft.Resources/deployments` in a resource group: a template's resources, put in order by its caller.
//!
//! Simplified: the resources are finished when the deployment is accepted, and only the deployment takes time. What
//! fails is told when it ends, as in Azure, and what came before stays.

use super::template::{Error, Place, Planned, Template};
use super::{Cx, dispatch, operations, stages, tree};
use crate::kinds::{self, Flow, How, show};
use crate::state::{Effect, Phase, Record};
use crate::target::Target;
use crate::wire::{Call, Fault, Reply};
use arm::{ErrorDetail, ResourceId, code};
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Map, Value, json};
use std::sync::Arc;

fn invalid(why: &Error) -> Fault {
    let message = format!("Deployment template validation failed: '{why}.'.");
    Fault::gateway(StatusCode::BAD_REQUEST, "InvalidTemplate", message)
}

pub fn serve(cx: &mut Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let Some(kind) = kinds::kind(kinds::DEPLOYMENTS) else { return Err(super::not_allowed(cx)) };
    let Some(group) = id.group().map(str::to_owned) else { return Err(super::not_allowed(cx)) };
    match cx.call.method.as_str() {
        "GET" => cx.state.get(id.key()).map(|r| Reply::ok(show(cx.state, r, &cx.version))).ok_or_else(|| {
            let message = format!("Deployment '{}' could not be found.", id.name());
            Fault::gateway(StatusCode::NOT_FOUND, "DeploymentNotFound", message)
        }),
        "HEAD" => tree::head(cx, id),
        "PUT" => put(cx, id, &group),
        "DELETE" => tree::delete(cx, kind, id),
        _ => Err(super::not_allowed(cx)),
    }
}

/// `POST …/validate`: would it be accepted.
pub fn validate(cx: &Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let group = id.group().unwrap_or_default().to_owned();
    let body = tree::body(cx)?;
    let (place, properties) = (place(cx, id, &group), properties(&body)?);
    let none = |_: &str| None;
    let template = Template::new(&properties["template"], &properties["parameters"], &place, &none);
    let planned = template.resources().map_err(|e| invalid(&e))?;
    let resources: Vec<Value> = planned.iter().map(|p| json!({"id": p.id})).collect();
    let shown = json!({
        "id": id.as_str(), "name": id.name(), "type": kinds::DEPLOYMENTS,
        "properties": {"provisioningState": "Succeeded", "mode": "Incremental", "validatedResources": resources},
    });
    Ok(Reply::ok(shown))
}

fn place(cx: &Cx<'_>, id: &ResourceId, group: &str) -> Place {
    let subscription = id.subscription().unwrap_or_default().to_owned();
    let key = format!("/subscriptions/{subscription}/resourcegroups/{group}").to_lowercase();
    let location = cx.state.get(&key).and_then(|r| r.location()).unwrap_or_default().to_owned();
    Place { subscription, tenant: cx.state.tenant.clone(), group: group.to_owned(), location }
}

fn properties(body: &Map<String, Value>) -> Result<Value, Fault> {
    let refuse = |why: &str| {
        let message = format!("The request content was invalid: {why}.");
        Fault::gateway(StatusCode::BAD_REQUEST, code::INVALID_REQUEST_CONTENT, message)
    };
    let p = body.get("properties").ok_or_else(|| refuse("properties are required"))?;
    if p.get("templateLink").is_some_and(|l| !l.is_null()) {
        return Err(refuse("templateLink is not supported here, give the template itself"));
    }
    match p["mode"].as_str() {
        Some(m) if m.eq_ignore_ascii_case("incremental") => {}
        Some(_) => return Err(refuse("mode must be Incremental here")),
        None => return Err(refuse("mode is required")),
    }
    let mut p = p.clone();
    // Some clients send the template as text.
    if let Some(text) = p["template"].as_str() {
        p["template"] = serde_json::from_str(text).map_err(|_| refuse("the template is not JSON"))?;
    }
    Ok(p)
}

fn put(cx: &mut Cx<'_>, id: &ResourceId, group: &str) -> Result<Reply, Fault> {
    let Some(kind) = kinds::kind(kinds::DEPLOYMENTS) else { return Err(super::not_allowed(cx)) };
    let body = tree::body(cx)?;
    let (place, properties) = (place(cx, id, group), properties(&body)?);
    let (given, parameters) = (&properties["template"], &properties["parameters"]);
    let none = |_: &str| None;
    let planned = Template::new(given, parameters, &place, &none).resources().map_err(|e| invalid(&e))?;
    let mut failures = Vec::new();
    let mut lasts = 1.0_f64;
    for p in &planned {
        lasts = lasts.max(kinds::resolve(&p.kind).map_or(0.0, |(k, _)| k.create.lasts));
        if let Err(why) = deploy(cx, p) {
            failures.push(why.detail);
            break;
        }
    }
    let version = cx.version.clone();
    let lookup = |what: &str| {
        let named = |p: &&Planned| p.name == what || p.symbol.as_deref() == Some(what);
        let id = planned.iter().find(named).map_or(what, |p| p.id.as_str()).to_lowercase();
        cx.state.get(&id).map(|r| show(cx.state, r, &version))
    };
    let mut shown = Map::new();
    if failures.is_empty() {
        let outputs = Template::new(given, parameters, &place, &lookup).outputs().map_err(|e| invalid(&e))?;
        shown.insert("outputs".into(), Value::Object(outputs));
        let made: Vec<Value> = planned.iter().map(|p| json!({"id": p.id})).collect();
        shown.insert("outputResources".into(), Value::Array(made));
    }
    let types: Vec<Value> = planned.iter().map(|p| json!({"resourceType": p.kind})).collect();
    shown.insert("mode".into(), "Incremental".into());
    shown.insert("parameters".into(), parameters.clone());
    shown.insert("timestamp".into(), cx.now.to_string().into());
    shown.insert("correlationId".into(), cx.state.guid(id.key(), "correlation").into());
    shown.insert("providers".into(), json!([{"resourceTypes": types}]));
    shown.insert("dependencies".into(), json!([]));
    let mut doc = Map::new();
    doc.insert("properties".into(), Value::Object(shown));
    let old = cx.state.get(id.key()).cloned();
    let by: Arc<str> = cx.caller.object_id.as_str().into();
    let effect = match failures.is_empty() {
        true => Effect::Settle(id.key().clone()),
        false => {
            let message = "At least one resource deployment operation failed. Please list deployment operations for details. Please see https://aka.ms/arm-deployment-operations for usage details.";
            let why = failures
                .into_iter()
                .fold(ErrorDetail::new("DeploymentFailed", message), ErrorDetail::with_detail);
            Effect::Fail(id.key().clone(), Box::new(why))
        }
    };
    let flow = Flow { how: How::Async, retry: 5, lasts };
    let (token, _, _) = operations::begin(cx, kind, id, &place.location, flow, effect, "Deploy");
    let record = Record {
        phase: Phase::Updating,
        busy: Some(Box::new((token.clone(), None))),
        ..Record::new(id.clone(), kind, doc, by, cx.now).since(old.as_deref())
    };
    cx.state.put(record.clone(), Vec::new());
    let mut answer = show(cx.state, &record, &cx.version);
    answer["properties"]["provisioningState"] = "Accepted".into();
    for later in ["outputs", "outputResources"] {
        answer["properties"].as_object_mut().map(|p| p.remove(later));
    }
    let at = format!(
        "{}{}/operationStatuses/{token}?api-version={}&t=1&c=sim&s=sim&h=sim",
        cx.call.base, id, cx.version
    );
    let status = if old.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    let mut reply = Reply::json(status, answer).with("azure-asyncoperation", &at);
    if let Some((name, value)) = cx.profile.retry_after(5) {
        reply = reply.with(name, &value);
    }
    Ok(reply)
}

/// Puts one resource as the caller would, through all stages, and ends what that begins.
fn deploy(cx: &mut Cx<'_>, planned: &Planned) -> Result<(), Fault> {
    let call = Call {
        method: Method::PUT,
        path: planned.id.clone(),
        query: vec![("api-version".to_owned(), planned.version.clone())],
        headers: HeaderMap::new(),
        body: serde_json::to_vec(&planned.body).unwrap_or_default().into(),
        base: cx.call.base.clone(),
    };
    let target = Target::parse(&call.path).ok_or_else(|| super::not_allowed(cx))?;
    let version = stages::version(&call, &target, cx.proxied)?;
    if stages::namespace(&target).is_some_and(|ns| cx.proxied.find(ns).is_some()) {
        return Err(invalid(&Error::Unsupported("a resource of a provider elsewhere")));
    }
    if let Some((action, scope)) = super::action::needed(&call.method, &target) {
        stages::authorize(cx.state, cx.caller, &action, &scope)?;
    }
    stages::registration(cx.state, &call.method, &target)?;
    stages::existence(cx.state, &call.method, &target, false)?;
    stages::locks(cx.state, &call.method, &target)?;
    if target.of.as_ref().is_some_and(|id| id.resource_type().is(kinds::DEPLOYMENTS)) {
        return Err(invalid(&Error::Unsupported("a deployment in a deployment")));
    }
    let under_way: Vec<Arc<str>> = cx.state.running().map(|o| o.id.clone()).collect();
    let (now, profile, caller, proxied) = (cx.now, cx.profile, cx.caller, cx.proxied);
    // What goes wrong with a deployment does not go wrong with each of its parts again.
    let due = &crate::trouble::Due::default();
    let inner =
        Cx { state: cx.state, call: &call, caller, version, now, profile, proxied, due, drain: cx.drain };
    dispatch(inner, &target)?;
    let begun: Vec<Arc<str>> =
        cx.state.running().map(|o| o.id.clone()).filter(|id| !under_way.contains(id)).collect();
    for id in begun {
        cx.state.finish(&id, now);
        if let Some(Err(why)) = cx.state.operations.get(&id).and_then(|o| o.outcome.clone()) {
            return Err(Fault::new(StatusCode::CONFLICT, crate::wire::Cause::Service, *why));
        }
    }
    Ok(())
}
