//! A HostedControlPlane becomes a guest API that answers where it is published.

use crate::kit::{Kit, client, is_true};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::Api;
use serde_json::json;
use world::Options;
use world::sample::Sample;

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_answers_by_name_with_three_of_everything_and_only_if_its_operator_runs() {
    let kit = Kit::start(Options::default()).await;
    let ns = "clusters-prod";
    let mut prod = Sample::new(&kit.world, ns, "prod", "4.20.1").unwrap();
    let spec = &mut prod.plane["spec"];
    spec["controllerAvailabilityPolicy"] = json!("HighlyAvailable");
    spec["services"][0]["servicePublishingStrategy"] =
        json!({"type": "Route", "route": {"hostname": "api-prod.hc.example.com"}});
    let here = kit.world.client();
    prod.prepare(&here).await.unwrap();
    prod.create_plane(&here).await.unwrap();
    // Nobody serves this namespace: another control plane is up before anything happens to this one.
    kit.create("clusters-other", "other", |_| {}).await;
    kit.available("clusters-other", "other").await;
    let untouched = kit.planes(ns).get("prod").await.unwrap();
    assert!(
        untouched.data["status"]["conditions"].as_array().is_none_or(Vec::is_empty),
        "{:#}",
        untouched.data
    );
    prod.create_operator(&here).await.unwrap();
    let plane = kit.available(ns, "prod").await;
    assert_eq!(
        plane.data["status"]["controlPlaneEndpoint"],
        json!({"host": "api-prod.hc.example.com", "port": 443})
    );
    assert!(is_true(&plane.data["status"], "EtcdAvailable"));
    let etcd = kit.api(ns, "apps", "StatefulSet", "statefulsets").get("etcd").await.unwrap();
    assert_eq!(etcd.data["status"]["readyReplicas"], 3);

    // The name leads through the ingress, told apart by the greeting.
    let config = kit.world.reachable(&kit.kubeconfig(ns).await).unwrap();
    let admin = client(&config).await;
    let spaces: Api<Namespace> = Api::all(admin);
    spaces
        .create(&Default::default(), &serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap())
        .await
        .unwrap();
    let other = client(&kit.kubeconfig("clusters-other").await).await;
    assert!(Api::<Namespace>::all(other).get_opt("shop").await.unwrap().is_none(), "two clusters are two");
    kit.world.stop().await;
}
