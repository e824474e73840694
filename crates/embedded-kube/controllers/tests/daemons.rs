//! Daemon sets.

use crate::world::{World, template};
use serde_json::{Value, json};

fn set() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "log", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "log"}}, "template": template("log", "v1")}})
}

fn nodes(w: &World) -> Vec<String> {
    let mut all: Vec<String> =
        w.pods().iter().map(|p| p["spec"]["nodeName"].as_str().unwrap_or("-").to_owned()).collect();
    all.sort();
    all
}

#[tokio::test]
async fn one_on_every_node_that_wants_it() {
    let w = World::new().await;
    w.node("n1").await;
    w.node_with("gpu", json!({"gpu": "yes"}), json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    w.apply("nodes", "gpu", |n| {
        n["spec"]["taints"] = json!([{"key": "gpu", "effect": "NoSchedule"}]);
        n["spec"]["unschedulable"] = json!(true);
    })
    .await;
    w.create("apps/daemonsets", set()).await;
    w.settle().await;
    assert_eq!(nodes(&w), ["n1"]);
    w.apply("nodes", "gpu", |n| n["spec"]["taints"] = json!([])).await;
    w.settle().await;
    assert_eq!(nodes(&w), ["gpu", "n1"], "a cordon does not keep daemons away");
    w.node("n2").await;
    w.settle().await;
    let s = w.get("apps/daemonsets", "default/log");
    assert_eq!(
        (&s["status"]["desiredNumberScheduled"], &s["status"]["numberAvailable"]),
        (&json!(3), &json!(3))
    );
    w.apply("apps/daemonsets", "default/log", |s| {
        s["spec"]["template"]["spec"]["nodeSelector"] = json!({"gpu": "yes"})
    })
    .await;
    w.settle().await;
    assert_eq!(nodes(&w), ["gpu"]);
    w.delete("nodes", "gpu", "Background").await;
    w.settle().await;
    assert!(w.pods().iter().all(|p| !p["metadata"]["deletionTimestamp"].is_null()), "{:?}", nodes(&w));
}

#[tokio::test]
async fn updates_replace_within_bounds() {
    let w = World::new().await;
    for i in 0..4 {
        w.node(&format!("n{i}")).await;
    }
    w.create("apps/daemonsets", set()).await;
    w.settle().await;
    let hold = |s: &mut Value| s["spec"]["template"]["metadata"]["annotations"] = json!({"test/run": "hold"});
    w.apply("apps/daemonsets", "default/log", hold).await;
    w.settle().await;
    let held = || w.pods().iter().filter(|p| p["status"]["phase"] == "Pending").count();
    assert_eq!((held(), w.pods().len()), (1, 4), "one at a time");
    w.apply("apps/daemonsets", "default/log", |s| {
        s["spec"]["updateStrategy"] =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}});
        s["spec"]["template"]["metadata"]["annotations"] = json!({"round": "3"});
    })
    .await;
    w.settle().await;
    let s = w.get("apps/daemonsets", "default/log");
    assert_eq!(
        (&s["status"]["updatedNumberScheduled"], &s["status"]["numberAvailable"]),
        (&json!(4), &json!(4))
    );
    assert_eq!((held(), w.pods().len()), (0, 4));
    w.apply("apps/daemonsets", "default/log", hold).await;
    w.settle().await;
    assert_eq!((held(), w.pods().len()), (2, 6), "beside the old ones");
}

#[tokio::test]
async fn failed_daemons_are_replaced_ever_more_slowly() {
    let w = World::new().await;
    w.node("n1").await;
    let mut s = set();
    s["spec"]["template"]["metadata"]["annotations"] = json!({"test/run": "Failed"});
    w.create("apps/daemonsets", s).await;
    w.settle().await;
    let events = || w.list("events").iter().filter(|e| e["reason"] == "FailedDaemonPod").count();
    let before = events();
    w.pass(5).await;
    assert!(events() > before && events() < 10, "{}", events());
}
