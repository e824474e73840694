//! Pods leave before their machine does, volumes too; a guest that is away is waited for.

use crate::world::{NS, World, create, node_ready};
use kube::core::DynamicObject;
use machines::kinds;
use reconcile::Kind;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

const BUDGET: Kind = Kind::new("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets");

const HOOKS: Kind = Kind::new(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
)
.cluster_wide();

fn going(all: &[DynamicObject], text: &str) -> bool {
    all.iter().any(|m| {
        let v2 = m.data["status"]["v1beta2"]["conditions"].as_array();
        v2.into_iter().flatten().any(|c| {
            c["type"] == "Deleting"
                && c["status"] == "True"
                && c["message"].as_str().is_some_and(|m| m.contains(text))
        })
    })
}

async fn pod(w: &World, name: &str, node: &str, more: Value) {
    let mut meta = json!({"name": name, "namespace": "default", "labels": {"app": "x"}});
    for (k, v) in more.as_object().unwrap() {
        meta[k] = v.clone();
    }
    let pod = json!({"metadata": meta, "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}});
    create(&w.guest.client(), &kinds::POD, pod).await.unwrap();
}

async fn one(w: &World, spec: Value) -> String {
    let mut pool = World::pool(NS, 1);
    for (k, v) in spec.as_object().unwrap() {
        pool["spec"]["template"]["spec"][k] = v.clone();
    }
    w.create(&kinds::DEPLOYMENT, pool).await;
    w.settled(NS, 1).await;
    w.all(&kinds::MACHINE, NS).await[0].metadata.name.clone().unwrap()
}

async fn shrink(w: &World) {
    w.patch(&kinds::DEPLOYMENT, NS, "pool", json!({"spec": {"replicas": 0}})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_and_volumes_leave_first() {
    let w = World::start().await;
    let _running = w.operate();
    let node = one(&w, json!({})).await;
    pod(&w, "a", &node, json!({})).await;
    pod(&w, "slow", &node, json!({"finalizers": ["test/held"]})).await;
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]);
    pod(&w, "daemon", &node, json!({"ownerReferences": owner})).await;
    let volumes = json!({"status": {"volumesAttached": [{"name": "v", "devicePath": "d"}]}});
    w.guest_api(&kinds::NODE, "")
        .patch_status(&node, &Default::default(), &kube::api::Patch::Merge(&volumes))
        .await
        .unwrap();
    shrink(&w).await;
    let m = w.until(&kinds::MACHINE, NS, "a drain", |all| going(all, "1 pods are left: default/slow")).await;
    assert!(m[0].data["status"]["deletion"]["nodeDrainStartTime"].is_string());
    assert_eq!(w.guest_api(&kinds::NODE, "").get(&node).await.unwrap().data["spec"]["unschedulable"], true);
    assert_eq!(w.sim.world().machines().len(), 1);
    let free = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
    w.guest_api(&kinds::POD, "default").patch("slow", &Default::default(), &free).await.unwrap();
    w.until(&kinds::MACHINE, NS, "a detach", |all| going(all, "1 volumes are still attached")).await;
    assert_eq!(w.sim.world().machines().len(), 1);
    let none = kube::api::Patch::Merge(json!({"status": {"volumesAttached": null}}));
    w.guest_api(&kinds::NODE, "").patch_status(&node, &Default::default(), &none).await.unwrap();
    w.until(&kinds::MACHINE, NS, "its end", |all| all.is_empty()).await;
    assert!(w.guest_api(&kinds::NODE, "").get_opt(&node).await.unwrap().is_none());
    assert_eq!(w.leaks(), BTreeSet::new());
}

/// Its kubelet will never say that a volume is unmounted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_is_replaced_with_its_volumes_attached() {
    let w = World::start().await;
    let _running = w.operate();
    let node = one(&w, json!({})).await;
    let volumes = json!({"status": {"volumesAttached": [{"name": "v", "devicePath": "d"}]}});
    w.guest_api(&kinds::NODE, "")
        .patch_status(&node, &Default::default(), &kube::api::Patch::Merge(&volumes))
        .await
        .unwrap();
    shrink(&w).await;
    w.until(&kinds::MACHINE, NS, "a detach", |all| going(all, "1 volumes are still attached")).await;
    node_ready(&w.guest.client(), &node, "Unknown").await;
    w.until(&kinds::MACHINE, NS, "its end", |all| all.is_empty()).await;
    assert_eq!(w.leaks(), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn budgets_hold_a_drain_until_its_time_is_up() {
    let w = World::start().await;
    let _running = w.operate();
    let node = one(&w, json!({"nodeDrainTimeout": "2s"})).await;
    pod(&w, "kept", &node, json!({})).await;
    let budget = json!({"metadata": {"name": "b", "namespace": "default"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    create(&w.guest.client(), &BUDGET, budget).await.unwrap();
    shrink(&w).await;
    w.until(&kinds::MACHINE, NS, "a refusal", |all| {
        all.is_empty() || going(all, "not evicted: default/kept")
    })
    .await;
    w.until(&kinds::MACHINE, NS, "its end", |all| all.is_empty()).await;
    assert_eq!(w.leaks(), BTreeSet::new());
}

/// Whoever shortens a drain means the one that hangs, and that is of an old set, on its way out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_that_hangs_in_a_roll_can_be_shortened() {
    let w = World::start().await;
    let _running = w.operate();
    let node = one(&w, json!({})).await;
    pod(&w, "slow", &node, json!({"finalizers": ["test/held"]})).await;
    w.template(NS, "t2", json!({"vmSize": "Standard_D8s_v5"})).await;
    let template = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let next = template(json!({"infrastructureRef": {"name": "t2"}}));
    w.patch(&kinds::DEPLOYMENT, NS, "pool", next).await;
    w.until(&kinds::MACHINE, NS, "a drain", |all| going(all, "1 pods are left: default/slow")).await;
    w.patch(&kinds::DEPLOYMENT, NS, "pool", template(json!({"nodeDrainTimeout": "1s"}))).await;
    let all = w.until(&kinds::MACHINE, NS, "one", |all| all.len() == 1).await;
    assert_ne!(all[0].metadata.name, Some(node));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_is_away_is_waited_for_unless_the_cluster_goes() {
    let w = World::start().await;
    let running = w.operate();
    let hook = "pre-drain.delete.hook.machine.cluster.x-k8s.io/backup";
    let name = one(&w, json!({})).await;
    w.patch(&kinds::MACHINE, NS, &name, json!({"metadata": {"annotations": {hook: ""}}})).await;
    shrink(&w).await;
    w.until(&kinds::MACHINE, NS, "a hook", |all| going(all, "held by pre-drain")).await;
    drop(running);
    w.ways.away.store(true, Ordering::SeqCst);
    let _running = w.operate();
    w.patch(&kinds::MACHINE, NS, &name, json!({"metadata": {"annotations": {hook: null}}})).await;
    w.until(&kinds::MACHINE, NS, "a wait", |all| going(all, "connection refused")).await;
    assert_eq!(w.sim.world().machines().len(), 1, "nothing is taken away under running pods");
    w.api(&kinds::CLUSTER, NS).delete("demo-x", &Default::default()).await.unwrap();
    w.until(&kinds::CLUSTER, NS, "its end", |all| all.is_empty()).await;
    assert_eq!(w.leaks(), BTreeSet::new());
}

/// A drain may take longer than there is time for the Node; that counts from the first attempt to remove it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_not_left_behind_after_a_long_way_out() {
    let w = World::start().await;
    let _running = w.operate();
    let node = one(&w, json!({"nodeDeletionTimeout": "4s"})).await;
    let hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/backup";
    w.patch(&kinds::MACHINE, NS, &node, json!({"metadata": {"annotations": {hook: ""}}})).await;
    shrink(&w).await;
    w.until(&kinds::MACHINE, NS, "a hook", |all| going(all, "held by pre-terminate")).await;
    // Longer than the Node is given.
    tokio::time::sleep(std::time::Duration::from_millis(4500)).await;
    // Nobody answers, so nothing is deleted.
    let refuses = json!({"metadata": {"name": "refuses"}, "webhooks": [{"name": "refuses.example.com", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "timeoutSeconds": 1, "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"], "operations": ["DELETE"]}]}]});
    create(&w.guest.client(), &HOOKS, refuses).await.unwrap();
    w.patch(&kinds::MACHINE, NS, &node, json!({"metadata": {"annotations": {hook: null}}})).await;
    w.until(&kinds::MACHINE, NS, "an attempt", |all| going(all, "removing the node")).await;
    w.guest_api(&HOOKS, "").delete("refuses", &Default::default()).await.unwrap();
    w.until(&kinds::MACHINE, NS, "its end", |all| all.is_empty()).await;
    assert!(w.guest_api(&kinds::NODE, "").get_opt(&node).await.unwrap().is_none(), "its Node goes, too");
    assert_eq!(w.leaks(), BTreeSet::new());
}
