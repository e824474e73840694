//! The end, from wherever a cluster is; and nothing is left.

use crate::kit::{Kit, is_true, says};
use crate::remains::Remains;
use arm::ResourceId;
use azure::ops::{ResourceGroups, UserAssignedIdentities};
use futures::TryStreamExt;
use hypershift::kinds;
use kube::api::{Patch, PatchParams};
use reconcile::Kind;
use serde_json::{Value, json};
use world::Flavour;

/// Somebody else's mark on an object, which holds it.
const HOLD: &str = "example.com/hold";

async fn hold(kit: &Kit, kind: &Kind, namespace: &str, name: &str) {
    let api = kit.api(kind, namespace);
    let mut held = api.get_metadata(name).await.unwrap().metadata.finalizers.unwrap_or_default();
    held.push(HOLD.to_owned());
    let patch = json!({"metadata": {"finalizers": held}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

/// Deleted before anything could happen.
async fn fresh(kit: &Kit) {
    kit.sample("fresh").create(&kit.world).await.unwrap();
    kit.delete("fresh").await;
    kit.gone("fresh").await;
}

/// Deleted while it cannot begin, because Azure does not know one of its identities.
async fn unfit(kit: &Kit) {
    let mut unfit = kit.sample("unfit");
    let config = &mut unfit.cluster["spec"]["platform"]["azure"]["azureAuthenticationConfig"];
    config["workloadIdentities"]["disk"]["clientID"] = json!("00000000-1111-4222-8333-444444444444");
    unfit.create(&kit.world).await.unwrap();
    let words = ["PlatformCredentialsNotFound", "identity disk", "00000000-1111", "zaffre create iam azure"];
    kit.until("unfit", "a stranger", |s| says(s, "PlatformCredentialsFound", "False", &words)).await;
    kit.delete("unfit").await;
    kit.gone("unfit").await;
}

/// Deleted while its control plane comes up.
async fn half(kit: &Kit) {
    let half = kit.sample("half");
    half.create(&kit.world).await.unwrap();
    let ready = |o: &kube::core::DynamicObject| o.data["status"]["readyReplicas"] == 1;
    kit.until_object(&crate::kit::STATEFUL_SET, &half, "etcd", ready).await;
    let cluster = kit.api(&kinds::CLUSTER, "clusters").get("half").await.unwrap();
    assert!(!is_true(&cluster.data["status"], "Available"), "it is only half up");
    kit.delete("half").await;
    kit.gone("half").await;
}

/// Deleted while it is paused, and held by strangers at two layers: each is named, and forced by its own word.
async fn paused_and_held(kit: &Kit) {
    let kept = kit.sample("kept");
    kept.create(&kit.world).await.unwrap();
    kit.available("kept").await;
    kit.patch("kept", json!({"spec": {"pausedUntil": "true"}})).await;
    kit.until("kept", "to be paused", |s| {
        says(s, "ReconciliationActive", "False", &["ReconciliationPaused"])
    })
    .await;
    let plane = kept.plane();
    hold(kit, &kinds::PLANE, &plane, "kept").await;
    hold(kit, &kinds::SECRET, &plane, "pull-secret").await;
    kit.delete("kept").await;
    let force = async |word: &str| {
        let patch = json!({"metadata": {"annotations": {hypershift::delete::FORCE: word}}});
        kit.patch("kept", patch).await;
    };
    // Not overdue yet (that takes a quarter of an hour, and is shown by the operator's own tests), but named.
    let at = ["ControlPlaneDeleting", "HostedControlPlane clusters-kept/kept", "held by", HOLD];
    kit.until("kept", "its plane to be held", |s| says(s, "DeletionBlocked", "False", &at)).await;
    force("control-plane").await;
    let at = ["NamespaceDeleting", "Namespace clusters-kept", HOLD];
    let held = |s: &Value| says(s, "DeletionBlocked", "False", &at);
    kit.until("kept", "its namespace to be held", held).await;
    force("control-plane,namespace").await;
    kit.gone("kept").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_can_be_deleted_from_wherever_it_is() {
    let kit = Kit::start(Flavour::Workload).await;
    let before = Remains::of(&kit).await;
    kit.sample("lost").create(&kit.world).await.unwrap();
    tokio::join!(Box::pin(fresh(&kit)), Box::pin(unfit(&kit)), Box::pin(half(&kit)));
    Box::pin(paused_and_held(&kit)).await;

    // An identity becomes invalid, and the whole resource group goes, under a cluster that runs.
    kit.available("lost").await;
    let azure = &kit.world.cloud().client;
    let landing = &kit.landing;
    let identities = ResourceId::group_scope(&landing.subscription, "land-identities").unwrap();
    let arm = azure.arm::<UserAssignedIdentities>();
    let all: Vec<_> = arm.list(&identities).try_collect().await.unwrap();
    let all: Vec<Value> = all.iter().map(|i| serde_json::to_value(i).unwrap()).collect();
    let one = all.iter().find(|i| i["name"].as_str().unwrap().contains("cloud-provider")).unwrap();
    arm.delete(&ResourceId::parse(one["id"].as_str().unwrap()).unwrap()).await.unwrap();
    azure.arm::<ResourceGroups>().delete(&landing.layout.main).await.unwrap();
    kit.delete("lost").await;
    kit.gone("lost").await;

    let names = ["fresh", "unfit", "half", "kept", "lost"];
    Remains::of(&kit).await.assert_clean_since(&before, &names);
    kit.world.stop().await;
}
