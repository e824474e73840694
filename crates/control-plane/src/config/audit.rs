//! Audit policies: what is recorded, by the profile the cluster asks for.

use super::yaml;
use crate::Error;
use crate::scope::Scope;
use serde_json::{Value, json};

/// A ConfigMap with the policy of one API server.
pub fn config(scope: &Scope, name: &str) -> Result<Value, Error> {
    let profile = scope.configuration["apiServer"]["audit"]["profile"].as_str().unwrap_or("Default");
    let policy = policy(profile)?;
    Ok(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"policy.yaml": yaml(&policy), "profile": profile},
    }))
}

fn policy(profile: &str) -> Result<Value, Error> {
    let secret_kinds = json!([
        {"group": "", "resources": ["secrets", "configmaps"]},
        {"group": "route.openshift.io", "resources": ["routes", "routes/status"]},
        {"group": "oauth.openshift.io", "resources": ["oauthclients", "tokenreviews"]},
        {"group": "authentication.k8s.io", "resources": ["tokenreviews", "tokenrequests"]},
    ]);
    let writes = json!(["update", "patch", "create", "delete", "deletecollection"]);
    let mut rules = vec![
        json!({"level": "None", "resources": [{"group": "", "resources": ["events"]}]}),
        json!({"level": "None", "resources": [{"group": "oauth.openshift.io",
            "resources": ["oauthaccesstokens", "oauthauthorizetokens"]}]}),
        json!({"level": "None", "nonResourceURLs": ["/api*", "/version", "/healthz", "/readyz", "/livez"],
            "userGroups": ["system:authenticated", "system:unauthenticated"]}),
    ];
    match profile {
        "None" => rules = vec![json!({"level": "None"})],
        "Default" => rules.push(json!({"level": "Metadata"})),
        "WriteRequestBodies" => {
            rules.push(json!({"level": "Metadata", "resources": secret_kinds}));
            rules.push(json!({"level": "RequestResponse", "verbs": writes}));
            rules.push(json!({"level": "Metadata"}));
        }
        "AllRequestBodies" => {
            rules.push(json!({"level": "Metadata", "resources": secret_kinds}));
            rules.push(json!({"level": "RequestResponse"}));
        }
        other => {
            return Err(Error::Configuration {
                field: "configuration.apiServer.audit.profile".into(),
                why: format!("{other:?} is none of Default, WriteRequestBodies, AllRequestBodies, None"),
            });
        }
    }
    Ok(json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "metadata": {"name": profile},
        "omitStages": ["RequestReceived"], "rules": rules,
    }))
}
