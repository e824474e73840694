//! Where pods go, and what they say when they cannot.

use crate::world::World;
use serde_json::{Value, json};

async fn pod(w: &World, name: &str, labels: Value, spec: Value) {
    let mut spec = spec;
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "c", "image": "x"}]);
    }
    w.create("pods", json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec})).await;
    w.settle().await;
}

fn node_of(w: &World, name: &str) -> String {
    w.get("pods", &format!("default/{name}"))["spec"]["nodeName"].as_str().unwrap_or_default().to_owned()
}

fn why(w: &World, name: &str) -> String {
    let p = w.get("pods", &format!("default/{name}"));
    let c = p["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["type"] == "PodScheduled")
        .unwrap()
        .clone();
    assert_eq!((c["status"].as_str(), c["reason"].as_str()), (Some("False"), Some("Unschedulable")));
    c["message"].as_str().unwrap().to_owned()
}

fn cpu(amount: &str) -> Value {
    json!([{"name": "c", "image": "x", "resources": {"requests": {"cpu": amount}}}])
}

#[tokio::test]
async fn pods_wait_for_room_and_say_why() {
    let w = World::new().await;
    pod(&w, "early", json!({}), json!({})).await;
    assert_eq!(why(&w, "early"), "no nodes available to schedule pods");
    w.node_with("small", json!({}), json!({"cpu": "1", "memory": "1Gi", "pods": "2"})).await;
    w.node_with("tainted", json!({"zone": "b"}), json!({"cpu": "4", "memory": "1Gi", "pods": "10"})).await;
    w.apply("nodes", "tainted", |n| {
        n["spec"]["taints"] = json!([{"key": "own", "value": "me", "effect": "NoSchedule"}])
    })
    .await;
    w.settle().await;
    pod(&w, "big", json!({}), json!({"containers": cpu("2")})).await;
    assert!(why(&w, "big").starts_with("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {own: me}. preemption:"), "{}", why(&w, "big"));
    assert!(w.reasons("Pod").contains(&"FailedScheduling".to_owned()));
    pod(&w, "own", json!({}), json!({"containers": cpu("2"), "tolerations": [{"key": "own", "operator": "Exists"}], "nodeSelector": {"zone": "b"}})).await;
    assert_eq!(node_of(&w, "own"), "tainted");
    w.apply("nodes", "tainted", |n| n["spec"]["taints"] = json!([])).await;
    w.settle().await;
    assert_eq!(node_of(&w, "big"), "tainted", "a change of a node lets those go that wait");
    w.apply("nodes", "small", |n| n["spec"]["unschedulable"] = json!(true)).await;
    w.settle().await;
    pod(&w, "full", json!({}), json!({"containers": cpu("1")})).await;
    assert!(why(&w, "full").contains("1 Insufficient cpu, 1 node(s) were unschedulable"));
    w.delete("pods", "default/big", "Background").await;
    w.settle().await;
    assert_eq!(node_of(&w, "full"), "tainted", "room that is freed is used");
    assert!(w.reasons("Pod").contains(&"Scheduled".to_owned()));
}

#[tokio::test]
async fn affinity_and_spreading() {
    let w = World::new().await;
    for (name, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        w.node_with(name, json!({"zone": zone}), json!({"cpu": "8", "memory": "8Gi", "pods": "100"})).await;
    }
    let zone = |w: &World, p: &str| node_of(w, p).chars().next();
    let term = |app: &str| json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone"});
    let required = |kind: &str, app: &str| json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term(app)]}}});
    pod(&w, "db", json!({"app": "db"}), json!({"nodeSelector": {"kubernetes.io/hostname": "b1"}})).await;
    pod(&w, "near", json!({"app": "near"}), required("podAffinity", "db")).await;
    assert_eq!(node_of(&w, "near"), "b1");
    pod(&w, "far", json!({"app": "far"}), required("podAntiAffinity", "db")).await;
    assert_eq!(zone(&w, "far"), Some('a'));
    // It works both ways: who is to be kept away from is kept away.
    pod(&w, "db2", json!({"app": "db"}), json!({})).await;
    assert_eq!(zone(&w, "db2"), Some('b'));
    pod(&w, "first", json!({"app": "self"}), required("podAffinity", "self")).await;
    assert_ne!(node_of(&w, "first"), "");
    pod(&w, "lost", json!({}), required("podAffinity", "nobody")).await;
    assert!(why(&w, "lost").contains("3 node(s) didn't match pod affinity rules"));

    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "s"}}}]});
    for i in 0..4 {
        pod(&w, &format!("s{i}"), json!({"app": "s"}), spread.clone()).await;
    }
    let in_b = (0..4).filter(|i| zone(&w, &format!("s{i}")) == Some('b')).count();
    assert_eq!(in_b, 2);
    let like = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 10, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}}]}}});
    pod(&w, "likes-b", json!({}), like).await;
    assert_eq!(zone(&w, "likes-b"), Some('b'));
}

#[tokio::test]
async fn the_important_go_first_and_gates_hold() {
    let w = World::new().await;
    w.create("scheduling.k8s.io/priorityclasses", json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})).await;
    pod(&w, "low", json!({}), json!({"containers": cpu("1")})).await;
    pod(&w, "high", json!({}), json!({"containers": cpu("1"), "priorityClassName": "high"})).await;
    pod(&w, "gated", json!({}), json!({"schedulingGates": [{"name": "x/y"}]})).await;
    w.node_with("n", json!({}), json!({"cpu": "1", "memory": "1Gi", "pods": "10"})).await;
    assert_eq!(
        (node_of(&w, "high"), node_of(&w, "low"), node_of(&w, "gated")),
        ("n".into(), String::new(), String::new())
    );
    w.apply("pods", "default/gated", |p| p["spec"]["schedulingGates"] = json!([])).await;
    w.settle().await;
    assert_eq!(node_of(&w, "gated"), "n");
}
