//! Role assignments and definitions, permissions, locks.

use crate::gateway::lists::comparison;
use crate::gateway::{Cx, tree};
use crate::kinds::{self, show};
use crate::rbac::{Assignment, Permission, Role};
use crate::state::{Key, Record, is_within};
use crate::wire::{Fault, Reply};
use arm::ResourceId;
use http::StatusCode;
use serde_json::{Map, Value, json};
use std::sync::Arc;

fn bad(code: &str, message: impl Into<String>) -> Fault {
    Fault::plain(StatusCode::BAD_REQUEST, code, message)
}

fn is_guid(s: &str) -> bool {
    s.len() == 36
        && s.bytes()
            .enumerate()
            .all(|(i, b)| if matches!(i, 8 | 13 | 18 | 23) { b == b'-' } else { b.is_ascii_hexdigit() })
}

fn record(
    cx: &Cx<'_>,
    kind: &str,
    id: ResourceId,
    properties: Map<String, Value>,
    old: Option<&Record>,
) -> Option<Record> {
    let by: Arc<str> = cx.caller.object_id.as_str().into();
    let mut doc = Map::new();
    doc.insert("properties".into(), Value::Object(properties));
    Some(Record::new(id, kinds::kind(kind)?, doc, by, cx.now).since(old))
}

fn scope_key(scope: Option<&ResourceId>) -> Key {
    scope.map_or_else(|| "".into(), |s| s.key().clone())
}

pub fn assignment(cx: &mut Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let old = cx.state.get(id.key()).cloned();
    match (cx.call.method.as_str(), old) {
        ("GET", Some(r)) => Ok(Reply::ok(show(cx.state, &r, &cx.version))),
        ("GET", None) => Err(Fault::plain(
            StatusCode::NOT_FOUND,
            "RoleAssignmentNotFound",
            format!("The role assignment '{}' is not found.", id.name()),
        )),
        ("PUT", old) => put_assignment(cx, id, old.as_deref()),
        ("DELETE", Some(r)) => {
            let body = show(cx.state, &r, &cx.version);
            // Taken away as slowly as given.
            let until = cx.state.lags.rights(cx.state.seed, id.key(), cx.now);
            cx.state.assignments.fade(id.key(), until);
            cx.state.remove(id.key(), cx.now);
            Ok(Reply::ok(body))
        }
        ("DELETE", None) => Ok(Reply::empty(StatusCode::NO_CONTENT)),
        _ => Err(super::not_allowed(cx)),
    }
}

const MAX_ASSIGNMENTS: usize = 4000;

fn put_assignment(cx: &mut Cx<'_>, id: &ResourceId, old: Option<&Record>) -> Result<Reply, Fault> {
    let body = tree::body(cx)?;
    let p = body.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let text = |f: &str| p.get(f).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (principal, role_id) = (text("principalId"), text("roleDefinitionId"));
    if !is_guid(id.name()) {
        return Err(bad(
            "InvalidRoleAssignmentId",
            format!(
                "The role assignment ID '{}' is not valid. The role assignment ID must be a GUID.",
                id.name()
            ),
        ));
    }
    if !is_guid(&principal) {
        return Err(bad(
            "InvalidPrincipalId",
            format!("The Principal ID '{principal}' is not valid. Principal ID must be a GUID."),
        ));
    }
    let role = role_id.rsplit('/').next().unwrap_or_default().to_lowercase();
    if cx.state.assignments.role(&role).is_none() {
        return Err(bad(
            "RoleDefinitionDoesNotExist",
            format!("The specified role definition with ID '{role}' does not exist."),
        ));
    }
    let known = cx.state.directory.principal(&principal);
    let known = known.is_some_and(|p| cx.state.lags.principal(cx.state.seed, p) <= cx.now);
    if !known && !p.contains_key("principalType") {
        return Err(bad(
            "PrincipalNotFound",
            format!(
                "Principal {} does not exist in the directory {}. Check that you have the correct principal ID. If you are creating this principal and then immediately assigning a role, this error might be related to a replication delay. In this case, set the role assignment principalType property to a value, such as ServicePrincipal, User, or Group.",
                principal.replace('-', ""),
                cx.state.tenant
            ),
        ));
    }
    let scope = scope_key(id.extended().as_ref());
    if let Some(old) = old {
        let same = |f: &str, v: &str| {
            old.property(f).and_then(Value::as_str).is_some_and(|o| o.eq_ignore_ascii_case(v))
        };
        let old_role = old.property("roleDefinitionId").and_then(Value::as_str).unwrap_or_default();
        if !same("principalId", &principal) || !old_role.to_lowercase().ends_with(&role) {
            return Err(bad(
                "RoleAssignmentUpdateNotPermitted",
                "Tenant ID, application ID, principal ID, and scope are not allowed to be updated.",
            ));
        }
    } else {
        let twin = cx.state.assignments.of(&principal).any(|a| a.role == role && a.scope == scope);
        if twin {
            return Err(Fault::plain(
                StatusCode::CONFLICT,
                "RoleAssignmentExists",
                "The role assignment already exists.",
            ));
        }
        if cx.state.assignments.all().count() >= MAX_ASSIGNMENTS {
            return Err(bad(
                "RoleAssignmentLimitExceeded",
                "The maximum number of role assignments is reached.",
            ));
        }
    }
    let now = cx.now.to_string();
    let mut out = Map::new();
    out.insert("roleDefinitionId".into(), role_definition_id(id, &role).into());
    out.insert("principalId".into(), principal.as_str().into());
    let kind = p.get("principalType").and_then(Value::as_str).unwrap_or("ServicePrincipal");
    out.insert("principalType".into(), kind.into());
    out.insert(
        "scope".into(),
        id.extended().map_or_else(|| "/".to_owned(), |s| s.as_str().to_owned()).into(),
    );
    for f in ["condition", "conditionVersion"] {
        out.insert(f.into(), p.get(f).cloned().unwrap_or_default());
    }
    out.insert("createdOn".into(), old.map_or_else(|| now.clone(), |o| o.created.to_string()).into());
    out.insert("updatedOn".into(), now.into());
    out.insert("createdBy".into(), cx.caller.object_id.as_str().into());
    out.insert("updatedBy".into(), cx.caller.object_id.as_str().into());
    for f in ["delegatedManagedIdentityResourceId", "description"] {
        out.insert(f.into(), p.get(f).cloned().unwrap_or_default());
    }
    let Some(record) = record(cx, kinds::ASSIGNMENTS, id.clone(), out, old) else {
        return Err(super::not_allowed(cx));
    };
    let mut body = show(cx.state, &record, &cx.version);
    cx.state.put(record, Vec::new());
    // Writing it again does not take it back.
    let made = old.map_or(cx.now, |o| o.created);
    let since = cx.state.lags.rights(cx.state.seed, id.key(), made);
    cx.state.assignments.add(Assignment { id: id.key().clone(), principal, role, scope, since });
    // The first answer does not say who made it yet.
    if old.is_none() {
        body["properties"]["createdBy"] = Value::Null;
    }
    Ok(Reply::json(if old.is_some() { StatusCode::OK } else { StatusCode::CREATED }, body))
}

fn role_definition_id(at: &ResourceId, role: &str) -> String {
    let prefix = at.subscription().map_or(String::new(), |s| format!("/subscriptions/{s}"));
    format!("{prefix}/providers/Microsoft.Authorization/roleDefinitions/{role}")
}

fn show_role(cx: &Cx<'_>, at: Option<&ResourceId>, role: &Role) -> Value {
    let s = at.and_then(ResourceId::subscription);
    let prefix = s.map_or(String::new(), |s| format!("/subscriptions/{s}"));
    let id = format!("{prefix}/providers/Microsoft.Authorization/roleDefinitions/{}", role.id);
    if let Some(r) = cx.state.get(&id.to_lowercase()) {
        return show(cx.state, r, &cx.version);
    }
    let permissions: Vec<Value> = role.permissions.iter().map(Permission::json).collect();
    json!({
        "id": id, "name": role.id, "type": kinds::DEFINITIONS,
        "properties": {
            "roleName": role.name, "type": "BuiltInRole", "description": role.name, "assignableScopes": ["/"],
            "permissions": permissions, "createdOn": "2015-02-02T21:55:09.8806423Z",
            "updatedOn": "2024-01-01T00:00:00.0000000Z", "createdBy": null, "updatedBy": null,
        },
    })
}

pub fn definition(cx: &mut Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let name = id.name().to_lowercase();
    // Wherever it is written, a definition lives in the subscription.
    let home = ResourceId::parse(&role_definition_id(id, &name)).unwrap_or_else(|_| id.clone());
    let role = cx.state.assignments.role(&name).cloned();
    let missing = || {
        Fault::plain(
            StatusCode::NOT_FOUND,
            "RoleDefinitionDoesNotExist",
            format!("The specified role definition with ID '{name}' does not exist."),
        )
    };
    match (cx.call.method.as_str(), role) {
        ("GET", Some(r)) => Ok(Reply::ok(show_role(cx, Some(id), &r))),
        ("GET", None) => Err(missing()),
        ("PUT", Some(r)) if r.builtin => {
            Err(bad("RoleDefinitionUpdateNotAllowed", "Built-in roles cannot be changed."))
        }
        ("PUT", _) => put_definition(cx, &home),
        ("DELETE", Some(r)) if r.builtin => {
            Err(bad("RoleDefinitionDeleteNotAllowed", "Built-in roles cannot be deleted."))
        }
        ("DELETE", Some(r)) => {
            if cx.state.assignments.all().any(|a| a.role == r.id) {
                return Err(bad(
                    "RoleDefinitionHasAssignments",
                    "There are existing role assignments referencing role. Delete them first.",
                ));
            }
            let body = show_role(cx, Some(id), &r);
            cx.state.remove(home.key(), cx.now);
            cx.state.assignments.roles.remove(&r.id);
            Ok(Reply::ok(body))
        }
        ("DELETE", None) => Ok(Reply::empty(StatusCode::NO_CONTENT)),
        _ => Err(super::not_allowed(cx)),
    }
}

fn put_definition(cx: &mut Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let body = tree::body(cx)?;
    let p = body.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let role_name = p.get("roleName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let scopes = p.get("assignableScopes").and_then(Value::as_array).cloned().unwrap_or_default();
    let given = p.get("permissions").and_then(Value::as_array).cloned().unwrap_or_default();
    if !is_guid(id.name()) {
        return Err(bad(
            "InvalidRoleDefinitionId",
            format!("The role definition ID '{}' must be a GUID.", id.name()),
        ));
    }
    if role_name.is_empty() || scopes.is_empty() || given.is_empty() {
        return Err(bad("InvalidRoleDefinition", "roleName, assignableScopes and permissions are required."));
    }
    let name = id.name().to_lowercase();
    let taken =
        cx.state.assignments.roles.values().any(|r| r.name.eq_ignore_ascii_case(&role_name) && r.id != name);
    if taken {
        return Err(Fault::plain(
            StatusCode::CONFLICT,
            "RoleDefinitionWithSameNameExists",
            format!("A custom role with the name '{role_name}' already exists in this directory."),
        ));
    }
    let permissions: Vec<Permission> = given.iter().map(Permission::read).collect();
    let old = cx.state.get(id.key()).cloned();
    let now = cx.now.to_string();
    let mut out = Map::new();
    out.insert("roleName".into(), role_name.as_str().into());
    out.insert("type".into(), "CustomRole".into());
    out.insert("description".into(), p.get("description").cloned().unwrap_or_default());
    out.insert("assignableScopes".into(), scopes.into());
    out.insert("permissions".into(), permissions.iter().map(Permission::json).collect());
    out.insert(
        "createdOn".into(),
        old.as_ref().map_or_else(|| now.clone(), |o| o.created.to_string()).into(),
    );
    out.insert("updatedOn".into(), now.into());
    out.insert("createdBy".into(), cx.caller.object_id.as_str().into());
    out.insert("updatedBy".into(), cx.caller.object_id.as_str().into());
    let Some(record) = record(cx, kinds::DEFINITIONS, id.clone(), out, old.as_deref()) else {
        return Err(super::not_allowed(cx));
    };
    let mut shown = show(cx.state, &record, &cx.version);
    cx.state.put(record, Vec::new());
    let role = Role { id: name.clone(), name: role_name, builtin: false, permissions };
    cx.state.assignments.roles.insert(name, Arc::new(role));
    if old.is_none() {
        shown["properties"]["createdBy"] = Value::Null;
    }
    // Updates are answered with 201 too.
    Ok(Reply::json(StatusCode::CREATED, shown))
}

/// Lists of this namespace at any scope.
pub fn collection(cx: &Cx<'_>, scope: Option<&ResourceId>, kind: &str) -> Result<Reply, Fault> {
    if cx.call.method != "GET" {
        return Err(super::not_allowed(cx));
    }
    let filter = cx.call.query("$filter").unwrap_or_default();
    let at = scope_key(scope);
    let value: Vec<Value> = match kind {
        "roleassignments" => {
            let principal = comparison(filter, "principalId").or_else(|| assigned_to(filter));
            let only_above = filter.to_lowercase().contains("atscope()");
            cx.state
                .assignments
                .all()
                .filter(|a| {
                    let above = a.scope.is_empty() || is_within(&at, &a.scope);
                    let below = is_within(&a.scope, &at) && !only_above;
                    (above || below) && principal.as_ref().is_none_or(|p| a.principal.eq_ignore_ascii_case(p))
                })
                .filter_map(|a| cx.state.get(&a.id))
                .map(|r| show(cx.state, r, &cx.version))
                .collect()
        }
        "roledefinitions" => {
            let name = comparison(filter, "roleName");
            let of = comparison(filter, "type");
            let fits = |r: &Role| {
                name.as_ref().is_none_or(|n| r.name.eq_ignore_ascii_case(n))
                    && of.as_ref().is_none_or(|t| t.eq_ignore_ascii_case("BuiltInRole") == r.builtin)
            };
            cx.state.assignments.roles.values().filter(|r| fits(r)).map(|r| show_role(cx, scope, r)).collect()
        }
        "permissions" => {
            let all = cx.state.assignments.permissions(&cx.caller.object_id, &at);
            all.iter().map(Permission::json).collect()
        }
        "locks" => {
            let Some(k) = kinds::kind(kinds::LOCKS) else { return Err(super::not_allowed(cx)) };
            cx.state.of_kind(k, &at, None).map(|r| show(cx.state, r, &cx.version)).collect()
        }
        "denyassignments" => Vec::new(),
        _ => return Err(super::not_allowed(cx)),
    };
    Ok(Reply::ok(json!({"value": value})))
}

fn assigned_to(filter: &str) -> Option<String> {
    let from = filter.to_ascii_lowercase().find("assignedto('")? + "assignedto('".len();
    let rest = filter.get(from..)?;
    Some(rest[..rest.find('\'')?].to_owned())
}

pub fn lock(cx: &mut Cx<'_>, id: &ResourceId) -> Result<Reply, Fault> {
    let old = cx.state.get(id.key()).cloned();
    match (cx.call.method.as_str(), old) {
        ("GET", Some(r)) => Ok(Reply::ok(show(cx.state, &r, &cx.version))),
        ("GET", None) => Err(Fault::plain(
            StatusCode::NOT_FOUND,
            "LockNotFound",
            format!("The lock '{}' could not be found.", id.name()),
        )),
        ("DELETE", Some(_)) => {
            cx.state.remove(id.key(), cx.now);
            Ok(Reply::empty(StatusCode::OK))
        }
        ("DELETE", None) => Ok(Reply::empty(StatusCode::NO_CONTENT)),
        ("PUT", old) => {
            let body = tree::body(cx)?;
            let p = body.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
            let level = p.get("level").and_then(Value::as_str).unwrap_or_default();
            if !matches!(level, "CanNotDelete" | "ReadOnly") {
                return Err(bad("LockLevelNotValid", format!("The lock level '{level}' is not valid.")));
            }
            let Some(record) = record(cx, kinds::LOCKS, id.clone(), p, old.as_deref()) else {
                return Err(super::not_allowed(cx));
            };
            let shown = show(cx.state, &record, &cx.version);
            cx.state.put(record, Vec::new());
            Ok(Reply::json(if old.is_some() { StatusCode::OK } else { StatusCode::CREATED }, shown))
        }
        _ => Err(super::not_allowed(cx)),
    }
}
