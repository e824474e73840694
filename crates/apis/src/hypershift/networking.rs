//! `spec.networking`: the address ranges of the cluster.

use crate::common::text_enum;
use crate::schema::{fixed, immutable, rule, rule_at};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

const AGAIN: &str = "create another HostedCluster with the ranges you want";

text_enum! {
    /// Network plugins.
    pub enum NetworkType {
        OvnKubernetes = "OVNKubernetes",
        OpenShiftSdn = "OpenShiftSDN",
        Calico = "Calico",
        Other = "Other",
    }
}

text_enum! {
    /// Whether the controller manager hands out pod ranges.
    pub enum Allocation {
        Enabled = "Enabled",
        Disabled = "Disabled",
    }
}

/// A range of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("x-kubernetes-validations" = [
    rule("isCIDR(self)", "cidr must be an address range such as 10.132.0.0/14 or fd01::/48"),
]))]
pub struct Cidr(#[schemars(length(max = 43))] pub String);

impl From<&str> for Cidr {
    fn from(text: &str) -> Cidr {
        Cidr(text.to_owned())
    }
}

/// A range of pods.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetworkEntry {
    /// The range.
    pub cidr: Cidr,
    /// Length of the prefix that each node gets of it.
    pub host_prefix: Option<i32>,
}

/// A range of services or machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkEntry {
    /// The range.
    pub cidr: Cidr,
}

/// How the API server is reached from the nodes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiServerNetworking {
    /// Address that nodes use for the API server. Unset: 172.20.0.1 or fd00::1.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = immutable("advertiseAddress", AGAIN)))]
    pub advertise_address: Option<String>,
    /// Port of the API server inside the cluster.
    #[schemars(extend("x-kubernetes-validations" = immutable("port", AGAIN)))]
    pub port: Option<i32>,
    /// Ranges that may reach the API server. Unset: all.
    #[serde(rename = "allowedCIDRBlocks")]
    #[schemars(length(max = 500), extend("x-kubernetes-list-type" = "set"))]
    pub allowed_cidr_blocks: Option<Vec<Cidr>>,
}

fn rules() -> Value {
    let apart = |a: &str, b: &str| {
        rule_at(
            &format!(".{b}"),
            &format!(
                "!has(self.{a}) || !has(self.{b}) || self.{a}.all(x, self.{b}.all(y, x.cidr != y.cidr))"
            ),
            &format!("{a} and {b} must not share a CIDR: choose ranges that do not overlap"),
        )
    };
    json!([
        apart("clusterNetwork", "serviceNetwork"),
        apart("machineNetwork", "clusterNetwork"),
        apart("machineNetwork", "serviceNetwork"),
        rule_at(
            ".allocateNodeCIDRs",
            "!has(self.allocateNodeCIDRs) || self.allocateNodeCIDRs != 'Enabled' || self.networkType == 'Other'",
            "allocateNodeCIDRs may be Enabled only when networkType is Other: remove it or change networkType"
        ),
    ])
}

fn default_cluster_network() -> Vec<ClusterNetworkEntry> {
    vec![ClusterNetworkEntry { cidr: "10.132.0.0/14".into(), host_prefix: None }]
}

fn default_service_network() -> Vec<NetworkEntry> {
    vec![NetworkEntry { cidr: "172.31.0.0/16".into() }]
}

/// The address ranges of the cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules()))]
pub struct Networking {
    /// The network plugin.
    #[serde(default)]
    pub network_type: NetworkType,
    /// Ranges of pods.
    #[serde(default = "default_cluster_network")]
    #[schemars(length(min = 1, max = 2), extend("x-kubernetes-validations" = [fixed("clusterNetwork", AGAIN)]))]
    pub cluster_network: Vec<ClusterNetworkEntry>,
    /// Ranges of services.
    #[serde(default = "default_service_network")]
    #[schemars(length(min = 1, max = 2), extend("x-kubernetes-validations" = [fixed("serviceNetwork", AGAIN)]))]
    pub service_network: Vec<NetworkEntry>,
    /// Ranges of machines.
    #[schemars(length(min = 1, max = 2), extend("x-kubernetes-validations" = [fixed("machineNetwork", AGAIN)]))]
    pub machine_network: Option<Vec<NetworkEntry>>,
    /// How the API server is reached from the nodes.
    pub api_server: Option<ApiServerNetworking>,
    /// Whether the controller manager hands out pod ranges; only with networkType Other.
    #[serde(rename = "allocateNodeCIDRs")]
    #[schemars(extend("x-kubernetes-validations" = immutable("allocateNodeCIDRs", AGAIN)))]
    pub allocate_node_cidrs: Option<Allocation>,
}

impl Default for Networking {
    fn default() -> Networking {
        Networking {
            network_type: NetworkType::default(),
            cluster_network: default_cluster_network(),
            service_network: default_service_network(),
            machine_network: None,
            api_server: None,
            allocate_node_cidrs: None,
        }
    }
}
