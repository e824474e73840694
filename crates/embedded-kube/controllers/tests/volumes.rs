//! Volumes and claims.

use crate::world::World;
use serde_json::{Value, json};

fn claim(name: &str, class: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "2Gi"}}}})
}

fn pod(name: &str, claim: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "x"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}})
}

#[tokio::test]
async fn the_default_class_makes_a_volume_where_the_pod_goes() {
    let w = World::new().await;
    w.node("n1").await;
    assert_eq!(w.names("storage.k8s.io/storageclasses"), ["standard"]);
    w.create("persistentvolumeclaims", claim("data", Value::Null)).await;
    w.settle().await;
    assert_eq!(w.get("persistentvolumeclaims", "default/data")["status"]["phase"], "Pending");
    assert_eq!(w.reasons("PersistentVolumeClaim"), ["WaitForFirstConsumer"]);
    w.create("pods", pod("p", "data")).await;
    w.settle().await;
    let c = w.get("persistentvolumeclaims", "default/data");
    assert_eq!(c["status"]["phase"], "Bound");
    assert_eq!(c["status"]["capacity"]["storage"], "2Gi");
    assert_eq!(c["metadata"]["annotations"]["volume.kubernetes.io/selected-node"], "n1");
    assert_eq!(w.get("pods", "default/p")["status"]["phase"], "Running");
    let volume = c["spec"]["volumeName"].as_str().unwrap().to_owned();
    assert_eq!(w.get("persistentvolumes", &volume)["status"]["phase"], "Bound");

    w.delete("persistentvolumeclaims", "default/data", "Background").await;
    w.settle().await;
    assert!(w.find("persistentvolumeclaims", "default/data").is_some(), "a pod uses it");
    w.delete("pods", "default/p", "Background").await;
    w.settle().await;
    assert!(w.find("persistentvolumeclaims", "default/data").is_none());
    assert!(w.names("persistentvolumes").is_empty(), "what was made on demand goes with its claim");
}

#[tokio::test]
async fn volumes_that_are_there_are_matched_and_retained() {
    let w = World::new().await;
    let volume = |name: &str, size: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "", "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/x"}}})
    };
    w.create("persistentvolumeclaims", claim("c", json!(""))).await;
    w.settle().await;
    assert_eq!(w.reasons("PersistentVolumeClaim"), ["FailedBinding"]);
    for (name, size) in [("large", "100Gi"), ("fits", "3Gi"), ("small", "1Gi")] {
        w.create("persistentvolumes", volume(name, size)).await;
    }
    w.settle().await;
    assert_eq!(w.get("persistentvolumeclaims", "default/c")["spec"]["volumeName"], "fits");
    let phase = |n: &str| w.get("persistentvolumes", n)["status"]["phase"].as_str().unwrap().to_owned();
    assert_eq!((phase("fits"), phase("large")), ("Bound".into(), "Available".into()));
    w.delete("persistentvolumes", "fits", "Background").await;
    w.settle().await;
    assert!(w.find("persistentvolumes", "fits").is_some(), "bound volumes are protected");
    w.delete("persistentvolumeclaims", "default/c", "Background").await;
    w.settle().await;
    assert!(w.find("persistentvolumes", "fits").is_none());
    w.create("persistentvolumeclaims", claim("c2", json!(""))).await;
    w.settle().await;
    w.delete("persistentvolumeclaims", "default/c2", "Background").await;
    w.settle().await;
    assert_eq!(phase("large"), "Released");
}
