//! `MachineSet`: a number of equal machines.

use super::{CapiCondition, MachineNaming, MachineTemplate, V1Beta2Replicas};
use crate::common::LabelSelector;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A number of equal machines.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "MachineSet",
    namespaced,
    doc = "A number of equal machines.",
    status = "MachineSetStatus",
    shortname = "ms",
    category = "cluster-api",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterName",
        description = "The cluster"
    ),
    printcolumn(
        name = "Desired",
        type_ = "integer",
        json_path = ".spec.replicas",
        description = "Machines that are wanted"
    ),
    printcolumn(
        name = "Replicas",
        type_ = "integer",
        json_path = ".status.replicas",
        description = "Machines that are there"
    ),
    printcolumn(
        name = "Ready",
        type_ = "integer",
        json_path = ".status.readyReplicas",
        description = "Machines that are ready"
    ),
    printcolumn(
        name = "Available",
        type_ = "integer",
        json_path = ".status.availableReplicas",
        description = "Machines that have been ready for a while"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".spec.template.spec.version",
        description = "Kubernetes version"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MachineSetSpec {
    /// The cluster this belongs to.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    /// Number of machines. Unset: 1.
    pub replicas: Option<i32>,
    /// Seconds a machine must be ready to be available.
    pub min_ready_seconds: Option<i32>,
    /// Which machines go first.
    #[schemars(extend("enum" = ["Random", "Newest", "Oldest"]))]
    pub delete_policy: Option<String>,
    /// Which machines are ours.
    pub selector: LabelSelector,
    /// What the machines are.
    pub template: MachineTemplate,
    /// How the machines are named.
    pub machine_naming_strategy: Option<MachineNaming>,
}

/// What is known of the set.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineSetStatus {
    #[schemars(length(min = 1, max = 4096))]
    pub selector: Option<String>,
    pub replicas: Option<i32>,
    pub fully_labeled_replicas: Option<i32>,
    pub ready_replicas: Option<i32>,
    pub available_replicas: Option<i32>,
    pub observed_generation: Option<i64>,
    pub failure_reason: Option<String>,
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,
    pub conditions: Option<Vec<CapiCondition>>,
    pub v1beta2: Option<V1Beta2Replicas>,
}
