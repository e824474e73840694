//! Nodes that fall silent, come back and go; what is old goes.

use crate::world::{World, deployment};
use ek_controllers::Options;
use serde_json::{Value, json};

fn ready(w: &World, node: &str) -> String {
    let n = w.get("nodes", node);
    n["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap()["status"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn taints(w: &World, node: &str) -> Vec<String> {
    let n = w.get("nodes", node);
    let all = n["spec"]["taints"].as_array().cloned().unwrap_or_default();
    all.iter().map(|t| format!("{}:{}", t["key"].as_str().unwrap(), t["effect"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_silent_node_loses_its_pods_to_others() {
    let w = World::new().await;
    w.node("n1").await;
    w.node("n2").await;
    w.create("apps/deployments", deployment("web", 4, "v1")).await;
    w.settle().await;
    w.set_dead("n1", true).await;
    w.pass(50).await;
    assert_eq!((ready(&w, "n1"), ready(&w, "n2")), ("Unknown".into(), "True".into()));
    assert_eq!(
        taints(&w, "n1"),
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    );
    assert!(w.reasons("Node").contains(&"NodeNotReady".to_owned()));
    let d = w.get("apps/deployments", "default/web");
    assert_eq!(d["status"]["readyReplicas"], 2, "pods of a silent node are not ready");
    assert_eq!(w.pods().len(), 4, "they are given five minutes");
    w.pass(310).await;
    assert_eq!(w.get("apps/deployments", "default/web")["status"]["readyReplicas"], 4);
    assert!(w.reasons("Pod").contains(&"TaintManagerEviction".to_owned()));
    let stuck = w.pods().iter().filter(|p| p["spec"]["nodeName"] == "n1").count();
    assert_eq!(stuck, 2, "a dead kubelet cannot say that they are gone");

    w.delete("nodes", "n1", "Background").await;
    w.pass(50).await;
    assert!(w.pods().iter().all(|p| p["spec"]["nodeName"] == "n2"));
    assert_eq!(w.pods().len(), 4);
    assert!(w.find("coordination.k8s.io/leases", "kube-node-lease/n1").is_none());
}

#[tokio::test]
async fn a_node_that_comes_back_is_welcome() {
    let w = World::new().await;
    w.node("n1").await;
    w.set_dead("n1", true).await;
    w.pass(50).await;
    assert_eq!(ready(&w, "n1"), "Unknown");
    w.set_dead("n1", false).await;
    w.settle().await;
    assert!(taints(&w, "n1").is_empty());
    w.apply("nodes", "n1", |n| n["spec"]["unschedulable"] = json!(true)).await;
    w.settle().await;
    assert_eq!(taints(&w, "n1"), ["node.kubernetes.io/unschedulable:NoSchedule"]);
}

#[tokio::test]
async fn ended_pods_and_old_events_do_not_pile_up() {
    let w = World::with(1, Options { keep_ended_pods: 3, ..Options::default() }).await;
    w.node("n1").await;
    for i in 0..6 {
        w.create("pods", json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{i}"), "namespace": "default", "annotations": {"test/run": "Succeeded"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}})).await;
        w.pass(1).await;
    }
    w.settle().await;
    assert_eq!(w.names("pods"), ["p3", "p4", "p5"]);
    let about_pods =
        |w: &World| w.list("events").iter().filter(|e: &&Value| e["involvedObject"]["kind"] == "Pod").count();
    assert_eq!(about_pods(&w), 6);
    w.pass(3500).await;
    assert_eq!(about_pods(&w), 6);
    w.pass(200).await;
    assert_eq!(about_pods(&w), 0);
}
