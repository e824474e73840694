//! Service principals, and what the caller is and owns.

use crate::graph::{Cx, bad, error, list, missing, roles_of, select, show};
use crate::state::{Principal, PrincipalKind};
use crate::wire::Reply;
use http::StatusCode;
use serde_json::Value;

pub fn by_key(cx: &Cx<'_>, key: &str) -> Result<String, Reply> {
    let value = key.rsplit('=').next().unwrap_or(key).trim().trim_matches('\'');
    if !key.to_ascii_lowercase().starts_with("appid") {
        return Ok(value.to_owned());
    }
    cx.state.directory.by_client(value).map(|p| p.object_id.clone()).ok_or_else(|| missing(value))
}

pub fn all(cx: &mut Cx<'_>, only_count: bool) -> Result<Reply, Reply> {
    match cx.call.method.as_str() {
        // Keyed by object id, so already in order.
        "GET" => {
            let shown =
                cx.state.directory.principals.values().map(|p| show::principal(cx.state, p)).collect();
            list(cx, "servicePrincipals", shown, only_count)
        }
        "POST" => create(cx),
        _ => Err(error(
            StatusCode::METHOD_NOT_ALLOWED,
            "Request_BadRequest",
            "The method is not allowed here.",
        )),
    }
}

fn create(cx: &mut Cx<'_>) -> Result<Reply, Reply> {
    let body = cx.body()?;
    let client = body.get("appId").and_then(Value::as_str).unwrap_or_default().to_owned();
    if client.is_empty() {
        return Err(bad("A value is required for property 'appId' of resource 'ServicePrincipal'."));
    }
    let app = cx.state.directory.apps.get(&client.to_lowercase()).filter(|a| !a.managed).cloned();
    let Some(app) = app else {
        let message = format!(
            "The appId '{client}' of the service principal does not reference a valid application object."
        );
        return Err(error(StatusCode::BAD_REQUEST, "NoBackingApplicationObject", &message));
    };
    cx.may_write(app.owner.as_deref())?;
    if cx.state.directory.by_client(&client).is_some() {
        let message = format!(
            "The service principal cannot be created, updated, or restored because the service principal name {client} is already in use."
        );
        return Err(error(StatusCode::CONFLICT, "Request_MultipleObjectsWithSameKeyValue", &message));
    }
    let principal = Principal {
        object_id: cx.random.uuid(),
        client_id: app.client_id.clone(),
        name: app.name.clone(),
        kind: PrincipalKind::Application,
        created: cx.now,
        owner: Some(cx.caller.object_id.clone()),
        graph_roles: Vec::new(),
    };
    let object = principal.object_id.clone();
    cx.state.directory.add(principal);
    let shown = cx.state.directory.principal(&object).map(|p| show::principal(cx.state, p));
    Ok(Reply::json(StatusCode::CREATED, shown.unwrap_or_default()))
}

/// Applications and principals that a principal made.
fn owned(cx: &Cx<'_>, by: &str, only: Option<&str>) -> Vec<Value> {
    let mine = |owner: &Option<String>| owner.as_deref().is_some_and(|o| o.eq_ignore_ascii_case(by));
    let d = &cx.state.directory;
    let apps = d.apps.values().filter(|a| mine(&a.owner)).map(|a| a.object_id.clone());
    let principals = d.principals.values().filter(|p| mine(&p.owner)).map(|p| p.object_id.clone());
    let mut all: Vec<Value> = apps.chain(principals).filter_map(|id| show::object(cx.state, &id)).collect();
    if let Some(only) = only {
        let wanted = format!("#{only}");
        all.retain(|v| v["@odata.type"].as_str().is_some_and(|t| t.eq_ignore_ascii_case(&wanted)));
    }
    all.sort_by(|a, b| a["id"].as_str().cmp(&b["id"].as_str()));
    all
}

pub fn one(cx: &mut Cx<'_>, id: &str, rest: &[&str]) -> Result<Reply, Reply> {
    let principal = cx.state.directory.principal(id).cloned().ok_or_else(|| missing(id))?;
    let word = rest.first().map(|w| w.to_ascii_lowercase());
    match (cx.call.method.as_str(), word.as_deref()) {
        ("GET", None) => Ok(Reply::ok(select(cx, show::principal(cx.state, &principal)))),
        ("GET", Some("ownedobjects")) => {
            list(cx, "directoryObjects", owned(cx, &principal.object_id, rest.get(1).copied()), false)
        }
        ("GET", Some("owners")) => {
            let owners = principal.owner.iter().filter_map(|o| show::object(cx.state, o)).collect();
            list(cx, "directoryObjects", owners, false)
        }
        ("GET", Some("approleassignments")) => {
            let all = roles_of(cx.state, &principal);
            let shown = all.iter().map(|r| show::role_assignment(cx.state, &principal, r)).collect();
            list(cx, "appRoleAssignments", shown, false)
        }
        ("GET", Some("memberof" | "transitivememberof")) => list(cx, "directoryObjects", Vec::new(), false),
        ("PATCH", None) => {
            cx.may_write(principal.owner.as_deref())?;
            let body = cx.body()?;
            let app = cx.state.directory.apps.get(&principal.client_id.to_lowercase()).cloned();
            if let (Some(app), Some(on)) = (app, body.get("accountEnabled").and_then(Value::as_bool)) {
                let mut next = (*app).clone();
                next.enabled = on;
                cx.state.directory.add_app(next);
            }
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        ("DELETE", None) if matches!(principal.kind, PrincipalKind::Identity(..)) => Err(error(
            StatusCode::FORBIDDEN,
            "Authorization_RequestDenied",
            "A managed identity's service principal is deleted with its resource.",
        )),
        ("DELETE", None) => {
            cx.may_write(principal.owner.as_deref())?;
            cx.state.directory.remove_principal(&principal.object_id);
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        _ => Err(error(
            StatusCode::METHOD_NOT_ALLOWED,
            "Request_BadRequest",
            "The method is not allowed here.",
        )),
    }
}

/// The caller is an application: Graph says so for `/me`, and answers for what it owns.
pub fn me(cx: &Cx<'_>, rest: &[&str]) -> Result<Reply, Reply> {
    match rest.split_first() {
        Some((w, rest)) if w.eq_ignore_ascii_case("ownedObjects") => {
            list(cx, "directoryObjects", owned(cx, &cx.caller.object_id, rest.first().copied()), false)
        }
        _ => Err(bad("/me request is only valid with delegated authentication flow.")),
    }
}
