//! `Microsoft.ContainerRegistry`: names, credentials, import.

use crate::gateway::own::asked_name;
use crate::gateway::{Cx, not_allowed, operations, stages};
use crate::kinds;
use crate::planes::registry::{self, Passwords};
use crate::planes::{Datum, record_of};
use crate::state::{Effect, Record};
use crate::wire::{Fault, Reply};
use arm::ResourceId;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

pub fn is_own(path: &str) -> bool {
    matches!(
        path,
        "checknameavailability"
            | "registries/listcredentials"
            | "registries/regeneratecredential"
            | "registries/importimage"
            | "registries/listusages"
    )
}

pub fn serve(cx: &mut Cx<'_>, of: Option<&ResourceId>, path: &str) -> Result<Reply, Fault> {
    if path == "checknameavailability" && cx.call.method == Method::POST {
        return available(cx);
    }
    let id = of.ok_or_else(|| not_allowed(cx))?;
    let record = cx.state.get(id.key()).cloned().ok_or_else(|| super::not_found(id))?;
    match (cx.call.method.as_str(), path) {
        ("POST", "registries/listcredentials") => Ok(shown(&record, &passwords(cx, &record)?)),
        ("POST", "registries/regeneratecredential") => regenerate(cx, &record),
        ("POST", "registries/importimage") => import(cx, &record),
        ("GET", "registries/listusages") => Ok(Reply::ok(json!({"value": [
            {"name": "Size", "limit": 107_374_182_400_u64, "currentValue": 0, "unit": "Bytes"},
            {"name": "Webhooks", "limit": 10, "currentValue": 0, "unit": "Count"},
        ]}))),
        _ => Err(not_allowed(cx)),
    }
}

fn available(cx: &Cx<'_>) -> Result<Reply, Fault> {
    let name = asked_name(cx)?;
    Ok(Reply::ok(if !kinds::registry::name_ok(&name) {
        json!({"nameAvailable": false, "reason": "Invalid", "message": format!("The specified resource name {name} is invalid: 5 to 50 letters and digits.")})
    } else if cx.state.data.host(&kinds::registry::host(&name)).is_some() {
        json!({"nameAvailable": false, "reason": "AlreadyExists", "message": format!("The registry {name} is already in use.")})
    } else {
        json!({"nameAvailable": true, "reason": null, "message": null})
    }))
}

fn passwords(cx: &Cx<'_>, record: &Record) -> Result<Passwords, Fault> {
    let enabled = record.property("adminUserEnabled").and_then(Value::as_bool) == Some(true);
    let found = registry::passwords(cx.state, &record.id.name().to_lowercase()).cloned();
    found.filter(|_| enabled).ok_or_else(|| {
        Fault::plain(
            StatusCode::BAD_REQUEST,
            "UnauthorizedForCredentialOperations",
            format!("Cannot perform credential operations for {} as admin user is disabled. Kindly enable admin user as per docs: https://docs.microsoft.com/en-us/azure/container-registry/container-registry-authentication#admin-account", record.id),
        )
    })
}

fn shown(record: &Record, p: &Passwords) -> Reply {
    Reply::ok(json!({
        "username": record.id.name(),
        "passwords": [{"name": "password", "value": p.passwords[0].expose()}, {"name": "password2", "value": p.passwords[1].expose()}],
    }))
}

fn regenerate(cx: &mut Cx<'_>, record: &Record) -> Result<Reply, Fault> {
    let mut p = passwords(cx, record)?;
    let body = cx.call.json()?.unwrap_or_default();
    let index = match body["name"].as_str() {
        Some("password") => 0,
        Some("password2") => 1,
        _ => {
            return Err(Fault::plain(
                StatusCode::BAD_REQUEST,
                "InvalidRequestBody",
                "The name is password or password2.",
            ));
        }
    };
    let name = record.id.name().to_lowercase();
    p.passwords[index] = registry::new_password(cx.state, &name, index);
    let reply = shown(record, &p);
    cx.state.data.put(&format!("rp/{name}"), Datum::Passwords(Box::new(p)));
    Ok(reply)
}

/// From another registry of the simulator: what is beyond cannot be reached.
fn import(cx: &mut Cx<'_>, record: &Arc<Record>) -> Result<Reply, Fault> {
    let bad = |m: String| Fault::plain(StatusCode::BAD_REQUEST, "InvalidParameters", m);
    let body = cx.call.json()?.unwrap_or_default();
    let source = &body["source"];
    let image = source["sourceImage"].as_str().unwrap_or_default();
    let (repository, reference) = match image.split_once('@') {
        Some(x) => x,
        None => image.rsplit_once(':').unwrap_or((image, "latest")),
    };
    let from = match (source["resourceId"].as_str(), source["registryUri"].as_str()) {
        (Some(id), _) => ResourceId::parse(id).ok().and_then(|id| cx.state.get(id.key()).cloned()),
        (None, Some(uri)) => record_of(cx.state, &uri.to_lowercase()).cloned(),
        _ => Some(record.clone()),
    };
    let from = from.filter(|r| r.id.resource_type().is(kinds::registry::REGISTRIES)).ok_or_else(|| {
        bad("The source registry cannot be reached: the simulator imports from its own registries only."
            .to_owned())
    })?;
    stages::authorize(
        cx.state,
        cx.caller,
        "Microsoft.ContainerRegistry/registries/pull/read",
        from.id.as_str(),
    )?;
    let target = record.id.name().to_lowercase();
    let given: Vec<String> = body["targetTags"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let untagged =
        body["untaggedTargetRepositories"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut wanted: Vec<(String, Vec<String>)> = given
        .iter()
        .map(|t| {
            let (r, t) = t.rsplit_once(':').unwrap_or((t, "latest"));
            (r.to_owned(), vec![t.to_owned()])
        })
        .collect();
    wanted.extend(untagged.map(|r| (r.to_owned(), Vec::new())));
    if wanted.is_empty() {
        wanted.push((
            repository.to_owned(),
            if image.contains('@') { Vec::new() } else { vec![reference.to_owned()] },
        ));
    }
    let force = body["mode"].as_str() == Some("Force");
    let source = from.id.name().to_lowercase();
    for (into, tags) in &wanted {
        let taken = tags.iter().find(|t| cx.state.data.get(&registry::key(&target, "rt", into, t)).is_some());
        if let Some(t) = taken.filter(|_| !force) {
            return Err(Fault::plain(
                StatusCode::CONFLICT,
                "Conflict",
                format!("Tag {into}:{t} already exists in target registry."),
            ));
        }
        registry::import(cx.state, (&source, repository, reference), (&target, into), tags, cx.now)
            .map_err(|e| bad(format!("The image {image} cannot be imported: {}.", e.message())))?;
    }
    let flow = kinds::Flow { how: kinds::How::Located, retry: 10, lasts: 5.0 };
    let place = record.location().unwrap_or_default().to_owned();
    let (_, _, result) =
        operations::begin(cx, record.kind, &record.id, &place, flow, Effect::Nothing, "ImportImage");
    let reply = Reply::empty(StatusCode::ACCEPTED).with("location", &result);
    Ok(match cx.profile.retry_after(10) {
        Some((name, value)) => reply.with(name, &value),
        None => reply,
    })
}
