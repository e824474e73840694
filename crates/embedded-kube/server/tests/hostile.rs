//! Bodies, headers and paths that mean harm.

use crate::api::*;
use ek_server::Config;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

#[tokio::test]
async fn bodies_have_a_limit() {
    let api = start().await;
    let mut m = map("a");
    m["data"]["big"] = json!("x".repeat(3 << 20));
    assert_eq!(
        api.post(MAPS, m).await.fails(413, "RequestEntityTooLarge"),
        "Request entity too large: limit is 3145728"
    );
    let mut m = map("a");
    m["data"]["big"] = json!("x".repeat(2 << 20));
    assert_eq!(api.post(MAPS, m).await.code, 422, "a ConfigMap holds at most 1 MiB");
}

#[tokio::test]
async fn malformed_bodies_are_bad_requests() {
    let api = start().await;
    let deep = format!("{}1{}", "{\"a\":".repeat(5000), "}".repeat(5000));
    let deep_yaml = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let bomb = "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n";
    let bodies: [(&str, &[u8]); 12] = [
        (JSON, b""),
        (JSON, b"{"),
        (JSON, b"[]"),
        (JSON, b"\"x\""),
        (JSON, b"{\"metadata\":3}"),
        (JSON, b"\xff\xfe{}"),
        (JSON, deep.as_bytes()),
        ("application/yaml", b"a: ["),
        ("application/yaml", b"\xff"),
        ("application/yaml", deep_yaml.as_bytes()),
        (PROTOBUF, b"k8s\0\xff\xff\xff"),
        (PROTOBUF, b"nonsense"),
    ];
    for (ct, body) in bodies {
        api.send("POST", MAPS, ct, body).await.fails(400, "BadRequest");
        api.send("PUT", &format!("{MAPS}/a"), ct, body).await.fails(400, "BadRequest");
    }
    let r = api.send("POST", MAPS, "application/yaml", bomb).await;
    assert!(r.code < 500, "{}", r.text());
    api.send("DELETE", &format!("{MAPS}/a"), JSON, "{").await.fails(500, "");
}

#[tokio::test]
async fn selectors_and_headers_are_bounded() {
    let api = start().await;
    let long = "a,".repeat(40_000);
    api.get(&format!("{MAPS}?labelSelector={}", &long[..60_000])).await.fails(400, "BadRequest");
    let nested = "(".repeat(5_000);
    api.get(&format!("{MAPS}?labelSelector=x%20in%20{nested}")).await.fails(400, "BadRequest");
    api.get(&format!("{MAPS}?fieldSelector={}", "metadata.name%3Da,".repeat(2000))).await;
    let accept = "application/x;q=0.1,".repeat(2000);
    assert_eq!(api.with("accept", &accept).get(MAPS).await.code, 406);
    api.get(&format!("{MAPS}?timeoutSeconds=99999999999999999999&watch=1")).await.fails(400, "BadRequest");
    api.get(&format!("{MAPS}?limit=-1")).await.ok(200);
    // A watch for longer than there is time.
    let w = api.open("GET", &format!("{MAPS}?watch=1&timeoutSeconds=9223372036854775807"), "", "").await;
    assert_eq!(w.status(), 200);
}

#[tokio::test]
async fn unknown_methods() {
    let api = start().await;
    for method in ["OPTIONS", "TRACE", "BREW"] {
        let r = api.send(method, MAPS, "", "").await;
        assert_eq!((r.code, r.body()["reason"].as_str()), (405, Some("MethodNotAllowed")), "{method}");
    }
    api.post(&format!("{MAPS}/a"), map("a")).await.fails(405, "MethodNotAllowed");
    api.put(MAPS, map("a")).await.fails(405, "MethodNotAllowed");
    api.patch(MERGE, MAPS, json!({})).await.fails(405, "MethodNotAllowed");
    api.post("/version", json!({})).await.fails(405, "MethodNotAllowed");
    assert_eq!(
        api.send("PUT", "/api/v1/componentstatuses/x", JSON, "{}").await.code / 100,
        4,
        "what only reads cannot be written"
    );
}

#[tokio::test]
async fn the_audit_log_has_one_line_for_each_request() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let api = start_with(Config { audit_log: Some(path.clone()), ..Config::memory() }).await;
    let ok = api.with("user-agent", "me/1").post(MAPS, map("a")).await;
    let id = ok.header("audit-id").to_owned();
    api.get(&format!("{MAPS}/none")).await.fails(404, "NotFound");
    api.as_user(ek_auth::User::new("alice", &[])).get("/api/v1/secrets").await.fails(403, "Forbidden");
    api.server.stop().await;
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(
        (&lines[0]["kind"], &lines[0]["apiVersion"], &lines[0]["level"]),
        (&json!("Event"), &json!("audit.k8s.io/v1"), &json!("Metadata"))
    );
    assert_eq!(
        (&lines[0]["auditID"], &lines[0]["verb"], &lines[0]["stage"]),
        (&json!(id), &json!("create"), &json!("ResponseComplete"))
    );
    assert_eq!(
        (&lines[0]["objectRef"]["resource"], &lines[0]["userAgent"]),
        (&json!("configmaps"), &json!("me/1"))
    );
    let codes: Vec<_> = lines.iter().map(|l| l["responseStatus"]["code"].as_i64().unwrap()).collect();
    assert_eq!(codes, [201, 404, 403]);
    assert_eq!(lines[2]["user"]["username"], "alice");
    assert_eq!(lines[2]["annotations"]["authorization.k8s.io/decision"], "forbid");
}

/// A server made once, and a runtime to ask it from.
fn server() -> (tokio::runtime::Runtime, Api) {
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let api = rt.block_on(async {
        let api = start_widgets().await;
        api.post(MAPS, map("a")).await.ok(201);
        api.post(WIDGETS, widget("a")).await.ok(201);
        api.post(DEPLOYMENTS, deployment("a")).await.ok(201);
        api
    });
    (rt, api)
}

/// The same 256 cases on every run.
fn runner() -> TestRunner {
    let config = ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// Whatever came in, the answer is a Status, an object or text, and never a server error.
fn sane(r: &Answer, what: &str) {
    // Upstream answers an apply of unknown fields with a code of its own fault, and so do we.
    let apply = r.code == 500 && r.message().starts_with("failed to create typed patch object");
    assert!(apply || r.code < 500 || r.code == 504 || r.code == 501, "{what}: {}", r.text());
    if r.header("content-type").starts_with("application/json") {
        assert!(serde_json::from_slice::<Value>(&r.bytes).is_ok(), "{what}: {}", r.text());
    }
    if r.code >= 400 && !r.header("content-type").starts_with("text/plain") {
        assert_eq!(r.body()["kind"], "Status", "{what}");
    }
}

#[test]
fn no_body_breaks_the_server() {
    let (rt, api) = server();
    let types = [JSON, "application/yaml", PROTOBUF, MERGE, JSON_PATCH, STRATEGIC, APPLY];
    let targets = [
        MAPS.to_owned(),
        format!("{MAPS}/a?fieldManager=m"),
        format!("{WIDGETS}/a?fieldManager=m"),
        format!("{DEPLOYMENTS}/a?fieldManager=m"),
        format!("{DEPLOYMENTS}/a/scale"),
        CRDS.to_owned(),
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(),
    ];
    let methods = ["POST", "PUT", "PATCH"];
    let body = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        // Something that parses, of random shape.
        shape().prop_map(|v| v.to_string().into_bytes()),
        shape().prop_map(|v| {
            let mut d = deployment("a");
            d["spec"]["template"]["spec"] = v.clone();
            d["metadata"]["labels"] = v;
            d.to_string().into_bytes()
        }),
        proptest::collection::vec(any::<u8>(), 0..100).prop_map(|v| [b"k8s\0".as_slice(), &v].concat()),
    ];
    let case = (0..types.len(), 0..targets.len(), 0..methods.len(), body);
    let mut runner = runner();
    runner
        .run(&case, |(t, u, m, body)| {
            let what =
                format!("{} {} {} {:?}", methods[m], targets[u], types[t], String::from_utf8_lossy(&body));
            sane(&rt.block_on(api.send(methods[m], &targets[u], types[t], body)), &what);
            Ok(())
        })
        .unwrap();
}

fn shape() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z$./~]{0,6}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop_oneof![
            "[a-z$]{1,5}",
            Just("metadata".to_owned()),
            Just("spec".to_owned()),
            Just("name".to_owned()),
            Just("containers".to_owned()),
            Just("managedFields".to_owned()),
            Just("op".to_owned()),
            Just("path".to_owned())
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key, inner), 0..5)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

#[test]
fn no_path_breaks_the_server() {
    let (rt, api) = server();
    let part = prop_oneof![
        "[a-zA-Z0-9._~%-]{0,8}",
        Just("api".to_owned()),
        Just("apis".to_owned()),
        Just("v1".to_owned()),
        Just("namespaces".to_owned()),
        Just("default".to_owned()),
        Just("configmaps".to_owned()),
        Just("a".to_owned()),
        Just("apps".to_owned()),
        Just("deployments".to_owned()),
        Just("scale".to_owned()),
        Just("status".to_owned()),
        Just("openapi".to_owned()),
        Just("v3".to_owned()),
        Just("%ff%00".to_owned())
    ];
    let name = prop_oneof![
        Just("limit"),
        Just("continue"),
        Just("resourceVersion"),
        Just("labelSelector"),
        Just("fieldSelector"),
        Just("resourceVersionMatch"),
        Just("includeObject"),
        Just("dryRun"),
        Just("pretty"),
        Just("x")
    ];
    let query = proptest::collection::vec((name, "[a-z0-9=!%(),.+-]{0,10}"), 0..4);
    let methods = ["GET", "POST", "DELETE", "HEAD", "PUT", "PATCH"];
    let case = (proptest::collection::vec(part, 0..8), query, 0..methods.len());
    let mut runner = runner();
    runner
        .run(&case, |(parts, query, m)| {
            let query: Vec<String> = query.iter().map(|(k, v)| format!("{k}={v}")).collect();
            let uri = format!("/{}?{}", parts.join("/"), query.join("&"));
            // Invalid escapes are no URI at all, and never reach the server.
            if uri.parse::<http::Uri>().is_ok() {
                sane(&rt.block_on(api.send(methods[m], &uri, "", "")), &uri);
            }
            Ok(())
        })
        .unwrap();
}
