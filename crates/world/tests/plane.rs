//! A HostedControlPlane becomes a guest API that answers where it is published.

use crate::kit::{Kit, client};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::Api;
use serde_json::json;
use world::Options;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_answers_at_its_balancer() {
    let kit = Kit::start(Options::default()).await;
    kit.create("clusters-demo", "demo", |_| {}).await;
    let plane = kit.available("clusters-demo", "demo").await;
    let endpoint = &plane.data["status"]["controlPlaneEndpoint"];
    assert!(endpoint["host"].as_str().unwrap().starts_with("127."), "{endpoint}");
    assert_eq!(endpoint["port"], 7443);

    let admin = client(&kit.kubeconfig("clusters-demo").await).await;
    let spaces: Api<Namespace> = Api::all(admin.clone());
    spaces
        .create(&Default::default(), &serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap())
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(admin, "shop");
    let map = json!({"metadata": {"name": "hello"}, "data": {"a": "b"}});
    maps.create(&Default::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    let back = maps.get("hello").await.unwrap();
    assert_eq!(back.data.unwrap()["a"], "b");
    // The management cluster knows nothing of it.
    let here: Api<Namespace> = Api::all(kit.world.client());
    assert!(here.get_opt("shop").await.unwrap().is_none());
    kit.world.stop().await;
}
