//! More of `config.openshift.io/v1`: kinds whose spec a HostedCluster does not carry.

use crate::common::{Json, Other};
use crate::openshift::config_specs::NameReference;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// What a cluster runs on.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Infrastructure",
    plural = "infrastructures",
    doc = "What a cluster runs on. The object is named `cluster`.",
    status = "InfrastructureStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureSpec {
    /// ConfigMap of the cloud provider.
    pub cloud_config: Option<CloudConfigReference>,
    pub platform_spec: Option<PlatformSpec>,
    #[serde(flatten)]
    pub other: Other,
}

/// A key of a ConfigMap.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloudConfigReference {
    pub name: Option<String>,
    pub key: Option<String>,
}

/// The provider.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlatformSpec {
    #[serde(rename = "type")]
    pub type_: Option<String>,
    #[serde(flatten)]
    pub other: Other,
}

/// Names and addresses of the cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureStatus {
    pub infrastructure_name: Option<String>,
    pub platform: Option<String>,
    pub platform_status: Option<PlatformStatus>,
    #[serde(rename = "apiServerURL")]
    pub api_server_url: Option<String>,
    #[serde(rename = "apiServerInternalURI")]
    pub api_server_internal_uri: Option<String>,
    pub etcd_discovery_domain: Option<String>,
    /// HighlyAvailable, SingleReplica, External …
    pub control_plane_topology: Option<String>,
    pub infrastructure_topology: Option<String>,
    pub cpu_partitioning: Option<String>,
    #[serde(flatten)]
    pub other: Other,
}

/// The provider, and what it made.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlatformStatus {
    #[serde(rename = "type")]
    pub type_: String,
    pub azure: Option<AzurePlatformStatus>,
    #[serde(flatten)]
    pub other: Other,
}

/// What Azure made.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AzurePlatformStatus {
    pub resource_group_name: Option<String>,
    pub network_resource_group_name: Option<String>,
    pub cloud_name: Option<String>,
    pub arm_endpoint: Option<String>,
    #[serde(flatten)]
    pub other: Other,
}

/// Names of a cluster.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "DNS",
    plural = "dnses",
    status = "Json",
    doc = "Names of a cluster. The object is named `cluster`.",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct DnsSpec {
    pub base_domain: Option<String>,
    pub public_zone: Option<DnsZone>,
    pub private_zone: Option<DnsZone>,
    #[serde(flatten)]
    pub other: Other,
}

/// A zone.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DnsZone {
    pub id: Option<String>,
    pub tags: Option<std::collections::BTreeMap<String, String>>,
}

/// Defaults of builds.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Build",
    plural = "builds",
    doc = "Defaults of builds. The object is named `cluster`.",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct BuildSpec {
    #[serde(rename = "additionalTrustedCA")]
    pub additional_trusted_ca: Option<NameReference>,
    pub build_defaults: Option<Json>,
    pub build_overrides: Option<Json>,
    #[serde(flatten)]
    pub other: Other,
}

/// Where images are also found, by digest.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ImageDigestMirrorSet",
    plural = "imagedigestmirrorsets",
    doc = "Where images are also found, by digest.",
    status = "Json",
    shortname = "idms",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct ImageDigestMirrorSetSpec {
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub image_digest_mirrors: Option<Vec<ImageDigestMirror>>,
    #[serde(flatten)]
    pub other: Other,
}

/// One repository and its mirrors.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageDigestMirror {
    /// The repository that users name.
    pub source: String,
    /// Repositories with the same content.
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub mirrors: Option<Vec<String>>,
    /// Whether the source may be asked too.
    #[schemars(extend("enum" = ["NeverContactSource", "AllowContactingSource"]))]
    pub mirror_source_policy: Option<String>,
}
