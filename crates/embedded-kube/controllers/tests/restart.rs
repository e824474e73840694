//! Controllers that begin in the middle.

use crate::world::{World, deployment};
use serde_json::json;

#[tokio::test]
async fn what_a_crash_left_half_done_is_finished() {
    let mut w = World::new().await;
    w.node("n1").await;
    w.create("apps/deployments", deployment("old", 3, "v1")).await;
    w.create("apps/deployments", deployment("kept", 2, "v1")).await;
    w.settle().await;
    // All of this happens while nobody looks.
    w.delete("apps/deployments", "default/old", "Background").await;
    w.apply("apps/deployments", "default/kept", |d| {
        d["spec"]["replicas"] = json!(4);
        d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("v2");
    })
    .await;
    w.create("pods", json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "x"}]}})).await;
    w.delete(
        "apps/replicasets",
        &format!("default/{}", w.names("apps/replicasets").iter().find(|n| n.starts_with("kept")).unwrap()),
        "Foreground",
    )
    .await;
    w.restart();
    w.settle().await;
    assert_eq!(w.get("apps/deployments", "default/kept")["status"]["availableReplicas"], 4);
    assert_eq!(w.get("pods", "default/alone")["status"]["phase"], "Running");
    assert_eq!(w.pods().len(), 5, "nothing of what was deleted is left");
    assert_eq!(w.names("apps/replicasets").len(), 1);
    let before = w.access.table(&crate::world::table("pods")).revision;
    w.restart();
    w.settle().await;
    assert_eq!(
        w.access.table(&crate::world::table("pods")).revision,
        before,
        "a start with nothing to do writes nothing"
    );
}
