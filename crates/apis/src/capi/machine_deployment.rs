//! `MachineDeployment`: equal machines that change in steps.

use super::{CapiCondition, MachineNaming, MachineTemplate, V1Beta2Replicas};
use crate::common::{IntOrString, LabelSelector};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Equal machines that change in steps.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "MachineDeployment",
    namespaced,
    doc = "Equal machines that change in steps.",
    status = "MachineDeploymentStatus",
    shortname = "md",
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
        name = "Updated",
        type_ = "integer",
        json_path = ".status.updatedReplicas",
        description = "Machines of the wanted kind"
    ),
    printcolumn(
        name = "Unavailable",
        type_ = "integer",
        json_path = ".status.unavailableReplicas",
        description = "Machines that are missing"
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "Phase of the deployment"
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
pub struct MachineDeploymentSpec {
    /// The cluster this belongs to.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    /// Number of machines. Unset: 1.
    pub replicas: Option<i32>,
    /// Machines older than this are replaced.
    pub rollout_after: Option<Time>,
    /// Which machines are ours.
    pub selector: LabelSelector,
    /// What the machines are.
    pub template: MachineTemplate,
    /// How machines are replaced.
    pub strategy: Option<DeploymentStrategy>,
    /// How the machines are named.
    pub machine_naming_strategy: Option<MachineNaming>,
    /// Seconds a machine must be ready to be available.
    pub min_ready_seconds: Option<i32>,
    /// Old machine sets that are kept.
    pub revision_history_limit: Option<i32>,
    /// Stops the controller.
    pub paused: Option<bool>,
    /// Seconds until a rollout counts as stuck.
    pub progress_deadline_seconds: Option<i32>,
}

/// How machines are replaced.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentStrategy {
    /// RollingUpdate or OnDelete.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["RollingUpdate", "OnDelete"]))]
    pub type_: Option<String>,
    /// The size of the steps.
    pub rolling_update: Option<DeploymentSteps>,
    /// How many broken machines are replaced at once.
    pub remediation: Option<Remediation>,
}

/// The size of the steps.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentSteps {
    pub max_unavailable: Option<IntOrString>,
    pub max_surge: Option<IntOrString>,
    /// Which machines go first.
    #[schemars(extend("enum" = ["Random", "Newest", "Oldest"]))]
    pub delete_policy: Option<String>,
}

/// How many broken machines are replaced at once.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remediation {
    pub max_in_flight: Option<IntOrString>,
}

/// What is known of the deployment.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeploymentStatus {
    pub observed_generation: Option<i64>,
    #[schemars(length(min = 1, max = 4096))]
    pub selector: Option<String>,
    pub replicas: Option<i32>,
    pub updated_replicas: Option<i32>,
    pub ready_replicas: Option<i32>,
    pub available_replicas: Option<i32>,
    pub unavailable_replicas: Option<i32>,
    /// ScalingUp, ScalingDown, Running, Failed or Unknown.
    #[schemars(extend("enum" = ["ScalingUp", "ScalingDown", "Running", "Failed", "Unknown"]))]
    pub phase: Option<String>,
    pub conditions: Option<Vec<CapiCondition>>,
    pub v1beta2: Option<V1Beta2Replicas>,
}
