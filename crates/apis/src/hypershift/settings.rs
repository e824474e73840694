//! The smaller settings of a hosted cluster: names, autoscaler, capabilities, operators, mirrors, monitoring.

use crate::common::{Json, Other, text_enum};
use crate::openshift::cluster_version::CAPABILITIES;
use crate::schema::{immutable, once, once_from_empty, rule, rule_at};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;
use std::collections::BTreeSet;

/// A release image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Release {
    /// Pull spec of the release payload, by digest or tag.
    #[schemars(length(min = 1, max = 253), extend("x-kubernetes-validations" = [
        rule("self.matches('^[a-zA-Z0-9_][^ \\t\\r\\n]*$')",
            "release.image must be a pull spec: it starts with a letter or digit and has no blanks, such as quay.io/openshift-release-dev/ocp-release:4.20.5-multi"),
    ]))]
    pub image: String,
}

impl Release {
    pub fn new(image: impl Into<String>) -> Release {
        Release { image: image.into() }
    }
}

const RENAME: &str = "create another HostedCluster with the name you want";

/// Text of a domain name, or nothing.
pub(crate) fn domain_or_empty(field: &str) -> Value {
    rule(
        "self == '' || self.matches('^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?[.])*[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",
        &format!("{field} must be a domain name in lower case such as example.com, or empty"),
    )
}

/// Names of the cluster in DNS.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    once_from_empty("baseDomain", RENAME),
    once("publicZoneID", RENAME),
    once("privateZoneID", RENAME),
]))]
pub struct Dns {
    /// Domain under which the cluster's names are made.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [domain_or_empty("baseDomain")]))]
    pub base_domain: String,
    /// Label before the base domain. Unset: the cluster's name. Empty: none.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [
        domain_or_empty("baseDomainPrefix"),
        crate::schema::fixed("baseDomainPrefix", RENAME),
    ]))]
    pub base_domain_prefix: Option<String>,
    /// The public zone that holds the names.
    #[serde(rename = "publicZoneID")]
    #[schemars(length(min = 1, max = 258))]
    pub public_zone_id: Option<String>,
    /// The private zone that holds the names.
    #[serde(rename = "privateZoneID")]
    #[schemars(length(min = 1, max = 265))]
    pub private_zone_id: Option<String>,
}

text_enum! {
    /// Replicas of a group of components.
    pub enum AvailabilityPolicy {
        HighlyAvailable = "HighlyAvailable",
        SingleReplica = "SingleReplica",
    }
}

text_enum! {
    /// Where the catalogs of the operator lifecycle manager run.
    pub enum CatalogPlacement {
        Management = "management",
        Guest = "guest",
    }
}

text_enum! {
    /// Which way the autoscaler may move.
    pub enum Scaling {
        UpAndDown = "ScaleUpAndScaleDown",
        UpOnly = "ScaleUpOnly",
    }
}

text_enum! {
    /// How the autoscaler chooses among node pools.
    pub enum Expander {
        LeastWaste = "LeastWaste",
        Priority = "Priority",
        Random = "Random",
    }
}

/// A label that the autoscaler does not compare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct IgnoredLabel(#[schemars(length(max = 317))] pub String);

/// The cluster autoscaler.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule_at(".scaleDown", "!has(self.scaleDown) || self.scaling == 'ScaleUpAndScaleDown'",
        "scaleDown is forbidden when scaling is ScaleUpOnly: remove autoscaling.scaleDown or set scaling to ScaleUpAndScaleDown"),
]))]
pub struct Autoscaling {
    /// Which way it may move.
    #[serde(default)]
    pub scaling: Scaling,
    /// When it moves down.
    pub scale_down: Option<ScaleDown>,
    /// Nodes of all pools together.
    #[schemars(range(min = 0))]
    pub max_nodes_total: Option<i32>,
    /// Seconds a pod gets to end.
    #[schemars(range(min = 0))]
    pub max_pod_grace_period: Option<i32>,
    /// How long a node may take to come, as a Go duration.
    #[schemars(length(max = 100), regex(pattern = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"))]
    pub max_node_provision_time: Option<String>,
    /// How much free resources may differ between similar pools.
    #[schemars(range(min = 0, max = 100))]
    pub max_free_difference_ratio_percent: Option<i32>,
    /// Pods below this priority do not cause scaling.
    pub pod_priority_threshold: Option<i32>,
    /// How it chooses among pools, in order.
    #[schemars(length(min = 1, max = 3))]
    pub expanders: Option<Vec<Expander>>,
    /// Labels that do not make pools different.
    #[schemars(length(max = 64))]
    pub balancing_ignored_labels: Option<Vec<IgnoredLabel>>,
}

/// When the autoscaler moves down.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleDown {
    #[schemars(range(min = 0, max = 86400))]
    pub delay_after_add_seconds: Option<i32>,
    #[schemars(range(min = 0, max = 86400))]
    pub delay_after_delete_seconds: Option<i32>,
    #[schemars(range(min = 0, max = 86400))]
    pub delay_after_failure_seconds: Option<i32>,
    #[schemars(range(min = 0, max = 86400))]
    pub unneeded_duration_seconds: Option<i32>,
    #[schemars(range(min = 0, max = 100))]
    pub utilization_threshold_percent: Option<i32>,
}

text_enum! {
    /// Optional parts of OpenShift.
    pub enum Capability {
        ImageRegistry = "ImageRegistry",
        Samples = "openshift-samples",
        Insights = "Insights",
        Baremetal = "baremetal",
        Console = "Console",
        NodeTuning = "NodeTuning",
        Ingress = "Ingress",
    }
}

/// Which optional parts the cluster has.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    rule("!has(self.enabled) || !has(self.disabled) || self.enabled.all(c, !(c in self.disabled))",
        "a capability cannot be both enabled and disabled: remove it from capabilities.enabled or capabilities.disabled"),
    rule_at(".disabled", "!has(self.disabled) || !('Ingress' in self.disabled) || ('Console' in self.disabled)",
        "Ingress may be disabled only together with Console: add Console to capabilities.disabled"),
]))]
pub struct Capabilities {
    /// Turned on.
    #[schemars(length(max = 25), extend("x-kubernetes-list-type" = "atomic"))]
    pub enabled: Option<Vec<Capability>>,
    /// Turned off.
    #[schemars(length(max = 25), extend("x-kubernetes-list-type" = "atomic"))]
    pub disabled: Option<Vec<Capability>>,
}

impl Capabilities {
    /// What is on: all that there is but `baremetal` and what was turned off, and what was turned on.
    pub fn on(&self) -> BTreeSet<&'static str> {
        let mut on: BTreeSet<&str> = CAPABILITIES.into_iter().map(|(name, _)| name).collect();
        for off in [Capability::Baremetal].iter().chain(self.disabled.iter().flatten()) {
            on.remove(off.as_str());
        }
        on.extend(self.enabled.iter().flatten().map(|c| c.as_str()));
        on
    }
}

/// A place that images are also found at.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageContentSource {
    /// The repository that users name.
    #[schemars(length(max = 255))]
    pub source: String,
    /// Repositories with the same content.
    #[schemars(length(max = 255), extend("x-kubernetes-list-type" = "set"))]
    pub mirrors: Option<Vec<Mirror>>,
}

/// A repository with the same content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Mirror(#[schemars(length(max = 255))] pub String);

text_enum! {
    /// How much is measured.
    pub enum MetricsSet {
        Telemetry = "Telemetry",
        Sre = "SRE",
        All = "All",
    }
}

text_enum! {
    /// Whether metrics of the control plane reach the guest.
    pub enum ForwardingMode {
        Forward = "Forward",
        None = "None",
    }
}

/// What is measured of the control plane.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Monitoring {
    /// What the management cluster scrapes.
    pub metrics_set: Option<MetricsSet>,
    /// What the guest's monitoring sees.
    pub metrics_forwarding: Option<MetricsForwarding>,
}

/// What the guest's monitoring sees.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsForwarding {
    pub mode: ForwardingMode,
    pub metrics_set: Option<MetricsSet>,
}

const NET_AGAIN: &str = "create another HostedCluster with the network you want";

/// Configuration of operators inside the cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorConfiguration {
    /// The network operator.
    pub cluster_network_operator: Option<ClusterNetworkOperator>,
    /// The ingress operator.
    pub ingress_operator: Option<IngressOperator>,
}

/// Configuration of the network operator.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetworkOperator {
    /// Turns secondary networks off; only with networkType Other.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = immutable("disableMultiNetwork", NET_AGAIN)))]
    pub disable_multi_network: bool,
    /// OVN-Kubernetes.
    pub ovn_kubernetes_config: Option<OvnKubernetes>,
}

/// OVN-Kubernetes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct OvnKubernetes {
    /// Size of packets on the overlay.
    #[schemars(range(min = 576, max = 9216), extend("x-kubernetes-validations" = immutable("mtu", NET_AGAIN)))]
    pub mtu: Option<i32>,
    pub ipv4: Option<Ovn4>,
    pub ipv6: Option<Ovn6>,
    #[schemars(length(min = 9, max = 18), extend("x-kubernetes-validations" = immutable("v4InternalSubnet", NET_AGAIN)))]
    pub v4_internal_subnet: Option<String>,
    #[schemars(length(min = 4, max = 48), extend("x-kubernetes-validations" = immutable("v6InternalSubnet", NET_AGAIN)))]
    pub v6_internal_subnet: Option<String>,
}

fn in_family(field: &str, family: u8, example: &str) -> Value {
    json!([rule(
        &format!("isCIDR(self) && cidr(self).ip().family() == {family}"),
        &format!("{field} must be an IPv{family} range such as {example}"),
    )])
}

/// Internal IPv4 ranges.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Ovn4 {
    #[schemars(length(min = 9, max = 18), extend("x-kubernetes-validations" = in_family("internalJoinSubnet", 4, "100.64.0.0/16")))]
    pub internal_join_subnet: Option<String>,
    #[schemars(length(min = 9, max = 18), extend("x-kubernetes-validations" = in_family("internalTransitSwitchSubnet", 4, "100.88.0.0/16")))]
    pub internal_transit_switch_subnet: Option<String>,
}

/// Internal IPv6 ranges.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Ovn6 {
    #[schemars(length(min = 3, max = 48), extend("x-kubernetes-validations" = in_family("internalJoinSubnet", 6, "fd98::/64")))]
    pub internal_join_subnet: Option<String>,
    #[schemars(length(min = 3, max = 48), extend("x-kubernetes-validations" = in_family("internalTransitSwitchSubnet", 6, "fd97::/64")))]
    pub internal_transit_switch_subnet: Option<String>,
}

/// Configuration of the ingress operator.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngressOperator {
    /// How the default router is reached.
    pub endpoint_publishing_strategy: Option<EndpointPublishing>,
}

/// How the default router is reached.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointPublishing {
    /// LoadBalancerService, HostNetwork, Private or NodePortService.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["LoadBalancerService", "HostNetwork", "Private", "NodePortService"]))]
    pub type_: String,
    /// Settings of the load balancer.
    pub load_balancer: Option<Json>,
    #[serde(flatten)]
    pub other: Other,
}
