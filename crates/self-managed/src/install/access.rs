//! Who the operator is, and what it may do. Rights that it gives to control planes it must have itself.

use super::args::Args;
use serde_json::{Value, json};

pub(super) const OPERATOR: &str = "operator";
const ROLE: &str = "hypershift-operator";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

pub(super) fn cluster_role(name: &str, rules: Value) -> Value {
    json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

fn binding(kind: &str, metadata: Value, role_kind: &str, role: &str, subjects: Value) -> Value {
    json!({"apiVersion": RBAC, "kind": kind, "metadata": metadata, "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role}})
}

pub(super) fn cluster_binding(name: &str, role: &str, account: &str, namespace: &str) -> Value {
    let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]);
    binding("ClusterRoleBinding", json!({"name": name}), "ClusterRole", role, subjects)
}

pub(super) fn role_with_binding(namespace: &str, name: &str, rules: Value, subjects: Value) -> [Value; 2] {
    let metadata = json!({"name": name, "namespace": namespace});
    [
        json!({"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": rules}),
        binding("RoleBinding", metadata, "Role", name, subjects),
    ]
}

pub(super) fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

const ALL: &[&str] = &["*"];
pub(super) const READ: &[&str] = &["get", "list", "watch"];

/// What the operator does, and what it passes on to the operators of control planes. A test of theirs holds everything
/// that is given against this list.
fn rules() -> Value {
    serde_saphyr::from_str(include_str!("../../assets/operator-rules.yaml")).unwrap_or_default()
}

impl Args {
    pub(super) fn access(&self) -> Vec<Value> {
        let home = self.namespace.as_str();
        let mut account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": OPERATOR, "namespace": home}});
        if let Some(id) = &self.azure_pls_managed_identity_client_id {
            account["metadata"]["annotations"] = json!({"azure.workload.identity/client-id": id});
        }
        let leases = json!([
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        ]);
        let subject = json!([{"kind": "ServiceAccount", "name": OPERATOR, "namespace": home}]);
        let mut rules = rules();
        if let Some(list) = rules.as_array_mut().filter(|_| self.has_webhooks()) {
            list.extend(super::webhooks::rules());
        }
        let mut all = vec![account, cluster_role(ROLE, rules), cluster_binding(ROLE, ROLE, OPERATOR, home)];
        all.extend(role_with_binding(home, ROLE, leases, subject));
        all.push(binding(
            "RoleBinding",
            json!({"name": "hypershift:extension-apiserver-authentication-reader", "namespace": "kube-system"}),
            "Role",
            "extension-apiserver-authentication-reader",
            json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts"}]),
        ));
        if self.enable_admin_rbac_generation {
            all.extend(people());
        }
        all
    }
}

/// For people: those who make clusters, and those who look on.
fn people() -> Vec<Value> {
    let pair = |name: &str, rules: Value| {
        let group = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name}]);
        [
            cluster_role(name, rules),
            binding("ClusterRoleBinding", json!({"name": name}), "ClusterRole", name, group),
        ]
    };
    let kinds = &["hostedclusters", "nodepools"];
    let client = json!([
        rule(&["hypershift.openshift.io"], kinds, ALL),
        rule(&[""], &["configmaps", "events", "namespaces", "secrets", "serviceaccounts"], ALL),
        rule(&["apps"], &["deployments"], READ),
    ]);
    let reader = json!([
        rule(&["hypershift.openshift.io", "cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"], ALL, READ),
        rule(&[""], &["configmaps", "events", "namespaces", "pods", "pods/log", "services"], READ),
        rule(&["apps"], &["deployments", "statefulsets"], READ),
    ]);
    let mut all = Vec::new();
    all.extend(pair("hypershift-client", client));
    all.extend(pair("hypershift-readers", reader));
    all
}
