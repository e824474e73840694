//! The part of Microsoft Graph that infrastructure tools read: service principals and applications.

use crate::state::{App, Principal, PrincipalKind, State};
use crate::wire::{Call, Reply};
use http::StatusCode;
use serde_json::{Value, json};

fn error(status: StatusCode, code: &str, message: &str) -> Reply {
    Reply::json(status, json!({"error": {"code": code, "message": message}}))
}

fn principal(p: &Principal) -> Value {
    let kind = if matches!(p.kind, PrincipalKind::Identity(..)) { "ManagedIdentity" } else { "Application" };
    json!({
        "@odata.type": "#microsoft.graph.servicePrincipal", "id": p.object_id, "appId": p.client_id,
        "displayName": p.name, "servicePrincipalType": kind, "servicePrincipalNames": [p.client_id],
        "accountEnabled": true,
    })
}

fn application(a: &App) -> Value {
    json!({"id": a.object_id, "appId": a.client_id, "displayName": a.name})
}

/// The quoted value that a filter compares with.
fn quoted(filter: &str) -> Option<&str> {
    let from = filter.find('\'')? + 1;
    let rest = &filter[from..];
    Some(&rest[..rest.find('\'')?])
}

pub fn handle(state: &State, call: &Call) -> Reply {
    let path = call.path.trim_matches('/');
    let words: Vec<&str> = path.split('/').skip(1).collect();
    let filter = call.query("$filter");
    match (call.method.as_str(), words.as_slice()) {
        ("GET", ["servicePrincipals"]) => {
            let wanted = filter.and_then(quoted);
            let fits = |p: &Principal| wanted.is_none_or(|w| p.client_id.eq_ignore_ascii_case(w) || p.object_id.eq_ignore_ascii_case(w) || p.name == w);
            let value: Vec<Value> = state.directory.principals.values().filter(|p| fits(p)).map(|p| principal(p)).collect();
            Reply::ok(json!({"value": value}))
        }
        ("GET", ["servicePrincipals", id]) => state.directory.principal(id).map_or_else(
            || error(StatusCode::NOT_FOUND, "Request_ResourceNotFound", &format!("Resource '{id}' does not exist or one of its queried reference-property objects are not present.")),
            |p| Reply::ok(principal(p)),
        ),
        ("GET", ["applications"]) => {
            let wanted = filter.and_then(quoted);
            let fits = |a: &App| wanted.is_none_or(|w| a.client_id.eq_ignore_ascii_case(w) || a.name == w);
            let value: Vec<Value> = state.directory.apps.values().filter(|a| fits(a)).map(|a| application(a)).collect();
            Reply::ok(json!({"value": value}))
        }
        ("POST", ["directoryObjects", "getByIds"]) => {
            let body = call.json().ok().flatten().unwrap_or_default();
            let ids = body["ids"].as_array().cloned().unwrap_or_default();
            let found = ids.iter().take(1000).filter_map(Value::as_str).filter_map(|i| state.directory.principal(i));
            let value: Vec<Value> = found.map(|p| principal(p)).collect();
            Reply::ok(json!({"value": value}))
        }
        _ => error(StatusCode::BAD_REQUEST, "BadRequest", "Resource not found for the segment."),
    }
}
