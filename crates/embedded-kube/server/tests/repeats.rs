//! Applies that come again: remembered only as long as they would do the same.

use crate::api::*;
use serde_json::{Value, json};

fn config(value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": value}})
}

#[tokio::test]
async fn the_same_apply_again_changes_nothing_until_the_object_does() {
    let api = start().await;
    let at = |manager: &str| format!("{MAPS}/m?fieldManager={manager}");
    let made = api.patch(APPLY, &at("a"), config("1")).await.ok(201);
    for _ in 0..3 {
        assert_eq!(api.patch(APPLY, &at("a"), config("1")).await.ok(200), made);
    }
    // Somebody else's write ends it: now the same bytes conflict, and with force they write.
    let moved =
        api.patch(MERGE, &format!("{MAPS}/m?fieldManager=b"), json!({"data": {"k": "2"}})).await.ok(200);
    assert_ne!(rv(&moved), rv(&made));
    api.patch(APPLY, &at("a"), config("1")).await.fails(409, "Conflict");
    let back = api.patch(APPLY, &format!("{}&force=true", at("a")), config("1")).await.ok(200);
    assert_eq!(back["data"]["k"], "1");
    // Another manager saying the same is not a repetition: it becomes an owner, once.
    let shared = api.patch(APPLY, &at("c"), config("1")).await.ok(200);
    assert_ne!(rv(&shared), rv(&back));
    assert_eq!(api.patch(APPLY, &at("c"), config("1")).await.ok(200), shared);
    // Gone and applied again is a new object.
    api.delete(&format!("{MAPS}/m")).await.ok(200);
    let again = api.patch(APPLY, &at("c"), config("1")).await.ok(201);
    assert_ne!(again["metadata"]["uid"], shared["metadata"]["uid"]);
}

#[tokio::test]
async fn warnings_and_refusals_are_repeated_too() {
    let api = start().await;
    let mut odd = config("1");
    odd["nope"] = json!(1);
    let uri = format!("{MAPS}/w?fieldManager=a");
    api.patch(APPLY, &uri, odd.clone()).await;
    let answers = [api.patch(APPLY, &uri, odd.clone()).await, api.patch(APPLY, &uri, odd.clone()).await];
    assert_eq!(answers[0].warnings(), answers[1].warnings());
    assert_eq!(answers[0].code, answers[1].code);
    let strict = api.patch(APPLY, &format!("{uri}&fieldValidation=Strict"), odd).await;
    assert!(strict.code >= 400, "an undeclared field is refused: {}", strict.code);
}
