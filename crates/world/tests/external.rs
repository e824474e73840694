//! The life of a cluster in any management cluster that a kubeconfig names.
//!
//! `ZAFFRE_KUBECONFIG=<file> cargo test -p world --test main external` applies our kinds there, runs the operators here and
//! walks as far as that cluster's nodes go: with nodes that cannot pull the images, or that only simulate pods, a guest's
//! API cannot answer, and the walk says so and ends with the deletion. The Azure is a simulated one, in this process: a
//! node pool becomes machines in it, and these become nodes where a world boots them. The definitions, and the
//! namespaces `clusters` and `hypershift`, stay there afterwards.

use crate::kit::{DEADLINE, Kit, POD, condition, is_true};
use apis::capz::AzureClusterIdentity;
use control_plane::operate::Tenants;
use futures::future::BoxFuture;
use hypershift::kinds;
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use kube::api::{Api, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use machines::{Clouds, Reach, Unreachable};
use reconcile::Kind;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use world::sample::{NAMESPACE, Sample};
use world::{Around, Cloud, Flavour, Ground, Keeping, Landing, Operators, Options};

/// How far it went.
#[derive(Debug, PartialEq, Eq)]
enum Reached {
    /// Everything is applied, and the nodes cannot run it.
    Made { why: String },
    /// The guest's API answers, and a pool has machines.
    Answering,
    /// The machines are nodes.
    Joined,
}

/// The guest by its administrator's kubeconfig: Services of the cluster have no names out here.
struct Outside(kube::Client);

impl Reach for Outside {
    fn guest<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<kube::Client, Unreachable>> {
        Box::pin(
            async move { guest(&self.0).await.ok_or_else(|| Unreachable("it has no kubeconfig".into())) },
        )
    }
}

/// Who may do everything in the simulated Azure.
struct Owner(azure::Client);

impl Clouds for Owner {
    fn client<'a>(
        &'a self,
        _: &'a AzureClusterIdentity,
    ) -> BoxFuture<'a, Result<azure::Client, Unreachable>> {
        Box::pin(async move { Ok(self.0.clone()) })
    }
}

async fn guest(client: &kube::Client) -> Option<kube::Client> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let secret = secrets.get_opt("outside-admin-kubeconfig").await.unwrap()?;
    let admin = String::from_utf8(secret.data?["kubeconfig"].0.clone()).unwrap();
    Some(self::client(&admin).await)
}

fn pool(landing: &Landing, release: &str) -> Value {
    json!({"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "NodePool",
        "metadata": {"name": "outside", "namespace": NAMESPACE}, "spec": {
            "clusterName": "outside", "replicas": 1, "release": {"image": release},
            "management": {"upgradeType": "Replace", "autoRepair": false},
            "platform": {"type": "Azure", "azure": {"vmSize": "Standard_D4s_v5", "availabilityZone": "1",
                "image": {"type": "AzureMarketplace"}, "osDisk": {"sizeGiB": 120, "diskStorageAccountType": "Premium_LRS"},
                "subnetID": landing.layout.subnet}}}})
}

/// What is left of machines in Azure.
fn machines(cloud: &Cloud) -> Vec<String> {
    let left = cloud.sim.world().leaks();
    let all = left["value"].as_array().unwrap().iter().filter_map(|l| l["id"].as_str().map(str::to_owned));
    let parts = ["/virtualMachines/", "/networkInterfaces/", "/disks/"];
    all.filter(|id| parts.iter().any(|p| id.contains(p))).collect()
}

/// From a pool to machines, and to nodes where they boot.
async fn with_nodes(client: &kube::Client, boots: bool) -> Reached {
    let pools = kinds::POOL.api(client, NAMESPACE);
    let so = |kind: &str, reason: &str| {
        let (kind, reason) = (kind.to_owned(), reason.to_owned());
        move |o: Option<&DynamicObject>| {
            o.is_some_and(|o| {
                is_true(&o.data["status"], &kind)
                    || condition(&o.data["status"], &kind)["reason"] == reason.as_str()
            })
        }
    };
    if !boots {
        // It runs in Azure, and nobody is at home in it.
        until(pools, "outside", "machines", so("AllNodesHealthy", "NodeProvisioning")).await;
        return Reached::Answering;
    }
    until(pools, "outside", "nodes", so("AllNodesHealthy", "")).await;
    let nodes =
        Api::<Node>::all(guest(client).await.unwrap()).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(nodes.len(), 1);
    Reached::Joined
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

async fn walk(config: &str, cloud: &Cloud, dir: &Path, boots: bool) -> Reached {
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
    let keeping = Keeping {
        tenants: Tenants::all(),
        reach: Arc::new(Outside(client.clone())),
        clouds: Arc::new(Owner(cloud.client.clone())),
    };
    let ground = Ground {
        served,
        around,
        tenants: Tenants::all(),
        machines: Some(keeping),
        links: None,
        clock,
        random,
    };
    let operators = Operators::start(&ground, &client);
    let landing = Landing::make(cloud, dir, "outside", Flavour::Workload).await.unwrap();
    let release = cloud.release("4.20.1").unwrap();
    let outside = Sample::of(&landing, "outside", release);
    outside.create_in(&client).await.unwrap();
    let pool = serde_json::from_value(pool(&landing, release)).unwrap();
    kinds::POOL.api(&client, NAMESPACE).create(&Default::default(), &pool).await.unwrap();
    let plane = outside.plane();
    let there = |o: Option<&DynamicObject>| o.is_some();
    until(kinds::PLANE.api(&client, &plane), "outside", "made", there).await;
    until(crate::kit::STATEFUL_SET.api(&client, &plane), "etcd", "made", there).await;
    let mut reached = as_far_as_it_goes(&client, &plane).await;
    if reached == Reached::Answering {
        let spaces: Api<Namespace> = Api::all(guest(&client).await.unwrap());
        let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
        spaces.create(&Default::default(), &shop).await.unwrap();
        reached = with_nodes(&client, boots).await;
        assert!(
            machines(cloud).iter().any(|m| m.contains("/virtualMachines/outside-")),
            "{:?}",
            machines(cloud)
        );
    } else {
        let waits = |o: Option<&DynamicObject>| {
            o.is_some_and(|o| condition(&o.data["status"], "Ready")["reason"] == "WaitingForDependencies")
        };
        until(kinds::POOL.api(&client, NAMESPACE), "outside", "what it waits for", waits).await;
        assert_eq!(machines(cloud), Vec::<String>::new());
    }
    kinds::CLUSTER.api(&client, NAMESPACE).delete("outside", &Default::default()).await.unwrap();
    let gone = |o: Option<&DynamicObject>| o.is_none();
    until(kinds::CLUSTER.api(&client, NAMESPACE), "outside", "gone", gone).await;
    assert_eq!(machines(cloud), Vec::<String>::new(), "left in Azure");
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
    let reached = walk(&config, &cloud, dir.path(), false).await;
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
    let reached = walk(&config.to_string(), world.cloud(), world.dir(), true).await;
    assert_eq!(reached, Reached::Joined);
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
    let reached = walk(&config.to_string(), kit.world.cloud(), kit.world.dir(), true).await;
    assert!(matches!(&reached, Reached::Made { why } if why == "there are no nodes"), "{reached:?}");
    kit.world.stop().await;
}
