//! Versions, as HostedCluster, HostedControlPlane and ClusterVersion report them.

use crate::common::{Condition, Json, text_enum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A release.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseInfo {
    pub version: String,
    pub image: String,
    /// Where its errata are.
    pub url: Option<String>,
    /// Channels that have it.
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub channels: Option<Vec<String>>,
}

/// Versions of a cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersionStatus {
    /// The release that is wanted.
    pub desired: ReleaseInfo,
    /// Releases, newest first.
    pub history: Option<Vec<UpdateHistory>>,
    /// The generation that desired was read from.
    pub observed_generation: i64,
    /// Recommended updates; null when not known yet.
    #[serialize_always]
    #[schemars(required, length(max = 100), extend("nullable" = true))]
    pub available_updates: Option<Vec<ReleaseInfo>>,
    /// Updates with known risks.
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub conditional_updates: Option<Vec<ConditionalUpdate>>,
}

text_enum! {
    /// How far a release is.
    pub enum UpdateState {
        Completed = "Completed",
        Partial = "Partial",
    }
}

/// A release that was wanted once.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateHistory {
    /// Completed or Partial. Text, because cluster-version operators may say more one day.
    pub state: String,
    pub started_time: Time,
    /// null while it is not complete.
    #[serialize_always]
    #[schemars(required, extend("nullable" = true))]
    pub completion_time: Option<Time>,
    pub version: Option<String>,
    pub image: String,
    /// Whether its signature was checked.
    pub verified: bool,
    /// Risks that were accepted.
    pub accepted_risks: Option<String>,
}

/// An update with known risks.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionalUpdate {
    pub release: ReleaseInfo,
    #[schemars(length(min = 1, max = 200), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub risks: Vec<UpdateRisk>,
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
}

/// A known risk of an update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateRisk {
    #[schemars(length(min = 1))]
    pub name: String,
    #[schemars(length(min = 1))]
    pub message: String,
    #[schemars(length(min = 1), extend("format" = "uri"))]
    pub url: String,
    /// When it applies.
    #[schemars(length(min = 1), extend("x-kubernetes-list-type" = "atomic"))]
    pub matching_rules: Vec<MatchingRule>,
}

/// When a risk applies.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatchingRule {
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["Always", "PromQL"]))]
    pub type_: String,
    pub promql: Option<PromQl>,
}

/// A query whose result says whether a risk applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromQl {
    pub promql: String,
}

/// Versions of a control plane.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneVersion {
    /// The release that is wanted, by digest.
    pub desired: ReleaseInfo,
    /// Releases, newest first.
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Option<Vec<ControlPlaneUpdate>>,
    #[schemars(range(min = 1, max = 9007199254740992i64))]
    pub observed_generation: Option<i64>,
}

/// A release of a control plane.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneUpdate {
    pub state: UpdateState,
    pub started_time: Time,
    pub completion_time: Option<Time>,
    #[schemars(length(min = 1, max = 64))]
    pub version: String,
    #[schemars(length(min = 1, max = 447))]
    pub image: String,
}

text_enum! {
    /// Architectures of a payload.
    pub enum PayloadArch {
        Multi = "Multi",
        Arm64 = "ARM64",
        Amd64 = "AMD64",
        Ppc64Le = "PPC64LE",
        S390X = "S390X",
    }
}

/// What the guest reports of its configuration.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostedClusterConfigurationStatus {
    /// OIDC clients and OAuth metadata.
    pub authentication: Option<Json>,
}
