//! The guest's FeatureGate, which payload programs turn into gates of their own.

use super::yaml;
use crate::scope::Scope;
use serde_json::{Value, json};

pub fn document(scope: &Scope) -> String {
    let asked = &scope.configuration["featureGate"];
    let spec = if asked.is_object() { asked.clone() } else { json!({}) };
    yaml(&json!({
        "apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"},
        "spec": spec,
    }))
}

/// The set of features that was asked for, as manifests of a payload name it.
pub fn set(scope: &Scope) -> &str {
    let asked = scope.configuration["featureGate"]["featureSet"].as_str();
    asked.filter(|s| !s.is_empty()).unwrap_or("Default")
}

/// Gates that the API server must have, whatever else was asked for.
pub const FORCED: [&str; 2] =
    ["StructuredAuthenticationConfiguration=true", "ValidatingAdmissionPolicy=true"];

/// Gates a user turned on or off by name, as flags take them.
pub fn custom(scope: &Scope) -> Vec<String> {
    let asked = &scope.configuration["featureGate"]["customNoUpgrade"];
    let list = |key: &str, on: bool| {
        let names = asked[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.map(move |n| format!("{n}={on}")).collect::<Vec<_>>()
    };
    let mut gates = list("enabled", true);
    gates.extend(list("disabled", false));
    gates
}
