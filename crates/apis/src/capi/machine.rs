//! `Machine`: one node's machine, whoever provides it.

use super::cluster::Gate;
use super::{CapiCondition, TemplateMeta, V1Beta2Conditions};
use crate::common::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// One machine.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Machine",
    namespaced,
    doc = "One node's machine, whoever provides it.",
    status = "MachineStatus",
    shortname = "ma",
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
        name = "NodeName",
        type_ = "string",
        json_path = ".status.nodeRef.name",
        description = "The node"
    ),
    printcolumn(
        name = "ProviderID",
        type_ = "string",
        json_path = ".spec.providerID",
        description = "The machine's id"
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "Phase of the machine"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".spec.version",
        description = "Kubernetes version"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// The cluster this belongs to.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    /// What the machine runs at its first start.
    pub bootstrap: Bootstrap,
    /// The object that describes the infrastructure.
    pub infrastructure_ref: ObjectReference,
    /// Kubernetes version.
    #[schemars(length(min = 1, max = 256))]
    pub version: Option<String>,
    /// Id of the machine, as its Node carries it.
    #[serde(rename = "providerID")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,
    /// Where the machine stands.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
    /// Further conditions that readiness needs.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
    pub readiness_gates: Option<Vec<Gate>>,
    /// How long pods may take to leave, as a Go duration. Unset: as long as they like.
    pub node_drain_timeout: Option<String>,
    /// How long volumes may take to leave, as a Go duration. Unset: as long as they like.
    pub node_volume_detach_timeout: Option<String>,
    /// How long the Node may take to go, as a Go duration.
    pub node_deletion_timeout: Option<String>,
}

/// What a machine runs at its first start.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// An object whose controller makes the Secret.
    pub config_ref: Option<ObjectReference>,
    /// The Secret, in `value`.
    #[schemars(length(min = 0, max = 253))]
    pub data_secret_name: Option<String>,
}

/// A machine yet to be made.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineTemplate {
    /// Labels and annotations of the machines.
    pub metadata: Option<TemplateMeta>,
    /// What the machines are.
    pub spec: MachineSpec,
}

/// What is known of the machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// The Node, when there is one.
    pub node_ref: Option<ObjectReference>,
    /// What the Node says of itself.
    pub node_info: Option<NodeInfo>,
    pub last_updated: Option<Time>,
    pub failure_reason: Option<String>,
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Option<Vec<MachineAddress>>,
    /// Pending, Provisioning, Provisioned, Running, Deleting, Deleted, Failed or Unknown.
    #[schemars(extend("enum" = ["Pending", "Provisioning", "Provisioned", "Running", "Updating", "Deleting", "Deleted", "Failed", "Unknown"]))]
    pub phase: Option<String>,
    pub certificates_expiry_date: Option<Time>,
    pub bootstrap_ready: Option<bool>,
    pub infrastructure_ready: Option<bool>,
    pub observed_generation: Option<i64>,
    /// Since when it is going.
    pub deletion: Option<MachineDeletion>,
    pub conditions: Option<Vec<CapiCondition>>,
    pub v1beta2: Option<V1Beta2Conditions>,
}

/// Since when a machine is going.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeletion {
    pub node_drain_start_time: Option<Time>,
    pub wait_for_node_volume_detach_start_time: Option<Time>,
}

/// An address of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineAddress {
    /// Hostname, ExternalIP, InternalIP, ExternalDNS or InternalDNS.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"]))]
    pub type_: String,
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}

/// What a Node says of itself.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    pub architecture: String,
    #[serde(rename = "bootID")]
    pub boot_id: String,
    pub container_runtime_version: String,
    pub kernel_version: String,
    pub kube_proxy_version: String,
    pub kubelet_version: String,
    #[serde(rename = "machineID")]
    pub machine_id: String,
    pub operating_system: String,
    pub os_image: String,
    pub swap: Option<Swap>,
    #[serde(rename = "systemUUID")]
    pub system_uuid: String,
}

/// Swap of a Node.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Swap {
    pub capacity: Option<i64>,
}
