//! Many pods in many clusters. Run by hand, optimised: `cargo test --release -p ek-controllers -- --ignored load`.

use crate::world::{Heart, Kubelet, deployment, table};
use clock::{ManualClock, Random};
use ek_engine::Engine;
use ek_server::{ClusterConfig, Host, HostConfig};
use serde_json::json;
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures; meaningless without optimisation"]
async fn ten_thousand_pods_in_two_hundred_clusters() {
    let clock = ManualClock::new("2026-11-15T00:00:00Z".parse().unwrap());
    let config = HostConfig { clock, random: Random::seeded(1), ..HostConfig::memory() };
    let host = Host::start(config).await.unwrap();
    let mut controllers = ek_controllers::all(ek_controllers::Options::default());
    controllers.push(Arc::new(Kubelet));
    controllers.push(Arc::new(Heart));
    let engine = Engine::new(&host, controllers);
    let clusters = 200;
    let mut all = Vec::new();
    for i in 0..clusters {
        let c = host.ensure(&format!("c{i}"), ClusterConfig::default()).await.unwrap();
        all.push(c.access("test"));
    }
    engine.settle().await;
    let start = std::time::Instant::now();
    for a in &all {
        for n in 0..2 {
            let resources = json!({"cpu": "64", "memory": "64Gi", "pods": "110"});
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{n}")}, "status": {"allocatable": resources,
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": a.timestamp(), "lastTransitionTime": a.timestamp()}]}});
            a.create(&table("nodes"), node).await.unwrap();
        }
        for d in 0..5 {
            a.create(&table("apps/deployments"), deployment(&format!("d{d}"), 10, "v1")).await.unwrap();
        }
    }
    let runs = engine.settle().await;
    let took = start.elapsed();
    let ready: i64 = all
        .iter()
        .flat_map(|a| a.in_namespace(&table("apps/deployments"), "default"))
        .filter_map(|(_, e)| ek_server::parse(&e))
        .map(|d| d["status"]["availableReplicas"].as_i64().unwrap_or(0))
        .sum();
    println!("{ready} pods ready in {took:?}, {runs} runs");
    assert_eq!(ready, clusters * 50);
}
