//! What operators of the payload work from.

use super::{Mode, OPERATORS, Plan, secret};
use crate::facts::{Facts, Serving};
use serde_json::{Value, json};

pub fn plan(f: &Facts, p: &mut Plan) {
    p.asset(f, &OPERATORS, Mode::Once);
    p.keep(network(f));
    registry(f, p);
    if f.scope.capable("Ingress") {
        ingress(f, p);
    }
    if f.scope.oauth() && f.serving != Serving::Unknown {
        clients(f, p);
    }
}

/// Ranges and plugin are the HostedCluster's; the rest of the object is the network operator's.
fn network(f: &Facts) -> Value {
    let n = &f.scope.network;
    let prefix = |i: usize| f.host_prefixes.get(i).copied().unwrap_or(23);
    let ranges: Vec<Value> =
        n.cluster.iter().enumerate().map(|(i, c)| json!({"cidr": c, "hostPrefix": prefix(i)})).collect();
    let mut spec = json!({
        "managementState": "Managed", "clusterNetwork": ranges, "serviceNetwork": n.service,
        "defaultNetwork": {"type": n.kind},
    });
    if let Some(disabled) = f.network_operator["disableMultiNetwork"].as_bool() {
        spec["disableMultiNetwork"] = json!(disabled);
    }
    if f.network_operator["ovnKubernetesConfig"].is_object() {
        spec["defaultNetwork"]["ovnKubernetesConfig"] = f.network_operator["ovnKubernetesConfig"].clone();
    }
    json!({"apiVersion": "operator.openshift.io/v1", "kind": "Network", "metadata": {"name": "cluster"}, "spec": spec})
}

/// Whether there is a registry is a capability; everything else about it is its operator's and the administrator's.
fn registry(f: &Facts, p: &mut Plan) {
    let managed = f.scope.capable("ImageRegistry");
    let replicas = if f.infrastructure_ha { 2 } else { 1 };
    p.once(json!({
        "apiVersion": "imageregistry.operator.openshift.io/v1", "kind": "Config", "metadata": {"name": "cluster"},
        "spec": {
            "managementState": if managed { "Managed" } else { "Removed" }, "replicas": replicas,
            "rolloutStrategy": "RollingUpdate", "httpSecret": f.drawn.0, "logLevel": "Normal", "operatorLogLevel": "Normal",
            "storage": {},
        },
    }));
}

/// How the guest's routers are reached: as the spec says in so many words, else by annotation, else as its API is.
fn published(f: &Facts) -> Value {
    if f.ingress_strategy.is_object() {
        return f.ingress_strategy.clone();
    }
    if f.scope.annotation("private-ingress-controller") == Some("true") {
        return json!({"type": "Private"});
    }
    let asked = f.scope.annotation("ingress-controller-load-balancer-scope") == Some("Internal");
    let scope = if asked || f.scope.reach.private() { "Internal" } else { "External" };
    json!({"type": "LoadBalancerService", "loadBalancer": {"scope": scope, "dnsManagementPolicy": "Managed"}})
}

fn ingress(f: &Facts, p: &mut Plan) {
    p.once(json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "IngressController",
        "metadata": {"name": "default", "namespace": "openshift-ingress-operator"},
        "spec": {
            "domain": f.scope.configuration["ingress"]["domain"], "replicas": if f.infrastructure_ha { 2 } else { 1 },
            "endpointPublishingStrategy": published(f), "defaultCertificate": {"name": "default-ingress-cert"},
        },
    }));
    let m = &f.material;
    match (m.secret("ingress-crt", "tls.crt"), m.secret("ingress-crt", "tls.key")) {
        (Some(cert), Some(key)) => p.keep(secret(
            "openshift-ingress",
            "default-ingress-cert",
            "kubernetes.io/tls",
            &[("tls.crt", cert), ("tls.key", key)],
        )),
        _ => p.lack("Secret ingress-crt", "Secret openshift-ingress/default-ingress-cert"),
    }
}

/// Who may ask the OAuth server for tokens: browsers, and `oc login`.
fn clients(f: &Facts, p: &mut Plan) {
    let at = &f.scope.endpoints.oauth;
    if at.host.is_empty() {
        p.lack("the address of the OAuth server", "OAuth clients");
        return;
    }
    let base = format!("https://{}:{}", at.host, at.port);
    let client = |name: &str, redirect: &str, challenges: bool| {
        let mut o = json!({
            "apiVersion": "oauth.openshift.io/v1", "kind": "OAuthClient", "metadata": {"name": name},
            "grantMethod": "auto", "respondWithChallenges": challenges, "redirectURIs": [format!("{base}{redirect}")],
        });
        if !challenges {
            o["secret"] = json!(f.drawn.0);
        }
        o
    };
    p.once(client("openshift-browser-client", "/oauth/token/display", false));
    p.once(client("openshift-challenging-client", "/oauth/token/implicit", true));
}
