//! `AzureCluster`: the network and the resource group of a cluster.

use super::LongRunningOperation;
use crate::capi::cluster::CapiEndpoint;
use crate::capi::{CapiCondition, FailureDomain};
use crate::common::{Json, ObjectReference, Other};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// The network and the resource group of a cluster.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "AzureCluster",
    namespaced,
    doc = "The network and the resource group of a cluster on Azure.",
    status = "AzureClusterStatus",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta1", "v1beta1"),
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",
        description = "The cluster"
    ),
    printcolumn(
        name = "Ready",
        type_ = "boolean",
        json_path = ".status.ready",
        description = "Whether it is complete"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    ),
    printcolumn(name = "Resource Group", type_ = "string", json_path = ".spec.resourceGroup", priority = 1),
    printcolumn(name = "SubscriptionID", type_ = "string", json_path = ".spec.subscriptionID", priority = 1),
    printcolumn(name = "Location", type_ = "string", json_path = ".spec.location", priority = 1),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".spec.controlPlaneEndpoint.host",
        description = "Where the API server answers",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AzureClusterSpec {
    /// Azure region.
    pub location: String,
    pub resource_group: Option<String>,
    #[serde(rename = "subscriptionID")]
    pub subscription_id: Option<String>,
    pub azure_environment: Option<String>,
    /// Where the API server answers.
    pub control_plane_endpoint: Option<CapiEndpoint>,
    /// Whether this cluster has control-plane machines.
    #[schemars(extend("default" = json!(true)))]
    pub control_plane_enabled: Option<bool>,
    /// The AzureClusterIdentity that machines are made with.
    pub identity_ref: Option<ObjectReference>,
    /// Networks and load balancers.
    pub network_spec: Option<NetworkSpec>,
    pub additional_tags: Option<BTreeMap<String, String>>,
    pub failure_domains: Option<BTreeMap<String, FailureDomain>>,
    /// Not acted on.
    pub bastion_spec: Option<Json>,
    /// Not acted on.
    pub cloud_provider_config_overrides: Option<Json>,
    /// Not acted on.
    pub extended_location: Option<Json>,
}

/// Networks and load balancers.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSpec {
    pub vnet: Option<Vnet>,
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub subnets: Option<Vec<Subnet>>,
    /// The load balancer that nodes go out through.
    #[serde(rename = "nodeOutboundLB")]
    pub node_outbound_lb: Option<LoadBalancer>,
    /// Not acted on.
    #[serde(rename = "apiServerLB")]
    pub api_server_lb: Option<Json>,
    /// Not acted on.
    #[serde(rename = "controlPlaneOutboundLB")]
    pub control_plane_outbound_lb: Option<Json>,
    /// Not acted on.
    #[serde(rename = "additionalAPIServerLBPorts")]
    pub additional_api_server_lb_ports: Option<Vec<Json>>,
    #[serde(rename = "privateDNSZone")]
    #[schemars(extend("enum" = ["System", "None"]))]
    pub private_dns_zone: Option<String>,
    #[serde(rename = "privateDNSZoneName")]
    pub private_dns_zone_name: Option<String>,
    #[serde(rename = "privateDNSZoneResourceGroup")]
    pub private_dns_zone_resource_group: Option<String>,
}

/// A virtual network.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Vnet {
    pub name: String,
    pub id: Option<String>,
    pub resource_group: Option<String>,
    pub cidr_blocks: Option<Vec<String>>,
    pub tags: Option<BTreeMap<String, String>>,
    /// Not acted on.
    pub peerings: Option<Vec<Json>>,
}

/// A subnet.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subnet {
    pub name: String,
    /// node, control-plane, bastion or cluster.
    #[schemars(extend("enum" = ["node", "control-plane", "bastion", "cluster"]))]
    pub role: String,
    pub id: Option<String>,
    pub cidr_blocks: Option<Vec<String>>,
    #[serde(flatten)]
    pub other: Other,
}

/// A load balancer.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancer {
    pub id: Option<String>,
    pub name: Option<String>,
    pub sku: Option<String>,
    #[serde(rename = "type")]
    pub type_: Option<String>,
    #[serde(rename = "frontendIPsCount")]
    pub frontend_ips_count: Option<i32>,
    #[serde(rename = "frontendIPs")]
    pub frontend_ips: Option<Vec<Json>>,
    pub idle_timeout_in_minutes: Option<i32>,
    pub backend_pool: Option<BackendPool>,
    #[schemars(length(max = 3), extend("x-kubernetes-list-type" = "set"))]
    pub availability_zones: Option<Vec<Zone>>,
}

/// An availability zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Zone(#[schemars(regex(pattern = "^[1-3]$"))] pub String);

/// A pool of machines behind a load balancer.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendPool {
    pub name: Option<String>,
}

/// What is known of the infrastructure.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AzureClusterStatus {
    pub ready: Option<bool>,
    pub failure_domains: Option<BTreeMap<String, FailureDomain>>,
    pub conditions: Option<Vec<CapiCondition>>,
    pub long_running_operation_states: Option<Vec<LongRunningOperation>>,
}
