//! Cluster API's core kinds, `cluster.x-k8s.io/v1beta1`.
//!
//! The version that hosted control planes speak (their contract label says v1beta1), and that current Cluster API
//! still serves beside v1beta2. Durations are text here, references carry an apiVersion, and the counters of
//! v1beta2 stand under `status.v1beta2`. With the built-in machine controllers these definitions are installed; with
//! external ones Cluster API's own are, and we read and patch the same fields.

/// The version of Cluster API whose definitions and controllers these kinds were run with (`cargo xtask upstream`).
pub const UPSTREAM: &str = "v1.10.4";

pub mod cluster;
pub mod machine;
pub mod machine_deployment;
pub mod machine_health_check;
pub mod machine_set;

pub use cluster::{Cluster, ClusterSpec, ClusterStatus};
pub use machine::{Machine, MachineSpec, MachineStatus, MachineTemplate};
pub use machine_deployment::{MachineDeployment, MachineDeploymentSpec, MachineDeploymentStatus};
pub use machine_health_check::{MachineHealthCheck, MachineHealthCheckSpec, MachineHealthCheckStatus};
pub use machine_set::{MachineSet, MachineSetSpec, MachineSetStatus};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A condition with a severity, as v1beta1 has them.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapiCondition {
    /// Which aspect.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 256))]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// How bad it is when False: Error, Warning or Info.
    #[schemars(length(max = 32))]
    pub severity: Option<String>,
    /// When the status last changed.
    pub last_transition_time: Time,
    /// Why, in one word that programs compare.
    #[schemars(length(min = 1, max = 256))]
    pub reason: Option<String>,
    /// Why, and what to do, for people.
    #[schemars(length(min = 1, max = 10240))]
    pub message: Option<String>,
}

/// A place that machines can be spread over.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    /// Whether control planes may stand there.
    pub control_plane: Option<bool>,
    pub attributes: Option<BTreeMap<String, String>>,
}

/// Labels and annotations of objects made from a template.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateMeta {
    pub labels: Option<BTreeMap<String, String>>,
    pub annotations: Option<BTreeMap<String, String>>,
}

/// How machines are named.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineNaming {
    /// Go template that ends in `{{ .random }}`.
    #[schemars(length(min = 1, max = 256))]
    pub template: Option<String>,
}

/// Counters and conditions in the words of v1beta2.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct V1Beta2Replicas {
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<crate::common::Condition>>,
    pub ready_replicas: Option<i32>,
    pub available_replicas: Option<i32>,
    pub up_to_date_replicas: Option<i32>,
}

/// Conditions in the words of v1beta2.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct V1Beta2Conditions {
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<crate::common::Condition>>,
}
