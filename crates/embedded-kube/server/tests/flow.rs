//! Flow-control objects: nothing here queues by them, but tools create, list and change them like any other.

use crate::api::*;
use serde_json::json;

const GROUP: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

#[tokio::test]
async fn every_cluster_has_the_mandatory_ones() {
    let api = start().await;
    for (plural, names) in
        [("prioritylevelconfigurations", ["exempt", "catch-all"]), ("flowschemas", ["exempt", "catch-all"])]
    {
        let list = api.get(&format!("{GROUP}/{plural}")).await.ok(200);
        let there: Vec<&str> =
            list["items"].as_array().unwrap().iter().filter_map(|i| i["metadata"]["name"].as_str()).collect();
        for n in names {
            assert!(there.contains(&n), "{plural} {n} among {there:?}");
        }
    }
}

#[tokio::test]
async fn flow_schemas_live_like_any_object() {
    let api = start().await;
    let at = format!("{GROUP}/flowschemas");
    let schema = |name: &str| {
        json!({"metadata": {"name": name, "labels": {"test": "flow"}}, "spec": {
            "matchingPrecedence": 10000, "priorityLevelConfiguration": {"name": "global-default"},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{"subjects": [{"kind": "User", "user": {"name": "example-e2e-non-existent-user"}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}]}})
    };
    let made = api.post(&at, schema("a")).await.ok(201);
    api.post(&at, schema("b")).await.ok(201);
    let got = api.get(&format!("{at}/a")).await.ok(200);
    assert_eq!(got, made);
    let labelled = api.get(&format!("{at}?labelSelector=test%3Dflow")).await.ok(200);
    assert_eq!(labelled["items"].as_array().unwrap().len(), 2);
    let patched =
        api.patch(MERGE, &format!("{at}/a"), json!({"spec": {"matchingPrecedence": 9999}})).await.ok(200);
    assert_eq!(
        (&patched["spec"]["matchingPrecedence"], &patched["metadata"]["generation"]),
        (&json!(9999), &json!(2))
    );
    // Status is an endpoint of its own, and the main one does not write it.
    let condition = json!({"type": "Dangling", "status": "False", "reason": "Found", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"conditions": [condition]}});
    let s = api.patch(MERGE, &format!("{at}/a/status"), status.clone()).await.ok(200);
    assert_eq!(s["status"]["conditions"][0]["type"], "Dangling");
    let s = api.patch(MERGE, &format!("{at}/b"), status).await.ok(200);
    assert!(s["status"]["conditions"].as_array().is_none_or(Vec::is_empty));
    let m = api
        .post(
            &at,
            json!({"metadata": {"name": "c"}, "spec": {"matchingPrecedence": 20000,
        "priorityLevelConfiguration": {"name": ""}}}),
        )
        .await
        .fails(422, "Invalid");
    assert!(
        m.contains("spec.matchingPrecedence") && m.contains("spec.priorityLevelConfiguration.name"),
        "{m}"
    );
    api.delete(&format!("{at}/a")).await.ok(200);
    api.delete(&format!("{at}?labelSelector=test%3Dflow")).await.ok(200);
    let left = api.get(&format!("{at}?labelSelector=test%3Dflow")).await.ok(200);
    assert!(left["items"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn priority_levels_are_filled_and_checked() {
    let api = start().await;
    let at = format!("{GROUP}/prioritylevelconfigurations");
    let level = json!({"metadata": {"name": "p"}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 2, "limitResponse": {"type": "Reject"}}}});
    let made = api.post(&at, level).await.ok(201);
    assert_eq!(made["spec"]["limited"]["lendablePercent"], 0);
    let m = api
        .post(&at, json!({"metadata": {"name": "q"}, "spec": {"type": "Limited"}}))
        .await
        .fails(422, "Invalid");
    assert!(m.contains("spec.limited"), "{m}");
    api.patch(MERGE, &format!("{at}/p"), json!({"spec": {"limited": {"nominalConcurrencyShares": 4}}}))
        .await
        .ok(200);
    api.delete(&format!("{at}/p")).await.ok(200);
}
