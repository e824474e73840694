//! What stands behind and before services.

use crate::world::{World, deployment};
use ek_controllers::{LoadBalancers, Options};
use ek_meta::Status;
use ek_server::Access;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;

fn service(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default", "labels": {"team": "x"}}, "spec": spec})
}

fn endpoints(w: &World) -> Vec<Value> {
    w.list("discovery.k8s.io/endpointslices")
        .iter()
        .flat_map(|s| s["endpoints"].as_array().cloned().unwrap_or_default())
        .collect()
}

#[tokio::test]
async fn endpoints_follow_pods() {
    let w = World::new().await;
    w.node_with(
        "n1",
        json!({"topology.kubernetes.io/zone": "z1"}),
        json!({"cpu": "8", "memory": "8Gi", "pods": "110"}),
    )
    .await;
    w.create("services", service(json!({"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "web"}, {"name": "num", "port": 81, "targetPort": 9000}]}))).await;
    w.settle().await;
    let slices = w.list("discovery.k8s.io/endpointslices");
    assert_eq!((slices.len(), endpoints(&w).len()), (1, 0), "an empty slice says that somebody looked");
    let mut d = deployment("web", 3, "v1");
    d["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"name": "web", "containerPort": 8080}]);
    w.create("apps/deployments", d).await;
    w.settle().await;
    let slices = w.list("discovery.k8s.io/endpointslices");
    assert_eq!(slices.len(), 1);
    let s = &slices[0];
    assert_eq!(
        s["metadata"]["labels"],
        json!({"team": "x", "kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    assert_eq!(
        s["ports"],
        json!([{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "num", "port": 9000, "protocol": "TCP"}])
    );
    let all = endpoints(&w);
    assert_eq!(all.len(), 3);
    assert_eq!(
        (&all[0]["zone"], &all[0]["conditions"]),
        (&json!("z1"), &json!({"ready": true, "serving": true, "terminating": false}))
    );
    let e = w.get("endpoints", "default/web");
    assert_eq!(e["subsets"][0]["addresses"].as_array().unwrap().len(), 3);

    // On a node that is dead pods go slowly: not ready for new traffic, still serving.
    w.set_dead("n1", true).await;
    let victim = w.names("pods")[0].clone();
    w.delete("pods", &format!("default/{victim}"), "Background").await;
    w.settle().await;
    let going: Vec<Value> =
        endpoints(&w).into_iter().filter(|e| e["conditions"]["terminating"] == true).collect();
    assert_eq!(going.len(), 1);
    assert_eq!(going[0]["conditions"], json!({"ready": false, "serving": true, "terminating": true}));
    assert_eq!(w.get("endpoints", "default/web")["subsets"][0]["addresses"].as_array().unwrap().len(), 2);
    w.delete("services", "default/web", "Background").await;
    w.settle().await;
    assert!(w.names("discovery.k8s.io/endpointslices").is_empty());
    assert!(w.find("endpoints", "default/web").is_none());
}

#[tokio::test]
async fn headless_and_not_ready() {
    let w = World::new().await;
    w.node("n1").await;
    w.create(
        "services",
        service(json!({"clusterIP": "None", "selector": {"app": "db"}, "publishNotReadyAddresses": true})),
    )
    .await;
    w.create("pods", json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db", "namespace": "default", "labels": {"app": "db"}, "annotations": {"test/run": "hold"}},
        "spec": {"hostname": "db", "subdomain": "web", "containers": [{"name": "c", "image": "x"}]}})).await;
    w.settle().await;
    w.set_status("pods", "default/db", |p| p["status"]["podIP"] = json!("10.9.9.9")).await;
    w.settle().await;
    let all = endpoints(&w);
    assert_eq!(all.len(), 1);
    assert_eq!((&all[0]["hostname"], &all[0]["conditions"]["ready"]), (&json!("db"), &json!(true)));
    assert_eq!(
        w.list("discovery.k8s.io/endpointslices")[0]["metadata"]["labels"]["service.kubernetes.io/headless"],
        ""
    );
}

struct Balancers;

impl LoadBalancers for Balancers {
    fn assign<'a>(&'a self, _: &'a Access, _: &'a Value) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        Box::pin(async { Ok(vec![json!({"ip": "203.0.113.7"})]) })
    }
}

#[tokio::test]
async fn load_balancers_get_their_address_from_outside() {
    let w = World::with(1, Options { load_balancers: Some(Arc::new(Balancers)), ..Options::default() }).await;
    w.create("services", service(json!({"type": "LoadBalancer", "ports": [{"port": 80}]}))).await;
    w.settle().await;
    let s = w.get("services", "default/web");
    assert_eq!(s["status"]["loadBalancer"]["ingress"][0]["ip"], "203.0.113.7");
    w.delete("services", "default/web", "Background").await;
    w.settle().await;
    assert!(w.find("services", "default/web").is_none());
}
