//! Killed after every call that changed something in Azure, both sides go on where they were, and leave nothing.

use crate::world::World;
use std::collections::BTreeSet;
use std::pin::pin;

/// `PUT privateEndpoints`.
fn sort(method: &str, path: &str) -> String {
    format!("{method} {}", path.rsplit('/').nth(1).unwrap_or_default())
}

/// Runs the operators until something is so, and kills them after every change in Azure. What those were.
async fn killed(w: &World, name: &str, so: impl Future<Output = ()>) -> BTreeSet<String> {
    let azure = w.sim.world().clone();
    let mut last = azure.journal().last().map_or(0, |e| e.number);
    let (mut met, mut so) = (BTreeSet::new(), pin!(so));
    loop {
        let mut news = azure.journal_news();
        let running = w.operate();
        let next = async {
            loop {
                let new = azure.journal().into_iter().filter(|e| e.number > last);
                if let Some(e) = new.into_iter().find(|e| e.method != "GET" && e.path.contains(name)) {
                    return e;
                }
                news.changed().await.unwrap();
            }
        };
        tokio::select! {
            e = next => {
                drop(running);
                met.insert(sort(&e.method, &e.path));
                last = e.number;
            }
            () = &mut so => return met,
        }
    }
}

/// Without the name of the cluster.
fn same(made: BTreeSet<String>, name: &str) -> BTreeSet<String> {
    made.into_iter().map(|id| id.replace(name, "_")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_that_die_after_any_call_lose_and_leak_nothing() {
    let w = World::start().await;
    w.balancer("lb-clean", "10.1.0.20").await;
    w.cluster("clean", Some("10.1.0.20")).await;
    let running = w.operate();
    w.open("clean").await;
    drop(running);

    w.balancer("lb-killed", "10.1.0.21").await;
    w.cluster("killed", Some("10.1.0.21")).await;
    let met = killed(&w, "killed", w.open("killed")).await;
    for point in
        ["subnets", "privateLinkServices", "privateEndpoints", "privateDnsZones", "virtualNetworkLinks", "A"]
    {
        assert!(met.contains(&format!("PUT {point}")), "{point}: {met:?}");
    }
    assert_eq!(same(w.made("killed").await, "killed"), same(w.made("clean").await, "clean"));

    let met = killed(&w, "killed", w.end("killed")).await;
    for point in
        ["A", "privateEndpoints", "virtualNetworkLinks", "privateDnsZones", "privateLinkServices", "subnets"]
    {
        assert!(met.contains(&format!("DELETE {point}")), "{point}: {met:?}");
    }
    let balancer = |id: &String| !id.contains("loadBalancers");
    let left: BTreeSet<String> = w.made("killed").await.into_iter().filter(balancer).collect();
    assert_eq!(left, BTreeSet::new());
}
