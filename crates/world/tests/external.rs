//! The life of a cluster in any management cluster that a kubeconfig names.
//!
//! `ZAFFRE_KUBECONFIG=<file> cargo test -p world --test main external` applies our kinds there, runs both operators here and
//! walks as far as that cluster's nodes go: with nodes that cannot pull the images, or that only simulate pods, a guest's
//! API cannot answer, and the walk says so and ends with the deletion. The Azure is a simulated one, in this process. The
//! definitions, and the namespaces `clusters` and `hypershift`, stay there afterwards.

use crate::kit::{DEADLINE, Kit, POD, is_true};
use control_plane::operate::Tenants;
use hypershift::kinds;
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use kube::api::{Api, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use reconcile::Kind;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use world::sample::{NAMESPACE, Sample};
use world::{Around, Cloud, Flavour, Ground, Landing, Operators, Options};

/// How far it went.
#[derive(Debug, PartialEq, Eq)]
enum Reached {
    /// Everything is applied, and the nodes cannot run it.
    Made { why: String },
    /// The guest's API answers.
    Answering,
}

async fn client(config: &str) -> kube::Client {
    let config = Kubeconfig::from_yaml(config).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

async fn until(api: Api<DynamicObject>, name: &str, what: &str, so: impl Fn(Option<&DynamicObject>) -> bool) {
    let wait = kube::runtime::wait::await_condition(api.clone(), name, so);
    if tokio::time::timeout(DEADLINE, wait).await.is_err() {
        panic!("{name}: never {what}: {:#?}", api.get_opt(name).await.unwrap().map(|o| o.data));
    }
}

/// Why the nodes cannot run the cluster's etcd; nothing while they may.
async fn hopeless(client: &kube::Client, plane: &str) -> Option<String> {
    if Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap().items.is_empty() {
        return Some("there are no nodes".to_owned());
    }
    let pod = POD.api(client, plane).get_opt("etcd-0").await.unwrap()?;
    if pod.metadata.annotations.is_some_and(|a| a.contains_key("zaffre.io/simulated")) {
        return Some("the nodes only simulate pods".to_owned());
    }
    let status = &pod.data["status"];
    let list = |key: &str| status[key].as_array().cloned().unwrap_or_default();
    let placed =
        list("conditions").into_iter().find(|c| c["type"] == "PodScheduled" && c["status"] == "False");
    if let Some(c) = placed {
        // A volume may be on its way, or a node.
        let since = c["lastTransitionTime"].as_str().and_then(|t| t.parse::<jiff::Timestamp>().ok())?;
        let long = clock::system().now().duration_since(since) > jiff::SignedDuration::from_secs(120);
        return long.then(|| format!("no node takes etcd: {}", c["message"]));
    }
    let waits = [list("initContainerStatuses"), list("containerStatuses")].concat();
    let waits = waits.into_iter().map(|c| c["state"]["waiting"].clone());
    let stuck = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"];
    let stuck = waits.into_iter().find(|w| stuck.iter().any(|s| w["reason"] == *s))?;
    Some(format!("the nodes cannot pull the images: {}", stuck["message"]))
}

/// Until the cluster is available, or it is clear that it cannot be.
async fn as_far_as_it_goes(client: &kube::Client, plane: &str) -> Reached {
    let available = async {
        let so = |o: Option<&DynamicObject>| o.is_some_and(|o| is_true(&o.data["status"], "Available"));
        until(kinds::CLUSTER.api(client, NAMESPACE), "outside", "Available", so).await;
    };
    let never = async {
        loop {
            if let Some(why) = hopeless(client, plane).await {
                return why;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = available => Reached::Answering,
        why = never => Reached::Made { why },
    }
}

async fn walk(config: &str, cloud: &Cloud, dir: &Path) -> Reached {
    let client = client(config).await;
    let served = world::install::install(&client).await.unwrap();
    let (clock, random) = (clock::system(), clock::Random::from_os());
    let around = Around::new(
        client.clone(),
        cloud.images.clone(),
        world::health::Direct,
        clock.clone(),
        cloud.image("zaffre"),
    );
    let around = around.with_vault_reader(&cloud.vault_reader).with_preflight(cloud.client.clone());
    let around = Arc::new(around);
    let ground = Ground { served, around, tenants: Tenants::all(), machines: None, clock, random };
    let operators = Operators::start(&ground, &client);
    let landing = Landing::make(cloud, dir, "outside", Flavour::Workload).await.unwrap();
    let outside = Sample::of(&landing, "outside", cloud.release("4.19.3").unwrap());
    outside.create_in(&client).await.unwrap();
    let plane = outside.plane();
    let there = |o: Option<&DynamicObject>| o.is_some();
    until(kinds::PLANE.api(&client, &plane), "outside", "made", there).await;
    until(crate::kit::STATEFUL_SET.api(&client, &plane), "etcd", "made", there).await;
    let reached = as_far_as_it_goes(&client, &plane).await;
    if reached == Reached::Answering {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
        let secret = secrets.get("outside-admin-kubeconfig").await.unwrap();
        let admin = String::from_utf8(secret.data.unwrap()["kubeconfig"].0.clone()).unwrap();
        let spaces: Api<Namespace> = Api::all(self::client(&admin).await);
        let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
        spaces.create(&Default::default(), &shop).await.unwrap();
    }
    kinds::CLUSTER.api(&client, NAMESPACE).delete("outside", &Default::default()).await.unwrap();
    let gone = |o: Option<&DynamicObject>| o.is_none();
    until(kinds::CLUSTER.api(&client, NAMESPACE), "outside", "gone", gone).await;
    for kind in [kinds::NAMESPACE, kinds::CLUSTER_ROLE, kinds::CLUSTER_ROLE_BINDING] {
        let left = names(&client, &kind).await;
        assert!(!left.iter().any(|n| n.contains(&plane)), "{}: {left:?}", kind.kind);
    }
    for input in &outside.inputs {
        let name = input["metadata"]["name"].as_str().unwrap();
        kinds::SECRET.api(&client, NAMESPACE).delete(name, &Default::default()).await.unwrap();
    }
    operators.stop().await;
    reached
}

async fn names(client: &kube::Client, kind: &Kind) -> Vec<String> {
    let all = kind.api(client, "").list_metadata(&ListParams::default()).await.unwrap().items;
    all.into_iter().filter_map(|o| o.metadata.name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_in_the_cluster_of_zaffre_kubeconfig() {
    let Some(path) = std::env::var_os("ZAFFRE_KUBECONFIG") else {
        eprintln!("skipped: ZAFFRE_KUBECONFIG names no kubeconfig of a cluster to walk through");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let cloud = Cloud::start(&Options::default(), dir.path()).await.unwrap();
    let config = std::fs::read_to_string(&path).unwrap();
    let reached = walk(&config, &cloud, dir.path()).await;
    eprintln!("{}: {reached:?}", path.display());
    cloud.stop();
}

/// The same walk through a cluster that is reached by its kubeconfig alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_walk_goes_all_the_way_where_nodes_can() {
    let world = world::World::start(Options::default()).await.unwrap();
    // It has operators of its own, which would do the work.
    world.kill_operators();
    let listening = world.management().listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let config = world.management().kubeconfig(&format!("https://{}", listening.address)).unwrap();
    let reached = walk(&config.to_string(), world.cloud(), world.dir()).await;
    assert_eq!(reached, Reached::Answering);
    world.stop().await;
}

/// And through one that has no nodes at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_walk_ends_where_nodes_cannot_go_on() {
    let kit = Kit::start(Flavour::Workload).await;
    kit.world.kill_operators();
    for name in kit.world.nodes().names(ek_server::MAIN) {
        kit.world.nodes().remove_node(ek_server::MAIN, &name).await.unwrap();
    }
    let listening = kit.world.management().listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let config = kit.world.management().kubeconfig(&format!("https://{}", listening.address)).unwrap();
    let reached = walk(&config.to_string(), kit.world.cloud(), kit.world.dir()).await;
    assert!(matches!(&reached, Reached::Made { why } if why == "there are no nodes"), "{reached:?}");
    kit.world.stop().await;
}
