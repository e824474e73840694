//! Unknown and duplicate fields: ignored, warned of, or refused.

use crate::api::*;
use serde_json::json;

fn with_unknown() -> serde_json::Value {
    let mut d = deployment("d");
    d["spec"]["foo"] = json!(1);
    d["spec"]["template"]["spec"]["containers"][0]["bar"] = json!(true);
    d
}

#[tokio::test]
async fn unknown_fields_of_built_in_kinds() {
    let api = start().await;
    let uri = |v: &str| format!("{DEPLOYMENTS}?dryRun=All&fieldValidation={v}");
    let r = api.post(&uri("Warn"), with_unknown()).await;
    assert_eq!(
        r.warnings(),
        [
            "299 - \"unknown field \\\"spec.template.spec.containers[0].bar\\\"\"",
            "299 - \"unknown field \\\"spec.foo\\\"\""
        ]
    );
    assert!(r.ok(201)["spec"]["foo"].is_null(), "unknown fields are dropped");
    let r = api.post(&uri("Ignore"), with_unknown()).await;
    assert!(r.warnings().is_empty());
    assert!(r.ok(201)["spec"]["foo"].is_null());
    // Warn is what clients get that do not ask.
    assert_eq!(api.post(&format!("{DEPLOYMENTS}?dryRun=All"), with_unknown()).await.warnings().len(), 2);
    assert_eq!(
        api.post(&uri("Strict"), with_unknown()).await.fails(400, "BadRequest"),
        "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: unknown field \"spec.template.spec.containers[0].bar\", unknown field \"spec.foo\""
    );
    api.post(&uri("Loud"), deployment("d")).await.fails(422, "Invalid");
}

#[tokio::test]
async fn duplicate_fields() {
    let api = start().await;
    let body = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"k":"1"},"data":{"k":"2","k":"3"}}"#;
    let r = api.send("POST", &format!("{MAPS}?dryRun=All"), JSON, body).await;
    assert_eq!(
        r.warnings(),
        ["299 - \"duplicate field \\\"data\\\"\"", "299 - \"duplicate field \\\"data.k\\\"\""]
    );
    assert_eq!(r.ok(201)["data"]["k"], "3", "the last one wins");
    let r = api.send("POST", &format!("{MAPS}?fieldValidation=Strict"), JSON, body).await;
    assert!(
        r.fails(400, "BadRequest")
            .ends_with("strict decoding error: duplicate field \"data\", duplicate field \"data.k\"")
    );
    let yaml = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata: {k: '1'}\ndata: {k: '2'}\n";
    let r = api.send("POST", &format!("{MAPS}?fieldValidation=Strict"), "application/yaml", yaml).await;
    r.fails(400, "BadRequest");
}

#[tokio::test]
async fn unknown_fields_of_custom_resources() {
    let api = start_widgets().await;
    let mut w = widget("w");
    w["spec"]["nope"] = json!(1);
    w["metadata"]["strange"] = json!("x");
    let r = api.post(&format!("{WIDGETS}?fieldValidation=Strict"), w.clone()).await;
    assert_eq!(
        r.fails(400, "BadRequest"),
        "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"metadata.strange\", unknown field \"spec.nope\""
    );
    let r = api.post(&format!("{WIDGETS}?fieldValidation=Warn"), w).await;
    assert_eq!(r.warnings().len(), 2);
    let got = r.ok(201);
    assert!(got["spec"]["nope"].is_null() && got["metadata"]["strange"].is_null());
}

#[tokio::test]
async fn patches_are_checked_too() {
    let api = start_widgets().await;
    api.post(DEPLOYMENTS, deployment("d")).await.ok(201);
    api.post(WIDGETS, widget("w")).await.ok(201);
    let bad = json!({"spec": {"foo": 1}});
    for (ct, at) in [
        (MERGE, format!("{DEPLOYMENTS}/d")),
        (STRATEGIC, format!("{DEPLOYMENTS}/d")),
        (MERGE, format!("{WIDGETS}/w")),
    ] {
        let r = api.patch(ct, &format!("{at}?fieldValidation=Strict"), bad.clone()).await;
        assert!(r.body()["message"].as_str().unwrap().contains("unknown field \"spec.foo\""), "{}", r.text());
        let r = api.patch(ct, &format!("{at}?fieldValidation=Warn"), bad.clone()).await;
        assert_eq!(r.warnings(), ["299 - \"unknown field \\\"spec.foo\\\"\""], "{}", r.text());
    }
}

#[tokio::test]
async fn values_of_the_wrong_type_name_the_field() {
    let api = start().await;
    let mut d = deployment("d");
    d["spec"]["replicas"] = json!("three");
    let m = api.post(DEPLOYMENTS, d).await.fails(400, "BadRequest");
    assert!(m.starts_with("Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field"), "{m}");
    assert!(m.contains("replicas"), "{m}");
}

#[tokio::test]
async fn null_is_absent_for_built_in_kinds() {
    let api = start().await;
    let mut d = deployment("d");
    d["metadata"]["creationTimestamp"] = json!(null);
    d["metadata"]["labels"] = json!(null);
    d["spec"]["paused"] = json!(null);
    d["spec"]["template"]["spec"]["nodeName"] = json!(null);
    d["spec"]["template"]["spec"]["volumes"] = json!(null);
    d["spec"]["template"]["spec"]["nodeSelector"] = json!({});
    d["status"] = json!(null);
    let r = api.post(&format!("{DEPLOYMENTS}?fieldValidation=Strict"), d).await;
    let d = r.ok(201);
    for gone in
        ["/metadata/labels", "/spec/paused", "/spec/template/spec/nodeName", "/spec/template/spec/volumes"]
    {
        assert!(d.pointer(gone).is_none(), "{gone}");
    }
    let mut m = map("a");
    m["data"] = json!(null);
    assert!(api.post(MAPS, m).await.ok(201).get("data").is_none());
}

#[tokio::test]
async fn a_refused_patch_quotes_the_same_object_whoever_wrote_it() {
    let api = start_widgets().await;
    let mut said = Vec::new();
    for (name, body) in [
        (
            "wa",
            r#"{"spec":{"size":5},"metadata":{"name":"wa","labels":{"b":"2","a":"1"}},"kind":"Widget","apiVersion":"x.io/v1"}"#,
        ),
        (
            "wb",
            r#"{"apiVersion":"x.io/v1","kind":"Widget","metadata":{"labels":{"a":"1","b":"2"},"name":"wb"},"spec":{"size":5}}"#,
        ),
    ] {
        let made = api.send("POST", WIDGETS, JSON, body).await.ok(201);
        let uri = format!("{WIDGETS}/{name}?fieldValidation=Strict");
        let why = api.patch(MERGE, &uri, json!({"spec": {"nope": 1}})).await.fails(422, "Invalid");
        let mut why = why.replace(name, "<name>");
        for field in ["uid", "resourceVersion"] {
            why = why.replace(made["metadata"][field].as_str().unwrap(), field);
        }
        said.push(why);
    }
    assert_eq!(said[0], said[1]);
    assert!(said[0].contains(r#"\"labels\":{\"a\":\"1\",\"b\":\"2\"}"#), "{}", said[0]);
}
