//! `Microsoft.Resources/deployments` in a resource group: a template's resources, put in order by its caller.
//!
//! A template may hold deployments of its own, in the same group or another. Simplified: the resources are finished when
//! the deployment is accepted, and only the deployment takes time. What fails is told when it ends, as in Azure, and what
//! came before stays.

use super::jsonc::strict;
use super::template::{Error, MAX_RESOURCES, Place, Planned, Template};
use super::{Cx, dispatch, operations, stages, tree};
use crate::kinds::{self, Flow, HIDDEN, How, show};
use crate::state::{Effect, Phase, Record};
use crate::target::Target;
use crate::trouble::{About, Due, Instead};
use crate::wire::{Call, Fault, Reply};
use arm::{ErrorDetail, ResourceId, code};
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Deployments in deployments in deployments; deeper than anybody goes.
const MAX_DEPTH: usize = 5;

/// What a deployment, with those in it, may still make.
pub struct Budget {
    left: usize,
    depth: usize,
}

impl Budget {
    pub const fn whole() -> Budget {
        Budget { left: MAX_RESOURCES, depth: 0 }
    }
}

/// What became of one resource of a template.
struct Step {
    id: String,
    kind: String,
    failed: Option<ErrorDetail>,
}

/// Whether a full type, lower case, is something to ask a deployment rather than a type.
pub fn knows(full: &str) -> bool {
    matches!(full, "microsoft.resources/deployments/whatif" | "microsoft.resources/deployments/operations")
}

fn invalid(why: &Error) -> Fault {
    let message = format!("Deployment template validation failed: '{why}.'.");
    Fault::gateway(StatusCode::BAD_REQUEST, "InvalidTemplate", message)
}

pub fn serve(cx: &mut Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let Some(kind) = kinds::kind(kinds::DEPLOYMENTS) else { return Err(super::not_allowed(cx)) };
    let Some(group) = id.group().map(str::to_owned) else { return Err(super::not_allowed(cx)) };
    match cx.call.method.as_str() {
        "GET" => {
            let found = cx.state.get(id.key()).ok_or_else(|| missing(id))?;
            Ok(Reply::ok(show(cx.state, found, &cx.version)))
        }
        "HEAD" => tree::head(cx, id),
        "PUT" => put(cx, id, &group, &mut Budget::whole()),
        "DELETE" => tree::delete(cx, kind, id),
        _ => Err(super::not_allowed(cx)),
    }
}

/// `POST …/validate`: would it be accepted.
pub fn validate(cx: &Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let group = id.group().unwrap_or_default().to_owned();
    let body = body(cx)?;
    let (place, properties) = (place(cx, id, &group), properties(&body)?);
    let resources: Vec<Value> = checked(&properties, &place)?.iter().map(|p| json!({"id": p.id})).collect();
    let shown = json!({
        "id": id.as_str(), "name": id.name(), "type": kinds::DEPLOYMENTS,
        "properties": {"provisioningState": "Succeeded", "mode": "Incremental", "validatedResources": resources},
    });
    Ok(Reply::ok(shown))
}

/// `GET …/operations`: what became of each resource.
pub fn steps(cx: &Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let record = cx.state.get(id.key()).ok_or_else(|| missing(id))?;
    let kept = record.doc.get(HIDDEN).and_then(Value::as_array).cloned().unwrap_or_default();
    let shown = kept.into_iter().enumerate().map(|(i, properties)| {
        let operation = cx.state.guid(id.key(), &format!("step{i}")).replace('-', "").to_uppercase();
        json!({"id": format!("{id}/operations/{operation}"), "operationId": operation, "properties": properties})
    });
    Ok(Reply::ok(json!({"value": shown.collect::<Vec<_>>()})))
}

/// The request, in the JSON that people write.
pub fn body(cx: &Cx<'_>) -> Result<Map<String, Value>, Fault> {
    let text = std::str::from_utf8(&cx.call.body).ok().map(strict);
    match text.and_then(|t| serde_json::from_str::<Value>(&t).ok()) {
        Some(Value::Object(body)) => Ok(body),
        // In its words.
        _ => tree::body(cx),
    }
}

fn missing(id: &ResourceId) -> Fault {
    let message = format!("Deployment '{}' could not be found.", id.name());
    Fault::gateway(StatusCode::NOT_FOUND, "DeploymentNotFound", message)
}

/// What a template describes, as far as that can be said before anything is made.
fn checked(properties: &Value, place: &Place) -> Result<Vec<Planned>, Fault> {
    let none = |_: &str| None;
    let template = Template::new(&properties["template"], &properties["parameters"], place, &none);
    let planned = template.resources().map_err(|e| invalid(&e))?;
    for p in &planned {
        match template.body(p) {
            // What it refers to may come to be.
            Ok(_) | Err(Error::Reference(_)) => {}
            Err(e) => return Err(invalid(&e)),
        }
    }
    Ok(planned)
}

pub fn place(cx: &Cx<'_>, id: &ResourceId, group: &str) -> Place {
    let subscription = id.subscription().unwrap_or_default().to_owned();
    let key = format!("/subscriptions/{subscription}/resourcegroups/{group}").to_lowercase();
    let location = cx.state.get(&key).and_then(|r| r.location()).unwrap_or_default().to_owned();
    Place { subscription, tenant: cx.state.tenant.clone(), group: group.to_owned(), location }
}

pub fn properties(body: &Map<String, Value>) -> Result<Value, Fault> {
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

/// What is made, and what became of each; ends at the first that fails.
fn make(
    cx: &mut Cx<'_>,
    properties: &Value,
    place: &Place,
    budget: &mut Budget,
) -> Result<(Vec<Step>, Option<Map<String, Value>>), Fault> {
    let mut left = checked(properties, place)?;
    let all = left.clone();
    budget.left = budget.left.checked_sub(left.len()).ok_or_else(|| invalid(&Error::TooMany))?;
    let (given, parameters) = (&properties["template"], &properties["parameters"]);
    let mut steps: Vec<Step> = Vec::new();
    while !left.is_empty() {
        // One that refers to another comes after it, whether it says so or not.
        let mut ready = None;
        for (i, p) in left.iter().enumerate() {
            if left.iter().any(|other| p.needs(other)) {
                continue;
            }
            let lookup = |what: &str| found(cx, &all, &left, what);
            match Template::new(given, parameters, place, &lookup).body(p) {
                Ok(body) => {
                    ready = Some((i, Ok(body)));
                    break;
                }
                Err(why @ Error::Reference(_)) => ready = ready.or(Some((i, Err(why)))),
                Err(why) => return Err(invalid(&why)),
            }
        }
        let Some((at, body)) = ready else { break };
        let planned = left.remove(at);
        let done = match body {
            Ok(body) => deploy(cx, &planned, &body, budget),
            Err(why) => Err(invalid(&why)),
        };
        let failed = done.err().map(|f| f.detail);
        let ends = failed.is_some();
        steps.push(Step { id: planned.id, kind: planned.kind, failed });
        if ends {
            return Ok((steps, None));
        }
    }
    let lookup = |what: &str| found(cx, &all, &[], what);
    let outputs = Template::new(given, parameters, place, &lookup).outputs().map_err(|e| invalid(&e))?;
    Ok((steps, Some(outputs)))
}

/// What a name in a template refers to, if it is there; what is still to be made is not, even if it was made before.
fn found(cx: &Cx<'_>, all: &[Planned], left: &[Planned], what: &str) -> Option<Value> {
    if left.iter().any(|p| p.is(what)) {
        return None;
    }
    let id = all.iter().find(|p| p.is(what)).map_or(what, |p| p.id.as_str()).to_lowercase();
    cx.state.get(&id).map(|r| show(cx.state, r, &cx.version))
}

/// The parameters as a deployment shows them: secret ones without their values.
fn shown_parameters(properties: &Value) -> Value {
    let declared = &properties["template"]["parameters"];
    let each = |(name, given): (&String, &Value)| {
        let kind = declared[name]["type"].as_str().unwrap_or("String");
        let shown = match kind.to_lowercase().starts_with("secure") {
            true => json!({"type": kind}),
            false => json!({"type": kind, "value": given["value"]}),
        };
        (name.clone(), shown)
    };
    Value::Object(properties["parameters"].as_object().into_iter().flatten().map(each).collect())
}

fn put(cx: &mut Cx<'_>, id: &ResourceId, group: &str, budget: &mut Budget) -> Result<Reply, Fault> {
    let Some(kind) = kinds::kind(kinds::DEPLOYMENTS) else { return Err(super::not_allowed(cx)) };
    let body = body(cx)?;
    let (place, properties) = (place(cx, id, group), properties(&body)?);
    let (steps, outputs) = make(cx, &properties, &place, budget)?;
    let lasts = steps
        .iter()
        .map(|s| kinds::resolve(&s.kind).map_or(0.0, |(k, _)| k.create.lasts))
        .fold(1.0_f64, f64::max);
    let mut shown = Map::new();
    if let Some(outputs) = outputs {
        shown.insert("outputs".into(), Value::Object(outputs));
        let made: Vec<Value> = steps.iter().map(|s| json!({"id": s.id})).collect();
        shown.insert("outputResources".into(), Value::Array(made));
    }
    let types: Vec<Value> = steps.iter().map(|s| json!({"resourceType": s.kind})).collect();
    shown.insert("mode".into(), "Incremental".into());
    shown.insert("parameters".into(), shown_parameters(&properties));
    shown.insert("timestamp".into(), cx.now.to_string().into());
    shown.insert("correlationId".into(), cx.state.guid(id.key(), "correlation").into());
    shown.insert("providers".into(), json!([{"resourceTypes": types}]));
    shown.insert("dependencies".into(), json!([]));
    let mut doc = Map::new();
    doc.insert("properties".into(), Value::Object(shown));
    doc.insert(HIDDEN.into(), steps.iter().map(|s| told(s, &cx.now.to_string())).collect());
    let old = cx.state.get(id.key()).cloned();
    let by: Arc<str> = cx.caller.object_id.as_str().into();
    let effect = match steps.into_iter().find_map(|s| s.failed) {
        None => Effect::Settle(id.key().clone()),
        Some(why) => Effect::Fail(id.key().clone(), Box::new(failure(why))),
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

/// What a deployment ends with when one of its resources was refused.
pub fn failure(why: ErrorDetail) -> ErrorDetail {
    let message = "At least one resource deployment operation failed. Please list deployment operations for details. Please see https://aka.ms/arm-deployment-operations for usage details.";
    ErrorDetail::new("DeploymentFailed", message).with_detail(why)
}

/// One of the deployment's operations.
fn told(step: &Step, at: &str) -> Value {
    let name = step.id.rsplit('/').next().unwrap_or_default();
    let mut told = json!({
        "provisioningOperation": "Create", "timestamp": at, "duration": "PT1S",
        "provisioningState": "Succeeded", "statusCode": "OK",
        "targetResource": {"id": step.id, "resourceType": step.kind, "resourceName": name},
    });
    if let Some(why) = &step.failed {
        told["provisioningState"] = "Failed".into();
        told["statusCode"] = "Conflict".into();
        told["statusMessage"] = json!({"status": "Failed", "error": why});
    }
    told
}

/// What a deployment would make, in a state that nobody keeps: the ids, and the first failure.
pub fn rehearse(
    cx: &mut Cx<'_>,
    properties: &Value,
    place: &Place,
) -> Result<(Vec<String>, Option<ErrorDetail>), Fault> {
    let (steps, _) = make(cx, properties, place, &mut Budget::whole())?;
    let mut ids = Vec::new();
    let mut failed = None;
    for step in steps {
        // What a deployment in it made, that says itself.
        let inner = cx.state.get(&step.id.to_lowercase()).filter(|r| r.kind.path == "deployments");
        let made = inner.and_then(|r| r.doc.get(HIDDEN)).and_then(Value::as_array);
        let made = made.into_iter().flatten().filter_map(|s| s["targetResource"]["id"].as_str());
        ids.extend(made.map(str::to_owned));
        ids.push(step.id);
        failed = failed.or(step.failed);
    }
    Ok((ids, failed))
}

/// What goes wrong with a resource of a template, as if the caller had put it: what is refused, and what fails late. Nobody
/// waits for it on a connection, so that cannot break.
fn met(cx: &Cx<'_>, call: &Call) -> Result<Due, Fault> {
    let Some(trouble) = cx.trouble.filter(|t| !t.is_quiet()) else { return Ok(Due::default()) };
    let host = call.base.split("://").last().unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(h, _)| h);
    let principal = vec![cx.caller.object_id.clone(), cx.caller.client_id.clone()];
    let met = trouble.meet(&About { service: "arm", host, call, principal }, cx.state.seed, cx.profile);
    match met.instead {
        Some(Instead::Say(reply)) => {
            let error = reply.body.as_ref().map(|b| &b["error"]);
            let text = |f: &str| error.and_then(|e| e[f].as_str());
            let code = text("code").unwrap_or("ServiceUnavailable");
            let message = text("message").unwrap_or("The service is unavailable.");
            Err(Fault::gateway(reply.status, code, message))
        }
        _ => Ok(met.due),
    }
}

/// Puts one resource as the caller would, through all stages, and ends what that begins.
fn deploy(cx: &mut Cx<'_>, planned: &Planned, body: &Value, budget: &mut Budget) -> Result<(), Fault> {
    let call = Call {
        method: Method::PUT,
        path: planned.id.clone(),
        query: vec![("api-version".to_owned(), planned.version.clone())],
        headers: HeaderMap::new(),
        body: serde_json::to_vec(body).unwrap_or_default().into(),
        base: cx.call.base.clone(),
    };
    let target = Target::parse(&call.path).ok_or_else(|| super::not_allowed(cx))?;
    stages::subscription(cx.state, &target)?;
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
    let under_way: Vec<Arc<str>> = cx.state.running().map(|o| o.id.clone()).collect();
    let (now, profile, caller, proxied) = (cx.now, cx.profile, cx.caller, cx.proxied);
    let (due, trouble) = (&met(cx, &call)?, cx.trouble);
    let drain = &mut *cx.drain;
    let mut inner =
        Cx { state: cx.state, call: &call, caller, version, now, profile, proxied, due, trouble, drain };
    let nested = target.of.as_ref().filter(|id| id.resource_type().is(kinds::DEPLOYMENTS)).cloned();
    match nested {
        Some(id) => {
            if budget.depth >= MAX_DEPTH {
                return Err(invalid(&Error::Deep));
            }
            budget.depth += 1;
            let group = id.group().unwrap_or_default().to_owned();
            let done = put(&mut inner, &id, &group, budget);
            budget.depth -= 1;
            done?;
        }
        None => {
            dispatch(inner, &target)?;
        }
    }
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
