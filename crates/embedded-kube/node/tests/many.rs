//! How much it costs; run by hand: `cargo test --release -p ek-node -- --ignored --nocapture many`.

use ek_engine::Engine;
use ek_node::{Events, NodeSpec, Nodes, Options, StageSet};
use ek_server::registry::table_name;
use ek_server::{ClusterConfig, Host, HostConfig};
use jiff::SignedDuration;
use serde_json::json;
use std::time::Instant;
use testkit::TestWorld;

fn resident_mib() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4 / 1024
}

async fn world(clusters: usize, events: Events) -> (TestWorld, Host, Engine, Vec<String>) {
    let world = TestWorld::new(1);
    let config =
        HostConfig { clock: world.shared_clock(), random: world.random.clone(), ..HostConfig::memory() };
    let host = Host::start(config).await.unwrap();
    let options = Options { stages: StageSet::instant(), events, ..Options::new("/nonexistent") };
    let nodes = Nodes::new(&host, options);
    let engine = Engine::new(&host, nodes.controllers());
    nodes.attach(&engine);
    let names: Vec<String> = (0..clusters).map(|i| format!("c{i}")).collect();
    for name in &names {
        host.ensure(name, ClusterConfig::default()).await.unwrap();
        nodes.add_node(name, "n1", NodeSpec::default()).await.unwrap();
    }
    engine.settle().await;
    (world, host, engine, names)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn ten_thousand_pods_in_two_hundred_clusters() {
    for events in [Events::All, Events::Warnings] {
        let (_, host, engine, names) = world(200, events).await;
        let before = resident_mib();
        let start = Instant::now();
        for name in &names {
            let access = host.cluster(name).unwrap().access("test");
            for i in 0..50 {
                let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{i}"), "namespace": "default"},
                    "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "example/app:1"}]}});
                access.create(&table_name("", "pods"), pod).await.unwrap();
            }
        }
        let created = start.elapsed();
        let runs = engine.settle().await;
        println!(
            "{events:?}: created in {created:?}, settled after {:?}, {runs} runs, {before} -> {} MiB",
            start.elapsed(),
            resident_mib()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn a_thousand_idle_nodes() {
    let (world, _host, engine, _) = world(1000, Events::All).await;
    let before = resident_mib();
    let start = Instant::now();
    for _ in 0..100 {
        world.clock.advance(SignedDuration::from_secs(1));
        engine.settle().await;
    }
    let busy = start.elapsed();
    println!("100 s of 1,000 idle nodes: {busy:?} busy, {before} -> {} MiB", resident_mib());
}
