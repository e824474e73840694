//! Sizes of hosted clusters: by their number of nodes, with delays, and not too many changes at a time.
//!
//! ```text
//! ClusterSizingConfiguration ─> Sizes ─┐
//! nodes, override, conditions ─────────┼─ plan ─> Decision ─> conditions ClusterSize…      (status, first)
//! changes of others, lately ───────────┘              └─────> label, annotations of effects (metadata, then)
//! ```
//!
//! A change of size rolls the API server of a cluster, so a size does not follow every node: another number has to last
//! ([`Sizes::increase`], [`Sizes::decrease`]), and of all clusters of the management cluster only a few change in a
//! sliding window. New clusters do not wait: without a size they have no limits at all.
//!
//! What a cluster is stands in its status (`ClusterSizeComputed`, whose reason is the size and whose time that of the
//! change); label and annotations follow it, so that a killed operator finds its way. A cluster that has a label and no
//! status was restored from somewhere: it keeps its size.
//!
//! Nothing here knows a client. What is remembered between passes ([`Grants`]) only bridges the time until the watch tells
//! what was written; statuses tell the rest.
//!
//! Rejected: a controller of its own, which would be a second writer of the conditions, and a delay that counts from the
//! last change of size: a cluster that has been small for a day would become large by one node that comes and goes.

mod effects;
mod grants;
mod plan;
#[cfg(test)]
mod tests;

pub use effects::change;
pub use grants::Grants;
pub use plan::{Decision, Observed, Why, plan};

use apis::duration::go_duration;
use apis::scheduling::{ClusterSizingConfigurationSpec, Effects, NodeCountCriteria, SizeConfiguration};
use jiff::SignedDuration;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// One size.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    pub name: String,
    pub criteria: NodeCountCriteria,
    pub effects: Effects,
}

/// A configuration that can be used: sizes in order, each number of nodes in exactly one of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    list: Vec<Size>,
    /// How long a larger number of nodes must last.
    pub increase: SignedDuration,
    /// How long a smaller one must.
    pub decrease: SignedDuration,
    /// The time in which changes are counted.
    pub window: SignedDuration,
    /// Changes in that time.
    pub limit: usize,
}

/// What is kept of the configuration.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub object: DynamicObject,
    /// The sizes, or what is wrong with them.
    pub sizes: Result<Sizes, String>,
}

impl Configuration {
    /// For a view.
    pub fn keep(o: &DynamicObject) -> Option<Configuration> {
        let mut object = o.clone();
        object.metadata.managed_fields = None;
        let spec = serde_json::from_value::<ClusterSizingConfigurationSpec>(o.data["spec"].clone());
        let sizes = spec.map_err(|e| e.to_string()).and_then(|spec| Sizes::read(&spec));
        Some(Configuration { object, sizes })
    }
}

/// What is made where there is none.
pub fn default_configuration() -> Value {
    let size = |name: &str, criteria: Value| json!({"name": name, "criteria": criteria});
    json!({
        "apiVersion": "scheduling.hypershift.openshift.io/v1alpha1", "kind": "ClusterSizingConfiguration",
        "metadata": {"name": apis::scheduling::NAME},
        "spec": {"sizes": [
            size("small", json!({"from": 0, "to": 10})),
            size("medium", json!({"from": 11, "to": 100})),
            size("large", json!({"from": 101})),
        ]},
    })
}

const COVER: &str = "sizes must cover every number of nodes exactly once, as {(0,10),(11,100),(101,+inf)} do";

impl Sizes {
    /// Reads a configuration; says what is wrong with one that cannot be used.
    pub fn read(spec: &ClusterSizingConfigurationSpec) -> Result<Sizes, String> {
        let mut wrong = Vec::new();
        let mut sorted: Vec<&SizeConfiguration> = spec.sizes.iter().collect();
        sorted.sort_by_key(|s| s.criteria.from);
        if !covered(&sorted) {
            wrong.push(COVER.to_owned());
        }
        let mut seen = BTreeSet::new();
        for size in &sorted {
            if !seen.insert(&size.name) {
                wrong.push(format!("there are two sizes {:?}", size.name));
            }
            if !word(&size.name) {
                wrong.push(format!(
                    "{:?} can be no size: a name has at most 63 letters, digits and _, begins with a letter and does not end with _",
                    size.name
                ));
            }
            let requests = size.effects.iter().flat_map(|e| e.resource_requests.iter().flatten());
            for request in requests {
                let name = format!("{}.{}", request.deployment_name, request.container_name);
                if !key(&name) {
                    wrong.push(format!("size {}: there can be no container {name:?}", size.name));
                }
            }
        }
        let zones = |s: &&&SizeConfiguration| {
            s.management.as_ref().is_some_and(|m| m.non_request_serving_nodes_per_zone.is_some())
        };
        let said = sorted.iter().filter(zones).count();
        if said != 0 && said != sorted.len() {
            wrong.push("nonRequestServingNodesPerZone must be set in all sizes or in none".to_owned());
        }
        let mut time = |field: &str, text: &str| {
            go_duration(text).unwrap_or_else(|| {
                wrong.push(format!("{field}: {text:?} is no duration"));
                SignedDuration::ZERO
            })
        };
        let (delay, others) =
            (spec.transition_delay.clone().unwrap_or_default(), spec.concurrency.clone().unwrap_or_default());
        let sizes = Sizes {
            increase: time("transitionDelay.increase", &delay.increase),
            decrease: time("transitionDelay.decrease", &delay.decrease),
            window: time("concurrency.slidingWindow", &others.sliding_window),
            limit: usize::try_from(others.limit).unwrap_or(0).max(1),
            list: sorted
                .into_iter()
                .map(|s| Size {
                    name: s.name.clone(),
                    criteria: s.criteria,
                    effects: s.effects.clone().unwrap_or_default(),
                })
                .collect(),
        };
        if wrong.is_empty() { Ok(sizes) } else { Err(wrong.join("; ")) }
    }

    pub fn get(&self, name: &str) -> Option<&Size> {
        self.list.iter().find(|s| s.name == name)
    }

    /// The size of this many nodes.
    pub fn of(&self, nodes: u32) -> Option<&Size> {
        self.list.iter().find(|s| s.criteria.holds(nodes))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|s| s.name.as_str())
    }
}

/// Whether sizes, in order, leave nothing out and nothing twice.
fn covered(sorted: &[&SizeConfiguration]) -> bool {
    let mut next = Some(0);
    for size in sorted {
        let NodeCountCriteria { from, to } = size.criteria;
        if next != Some(from) || to.is_some_and(|to| to < from) {
            return false;
        }
        next = to.and_then(|to| to.checked_add(1));
    }
    // The last has no end, and there is a last.
    sorted.last().is_some_and(|s| s.criteria.to.is_none())
}

/// Names are values of a label and reasons of conditions.
fn word(name: &str) -> bool {
    name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The part of an annotation's key behind the slash.
fn key(name: &str) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric();
    (3..=63).contains(&name.len())
        && name.starts_with(ends)
        && name.ends_with(ends)
        && !name.contains("..")
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}
