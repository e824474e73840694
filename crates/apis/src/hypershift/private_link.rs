//! `AzurePrivateLinkService`: the private way into a self-managed cluster, one for each internal load balancer.

use super::platform::{SubscriptionId, subnet_rules};
use crate::common::Condition;
use crate::schema::{fixed, immutable, once, rule, uuid};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

const REMAKE: &str = "delete the object; its operator makes it again";

/// A private link service and the endpoint in the guest's network.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "hypershift.openshift.io",
    version = "v1beta1",
    kind = "AzurePrivateLinkService",
    namespaced,
    doc = "A private link service and the endpoint in the guest's network.",
    plural = "azureprivatelinkservices",
    status = "AzurePrivateLinkServiceStatus",
    shortname = "azpls",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "PLS Alias",
        type_ = "string",
        json_path = ".status.privateLinkServiceAlias",
        description = "Alias of the private link service"
    ),
    printcolumn(
        name = "Endpoint IP",
        type_ = "string",
        json_path = ".status.privateEndpointIP",
        description = "Address in the guest's network"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"AzurePrivateLinkServiceAvailable\")].status",
        description = "Whether the way is open"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [once("natSubnetID", REMAKE), once("baseDomain", REMAKE)]))]
pub struct AzurePrivateLinkServiceSpec {
    /// Subscription of the cluster: its endpoint and zones are made in it.
    #[serde(rename = "subscriptionID")]
    #[schemars(length(min = 36, max = 36), extend("x-kubernetes-validations" = [fixed("subscriptionID", REMAKE), uuid("subscriptionID")]))]
    pub subscription_id: String,
    /// Resource group of the cluster: its endpoint and zones are made in it.
    #[schemars(length(min = 1, max = 90), extend("x-kubernetes-validations" = immutable("resourceGroupName", REMAKE)))]
    pub resource_group_name: String,
    /// Azure region.
    #[schemars(length(min = 1, max = 50), extend("x-kubernetes-validations" = immutable("location", REMAKE)))]
    pub location: String,
    /// Subnet of the guest that gets the private endpoint.
    #[serde(rename = "guestSubnetID")]
    #[schemars(length(min = 1, max = 355), extend("x-kubernetes-validations" = subnet_rules("guestSubnetID", REMAKE)))]
    pub guest_subnet_id: String,
    /// Virtual network of the guest that gets the private zones.
    #[serde(rename = "guestVNetID")]
    #[schemars(length(min = 1, max = 355), extend("x-kubernetes-validations" = [
        fixed("guestVNetID", REMAKE),
        rule("self.matches('(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft[.]Network/virtualNetworks/[^/]+$')",
            "guestVNetID must be /subscriptions/<id>/resourceGroups/<group>/providers/Microsoft.Network/virtualNetworks/<vnet>"),
    ]))]
    pub guest_vnet_id: String,
    /// Subnet for network address translation. Unset: one is made.
    #[serde(rename = "natSubnetID")]
    #[schemars(length(min = 1, max = 355), extend("x-kubernetes-validations" = subnet_rules("natSubnetID", REMAKE)))]
    pub nat_subnet_id: Option<String>,
    /// Domain of the private zone with the cluster's public names.
    #[schemars(length(min = 1, max = 253))]
    pub base_domain: Option<String>,
    /// Further subscriptions whose endpoints are approved without asking.
    #[schemars(length(min = 1, max = 50), extend("x-kubernetes-list-type" = "set"))]
    pub additional_allowed_subscriptions: Option<Vec<SubscriptionId>>,
    /// Address of the internal load balancer, when known.
    #[serde(rename = "loadBalancerIP")]
    #[schemars(length(min = 1, max = 39))]
    pub load_balancer_ip: Option<String>,
}

/// What was made in Azure.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct AzurePrivateLinkServiceStatus {
    #[serde(rename = "internalLoadBalancerID")]
    #[schemars(length(min = 1, max = 284))]
    pub internal_load_balancer_id: Option<String>,
    #[serde(rename = "privateLinkServiceID")]
    #[schemars(length(min = 1, max = 270))]
    pub private_link_service_id: Option<String>,
    #[schemars(length(min = 1, max = 170))]
    pub private_link_service_alias: Option<String>,
    #[serde(rename = "privateEndpointID")]
    #[schemars(length(min = 1, max = 267))]
    pub private_endpoint_id: Option<String>,
    #[serde(rename = "privateEndpointIP")]
    #[schemars(length(min = 1, max = 39))]
    pub private_endpoint_ip: Option<String>,
    #[serde(rename = "privateDNSZoneID")]
    #[schemars(length(min = 1, max = 265))]
    pub private_dns_zone_id: Option<String>,
    #[schemars(length(min = 1, max = 253))]
    pub dns_zone_name: Option<String>,
    #[serde(rename = "baseDomainDNSZoneID")]
    #[schemars(length(min = 1, max = 265))]
    pub base_domain_dns_zone_id: Option<String>,
    /// The state in its aspects.
    #[schemars(length(min = 1, max = 10), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
}
