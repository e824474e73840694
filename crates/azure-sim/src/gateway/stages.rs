//! The stages before dispatch. Each refuses with its own code, and knows nothing of the others.

use crate::entra::Caller;
use crate::gateway::{NAMESPACES, deployments, machines, operations, own, views};
use crate::kinds;
use crate::provider::Providers;
use crate::state::{Phase, Principal, State, is_within};
use crate::target::Target;
use crate::wire::{Call, Fault};
use arm::{ApiVersion, ResourceId, code};
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::Value;
use std::sync::Arc;

fn is_guid(s: &str) -> bool {
    s.len() == 36
        && s.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

pub fn subscription(state: &State, target: &Target) -> Result<(), Fault> {
    let Some(s) = target.of.as_ref().and_then(ResourceId::subscription) else { return Ok(()) };
    if !is_guid(s) {
        return Err(Fault::gateway(
            StatusCode::BAD_REQUEST,
            code::INVALID_SUBSCRIPTION_ID,
            format!("The provided subscription identifier '{s}' is malformed or invalid."),
        ));
    }
    if !state.subscriptions.contains_key(&s.to_lowercase()) {
        return Err(Fault::gateway(
            StatusCode::NOT_FOUND,
            code::SUBSCRIPTION_NOT_FOUND,
            format!("The subscription '{s}' could not be found."),
        ));
    }
    Ok(())
}

/// The full type a request is about, if it is about one.
pub fn type_of(target: &Target) -> Option<String> {
    let id = target.of.as_ref();
    match target.rest.as_slice() {
        [] => id.filter(|i| i.namespace().is_some()).map(|i| i.resource_type().as_str().to_owned()),
        [p, ns, kind] if p.eq_ignore_ascii_case("providers") => Some(format!("{ns}/{kind}")),
        [word] => id.filter(|i| i.namespace().is_some()).map(|i| format!("{}/{word}", i.resource_type())),
        _ => None,
    }
}

/// Words that are not types although they stand where types stand.
const NOT_TYPES: [&str; 9] = [
    "register",
    "unregister",
    "permissions",
    "tags",
    "recordsets",
    "all",
    "denyassignments",
    "locations",
    "validate",
];

/// The namespace that answers for a request, if one does. Registering is Resource Manager's own affair.
pub fn namespace(target: &Target) -> Option<&str> {
    match (&target.of, target.rest.as_slice()) {
        (_, [p, ns, word])
            if p.eq_ignore_ascii_case("providers")
                && !word.eq_ignore_ascii_case("register")
                && !word.eq_ignore_ascii_case("unregister") =>
        {
            Some(ns)
        }
        (_, [p, ..]) if p.eq_ignore_ascii_case("providers") => None,
        (Some(id), _) => id.namespace(),
        _ => None,
    }
}

pub fn version(call: &Call, target: &Target, proxied: &Providers) -> Result<ApiVersion, Fault> {
    let Some(text) = call.query("api-version").filter(|v| !v.is_empty()) else {
        return Err(Fault::gateway(
            StatusCode::BAD_REQUEST,
            code::MISSING_API_VERSION,
            "The api-version query parameter (?api-version=) is required for all requests.",
        ));
    };
    let version: ApiVersion = text.parse().map_err(|_| {
        Fault::gateway(
            StatusCode::BAD_REQUEST,
            code::INVALID_API_VERSION,
            format!(
                "The api-version '{text}' is invalid. The supported versions are dates such as '2024-03-01'."
            ),
        )
    })?;
    let Some(full) = type_of(target).filter(|_| operations::token(target).is_none()) else {
        return Ok(version);
    };
    let (ns, path) = full.split_once('/').unwrap_or((&full, ""));
    // What versions a provider elsewhere has, it says itself.
    if proxied.find(ns).is_some() {
        return Ok(version);
    }
    if !NAMESPACES.iter().any(|(n, _)| n.eq_ignore_ascii_case(ns)) {
        return Err(Fault::gateway(
            StatusCode::NOT_FOUND,
            code::INVALID_RESOURCE_NAMESPACE,
            format!("The resource namespace '{ns}' is invalid."),
        ));
    }
    let last = path.rsplit('/').next().unwrap_or_default();
    if own::is_own(target) {
        return Ok(version);
    }
    if NOT_TYPES.iter().any(|w| last.eq_ignore_ascii_case(w)) {
        return Ok(version);
    }
    let lower = full.to_lowercase();
    if machines::knows(&lower) || deployments::knows(&lower) {
        return Ok(version);
    }
    let parent = path.rsplit_once('/').map_or("", |(p, _)| p);
    if kinds::kind(&format!("{ns}/{parent}")).is_some_and(|k| views::is_view(k.path, &last.to_lowercase())) {
        return Ok(version);
    }
    match kinds::resolve(&full) {
        Some((kind, _)) if version.date() < kind.since => Err(Fault::gateway(
            StatusCode::BAD_REQUEST,
            code::NO_REGISTERED_PROVIDER,
            format!(
                "No registered resource provider found for location '' and API version '{version}' for type '{path}'."
            ),
        )),
        Some(_) => Ok(version),
        None => Err(Fault::gateway(
            StatusCode::NOT_FOUND,
            code::INVALID_RESOURCE_TYPE,
            format!(
                "The resource type '{path}' could not be found in the namespace '{ns}' for api version '{version}'."
            ),
        )),
    }
}

/// Lists of a whole subscription that are shown to whoever has a role anywhere in it. Not recorded, but it follows: the
/// machine provider of hosted control planes lists sizes before each machine, and the built-in role it is given, on a
/// resource group and a network, has no such action.
const SHOWN_INSIDE: [&str; 1] = ["Microsoft.Compute/skus/read"];

/// The id of the assignment that allows it.
pub fn authorize(state: &State, caller: &Caller, action: &str, scope: &str) -> Result<String, Fault> {
    let key = scope.trim_end_matches('/').to_lowercase();
    if let Some(a) = state.assignments.allowed(&caller.object_id, action, &key, false) {
        return Ok(a.id.to_string());
    }
    if SHOWN_INSIDE.iter().any(|a| a.eq_ignore_ascii_case(action))
        && let Some(a) = state.assignments.any_below(&caller.object_id, &key)
    {
        return Ok(a.id.to_string());
    }
    Err(Fault::gateway(
        StatusCode::FORBIDDEN,
        code::AUTHORIZATION_FAILED,
        format!(
            "The client '{}' with object id '{}' does not have authorization to perform action '{action}' over scope '{scope}' or the scope is invalid. If access was recently granted, please refresh your credentials.",
            caller.client_id, caller.object_id
        ),
    ))
}

pub fn registration(state: &State, method: &Method, target: &Target) -> Result<(), Fault> {
    let Some(id) = &target.of else { return Ok(()) };
    let (Some(ns), Some(s)) = (id.namespace(), id.subscription()) else { return Ok(()) };
    // Reading what cannot exist is a plain 404.
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    match state.registrations.get(&(s.to_lowercase(), ns.to_lowercase())).copied() {
        Some("Registered") => Ok(()),
        _ => Err(Fault::gateway(
            StatusCode::CONFLICT,
            code::MISSING_SUBSCRIPTION_REGISTRATION,
            format!(
                "The subscription is not registered to use namespace '{ns}'. See https://aka.ms/rps-not-found for how to register subscriptions."
            ),
        )),
    }
}

/// Whoever gives a resource an identity must be allowed to assign it, and it must exist.
pub fn assigned_identities(state: &State, call: &Call, caller: &Caller, now: Timestamp) -> Result<(), Fault> {
    if !matches!(call.method, Method::PUT | Method::PATCH) {
        return Ok(());
    }
    let Ok(body) = serde_json::from_slice::<Value>(&call.body) else { return Ok(()) };
    let given = body.get("identity").and_then(|i| i.get("userAssignedIdentities")).and_then(Value::as_object);
    for (id, value) in given.into_iter().flatten() {
        // Taking one away needs nothing.
        if value.is_null() && call.method == Method::PATCH {
            continue;
        }
        let key = id.to_lowercase();
        let late = |p: &Arc<Principal>| state.lags.principal(state.seed, p) > now;
        if state.get(&key).is_none() || state.directory.of_resource(&key).is_some_and(late) {
            return Err(Fault::gateway(
                StatusCode::BAD_REQUEST,
                "FailedIdentityOperation",
                format!(
                    "Identity operation for resource '{}' failed with error 'Failed to perform resource identity operation. Status: 'BadRequest'. Response: '{{\"error\":{{\"code\":\"BadRequest\",\"message\":\"Resource '{id}' was not found.\"}}}}''.",
                    call.path
                ),
            ));
        }
        let action = "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action";
        if state.assignments.allowed(&caller.object_id, action, &key, false).is_none() {
            return Err(Fault::gateway(
                StatusCode::FORBIDDEN,
                "LinkedAuthorizationFailed",
                format!(
                    "The client '{}' with object id '{}' has permission to perform the request over scope '{}'; however, it does not have permission to perform action(s) '{action}' on the linked scope(s) '{id}' (respectively) or the linked scope(s) are invalid.",
                    caller.client_id, caller.object_id, call.path
                ),
            ));
        }
    }
    Ok(())
}

pub fn existence(state: &State, method: &Method, target: &Target, elsewhere: bool) -> Result<(), Fault> {
    let Some(id) = &target.of else { return Ok(()) };
    let writes = !matches!(*method, Method::GET | Method::HEAD);
    if let (Some(s), Some(g)) = (id.subscription(), id.group()) {
        let makes_it = id.namespace().is_none() && target.rest.is_empty();
        let key = format!("/subscriptions/{s}/resourcegroups/{g}").to_lowercase();
        match state.get(&key) {
            None if makes_it => {}
            None => {
                return Err(Fault::gateway(
                    StatusCode::NOT_FOUND,
                    code::RESOURCE_GROUP_NOT_FOUND,
                    format!("Resource group '{g}' could not be found."),
                ));
            }
            Some(group) if group.phase == Phase::Deleting && writes && *method != Method::DELETE => {
                return Err(Fault::gateway(
                    StatusCode::CONFLICT,
                    code::RESOURCE_GROUP_BEING_DELETED,
                    format!(
                        "The resource group '{g}' is in deprovisioning state and cannot perform this operation."
                    ),
                ));
            }
            Some(_) => {}
        }
    }
    // What exists elsewhere, a provider elsewhere knows.
    if elsewhere {
        return Ok(());
    }
    if own::is_own(target) {
        return own::existence(state, method, id);
    }
    // A delete below a resource that is gone is answered for that resource.
    if *method == Method::DELETE && id.pairs().len() > 1 && !id.is_extension() {
        let root = id.root();
        if state.get(root.key()).is_none() {
            let (kind, name, group) = (root.resource_type(), root.name(), root.group().unwrap_or_default());
            return Err(Fault::gateway(
                StatusCode::NOT_FOUND,
                code::RESOURCE_NOT_FOUND,
                format!(
                    "The Resource '{kind}/{name}' under resource group '{group}' was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix"
                ),
            ));
        }
    }
    parent(state, id, method, target)
}

fn parent(state: &State, id: &ResourceId, method: &Method, target: &Target) -> Result<(), Fault> {
    let nested = id.pairs().len() > 1;
    let Some(parent) = id.parent().filter(|_| nested && operations::token(target).is_none()) else {
        return Ok(());
    };
    if *method != Method::PUT || state.get(parent.key()).is_some() {
        return Ok(());
    }
    let names: Vec<&str> = id.pairs().into_iter().map(|(_, n)| n).collect();
    Err(Fault::gateway(
        StatusCode::NOT_FOUND,
        code::PARENT_RESOURCE_NOT_FOUND,
        format!(
            "Failed to perform '{}' on resource(s) of type '{}', because the parent resource '{parent}' could not be found ('{}').",
            method.as_str().to_lowercase(),
            id.resource_type().path(),
            names.join("/"),
        ),
    ))
}

pub fn locks(state: &State, method: &Method, target: &Target) -> Result<(), Fault> {
    let Some(id) = &target.of else { return Ok(()) };
    if matches!(*method, Method::GET | Method::HEAD) || id.resource_type().is(kinds::LOCKS) {
        return Ok(());
    }
    let (Some(s), Some(kind)) = (id.subscription(), kinds::kind(kinds::LOCKS)) else { return Ok(()) };
    let deletes = *method == Method::DELETE;
    let root = format!("/subscriptions/{s}").to_lowercase();
    for lock in state.of_kind(kind, &root, None) {
        let Some(scope) = lock.id.extended() else { continue };
        let read_only = lock.property("level").and_then(Value::as_str) == Some("ReadOnly");
        let covers = is_within(id.key(), scope.key()) || (deletes && is_within(scope.key(), id.key()));
        if covers && (deletes || read_only) {
            let (verb, scope) = (if deletes { "delete" } else { "write" }, scope.as_str());
            return Err(Fault::gateway(
                StatusCode::CONFLICT,
                code::SCOPE_LOCKED,
                format!(
                    "The scope '{id}' cannot perform {verb} operation because following scope(s) are locked: '{scope}'. Please remove the lock and try again."
                ),
            ));
        }
    }
    Ok(())
}
