//! Tuning: what users wrote for the node tuning operator reaches it, and what it made of that reaches nodes.
//!
//! ```text
//! spec.tuningConfig ─> ConfigMaps tuned-<np> (Tuned), pp-<np> (PerformanceProfile) ─> node tuning operator
//!   nodes, rolled <─ MachineConfig, KubeletConfig: label nto-generated-machine-config <─┤
//!   conditions    <─ how the profile fares: label nto-generated-performance-profile-status <─┘
//! ```
//!
//! All of it lies in the control plane's namespace, where that operator runs. A profile alone rolls nothing: daemons in the
//! guest apply it. What needs another boot (kernel arguments, huge pages) comes back as manifests, and those do.

use super::text::canonical;
use super::watched::Word;
use super::{belong, name};
use crate::inputs::{Data, Given};
use apis::hypershift::{HostedCluster, NodePool};
use apis::names::label;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::sync::Arc;

/// The key of both, as users have it.
const KEY: &str = "tuning";

pub fn tuned_name(pool: &str) -> String {
    format!("tuned-{pool}")
}

pub fn profile_name(pool: &str) -> String {
    format!("pp-{pool}")
}

/// The ConfigMaps that the node tuning operator reads, from documents that were checked.
pub fn objects(hc: &HostedCluster, np: &NodePool, documents: &[Value]) -> Vec<Value> {
    let of = |kind: &str| -> Vec<String> {
        let mut all: Vec<String> = documents.iter().filter(|d| d["kind"] == kind).map(canonical).collect();
        all.sort_unstable();
        all
    };
    [
        (of("Tuned"), tuned_name(name(np)), label::TUNED_CONFIG),
        (of("PerformanceProfile"), profile_name(name(np)), label::PERFORMANCE_PROFILE_CONFIG),
    ]
    .into_iter()
    .filter(|(documents, ..)| !documents.is_empty())
    .map(|(documents, object, sort)| {
        belong(
            hc,
            np,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {KEY: documents.join("\n---\n")}, "metadata": {
                "name": object, "labels": {label::NODE_POOL: name(np), sort: "true"}}}),
        )
    })
    .collect()
}

/// A ConfigMap that a pool and the node tuning operator share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    pub name: String,
    /// The pool's name; it is of the cluster whose namespace this is.
    pub pool: String,
    pub what: What,
}

impl Shared {
    /// Manifests for nodes, as a ConfigMap of the user's would hold them.
    pub fn made(&self) -> Option<Given> {
        let What::Made(config) = &self.what else { return None };
        let data: Data = [("config".to_owned(), config.clone().into_bytes())].into();
        Some(Given { data: Arc::new(data), type_: String::new(), placeholder: false })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Written here.
    Asked,
    /// Manifests for nodes.
    Made(String),
    /// Conditions of the profile, by type.
    Said(Vec<(String, Word)>),
}

/// What is kept of it.
pub fn read(o: &DynamicObject) -> Option<Shared> {
    let labels = o.metadata.labels.as_ref()?;
    let is = |key: &str| labels.get(key).is_some_and(|v| v == "true");
    let text = |key: &str| o.data["data"][key].as_str().unwrap_or_default().to_owned();
    let what = if is(label::TUNED_CONFIG) || is(label::PERFORMANCE_PROFILE_CONFIG) {
        What::Asked
    } else if is(label::NTO_GENERATED_CONFIG) {
        What::Made(text("config"))
    } else if is(label::NTO_GENERATED_STATUS) {
        What::Said(conditions(&text("status")))
    } else {
        return None;
    };
    Some(Shared { name: o.metadata.name.clone()?, pool: labels.get(label::NODE_POOL)?.clone(), what })
}

fn conditions(status: &str) -> Vec<(String, Word)> {
    let status: Value = serde_saphyr::from_str(status).unwrap_or_default();
    let all = status["conditions"].as_array().into_iter().flatten();
    all.map(|c| {
        let text = |key: &str| c[key].as_str().unwrap_or_default().to_owned();
        let word =
            Word { status: text("status"), reason: text("reason"), message: text("message"), severe: false };
        (text("type"), word)
    })
    .filter(|(kind, _)| !kind.is_empty())
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(v: Value) -> DynamicObject {
        serde_json::from_value(v).unwrap()
    }

    #[test]
    fn what_the_operator_says_is_read_by_its_labels() {
        let map = |sort: &str, data: Value| {
            object(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": {"name": "x",
                "labels": {label::NODE_POOL: "np", sort: "true"}}}))
        };
        let made = read(&map(label::NTO_GENERATED_CONFIG, json!({"config": "kind: MachineConfig"}))).unwrap();
        assert_eq!((made.pool.as_str(), made.what), ("np", What::Made("kind: MachineConfig".into())));
        let status = "conditions:\n- {type: Degraded, status: \"True\", reason: BadCPUs, message: overlap}\n";
        let Some(Shared { what: What::Said(all), .. }) =
            read(&map(label::NTO_GENERATED_STATUS, json!({"status": status})))
        else {
            panic!("it says something")
        };
        assert_eq!((all[0].0.as_str(), all[0].1.reason.as_str()), ("Degraded", "BadCPUs"));
        assert_eq!(read(&map(label::TUNED_CONFIG, json!({}))).unwrap().what, What::Asked);
        assert_eq!(read(&map("example.com/other", json!({}))), None);
        // Nonsense is no condition.
        assert_eq!(conditions("{"), []);
    }
}
