//! What every cluster starts with, besides RBAC.
//!
//! Clients expect these by name: namespaces to put things in, the service by which pods find the API, classes for
//! system pods, and the flow-control objects that kubectl and the conformance suite list. They are written as a
//! person would write them; defaulting fills in the rest.

use serde_json::{Value, json};

/// The bootstrap objects, namespaces first.
pub fn objects() -> Vec<Value> {
    let mut out: Vec<Value> =
        ["default", "kube-system", "kube-public", "kube-node-lease"].into_iter().map(namespace).collect();
    out.push(kubernetes_service());
    out.push(priority_class(
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ));
    out.push(priority_class(
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ));
    out.extend(priority_levels());
    out.extend(flow_schemas());
    out
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn kubernetes_service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
        },
    })
}

fn priority_class(name: &str, value: i64, description: &str) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": description,
    })
}

const FLOWCONTROL: &str = "flowcontrol.apiserver.k8s.io/v1";

fn flow(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": FLOWCONTROL,
        "kind": kind,
        "metadata": {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}},
        "spec": spec,
    })
}

fn priority_levels() -> Vec<Value> {
    let level = |name: &str, spec: Value| flow("PriorityLevelConfiguration", name, &spec);
    let queued = |name: &str, shares: u32, lendable: u32, queues: u32, hand: u32| {
        let response = json!({
            "type": "Queue",
            "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50},
        });
        level(
            name,
            json!({"type": "Limited", "limited": {
                "nominalConcurrencyShares": shares, "limitResponse": response, "lendablePercent": lendable
            }}),
        )
    };
    vec![
        level("exempt", json!({"type": "Exempt"})),
        level(
            "catch-all",
            json!({"type": "Limited", "limited": {
                "nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}, "lendablePercent": 0
            }}),
        ),
        queued("system", 30, 33, 64, 6),
        queued("node-high", 40, 25, 64, 6),
        queued("leader-election", 10, 0, 16, 4),
        queued("workload-high", 40, 50, 128, 6),
        queued("workload-low", 100, 90, 128, 6),
        queued("global-default", 20, 50, 128, 6),
    ]
}

fn group(name: &str) -> Value {
    json!({"kind": "Group", "group": {"name": name}})
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "user": {"name": name}})
}

fn account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": name}})
}

/// Requests for some resources of one group in some namespaces.
fn on(verbs: &[&str], api_group: &str, resources: &[&str], namespaces: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [api_group], "resources": resources, "namespaces": namespaces})
}

fn everything() -> Value {
    json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]})
}

fn paths(verbs: &[&str], urls: &[&str]) -> Value {
    json!({"verbs": verbs, "nonResourceURLs": urls})
}

fn schema(
    name: &str,
    level: &str,
    precedence: u32,
    by: Option<&str>,
    subjects: &[Value],
    resources: &[Value],
    urls: &[Value],
) -> Value {
    let mut rule = json!({"subjects": subjects});
    if !resources.is_empty() {
        rule["resourceRules"] = json!(resources);
    }
    if !urls.is_empty() {
        rule["nonResourceRules"] = json!(urls);
    }
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [rule],
    });
    if let Some(by) = by {
        spec["distinguisherMethod"] = json!({"type": by});
    }
    flow("FlowSchema", name, &spec)
}

fn flow_schemas() -> Vec<Value> {
    let anyone = [group("system:unauthenticated"), group("system:authenticated")];
    let all = [everything()];
    let any_path = [paths(&["*"], &["*"])];
    let (by_user, by_namespace) = (Some("ByUser"), Some("ByNamespace"));
    let (kcm, scheduler) = ("system:kube-controller-manager", "system:kube-scheduler");
    let lease_verbs = ["get", "create", "update"];
    let coordination = "coordination.k8s.io";
    let mut node_rules =
        [on(&["*"], "", &["nodes", "nodes/status"], &["*"]), on(&["*"], coordination, &["leases"], &["*"])];
    node_rules[0]["clusterScope"] = true.into();
    let endpoints = [
        on(&["get", "create", "update"], "", &["endpoints"], &["*"]),
        on(&["get", "create", "update"], "discovery.k8s.io", &["endpointslices"], &["*"]),
    ];
    vec![
        schema("exempt", "exempt", 1, None, &[group("system:masters")], &all, &any_path),
        schema("catch-all", "catch-all", 10000, by_user, &anyone, &all, &any_path),
        schema(
            "probes",
            "exempt",
            2,
            None,
            &anyone,
            &[],
            &[paths(&["get"], &["/healthz", "/readyz", "/livez"])],
        ),
        schema(
            "system-leader-election",
            "leader-election",
            100,
            by_user,
            &[user(kcm), user(scheduler), account("*")],
            &[on(&lease_verbs, coordination, &["leases"], &["kube-system"])],
            &[],
        ),
        schema(
            "endpoint-controller",
            "workload-high",
            150,
            by_user,
            &[user(kcm), account("endpoint-controller"), account("endpointslicemirroring-controller")],
            &endpoints,
            &[],
        ),
        schema(
            "workload-leader-election",
            "leader-election",
            200,
            by_user,
            &[account("*")],
            &[on(&lease_verbs, coordination, &["leases"], &["*"])],
            &[],
        ),
        schema("system-node-high", "node-high", 400, by_user, &[group("system:nodes")], &node_rules, &[]),
        schema("system-nodes", "system", 500, by_user, &[group("system:nodes")], &all, &any_path),
        schema("kube-controller-manager", "workload-high", 800, by_namespace, &[user(kcm)], &all, &any_path),
        schema("kube-scheduler", "workload-high", 800, by_namespace, &[user(scheduler)], &all, &any_path),
        schema(
            "kube-system-service-accounts",
            "workload-high",
            900,
            by_namespace,
            &[account("*")],
            &all,
            &any_path,
        ),
        schema(
            "service-accounts",
            "workload-low",
            9000,
            by_user,
            &[group("system:serviceaccounts")],
            &all,
            &any_path,
        ),
        schema("global-default", "global-default", 9900, by_user, &anyone, &all, &any_path),
    ]
}
