//! `spec.services`: how the parts of a control plane are reached.

use crate::common::text_enum;
use crate::schema::{member, optional_member, rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;

text_enum! {
    /// Services of a control plane that are published.
    pub enum ServiceType {
        ApiServer = "APIServer",
        OAuthServer = "OAuthServer",
        Oidc = "OIDC",
        Konnectivity = "Konnectivity",
        Ignition = "Ignition",
        OvnSbDb = "OVNSbDb",
    }
}

text_enum! {
    /// Ways to publish a service.
    pub enum PublishingType {
        LoadBalancer = "LoadBalancer",
        NodePort = "NodePort",
        Route = "Route",
        None = "None",
        S3 = "S3",
    }
}

/// One published service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishedService {
    /// Which service.
    pub service: ServiceType,
    /// How it is published.
    pub service_publishing_strategy: PublishingStrategy,
}

/// How a service is published.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    member("type", "NodePort", "nodePort"),
    optional_member("type", "LoadBalancer", "loadBalancer"),
    optional_member("type", "Route", "route"),
]))]
pub struct PublishingStrategy {
    /// Which way; decides which of the other fields counts.
    #[serde(rename = "type")]
    pub type_: PublishingType,
    /// By a load balancer.
    pub load_balancer: Option<PublishedHost>,
    /// By a port of the nodes.
    pub node_port: Option<PublishedNodePort>,
    /// By a route.
    pub route: Option<PublishedHost>,
}

fn hostname_rules() -> serde_json::Value {
    json!([rule(
        "self.matches('^([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?[.])+[a-zA-Z]{2,63}$')",
        "hostname must be a domain name of at least two labels whose last is alphabetic, such as api.example.com"
    )])
}

/// The name a service is published under.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedHost {
    /// Host name; DNS must lead there. Unset: the generated one.
    #[schemars(length(min = 1, max = 253), extend("x-kubernetes-validations" = hostname_rules()))]
    pub hostname: Option<String>,
}

/// The address and port a service is published under.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedNodePort {
    /// Host name or address of the nodes.
    #[schemars(length(min = 1, max = 253))]
    pub address: String,
    /// Port. Unset or 0: one is chosen.
    pub port: Option<i32>,
}
