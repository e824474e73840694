//! Resource providers and their registration.

use crate::gateway::Cx;
use crate::gateway::groups::LOCATIONS;
use crate::kinds::TABLE;
use crate::state::{Effect, Operation};
use crate::wire::{Fault, Reply};
use arm::{ResourceId, code};
use http::StatusCode;
use serde_json::{Value, json};

/// Namespaces that exist, and whether a new subscription has them.
pub const NAMESPACES: [(&str, bool); 13] = [
    ("Microsoft.Resources", true),
    ("Microsoft.Authorization", true),
    ("Microsoft.Network", true),
    ("Microsoft.ManagedIdentity", true),
    ("Microsoft.Compute", true),
    ("Microsoft.Storage", true),
    ("Microsoft.KeyVault", true),
    ("Microsoft.RedHatOpenShift", true),
    ("Microsoft.ContainerRegistry", false),
    ("Microsoft.ContainerService", false),
    ("Microsoft.OperationalInsights", false),
    ("Microsoft.Insights", false),
    ("Microsoft.ResourceHealth", true),
];

fn shown(cx: &Cx<'_>, scope: Option<&ResourceId>, ns: &str) -> Value {
    let places: Vec<&str> = LOCATIONS.iter().map(|(_, d)| *d).collect();
    let types: Vec<Value> = TABLE
        .iter()
        .filter(|k| k.namespace == ns)
        .map(|k| json!({"resourceType": k.path, "locations": places, "apiVersions": ["2024-03-01", k.since], "capabilities": "None"}))
        .collect();
    let mut v = json!({"namespace": ns, "resourceTypes": types});
    if let Some(s) = scope.and_then(ResourceId::subscription) {
        let state = cx.state.registrations.get(&(s.to_lowercase(), ns.to_lowercase())).copied();
        v["id"] = format!("/subscriptions/{s}/providers/{ns}").into();
        v["registrationState"] = state.unwrap_or("NotRegistered").into();
        v["registrationPolicy"] = "RegistrationRequired".into();
    }
    v
}

fn known<'a>(cx: &Cx<'a>, ns: &str) -> Result<&'a str, Fault> {
    let built_in = NAMESPACES.iter().find(|(n, _)| n.eq_ignore_ascii_case(ns)).map(|(n, _)| *n);
    built_in.or_else(|| cx.proxied.find(ns).map(|p| p.namespace.as_str())).ok_or_else(|| {
        Fault::gateway(
            StatusCode::NOT_FOUND,
            code::INVALID_RESOURCE_NAMESPACE,
            format!("The resource namespace '{ns}' is invalid."),
        )
    })
}

pub fn list(cx: &Cx<'_>, scope: Option<&ResourceId>) -> Reply {
    let built_in = NAMESPACES.iter().map(|(n, _)| *n);
    let others = cx.proxied.names().filter(|p| !NAMESPACES.iter().any(|(n, _)| n.eq_ignore_ascii_case(p)));
    let value: Vec<Value> = built_in.chain(others).map(|n| shown(cx, scope, n)).collect();
    Reply::ok(json!({"value": value}))
}

pub fn get(cx: &Cx<'_>, scope: Option<&ResourceId>, ns: &str) -> Result<Reply, Fault> {
    Ok(Reply::ok(shown(cx, scope, known(cx, ns)?)))
}

pub fn register(cx: &mut Cx<'_>, scope: &ResourceId, ns: &str) -> Result<Reply, Fault> {
    let ns = known(cx, ns)?;
    let key = (scope.subscription().unwrap_or_default().to_lowercase(), ns.to_lowercase());
    if cx.state.registrations.get(&key).copied() != Some("Registered") {
        cx.state.registrations.insert(key.clone(), "Registering");
        let about = scope.provider(ns, "registrations", "self").map(|i| i.key().clone()).unwrap_or_default();
        cx.state.bump(&about);
        let due = cx.profile.lasts(30.0).and_then(|d| cx.now.checked_add(d).ok());
        let id = cx.state.guid(&about, "operation").as_str().into();
        let effect = Effect::Register(key.0.into(), key.1.into());
        cx.state.begin(Operation { retry: 15, ..Operation::new(id, due, effect, "Register".into()) });
    }
    Ok(Reply::ok(shown(cx, Some(scope), ns)))
}

pub fn unregister(cx: &mut Cx<'_>, scope: &ResourceId, ns: &str) -> Result<Reply, Fault> {
    let ns = known(cx, ns)?;
    let key = (scope.subscription().unwrap_or_default().to_lowercase(), ns.to_lowercase());
    let used = cx.state.below(scope.key()).any(|r| r.id.namespace() == Some(ns));
    if used {
        return Err(Fault::gateway(
            StatusCode::CONFLICT,
            "ResourceProviderUnregistrationFailed",
            format!("Cannot unregister '{ns}': the subscription has resources of it."),
        ));
    }
    cx.state.registrations.insert(key, "NotRegistered");
    Ok(Reply::ok(shown(cx, Some(scope), ns)))
}
