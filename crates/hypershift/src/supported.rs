//! The `supported-versions` ConfigMap: which minors this operator can run, for command lines and services to read.

use apis::version;
use serde_json::{Value, json};

/// Name and label key in one.
pub const NAME: &str = "supported-versions";

/// The ConfigMap for the operator's namespace. `server` is the version of the operator itself.
pub fn config_map(namespace: &str, server: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": namespace,
            "labels": {format!("hypershift.openshift.io/{NAME}"): "true"}},
        "data": {
            "supported-versions": json!({"versions": version::supported()}).to_string(),
            "server-version": server,
        },
    })
}
