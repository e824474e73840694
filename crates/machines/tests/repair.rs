//! Broken machines are found and replaced, but not too many at once, and not on hearsay.

use crate::world::{NS, World, condition, node_ready};
use machines::kinds;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

fn check(more: Value) -> Value {
    let mut spec = json!({"clusterName": "demo-x", "selector": {"matchLabels": {"pool": "pool"}}, "maxUnhealthy": 1,
        "nodeStartupTimeout": "10m", "unhealthyConditions": [
            {"type": "Ready", "status": "False", "timeout": "1s"}, {"type": "Ready", "status": "Unknown", "timeout": "1s"}]});
    for (k, v) in more.as_object().unwrap() {
        spec[k] = v.clone();
    }
    json!({"metadata": {"name": "pool", "namespace": NS}, "spec": spec})
}

async fn names(w: &World) -> BTreeSet<String> {
    w.all(&kinds::MACHINE, NS).await.into_iter().map(|m| m.metadata.name.unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_broken_node_is_replaced_and_two_are_not() {
    let w = World::start().await;
    let _running = w.operate();
    w.create(&kinds::DEPLOYMENT, World::pool(NS, 3)).await;
    w.settled(NS, 3).await;
    w.create(&kinds::CHECK, check(json!({}))).await;
    let all =
        w.until(&kinds::CHECK, NS, "three well", |all| all[0].data["status"]["currentHealthy"] == 3).await;
    assert_eq!(condition(&all[0], "RemediationAllowed")["status"], "True");
    assert_eq!(all[0].data["status"]["targets"].as_array().unwrap().len(), 3);
    let before = names(&w).await;
    let sick = before.iter().next().unwrap().clone();
    node_ready(&w.guest.client(), &sick, "False").await;
    w.until(&kinds::MACHINE, NS, "another", |all| {
        all.iter().all(|m| m.metadata.name.as_deref() != Some(&sick))
    })
    .await;
    w.settled(NS, 3).await;
    let now = names(&w).await;
    assert_eq!(now.intersection(&before).count(), 2, "only one was replaced");

    // Two at once are more than the limit: held, and said.
    let two: Vec<&String> = now.iter().take(2).collect();
    for n in &two {
        node_ready(&w.guest.client(), n, "Unknown").await;
    }
    let all = w
        .until(&kinds::CHECK, NS, "a stop", |all| {
            condition(&all[0], "RemediationAllowed")["status"] == "False"
        })
        .await;
    let said = condition(&all[0], "RemediationAllowed")["message"].as_str().unwrap();
    assert!(
        said.contains("2 of 3 machines are unhealthy and the limit is 1") && said.contains("common cause"),
        "{said}"
    );
    assert_eq!(names(&w).await, now);
    // One heals, the other is replaced.
    node_ready(&w.guest.client(), two[0], "True").await;
    w.until(&kinds::MACHINE, NS, "another", |all| {
        all.iter().all(|m| m.metadata.name.as_ref() != Some(two[1]))
    })
    .await;
    w.settled(NS, 3).await;
    assert!(names(&w).await.contains(two[0]));
}

/// An outage need not take all at the same moment: who is being replaced counts until it is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_after_the_other_is_too_many_as_well() {
    let w = World::start().await;
    let _running = w.operate();
    w.create(&kinds::DEPLOYMENT, World::pool(NS, 3)).await;
    w.settled(NS, 3).await;
    w.create(&kinds::CHECK, check(json!({}))).await;
    w.until(&kinds::CHECK, NS, "three well", |all| all[0].data["status"]["currentHealthy"] == 3).await;
    let all: Vec<String> = names(&w).await.into_iter().collect();
    let hook = "pre-drain.delete.hook.machine.cluster.x-k8s.io/slow";
    w.patch(&kinds::MACHINE, NS, &all[0], json!({"metadata": {"annotations": {hook: ""}}})).await;
    node_ready(&w.guest.client(), &all[0], "False").await;
    w.until(&kinds::MACHINE, NS, "the first to go, and another", |now| {
        let goes = |m: &kube::core::DynamicObject| m.metadata.deletion_timestamp.is_some();
        now.len() == 4 && now.iter().any(|m| m.metadata.name.as_ref() == Some(&all[0]) && goes(m))
    })
    .await;
    node_ready(&w.guest.client(), &all[1], "False").await;
    let stopped = w
        .until(&kinds::CHECK, NS, "a stop", |all| {
            condition(&all[0], "RemediationAllowed")["status"] == "False"
        })
        .await;
    let said = condition(&stopped[0], "RemediationAllowed")["message"].as_str().unwrap();
    assert!(said.contains("2 of 4 machines are unhealthy and the limit is 1"), "{said}");
    let second = w.api(&kinds::MACHINE, NS).get(&all[1]).await.unwrap();
    assert_eq!(second.metadata.deletion_timestamp, None, "it waits for the first");
    w.patch(&kinds::MACHINE, NS, &all[0], json!({"metadata": {"annotations": {hook: null}}})).await;
    w.until(&kinds::MACHINE, NS, "its turn", |now| {
        now.iter().all(|m| m.metadata.name.as_ref() != Some(&all[1]))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_that_vanish_or_never_join_are_replaced() {
    let w = World::start().await;
    let _running = w.operate();
    w.create(&kinds::DEPLOYMENT, World::pool(NS, 1)).await;
    w.settled(NS, 1).await;
    w.create(&kinds::CHECK, check(json!({}))).await;
    w.until(&kinds::CHECK, NS, "one well", |all| all[0].data["status"]["currentHealthy"] == 1).await;
    // Somebody deletes the virtual machine in Azure.
    let before = names(&w).await;
    let vm = w.sim.world().machines()[0].id.clone();
    let id = arm::ResourceId::parse(&vm).unwrap();
    w.azure.arm::<azure::ops::VirtualMachines>().delete(&id).await.unwrap();
    w.until(&kinds::MACHINE, NS, "another", |all| {
        all.iter().all(|m| !before.contains(m.metadata.name.as_deref().unwrap()))
    })
    .await;
    w.settled(NS, 1).await;
    assert!(
        !w.leaks().iter().any(|l| before.iter().any(|b| l.contains(b.as_str()))),
        "its disk and interface went too"
    );

    // The next one never becomes a node.
    w.boots.store(false, Ordering::SeqCst);
    w.patch(&kinds::DEPLOYMENT, NS, "pool", json!({"spec": {"replicas": 2}})).await;
    let all = w
        .until(&kinds::MACHINE, NS, "a wait", |all| {
            all.iter().any(|m| condition(m, "Ready")["reason"] == "NodeProvisioning")
        })
        .await;
    let late = all.iter().find(|m| condition(m, "Ready")["reason"] == "NodeProvisioning").unwrap();
    assert!(condition(late, "Ready")["message"].as_str().unwrap().contains("token"), "{:?}", late.data);
    w.boots.store(true, Ordering::SeqCst);
    w.patch(&kinds::CHECK, NS, "pool", json!({"spec": {"nodeStartupTimeout": "1s"}})).await;
    let gone = late.metadata.name.clone();
    w.until(&kinds::MACHINE, NS, "another", |all| all.iter().all(|m| m.metadata.name != gone)).await;
    w.patch(&kinds::CHECK, NS, "pool", json!({"spec": {"nodeStartupTimeout": "10m"}})).await;
    w.settled(NS, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_cannot_be_asked_condemns_nobody() {
    let w = World::start().await;
    let running = w.operate();
    w.create(&kinds::DEPLOYMENT, World::pool(NS, 2)).await;
    w.settled(NS, 2).await;
    let before = names(&w).await;
    drop(running);
    w.ways.away.store(true, Ordering::SeqCst);
    let _running = w.operate();
    w.create(&kinds::CHECK, check(json!({"nodeStartupTimeout": "1s", "maxUnhealthy": "100%"}))).await;
    let all = w
        .until(&kinds::MACHINE, NS, "silence", |all| {
            all.iter().all(|m| condition(m, "NodeHealthy")["reason"] == "GuestUnreachable")
        })
        .await;
    assert!(
        all.iter().all(|m| m.data["status"]["phase"] == "Running" && m.data["status"]["nodeRef"].is_object())
    );
    w.until(&kinds::CHECK, NS, "a look", |all| all[0].data["status"]["expectedMachines"] == 2).await;
    let all = w.all(&kinds::CHECK, NS).await;
    assert_eq!(all[0].data["status"]["currentHealthy"], 2);
    assert_eq!(names(&w).await, before);
}
