//! NetworkPolicies of a control plane: who may talk to whom in its namespace.

use crate::scope::{Publish, Reach, Scope};
use serde_json::{Value, json};

fn policy(scope: &Scope, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": scope.namespace}, "spec": spec,
    })
}

fn namespace(label: &str, value: &str) -> Value {
    json!([{"namespaceSelector": {"matchLabels": {label: value}}}])
}

/// All policies; egress is only bounded for what takes requests from outside.
pub fn policies(scope: &Scope) -> Vec<Value> {
    let app = |name: &str| json!({"matchLabels": {"app": name}});
    let mut list = vec![
        policy(
            scope,
            "same-namespace",
            json!({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]}),
        ),
        policy(
            scope,
            "kas",
            json!({"podSelector": app("kube-apiserver"), "policyTypes": ["Ingress"],
                "ingress": [{"ports": [{"port": scope.network.api_port, "protocol": "TCP"}]}]}),
        ),
        policy(
            scope,
            "openshift-monitoring",
            json!({"podSelector": {}, "policyTypes": ["Ingress"],
                "ingress": [{"from": namespace("network.openshift.io/policy-group", "monitoring")}]}),
        ),
        policy(scope, "private-router", router(&scope.management.blocked)),
    ];
    // Routes that nobody outside may reach are the private router's.
    if !scope.reach.hidden() {
        list.push(policy(
            scope,
            "openshift-ingress",
            json!({"podSelector": {}, "policyTypes": ["Ingress"],
                "ingress": [{"from": namespace("network.openshift.io/policy-group", "ingress")}]}),
        ));
    }
    if scope.oauth() && scope.endpoints.oauth.publish == Publish::LoadBalancer {
        // A balancer comes from outside; Routes come from the ingress.
        list.push(policy(
            scope,
            "loadbalancer-oauth",
            json!({"podSelector": app("oauth-openshift"), "policyTypes": ["Ingress"],
                "ingress": [{"ports": [{"port": 6443, "protocol": "TCP"}]}]}),
        ));
    }
    if scope.identity.managed() && scope.reach != Reach::Private {
        list.push(policy(
            scope,
            "sharedingress",
            json!({"podSelector": {}, "policyTypes": ["Ingress"],
                "ingress": [{"from": namespace("kubernetes.io/metadata.name", "hypershift-sharedingress")}]}),
        ));
    }
    list
}

/// The router takes anything and reaches anything but the management cluster's own API.
fn router(blocked: &[String]) -> Value {
    let (four, six): (Vec<&String>, Vec<&String>) = blocked.iter().partition(|c| !c.contains(':'));
    let mut to = vec![json!({"ipBlock": {"cidr": "0.0.0.0/0", "except": four}})];
    if !six.is_empty() {
        to.push(json!({"ipBlock": {"cidr": "::/0", "except": six}}));
    }
    json!({
        "podSelector": {"matchLabels": {"app": "router"}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"port": 8443, "protocol": "TCP"}]}],
        "egress": [{"to": to}, {"to": [{"podSelector": {}}]}],
    })
}
