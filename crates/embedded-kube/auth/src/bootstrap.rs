//! The roles and bindings every cluster starts with.
//!
//! The user-facing roles (`cluster-admin`, `admin`, `edit`, `view`) and those that discovery, nodes and the
//! core controllers live by. Aggregation is real: `admin`, `edit` and `view` collect labelled roles.

use serde_json::{Value, json};

const API: &str = "rbac.authorization.k8s.io/v1";

fn meta(name: &str, labels: &[(&str, &str)]) -> Value {
    let mut l = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
    for (k, v) in labels {
        l[*k] = json!(v);
    }
    json!({"name": name, "labels": l, "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}})
}

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": groups, "resources": resources})
}

fn urls(verbs: &[&str], urls: &[&str]) -> Value {
    json!({"verbs": verbs, "nonResourceURLs": urls})
}

fn cluster_role(name: &str, labels: &[(&str, &str)], rules: Vec<Value>) -> Value {
    json!({"kind": "ClusterRole", "apiVersion": API, "metadata": meta(name, labels), "rules": rules})
}

fn bind(name: &str, role: &str, subjects: &[(&str, &str)]) -> Value {
    let subjects: Vec<Value> = subjects
        .iter()
        .map(|(kind, name)| match name.split_once('/') {
            Some((ns, name)) if *kind == "ServiceAccount" => {
                json!({"kind": kind, "namespace": ns, "name": name})
            }
            _ => json!({"kind": kind, "name": name, "apiGroup": "rbac.authorization.k8s.io"}),
        })
        .collect();
    json!({"kind": "ClusterRoleBinding", "apiVersion": API, "metadata": meta(name, &[]), "subjects": subjects,
        "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}})
}

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];

fn aggregate(to: &str) -> (String, &'static str) {
    (format!("rbac.authorization.k8s.io/aggregate-to-{to}"), "true")
}

fn aggregated(name: &str, into: &[&str]) -> Value {
    let labels: Vec<(String, &str)> = into.iter().map(|i| aggregate(i)).collect();
    let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (k.as_str(), *v)).collect();
    let (key, _) = aggregate(name);
    let mut role = cluster_role(name, &labels, Vec::new());
    role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {key: "true"}}]});
    role
}

/// All of them, aggregated roles already filled.
pub fn objects() -> Vec<Value> {
    let mut all = user_facing();
    all.extend(system());
    let snapshot = all.clone();
    // view feeds edit, edit feeds admin: three rounds reach the end of the chain.
    let mut filled = snapshot;
    for _ in 0..3 {
        let roles: Vec<Value> = filled.iter().filter(|o| o["kind"] == "ClusterRole").cloned().collect();
        for o in &mut filled {
            if let Some(rules) = crate::rbac::aggregated_rules(o, &roles) {
                o["rules"] = rules;
            }
        }
    }
    filled
}

fn user_facing() -> Vec<Value> {
    let edit = aggregate("edit");
    let view = aggregate("view");
    let admin = aggregate("admin");
    let label = |l: &(String, &'static str)| [(l.0.clone(), l.1)];
    let role = |name: &str, l: [(String, &'static str); 1], rules| {
        cluster_role(name, &[(l[0].0.as_str(), l[0].1)], rules)
    };
    let core_view = [
        "configmaps",
        "endpoints",
        "persistentvolumeclaims",
        "persistentvolumeclaims/status",
        "pods",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "serviceaccounts",
        "services",
        "services/status",
        "bindings",
        "events",
        "limitranges",
        "namespaces/status",
        "pods/log",
        "pods/status",
        "replicationcontrollers/status",
        "resourcequotas",
        "resourcequotas/status",
        "namespaces",
    ];
    let apps = [
        "controllerrevisions",
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "statefulsets",
        "statefulsets/scale",
        "statefulsets/status",
    ];
    let apps_write = [
        "daemonsets",
        "deployments",
        "deployments/rollback",
        "deployments/scale",
        "replicasets",
        "replicasets/scale",
        "statefulsets",
        "statefulsets/scale",
    ];
    vec![
        cluster_role("cluster-admin", &[], vec![rule(&["*"], &["*"], &["*"]), urls(&["*"], &["*"])]),
        bind("cluster-admin", "cluster-admin", &[("Group", crate::MASTERS)]),
        aggregated("admin", &[]),
        aggregated("edit", &["admin"]),
        aggregated("view", &["edit"]),
        role(
            "system:aggregate-to-view",
            label(&view),
            vec![
                rule(&READ, &[""], &core_view),
                rule(&READ, &["discovery.k8s.io"], &["endpointslices"]),
                rule(&READ, &["apps"], &apps),
                rule(
                    &READ,
                    &["autoscaling"],
                    &["horizontalpodautoscalers", "horizontalpodautoscalers/status"],
                ),
                rule(&READ, &["batch"], &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
                rule(&READ, &["policy"], &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
                rule(&READ, &["networking.k8s.io"], &["ingresses", "ingresses/status", "networkpolicies"]),
            ],
        ),
        role(
            "system:aggregate-to-edit",
            label(&edit),
            vec![
                rule(
                    &READ,
                    &[""],
                    &[
                        "pods/attach",
                        "pods/exec",
                        "pods/portforward",
                        "pods/proxy",
                        "secrets",
                        "services/proxy",
                    ],
                ),
                rule(&["impersonate"], &[""], &["serviceaccounts"]),
                rule(&WRITE, &[""], &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"]),
                rule(&["create"], &[""], &["pods/eviction"]),
                rule(
                    &WRITE,
                    &[""],
                    &[
                        "configmaps",
                        "events",
                        "persistentvolumeclaims",
                        "replicationcontrollers",
                        "replicationcontrollers/scale",
                        "secrets",
                        "serviceaccounts",
                        "services",
                        "services/proxy",
                    ],
                ),
                rule(&["create"], &[""], &["serviceaccounts/token"]),
                rule(&WRITE, &["apps"], &apps_write),
                rule(&WRITE, &["autoscaling"], &["horizontalpodautoscalers"]),
                rule(&WRITE, &["batch"], &["cronjobs", "jobs"]),
                rule(&WRITE, &["policy"], &["poddisruptionbudgets"]),
                rule(&WRITE, &["networking.k8s.io"], &["ingresses", "networkpolicies"]),
                rule(&[&READ[..], &WRITE[..]].concat(), &["coordination.k8s.io"], &["leases"]),
            ],
        ),
        role(
            "system:aggregate-to-admin",
            label(&admin),
            vec![
                rule(&["create"], &["authorization.k8s.io"], &["localsubjectaccessreviews"]),
                rule(
                    &[&READ[..], &WRITE[..]].concat(),
                    &["rbac.authorization.k8s.io"],
                    &["roles", "rolebindings"],
                ),
            ],
        ),
    ]
}

fn system() -> Vec<Value> {
    let everyone: &[(&str, &str)] = &[("Group", crate::AUTHENTICATED)];
    let anyone: &[(&str, &str)] = &[("Group", crate::AUTHENTICATED), ("Group", crate::UNAUTHENTICATED)];
    let mut all = vec![
        cluster_role(
            "system:discovery",
            &[],
            vec![urls(
                &["get"],
                &[
                    "/api",
                    "/api/*",
                    "/apis",
                    "/apis/*",
                    "/healthz",
                    "/livez",
                    "/openapi",
                    "/openapi/*",
                    "/readyz",
                    "/version",
                    "/version/",
                ],
            )],
        ),
        bind("system:discovery", "system:discovery", everyone),
        cluster_role(
            "system:public-info-viewer",
            &[],
            vec![urls(&["get"], &["/healthz", "/livez", "/readyz", "/version", "/version/"])],
        ),
        bind("system:public-info-viewer", "system:public-info-viewer", anyone),
        cluster_role(
            "system:basic-user",
            &[],
            vec![
                rule(
                    &["create"],
                    &["authorization.k8s.io"],
                    &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                ),
                rule(&["create"], &["authentication.k8s.io"], &["selfsubjectreviews"]),
            ],
        ),
        bind("system:basic-user", "system:basic-user", everyone),
        cluster_role(
            "system:service-account-issuer-discovery",
            &[],
            vec![urls(
                &["get"],
                &[
                    "/.well-known/openid-configuration",
                    "/.well-known/openid-configuration/",
                    "/openid/v1/jwks",
                    "/openid/v1/jwks/",
                ],
            )],
        ),
        bind(
            "system:service-account-issuer-discovery",
            "system:service-account-issuer-discovery",
            &[("Group", "system:serviceaccounts")],
        ),
        cluster_role(
            "system:monitoring",
            &[],
            vec![urls(
                &["get"],
                &[
                    "/healthz",
                    "/healthz/*",
                    "/livez",
                    "/livez/*",
                    "/metrics",
                    "/metrics/slis",
                    "/readyz",
                    "/readyz/*",
                ],
            )],
        ),
        bind("system:monitoring", "system:monitoring", &[("Group", "system:monitoring")]),
        cluster_role(
            "system:auth-delegator",
            &[],
            vec![
                rule(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
                rule(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews"]),
            ],
        ),
        cluster_role(
            "system:heapster",
            &[],
            vec![rule(&READ, &[""], &["events", "namespaces", "nodes", "pods"])],
        ),
        cluster_role(
            "system:node-bootstrapper",
            &[],
            vec![rule(
                &["create", "get", "list", "watch"],
                &["certificates.k8s.io"],
                &["certificatesigningrequests"],
            )],
        ),
        cluster_role(
            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            &[],
            vec![rule(&["create"], &["certificates.k8s.io"], &["certificatesigningrequests/nodeclient"])],
        ),
        cluster_role(
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            &[],
            vec![rule(&["create"], &["certificates.k8s.io"], &["certificatesigningrequests/selfnodeclient"])],
        ),
        cluster_role(
            "system:node-proxier",
            &[],
            vec![
                rule(&READ, &[""], &["nodes", "services"]),
                rule(&READ, &["discovery.k8s.io"], &["endpointslices"]),
                rule(&["create", "patch", "update"], &["", "events.k8s.io"], &["events"]),
            ],
        ),
        bind("system:node-proxier", "system:node-proxier", &[("User", "system:kube-proxy")]),
        cluster_role(
            "system:node",
            &[],
            vec![
                rule(&["create", "get", "list", "watch", "patch", "update", "delete"], &[""], &["nodes"]),
                rule(&["patch", "update"], &[""], &["nodes/status"]),
                rule(&["get", "list", "watch", "create", "delete"], &[""], &["pods"]),
                rule(&["patch", "update"], &[""], &["pods/status"]),
                rule(&["create"], &[""], &["pods/eviction", "serviceaccounts/token"]),
                rule(
                    &READ,
                    &[""],
                    &["configmaps", "secrets", "services", "persistentvolumeclaims", "persistentvolumes"],
                ),
                rule(&["create", "patch", "update"], &["", "events.k8s.io"], &["events"]),
                rule(&["create", "get", "patch", "update", "delete"], &["coordination.k8s.io"], &["leases"]),
                rule(
                    &["create", "get", "list", "watch"],
                    &["certificates.k8s.io"],
                    &["certificatesigningrequests"],
                ),
                rule(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
                rule(
                    &["create"],
                    &["authorization.k8s.io"],
                    &["subjectaccessreviews", "localsubjectaccessreviews"],
                ),
                rule(&READ, &["node.k8s.io"], &["runtimeclasses"]),
                rule(&READ, &["storage.k8s.io"], &["csidrivers", "volumeattachments"]),
                rule(&["create", "delete", "get", "patch", "update"], &["storage.k8s.io"], &["csinodes"]),
            ],
        ),
        bind("system:node", "system:node", &[("Group", "system:nodes")]),
        cluster_role(
            "system:kube-controller-manager",
            &[],
            vec![rule(&["*"], &["*"], &["*"]), urls(&["*"], &["*"])],
        ),
        bind(
            "system:kube-controller-manager",
            "system:kube-controller-manager",
            &[("User", "system:kube-controller-manager")],
        ),
        cluster_role(
            "system:kube-scheduler",
            &[],
            vec![
                rule(&READ, &["", "apps", "policy", "storage.k8s.io", "resource.k8s.io"], &["*"]),
                rule(&["create"], &[""], &["bindings", "pods/binding"]),
                rule(&["patch", "update"], &[""], &["pods/status"]),
                rule(&["delete"], &[""], &["pods"]),
                rule(&["create", "patch", "update"], &["", "events.k8s.io"], &["events"]),
                rule(
                    &["create", "get", "list", "watch", "update", "patch"],
                    &["coordination.k8s.io"],
                    &["leases"],
                ),
                rule(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
                rule(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews"]),
            ],
        ),
        bind("system:kube-scheduler", "system:kube-scheduler", &[("User", "system:kube-scheduler")]),
        cluster_role(
            "system:persistent-volume-provisioner",
            &[],
            vec![
                rule(&["create", "delete", "get", "list", "watch"], &[""], &["persistentvolumes"]),
                rule(&["get", "list", "update", "watch"], &[""], &["persistentvolumeclaims"]),
                rule(&READ, &["storage.k8s.io"], &["storageclasses"]),
            ],
        ),
    ];
    // A namespaced reader for what clusters publish about themselves.
    all.push(json!({"kind": "Role", "apiVersion": API,
        "metadata": {"name": "extension-apiserver-authentication-reader", "namespace": "kube-system",
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
        "rules": [{"verbs": READ, "apiGroups": [""], "resources": ["configmaps"],
            "resourceNames": ["extension-apiserver-authentication"]}]}));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::User;
    use crate::rbac::{Attributes, Authorizer, Binding, Everywhere, Roles, rules_of};
    use ek_meta::object;
    use std::sync::Arc;

    #[test]
    fn aggregation_is_complete_from_the_start() {
        let all = objects();
        let of = |kind: &str| all.iter().filter(|o| o["kind"] == kind).cloned().collect::<Vec<_>>();
        let mut bindings = of("ClusterRoleBinding");
        for role in ["admin", "edit", "view"] {
            bindings.push(bind(role, role, &[("User", role)]));
        }
        let roles =
            of("ClusterRole").iter().map(|r| (object::name(r).to_owned(), Arc::new(rules_of(r)))).collect();
        let bindings: Vec<_> = bindings.iter().map(|b| Arc::new(Binding::of(b))).collect();
        let a = Authorizer::build(Arc::new(Everywhere::build(roles, &bindings)), "", Roles::default(), &[]);
        let may = |user: &str, verb: &str, group: &str, resource: &str| {
            let at = Attributes { verb, group, resource, namespace: "x", ..Attributes::default() };
            a.authorize(&User::new(user, &[]), &at).allowed
        };
        assert!(
            may("view", "get", "", "pods")
                && !may("view", "get", "", "secrets")
                && !may("view", "create", "", "pods")
        );
        assert!(
            may("edit", "get", "", "pods")
                && may("edit", "create", "apps", "deployments")
                && may("edit", "get", "", "secrets")
        );
        assert!(!may("edit", "create", "rbac.authorization.k8s.io", "roles"));
        assert!(
            may("admin", "create", "rbac.authorization.k8s.io", "roles") && may("admin", "get", "", "pods")
        );
        let path = |u: &User, p: &str| {
            a.authorize(u, &Attributes { verb: "get", path: Some(p), ..Attributes::default() }).allowed
        };
        assert!(path(&User::anonymous(), "/healthz") && !path(&User::anonymous(), "/api"));
        assert!(path(&User::service_account("a", "b"), "/apis/apps/v1"));
    }
}
