//! Services and Routes of a control plane: they come first, because what they are given (names, addresses) stands in
//! certificates and configuration.

use crate::scope::{Endpoint, Publish, Scope};
use apis::names::label::ROUTE_VISIBILITY;
use serde_json::{Value, json};

/// Port of the API inside the management cluster, whatever port it listens on.
const API_PORT: u16 = 6443;
/// Port of the API's own balancer.
const BALANCER_PORT: u16 = 7443;
const PREFIX: &str = "hypershift.openshift.io";
/// Has the cloud provider make a balancer that only its own network reaches.
pub(crate) const INTERNAL: &str = "service.beta.kubernetes.io/azure-load-balancer-internal";

/// Services whose APIs the guest's API server aggregates, and what somebody lacks who does not know where they are. The API
/// server calls their addresses, not their names.
pub const AGGREGATED: [(&str, &str); 3] = [
    ("openshift-apiserver", "an address of Service openshift-apiserver"),
    ("packageserver", "an address of Service packageserver"),
    ("openshift-oauth-apiserver", "an address of Service openshift-oauth-apiserver"),
];

/// Those of them that this control plane has.
pub fn aggregated(scope: &Scope) -> impl Iterator<Item = (&'static str, &'static str)> {
    AGGREGATED.into_iter().filter(|(service, _)| *service != "openshift-oauth-apiserver" || scope.oauth())
}

fn service(scope: &Scope, name: &str, app: &str, port: u16, target: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": scope.namespace, "labels": {"app": app}},
        "spec": {"type": "ClusterIP", "selector": {"app": app},
            "ports": [{"name": "https", "port": port, "protocol": "TCP", "targetPort": target}]},
    })
}

/// A balancer of its own, with its name for external-dns; one that nobody outside may reach is of the management cluster's
/// network, and has no name outside.
fn balancer(scope: &Scope, mut service: Value, host: &str) -> Value {
    service["spec"]["type"] = json!("LoadBalancer");
    if scope.reach.hidden() {
        service["metadata"]["annotations"][INTERNAL] = json!("true");
    } else if !host.is_empty() {
        service["metadata"]["annotations"]["external-dns.alpha.kubernetes.io/hostname"] = json!(host);
    }
    if !scope.network.allowed.is_empty() {
        service["spec"]["loadBalancerSourceRanges"] = json!(scope.network.allowed);
    }
    service
}

/// TLS is passed on by name and ends where it belongs. It names no port: a router would look for it among those of the
/// pods, which are not the Service's, and each of these Services has one only.
fn route(scope: &Scope, name: &str, host: &str, service: &str) -> Value {
    let mut route = json!({
        "apiVersion": "route.openshift.io/v1", "kind": "Route",
        "metadata": {"name": name, "namespace": scope.namespace,
            "labels": {format!("{PREFIX}/hosted-control-plane"): scope.namespace}},
        "spec": {
            "to": {"kind": "Service", "name": service, "weight": 100},
            "tls": {"termination": "passthrough", "insecureEdgeTerminationPolicy": "None"},
            "wildcardPolicy": "None",
        },
    });
    if !host.is_empty() {
        route["spec"]["host"] = json!(host);
    }
    // Names of a private zone are nobody else's to publish.
    if scope.reach.hidden() || host.ends_with(".hypershift.local") {
        route["metadata"]["labels"][ROUTE_VISIBILITY] = json!("private");
    }
    route
}

/// The name that the guest fetches metrics of its control plane by, where it may. Nobody chooses it: it stands beside the
/// one of the ignition server.
pub fn metrics(scope: &Scope) -> Option<String> {
    scope.forwarded?;
    if scope.reach.private() {
        return Some(format!("metrics-proxy.apps.{}.hypershift.local", scope.name));
    }
    let beside = scope.endpoints.ignition.host.split_once('.');
    Some(beside.map(|(_, domain)| format!("metrics-proxy-{}.{domain}", scope.name)).unwrap_or_default())
}

/// What is published and has no address yet, and who is to be given one. Certificates and configuration name them, so
/// nothing is begun without: pods would be replaced as each comes along.
pub fn nowhere(scope: &Scope) -> Vec<(&'static str, &'static str)> {
    let e = &scope.endpoints;
    let mut all = vec![
        ("the API", &e.api, "Service kube-apiserverlb", "Route kube-apiserver"),
        ("konnectivity", &e.konnectivity, "Service konnectivity-server", "Route konnectivity-server"),
    ];
    if scope.oauth() {
        all.push(("the login page", &e.oauth, "Service oauth-openshift", "Route oauth"));
    }
    let all = all.into_iter().filter(|(_, at, ..)| at.host.is_empty());
    all.map(|(what, at, service, route)| (what, if at.publish == Publish::Route { route } else { service }))
        .collect()
}

/// Everything a control plane is reached by.
pub fn objects(scope: &Scope) -> Vec<Value> {
    let mut api = service(scope, "kube-apiserver", "kube-apiserver", API_PORT, json!("client"));
    // Of all Services before these pods it is the one that is scraped: monitors know it by the name of its port.
    api["spec"]["ports"][0]["name"] = json!("client");
    let mut all = vec![
        api,
        service(scope, "konnectivity-server", "kube-apiserver", 8091, json!(8091)),
        service(scope, "openshift-apiserver", "openshift-apiserver", 443, json!(8443)),
        service(scope, "packageserver", "packageserver", 443, json!(5443)),
    ];
    let e = &scope.endpoints;
    let published = |all: &mut Vec<Value>, at: &Endpoint, name: &str, to: &str| {
        if at.publish == Publish::Route {
            all.push(route(scope, name, &at.host, to));
        }
    };
    match e.api.publish {
        Publish::LoadBalancer => {
            let own = service(scope, "kube-apiserverlb", "kube-apiserver", BALANCER_PORT, json!("client"));
            all.push(balancer(scope, own, &e.api.host));
        }
        Publish::Route => all.push(route(scope, "kube-apiserver", &e.api.host, "kube-apiserver")),
    }
    if scope.reach.private() {
        all.push(service(scope, "kube-apiserver-private", "kube-apiserver", API_PORT, json!("client")));
    }
    published(&mut all, &e.konnectivity, "konnectivity-server", "konnectivity-server");
    published(&mut all, &e.ignition, "ignition-server", "ignition-server-proxy");
    all.extend(metrics(scope).map(|host| route(scope, "metrics-proxy", &host, "metrics-proxy")));
    if scope.oauth() {
        all.push(service(scope, "openshift-oauth-apiserver", "openshift-oauth-apiserver", 443, json!(8443)));
        let own = service(scope, "oauth-openshift", "oauth-openshift", 6443, json!(6443));
        match e.oauth.publish {
            Publish::LoadBalancer => {
                let mut own = balancer(scope, own, &e.oauth.host);
                if crate::links::services(scope).contains(&"oauth-openshift") {
                    // Logins of a private cluster come through a private link as well.
                    own["metadata"]["annotations"][INTERNAL] = json!("true");
                }
                all.push(own);
            }
            Publish::Route => {
                all.push(own);
                published(&mut all, &e.oauth, "oauth", "oauth-openshift");
            }
        }
    }
    all
}
