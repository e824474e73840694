//! `ClusterVersion` and `ClusterOperator`: what a guest says of its own version and parts.

use crate::common::{Json, Other};
use crate::hypershift::status::{ConditionalUpdate, ReleaseInfo, UpdateHistory};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Capabilities, and the minor version that is the first to know each: a release takes no others.
pub const CAPABILITIES: [(&str, u32); 17] = [
    ("Build", 14),
    ("CSISnapshot", 12),
    ("CloudControllerManager", 16),
    ("CloudCredential", 15),
    ("Console", 12),
    ("DeploymentConfig", 14),
    ("ImageRegistry", 14),
    ("Ingress", 16),
    ("Insights", 12),
    ("MachineAPI", 14),
    ("NodeTuning", 13),
    ("OperatorLifecycleManager", 15),
    ("OperatorLifecycleManagerV1", 18),
    ("Storage", 12),
    ("baremetal", 11),
    ("marketplace", 11),
    ("openshift-samples", 11),
];

/// The minor version of a release, with 5.x counted on from 4.23.
pub fn minor(version: &str) -> u32 {
    let mut parts = version.split(['.', '-']).map(|p| p.parse::<u32>().unwrap_or(0));
    match (parts.next(), parts.next()) {
        (Some(5), Some(minor)) => 23 + minor,
        (_, minor) => minor.unwrap_or(0),
    }
}

/// Capabilities that a release knows; one without a number (`0.0.0`) is taken to be the newest.
pub fn known_capabilities(version: &str) -> impl Iterator<Item = &'static str> {
    let minor = minor(version);
    CAPABILITIES.into_iter().filter(move |(_, since)| minor == 0 || *since <= minor).map(|(name, _)| name)
}

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
