//! `HostedControlPlane`: what the control-plane operator works from, projected from a HostedCluster.

use super::encryption::SecretEncryptionStatus;
use super::etcd::Etcd;
use super::networking::Networking;
use super::settings::Dns;
use super::shared::SharedSpec;
use super::status::{ClusterVersionStatus, ControlPlaneVersion, HostedClusterConfigurationStatus};
use crate::common::{ApiEndpoint, Condition, Json, KubeconfigSecretRef, LocalObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;

/// The control plane of one hosted cluster.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "hypershift.openshift.io",
    version = "v1beta1",
    kind = "HostedControlPlane",
    namespaced,
    doc = "The control plane of one hosted cluster. Written by the operator; change the HostedCluster instead.",
    status = "HostedControlPlaneStatus",
    shortname = "hcp",
    shortname = "hcps",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta1", "v1beta1"),
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct HostedControlPlaneSpec {
    /// The release of the cluster.
    #[schemars(length(max = 255))]
    pub release_image: String,
    /// Another release for control-plane components only.
    #[schemars(length(max = 255))]
    pub control_plane_release_image: Option<String>,
    /// Identifies the cluster for good.
    #[serde(rename = "clusterID")]
    #[schemars(length(max = 255))]
    pub cluster_id: Option<String>,
    /// Prefix of the cluster's Azure resources.
    #[serde(rename = "infraID")]
    #[schemars(length(max = 255))]
    pub infra_id: String,
    /// Update channel.
    #[schemars(length(max = 255))]
    pub channel: Option<String>,
    /// Names in DNS.
    pub dns: Dns,
    /// The cluster's etcd.
    pub etcd: Etcd,
    /// Address ranges.
    pub networking: Option<Networking>,
    /// Issuer of service-account tokens.
    #[serde(rename = "issuerURL")]
    #[schemars(length(max = 255))]
    pub issuer_url: String,
    /// Secret with the SSH key of the nodes, in `id_rsa.pub`.
    pub ssh_key: LocalObjectReference,
    /// Until when nothing is reconciled.
    #[schemars(length(max = 255))]
    pub paused_until: Option<String>,
    /// Where the admin kubeconfig is to be written.
    pub kubeconfig: Option<KubeconfigSecretRef>,
    #[serde(flatten)]
    pub shared: SharedSpec,
}

/// What is known of the control plane.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostedControlPlaneStatus {
    /// Whether the API is ready, as Cluster API asks it.
    #[serde(default)]
    #[schemars(required)]
    pub ready: bool,
    /// Whether the API was ever ready.
    #[serde(default)]
    #[schemars(required)]
    pub initialized: bool,
    /// There are no control-plane Machines.
    #[schemars(extend("default" = json!(true)))]
    pub external_managed_control_plane: Option<bool>,
    /// Versions, newest first.
    pub version_status: Option<ClusterVersionStatus>,
    /// Versions of the control plane, newest first.
    pub control_plane_version: Option<ControlPlaneVersion>,
    /// Where the admin kubeconfig is.
    pub kube_config: Option<KubeconfigSecretRef>,
    /// Where the kubeconfig for kubeAPIServerDNSName is.
    pub custom_kubeconfig: Option<KubeconfigSecretRef>,
    /// Secret with the password of kubeadmin.
    pub kubeadmin_password: Option<LocalObjectReference>,
    /// Where the API server answers.
    pub control_plane_endpoint: Option<ApiEndpoint>,
    /// Callback URL of identity providers.
    #[serde(rename = "oauthCallbackURLTemplate")]
    #[schemars(length(max = 255))]
    pub oauth_callback_url_template: Option<String>,
    /// Nodes of the cluster. An int without format upstream.
    #[schemars(extend("format" = serde_json::Value::Null))]
    pub node_count: Option<i64>,
    /// Superseded by versionStatus.
    #[schemars(length(max = 255))]
    pub version: Option<String>,
    /// Superseded by versionStatus.
    #[schemars(length(max = 255))]
    pub release_image: Option<String>,
    /// Superseded by versionStatus.
    pub last_release_image_transition_time: Option<Time>,
    /// Of the platform; nothing on Azure.
    pub platform: Option<Json>,
    /// Of the configuration.
    pub configuration: Option<HostedClusterConfigurationStatus>,
    /// Of node autoprovisioning; not acted on.
    pub auto_node: Option<Json>,
    /// Progress of encryption.
    pub secret_encryption: Option<SecretEncryptionStatus>,
    /// The state in its aspects.
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
}
