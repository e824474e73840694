//! Budgets and quotas.

use crate::world::{World, deployment};
use serde_json::json;

#[tokio::test]
async fn budgets_say_how_many_may_go() {
    let w = World::new().await;
    w.node("n1").await;
    w.create("apps/deployments", deployment("web", 4, "v1")).await;
    w.create("policy/poddisruptionbudgets", json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"},
        "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "web"}}}})).await;
    w.settle().await;
    let status = || w.get("policy/poddisruptionbudgets", "default/b")["status"].clone();
    let s = status();
    assert_eq!(
        (&s["expectedPods"], &s["currentHealthy"], &s["desiredHealthy"], &s["disruptionsAllowed"]),
        (&json!(4), &json!(4), &json!(3), &json!(1))
    );
    assert_eq!(s["conditions"][0]["reason"], "SufficientPods");
    w.apply("nodes", "n1", |n| n["spec"]["unschedulable"] = json!(true)).await;
    let victim = w.names("pods")[0].clone();
    w.delete("pods", &format!("default/{victim}"), "Background").await;
    w.settle().await;
    assert_eq!(
        (&status()["disruptionsAllowed"], &status()["conditions"][0]["reason"]),
        (&json!(0), &json!("InsufficientPods"))
    );
}

#[tokio::test]
async fn quotas_say_what_is_used() {
    let w = World::new().await;
    w.node("n1").await;
    w.create("resourcequotas", json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"pods": "10", "requests.cpu": "4", "limits.memory": "4Gi", "configmaps": "5", "count/deployments.apps": "3", "services": "2", "services.nodeports": "1", "requests.storage": "10Gi"}}})).await;
    let mut d = deployment("web", 2, "v1");
    d["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "250m"}, "limits": {"memory": "512Mi"}});
    w.create("apps/deployments", d).await;
    w.settle().await;
    let used = || w.get("resourcequotas", "default/q")["status"]["used"].clone();
    let u = used();
    assert_eq!(
        (&u["pods"], &u["requests.cpu"], &u["limits.memory"]),
        (&json!("2"), &json!("500m"), &json!("1Gi"))
    );
    assert_eq!(
        (&u["configmaps"], &u["count/deployments.apps"], &u["services"], &u["requests.storage"]),
        (&json!("1"), &json!("1"), &json!("1"), &json!("0"))
    );
    w.apply("apps/deployments", "default/web", |d| d["spec"]["replicas"] = json!(0)).await;
    w.create(
        "configmaps",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}}),
    )
    .await;
    w.settle().await;
    assert_eq!(
        (&used()["pods"], &used()["requests.cpu"], &used()["configmaps"]),
        (&json!("0"), &json!("0"), &json!("2"))
    );
}

/// A quota with scopes counts the pods in them, and nothing else.
#[tokio::test]
async fn scoped_quotas_count_their_own() {
    let w = World::new().await;
    w.node("n1").await;
    let quota = |name: &str, scope: &str| {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": "default"},
            "spec": {"hard": {"pods": "5"}, "scopes": [scope]}})
    };
    for (name, scope) in [
        ("best", "BestEffort"),
        ("not-best", "NotBestEffort"),
        ("short", "Terminating"),
        ("long", "NotTerminating"),
    ] {
        w.create("resourcequotas", quota(name, scope)).await;
    }
    let pod = |name: &str, resources: serde_json::Value, deadline: serde_json::Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"activeDeadlineSeconds": deadline, "containers": [{"name": "c", "image": "c:1", "resources": resources}]}})
    };
    w.create("pods", pod("plain", json!({}), json!(null))).await;
    w.create("pods", pod("sized", json!({"requests": {"cpu": "1m"}}), json!(null))).await;
    w.create("pods", pod("brief", json!({}), json!(3600))).await;
    w.settle().await;
    let used =
        |name: &str| w.get("resourcequotas", &format!("default/{name}"))["status"]["used"]["pods"].clone();
    assert_eq!(
        ["best", "not-best", "short", "long"].map(used),
        [json!("2"), json!("1"), json!("1"), json!("2")]
    );
}
