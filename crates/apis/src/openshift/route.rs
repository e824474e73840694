//! `Route`, `route.openshift.io/v1`: a host name that leads to a Service.

use crate::common::{IntOrString, Json, Sensitive, text_enum};
use crate::openshift::config_specs::NameReference;
use crate::schema::{rule, rule_at};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A host name that leads to a Service.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "route.openshift.io",
    version = "v1",
    kind = "Route",
    namespaced,
    status = "RouteStatus",
    doc = "A host name that leads to a Service.",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "Host", type_ = "string", json_path = ".status.ingress[0].host"),
    printcolumn(
        name = "Admitted",
        type_ = "string",
        json_path = ".status.ingress[0].conditions[?(@.type==\"Admitted\")].status"
    ),
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.to.name"),
    printcolumn(name = "TLS", type_ = "string", json_path = ".spec.tls.termination")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule_at(".path", "!has(self.path) || self.path == '' || !has(self.tls) || self.tls.termination != 'passthrough'",
        "path is forbidden when tls.termination is passthrough: a router that does not decrypt sees no path; remove path"),
]))]
pub struct RouteSpec {
    /// The host name. Unset: one is made.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [
        rule("self == '' || self.matches('^([a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9_])?[.])*[a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9_])?$')",
            "host must be a domain name such as api.example.com"),
    ]))]
    pub host: Option<String>,
    #[schemars(length(max = 253))]
    pub subdomain: Option<String>,
    /// Only requests under this path.
    #[schemars(regex(pattern = "^/"))]
    pub path: Option<String>,
    /// The Service.
    pub to: RouteTarget,
    #[schemars(length(max = 3), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "kind"]))]
    pub alternate_backends: Option<Vec<RouteTarget>>,
    /// The port of the Service. Unset: any.
    pub port: Option<RoutePort>,
    /// TLS. Unset: plain HTTP.
    pub tls: Option<RouteTls>,
    /// None or Subdomain.
    #[schemars(extend("default" = "None", "enum" = ["None", "Subdomain", ""]))]
    pub wildcard_policy: Option<String>,
    /// Not acted on.
    pub http_headers: Option<Json>,
}

fn service() -> String {
    "Service".into()
}

/// A Service and its share.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteTarget {
    #[serde(default = "service")]
    #[schemars(required, extend("enum" = ["Service", ""]))]
    pub kind: String,
    #[schemars(length(min = 1))]
    pub name: String,
    #[schemars(range(min = 0, max = 256), extend("default" = 100))]
    pub weight: Option<i32>,
}

/// A port of a Service, by number or name.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoutePort {
    pub target_port: IntOrString,
}

text_enum! {
    /// Where TLS ends.
    pub enum TlsTermination {
        Edge = "edge",
        Reencrypt = "reencrypt",
        Passthrough = "passthrough",
    }
}

/// TLS of a route.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteTls {
    /// Where TLS ends.
    pub termination: TlsTermination,
    pub certificate: Option<String>,
    /// The private key, in PEM.
    pub key: Option<Sensitive>,
    #[serde(rename = "caCertificate")]
    pub ca_certificate: Option<String>,
    #[serde(rename = "destinationCACertificate")]
    pub destination_ca_certificate: Option<String>,
    /// What happens to plain HTTP.
    #[schemars(extend("enum" = ["Allow", "None", "Redirect", ""]))]
    pub insecure_edge_termination_policy: Option<String>,
    pub external_certificate: Option<NameReference>,
}

/// Who serves the route.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteStatus {
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub ingress: Option<Vec<RouteIngress>>,
}

/// One router's view of the route.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteIngress {
    pub host: Option<String>,
    pub router_name: Option<String>,
    pub router_canonical_hostname: Option<String>,
    pub wildcard_policy: Option<String>,
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<RouteCondition>>,
}

/// One aspect of a router's view.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteCondition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub reason: Option<String>,
    pub message: Option<String>,
    pub last_transition_time: Option<Time>,
}
