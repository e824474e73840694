//! `scheduling.hypershift.openshift.io`: how large hosted clusters are called, and what follows from it.
//!
//! A management cluster has one [`ClusterSizingConfiguration`], named `cluster`. It sorts hosted clusters by their number
//! of nodes into sizes; what a size [has for effects](Effects) becomes annotations of the clusters that have it. That
//! sizes cover every number exactly once cannot be said in CEL at an acceptable cost: the operator checks it, and says so
//! in the condition [`VALID`].

use crate::common::{Condition, IntOrString, QUANTITY};
use crate::schema::rule;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The only name that a configuration may have.
pub const NAME: &str = "cluster";
/// The condition of a configuration that can be used.
pub const VALID: &str = "ClusterSizingConfigurationValid";

/// Durations of Go, without signs and without units below a second.
const DURATION: &str = r"^([0-9]+(\.[0-9]+)?(s|m|h))+$";

/// The rule of the whole object; see [`crate::crds`].
pub(crate) fn only_name() -> serde_json::Value {
    rule(
        "self.metadata.name == 'cluster'",
        "exactly one configuration may exist, and its name is cluster: change that one",
    )
}

/// Sizes of hosted clusters.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduling.hypershift.openshift.io",
    version = "v1alpha1",
    kind = "ClusterSizingConfiguration",
    doc = "Sizes of hosted clusters by their number of nodes, and what follows from a size.",
    plural = "clustersizingconfigurations",
    shortname = "csc",
    shortname = "cscs",
    status = "ClusterSizingConfigurationStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "Valid",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ClusterSizingConfigurationValid\")].status",
        description = "Whether clusters are sorted by it"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSizingConfigurationSpec {
    /// The sizes. Together they cover every number of nodes from zero on, each number once.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"],
        "x-kubernetes-validations" = [
            rule("self.exists_one(i, i.criteria.from == 0)", "exactly one size must begin at zero: set criteria.from of the smallest to 0"),
            rule("self.exists_one(i, !has(i.criteria.to))", "exactly one size must have no end: leave criteria.to of the largest out"),
        ]))]
    pub sizes: Vec<SizeConfiguration>,
    /// How many clusters may change their size at a time. New clusters do not wait for others.
    pub concurrency: Option<ConcurrencyConfiguration>,
    /// How long a cluster must have had another number of nodes before its size follows.
    pub transition_delay: Option<TransitionDelayConfiguration>,
    /// Nodes per zone that are kept ready for pods that serve no requests. Carried for others: nothing here makes nodes.
    #[schemars(extend("pattern" = QUANTITY))]
    pub non_request_serving_nodes_buffer_per_zone: Option<IntOrString>,
}

/// One size.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeConfiguration {
    /// What it is called: small, for example.
    pub name: String,
    /// Which clusters have it.
    pub criteria: NodeCountCriteria,
    /// What follows from it.
    pub effects: Option<Effects>,
    /// How the management cluster prepares for it. Carried for others.
    pub management: Option<Management>,
}

/// A range of numbers of nodes, both ends included.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    rule("!has(self.to) || self.from <= self.to", "criteria.from must not be greater than criteria.to"),
]))]
pub struct NodeCountCriteria {
    /// The first number.
    #[schemars(range(min = 0), extend("format" = "int32"))]
    pub from: u32,
    /// The last number. Unset: there is none.
    #[schemars(range(min = 0), extend("format" = "int32"))]
    pub to: Option<u32>,
}

impl NodeCountCriteria {
    pub fn holds(&self, nodes: u32) -> bool {
        self.from <= nodes && self.to.is_none_or(|to| nodes <= to)
    }
}

/// What follows from a size.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Effects {
    /// GOMEMLIMIT of the API server: a number and B, KiB, MiB, GiB or TiB.
    #[schemars(length(max = 20), regex(pattern = r"^\d+(B|KiB|MiB|GiB|TiB)?$"))]
    pub kas_go_mem_limit: Option<String>,
    /// Priority class of most pods of the control plane.
    pub control_plane_priority_class_name: Option<String>,
    /// Priority class of etcd.
    pub etcd_priority_class_name: Option<String>,
    /// Priority class of pods that serve requests of the API.
    #[serde(rename = "APICriticalPriorityClassName")]
    pub api_critical_priority_class_name: Option<String>,
    /// What containers of the control plane request.
    pub resource_requests: Option<Vec<ResourceRequest>>,
    /// How long a node may be unhealthy before it is replaced.
    pub machine_health_check_timeout: Option<String>,
    /// Requests that the API server serves at a time.
    #[schemars(extend("format" = serde_json::Value::Null))]
    pub maximum_requests_inflight: Option<i64>,
    /// Requests that change something, of those.
    #[schemars(extend("format" = serde_json::Value::Null))]
    pub maximum_mutating_requests_inflight: Option<i64>,
}

/// What one container requests.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequest {
    /// The Deployment or StatefulSet.
    pub deployment_name: String,
    /// The container in it.
    pub container_name: String,
    /// Memory.
    #[schemars(extend("pattern" = QUANTITY))]
    pub memory: Option<IntOrString>,
    /// Processors.
    #[schemars(extend("pattern" = QUANTITY))]
    pub cpu: Option<IntOrString>,
}

/// How the management cluster prepares for a size.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Management {
    /// Clusters that room is kept for.
    #[schemars(range(min = 0), extend("format" = serde_json::Value::Null))]
    pub placeholders: Option<i64>,
    /// Nodes per zone and cluster for pods that serve no requests; all sizes say it, or none.
    #[schemars(extend("pattern" = QUANTITY))]
    pub non_request_serving_nodes_per_zone: Option<IntOrString>,
}

/// How many clusters may change their size at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConcurrencyConfiguration {
    /// The time in which changes are counted, as a Go duration.
    #[schemars(regex(pattern = DURATION), extend("default" = "10m"))]
    pub sliding_window: String,
    /// Changes in that time.
    #[schemars(range(min = 1), extend("default" = 5))]
    pub limit: i32,
}

impl Default for ConcurrencyConfiguration {
    fn default() -> ConcurrencyConfiguration {
        ConcurrencyConfiguration { sliding_window: "10m".to_owned(), limit: 5 }
    }
}

/// How long another number of nodes must last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TransitionDelayConfiguration {
    /// Before a cluster gets a larger size, as a Go duration.
    #[schemars(regex(pattern = DURATION), extend("default" = "30s"))]
    pub increase: String,
    /// Before it gets a smaller one.
    #[schemars(regex(pattern = DURATION), extend("default" = "10m"))]
    pub decrease: String,
}

impl Default for TransitionDelayConfiguration {
    fn default() -> TransitionDelayConfiguration {
        TransitionDelayConfiguration { increase: "30s".to_owned(), decrease: "10m".to_owned() }
    }
}

/// Whether a configuration can be used.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterSizingConfigurationStatus {
    /// `ClusterSizingConfigurationValid`.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
}
