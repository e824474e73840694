//! The router of one control plane: TLS by name, passed on without being opened.

use super::{config_map, encryption};
use crate::Error;
use crate::pod::Pod;
use crate::scope::{Reach, Scope};
use serde_json::{Value, json};
use std::fmt::Write;

/// Which host leads to which Service.
pub fn backends(scope: &Scope) -> Vec<(String, &'static str, u16)> {
    let e = &scope.endpoints;
    let mut list: Vec<(String, &'static str, u16)> = Vec::new();
    let mut add = |host: &str, service, port| {
        if !host.is_empty() && !list.iter().any(|(known, ..)| known == host) {
            list.push((host.to_owned(), service, port));
        }
    };
    add(&e.api.host, "kube-apiserver", 6443);
    for further in e.private_api.iter().chain(&e.custom_api) {
        add(further, "kube-apiserver", 6443);
    }
    add(&e.ignition.host, "ignition-server-proxy", 443);
    add(&e.konnectivity.host, "konnectivity-server", 8091);
    if scope.oauth() {
        add(&e.oauth.host, "oauth-openshift", 6443);
    }
    add(&crate::publish::metrics(scope).unwrap_or_default(), "metrics-proxy", 443);
    list
}

pub fn objects(scope: &Scope) -> Result<Vec<Value>, Error> {
    let mut text = String::from(
        "global\n  maxconn 20000\n\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 10m\n  timeout server 10m\n  timeout tunnel 1h\n\nfrontend ready\n  mode http\n  bind :::9444 v4v6\n  monitor-uri /haproxy_ready\n\nfrontend main\n  bind :::8443 v4v6\n  tcp-request inspect-delay 5s\n  tcp-request content accept if { req_ssl_hello_type 1 }\n",
    );
    let backends = backends(scope);
    for (host, service, _) in &backends {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  use_backend {service} if {{ req_ssl_sni -i {host} }}");
    }
    let vaults = encryption::private_vaults(scope);
    for (i, vault) in vaults.iter().enumerate() {
        let _ = writeln!(text, "  use_backend vault-{i} if {{ req_ssl_sni -i {vault} }}");
    }
    let mut seen: Vec<&str> = Vec::new();
    for (_, service, port) in &backends {
        if !seen.contains(service) {
            seen.push(service);
            let _ = write!(
                text,
                "\nbackend {service}\n  server {service} {service}.{}.svc:{port} check inter 10s\n",
                scope.namespace
            );
        }
    }
    for (i, vault) in vaults.iter().enumerate() {
        let _ = write!(text, "\nbackend vault-{i}\n  server vault {vault}:443 check inter 10s\n");
    }
    let mut objects = vec![config_map("router", "haproxy.cfg", text)];
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": if scope.reach.private() { "private-router" } else { "router" }},
        "spec": {"type": "ClusterIP", "selector": {"app": "router"},
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": "https"}]},
    });
    if scope.reach.private() && !scope.identity.managed() {
        // The private link service stands behind an internal balancer.
        service["spec"]["type"] = json!("LoadBalancer");
        service["metadata"]["annotations"] = json!({crate::publish::INTERNAL: "true"});
    }
    objects.push(service);
    Ok(objects)
}

pub fn adapt(scope: &Scope, pod: &mut Pod<'_>) -> Result<(), Error> {
    if let Reach::Swift(instance) = &scope.reach {
        pod.label("kubernetes.azure.com/pod-network-instance", instance);
    }
    Ok(())
}
