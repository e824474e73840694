//! Rights that reach beyond the namespace of a control plane, and say whose they are.

use super::CLUSTER_OF;
use crate::naming;
use apis::hypershift::HostedCluster;
use serde_json::{Value, json};

/// Finds what belongs to one control plane among objects of no namespace.
pub const OWNER_LABEL: &str = "hypershift.openshift.io/control-plane-namespace";

/// Names of all roles and bindings, for taking them away.
pub fn names(namespace: &str) -> Vec<String> {
    vec![
        format!("hypershift-cluster-api-{namespace}"),
        format!("{namespace}-csr-approver"),
        format!("{namespace}-csr-signer"),
    ]
}

fn pair(hc: &HostedCluster, name: &str, account: &str, rules: Value) -> [Value; 2] {
    let namespace = naming::namespace(hc);
    let metadata = json!({"name": name, "labels": {OWNER_LABEL: namespace},
        "annotations": {CLUSTER_OF: naming::key(hc)}});
    [
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]}),
    ]
}

/// Cluster API reads definitions; the PKI operator signs for its own signers and no others.
pub fn objects(hc: &HostedCluster) -> Vec<Value> {
    let namespace = naming::namespace(hc);
    let names = names(&namespace);
    let signers: Vec<String> = ["customer-break-glass", "sre-break-glass"]
        .map(|c| format!("hypershift.openshift.io/{namespace}.{c}"))
        .into();
    let requests = |verb: &str, sub: &str| {
        json!([
            {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["certificates.k8s.io"], "resources": [format!("certificatesigningrequests/{sub}")], "verbs": ["update", "patch"]},
            {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": signers, "verbs": [verb]},
        ])
    };
    let definitions = json!([{"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
        "verbs": ["get", "list", "watch"]}]);
    let mut all = Vec::new();
    all.extend(pair(hc, &names[0], "cluster-api", definitions));
    all.extend(pair(hc, &names[1], "control-plane-pki-operator", requests("approve", "approval")));
    all.extend(pair(hc, &names[2], "control-plane-pki-operator", requests("sign", "status")));
    all
}
