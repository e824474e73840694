//! What an install brings into a management cluster before any hosted cluster: definitions and priority classes.

use crate::External;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Where our operators live.
pub const HOME: &str = "hypershift";
const MANAGER: &str = "zaffre-install";
/// What is dearer goes later when nodes run full.
const CLASSES: [(&str, i32); 4] = [
    ("hypershift-operator", 100_003_000),
    ("hypershift-etcd", 100_002_000),
    ("hypershift-api-critical", 100_001_000),
    ("hypershift-control-plane", 100_000_000),
];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot apply {kind} {name}")]
    Apply { kind: &'static str, name: String, source: Box<kube::Error> },
    #[error("a definition cannot be written")]
    Write(#[from] serde_json::Error),
}

/// Applies it all; the `group/Kind`s that are served then.
pub async fn install(client: &Client, external: Option<&External>) -> Result<BTreeSet<String>, Error> {
    let params = PatchParams::apply(MANAGER).force();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut served = BTreeSet::new();
    let ours: Vec<CustomResourceDefinition> = match external {
        Some(_) => apis::crds_without_machines(),
        None => apis::crds(),
    };
    let mut all: Vec<Value> = ours.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    all.extend(external.iter().flat_map(|e| e.definitions.iter().cloned()));
    for mut object in all {
        let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = text("/metadata/name");
        served.insert(format!("{}/{}", text("/spec/group"), text("/spec/names/kind")));
        object["apiVersion"] = json!("apiextensions.k8s.io/v1");
        object["kind"] = json!("CustomResourceDefinition");
        let failed =
            |e| Error::Apply { kind: "CustomResourceDefinition", name: name.clone(), source: Box::new(e) };
        definitions.patch(&name, &params, &Patch::Apply(&object)).await.map_err(failed)?;
    }
    let classes: Api<PriorityClass> = Api::all(client.clone());
    for (name, value) in CLASSES {
        let object = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "description": "Pods of hosted control planes"});
        let failed = |e| Error::Apply { kind: "PriorityClass", name: name.to_owned(), source: Box::new(e) };
        classes.patch(name, &params, &Patch::Apply(&object)).await.map_err(failed)?;
    }
    let spaces: Api<Namespace> = Api::all(client.clone());
    for name in [HOME, crate::sample::NAMESPACE] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let failed = |e| Error::Apply { kind: "Namespace", name: name.to_owned(), source: Box::new(e) };
        spaces.patch(name, &params, &Patch::Apply(&object)).await.map_err(failed)?;
    }
    Ok(served)
}
