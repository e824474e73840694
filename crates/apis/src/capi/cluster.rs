//! `Cluster`: ties a control plane to its infrastructure.

use super::{CapiCondition, FailureDomain};
use crate::common::{Condition, Json, ObjectReference};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A cluster: where its control plane and its infrastructure are described.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Cluster",
    namespaced,
    doc = "A cluster: where its control plane and its infrastructure are described.",
    status = "ClusterStatus",
    shortname = "cl",
    category = "cluster-api",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "Phase of the cluster"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Stops all controllers of this cluster.
    pub paused: Option<bool>,
    /// Address ranges.
    pub cluster_network: Option<ClusterNetwork>,
    /// Where the API server answers.
    pub control_plane_endpoint: Option<CapiEndpoint>,
    /// The object that describes the control plane.
    pub control_plane_ref: Option<ObjectReference>,
    /// The object that describes the infrastructure.
    pub infrastructure_ref: Option<ObjectReference>,
    /// Managed topologies; not acted on.
    pub topology: Option<Json>,
    /// Further conditions that availability needs.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
    pub availability_gates: Option<Vec<Gate>>,
}

/// A condition that counts.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    #[schemars(length(min = 1, max = 316), regex(pattern = crate::common::CONDITION_TYPE))]
    pub condition_type: String,
    /// Positive: True is good. Negative: False is.
    #[schemars(extend("enum" = ["Positive", "Negative"]))]
    pub polarity: Option<String>,
}

/// Host and port; empty until known.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapiEndpoint {
    #[schemars(length(max = 512))]
    pub host: Option<String>,
    pub port: Option<i32>,
}

/// Address ranges.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetwork {
    #[schemars(range(min = 1, max = 65535))]
    pub api_server_port: Option<i32>,
    pub services: Option<Ranges>,
    pub pods: Option<Ranges>,
    #[schemars(length(min = 1, max = 253))]
    pub service_domain: Option<String>,
}

/// Ranges of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ranges {
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub cidr_blocks: Vec<RangeText>,
}

/// A range of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct RangeText(#[schemars(length(min = 1, max = 43))] pub String);

/// What is known of the cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    pub failure_domains: Option<BTreeMap<String, FailureDomain>>,
    pub failure_reason: Option<String>,
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,
    /// Pending, Provisioning, Provisioned, Deleting, Failed or Unknown.
    #[schemars(extend("enum" = ["Pending", "Provisioning", "Provisioned", "Deleting", "Failed", "Unknown"]))]
    pub phase: Option<String>,
    pub infrastructure_ready: Option<bool>,
    pub control_plane_ready: Option<bool>,
    pub conditions: Option<Vec<CapiCondition>>,
    pub observed_generation: Option<i64>,
    pub v1beta2: Option<ClusterV1Beta2>,
}

/// The state in the words of v1beta2.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterV1Beta2 {
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    pub control_plane: Option<Counters>,
    pub workers: Option<Counters>,
}

/// How many machines are how far.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    pub desired_replicas: Option<i32>,
    pub replicas: Option<i32>,
    pub up_to_date_replicas: Option<i32>,
    pub ready_replicas: Option<i32>,
    pub available_replicas: Option<i32>,
}
