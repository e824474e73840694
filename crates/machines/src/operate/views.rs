//! What the controllers read without asking.

use super::index::{Expected, owner_word};
use crate::kinds::{annotation, label};
use apis::common::LabelSelector;
use kube::core::DynamicObject;
use reconcile::{Index, View};
use std::sync::Arc;

pub type Seen = Arc<DynamicObject>;

/// All views.
pub struct Views {
    pub clusters: Arc<View<DynamicObject>>,
    pub deployments: Arc<View<DynamicObject>>,
    pub sets: Arc<View<DynamicObject>>,
    pub sets_by_owner: Arc<Index>,
    pub machines: Arc<View<DynamicObject>>,
    /// By owner, and by provider id.
    pub machines_by: Arc<Index>,
    pub expected: Arc<Expected>,
    pub checks: Arc<View<DynamicObject>>,
    /// Of each check its name, its cluster and whom it selects.
    pub selectors: Arc<View<(String, String, LabelSelector)>>,
    pub azure_clusters: Arc<View<DynamicObject>>,
    pub identities: Arc<View<DynamicObject>>,
    pub azure_machines: Arc<View<DynamicObject>>,
    pub templates: Arc<View<DynamicObject>>,
}

/// The word by which a machine is found from its node.
pub fn provider_word(id: &str) -> String {
    format!("node/{}", id.to_lowercase())
}

impl Default for Views {
    fn default() -> Views {
        Views {
            clusters: View::whole(),
            deployments: View::whole(),
            sets: View::whole(),
            sets_by_owner: Index::new(|o| vec![owner_word(o)]),
            machines: View::whole(),
            machines_by: Index::new(|o| {
                let mut words = vec![owner_word(o)];
                words.extend(o.data["spec"]["providerID"].as_str().map(provider_word));
                words
            }),
            expected: Arc::default(),
            checks: View::whole(),
            selectors: View::new(|o| {
                let selector = serde_json::from_value(o.data["spec"]["selector"].clone()).ok()?;
                Some((name(o).to_owned(), cluster_of(o).to_owned(), selector))
            }),
            azure_clusters: View::whole(),
            identities: View::whole(),
            azure_machines: View::whole(),
            templates: View::whole(),
        }
    }
}

impl Views {
    /// Whether somebody wants us to leave this alone: the object, or its cluster.
    pub fn paused(&self, o: &DynamicObject) -> bool {
        let namespace = o.metadata.namespace.as_deref().unwrap_or_default();
        has_annotation(o, annotation::PAUSED)
            || self.clusters.get(namespace, cluster_of(o)).is_some_and(|c| c.data["spec"]["paused"] == true)
    }

    /// Machines of a set that the watch has told of.
    pub fn machines_of(&self, kind: &str, owner: &DynamicObject) -> Vec<Seen> {
        let at = reconcile::place(owner);
        let places = self.machines_by.get(&format!("{kind}/{}/{}", at.0, at.1));
        let found = places.iter().filter_map(|(ns, name)| self.machines.get(ns, name));
        found.filter(|m| super::index::is_controlled_by(m, owner)).collect()
    }

    /// Names of the health checks that watch a machine.
    pub fn checks_of(&self, machine: &DynamicObject) -> Vec<String> {
        let labels = machine.metadata.labels.clone().unwrap_or_default();
        let cluster = cluster_of(machine);
        let all = self.selectors.within(namespace(machine));
        let ours = all.iter().filter(|c| c.1 == cluster && crate::text::selects(&c.2, &labels));
        ours.map(|c| c.0.clone()).collect()
    }

    /// The machine set's, going or not, as far as is known: also those that were asked to go just now.
    pub fn is_going(&self, machine: &DynamicObject) -> bool {
        machine.metadata.deletion_timestamp.is_some() || self.expected.is_going(machine)
    }
}

/// The cluster that an object says it belongs to.
pub fn cluster_of(o: &DynamicObject) -> &str {
    let labelled = o.metadata.labels.as_ref().and_then(|l| l.get(label::CLUSTER)).map(String::as_str);
    o.data["spec"]["clusterName"].as_str().or(labelled).unwrap_or_default()
}

pub fn has_annotation(o: &DynamicObject, key: &str) -> bool {
    o.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(key))
}

pub fn name(o: &DynamicObject) -> &str {
    o.metadata.name.as_deref().unwrap_or_default()
}

pub fn namespace(o: &DynamicObject) -> &str {
    o.metadata.namespace.as_deref().unwrap_or_default()
}

pub fn created(o: &DynamicObject) -> jiff::Timestamp {
    o.metadata.creation_timestamp.as_ref().map(crate::text::time).unwrap_or_default()
}

/// A type of ours.
pub fn typed<T: serde::de::DeserializeOwned>(o: &DynamicObject, field: &str) -> Result<T, serde_json::Error> {
    serde_json::from_value(o.data[field].clone())
}
