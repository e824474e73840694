//! The parts of OpenShift that a hosted cluster reports on, and what each needs.

use crate::Payload;
use std::collections::BTreeSet;

/// A ClusterOperator of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: &'static str,
    /// The image that brings it: a payload without it has no such part.
    pub component: &'static str,
    /// Parts of a lower level are at the new version first.
    pub level: u8,
    /// Its operands run on nodes; without one it cannot be available.
    pub on_nodes: bool,
    /// It may be turned off.
    pub capability: Option<&'static str>,
}

const fn beside(name: &'static str, component: &'static str, level: u8) -> Part {
    Part { name, component, level, on_nodes: false, capability: None }
}

const fn on_nodes(name: &'static str, component: &'static str, level: u8) -> Part {
    Part { name, component, level, on_nodes: true, capability: None }
}

impl Part {
    const fn optional(mut self, capability: &'static str) -> Part {
        self.capability = Some(capability);
        self
    }
}

/// All that hosted clusters have, in the order in which they are updated.
pub const PARTS: [Part; 21] = [
    beside("kube-apiserver", "hyperkube", 20),
    beside("kube-controller-manager", "hyperkube", 25),
    beside("kube-scheduler", "hyperkube", 25),
    beside("openshift-apiserver", "openshift-apiserver", 30),
    beside("openshift-controller-manager", "openshift-controller-manager", 50),
    beside("csi-snapshot-controller", "cluster-csi-snapshot-controller-operator", 50).optional("CSISnapshot"),
    beside("operator-lifecycle-manager", "operator-lifecycle-manager", 50)
        .optional("OperatorLifecycleManager"),
    beside("operator-lifecycle-manager-catalog", "operator-lifecycle-manager", 50)
        .optional("OperatorLifecycleManager"),
    beside("operator-lifecycle-manager-packageserver", "operator-lifecycle-manager", 50)
        .optional("OperatorLifecycleManager"),
    on_nodes("storage", "cluster-storage-operator", 50).optional("Storage"),
    on_nodes("image-registry", "cluster-image-registry-operator", 50).optional("ImageRegistry"),
    on_nodes("ingress", "cluster-ingress-operator", 50).optional("Ingress"),
    on_nodes("node-tuning", "cluster-node-tuning-operator", 50).optional("NodeTuning"),
    on_nodes("kube-storage-version-migrator", "cluster-kube-storage-version-migrator-operator", 50),
    on_nodes("service-ca", "service-ca-operator", 50),
    on_nodes("monitoring", "cluster-monitoring-operator", 50),
    on_nodes("openshift-samples", "cluster-samples-operator", 50).optional("openshift-samples"),
    on_nodes("insights", "insights-operator", 50).optional("Insights"),
    on_nodes("console", "console-operator", 50).optional("Console"),
    on_nodes("dns", "cluster-dns-operator", 70),
    on_nodes("network", "cluster-network-operator", 70),
];

/// The parts of a payload, without those that are turned off.
pub fn parts(payload: &Payload, enabled: &BTreeSet<String>) -> Vec<Part> {
    let is_there = |p: &&Part| {
        payload.components.contains(p.component) && p.capability.is_none_or(|c| enabled.contains(c))
    };
    PARTS.iter().filter(is_there).copied().collect()
}
