//! Stateful sets.

use crate::world::{World, template};
use serde_json::{Value, json};

fn set(replicas: i64, policy: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"},
        "spec": {"replicas": replicas, "serviceName": "db", "podManagementPolicy": policy, "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "v1"),
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}}}}]}})
}

fn without_claims(mut set: Value) -> Value {
    set["spec"].as_object_mut().unwrap().remove("volumeClaimTemplates");
    set
}

fn images(w: &World) -> Vec<String> {
    w.pods()
        .iter()
        .map(|p| {
            format!(
                "{}={}",
                p["metadata"]["name"].as_str().unwrap(),
                p["spec"]["containers"][0]["image"].as_str().unwrap()
            )
        })
        .collect()
}

#[tokio::test]
async fn one_after_the_other_up_and_down() {
    let w = World::new().await;
    let mut s = without_claims(set(3, "OrderedReady"));
    s["spec"]["ordinals"] = json!({"start": 2});
    w.create("apps/statefulsets", s).await;
    w.settle().await;
    assert_eq!(w.names("pods"), ["db-2"], "the next waits until this one is ready");
    w.node("n1").await;
    assert_eq!(w.names("pods"), ["db-2", "db-3", "db-4"]);
    let pod = w.get("pods", "default/db-3");
    assert_eq!(pod["spec"]["hostname"], "db-3");
    assert_eq!(pod["spec"]["subdomain"], "db");
    assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "3");
    let s = w.get("apps/statefulsets", "default/db");
    assert_eq!(
        (&s["status"]["readyReplicas"], &s["status"]["currentRevision"]),
        (&json!(3), &s["status"]["updateRevision"])
    );
    w.apply("apps/statefulsets", "default/db", |s| s["spec"]["replicas"] = json!(1)).await;
    w.settle().await;
    assert_eq!(w.names("pods"), ["db-2"]);
    assert_eq!(w.reasons("StatefulSet"), ["SuccessfulCreate", "SuccessfulDelete"]);
}

#[tokio::test]
async fn updates_go_from_the_last_down_to_the_partition() {
    let w = World::new().await;
    w.node("n1").await;
    w.create("apps/statefulsets", without_claims(set(3, "Parallel"))).await;
    w.settle().await;
    w.apply("apps/statefulsets", "default/db", |s| {
        s["spec"]["updateStrategy"]["rollingUpdate"] = json!({"partition": 2});
        s["spec"]["template"]["spec"]["containers"][0]["image"] = json!("v2");
    })
    .await;
    w.settle().await;
    assert_eq!(images(&w), ["db-0=v1", "db-1=v1", "db-2=v2"]);
    let s = w.get("apps/statefulsets", "default/db");
    assert_ne!(s["status"]["currentRevision"], s["status"]["updateRevision"]);
    assert_eq!((&s["status"]["updatedReplicas"], &s["status"]["currentReplicas"]), (&json!(1), &json!(2)));
    // Below the partition a lost pod comes back as it was.
    w.delete("pods", "default/db-0", "Background").await;
    w.settle().await;
    assert_eq!(images(&w), ["db-0=v1", "db-1=v1", "db-2=v2"]);
    w.apply("apps/statefulsets", "default/db", |s| {
        s["spec"]["updateStrategy"]["rollingUpdate"] = json!({"partition": 0})
    })
    .await;
    w.settle().await;
    assert_eq!(images(&w), ["db-0=v2", "db-1=v2", "db-2=v2"]);
    let s = w.get("apps/statefulsets", "default/db");
    assert_eq!(s["status"]["currentRevision"], s["status"]["updateRevision"]);
    assert_eq!(w.names("apps/controllerrevisions").len(), 2);
    w.apply("apps/statefulsets", "default/db", |s| {
        s["spec"]["template"]["spec"]["containers"][0]["image"] = json!("v1")
    })
    .await;
    w.settle().await;
    let revisions: Vec<i64> =
        w.list("apps/controllerrevisions").iter().map(|r| r["revision"].as_i64().unwrap()).collect();
    assert_eq!(revisions.len(), 2);
    assert!(revisions.contains(&3), "{revisions:?}");
}

#[tokio::test]
async fn claims_stay_or_go_as_the_policy_says() {
    let w = World::new().await;
    w.node("n1").await;
    let mut s = set(2, "Parallel");
    s["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenDeleted": "Retain", "whenScaled": "Delete"});
    w.create("apps/statefulsets", s).await;
    w.settle().await;
    assert_eq!(w.names("persistentvolumeclaims"), ["data-db-0", "data-db-1"]);
    let pod = w.get("pods", "default/db-1");
    assert!(
        pod["spec"]["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|v| v["persistentVolumeClaim"]["claimName"] == "data-db-1")
    );
    w.apply("apps/statefulsets", "default/db", |s| s["spec"]["replicas"] = json!(1)).await;
    w.settle().await;
    assert_eq!(w.names("persistentvolumeclaims"), ["data-db-0"]);
    w.delete("apps/statefulsets", "default/db", "Background").await;
    w.settle().await;
    assert!(w.pods().is_empty());
    assert_eq!(w.names("persistentvolumeclaims"), ["data-db-0"]);
}
