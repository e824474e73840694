//! The router's configuration, and the objects around it.

use super::{NAMESPACE, ROUTER, Way, Ways};
use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::fmt::Write;
use std::net::IpAddr;

const HEAD: &str = r#"global
  log stdout local0
  maxconn 20000

defaults
  mode tcp
  log global
  log-format "%ci:%cp -> %fi:%fp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq"
  option dontlognull
  retries 3
  timeout queue 1m
  timeout connect 10s
  timeout client 86400s
  timeout server 86400s
  timeout tunnel 86400s

"#;

/// Nodes: by the cluster that they say is theirs.
const NODES: &str = "frontend dataplane-kas-svc
  bind :::6443 v4v6 accept-proxy
  tcp-request inspect-delay 5s
  tcp-request content set-var(sess.cluster_id) fc_pp_tlv(0x20)
  tcp-request content accept if { req_ssl_hello_type 1 }
";

/// Everybody else: by name.
const NAMES: &str = "frontend external-dns
  bind :::8443 v4v6
  tcp-request inspect-delay 5s
  tcp-request content accept if { req_ssl_hello_type 1 }
";

const READY: &str = "listen health_check_http_url
  bind :::9444 v4v6
  mode http
  monitor-uri /haproxy_ready

";

/// Ranges in a line; lists of the same name add up.
const IN_A_LINE: usize = 16;

/// Lines of a frontend. `by` tells ways apart, `from` is where the connection comes from.
fn frontend(text: &mut String, ways: &[Way], by: &str, from: &str) {
    for way in ways {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  acl is_{} {by} {}", way.name, way.by);
        for ranges in way.allowed.chunks(IN_A_LINE) {
            let _ = writeln!(text, "  acl is_{}_request_allowed {from} {}", way.name, ranges.join(" "));
        }
    }
    for way in ways {
        let allowed = match way.allowed.is_empty() {
            true => String::new(),
            false => format!(" is_{}_request_allowed", way.name),
        };
        let _ = writeln!(text, "  use_backend {} if is_{}{allowed}", way.name, way.name);
    }
    text.push_str("  default_backend no-match\n\n");
}

/// `haproxy.cfg`.
pub fn configuration(ways: &Ways) -> String {
    let mut text = String::from(HEAD);
    text.push_str(NODES);
    // A header is written by whoever calls; where the connection itself comes from is not.
    frontend(&mut text, &ways.nodes, "var(sess.cluster_id) -m str", "fc_src");
    text.push_str(NAMES);
    frontend(&mut text, &ways.names, "req_ssl_sni -i", "src");
    text.push_str(READY);
    for way in ways.nodes.iter().chain(&ways.names) {
        let (address, port) = way.to;
        let address = match address {
            IpAddr::V4(a) => a.to_string(),
            IpAddr::V6(a) => format!("[{a}]"),
        };
        let _ = writeln!(text, "backend {0}\n  server {0} {address}:{port}", way.name);
    }
    text.push_str("backend no-match\n  tcp-request content reject\n");
    text
}

/// Marks pods with the configuration that they were made for.
pub const HASH: &str = "hypershift.openshift.io/config-hash";

pub fn hash(configuration: &str) -> String {
    let sum = digest(&SHA256, configuration.as_bytes());
    sum.as_ref().iter().take(16).map(|b| format!("{b:02x}")).collect()
}

fn meta(name: &str) -> Value {
    json!({"name": name, "namespace": NAMESPACE, "labels": {"app": ROUTER}})
}

/// Everything of the ingress. `image` has a router that knows the fields of PROXY headers (HAProxy from 2.9 on).
pub fn objects(ways: &Ways, image: &str, blocked: &[String]) -> Vec<Value> {
    let text = configuration(ways);
    let sum = hash(&text);
    let selector = json!({"app": ROUTER});
    let port = |name: &str, port: u16| json!({"name": name, "containerPort": port, "protocol": "TCP"});
    let open =
        |name: &str, port: u16| json!({"name": name, "port": port, "targetPort": name, "protocol": "TCP"});
    let pod = json!({
        "automountServiceAccountToken": false,
        "priorityClassName": "hypershift-api-critical",
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": {
            "topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": selector}}}]}},
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": "private-router", "image": image, "command": ["haproxy"], "args": ["-f", "/usr/local/etc/haproxy"],
            "ports": [port("external-dns", 8443), port("kas-svc", 6443)],
            "livenessProbe": {"httpGet": {"path": "/haproxy_ready", "port": 9444}, "initialDelaySeconds": 50},
            "readinessProbe": {"httpGet": {"path": "/haproxy_ready", "port": 9444}, "periodSeconds": 2},
            "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
            "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "config", "mountPath": "/usr/local/etc/haproxy/haproxy.cfg", "subPath": "haproxy.cfg"}],
        }],
        "volumes": [{"name": "config", "configMap": {"name": ROUTER}}],
    });
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {"hypershift.openshift.io/component": "sharedingress"}}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(ROUTER), "data": {"haproxy.cfg": text}}),
        // Without the address of the client nobody could be kept out.
        json!({"apiVersion": "v1", "kind": "Service", "metadata": meta(ROUTER), "spec": {
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "selector": selector,
            "ports": [open("external-dns", 443), open("kas-svc", 6443)]}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta(ROUTER),
            "spec": {"minAvailable": 1, "selector": {"matchLabels": selector}}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta(ROUTER), "spec": policy(blocked)}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta(ROUTER), "spec": {
            "replicas": 2, "selector": {"matchLabels": selector},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": selector, "annotations": {HASH: sum}}, "spec": pod}}}),
    ]
}

/// The router takes what it serves, and reaches anything but the management cluster's own API.
fn policy(blocked: &[String]) -> Value {
    let (four, six): (Vec<&String>, Vec<&String>) = blocked.iter().partition(|c| !c.contains(':'));
    let mut to = vec![json!({"ipBlock": {"cidr": "0.0.0.0/0", "except": four}})];
    if !six.is_empty() {
        to.push(json!({"ipBlock": {"cidr": "::/0", "except": six}}));
    }
    let control_planes = json!([{"namespaceSelector": {"matchLabels": {"hypershift.openshift.io/hosted-control-plane": "true"}}}]);
    let port = |p: u16| json!({"port": p, "protocol": "TCP"});
    json!({
        "podSelector": {"matchLabels": {"app": ROUTER}}, "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [port(8443), port(6443), port(9444)]}],
        "egress": [{"to": to}, {"to": control_planes}],
    })
}
