//! What a management cluster needs for this operator to run in it: an account, its rights, and a Deployment.
//!
//! An operator that hands out rights must have them. They are listed in one place (`assets/install.yaml`), in two parts:
//! what it does itself, and what it gives to the operators of control planes. A test holds everything that is rendered
//! for a cluster against the list, and another runs the operator with this account and nothing else.

use serde_json::{Value, json};

/// What differs from one installation to the next.
#[derive(Clone, Debug)]
pub struct Install {
    pub namespace: String,
    /// With our programs.
    pub image: String,
    /// One works, the others stand by.
    pub replicas: u32,
    /// As `--registry-overrides` takes them.
    pub registry_overrides: String,
    /// Client id of the identity that reads vaults, where managed identities are used.
    pub vault_reader: String,
    /// Word of the clusters to keep; all of them if there is none.
    pub scope: Option<String>,
}

impl Default for Install {
    fn default() -> Install {
        Install {
            namespace: "hypershift".into(),
            image: String::new(),
            replicas: 2,
            registry_overrides: String::new(),
            vault_reader: String::new(),
            scope: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the manifests of the operator cannot be read")]
pub struct Error(#[from] serde_saphyr::Error);

/// All objects, in the order in which they are applied.
pub fn objects(install: &Install) -> Result<Vec<Value>, Error> {
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": install.namespace, "labels": {
        "hypershift.openshift.io/component": "operator", "hypershift.openshift.io/monitoring": "true",
        "openshift.io/cluster-monitoring": "true"}}});
    let mut all = vec![space];
    for text in include_str!("../assets/install.yaml").split("\n---\n") {
        let mut object: Value = serde_saphyr::from_str(text)?;
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if !kind.starts_with("ClusterRole") {
            object["metadata"]["namespace"] = json!(install.namespace);
        }
        for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            subject["namespace"] = json!(install.namespace);
        }
        if kind == "Deployment" {
            complete(&mut object["spec"], install);
        }
        all.push(object);
    }
    Ok(all)
}

fn complete(spec: &mut Value, install: &Install) {
    spec["replicas"] = json!(install.replicas);
    let container = &mut spec["template"]["spec"]["containers"][0];
    container["image"] = json!(install.image);
    if let Some(args) = container["args"].as_array_mut().filter(|_| !install.registry_overrides.is_empty()) {
        args.push(json!(format!("--registry-overrides={}", install.registry_overrides)));
    }
    let mut variables = Vec::new();
    if !install.vault_reader.is_empty() {
        variables.push(("ARO_HCP_KEY_VAULT_USER_CLIENT_ID", install.vault_reader.as_str()));
    }
    if let Some(scope) = &install.scope {
        variables.push(("ENABLE_HOSTEDCLUSTERS_ANNOTATION_SCOPING", "true"));
        variables.push(("HOSTEDCLUSTERS_SCOPE_ANNOTATION", scope));
    }
    if let Some(env) = container["env"].as_array_mut() {
        env.extend(variables.into_iter().map(|(name, value)| json!({"name": name, "value": value})));
    }
}
