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
        w.create(table, json!({"apiVersion": api, "kind": kind, "metadata": {"name": app, "namespace": "default"},
            "spec": {"replicas": 3, "selector": selector, "template": template(app, "x")}})).await;
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
    assert!(w.find("pods", "default/stray").is_none() || w.get("pods", "default/stray")["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet");
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
    assert!(w.names("apps/deployments").is_empty() && w.names("apps/replicasets").is_empty() && w.pods().is_empty());
}
