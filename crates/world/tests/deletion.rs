//! The end, from wherever a cluster is; and nothing is left.

use crate::kit::{Kit, is_true, says};
use crate::place::{Place, Reached};
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

async fn hold<P: Place>(kit: &Kit<P>, kind: &Kind, namespace: &str, name: &str) {
    let api = kit.api(kind, namespace);
    let mut held = api.get_metadata(name).await.unwrap().metadata.finalizers.unwrap_or_default();
    held.push(HOLD.to_owned());
    let patch = json!({"metadata": {"finalizers": held}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

/// Deleted before anything could happen.
async fn fresh<P: Place>(kit: &Kit<P>) {
    let fresh = kit.sample("fresh");
    kit.create(&fresh).await;
    kit.delete(&fresh.name).await;
    kit.gone(&fresh.name).await;
}

/// Deleted while it cannot begin, because Azure does not know one of its identities.
async fn unfit<P: Place>(kit: &Kit<P>) {
    let mut unfit = kit.sample("unfit");
    let config = &mut unfit.cluster["spec"]["platform"]["azure"]["azureAuthenticationConfig"];
    config["workloadIdentities"]["disk"]["clientID"] = json!("00000000-1111-4222-8333-444444444444");
    kit.create(&unfit).await;
    let words = ["PlatformCredentialsNotFound", "identity disk", "00000000-1111", "zaffre create iam azure"];
    kit.until(&unfit.name, "a stranger", |s| says(s, "PlatformCredentialsFound", "False", &words)).await;
    kit.delete(&unfit.name).await;
    kit.gone(&unfit.name).await;
}

/// Deleted while its control plane comes up.
async fn half<P: Place>(kit: &Kit<P>) {
    let half = kit.sample("half");
    kit.create(&half).await;
    let ready = |o: &kube::core::DynamicObject| o.data["status"]["readyReplicas"] == 1;
    kit.until_object(&crate::kit::STATEFUL_SET, &half, "etcd", ready).await;
    let cluster = kit.api(&kinds::CLUSTER, "clusters").get(&half.name).await.unwrap();
    assert!(!is_true(&cluster.data["status"], "Available"), "it is only half up");
    kit.delete(&half.name).await;
    kit.gone(&half.name).await;
}

/// Deleted while it is paused, and held by strangers at two layers: each is named, and forced by its own word.
async fn paused_and_held<P: Place>(kit: &Kit<P>) {
    let kept = kit.sample("kept");
    kit.create(&kept).await;
    kit.available(&kept.name).await;
    kit.patch(&kept.name, json!({"spec": {"pausedUntil": "true"}})).await;
    kit.until(&kept.name, "to be paused", |s| {
        says(s, "ReconciliationActive", "False", &["ReconciliationPaused"])
    })
    .await;
    let plane = kept.plane();
    hold(kit, &kinds::PLANE, &plane, &kept.name).await;
    hold(kit, &kinds::SECRET, &plane, "pull-secret").await;
    kit.delete(&kept.name).await;
    let force = async |word: &str| {
        let patch = json!({"metadata": {"annotations": {hypershift::delete::FORCE: word}}});
        kit.patch(&kept.name, patch).await;
    };
    // Not overdue yet (that takes a quarter of an hour, and is shown by the operator's own tests), but named.
    let what = format!("HostedControlPlane {plane}/{}", kept.name);
    let at = ["ControlPlaneDeleting", &what, "held by", HOLD];
    kit.until(&kept.name, "its plane to be held", |s| says(s, "DeletionBlocked", "False", &at)).await;
    force("control-plane").await;
    let what = format!("Namespace {plane}");
    let at = ["NamespaceDeleting", &what, HOLD];
    let held = |s: &Value| says(s, "DeletionBlocked", "False", &at);
    kit.until(&kept.name, "its namespace to be held", held).await;
    force("control-plane,namespace").await;
    kit.gone(&kept.name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_can_be_deleted_from_wherever_it_is() {
    let kit = Kit::start(Flavour::Workload).await;
    assert_eq!(from_everywhere(&kit).await, Reached::End);
    kit.world.stop().await;
}

pub async fn from_everywhere<P: Place>(kit: &Kit<P>) -> Reached {
    let before = Remains::of(kit).await;
    let lost = kit.sample("lost");
    kit.create(&lost).await;
    if let Some(stuck) = kit.stuck(&lost).await {
        // These two need no nodes.
        tokio::join!(Box::pin(fresh(kit)), Box::pin(unfit(kit)));
        let names = ["fresh", "unfit", "lost"].map(|n| kit.named(n));
        Remains::of(kit).await.assert_clean_since(&before, &names.each_ref().map(String::as_str));
        return stuck;
    }
    tokio::join!(Box::pin(fresh(kit)), Box::pin(unfit(kit)), Box::pin(half(kit)));
    Box::pin(paused_and_held(kit)).await;

    // An identity becomes invalid, and the whole resource group goes, under a cluster that runs.
    kit.available(&lost.name).await;
    let azure = &kit.cloud().client;
    let landing = &kit.landing;
    let identities =
        ResourceId::group_scope(&landing.subscription, &format!("{}-identities", kit.home())).unwrap();
    let arm = azure.arm::<UserAssignedIdentities>();
    let all: Vec<_> = arm.list(&identities).try_collect().await.unwrap();
    let all: Vec<Value> = all.iter().map(|i| serde_json::to_value(i).unwrap()).collect();
    let one = all.iter().find(|i| i["name"].as_str().unwrap().contains("cloud-provider")).unwrap();
    arm.delete(&ResourceId::parse(one["id"].as_str().unwrap()).unwrap()).await.unwrap();
    azure.arm::<ResourceGroups>().delete(&landing.layout.main).await.unwrap();
    kit.delete(&lost.name).await;
    kit.gone(&lost.name).await;

    let names = ["fresh", "unfit", "half", "kept", "lost"].map(|n| kit.named(n));
    Remains::of(kit).await.assert_clean_since(&before, &names.each_ref().map(String::as_str));
    Reached::End
}
