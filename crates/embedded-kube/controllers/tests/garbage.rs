//! The garbage collector, and what every namespace has.

use crate::world::World;
use serde_json::{Value, json};

async fn map(w: &World, name: &str, owners: &[(&Value, bool)]) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|(o, block)| json!({"apiVersion": o["apiVersion"], "kind": o["kind"], "name": o["metadata"]["name"], "uid": o["metadata"]["uid"], "blockOwnerDeletion": block}))
        .collect();
    w.create("configmaps", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", "ownerReferences": owners}})).await
}

fn there(w: &World, name: &str) -> bool {
    w.find("configmaps", &format!("default/{name}")).is_some()
}

#[tokio::test]
async fn in_the_background_dependents_follow() {
    let w = World::new().await;
    let a = map(&w, "a", &[]).await;
    let b = map(&w, "b", &[(&a, false)]).await;
    map(&w, "c", &[(&b, true)]).await;
    let other = map(&w, "other", &[]).await;
    map(&w, "shared", &[(&a, false), (&other, false)]).await;
    w.settle().await;
    w.delete("configmaps", "default/a", "Background").await;
    w.settle().await;
    assert!(!there(&w, "a") && !there(&w, "b") && !there(&w, "c"));
    let shared = w.get("configmaps", "default/shared");
    let owners = shared["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0]["name"], "other");
}

#[tokio::test]
async fn in_the_foreground_owners_wait_for_what_blocks() {
    let w = World::new().await;
    let a = map(&w, "a", &[]).await;
    let b = map(&w, "b", &[(&a, true)]).await;
    map(&w, "c", &[(&b, true)]).await;
    w.apply("configmaps", "default/c", |c| c["metadata"]["finalizers"] = json!(["test/hold"])).await;
    w.settle().await;
    w.delete("configmaps", "default/a", "Foreground").await;
    w.settle().await;
    assert!(there(&w, "a") && there(&w, "b") && there(&w, "c"));
    assert_eq!(w.get("configmaps", "default/b")["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    w.apply("configmaps", "default/c", |c| c["metadata"]["finalizers"] = json!([])).await;
    w.settle().await;
    assert!(!there(&w, "a") && !there(&w, "b") && !there(&w, "c"));
}

#[tokio::test]
async fn orphans_stay_without_the_reference() {
    let w = World::new().await;
    let a = map(&w, "a", &[]).await;
    map(&w, "b", &[(&a, true)]).await;
    w.settle().await;
    w.delete("configmaps", "default/a", "Orphan").await;
    w.settle().await;
    assert!(!there(&w, "a"));
    let b = w.get("configmaps", "default/b");
    assert!(b["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty), "{b}");
}

#[tokio::test]
async fn owners_that_never_were_or_were_replaced_do_not_hold() {
    let w = World::new().await;
    let ghost = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ghost", "uid": "11111111-1111-4111-8111-111111111111"}});
    map(&w, "b", &[(&ghost, false)]).await;
    // Same name, another uid.
    map(&w, "ghost", &[]).await;
    w.settle().await;
    assert!(!there(&w, "b") && there(&w, "ghost"));
}

#[tokio::test]
async fn circles_go_and_wrong_namespaces_are_told() {
    let w = World::new().await;
    let a = map(&w, "a", &[]).await;
    let b = map(&w, "b", &[(&a, true)]).await;
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": b["metadata"]["uid"], "blockOwnerDeletion": true}]);
    w.apply("configmaps", "default/a", |a| a["metadata"]["ownerReferences"] = owner.clone()).await;
    w.settle().await;
    w.delete("configmaps", "default/a", "Foreground").await;
    w.settle().await;
    assert!(!there(&w, "a") && !there(&w, "b"));

    let there_ = map(&w, "owner", &[]).await;
    let reference =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": there_["metadata"]["uid"]}]);
    w.create("configmaps", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "far", "namespace": "kube-public", "ownerReferences": reference}})).await;
    w.create("nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "wide", "ownerReferences": reference}})).await;
    w.settle().await;
    assert!(w.find("configmaps", "kube-public/far").is_none());
    assert!(w.find("nodes", "wide").is_some(), "what is wrong is not deleted");
    assert!(w.reasons("Node").contains(&"OwnerRefInvalidNamespace".to_owned()));
    assert!(w.reasons("ConfigMap").contains(&"OwnerRefInvalidNamespace".to_owned()));
}

#[tokio::test]
async fn namespaces_have_an_account_and_the_root_certificate() {
    let w = World::new().await;
    w.create("namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))
        .await;
    w.settle().await;
    assert!(w.find("serviceaccounts", "shop/default").is_some());
    let ca = || w.get("configmaps", "shop/kube-root-ca.crt")["data"]["ca.crt"].clone();
    assert_eq!(ca(), w.access.ca_pem());
    w.delete("serviceaccounts", "shop/default", "Background").await;
    w.delete("configmaps", "shop/kube-root-ca.crt", "Background").await;
    w.apply("configmaps", "default/kube-root-ca.crt", |m| m["data"]["ca.crt"] = json!("forged")).await;
    w.settle().await;
    assert!(w.find("serviceaccounts", "shop/default").is_some());
    assert_eq!(ca(), w.access.ca_pem());
    assert_eq!(w.get("configmaps", "default/kube-root-ca.crt")["data"]["ca.crt"], w.access.ca_pem());
}
