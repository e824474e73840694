//! Sizes in a management cluster: what is made, what is said, when a size follows the nodes and what follows it.

use crate::samples;
use crate::world::{Running, World, condition};
use clock::Clock;
use hypershift::kinds;
use jiff::SignedDuration;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

const LABEL: &str = "hypershift.openshift.io/hosted-cluster-size";
const GOMEMLIMIT: &str = "hypershift.openshift.io/kube-apiserver-gomemlimit";

async fn start() -> (World, Running) {
    let w = World::start().await.with_inputs().await;
    w.told.sizing.store(true, Ordering::SeqCst);
    let running = w.operate();
    (w, running)
}

fn label(o: &DynamicObject) -> &str {
    o.metadata.labels.as_ref().and_then(|l| l.get(LABEL)).map_or("", String::as_str)
}

fn annotation<'a>(o: &'a DynamicObject, key: &str) -> Option<&'a str> {
    o.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

impl World {
    async fn sized(&self, size: &str) -> DynamicObject {
        let good = |o: Option<&DynamicObject>| {
            o.is_some_and(|o| label(o) == size && condition(o, "ClusterSizeComputed")["reason"] == size)
        };
        self.until(&kinds::CLUSTER, "clusters", "demo", &format!("size {size}"), good).await.unwrap()
    }

    async fn said(&self, kind: &str, reason: &str) -> Value {
        let good = |o: Option<&DynamicObject>| o.is_some_and(|o| condition(o, kind)["reason"] == reason);
        let o = self
            .until(&kinds::CLUSTER, "clusters", "demo", &format!("{kind}: {reason}"), good)
            .await
            .unwrap();
        condition(&o, kind).clone()
    }

    async fn configure(&self, spec: Value) {
        self.patch(&kinds::SIZING, "", "cluster", json!({"spec": spec})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_size_follows_the_nodes_when_they_last() {
    let (w, running) = start().await;
    // Nobody configured anything: the defaults are made, and judged.
    let valid = |o: Option<&DynamicObject>| {
        o.is_some_and(|o| condition(o, "ClusterSizingConfigurationValid")["status"] == "True")
    };
    let made = w.until(&kinds::SIZING, "", "cluster", "valid", valid).await.unwrap();
    assert_eq!(made.data["spec"]["sizes"].as_array().unwrap().len(), 3);
    assert_eq!(made.data["spec"]["sizes"][1]["criteria"], json!({"from": 11, "to": 100}));
    let effects = json!({"sizes": [
        {"name": "small", "criteria": {"from": 0, "to": 10}, "effects": {"kasGoMemLimit": "8GiB"}},
        {"name": "large", "criteria": {"from": 11}, "effects": {"kasGoMemLimit": "32GiB", "maximumRequestsInflight": 900,
            "resourceRequests": [{"deploymentName": "kube-apiserver", "containerName": "kube-apiserver", "memory": "16Gi"}]}},
    ]});
    w.configure(effects).await;
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    let hc = w.sized("small").await;
    assert_eq!(condition(&hc, "ClusterSizeTransitionPending")["status"], "False");
    assert_eq!(condition(&hc, "ClusterSizeTransitionRequired")["status"], "False");
    assert_eq!(annotation(&hc, "hypershift.openshift.io/cluster-scheduled"), Some("true"));
    // Its control plane begins with what follows from the size: it is not made and then rolled.
    let there = |o: Option<&DynamicObject>| o.is_some();
    let plane = w.until(&kinds::PLANE, "clusters-demo", "demo", "being", there).await.unwrap();
    assert_eq!((annotation(&plane, GOMEMLIMIT), plane.metadata.generation), (Some("8GiB"), Some(1)));
    w.report_available().await;
    w.report(json!({"nodeCount": 20})).await;
    let required = w.said("ClusterSizeTransitionRequired", "large").await;
    assert_eq!(required["status"], "True");
    let pending = w.said("ClusterSizeTransitionPending", "TransitionDelayNotElapsed").await;
    assert!(pending["message"].as_str().unwrap().contains("more nodes for 30s"), "{pending}");
    // Back in time: nothing happens, and nothing is remembered.
    w.clock.advance(SignedDuration::from_secs(29));
    w.report(json!({"nodeCount": 3})).await;
    w.said("ClusterSizeTransitionRequired", "AsExpected").await;
    w.clock.advance(SignedDuration::from_secs(29));
    w.report(json!({"nodeCount": 21})).await;
    w.said("ClusterSizeTransitionRequired", "large").await;
    w.clock.advance(SignedDuration::from_secs(29));
    running.handle.poke("clusters/demo");
    assert_eq!(label(&w.api(&kinds::CLUSTER, "clusters").get("demo").await.unwrap()), "small");
    w.clock.advance(SignedDuration::from_secs(1));
    let changed = w.clock.now();
    running.handle.poke("clusters/demo");
    let hc = w.sized("large").await;
    let since = condition(&hc, "ClusterSizeComputed")["lastTransitionTime"].as_str().unwrap();
    assert_eq!(since.parse::<jiff::Timestamp>().unwrap(), changed);
    let large = |o: Option<&DynamicObject>| {
        o.is_some_and(|o| {
            annotation(o, GOMEMLIMIT) == Some("32GiB")
                && annotation(o, "hypershift.openshift.io/kube-apiserver-max-requests-inflight")
                    == Some("900")
                && annotation(
                    o,
                    "resource-request-override.hypershift.openshift.io/kube-apiserver.kube-apiserver",
                ) == Some("memory=16Gi")
        })
    };
    w.until(&kinds::PLANE, "clusters-demo", "demo", "what large has", large).await;
    // A label that somebody changed is put right: the status decides.
    w.patch(&kinds::CLUSTER, "clusters", "demo", json!({"metadata": {"labels": {LABEL: "small"}}})).await;
    w.sized("large").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_wait_for_each_other_and_survive_a_crash() {
    let (w, running) = start().await;
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.sized("small").await;
    w.configure(
        json!({"concurrency": {"limit": 1, "slidingWindow": "10m"}, "transitionDelay": {"increase": "0s"}}),
    )
    .await;
    let forced = |size: &str| json!({"metadata": {"annotations": {"hypershift.openshift.io/cluster-size-override": size}}});
    // Its own first size was the one change of this window.
    w.patch(&kinds::CLUSTER, "clusters", "demo", forced("large")).await;
    w.said("ClusterSizeTransitionPending", "ConcurrencyLimitReached").await;
    drop(running);
    w.clock.advance(SignedDuration::from_secs(601));
    let running = w.operate();
    let hc = w.sized("large").await;
    // One that there is not is said, and changes nothing.
    w.patch(&kinds::CLUSTER, "clusters", "demo", forced("gigantic")).await;
    let said = w.said("ClusterSizeTransitionRequired", "UnknownSizeOverride").await;
    assert_eq!(said["status"], "Unknown");
    let page = hypershift::metrics::text(&running.operator, w.clock.now());
    assert!(
        page.contains("hypershift_cluster_size_override_instances{namespace=\"clusters\",name=\"demo\""),
        "{page}"
    );
    // A configuration that cannot be used leaves sizes as they are.
    w.configure(json!({"sizes": [{"name": "a", "criteria": {"from": 0, "to": 3}}, {"name": "b", "criteria": {"from": 7}}]})).await;
    let invalid = |o: Option<&DynamicObject>| {
        o.is_some_and(|o| {
            condition(o, "ClusterSizingConfigurationValid")["reason"] == "SizeConfigurationInvalid"
        })
    };
    w.until(&kinds::SIZING, "", "cluster", "a word about it", invalid).await;
    let now = w.api(&kinds::CLUSTER, "clusters").get("demo").await.unwrap();
    assert_eq!(label(&now), "large");
    assert_eq!(condition(&now, "ClusterSizeComputed"), condition(&hc, "ClusterSizeComputed"));
    // One that is deleted comes back as the default.
    w.api(&kinds::SIZING, "").delete("cluster", &Default::default()).await.unwrap();
    let back = |o: Option<&DynamicObject>| {
        o.is_some_and(|o| o.data["spec"]["sizes"].as_array().is_some_and(|s| s.len() == 3))
    };
    w.until(&kinds::SIZING, "", "cluster", "the default sizes", back).await;
}
