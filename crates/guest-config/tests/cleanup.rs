//! Before a cluster goes, what it made in Azure goes.

use crate::world::{World, plane};
use guest_config::operate::CLEANUP;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

async fn doomed() -> World {
    let mut o = plane();
    o["metadata"]["finalizers"] = json!(["hypershift.openshift.io/finalizer"]);
    o["metadata"]["annotations"] = json!({"hypershift.openshift.io/cleanup-cloud-resources": "true"});
    World::start(o).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_in_azure_is_removed_and_nothing_new_comes() {
    let w = doomed().await;
    let running = w.operator();
    w.condition("ConfigOperatorReconciliationSucceeded", "True").await;
    let guest = w.guest.client();
    // A balancer whose controller takes its time, a volume that stays, one that goes.
    let service = |name: &str, kind: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default",
            "finalizers": if kind == "LoadBalancer" { json!(["service.kubernetes.io/load-balancer-cleanup"]) } else { Value::Null }},
            "spec": {"type": kind, "ports": [{"port": 80}]}})
    };
    w.put(&guest, service("web", "LoadBalancer")).await;
    w.put(&guest, service("inside", "ClusterIP")).await;
    let volume = |name: &str, policy: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": policy,
                "csi": {"driver": "disk.csi.azure.com", "volumeHandle": name}}})
    };
    w.put(&guest, volume("goes", "Delete")).await;
    w.put(&guest, volume("stays", "Retain")).await;

    w.planes().delete("demo", &DeleteParams::default()).await.unwrap();
    let c = w.condition("CloudResourcesDestroyed", "False").await;
    assert_eq!(c["reason"], "RemainingCloudResources");
    let services = w.api(&guest, "v1", "Service", "default");
    let web = services.get("web").await.unwrap();
    assert!(web.metadata.deletion_timestamp.is_some());
    let e = services
        .create(&Default::default(), &serde_json::from_value(service("more", "LoadBalancer")).unwrap())
        .await;
    assert!(e.unwrap_err().to_string().contains("being deleted"));
    services
        .create(&Default::default(), &serde_json::from_value(service("plain", "ClusterIP")).unwrap())
        .await
        .unwrap();
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let claims = w.api(&guest, "v1", "PersistentVolumeClaim", "default");
    assert!(claims.create(&Default::default(), &serde_json::from_value(claim).unwrap()).await.is_err());

    // The cloud controller is done.
    let free = json!({"metadata": {"finalizers": null}});
    services.patch("web", &PatchParams::default(), &Patch::Merge(&free)).await.unwrap();
    let volumes = w.api(&guest, "v1", "PersistentVolume", "");
    volumes.patch("goes", &PatchParams::default(), &Patch::Merge(&free)).await.unwrap();
    w.again(&running, CLEANUP).await;
    let c = w.condition("CloudResourcesDestroyed", "True").await;
    assert_eq!(c["reason"], "CloudResourcesDestroyed");
    assert!(
        volumes.get_opt("goes").await.unwrap().is_none() && volumes.get_opt("stays").await.unwrap().is_some()
    );
    let controllers = w.of(&guest, &guest_config::kinds::INGRESS_CONTROLLER, "openshift-ingress-operator");
    assert!(controllers.get_opt("default").await.unwrap().is_none());
    let registry = w.of(&guest, &guest_config::kinds::REGISTRY, "").get("cluster").await.unwrap();
    assert_eq!(registry.data["spec"]["managementState"], "Removed");
    assert!(services.get_opt("inside").await.unwrap().is_some());
    running.stop().await;
}

/// The cluster does not wait for ever; until it goes, it is said that time is over, and what stays behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_too_long_is_said_to() {
    let w = doomed().await;
    let running = w.operator();
    w.condition("ConfigOperatorReconciliationSucceeded", "True").await;
    let slow = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default",
        "finalizers": ["service.kubernetes.io/load-balancer-cleanup"]},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    w.put(&w.guest.client(), slow).await;
    w.planes().delete("demo", &DeleteParams::default()).await.unwrap();
    w.until_reason("CloudResourcesDestroyed", "RemainingCloudResources").await;
    let since = w.planes().get("demo").await.unwrap().metadata.deletion_timestamp.unwrap().0;
    use clock::Clock;
    w.clock.advance(since.duration_since(w.clock.now()) + jiff::SignedDuration::from_mins(10));
    w.again(&running, CLEANUP).await;
    let c = w.until_reason("CloudResourcesDestroyed", "CloudResourcesDeletionTimedOut").await;
    assert!(c["message"].as_str().unwrap().contains("1 Services of type LoadBalancer"), "{c}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_does_not_answer_is_given_up_on() {
    let w = doomed().await;
    let running = w.operator();
    w.condition("ConfigOperatorReconciliationSucceeded", "True").await;
    w.closed.store(true, std::sync::atomic::Ordering::SeqCst);
    w.planes().delete("demo", &DeleteParams::default()).await.unwrap();
    for _ in 0..8 {
        w.again(&running, CLEANUP).await;
    }
    let c = w.until_reason("CloudResourcesDestroyed", "CloudResourcesCleanupSkipped").await;
    assert_eq!(c["status"], "False");
    assert!(c["message"].as_str().unwrap().contains("did not answer"), "{c}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_being_asked_nothing_is_removed() {
    let mut o = plane();
    o["metadata"]["finalizers"] = json!(["hypershift.openshift.io/finalizer"]);
    let w = World::start(o).await;
    let running = w.operator();
    w.condition("ConfigOperatorReconciliationSucceeded", "True").await;
    w.planes().delete("demo", &DeleteParams::default()).await.unwrap();
    w.again(&running, CLEANUP).await;
    let controllers =
        w.of(&w.guest.client(), &guest_config::kinds::INGRESS_CONTROLLER, "openshift-ingress-operator");
    assert!(controllers.get_opt("default").await.unwrap().is_some());
    running.stop().await;
}
