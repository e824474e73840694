//! What bodies may be, and what answers look like.

use crate::api::*;
use serde_json::json;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

#[tokio::test]
async fn unknown_media_types() {
    let api = start_widgets().await;
    assert_eq!(
        api.with("accept", "text/html").get(MAPS).await.fails(406, "NotAcceptable"),
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"
    );
    assert_eq!(
        api.send("POST", MAPS, "text/plain", "x").await.fails(415, "UnsupportedMediaType"),
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"
    );
    assert_eq!(
        api.send("POST", WIDGETS, PROTOBUF, "x").await.fails(415, "UnsupportedMediaType"),
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml"
    );
    api.post(MAPS, map("a")).await.ok(201);
    assert_eq!(
        api.patch(JSON, &format!("{MAPS}/a"), json!({})).await.fails(415, "UnsupportedMediaType"),
        "415: Unsupported Media Type"
    );
    api.with("accept", "application/vnd.kubernetes.protobuf,application/json").get(MAPS).await.ok(200);
    api.with("accept", "*/*").get(MAPS).await.ok(200);
}

#[tokio::test]
async fn yaml_in_and_out() {
    let api = start().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yam\ndata:\n  a: \"1\"\n  b: |\n    two\n    lines\n";
    let r = api.with("accept", "application/yaml").send("POST", MAPS, "application/yaml", yaml).await;
    assert_eq!((r.code, r.header("content-type")), (201, "application/yaml"), "{}", r.text());
    let back: serde_json::Value = serde_saphyr::from_str(&r.text()).unwrap();
    assert_eq!(back["data"], json!({"a": "1", "b": "two\nlines\n"}));
    let list = api.with("accept", "application/yaml").get(MAPS).await;
    assert!(list.text().contains("kind: ConfigMapList"), "{}", list.text());
}

#[tokio::test]
async fn protobuf_out_for_those_who_take_nothing_else() {
    let api = start_widgets().await;
    api.post(MAPS, map("a")).await.ok(201);
    let proto = api.with("accept", PROTOBUF);
    let decoded = |r: Answer| {
        assert_eq!(r.header("content-type"), PROTOBUF, "{}", r.text());
        ek_proto::decode(&r.bytes).unwrap()
    };
    let one = decoded(proto.get(&format!("{MAPS}/a")).await);
    assert_eq!((&one["kind"], &one["data"]["k"]), (&json!("ConfigMap"), &json!("v")));
    let list = decoded(proto.get(MAPS).await);
    assert_eq!((&list["kind"], names(&list)), (&json!("ConfigMapList"), vec!["a".to_owned()]));
    let stream = proto.get(&format!("{MAPS}?watch=1&timeoutSeconds=1")).await;
    assert_eq!(stream.header("content-type"), "application/vnd.kubernetes.protobuf;stream=watch");
    let frame = &stream.bytes[..];
    let length = u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize;
    assert_eq!(frame.len(), length + 4, "one event, framed");
    assert_eq!(&frame[4..11], b"\x0a\x05ADDED");
    // Metadata has a protobuf form whatever it is the metadata of.
    let metadata = api.with(
        "accept",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
    );
    api.post(WIDGETS, widget("w")).await.ok(201);
    let list = decoded(metadata.get(WIDGETS).await);
    assert_eq!((&list["kind"], names(&list)), (&json!("PartialObjectMetadataList"), vec!["w".to_owned()]));
    proto.get(WIDGETS).await.fails(406, "NotAcceptable");
}

#[tokio::test]
async fn timeouts_are_durations() {
    let api = start().await;
    api.get(&format!("{MAPS}?timeout=1m30s")).await.ok(200);
    assert_eq!(
        api.get("/version?timeout=soon").await.fails(400, "BadRequest"),
        "invalid timeout specified in the request URL - time: invalid duration \"soon\""
    );
}

#[tokio::test]
async fn protobuf_bodies() {
    let api = start().await;
    let send = async |method: &str, uri: &str, v: serde_json::Value| {
        api.with("accept", "application/vnd.kubernetes.protobuf,application/json")
            .send(method, uri, PROTOBUF, ek_proto::encode(&v).unwrap())
            .await
    };
    let got = send("POST", MAPS, map("a")).await.ok(201);
    assert_eq!(got["data"]["k"], "v");
    let got = send("POST", DEPLOYMENTS, deployment("d")).await.ok(201);
    assert_eq!(got["spec"]["replicas"], 2);
    assert_eq!(got["spec"]["template"]["spec"]["containers"][0]["image"], "i");
    let mut next = got;
    next["spec"]["replicas"] = json!(7);
    assert_eq!(send("PUT", &format!("{DEPLOYMENTS}/d"), next).await.ok(200)["spec"]["replicas"], 7);
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"});
    let gone = send("DELETE", &format!("{DEPLOYMENTS}/d"), options).await.ok(200);
    assert_eq!(gone["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let review = json!({"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let r = send("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).await.ok(201);
    assert_eq!(r["status"]["allowed"], true);
    let token = json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"audiences": ["a"], "expirationSeconds": 600}});
    api.post("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "s"}})).await.ok(201);
    let r = send("POST", "/api/v1/namespaces/default/serviceaccounts/s/token", token).await.ok(201);
    assert_eq!(r["spec"]["audiences"], json!(["a"]));
}

#[tokio::test]
async fn tables() {
    let api = start_widgets().await;
    api.post(MAPS, map("a")).await.ok(201);
    let t = api.with("accept", TABLE);
    let list = t.get(MAPS).await.ok(200);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    let columns: Vec<_> =
        list["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Name", "Data", "Age"]);
    let row = &list["rows"][0];
    assert_eq!((&row["cells"][0], &row["cells"][1]), (&json!("a"), &json!(1)));
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(row["object"]["metadata"]["name"], "a");
    assert!(list["metadata"]["resourceVersion"].is_string());
    let one = t.get(&format!("{MAPS}/a?includeObject=None")).await.ok(200);
    assert_eq!(one["kind"], "Table");
    assert!(one["rows"][0]["object"].is_null());
    let full = t.get(&format!("{MAPS}?includeObject=Object")).await.ok(200);
    assert_eq!(
        (&full["rows"][0]["object"]["kind"], &full["rows"][0]["object"]["data"]["k"]),
        (&json!("ConfigMap"), &json!("v"))
    );
    t.get(&format!("{MAPS}?includeObject=Some")).await.fails(400, "BadRequest");
    let beta =
        api.with("accept", "application/json;as=Table;v=v1beta1;g=meta.k8s.io").get(MAPS).await.ok(200);
    assert_eq!(beta["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(beta["rows"][0]["object"]["apiVersion"], "meta.k8s.io/v1beta1");
    let other = api
        .with("accept", "application/json;as=Chart;v=v1;g=meta.k8s.io,application/json")
        .get(MAPS)
        .await
        .ok(200);
    assert_eq!(other["kind"], "ConfigMapList", "an unknown shape falls to the next clause");
    api.with("accept", "application/json;as=Chart;v=v1;g=meta.k8s.io")
        .get(MAPS)
        .await
        .fails(406, "NotAcceptable");
    api.post(WIDGETS, widget("w")).await.ok(201);
    let list = t.get(WIDGETS).await.ok(200);
    let columns: Vec<_> =
        list["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Name", "Size", "Age"]);
    assert_eq!(list["rows"][0]["cells"][1], 5);
}

#[tokio::test]
async fn metadata_only() {
    let api = start().await;
    api.post(MAPS, map("a")).await.ok(201);
    let p =
        api.with("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
    let one = p.get(&format!("{MAPS}/a")).await.ok(200);
    assert_eq!(
        (&one["kind"], &one["apiVersion"], &one["data"]),
        (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"), &json!(null))
    );
    let l = api.with("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    let list = l.get(MAPS).await.ok(200);
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (&json!("PartialObjectMetadataList"), &json!("PartialObjectMetadata"))
    );
}

#[tokio::test]
async fn shapes_hold_in_watches_too() {
    let api = start().await;
    api.post(MAPS, map("a")).await.ok(201);
    let mut w = api.with("accept", TABLE).watch(&format!("{MAPS}?watch=1")).await;
    api.post(MAPS, map("b")).await.ok(201);
    let e = w.take(2).await;
    assert_eq!(e[0]["object"]["kind"], "Table");
    assert_eq!(e[0]["object"]["columnDefinitions"].as_array().unwrap().len(), 3);
    assert_eq!(e[0]["object"]["rows"][0]["object"]["metadata"]["name"], "a");
    assert!(e[1]["object"]["columnDefinitions"].is_null(), "columns come once");
    assert_eq!(e[1]["object"]["rows"][0]["cells"][0], "b");
    let p = api.with("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let e = p.watch(&format!("{MAPS}?watch=1")).await.take(2).await;
    assert_eq!(
        (&e[0]["object"]["kind"], &e[0]["object"]["data"]),
        (&json!("PartialObjectMetadata"), &json!(null))
    );
}

#[tokio::test]
async fn pretty_and_head() {
    let api = start().await;
    api.post(MAPS, map("a")).await.ok(201);
    let r = api.get(&format!("{MAPS}/a?pretty=true")).await;
    assert!(r.text().starts_with("{\n  \"kind\": \"ConfigMap\","), "{}", r.text());
    let plain = api.get(&format!("{MAPS}/a")).await;
    assert!(plain.text().starts_with("{\"kind\":\"ConfigMap\","), "{}", plain.text());
    assert_eq!(plain.body(), r.body());
    assert_eq!(api.send("HEAD", &format!("{MAPS}/a"), "", "").await.code, 405);
    assert!(!plain.header("audit-id").is_empty());
    assert_eq!(plain.header("cache-control"), "no-cache, private");
}
