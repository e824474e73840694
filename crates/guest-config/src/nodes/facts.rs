//! What is kept of Machines, MachineSets and Nodes.

use super::pool_of;
use apis::names::{annotation, label};
use kube::core::DynamicObject;
use serde_json::Value;
use std::collections::BTreeMap;

/// Annotations of nodes that are upgraded in place; the daemon's words.
pub mod word {
    pub const CURRENT: &str = "machineconfiguration.openshift.io/currentConfig";
    pub const DESIRED: &str = "machineconfiguration.openshift.io/desiredConfig";
    pub const STATE: &str = "machineconfiguration.openshift.io/state";
    pub const REASON: &str = "machineconfiguration.openshift.io/reason";
    pub const DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
    pub const APPLIED_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";
}

/// A Machine: what its node should have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineFact {
    pub name: String,
    pub node: Option<String>,
    pub pool: Option<String>,
    pub set: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// `None`: it does not say, or says nonsense; then nobody's taints are touched.
    pub taints: Option<Vec<Value>>,
}

impl MachineFact {
    pub fn read(o: &DynamicObject) -> Option<MachineFact> {
        let labels = o.metadata.labels.iter().flatten();
        let taints = o.metadata.annotations.as_ref().and_then(|a| a.get(annotation::NODE_POOL_TAINTS));
        let sets = o.metadata.owner_references.iter().flatten().filter(|r| r.kind == "MachineSet");
        Some(MachineFact {
            name: o.metadata.name.clone().unwrap_or_default(),
            node: o.data["status"]["nodeRef"]["name"].as_str().map(str::to_owned),
            pool: pool_of(o),
            set: sets.map(|r| r.name.clone()).next(),
            labels: labels
                .filter_map(|(k, v)| {
                    Some((k.strip_prefix(label::MANAGED_NODE_LABEL_PREFIX)?.to_owned(), v.clone()))
                })
                .collect(),
            taints: match taints {
                // Without the annotation there are none; what we wrote before goes.
                None => Some(Vec::new()),
                Some(text) => serde_json::from_str(text).ok(),
            },
        })
    }
}

/// A node, as far as we write to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFact {
    pub name: String,
    pub resource_version: String,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Value>,
    pub unschedulable: bool,
    pub ready: bool,
    pub annotations: BTreeMap<String, String>,
}

/// Annotations that matter here.
const KEPT: [&str; 7] = [
    super::sync::WRITTEN,
    word::CURRENT,
    word::DESIRED,
    word::STATE,
    word::REASON,
    word::DESIRED_DRAIN,
    word::APPLIED_DRAIN,
];

impl NodeFact {
    pub fn read(o: &DynamicObject) -> Option<NodeFact> {
        let conditions = o.data["status"]["conditions"].as_array().into_iter().flatten();
        let marks = o.metadata.annotations.iter().flatten();
        Some(NodeFact {
            name: o.metadata.name.clone()?,
            resource_version: o.metadata.resource_version.clone().unwrap_or_default(),
            labels: o.metadata.labels.clone().unwrap_or_default(),
            taints: o.data["spec"]["taints"].as_array().cloned().unwrap_or_default(),
            unschedulable: o.data["spec"]["unschedulable"] == true,
            ready: conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True"),
            annotations: marks
                .filter(|(k, _)| KEPT.contains(&k.as_str()))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
        })
    }

    pub fn mark(&self, key: &str) -> &str {
        self.annotations.get(key).map_or("", String::as_str)
    }
}

/// A MachineSet that may be upgraded in place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetFact {
    pub name: String,
    pub pool: Option<String>,
    pub target: String,
    pub current: String,
    pub most_unavailable: usize,
    /// What is said of it now.
    pub said: (Option<String>, Option<String>),
}

impl SetFact {
    pub fn read(o: &DynamicObject) -> Option<SetFact> {
        let marks = o.metadata.annotations.as_ref();
        let mark = |key: &str| marks.and_then(|a| a.get(key)).cloned();
        Some(SetFact {
            name: o.metadata.name.clone()?,
            pool: pool_of(o),
            target: mark(annotation::NODE_POOL_TARGET_CONFIG_VERSION).unwrap_or_default(),
            current: mark(annotation::NODE_POOL_CURRENT_CONFIG_VERSION).unwrap_or_default(),
            most_unavailable: mark(annotation::NODE_POOL_MAX_UNAVAILABLE)
                .and_then(|n| n.parse().ok())
                .unwrap_or(1)
                .max(1),
            said: (
                mark(annotation::NODE_POOL_UPGRADE_IN_PROGRESS_TRUE),
                mark(annotation::NODE_POOL_UPGRADE_IN_PROGRESS_FALSE),
            ),
        })
    }

    /// What was said of an upgrade is taken back when it is over: until then a target that went back is one too.
    pub fn upgrading(&self) -> bool {
        let said = self.said.0.is_some() || self.said.1.is_some();
        !self.target.is_empty() && (self.target != self.current || said)
    }
}
