//! Configuration files that the programs read, each from the facts alone.

pub mod audit;
pub mod azure;
pub mod catalogs;
pub mod controllers;
pub mod encryption;
pub mod etcd;
pub mod features;
pub mod forwarding;
pub mod kube_apiserver;
pub mod oauth;
pub mod openshift_apiserver;
pub mod operators;
pub mod providers;
pub mod router;
pub mod version;

use crate::scope::Scope;
use serde_json::{Value, json};

/// Whether a component may be profiled; `disable-profiling` lists those that may not.
pub(crate) fn profiled(scope: &Scope, component: &str) -> bool {
    let without = scope.annotation("disable-profiling").unwrap_or_default();
    !without.split(',').any(|c| c.trim() == component)
}

pub(crate) fn config_map(name: &str, key: &str, text: String) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {key: text}})
}

/// A Secret in text; the API server encodes it.
pub(crate) fn secret(name: &str, key: &str, text: String) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name}, "stringData": {key: text},
    })
}

/// As YAML; a JSON document is one, so this cannot fail.
pub(crate) fn yaml(document: &Value) -> String {
    serde_saphyr::to_string(document).unwrap_or_else(|_| document.to_string())
}

/// As JSON, for people to read.
pub(crate) fn pretty(document: &Value) -> String {
    serde_json::to_string_pretty(document).unwrap_or_else(|_| document.to_string())
}
