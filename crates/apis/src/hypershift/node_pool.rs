//! `NodePool`: a group of equal worker nodes of a hosted cluster.

use super::hosted_cluster::paused_rules;
use super::node_pool_azure::AzureNodePool;
use super::platform::PlatformType;
use super::settings::Release;
use crate::common::{IntOrString, Json, LocalObjectReference, text_enum};
use crate::schema::{fixed, immutable, member, rule, rule_at};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

const NEW_POOL: &str = "create another NodePool and remove this one";

text_enum! {
    /// Architectures of nodes.
    pub enum Arch {
        Amd64 = "amd64",
        Arm64 = "arm64",
        Ppc64Le = "ppc64le",
        S390X = "s390x",
    }
}

fn spec_rules() -> Value {
    json!([
        rule_at(
            ".autoScaling",
            "!(has(self.replicas) && has(self.autoScaling))",
            "replicas and autoScaling exclude each other: remove spec.replicas or spec.autoScaling"
        ),
        rule_at(
            ".autoScaling",
            "!has(self.autoScaling) || self.autoScaling.min > 0 || self.platform.type in ['AWS', 'Azure']",
            "autoScaling.min may be 0 only on AWS and Azure: set it to 1 or more"
        ),
    ])
}

/// A group of equal worker nodes of a hosted cluster.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "hypershift.openshift.io",
    version = "v1beta1",
    kind = "NodePool",
    namespaced,
    doc = "A group of equal worker nodes of a hosted cluster.",
    status = "NodePoolStatus",
    shortname = "np",
    shortname = "nps",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterName",
        description = "The cluster"
    ),
    printcolumn(
        name = "Desired Nodes",
        type_ = "integer",
        json_path = ".spec.replicas",
        description = "Nodes that are wanted"
    ),
    printcolumn(
        name = "Current Nodes",
        type_ = "integer",
        json_path = ".status.replicas",
        description = "Nodes that are there"
    ),
    printcolumn(
        name = "Autoscaling",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"AutoscalingEnabled\")].status",
        description = "Whether the autoscaler decides"
    ),
    printcolumn(
        name = "Autorepair",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"AutorepairEnabled\")].status",
        description = "Whether broken nodes are replaced"
    ),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.version",
        description = "Version of the nodes"
    ),
    printcolumn(
        name = "UpdatingVersion",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"UpdatingVersion\")].status",
        description = "Whether a version is being rolled out"
    ),
    printcolumn(
        name = "UpdatingConfig",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"UpdatingConfig\")].status",
        description = "Whether a configuration is being rolled out"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        description = "What Ready says"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = spec_rules()))]
pub struct NodePoolSpec {
    /// Name of the HostedCluster, in the same namespace.
    #[schemars(length(min = 1, max = 253), extend("x-kubernetes-validations" = [
        fixed("clusterName", NEW_POOL),
        rule("self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
            "clusterName must be the name of a HostedCluster: lower-case letters, digits, - and ., starting and ending with a letter or digit"),
    ]))]
    pub cluster_name: String,
    /// The release of the nodes.
    pub release: Release,
    /// The infrastructure of the nodes.
    pub platform: NodePoolPlatform,
    /// Number of nodes; excludes autoScaling.
    pub replicas: Option<i32>,
    /// Bounds of the autoscaler; excludes replicas.
    pub auto_scaling: Option<NodePoolAutoScaling>,
    /// How nodes are upgraded and repaired.
    pub management: Management,
    /// Architecture of the nodes.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = immutable("arch", NEW_POOL)))]
    pub arch: Arch,
    /// ConfigMaps with machine configuration, in `config`.
    #[schemars(length(max = 10))]
    pub config: Option<Vec<LocalObjectReference>>,
    /// ConfigMaps with tuning, in `tuning`.
    #[schemars(length(max = 10))]
    pub tuning_config: Option<Vec<LocalObjectReference>>,
    /// How long pods may take to leave a node, as a Go duration. Unset: as long as they like.
    pub node_drain_timeout: Option<String>,
    /// How long volumes may take to leave a node, as a Go duration. Unset: as long as they like.
    pub node_volume_detach_timeout: Option<String>,
    /// Labels of the nodes.
    pub node_labels: Option<BTreeMap<String, String>>,
    /// Taints of the nodes.
    #[schemars(length(max = 50))]
    pub taints: Option<Vec<Taint>>,
    /// Until when nothing is reconciled: a time (RFC 3339), or true or false.
    #[schemars(length(min = 1, max = 35), extend("x-kubernetes-validations" = paused_rules()))]
    pub paused_until: Option<String>,
}

/// The infrastructure of the nodes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [member("type", "Azure", "azure")]))]
pub struct NodePoolPlatform {
    /// Which provider; decides which of the other fields counts.
    #[serde(rename = "type")]
    #[schemars(length(max = 100))]
    pub type_: PlatformType,
    /// Azure.
    pub azure: Option<AzureNodePool>,
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

/// Bounds of the autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    rule_at(".max", "self.max >= self.min", "autoScaling.max must be at least autoScaling.min: raise max or lower min"),
]))]
pub struct NodePoolAutoScaling {
    #[schemars(range(min = 0))]
    pub min: i32,
    #[schemars(range(min = 1))]
    pub max: i32,
}

text_enum! {
    /// How nodes come to a new version.
    pub enum UpgradeType {
        Replace = "Replace",
        InPlace = "InPlace",
    }
}

/// How nodes are upgraded and repaired.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Management {
    /// Replace: new machines. InPlace: the same machines, one after another.
    #[schemars(extend("x-kubernetes-validations" = immutable("upgradeType", NEW_POOL)))]
    pub upgrade_type: UpgradeType,
    /// How machines are replaced.
    #[serde(default = "ReplaceUpgrade::rolling")]
    pub replace: Option<ReplaceUpgrade>,
    /// How machines are changed in place.
    pub in_place: Option<InPlaceUpgrade>,
    /// Whether broken nodes are replaced.
    #[serde(default)]
    pub auto_repair: bool,
}

impl Default for Management {
    fn default() -> Management {
        Management {
            upgrade_type: UpgradeType::Replace,
            replace: ReplaceUpgrade::rolling(),
            in_place: None,
            auto_repair: false,
        }
    }
}

text_enum! {
    /// How machines are replaced.
    pub enum ReplaceStrategy {
        RollingUpdate = "RollingUpdate",
        OnDelete = "OnDelete",
    }
}

/// How machines are replaced.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplaceUpgrade {
    /// RollingUpdate: in steps. OnDelete: when somebody deletes them.
    pub strategy: Option<ReplaceStrategy>,
    /// The size of the steps.
    pub rolling_update: Option<RollingUpdate>,
}

impl ReplaceUpgrade {
    fn rolling() -> Option<ReplaceUpgrade> {
        let steps = RollingUpdate { max_surge: Some(1.into()), max_unavailable: Some(0.into()) };
        Some(ReplaceUpgrade { strategy: Some(ReplaceStrategy::RollingUpdate), rolling_update: Some(steps) })
    }
}

/// The size of the steps: counts, or percentages of the replicas.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// Nodes that may be missing.
    pub max_unavailable: Option<IntOrString>,
    /// Nodes that may be too many.
    pub max_surge: Option<IntOrString>,
}

/// How machines are changed in place.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceUpgrade {
    /// Nodes that may be missing: a count, or a percentage.
    pub max_unavailable: Option<IntOrString>,
}

text_enum! {
    /// What a taint does.
    pub enum TaintEffect {
        NoSchedule = "NoSchedule",
        PreferNoSchedule = "PreferNoSchedule",
        NoExecute = "NoExecute",
    }
}

/// A taint of the nodes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taint {
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
    #[schemars(length(max = 253))]
    pub value: Option<String>,
    pub effect: TaintEffect,
}

/// What is known of the pool.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Nodes that are there.
    pub replicas: Option<i32>,
    /// Version of the nodes.
    #[schemars(length(max = 64))]
    pub version: Option<String>,
    /// The nodes by version.
    pub nodes_info: Option<NodesInfo>,
    /// Of the platform; nothing on Azure.
    pub platform: Option<Json>,
    /// The state in its aspects.
    #[schemars(length(max = 100))]
    pub conditions: Option<Vec<NodePoolCondition>>,
}

/// The nodes by version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodesInfo {
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub node_versions: Vec<NodeVersion>,
}

/// Nodes of one version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeVersion {
    /// OpenShift version.
    #[schemars(length(min = 1, max = 64))]
    pub ocp_version: String,
    /// Kubelet version.
    #[schemars(length(min = 1, max = 64))]
    pub kubelet_version: String,
    #[schemars(range(min = 0))]
    pub ready_node_count: i32,
    #[schemars(range(min = 0))]
    pub unready_node_count: i32,
}

/// One aspect of the state of a pool: a condition with a severity, as Cluster API had them.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolCondition {
    /// Which aspect.
    #[serde(rename = "type")]
    #[schemars(length(max = 316))]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// How bad it is when not True: Error, Warning or Info.
    #[schemars(length(max = 1024))]
    pub severity: Option<String>,
    /// When the status last changed.
    pub last_transition_time: Time,
    /// Why, in one word that programs compare.
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,
    /// Why, and what to do, for people.
    #[schemars(length(max = 32768))]
    pub message: Option<String>,
    /// The generation of the object that this was computed from.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}
