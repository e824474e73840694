//! Who may do what, and who may give what.

use crate::api::*;
use ek_auth::User;
use serde_json::{Value, json};

const GROUP: &str = "/apis/rbac.authorization.k8s.io/v1";

fn role(name: &str, rules: Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn rule(verbs: &[&str], resource: &str) -> Value {
    json!({"verbs": verbs, "apiGroups": [""], "resources": [resource]})
}

fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    json!({"metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]})
}

#[tokio::test]
async fn permissions_take_effect_with_the_write_that_gives_them() {
    let api = start().await;
    let alice = api.as_user(User::new("alice", &[]).authenticated());
    let roles = format!("{GROUP}/namespaces/default/roles");
    let bindings = format!("{GROUP}/namespaces/default/rolebindings");
    let r = alice.get(&format!("{MAPS}/a")).await;
    assert_eq!(r.body()["details"], json!({"name": "a", "kind": "configmaps"}));
    assert_eq!(
        r.fails(403, "Forbidden"),
        "configmaps \"a\" is forbidden: User \"alice\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    assert_eq!(
        alice.patch(MERGE, &format!("{DEPLOYMENTS}/d/scale"), json!({})).await.fails(403, "Forbidden"),
        "deployments.apps \"d\" is forbidden: User \"alice\" cannot patch resource \"deployments/scale\" in API group \"apps\" in the namespace \"default\""
    );
    api.post(&roles, role("r", json!([rule(&["get", "list"], "configmaps")]))).await.ok(201);
    api.post(&bindings, binding("b", "Role", "r", "alice")).await.ok(201);
    alice.get(MAPS).await.ok(200);
    alice.get("/api/v1/configmaps").await.fails(403, "Forbidden");
    alice.post(MAPS, map("a")).await.fails(403, "Forbidden");
    api.delete(&format!("{bindings}/b")).await.ok(200);
    alice.get(MAPS).await.fails(403, "Forbidden");
}

#[tokio::test]
async fn nobody_gives_more_than_they_have() {
    let api = start().await;
    let alice = api.as_user(User::new("alice", &[]).authenticated());
    let roles = format!("{GROUP}/namespaces/default/roles");
    let bindings = format!("{GROUP}/namespaces/default/rolebindings");
    let manage = json!([{"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"]}, rule(&["get"], "pods")]);
    // All verbs include escalate and bind, so these are named one by one.
    let mut named = manage.clone();
    named[0]["verbs"] = json!(["get", "create", "update", "patch", "delete"]);
    api.post(&roles, role("manager", named)).await.ok(201);
    api.post(&bindings, binding("manager", "Role", "manager", "alice")).await.ok(201);
    alice.post(&roles, role("fine", json!([rule(&["get"], "pods")]))).await.ok(201);
    let m =
        alice.post(&roles, role("more", json!([rule(&["delete"], "pods")]))).await.fails(403, "Forbidden");
    assert!(m.starts_with("roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"alice\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:"), "{m}");
    assert!(m.contains("{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}"), "{m}");
    alice
        .patch(MERGE, &format!("{roles}/fine"), json!({"rules": [rule(&["create"], "pods")]}))
        .await
        .fails(403, "Forbidden");
    alice
        .post(&bindings, binding("up", "ClusterRole", "cluster-admin", "alice"))
        .await
        .fails(403, "Forbidden");
    alice.post(&bindings, binding("none", "Role", "unknown", "alice")).await.fails(404, "NotFound");
    alice.post(&bindings, binding("ok", "Role", "fine", "bob")).await.ok(201);
    let r = api.patch(MERGE, &format!("{bindings}/ok"), json!({"roleRef": {"name": "manager"}})).await;
    assert_eq!(r.code, 422, "what a binding refers to is fixed");
    // The verb `bind` on a role allows giving it.
    let may_bind = json!([{"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["view"]}]);
    api.post(&roles, role("binder", may_bind)).await.ok(201);
    api.post(&bindings, binding("binder", "Role", "binder", "alice")).await.ok(201);
    alice.post(&bindings, binding("view", "ClusterRole", "view", "bob")).await.ok(201);
}

#[tokio::test]
async fn aggregated_roles_follow_their_parts() {
    let api = start().await;
    let all = format!("{GROUP}/clusterroles");
    let sum = json!({"metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "sum"}}]}, "rules": [rule(&["*"], "secrets")]});
    let made = api.post(&all, sum).await.ok(201);
    assert_eq!(made["rules"], json!(null), "the rules of an aggregated role are the controller's");
    let mut part = role("part", json!([rule(&["get"], "pods")]));
    part["metadata"]["labels"] = json!({"to": "sum"});
    api.post(&all, part).await.ok(201);
    let s = api.until(&all, "sum", |_, o| o["rules"].as_array().is_some_and(|r| r.len() == 1)).await;
    assert_eq!(s["rules"][0]["resources"], json!(["pods"]));
    api.delete(&format!("{all}/part")).await.ok(200);
    api.until(&all, "sum", |_, o| o["rules"].as_array().is_none_or(Vec::is_empty)).await;
    let admin = api.get(&format!("{all}/admin")).await.ok(200);
    assert!(admin["rules"].as_array().unwrap().len() > 5);
}
