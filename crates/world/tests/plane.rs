//! A HostedCluster becomes a guest API that answers where it is published.

use crate::kit::{Kit, STATEFUL_SET, is_true};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::Api;
use serde_json::json;
use world::Flavour;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_self_managed_cluster_answers_at_its_balancer() {
    let kit = Kit::start(Flavour::Workload).await;
    kit.sample("demo").create(&kit.world).await.unwrap();
    let begun = std::time::Instant::now();
    let cluster = kit.available("demo").await;
    eprintln!("available after {:?}\n{}", begun.elapsed(), kit.timeline("clusters-demo").await);
    let endpoint = &cluster.data["status"]["controlPlaneEndpoint"];
    assert!(endpoint["host"].as_str().unwrap().starts_with("127."), "{endpoint}");
    assert_eq!(endpoint["port"], 7443);

    let admin = kit.admin("demo").await;
    let spaces: Api<Namespace> = Api::all(admin.clone());
    let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    spaces.create(&Default::default(), &shop).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(admin, "shop");
    let map = json!({"metadata": {"name": "hello"}, "data": {"a": "b"}});
    maps.create(&Default::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    assert_eq!(maps.get("hello").await.unwrap().data.unwrap()["a"], "b");
    // The management cluster knows nothing of it.
    let here: Api<Namespace> = Api::all(kit.world.client());
    assert!(here.get_opt("shop").await.unwrap().is_none());
    kit.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_managed_cluster_answers_by_name_with_three_of_everything() {
    let kit = Kit::start(Flavour::Managed).await;
    let prod = kit.sample("prod").published_by_route().highly_available();
    prod.create(&kit.world).await.unwrap();
    let cluster = kit.available("prod").await;
    let host = &cluster.data["status"]["controlPlaneEndpoint"]["host"];
    assert_eq!(host, "api-prod.example.zaffre.test");
    assert!(is_true(&cluster.data["status"], "EtcdAvailable"));
    let etcd = kit.api(&STATEFUL_SET, &prod.plane()).get("etcd").await.unwrap();
    assert_eq!(etcd.data["status"]["readyReplicas"], 3);
    // The name leads through the ingress, told apart by the greeting.
    let spaces: Api<Namespace> = Api::all(kit.admin("prod").await);
    let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    spaces.create(&Default::default(), &shop).await.unwrap();
    kit.world.stop().await;
}
