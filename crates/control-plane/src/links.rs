//! AzurePrivateLinkServices: one for each Service that stands behind an internal load balancer of a private cluster.
//!
//! They say what the private way is made from; who makes it is in the `private-link` crate. Names in Azure follow from the
//! labels here, which outlive the HostedControlPlane.

use crate::scope::{Publish, Reach, Scope};
use apis::names::label;
use serde_json::{Value, json};

/// The Services with an internal load balancer.
pub fn services(scope: &Scope) -> Vec<&'static str> {
    let linked = matches!(scope.reach, Reach::Private | Reach::PublicAndPrivate);
    if !linked || scope.identity.managed() {
        return Vec::new();
    }
    let oauth = scope.oauth() && scope.endpoints.oauth.publish == Publish::LoadBalancer;
    std::iter::once("private-router").chain(oauth.then_some("oauth-openshift")).collect()
}

/// The objects, from the spec of the HostedControlPlane. `address` is what a Service was given.
pub fn objects(scope: &Scope, spec: &Value, address: &dyn Fn(&str) -> Option<String>) -> Vec<Value> {
    let azure = &spec["platform"]["azure"];
    if azure["private"]["type"] != "PrivateLink" {
        return Vec::new();
    }
    let link = &azure["private"]["privateLink"];
    let one = |name: &'static str| {
        let mut body = json!({
            "subscriptionID": scope.azure.subscription,
            "resourceGroupName": scope.azure.resource_group,
            "location": scope.azure.location,
            "guestSubnetID": azure["subnetID"],
            "guestVNetID": azure["vnetID"],
            "baseDomain": base_domain(scope, spec),
        });
        for field in ["natSubnetID", "additionalAllowedSubscriptions"] {
            if !link[field].is_null() {
                body[field] = link[field].clone();
            }
        }
        if let Some(ip) = address(name) {
            body["loadBalancerIP"] = json!(ip);
        }
        json!({
            "apiVersion": "hypershift.openshift.io/v1beta1", "kind": "AzurePrivateLinkService",
            "metadata": {"name": name, "namespace": scope.namespace,
                "labels": {label::INFRA_ID: scope.infra_id, label::CLUSTER_ID: scope.cluster_id}},
            "spec": body,
        })
    };
    services(scope).into_iter().map(one).collect()
}

/// The domain of the names that users know the cluster by.
fn base_domain(scope: &Scope, spec: &Value) -> String {
    let prefix = format!("oauth-{}.", scope.name);
    let named = scope.endpoints.oauth.host.strip_prefix(&prefix).map(str::to_owned);
    named.unwrap_or_else(|| spec["dns"]["baseDomain"].as_str().unwrap_or_default().to_owned())
}
