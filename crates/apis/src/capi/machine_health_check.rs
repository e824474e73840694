//! `MachineHealthCheck`: when a machine counts as broken and is replaced.

use super::{CapiCondition, V1Beta2Conditions};
use crate::common::{IntOrString, LabelSelector, ObjectReference};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// When a machine counts as broken and is replaced.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "MachineHealthCheck",
    namespaced,
    doc = "When a machine counts as broken and is replaced.",
    status = "MachineHealthCheckStatus",
    shortname = "mhc",
    shortname = "mhcs",
    category = "cluster-api",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterName",
        description = "The cluster"
    ),
    printcolumn(
        name = "ExpectedMachines",
        type_ = "integer",
        json_path = ".status.expectedMachines",
        description = "Machines that are watched"
    ),
    printcolumn(
        name = "MaxUnhealthy",
        type_ = "string",
        json_path = ".spec.maxUnhealthy",
        description = "More broken machines than this, and none is replaced"
    ),
    printcolumn(
        name = "CurrentHealthy",
        type_ = "integer",
        json_path = ".status.currentHealthy",
        description = "Machines that are well"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckSpec {
    /// The cluster this belongs to.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    /// Which machines are watched.
    pub selector: LabelSelector,
    /// Node conditions that mean broken, and after how long.
    #[schemars(length(max = 100))]
    pub unhealthy_conditions: Option<Vec<UnhealthyCondition>>,
    /// More broken machines than this (count or percentage), and none is replaced.
    pub max_unhealthy: Option<IntOrString>,
    /// As maxUnhealthy, as a range such as [3-5].
    #[schemars(length(min = 1, max = 32), regex(pattern = r"^\[[0-9]+-[0-9]+\]$"))]
    pub unhealthy_range: Option<String>,
    /// How long a machine may take to become a Node, as a Go duration.
    pub node_startup_timeout: Option<String>,
    /// Somebody else who repairs.
    pub remediation_template: Option<ObjectReference>,
}

/// A Node condition that means broken, and after how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnhealthyCondition {
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub type_: String,
    #[schemars(length(min = 1))]
    pub status: String,
    /// Go duration.
    pub timeout: String,
}

/// What is known of the check.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckStatus {
    #[schemars(range(min = 0))]
    pub expected_machines: Option<i32>,
    #[schemars(range(min = 0))]
    pub current_healthy: Option<i32>,
    #[schemars(range(min = 0))]
    pub remediations_allowed: Option<i32>,
    pub observed_generation: Option<i64>,
    #[schemars(length(max = 10000), extend("x-kubernetes-list-type" = "atomic"))]
    pub targets: Option<Vec<MachineName>>,
    pub conditions: Option<Vec<CapiCondition>>,
    pub v1beta2: Option<V1Beta2Conditions>,
}

/// Name of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct MachineName(#[schemars(length(min = 1, max = 253))] pub String);
