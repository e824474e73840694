//! Deployments and the sets below them.

use crate::world::{World, deployment, template};
use serde_json::json;

#[tokio::test]
async fn a_replica_set_keeps_its_number_and_adopts_what_matches() {
    let w = World::new().await;
    w.create("pods", json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stray", "namespace": "default", "labels": {"app": "r"}},
        "spec": {"containers": [{"name": "c", "image": "x"}]}})).await;
    for (kind, table, selector) in [
        ("ReplicaSet", "apps/replicasets", json!({"matchLabels": {"app": "r"}})),
        ("ReplicationController", "replicationcontrollers", json!({"app": "rc"})),
    ] {
        let (api, app) = if kind == "ReplicaSet" { ("apps/v1", "r") } else { ("v1", "rc") };
        w.create(
            table,
            json!({"apiVersion": api, "kind": kind, "metadata": {"name": app, "namespace": "default"},
            "spec": {"replicas": 3, "selector": selector, "template": template(app, "x")}}),
        )
        .await;
        w.settle().await;
        let of = || w.pods().iter().filter(|p| p["metadata"]["labels"]["app"] == app).count();
        assert_eq!(of(), 3);
        let set = w.get(table, &format!("default/{app}"));
        assert_eq!(set["status"]["replicas"], 3);
        assert_eq!(set["status"]["fullyLabeledReplicas"], 3);
        w.apply(table, &format!("default/{app}"), |s| s["spec"]["replicas"] = json!(1)).await;
        w.settle().await;
        assert_eq!(of(), 1);
    }
    assert!(
        w.find("pods", "default/stray").is_none()
            || w.get("pods", "default/stray")["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
    );
    let reasons = w.reasons("ReplicaSet");
    assert_eq!(reasons, ["SuccessfulCreate", "SuccessfulDelete"]);
}

#[tokio::test]
async fn a_deployment_makes_a_set_and_deletion_takes_all() {
    let w = World::new().await;
    w.create("apps/deployments", deployment("web", 3, "v1")).await;
    w.settle().await;
    assert_eq!(w.names("apps/replicasets").len(), 1);
    assert_eq!(w.pods().len(), 3);
    let d = w.get("apps/deployments", "default/web");
    assert_eq!(d["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(d["status"]["updatedReplicas"], 3);
    assert_eq!(d["status"]["unavailableReplicas"], 3);
    w.delete("apps/deployments", "default/web", "Foreground").await;
    w.settle().await;
    assert!(
        w.names("apps/deployments").is_empty()
            && w.names("apps/replicasets").is_empty()
            && w.pods().is_empty()
    );
}

fn reason(w: &World, kind: &str) -> String {
    let d = w.get("apps/deployments", "default/web");
    let c = d["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["type"] == kind)
        .cloned()
        .unwrap_or_default();
    format!("{} {}", c["status"].as_str().unwrap_or("-"), c["reason"].as_str().unwrap_or("-"))
}

#[tokio::test]
async fn rollouts_roll_pause_resume_and_go_back() {
    let w = World::new().await;
    w.node("n1").await;
    w.create("apps/deployments", deployment("web", 3, "v1")).await;
    w.settle().await;
    assert_eq!(reason(&w, "Available"), "True MinimumReplicasAvailable");
    assert_eq!(reason(&w, "Progressing"), "True NewReplicaSetAvailable");
    let first = w.names("apps/replicasets");

    let image = |v: &'static str| {
        move |d: &mut serde_json::Value| d["spec"]["template"]["spec"]["containers"][0]["image"] = json!(v)
    };
    w.apply("apps/deployments", "default/web", image("v2")).await;
    w.settle().await;
    let d = w.get("apps/deployments", "default/web");
    assert_eq!(d["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    assert_eq!(d["status"]["observedGeneration"], d["metadata"]["generation"]);
    assert_eq!(
        (&d["status"]["updatedReplicas"], &d["status"]["availableReplicas"], &d["status"]["replicas"]),
        (&json!(3), &json!(3), &json!(3))
    );
    assert!(d["status"]["unavailableReplicas"].is_null());
    assert_eq!(w.names("apps/replicasets").len(), 2);
    assert!(w.pods().iter().all(|p| p["spec"]["containers"][0]["image"] == "v2"));

    w.apply("apps/deployments", "default/web", |d| d["spec"]["paused"] = json!(true)).await;
    w.apply("apps/deployments", "default/web", image("v3")).await;
    w.settle().await;
    assert_eq!(reason(&w, "Progressing"), "Unknown DeploymentPaused");
    assert!(w.pods().iter().all(|p| p["spec"]["containers"][0]["image"] == "v2"));
    w.apply("apps/deployments", "default/web", |d| d["spec"]["paused"] = json!(false)).await;
    w.settle().await;
    assert!(w.pods().iter().all(|p| p["spec"]["containers"][0]["image"] == "v3"));

    w.apply("apps/deployments", "default/web", image("v1")).await;
    w.settle().await;
    assert_eq!(w.names("apps/replicasets").len(), 3, "going back uses the old set");
    let back = w.get("apps/replicasets", &format!("default/{}", first[0]));
    assert_eq!(back["spec"]["replicas"], 3);
    assert_eq!(back["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "4");
    assert_eq!(back["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(reason(&w, "Progressing"), "True NewReplicaSetAvailable");
    assert!(w.reasons("Deployment").contains(&"ScalingReplicaSet".to_owned()));
}

#[tokio::test]
async fn a_stuck_rollout_is_told_after_its_deadline_and_keeps_what_serves() {
    let w = World::new().await;
    w.node("n1").await;
    let mut d = deployment("web", 4, "v1");
    d["spec"]["progressDeadlineSeconds"] = json!(60);
    d["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
    w.create("apps/deployments", d).await;
    w.settle().await;
    w.apply("apps/deployments", "default/web", |d| {
        d["spec"]["template"]["metadata"]["annotations"] = json!({"test/run": "hold"});
    })
    .await;
    w.settle().await;
    let ready = || w.pods().iter().filter(|p| p["status"]["phase"] == "Running").count();
    assert_eq!((ready(), w.pods().len()), (3, 5));
    assert_eq!(reason(&w, "Progressing"), "True ReplicaSetUpdated");
    w.pass(61).await;
    assert_eq!(reason(&w, "Progressing"), "False ProgressDeadlineExceeded");
    assert_eq!(reason(&w, "Available"), "True MinimumReplicasAvailable");
}

#[tokio::test]
async fn min_ready_seconds_delay_availability() {
    let w = World::new().await;
    w.node("n1").await;
    let mut d = deployment("web", 2, "v1");
    d["spec"]["minReadySeconds"] = json!(30);
    w.create("apps/deployments", d).await;
    w.settle().await;
    assert_eq!(reason(&w, "Available"), "False MinimumReplicasUnavailable");
    w.pass(29).await;
    assert_eq!(reason(&w, "Available"), "False MinimumReplicasUnavailable");
    w.pass(2).await;
    assert_eq!(reason(&w, "Available"), "True MinimumReplicasAvailable");
}
