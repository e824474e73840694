//! `HostedCluster`: what a user asks for.

use super::etcd::Etcd;
use super::networking::Networking;
use super::platform::{ids_once, service_rules};
use super::settings::{Dns, Release};
use super::shared::SharedSpec;
use super::status::{
    ClusterVersionStatus, ControlPlaneVersion, HostedClusterConfigurationStatus, PayloadArch,
};
use crate::common::LocalObjectReference as Reference;
use crate::common::{ApiEndpoint, Condition, Json, LocalObjectReference};
use crate::hypershift::encryption::SecretEncryptionStatus;
use crate::schema::{fixed, rule, rule_at, uuid};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

/// The issuer of service-account tokens when none is named.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc";

fn default_issuer() -> String {
    DEFAULT_ISSUER.into()
}

fn spec_rules() -> Value {
    let kept = |field: &str, what: &str| {
        rule_at(
            &format!(".{field}"),
            &format!("self.{field} == oldSelf.{field}"),
            &format!("{field} is immutable: create another HostedCluster with the {what} you want"),
        )
    };
    let mut rules = vec![
        kept("services", "services"),
        kept("controllerAvailabilityPolicy", "policy"),
        kept("olmCatalogPlacement", "placement"),
        kept("capabilities", "capabilities"),
        rule_at(
            ".fips",
            "(has(self.fips) && self.fips) == (has(oldSelf.fips) && oldSelf.fips)",
            "fips is immutable: create another HostedCluster to turn it on or off",
        ),
        rule_at(
            ".secretEncryption",
            "!has(oldSelf.secretEncryption) || has(self.secretEncryption)",
            "secretEncryption cannot be removed: stored secrets could no longer be read; rotate the key instead",
        ),
        rule_at(
            ".secretEncryption",
            "!has(self.secretEncryption) || !has(self.secretEncryption.kms) || !has(self.secretEncryption.kms.azure) || !has(self.platform.azure) || has(self.secretEncryption.kms.azure.kms) == (self.platform.azure.azureAuthenticationConfig.azureAuthenticationConfigType == 'ManagedIdentities')",
            "secretEncryption.kms.azure must have the identity of the cluster's flavour: kms with ManagedIdentities, workloadIdentity with WorkloadIdentities",
        ),
        rule_at(
            ".services",
            "size(self.services) >= 4",
            "services needs at least 4 entries: APIServer, OAuthServer, Konnectivity and Ignition",
        ),
        rule_at(
            ".serviceAccountSigningKey",
            "!has(self.serviceAccountSigningKey) || self.issuerURL != ''",
            "serviceAccountSigningKey needs issuerURL: set it to the issuer that publishes the key",
        ),
        rule_at(
            ".operatorConfiguration",
            "!has(self.operatorConfiguration) || !has(self.operatorConfiguration.clusterNetworkOperator) || !self.operatorConfiguration.clusterNetworkOperator.disableMultiNetwork || self.networking.networkType == 'Other'",
            "operatorConfiguration.clusterNetworkOperator.disableMultiNetwork may be true only when networking.networkType is Other: set it to false",
        ),
        rule_at(
            ".operatorConfiguration",
            "!has(self.operatorConfiguration) || !has(self.operatorConfiguration.clusterNetworkOperator) || !has(self.operatorConfiguration.clusterNetworkOperator.ovnKubernetesConfig) || self.networking.networkType == 'OVNKubernetes'",
            "operatorConfiguration.clusterNetworkOperator.ovnKubernetesConfig is allowed only when networking.networkType is OVNKubernetes: remove it",
        ),
        rule_at(
            ".services",
            "!has(self.configuration) || !has(self.configuration.apiServer) || !has(self.configuration.apiServer.servingCerts) || !has(self.configuration.apiServer.servingCerts.namedCertificates) || self.services.all(s, s.service != 'APIServer' || s.servicePublishingStrategy.type != 'LoadBalancer' || !has(s.servicePublishingStrategy.loadBalancer) || !has(s.servicePublishingStrategy.loadBalancer.hostname) || self.configuration.apiServer.servingCerts.namedCertificates.all(c, !has(c.names) || !(s.servicePublishingStrategy.loadBalancer.hostname in c.names)))",
            "the APIServer's loadBalancer.hostname must not be among configuration.apiServer.servingCerts.namedCertificates names: remove it there, or serve it through kubeAPIServerDNSName",
        ),
    ];
    rules.extend(service_rules());
    rules.extend(ids_once());
    json!(rules)
}

/// A cluster whose control plane runs as pods here, and whose nodes run elsewhere.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "hypershift.openshift.io",
    version = "v1beta1",
    kind = "HostedCluster",
    namespaced,
    doc = "A cluster whose control plane runs as pods here, and whose nodes run elsewhere.",
    status = "HostedClusterStatus",
    shortname = "hc",
    shortname = "hcs",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.version.history[?(@.state==\"Completed\")].version",
        description = "Version that is complete"
    ),
    printcolumn(
        name = "CP Version",
        type_ = "string",
        json_path = ".status.controlPlaneVersion.history[?(@.state==\"Completed\")].version",
        description = "Version of the control plane that is complete"
    ),
    printcolumn(
        name = "KubeConfig",
        type_ = "string",
        json_path = ".status.kubeconfig.name",
        description = "Secret with the admin kubeconfig"
    ),
    printcolumn(
        name = "Progress",
        type_ = "string",
        json_path = ".status.version.history[?(@.state!=\"\")].state",
        description = "State of the newest version"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status",
        description = "Whether the API answers"
    ),
    printcolumn(
        name = "Progressing",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Progressing\")].status",
        description = "Whether a version is being rolled out"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].message",
        description = "What Available says"
    ),
    printcolumn(
        name = "CP Progress",
        type_ = "string",
        json_path = ".status.controlPlaneVersion.history[0].state",
        description = "State of the control plane's newest version",
        priority = 1
    ),
    printcolumn(
        name = "DP Progress",
        type_ = "string",
        json_path = ".status.version.history[0].state",
        description = "State of the nodes' newest version",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = spec_rules()))]
pub struct HostedClusterSpec {
    /// The release of the cluster.
    pub release: Release,
    /// Another release for control-plane components only; counts as a forced upgrade.
    pub control_plane_release: Option<Release>,
    /// Identifies the cluster for good. Generated when unset.
    #[serde(rename = "clusterID")]
    #[schemars(length(min = 36, max = 36), extend("x-kubernetes-validations" = [uuid("clusterID")]))]
    pub cluster_id: Option<String>,
    /// Prefix of the cluster's Azure resources. Generated when unset.
    #[serde(rename = "infraID")]
    #[schemars(length(min = 1, max = 253), extend("x-kubernetes-validations" = [
        rule("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "infraID has lower-case letters, digits and -, and starts and ends with a letter or digit"),
    ]))]
    pub infra_id: Option<String>,
    /// Update channel, such as stable-4.20.
    #[schemars(length(min = 1, max = 100))]
    pub channel: Option<String>,
    /// Names in DNS.
    pub dns: Option<Dns>,
    /// The cluster's etcd.
    #[serde(default)]
    pub etcd: Etcd,
    /// Address ranges.
    #[serde(default)]
    pub networking: Networking,
    /// Issuer of service-account tokens.
    #[serde(rename = "issuerURL", default = "default_issuer")]
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = [
        fixed("issuerURL", "create another HostedCluster; tokens in use name this issuer"),
        rule("isURL(self)", "issuerURL must be an absolute URL such as https://issuer.example.com/my-cluster"),
    ]))]
    pub issuer_url: String,
    /// Secret with the SSH key of the nodes, in `id_rsa.pub`.
    pub ssh_key: Option<LocalObjectReference>,
    /// Until when nothing is reconciled: a time (RFC 3339), or true or false.
    #[schemars(length(min = 4, max = 35), extend("x-kubernetes-validations" = paused_rules()))]
    pub paused_until: Option<String>,
    #[serde(flatten)]
    pub shared: SharedSpec,
}

/// The rule of `pausedUntil`.
pub(crate) fn paused_rules() -> Value {
    json!([rule(
        "self.matches('^(true|false|True|False|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2}))$')",
        "pausedUntil must be true, false or a time such as 2030-01-02T15:04:05Z"
    )])
}

/// What is known of the cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostedClusterStatus {
    /// Versions of the whole cluster, newest first.
    pub version: Option<ClusterVersionStatus>,
    /// Versions of the control plane, newest first.
    pub control_plane_version: Option<ControlPlaneVersion>,
    /// Secret with the admin kubeconfig, in `kubeconfig`.
    pub kubeconfig: Option<Reference>,
    /// Secret with the kubeconfig for kubeAPIServerDNSName.
    pub custom_kubeconfig: Option<Reference>,
    /// Secret with the password of kubeadmin, in `password`.
    pub kubeadmin_password: Option<Reference>,
    /// Host of the ignition server.
    #[schemars(length(max = 1024))]
    pub ignition_endpoint: Option<String>,
    /// Where the API server answers.
    pub control_plane_endpoint: Option<ApiEndpoint>,
    /// Callback URL of identity providers.
    #[serde(rename = "oauthCallbackURLTemplate")]
    #[schemars(length(max = 1024))]
    pub oauth_callback_url_template: Option<String>,
    /// Architecture of the release payload.
    pub payload_arch: Option<PayloadArch>,
    /// Of the platform; nothing on Azure.
    pub platform: Option<Json>,
    /// Of the configuration.
    pub configuration: Option<HostedClusterConfigurationStatus>,
    /// Of node autoprovisioning; not acted on.
    pub auto_node: Option<Json>,
    /// Progress of encryption.
    pub secret_encryption: Option<SecretEncryptionStatus>,
    /// Where the newest snapshot of etcd is.
    #[serde(rename = "lastSuccessfulEtcdBackupURL")]
    #[schemars(length(max = 1024))]
    pub last_successful_etcd_backup_url: Option<String>,
    /// The state in its aspects; see the `conditions` module.
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
}
