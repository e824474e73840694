//! Upgrades that must not happen, one that is insisted on, and an end in the middle of it.

use crate::kit::{Kit, condition, is_true, says};
use crate::place::{Place, Reached};
use crate::remains::Remains;
use hypershift::kinds;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, Patch, PatchParams};
use reconcile::Kind;
use serde_json::json;
use world::sample::Sample;
use world::{Flavour, Options};

const OPERATOR: Kind = Kind::new("config.openshift.io", "v1", "ClusterOperator", "clusteroperators");

/// A part of the guest says that it must not be upgraded.
async fn object(admin: &kube::Client) {
    let status = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "kube-apiserver"},
        "status": {"conditions": [{"type": "Upgradeable", "status": "False", "reason": "AdminAckRequired",
            "message": "removed APIs are still used", "lastTransitionTime": "2026-11-16T00:00:00Z"}]}});
    let params = PatchParams::apply("kube-apiserver-operator").force();
    OPERATOR.api(admin, "").patch_status("kube-apiserver", &params, &Patch::Apply(&status)).await.unwrap();
}

/// The control plane is at what it was at, and well.
async fn unharmed<P: Place>(kit: &Kit<P>, up: &Sample, image: &str) {
    let plane = kit.api(&kinds::PLANE, &up.plane()).get(&up.name).await.unwrap();
    assert_eq!(plane.data["spec"]["releaseImage"], image);
    let cluster = kit.available(&up.name).await;
    assert_eq!(cluster.data["status"]["controlPlaneVersion"]["history"][0]["image"], image);
    let spaces: Api<Namespace> = Api::all(kit.admin(&up.name).await);
    spaces.get("shop").await.unwrap();
}

/// Releases that it goes through.
pub const VERSIONS: [&str; 4] = ["4.19.4", "4.20.1", "4.21.0", "4.21.1"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_cannot_be_is_refused_and_a_blocked_one_can_be_insisted_on() {
    let versions = VERSIONS.map(str::to_owned).into();
    let kit = Kit::start_with(Flavour::Workload, Options { versions, ..Options::default() }).await;
    assert_eq!(refused_blocked_forced(&kit).await, Reached::End);
    kit.world.stop().await;
}

pub async fn refused_blocked_forced<P: Place>(kit: &Kit<P>) -> Reached {
    let before = Remains::of(kit).await;
    let up = kit.sample_of("up", "4.20.1");
    let name = up.name.as_str();
    kit.create(&up).await;
    if let Some(stuck) = kit.stuck(&up).await {
        return stuck;
    }
    kit.available(name).await;
    let admin = kit.admin(name).await;
    let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    Api::<Namespace>::all(admin.clone()).create(&Default::default(), &shop).await.unwrap();
    let done = |s: &serde_json::Value| s["controlPlaneVersion"]["history"][0]["state"] == "Completed";
    kit.until(name, "4.20.1 to be complete", done).await;
    let cloud = kit.cloud();
    let (now, next) = (cloud.release("4.20.1").unwrap(), cloud.release("4.21.0").unwrap());
    let want = async |image: &str| kit.patch(name, json!({"spec": {"release": {"image": image}}})).await;

    // There is no such image.
    let nothing = format!("{}/openshift/release@sha256:{}", cloud.registry, "0".repeat(64));
    want(&nothing).await;
    kit.until(name, "no such image", |s| {
        says(s, "ValidReleaseImage", "False", &["InvalidImage", &nothing, "check the pull spec"])
            && says(s, "Progressing", "False", &["Blocked", "ValidReleaseImage"])
    })
    .await;
    unharmed(kit, &up, now).await;
    // Minors do not go back.
    want(cloud.release("4.19.4").unwrap()).await;
    kit.until(name, "no way back", |s| {
        says(
            s,
            "ValidReleaseImage",
            "False",
            &["InvalidImage", "4.19.4", "older than the 4.20.1", "4.20 or newer"],
        )
    })
    .await;
    unharmed(kit, &up, now).await;

    // The guest objects, and its word counts.
    object(&admin).await;
    kit.until(name, "the guest to object", |s| {
        says(s, "ClusterVersionUpgradeable", "False", &["AdminAckRequired", "removed APIs are still used"])
    })
    .await;
    want(next).await;
    let held = kit
        .until(name, "the upgrade to be blocked", |s| {
            says(
                s,
                "Progressing",
                "False",
                &["Blocked", "from 4.20.1 to 4.21.0", "removed APIs are still used"],
            ) && is_true(s, "ValidReleaseImage")
        })
        .await;
    unharmed(kit, &up, now).await;
    // What the message says to do is done, word for word.
    let message = condition(&held.data["status"], "Progressing")["message"].as_str().unwrap().to_owned();
    let command = message.split('`').nth(1).expect("a command").to_owned();
    let (key, value) = command.rsplit(' ').next().and_then(|a| a.split_once('=')).expect("an annotation");
    let annotate = format!("kubectl annotate hostedcluster -n clusters {name} --overwrite ");
    assert!(command.starts_with(&annotate), "{command}");
    kit.patch(name, json!({"metadata": {"annotations": {key: value}}})).await;
    kit.until(name, "the upgrade to begin", |s| {
        let newest = &s["controlPlaneVersion"]["history"][0];
        newest["version"] == "4.21.0" && newest["state"] == "Partial" && is_true(s, "Progressing")
    })
    .await;
    // New programs come up with the new release, until all are there, and what was written is.
    kit.until_object(&crate::kit::STATEFUL_SET, &up, "etcd", |o| {
        o.data["status"]["updatedReplicas"] == 1 && o.data.to_string().contains("/ocp/etcd@")
    })
    .await;
    kit.until(name, "4.21.0 to be complete", |s| {
        done(s) && s["controlPlaneVersion"]["history"][0]["version"] == "4.21.0"
    })
    .await;
    unharmed(kit, &up, next).await;
    // Another one begins, and the end comes in the middle of it.
    want(cloud.release("4.21.1").unwrap()).await;
    kit.until(name, "another upgrade to begin", |s| {
        s["controlPlaneVersion"]["history"][0]["state"] == "Partial"
    })
    .await;

    kit.delete(name).await;
    kit.gone(name).await;
    Remains::of(kit).await.assert_clean_since(&before, &[name]);
    Reached::End
}
