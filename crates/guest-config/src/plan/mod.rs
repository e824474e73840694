//! What a guest should have, as a function of facts.
//!
//! Pure: the same facts give the same objects, which is what the golden files hold us to. What cannot be said yet,
//! because the control plane has not written it, is left out and named in [`Plan::lacking`].

mod aggregated;
mod cloud;
mod config;
mod network;
mod operators;
mod trust;

pub use aggregated::BACKENDS;
pub use trust::SOURCE;

use crate::definitions;
use crate::facts::{Facts, Serving};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use control_plane::{component, words};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// On everything we keep: what a watch selects by, and what is removed when it is no longer wanted.
pub const LABEL: (&str, &str) = ("hypershift.openshift.io/config-operator", "true");

/// How an object is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As planned, always.
    Keep,
    /// Made if absent; then it is somebody else's.
    Once,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub object: Value,
    /// What its status says, where that is ours to say.
    pub status: Option<Value>,
    pub mode: Mode,
}

/// Everything, in an order in which it can be written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Definitions, to be made if absent: they are the payload's, as soon as it brings them.
    pub definitions: Vec<&'static Value>,
    pub items: Vec<Item>,
    /// What the control plane's namespace does not have yet, and which objects wait for it.
    pub lacking: Vec<String>,
    /// What runs an image that this release does not have, and is therefore not there.
    pub without: Vec<String>,
}

impl Plan {
    fn keep(&mut self, object: Value) {
        self.items.push(Item { object, status: None, mode: Mode::Keep });
    }

    fn keep_with_status(&mut self, object: Value, status: Value) {
        self.items.push(Item { object, status: Some(status), mode: Mode::Keep });
    }

    fn once(&mut self, object: Value) {
        self.items.push(Item { object, status: None, mode: Mode::Once });
    }

    fn lack(&mut self, what: &str, hinders: &str) {
        self.lacking.push(format!("{what} for {hinders}"));
    }

    /// Documents of an asset, filled in. Those that run an image the release does not have are left out.
    fn asset(&mut self, f: &Facts, asset: &'static Asset, mode: Mode) {
        for document in asset.documents() {
            if let Some(missing) = missing_image(f, document) {
                self.without.push(format!(
                    "{} {} (image {missing})",
                    document["kind"].as_str().unwrap_or_default(),
                    name(document)
                ));
                continue;
            }
            let mut object = document.clone();
            match words::fill(&f.scope, asset.name, &mut object) {
                Ok(()) => self.items.push(Item { object, status: None, mode }),
                Err(e) => self.lack(&e.to_string(), name(document)),
            }
        }
    }
}

/// Plain YAML, read once in a process.
struct Asset {
    name: &'static str,
    text: &'static str,
    read: OnceLock<Vec<Value>>,
}

impl Asset {
    const fn new(name: &'static str, text: &'static str) -> Asset {
        Asset { name, text, read: OnceLock::new() }
    }

    fn documents(&self) -> &[Value] {
        // A test reads every asset: one that is no YAML does not get this far.
        self.read.get_or_init(|| {
            self.text.split("\n---\n").filter_map(|d| serde_saphyr::from_str(d).ok()).collect()
        })
    }
}

macro_rules! asset {
    ($name:literal) => {
        Asset::new($name, include_str!(concat!("../../assets/", $name, ".yaml")))
    };
}

static NAMESPACES: Asset = asset!("namespaces");
static RBAC: Asset = asset!("rbac");
static POLICIES: Asset = asset!("policies");
static BLOCKED: Asset = asset!("blocked");
static OPERATORS: Asset = asset!("operators");
static CLOUD: Asset = asset!("cloud");
static KONNECTIVITY: Asset = asset!("konnectivity");
static CHECKER: Asset = asset!("checker");

fn name(document: &Value) -> &str {
    document["metadata"]["name"].as_str().unwrap_or_default()
}

fn missing_image<'a>(f: &Facts, document: &'a Value) -> Option<&'a str> {
    let containers = document["spec"]["template"]["spec"]["containers"].as_array()?;
    let keys =
        containers.iter().filter_map(|c| c["image"].as_str()?.strip_prefix("{{image:")?.strip_suffix("}}"));
    keys.into_iter().find(|key| component::image(&f.scope, key).is_none_or(|i| i.is_empty()))
}

/// What the guest should have.
pub fn plan(f: &Facts) -> Plan {
    let mut p = Plan::default();
    p.definitions.extend(definitions::always());
    if f.serving == Serving::Definitions {
        p.definitions.extend(definitions::instead());
    }
    p.asset(f, &NAMESPACES, Mode::Keep);
    p.asset(f, &RBAC, Mode::Keep);
    policies(f, &mut p);
    config::plan(f, &mut p);
    trust::plan(f, &mut p);
    network::plan(f, &mut p);
    cloud::plan(f, &mut p);
    aggregated::plan(f, &mut p);
    operators::plan(f, &mut p);
    for item in &mut p.items {
        item.object = labelled(item.object.take());
    }
    p
}

/// The policy that keeps new things out of Azure while the cluster is being deleted, and its binding.
pub fn blocking() -> Vec<Value> {
    let policies = BLOCKED.documents().to_vec();
    let bindings: Vec<Value> = policies.iter().map(|d| binding(name(d))).collect();
    policies.into_iter().chain(bindings).map(labelled).collect()
}

fn labelled(mut object: Value) -> Value {
    object["metadata"]["labels"][LABEL.0] = json!(LABEL.1);
    object
}

fn binding(policy: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": format!("{policy}-binding")},
        "spec": {"policyName": policy, "validationActions": ["Deny"]},
    })
}

/// Policies, each with the binding that makes it count.
fn policies(f: &Facts, p: &mut Plan) {
    let before = p.items.len();
    p.asset(f, &POLICIES, Mode::Keep);
    let bindings: Vec<Value> = p.items[before..].iter().map(|i| binding(name(&i.object))).collect();
    for binding in bindings {
        p.keep(binding);
    }
}

fn secret(namespace: &str, name: &str, kind: &str, data: &[(&str, &[u8])]) -> Value {
    let data: serde_json::Map<String, Value> =
        data.iter().map(|(k, v)| ((*k).to_owned(), json!(STANDARD.encode(v)))).collect();
    json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": name, "namespace": namespace}, "data": data})
}

fn config_map(namespace: &str, name: &str, key: &str, text: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {key: text}})
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn every_document_of_every_asset_is_an_object() {
        let all = [&NAMESPACES, &RBAC, &POLICIES, &BLOCKED, &OPERATORS, &CLOUD, &KONNECTIVITY, &CHECKER];
        let kinds = crate::kinds::all();
        for asset in all {
            let documents: Vec<Value> =
                asset.text.split("\n---\n").map(|d| serde_saphyr::from_str(d).unwrap()).collect();
            assert_eq!(documents.len(), asset.documents().len());
            for d in documents {
                kinds.locate(&d).unwrap_or_else(|e| panic!("{}: {e}", asset.name));
            }
        }
    }
}
