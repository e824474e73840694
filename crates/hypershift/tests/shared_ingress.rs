//! One router for all public clusters of the managed flavour: made with the first, and changed only when something means
//! something else for it.

use crate::samples;
use crate::world::World;
use hypershift::{ingress, kinds};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::time::Duration;

const IMAGE: &str = "quay.example/shared-ingress:1";

fn text(o: Option<&DynamicObject>) -> &str {
    o.and_then(|o| o.data["data"]["haproxy.cfg"].as_str()).unwrap_or_default()
}

impl World {
    async fn configured(&self, what: &str, good: impl Fn(&str) -> bool) -> String {
        let there = |o: Option<&DynamicObject>| good(text(o));
        let o = self.until(&kinds::CONFIG_MAP, ingress::NAMESPACE, ingress::ROUTER, what, there).await;
        text(o.as_ref()).to_owned()
    }
}

/// What the operator of a control plane would publish.
fn published(kind: &str) -> Value {
    let meta = json!({"name": "kube-apiserver", "namespace": "clusters-demo",
        "labels": {"hypershift.openshift.io/hosted-control-plane": "clusters-demo"}});
    match kind {
        "Service" => {
            json!({"metadata": meta, "spec": {"ports": [{"port": 6443}], "selector": {"app": "kube-apiserver"}}})
        }
        _ => json!({"metadata": meta, "spec": {"host": "api-demo.hc.example.com",
            "to": {"kind": "Service", "name": "kube-apiserver"}, "tls": {"termination": "passthrough"}}}),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn public_clusters_of_the_managed_flavour_share_a_router() {
    let w = World::start().await.with_inputs().await;
    *w.told.shared_ingress.lock() = Some(IMAGE.to_owned());
    let running = w.operate();
    let mut hc = samples::managed();
    // Its endpoint comes and goes with its topology.
    hc["spec"]["platform"]["azure"]["topology"] = json!("PublicAndPrivate");
    hc["spec"]["platform"]["azure"]["private"] =
        json!({"type": "Swift", "swift": {"podNetworkInstance": "pni"}});
    hc["spec"]["networking"]["apiServer"] = json!({"allowedCIDRBlocks": ["203.0.113.0/24"]});
    w.create(&kinds::CLUSTER, hc).await;
    let there = |o: Option<&DynamicObject>| o.is_some();
    w.until(&kinds::DEPLOYMENT, ingress::NAMESPACE, ingress::ROUTER, "being", there).await;
    w.until(&kinds::SERVICE, ingress::NAMESPACE, ingress::ROUTER, "being", there).await;
    // Nothing leads to a cluster that is nowhere yet.
    let empty = w.configured("being", |t| !t.is_empty()).await;
    assert!(!empty.contains("clusters-demo"), "{empty}");
    w.until(&kinds::NAMESPACE, "", "clusters-demo", "being", there).await;
    let service = w.create(&kinds::SERVICE, published("Service")).await;
    w.create(&kinds::ROUTE, published("Route")).await;
    let address = service.data["spec"]["clusterIP"].as_str().unwrap();
    let full = w.configured("both ways", |t| t.contains("req_ssl_sni -i api-demo.hc.example.com")).await;
    for line in [
        "acl is_clusters-demo_nodes var(sess.cluster_id) -m str 5d9b2b0e-5a3c-4b0e-9a34-6d3b3f3f2a11",
        "acl is_clusters-demo_nodes_request_allowed fc_src 203.0.113.0/24",
        &format!("server clusters-demo_nodes {address}:6443"),
        &format!("server clusters-demo_name_kube-apiserver {address}:6443"),
    ] {
        assert!(full.contains(line), "{line} is not in {full}");
    }
    // What a cluster reports means nothing here: the router is not even looked at.
    let generation = async || {
        let d = w.api(&kinds::DEPLOYMENT, ingress::NAMESPACE).get(ingress::ROUTER).await.unwrap();
        d.metadata.generation
    };
    w.until(&kinds::DEPLOYMENT, ingress::NAMESPACE, ingress::ROUTER, "the configuration", |o| {
        o.is_some_and(|o| o.metadata.generation.is_some_and(|g| g > 1))
    })
    .await;
    running.handle.poke("shared-ingress");
    w.report_available().await;
    w.condition("Available", "True").await;
    let before = generation().await;
    running.handle.poke("shared-ingress");
    w.report(json!({"nodeCount": 3})).await;
    assert_eq!(generation().await, before);
    let said = w.condition("PublicEndpointExposed", "Unknown").await;
    assert_eq!(said["reason"], "ConvergenceInProgress", "no node runs the router here");
    // What somebody changed is put right.
    let other = json!({"spec": {"replicas": 0}});
    w.patch(&kinds::DEPLOYMENT, ingress::NAMESPACE, ingress::ROUTER, other).await;
    let two = |o: Option<&DynamicObject>| o.is_some_and(|o| o.data["spec"]["replicas"] == 2);
    w.until(&kinds::DEPLOYMENT, ingress::NAMESPACE, ingress::ROUTER, "two replicas", two).await;
    // A cluster that goes is led to no more; the router and its address stay.
    w.api(&kinds::CLUSTER, "clusters").delete("demo", &Default::default()).await.unwrap();
    w.configured("no way", |t| !t.is_empty() && !t.contains("clusters-demo")).await;
    tokio::time::timeout(Duration::from_secs(5), async {
        assert!(w.api(&kinds::SERVICE, ingress::NAMESPACE).get_opt(ingress::ROUTER).await.unwrap().is_some());
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_make_none() {
    let w = World::start().await.with_inputs().await;
    *w.told.shared_ingress.lock() = Some(IMAGE.to_owned());
    let _running = w.operate();
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.report_available().await;
    w.condition("Available", "True").await;
    assert!(w.api(&kinds::NAMESPACE, "").get_opt(ingress::NAMESPACE).await.unwrap().is_none());
}
