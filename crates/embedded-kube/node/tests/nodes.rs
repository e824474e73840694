//! Nodes: what they say, that they go on saying it, and when they stop.

use crate::kit::{Kit, condition};
use ek_engine::Engine;
use ek_node::{NodeSpec, Nodes, Options, StageSet};
use ek_server::registry::table_name;
use serde_json::{Value, json};

fn renewed(kit: &Kit) -> Value {
    let lease = kit.access.get(&table_name("coordination.k8s.io", "leases"), "kube-node-lease", "n1");
    lease.unwrap()["spec"]["renewTime"].clone()
}

#[tokio::test]
async fn a_node_registers_and_beats() {
    let kit = Kit::new(StageSet::instant()).await;
    let node = kit.access.get(&table_name("", "nodes"), "", "n1").unwrap();
    assert_eq!(condition(&node, "Ready"), "True");
    assert_eq!(node["spec"]["podCIDR"], "10.128.0.0/24");
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "n1");
    assert_eq!(node["status"]["allocatable"]["pods"], "110");
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.34.0");
    let first = renewed(&kit);
    kit.pass(10).await;
    let second = renewed(&kit);
    assert_ne!(first, second);
    kit.nodes.lose_node("main", "n1").unwrap();
    kit.pass(30).await;
    assert_eq!(renewed(&kit), second);
    // Somebody noticed; when it is back it says so itself.
    let unknown = |n: &mut Value| {
        n["status"]["conditions"][3]["status"] = json!("Unknown");
        true
    };
    kit.access.update(&table_name("", "nodes"), "", "n1", "status", unknown).await.unwrap();
    kit.engine.settle().await;
    kit.nodes.restore_node("main", "n1").unwrap();
    kit.engine.settle().await;
    assert_eq!(condition(&kit.access.get(&table_name("", "nodes"), "", "n1").unwrap(), "Ready"), "True");
    assert_ne!(renewed(&kit), second);
}

#[tokio::test]
async fn beats_cost_one_small_write() {
    let kit = Kit::new(StageSet::instant()).await;
    let before: u64 = kit.engine.settle().await as u64;
    assert_eq!(before, 0);
    let node = kit.access.entry(&table_name("", "nodes"), "", "n1").unwrap().revision;
    kit.pass(60).await;
    let after = kit.access.entry(&table_name("", "nodes"), "", "n1").unwrap().revision;
    assert_eq!(node, after, "the Node itself is not written at every beat");
}

#[tokio::test]
async fn another_process_takes_nodes_and_pods_over() {
    let kit = Kit::new(StageSet::instant()).await;
    kit.pod("a", |_| {}).await;
    let ip = kit.get("a")["status"]["podIP"].clone();
    let options = Options { stages: StageSet::instant(), ..Options::new(kit.dir.path()) };
    let nodes = Nodes::new(&kit.host, options);
    let engine = Engine::new(&kit.host, nodes.controllers());
    nodes.attach(&engine);
    engine.settle().await;
    assert_eq!(nodes.names("main"), ["n1"]);
    assert_eq!(kit.get("a")["status"]["podIP"], ip);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "namespace": "default"},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "x"}]}});
    kit.create("pods", pod).await;
    engine.settle().await;
    assert_eq!(condition(&kit.get("b"), "Ready"), "True");
    assert_ne!(kit.get("b")["status"]["podIP"], ip);
}

#[tokio::test]
async fn removal_takes_the_pods_along() {
    let kit = Kit::new(StageSet::instant()).await;
    kit.nodes.add_node("main", "n2", NodeSpec::default()).await.unwrap();
    assert_eq!(kit.nodes.names("main"), ["n1", "n2"]);
    kit.pod("a", |p| p["spec"]["nodeName"] = json!("n2")).await;
    assert_eq!(kit.get("a")["status"]["podIP"], "10.128.1.2");
    kit.nodes.remove_node("main", "n2").await.unwrap();
    kit.engine.settle().await;
    assert!(kit.get("a").is_null());
    assert!(kit.access.get(&table_name("", "nodes"), "", "n2").is_none());
    assert!(kit.nodes.add_node("nowhere", "x", NodeSpec::default()).await.is_err());
}

#[tokio::test]
async fn a_host_that_stops_lets_go_of_everything() {
    // Held by a program, which the nodes hold.
    let token = std::sync::Arc::new(());
    let held = token.clone();
    let kit = Kit::with(|o| {
        o.stages = StageSet::instant();
        o.programs.register(
            "test/never",
            ek_node::FnProgram(move |_| {
                let _ = &held;
                std::future::ready(0)
            }),
        );
    })
    .await;
    kit.pod("a", |_| {}).await;
    let Kit { host, nodes, engine, server, access, .. } = kit;
    let alive = std::sync::Arc::downgrade(&token);
    host.stop().await;
    drop((host, nodes, engine, server, access, token));
    assert!(alive.upgrade().is_none());
}
