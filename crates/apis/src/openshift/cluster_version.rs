//! `ClusterVersion` and `ClusterOperator`: what a guest says of its own version and parts.

use crate::common::{Json, Other};
use crate::hypershift::status::{ConditionalUpdate, ReleaseInfo, UpdateHistory};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Capabilities that releases know; a cluster has all but those it turns off.
pub const CAPABILITIES: [&str; 14] = [
    "Build",
    "CSISnapshot",
    "CloudControllerManager",
    "CloudCredential",
    "Console",
    "DeploymentConfig",
    "ImageRegistry",
    "Ingress",
    "Insights",
    "NodeTuning",
    "OperatorLifecycleManager",
    "Storage",
    "baremetal",
    "openshift-samples",
];

/// The release of a cluster. The object is named `version`.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterVersion",
    plural = "clusterversions",
    doc = "The release of a cluster. The object is named `version`.",
    status = "ClusterVersionObjectStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.history[?(@.state==\"Completed\")].version"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(
        name = "Progressing",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Progressing\")].status"
    ),
    printcolumn(
        name = "Since",
        type_ = "date",
        json_path = ".status.conditions[?(@.type==\"Progressing\")].lastTransitionTime"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Progressing\")].message"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersionSpec {
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    pub channel: Option<String>,
    /// The release that is wanted.
    pub desired_update: Option<DesiredUpdate>,
    /// Where updates are looked up.
    pub upstream: Option<String>,
    pub capabilities: Option<Json>,
    pub overrides: Option<Vec<Json>>,
    #[serde(flatten)]
    pub other: Other,
}

/// A release that is wanted.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DesiredUpdate {
    pub version: Option<String>,
    pub image: Option<String>,
    /// Skips checks.
    pub force: Option<bool>,
    pub architecture: Option<String>,
}

/// How far the release is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersionObjectStatus {
    pub desired: ReleaseInfo,
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Option<Vec<UpdateHistory>>,
    pub observed_generation: i64,
    #[serde(default)]
    #[schemars(required)]
    pub version_hash: String,
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<OperatorCondition>>,
    #[serialize_always]
    #[schemars(required, extend("nullable" = true, "x-kubernetes-list-type" = "atomic"))]
    pub available_updates: Option<Vec<ReleaseInfo>>,
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub conditional_updates: Option<Vec<ConditionalUpdate>>,
    pub capabilities: Option<Json>,
    #[serde(flatten)]
    pub other: Other,
}

/// One aspect of an operator's state.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorCondition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub last_transition_time: Time,
    pub reason: Option<String>,
    pub message: Option<String>,
}

/// A part of OpenShift.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterOperator",
    plural = "clusteroperators",
    doc = "How one part of OpenShift is doing.",
    status = "ClusterOperatorStatus",
    shortname = "co",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.versions[?(@.name==\"operator\")].version"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(
        name = "Progressing",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Progressing\")].status"
    ),
    printcolumn(
        name = "Degraded",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Degraded\")].status"
    ),
    printcolumn(
        name = "Since",
        type_ = "date",
        json_path = ".status.conditions[?(@.type==\"Available\")].lastTransitionTime"
    )
)]
#[serde(from = "Option<crate::common::Nothing>")]
pub struct ClusterOperatorSpec {}

impl From<Option<crate::common::Nothing>> for ClusterOperatorSpec {
    fn from(_: Option<crate::common::Nothing>) -> ClusterOperatorSpec {
        ClusterOperatorSpec {}
    }
}

/// How the part is doing.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOperatorStatus {
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<OperatorCondition>>,
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub versions: Option<Vec<OperandVersion>>,
    pub related_objects: Option<Vec<RelatedObject>>,
    /// Anything more.
    #[schemars(extend("nullable" = true))]
    pub extension: Option<Json>,
}

/// The version of an operand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperandVersion {
    pub name: String,
    pub version: String,
}

/// An object of the part.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RelatedObject {
    pub group: String,
    pub resource: String,
    pub namespace: Option<String>,
    pub name: String,
}
