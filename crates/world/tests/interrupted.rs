//! The end of clusters that have machines: in the midst of something else, and after Azure was changed behind their backs.

use crate::kit::{DEADLINE, Kit, is_true, says};
use crate::remains::Remains;
use arm::ResourceId;
use azure::ops::{ResourceGroups, RoleAssignments, UserAssignedIdentities};
use futures::TryStreamExt;
use hypershift::kinds;
use serde_json::{Value, json};
use std::time::Duration;
use world::sample::Sample;
use world::{Flavour, Options};

const VERSION: &str = "4.20.1";
const NEXT: &str = "4.21.0";

async fn begun(kit: &Kit) -> Sample {
    let sample = kit.joinable(VERSION);
    kit.create(&sample).await;
    kit.put(&kinds::POOL, kit.pool("np", VERSION, 2)).await;
    sample
}

async fn with_nodes(kit: &Kit) -> Sample {
    let sample = begun(kit).await;
    kit.until_pool("np", "two nodes", |s| {
        is_true(s, "Ready") && is_true(s, "AllNodesHealthy") && s["replicas"] == 2
    })
    .await;
    sample
}

/// A cluster, its pool and its machines are gone, and what people gave for it can be given again.
async fn ended(kit: &Kit, sample: &Sample, before: &Remains) {
    kit.gone(&sample.name).await;
    Remains::of(kit).await.assert_clean_since(before, &[&sample.name]);
    kit.take_back(&sample.name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_machines_can_be_deleted_in_the_midst_of_anything() {
    let kit = Kit::start_with(
        Flavour::Managed,
        Options { versions: vec![VERSION.to_owned(), NEXT.to_owned()], ..Options::default() },
    )
    .await;
    let before = Remains::of(&kit).await;

    // While its machines are made.
    let sample = begun(&kit).await;
    let first = async {
        while kit.machines().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, first).await.unwrap();
    kit.delete(&sample.name).await;
    ended(&kit, &sample, &before).await;

    // While it is upgraded, its nodes are rolled and its authorities are replaced.
    let sample = with_nodes(&kit).await;
    let wish = json!({"spec": {"release": {"image": kit.world.cloud().release(NEXT).unwrap()}}});
    kit.patch(&sample.name, wish).await;
    let annotations = json!({"hypershift.openshift.io/rotate-authorities": "root-ca@now"});
    kit.patch(&sample.name, json!({"metadata": {"annotations": annotations}})).await;
    // A change that the pool rolls for, whatever its cluster's version is.
    kit.change_pool("np", json!({"spec": {"platform": {"azure": {"vmSize": "Standard_D8s_v5"}}}})).await;
    let under_way = |s: &Value| {
        s["controlPlaneVersion"]["history"][0]["version"] == NEXT
            && s["controlPlaneVersion"]["history"][0]["state"] == "Partial"
    };
    kit.until(&sample.name, "an upgrade", under_way).await;
    kit.delete(&sample.name).await;
    ended(&kit, &sample, &before).await;

    // After somebody has deleted its resource group, with machines and network.
    let sample = with_nodes(&kit).await;
    kit.world.cloud().client.arm::<ResourceGroups>().delete(&kit.landing.layout.main).await.unwrap();
    assert!(kit.machines().is_empty(), "they went with their group");
    kit.delete(&sample.name).await;
    ended(&kit, &sample, &before).await;
    kit.world.stop().await;
}

/// Nobody may delete its machines any more. What holds the deletion is said with Azure's words, and only whoever forces it
/// leaves them behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_that_nobody_may_delete_hold_a_deletion_until_it_is_forced() {
    let kit = Kit::start(Flavour::Workload).await;
    let before = Remains::of(&kit).await;
    let sample = with_nodes(&kit).await;
    let machines = kit.machines();
    let identities =
        ResourceId::group_scope(&kit.landing.subscription, &format!("{}-identities", kit.home())).unwrap();
    let azure = &kit.world.cloud().client;
    let all: Vec<_> = azure.arm::<UserAssignedIdentities>().list(&identities).try_collect().await.unwrap();
    let all: Vec<Value> = all.iter().map(|i| serde_json::to_value(i).unwrap()).collect();
    let who = all.iter().find(|i| i["name"].as_str().unwrap().contains("node-pool")).unwrap();
    // Tokens outlive their identity by an hour; rights end at once.
    let roles = azure.arm::<RoleAssignments>();
    let all: Vec<_> = roles.list(&kit.landing.layout.main).try_collect().await.unwrap();
    for role in all.iter().map(|r| serde_json::to_value(r).unwrap()) {
        if role["properties"]["principalId"] == who["properties"]["principalId"] {
            roles.delete(&ResourceId::parse(role["id"].as_str().unwrap()).unwrap()).await.unwrap();
        }
    }

    kit.delete(&sample.name).await;
    let words = ["NodePoolsDeleting", "NodePool clusters/np"];
    kit.until(&sample.name, "who holds it", |s| says(s, "DeletionBlocked", "False", &words)).await;
    let refused = async {
        loop {
            let api = kit.api(&kinds::AZURE_MACHINE, &sample.plane());
            let all = api.list(&Default::default()).await.unwrap().items;
            if all.iter().any(|m| m.data["status"].to_string().contains("AuthorizationFailed")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    if tokio::time::timeout(DEADLINE, refused).await.is_err() {
        kit.tell().await;
        panic!("no machine says that Azure refuses");
    }
    assert_eq!(kit.machines(), machines, "nobody could delete them");
    let force = json!({"metadata": {"annotations": {hypershift::delete::FORCE: "node-pools,machines"}}});
    kit.patch(&sample.name, force).await;
    kit.gone(&sample.name).await;

    assert_eq!(kit.machines(), machines, "they are left to whoever forced it");
    kit.world.cloud().client.arm::<ResourceGroups>().delete(&kit.landing.layout.main).await.unwrap();
    Remains::of(&kit).await.assert_clean_since(&before, &[&sample.name]);
    kit.world.stop().await;
}
