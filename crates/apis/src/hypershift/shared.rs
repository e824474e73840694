//! What a HostedCluster and its HostedControlPlane say alike.
//!
//! The control plane's spec is a projection of the cluster's. The fields with one shape on both sides stand here,
//! flattened into both, so that projecting is one clone and a field cannot be forgotten. The few fields whose
//! limits differ stand in each spec itself. Rules here hold on both sides; rules of the cluster alone (most
//! immutability) are at its root.

use super::encryption::SecretEncryption;
use super::platform::Platform;
use super::services::PublishedService;
use super::settings::{
    Autoscaling, AvailabilityPolicy, Capabilities, CatalogPlacement, ImageContentSource, Monitoring,
    OperatorConfiguration, domain_or_empty,
};
use crate::common::{Json, LocalObjectReference};
use crate::openshift::config_specs::ClusterConfiguration;
use crate::schema::rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

fn single() -> AvailabilityPolicy {
    AvailabilityPolicy::SingleReplica
}

/// Fields of both specs.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedSpec {
    /// The infrastructure of the cluster.
    pub platform: Platform,
    /// Secret with the pull secret, in `.dockerconfigjson`.
    pub pull_secret: LocalObjectReference,
    /// How the parts of the control plane are reached.
    #[schemars(length(max = 6))]
    pub services: Vec<PublishedService>,
    /// Where updates are looked up.
    #[schemars(extend("x-kubernetes-validations" = [
        rule("isURL(self)", "updateService must be an absolute URL such as https://updates.example.com/graph"),
    ]))]
    pub update_service: Option<String>,
    /// A further name for the API server; adds a kubeconfig of its own.
    #[serde(rename = "kubeAPIServerDNSName")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [domain_or_empty("kubeAPIServerDNSName")]))]
    pub kube_api_server_dns_name: Option<String>,
    /// Replicas of the control plane.
    #[serde(default)]
    pub controller_availability_policy: AvailabilityPolicy,
    /// Replicas of what runs on the nodes.
    #[serde(default = "single")]
    pub infrastructure_availability_policy: AvailabilityPolicy,
    /// The cluster autoscaler.
    pub autoscaling: Option<Autoscaling>,
    /// Node autoprovisioning; not acted on.
    pub auto_node: Option<Json>,
    /// ConfigMap with further CAs, in `ca-bundle.crt`.
    pub additional_trust_bundle: Option<LocalObjectReference>,
    /// Secret with a kubeconfig for the audit webhook, in `webhook-kubeconfig`.
    pub audit_webhook: Option<LocalObjectReference>,
    /// Secret with the private key that signs service-account tokens, in `key`.
    pub service_account_signing_key: Option<LocalObjectReference>,
    /// OpenShift configuration.
    pub configuration: Option<ClusterConfiguration>,
    /// Configuration of operators.
    pub operator_configuration: Option<OperatorConfiguration>,
    /// Mirrors of images.
    #[schemars(length(max = 255))]
    pub image_content_sources: Option<Vec<ImageContentSource>>,
    /// Encryption of secrets at rest.
    pub secret_encryption: Option<SecretEncryption>,
    /// Whether nodes run FIPS-validated cryptography.
    pub fips: Option<bool>,
    /// Where operator catalogs run.
    #[serde(default)]
    pub olm_catalog_placement: CatalogPlacement,
    /// Nodes of the management cluster that control-plane pods may use.
    #[schemars(extend("x-kubernetes-validations" = json!([
        rule("size(self) <= 20", "nodeSelector has at most 20 entries: remove some"),
    ])))]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Labels of control-plane pods.
    #[schemars(extend("maxProperties" = 20))]
    pub labels: Option<BTreeMap<String, String>>,
    /// Taints that control-plane pods tolerate.
    #[schemars(length(max = 25))]
    pub tolerations: Option<Vec<Toleration>>,
    /// Which optional parts the cluster has.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// What is measured.
    pub monitoring: Option<Monitoring>,
}

/// A taint that pods tolerate.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    pub key: Option<String>,
    /// Equal or Exists.
    pub operator: Option<String>,
    pub value: Option<String>,
    /// NoSchedule, PreferNoSchedule or NoExecute; unset: all.
    pub effect: Option<String>,
    pub toleration_seconds: Option<i64>,
}
