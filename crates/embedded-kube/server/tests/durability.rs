//! What survives a restart.

use crate::api::*;
use crate::identity::{ACCOUNTS, token};
use ek_server::{ApiServer, Config};
use serde_json::json;

#[tokio::test]
async fn objects_keys_and_versions_survive() {
    let dir = tempfile::tempdir().unwrap();
    let api = start_with(Config::directory(dir.path())).await;
    api.post(CRDS, widget_crd()).await.ok(201);
    let made = api.post(MAPS, map("a")).await.ok(201);
    api.post(WIDGETS, widget("w")).await.ok(201);
    api.post(ACCOUNTS, json!({"metadata": {"name": "s"}})).await.ok(201);
    let bearer = token(&api, "s", json!({})).await;
    let ca = api.server.ca_pem().to_owned();
    let last = api.get(MAPS).await.ok(200);
    // One server per directory.
    let second = ApiServer::start(Config::directory(dir.path())).await.err().expect("refused");
    let text = second.to_string();
    assert!(text.contains("in use") || text.contains("lock"), "{text}");
    api.server.stop().await;
    drop(api);
    let api = start_with(Config::directory(dir.path())).await;
    assert_eq!(api.get(&format!("{MAPS}/a")).await.ok(200), made);
    assert_eq!(api.get(&format!("{WIDGETS}/w")).await.ok(200)["spec"]["size"], 5);
    assert_eq!(api.server.ca_pem(), ca);
    let r = api
        .post("/apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": {"token": bearer}}))
        .await
        .ok(201);
    assert_eq!(r["status"]["authenticated"], true);
    let again = api.get(MAPS).await.ok(200);
    assert_eq!(rv(&again), rv(&last), "a restart is no write");
    let mut w = api.watch_from(&rv(&again)).await;
    api.post(MAPS, map("b")).await.ok(201);
    assert_eq!(w.names(1).await, ["ADDED b"]);
    api.server.stop().await;
}

#[tokio::test]
async fn deletions_under_way_are_taken_up_again() {
    let dir = tempfile::tempdir().unwrap();
    let api = start_with(Config::directory(dir.path())).await;
    api.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.ok(201);
    let mut held = map("held");
    held["metadata"]["finalizers"] = json!(["x.io/hold"]);
    api.post("/api/v1/namespaces/n/configmaps", held).await.ok(201);
    api.delete("/api/v1/namespaces/n").await.ok(200);
    api.server.stop().await;
    drop(api);
    let api = start_with(Config::directory(dir.path())).await;
    let mut w = api.watch("/api/v1/namespaces?watch=1&fieldSelector=metadata.name%3Dn").await;
    api.until("/api/v1/namespaces/n/configmaps", "held", |_, o| {
        !o["metadata"]["deletionTimestamp"].is_null()
    })
    .await;
    api.patch(MERGE, "/api/v1/namespaces/n/configmaps/held", json!({"metadata": {"finalizers": null}}))
        .await
        .ok(200);
    while w.next().await.unwrap()["type"] != "DELETED" {}
    api.server.stop().await;
}
