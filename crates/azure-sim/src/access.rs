//! CheckAccess: the decision point that resource providers ask before they act for somebody.
//!
//! It decides with the evaluator that enforces, so an answer here is what a request would meet.

use crate::rbac::Assignment;
use crate::state::State;
use crate::wire::{Call, Reply};
use arm::ResourceId;
use http::{Method, StatusCode};
use serde_json::{Value, json};

pub const AUDIENCE: &str = "https://authorization.azure.net";
/// How its path ends, lower case.
pub const PATH: &str = "/providers/microsoft.authorization/checkaccess";

const MAX_ACTIONS: usize = 200;
const MAX_GROUPS: usize = 1000;

pub fn refuse(status: StatusCode, message: &str) -> Reply {
    Reply::json(status, json!({"statusCode": status.as_u16(), "message": message}))
}

/// A field whatever its casing: the clients of this API write both.
fn field<'a>(v: &'a Value, name: &str) -> &'a Value {
    let found = v.as_object().and_then(|m| m.iter().find(|(k, _)| k.eq_ignore_ascii_case(name)));
    found.map_or(&Value::Null, |(_, v)| v)
}

fn granting<'a>(
    state: &'a State,
    who: &[&str],
    action: &str,
    scope: &str,
    data: bool,
) -> Option<&'a Assignment> {
    who.iter().find_map(|p| state.assignments.allowed(p, action, scope, data)).map(|a| &**a)
}

fn shown(a: &Assignment) -> Value {
    json!({
        "id": &*a.id, "roleDefinitionId": a.role.replace('-', ""), "principalId": a.principal.replace('-', ""),
        "principalType": "ServicePrincipal", "scope": if a.scope.is_empty() { "/" } else { &*a.scope }, "condition": null,
    })
}

pub fn check(state: &State, call: &Call) -> Reply {
    let bad = |m: &str| refuse(StatusCode::BAD_REQUEST, m);
    if call.method != Method::POST {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "CheckAccess is asked with POST.");
    }
    if call.query("api-version").is_none_or(str::is_empty) {
        return bad("The api-version query parameter is required.");
    }
    let Ok(body) = serde_json::from_slice::<Value>(&call.body) else { return bad("The body is not JSON.") };
    let attributes = field(field(&body, "Subject"), "Attributes");
    let Some(object) = field(attributes, "ObjectId").as_str().filter(|o| !o.is_empty()) else {
        return bad("Subject.Attributes.ObjectId is required.");
    };
    let groups = field(attributes, "Groups").as_array();
    let mut who = vec![object];
    who.extend(groups.into_iter().flatten().filter_map(Value::as_str).take(MAX_GROUPS));
    let Some(resource) = field(field(&body, "Resource"), "Id").as_str() else {
        return bad("Resource.Id is required.");
    };
    let scope = match resource.trim_end_matches('/') {
        "" => String::new(),
        id => match ResourceId::parse(id) {
            Ok(id) => id.key().to_string(),
            Err(why) => return bad(&format!("Resource.Id is not a resource id: {why}.")),
        },
    };
    let Some(actions) = field(&body, "Actions").as_array().filter(|a| !a.is_empty()) else {
        return bad("Actions are required.");
    };
    if actions.len() > MAX_ACTIONS {
        return bad(&format!("At most {MAX_ACTIONS} actions can be asked about at once."));
    }
    let mut value = Vec::new();
    for a in actions {
        let Some(id) = field(a, "Id").as_str().filter(|i| !i.is_empty()) else {
            return bad("Actions[].Id is required.");
        };
        let data = field(a, "IsDataAction").as_bool().unwrap_or(false);
        let by = granting(state, &who, id, &scope, data);
        let mut decision = json!({
            "actionId": id, "accessDecision": if by.is_some() { "Allowed" } else { "NotAllowed" },
            "isDataAction": data, "timeToLiveInMs": 300_000,
        });
        if let Some(by) = by {
            decision["roleAssignment"] = shown(by);
        }
        value.push(decision);
    }
    Reply::ok(json!({"value": value, "nextLink": null}))
}
