//! Where a hosted cluster lives: `spec.platform`, of which Azure is ours.
//!
//! The other platforms are accepted as upstream accepts them and carried unread, so that one definition serves a
//! management cluster that has both; our controllers refuse them with a condition.

use super::identity::AzureAuthentication;
use crate::common::{Json, text_enum};
use crate::schema::{
    fixed, immutable, member, once, optional_member, rule, rule_at, settled, subnet_id, uuid,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

/// What to do about a field that names where the cluster is.
const ELSEWHERE: &str = "create another HostedCluster in the place you want";

text_enum! {
    /// Infrastructure providers that a hosted cluster can name. Ours is Azure.
    pub enum PlatformType {
        Aws = "AWS",
        Azure = "Azure",
        IbmCloud = "IBMCloud",
        KubeVirt = "KubeVirt",
        Agent = "Agent",
        PowerVs = "PowerVS",
        None = "None",
    }
}

/// The infrastructure of the cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    rule_at(".azure", "(self.type == 'Azure') == has(self.azure)",
        "azure is required when type is Azure, and forbidden otherwise: set platform.azure or change platform.type"),
]))]
pub struct Platform {
    /// Which provider; decides which of the other fields counts.
    #[serde(rename = "type")]
    #[schemars(length(max = 100), extend("x-kubernetes-validations" = immutable("platform.type", ELSEWHERE)))]
    pub type_: PlatformType,
    /// Azure.
    pub azure: Option<AzurePlatform>,
    /// Not acted on.
    pub agent: Option<Json>,
    /// Not acted on.
    pub aws: Option<Json>,
    /// Not acted on.
    pub ibmcloud: Option<Json>,
    /// Not acted on.
    pub kubevirt: Option<Json>,
    /// Not acted on.
    pub powervs: Option<Json>,
}

text_enum! {
    /// Azure clouds: each has its own endpoints.
    pub enum AzureCloud {
        Public = "AzurePublicCloud",
        UsGovernment = "AzureUSGovernmentCloud",
        China = "AzureChinaCloud",
        German = "AzureGermanCloud",
        Bleu = "AzureBleuCloud",
        Stack = "AzureStackCloud",
    }
}

text_enum! {
    /// From where the cluster's API can be reached.
    pub enum Topology {
        Public = "Public",
        PublicAndPrivate = "PublicAndPrivate",
        Private = "Private",
    }
}

impl Topology {
    /// Whether a private endpoint exists.
    pub fn is_private(self) -> bool {
        self != Topology::Public
    }
}

fn default_resource_group() -> String {
    "default".into()
}

fn azure_rules() -> Value {
    json!([
        rule_at(
            ".private",
            "has(self.private) == (has(self.topology) && self.topology != 'Public')",
            "private is required when topology is Private or PublicAndPrivate, and forbidden otherwise: set platform.azure.private or change topology"
        ),
        settled("private", "create another HostedCluster to change between public and private"),
        rule_at(
            ".topology",
            "!has(oldSelf.topology) || has(self.topology)",
            "topology cannot be removed once set: keep its value"
        ),
        rule_at(
            ".topology",
            "!has(self.topology) || ((has(oldSelf.topology) && oldSelf.topology != 'Public') == (self.topology != 'Public'))",
            "topology cannot change between Public and the private modes: only PublicAndPrivate and Private may be swapped; create another HostedCluster"
        ),
        rule_at(
            ".azureAuthenticationConfig",
            "!has(self.private) || self.private.type != 'PrivateLink' || self.azureAuthenticationConfig.azureAuthenticationConfigType != 'WorkloadIdentities' || (has(self.azureAuthenticationConfig.workloadIdentities) && has(self.azureAuthenticationConfig.workloadIdentities.controlPlaneOperator))",
            "workloadIdentities.controlPlaneOperator is required when private.type is PrivateLink: add its clientID"
        ),
    ])
}

/// A cluster on Azure.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = azure_rules()))]
pub struct AzurePlatform {
    /// The Azure cloud.
    #[serde(default)]
    pub cloud: AzureCloud,
    /// The Azure region, such as `westeurope`.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = immutable("location", ELSEWHERE)))]
    pub location: String,
    /// The resource group that holds the cluster's Azure resources. It must exist.
    #[serde(default = "default_resource_group")]
    #[schemars(length(max = 90), regex(pattern = r"^[a-zA-Z0-9_()\-\.]{1,89}[a-zA-Z0-9_()\-]$"),
        extend("x-kubernetes-validations" = immutable("resourceGroup", ELSEWHERE)))]
    pub resource_group: String,
    /// ARM id of the virtual network of the worker nodes.
    #[serde(rename = "vnetID")]
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = immutable("vnetID", ELSEWHERE)))]
    pub vnet_id: String,
    /// ARM id of the subnet that the control plane's components use for load balancers and storage.
    #[serde(rename = "subnetID")]
    #[schemars(length(min = 1, max = 355), extend("x-kubernetes-validations" = subnet_rules("subnetID", ELSEWHERE)))]
    pub subnet_id: String,
    /// The subscription that pays for the cluster.
    #[serde(rename = "subscriptionID")]
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = immutable("subscriptionID", ELSEWHERE)))]
    pub subscription_id: String,
    /// ARM id of the network security group of the worker subnets.
    #[serde(rename = "securityGroupID")]
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = immutable("securityGroupID", ELSEWHERE)))]
    pub security_group_id: String,
    /// The Entra tenant of the subscription.
    #[serde(rename = "tenantID")]
    #[schemars(length(max = 255))]
    pub tenant_id: String,
    /// How the cluster's components authenticate to Azure.
    pub azure_authentication_config: AzureAuthentication,
    /// From where the cluster's API can be reached. Unset means Public.
    pub topology: Option<Topology>,
    /// How the private endpoint is made; with the private topologies only.
    pub private: Option<PrivateConnectivity>,
    /// How worker nodes pull from Azure Container Registry.
    pub container_registry: Option<ContainerRegistry>,
}

impl AzurePlatform {
    /// The topology, with its default.
    pub fn topology(&self) -> Topology {
        self.topology.unwrap_or_default()
    }
}

/// The rules of a subnet id that never changes.
pub(crate) fn subnet_rules(field: &str, fix: &str) -> Value {
    let mut rules = subnet_id(field, false);
    rules.push(fixed(field, fix));
    json!(rules)
}

text_enum! {
    /// Ways to make a private endpoint.
    pub enum PrivateType {
        PrivateLink = "PrivateLink",
        Swift = "Swift",
    }
}

/// The private endpoint of the cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    optional_member("type", "PrivateLink", "privateLink"),
    member("type", "Swift", "swift"),
]))]
pub struct PrivateConnectivity {
    /// PrivateLink: a private link service on the management side and an endpoint in the customer's network.
    /// Swift: the API server's pods stand in the customer's network.
    #[serde(rename = "type")]
    #[schemars(extend("x-kubernetes-validations" = immutable("private.type", ELSEWHERE)))]
    pub type_: PrivateType,
    /// Settings of PrivateLink.
    pub private_link: Option<PrivateLink>,
    /// Settings of Swift.
    pub swift: Option<Swift>,
}

/// Settings of a private link service.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct PrivateLink {
    /// ARM id of the subnet for network address translation. Unset: one is made.
    #[serde(rename = "natSubnetID")]
    #[schemars(length(min = 1, max = 355), extend("x-kubernetes-validations" = subnet_rules("natSubnetID", ELSEWHERE)))]
    pub nat_subnet_id: Option<String>,
    /// Further subscriptions whose endpoints are approved without asking.
    #[schemars(length(min = 1, max = 50), extend("x-kubernetes-list-type" = "set"))]
    pub additional_allowed_subscriptions: Option<Vec<SubscriptionId>>,
}

/// The id of a subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("x-kubernetes-validations" = [uuid("additionalAllowedSubscriptions")]))]
pub struct SubscriptionId(#[schemars(length(min = 36, max = 36))] pub String);

/// Settings of Swift.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Swift {
    /// Name of the PodNetworkInstance that pods join.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = [
        fixed("podNetworkInstance", ELSEWHERE),
        rule("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "podNetworkInstance must be a DNS label: lower-case letters, digits and -, starting and ending with a letter or digit"),
    ]))]
    pub pod_network_instance: String,
}

/// How nodes pull from Azure Container Registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerRegistry {
    /// The credentials nodes use.
    pub credentials: RegistryCredentials,
}

text_enum! {
    /// Kinds of registry credentials.
    pub enum RegistryCredentialsType {
        ManagedIdentity = "ManagedIdentity",
    }
}

/// Credentials for a registry.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [member("type", "ManagedIdentity", "managedIdentity")]))]
pub struct RegistryCredentials {
    /// Which kind; decides which of the other fields counts.
    #[serde(rename = "type")]
    pub type_: RegistryCredentialsType,
    /// The identity that worker VMs carry.
    pub managed_identity: Option<RegistryIdentity>,
}

/// A managed identity, put on every worker VM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegistryIdentity {
    /// ARM id of a user-assigned identity with `AcrPull`.
    #[serde(rename = "resourceID")]
    #[schemars(length(min = 131, max = 345), extend("x-kubernetes-validations" = [
        rule("self.matches('^/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[^/]{1,90}/providers/Microsoft[.]ManagedIdentity/userAssignedIdentities/[^/]{3,128}$')",
            "resourceID must be /subscriptions/<uuid>/resourceGroups/<group>/providers/Microsoft.ManagedIdentity/userAssignedIdentities/<name>; copy it from `az identity show --query id`"),
    ]))]
    pub resource_id: String,
}

/// Rules that only the root of the spec can say, because they join the platform with published services.
pub(crate) fn service_rules() -> [Value; 3] {
    let only = |service: &str, types: &str| {
        format!(
            "self.platform.type != 'Azure' || self.services.all(s, s.service != '{service}' || s.servicePublishingStrategy.type in [{types}])"
        )
    };
    [
        rule_at(
            ".services",
            &only("Konnectivity", "'Route'"),
            "on Azure the Konnectivity service must be published by Route: set its servicePublishingStrategy.type to Route",
        ),
        rule_at(
            ".services",
            &only("Ignition", "'Route'"),
            "on Azure the Ignition service must be published by Route: set its servicePublishingStrategy.type to Route",
        ),
        rule_at(
            ".services",
            "self.platform.type != 'Azure' || self.services.all(s, s.service != 'OAuthServer' || s.servicePublishingStrategy.type == 'Route' || (s.servicePublishingStrategy.type == 'LoadBalancer' && has(self.platform.azure) && self.platform.azure.azureAuthenticationConfig.azureAuthenticationConfigType == 'WorkloadIdentities'))",
            "on Azure the OAuthServer service must be published by Route, or by LoadBalancer with WorkloadIdentities: change its servicePublishingStrategy.type",
        ),
    ]
}

/// Whether a field of the spec is set once; used by the roots.
pub(crate) fn ids_once() -> [Value; 2] {
    [
        once("clusterID", "keep the value; it names the cluster in telemetry and in Azure"),
        once("infraID", "keep the value; Azure resources are named after it"),
    ]
}
