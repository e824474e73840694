//! Webhooks: mutating, validating, converting.

use crate::api::*;
use base64::Engine;
use ek_auth::pki::Authority;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use std::sync::Arc;

type Handler = dyn Fn(&str, &Value) -> Option<Value> + Send + Sync;

fn b64(s: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(s)
}

/// A webhook server; `None` from its handler means to never answer.
struct Hooks {
    port: u16,
    bundle: String,
    /// Path and request of every call.
    calls: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Hooks {
    async fn start(handler: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static) -> Hooks {
        let now = clock::system().now();
        let ca = Authority::generate("hooks", now).unwrap();
        let pair = ca.issue_server(&["localhost".to_owned()], &[], now).unwrap();
        let certs = vec![CertificateDer::from_pem_slice(pair.cert_pem.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(pair.key_pem.expose().as_bytes()).unwrap();
        let config =
            rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(certs, key).unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        // The name `localhost` may resolve to either family.
        let listener = tokio::net::TcpListener::bind("localhost:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let (seen, handler): (_, Arc<Handler>) = (calls.clone(), Arc::new(handler));
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, seen, handler) = (acceptor.clone(), seen.clone(), handler.clone());
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let service = hyper::service::service_fn(
                        move |req: http::Request<hyper::body::Incoming>| {
                            let (seen, handler) = (seen.clone(), handler.clone());
                            async move {
                                let path = req.uri().path().to_owned();
                                let body = req.into_body().collect().await.unwrap().to_bytes();
                                let review: Value = serde_json::from_slice(&body).unwrap();
                                seen.lock().push((path.clone(), review["request"].clone()));
                                let Some(mut response) = handler(&path, &review["request"]) else {
                                    return std::future::pending().await;
                                };
                                response["uid"] = review["request"]["uid"].clone();
                                let answer = json!({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response});
                                Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(
                                    bytes::Bytes::from(answer.to_string()),
                                )))
                            }
                        },
                    );
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(tls), service)
                        .await;
                });
            }
        });
        Hooks { port, bundle: b64(ca.cert_pem()), calls }
    }

    fn client(&self, path: &str) -> Value {
        json!({"url": format!("https://localhost:{}{path}", self.port), "caBundle": self.bundle})
    }

    /// A webhook on config maps at `path`, changed by `more`.
    fn hook(&self, path: &str, more: Value) -> Value {
        let mut h = json!({"name": format!("{}.x.io", path.trim_matches('/')), "clientConfig": self.client(path), "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [{"operations": ["CREATE", "UPDATE", "DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]});
        h.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        h
    }

    fn paths(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock()).into_iter().map(|(p, _)| p).collect()
    }
}

async fn configure(api: &Api, kind: &str, hooks: Vec<Value>) {
    let all = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations");
    let _ = api.delete(&format!("{all}/c")).await;
    api.post(&all, json!({"metadata": {"name": "c"}, "webhooks": hooks})).await.ok(201);
}

fn allow() -> Option<Value> {
    Some(json!({"allowed": true}))
}

fn patch(ops: Value) -> Option<Value> {
    Some(json!({"allowed": true, "patchType": "JSONPatch", "patch": b64(&ops.to_string())}))
}

#[tokio::test]
async fn mutating_webhooks_change_what_is_stored() {
    let api = start().await;
    let hooks = Hooks::start(|path, request| match path {
        "/label" => patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"hooked": "yes"}}, {"op": "add", "path": "/nonsense", "value": 1}])),
        "/data" if request["operation"] == "CREATE" => patch(json!([{"op": "add", "path": "/data/by", "value": "hook"}])),
        _ => allow(),
    })
    .await;
    configure(&api, "mutating", vec![hooks.hook("/label", json!({})), hooks.hook("/data", json!({}))]).await;
    let made = api.with("user-agent", "me/1").post(MAPS, map("a")).await.ok(201);
    assert_eq!((&made["metadata"]["labels"]["hooked"], &made["data"]["by"]), (&json!("yes"), &json!("hook")));
    assert!(made["nonsense"].is_null(), "what a hook adds is pruned too");
    let books = made["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!((books.len(), &books[0]["manager"]), (1, &json!("me")), "changes are the caller's");
    let calls = std::mem::take(&mut *hooks.calls.lock());
    let (_, r) = &calls[0];
    assert_eq!(r["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(r["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!(
        (&r["operation"], &r["name"], &r["namespace"], &r["dryRun"]),
        (&json!("CREATE"), &json!("a"), &json!("default"), &json!(false))
    );
    assert_eq!((&r["oldObject"], &r["userInfo"]["username"]), (&Value::Null, &json!("system:apiserver")));
    assert_eq!(
        calls[1].1["object"]["metadata"]["labels"]["hooked"], "yes",
        "the second sees what the first did"
    );
    api.delete(&format!("{MAPS}/a")).await.ok(200);
    let calls = std::mem::take(&mut *hooks.calls.lock());
    assert_eq!(calls.len(), 2, "deletions are shown to mutating hooks as well");
    assert_eq!((&calls[0].1["operation"], &calls[0].1["object"]), (&json!("DELETE"), &Value::Null));
    assert_eq!(calls[0].1["oldObject"]["metadata"]["name"], "a");
}

#[tokio::test]
async fn a_hook_may_ask_to_be_called_again() {
    let api = start().await;
    let hooks = Hooks::start(|path, request| match (path, request["object"]["data"]["late"].as_str()) {
        ("/late", None) => patch(json!([{"op": "add", "path": "/data/late", "value": "1"}])),
        _ => allow(),
    })
    .await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    configure(
        &api,
        "mutating",
        vec![hooks.hook("/early", again), hooks.hook("/once", json!({})), hooks.hook("/late", json!({}))],
    )
    .await;
    api.post(MAPS, map("a")).await.ok(201);
    assert_eq!(hooks.paths(), ["/early", "/once", "/late", "/early"]);
}

#[tokio::test]
async fn validating_webhooks_decide() {
    let api = start().await;
    let hooks = Hooks::start(|path, request| match path {
        "/deny" if request["operation"] == "DELETE" => Some(json!({"allowed": false, "status": {"code": 400, "message": "not today", "reason": "BadRequest"}})),
        "/deny" if request["name"] == "bad" => Some(json!({"allowed": false, "status": {"message": "no bad names"}})),
        "/deny" if request["name"] == "odd" => Some(json!({"allowed": false, "status": {"code": 418, "message": "m", "reason": "because I said so"}})),
        "/deny" if request["name"] == "mute" => Some(json!({"allowed": false})),
        "/warn" => Some(json!({"allowed": true, "warnings": ["be \"careful\""]})),
        _ => allow(),
    })
    .await;
    configure(&api, "validating", vec![hooks.hook("/deny", json!({})), hooks.hook("/warn", json!({}))]).await;
    let r = api.post(MAPS, map("fine")).await;
    assert_eq!(r.warnings(), ["299 - \"be \\\"careful\\\"\""]);
    r.ok(201);
    assert_eq!(
        api.post(MAPS, map("bad")).await.fails(400, ""),
        "admission webhook \"deny.x.io\" denied the request: no bad names"
    );
    api.post(MAPS, map("odd")).await.fails(418, "because I said so");
    assert_eq!(
        api.post(MAPS, map("mute")).await.fails(400, ""),
        "admission webhook \"deny.x.io\" denied the request without explanation"
    );
    assert_eq!(
        api.delete(&format!("{MAPS}/fine")).await.fails(400, "BadRequest"),
        "admission webhook \"deny.x.io\" denied the request: not today"
    );
    api.get(&format!("{MAPS}/fine")).await.ok(200);
}

#[tokio::test]
async fn broken_webhooks_fail_or_are_ignored() {
    let api = start().await;
    let hooks =
        Hooks::start(|path, _| if path == "/hang" { None } else { Some(json!({"allowed": "perhaps"})) })
            .await;
    let quick = |policy: &str| json!({"timeoutSeconds": 1, "failurePolicy": policy});
    configure(
        &api,
        "validating",
        vec![hooks.hook("/hang", quick("Ignore")), hooks.hook("/odd", quick("Ignore"))],
    )
    .await;
    api.post(MAPS, map("a")).await.ok(201);
    configure(&api, "validating", vec![hooks.hook("/hang", quick("Fail"))]).await;
    let m = api.post(MAPS, map("b")).await.fails(500, "InternalError");
    assert!(
        m.starts_with(
            "Internal error occurred: failed calling webhook \"hang.x.io\": failed to call webhook: "
        ),
        "{m}"
    );
    configure(&api, "validating", vec![hooks.hook("/odd", quick("Fail"))]).await;
    api.post(MAPS, map("b")).await.fails(500, "InternalError");
    // The way out stays open, whatever the hook matches.
    let all = json!({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]});
    configure(&api, "validating", vec![hooks.hook("/odd", all)]).await;
    api.post(MAPS, map("b")).await.fails(500, "InternalError");
    api.delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/c").await.ok(200);
    api.post(MAPS, map("b")).await.ok(201);
}

#[tokio::test]
async fn what_a_hook_is_not_asked() {
    let api = start().await;
    let hooks = Hooks::start(|_, _| allow()).await;
    let post = async |m: Value| {
        api.post(&format!("{MAPS}?dryRun=All"), m).await.ok(201);
        hooks.paths()
    };
    for (more, want) in [
        (json!({"matchConditions": [{"name": "c", "expression": "object.metadata.name == 'other'"}]}), 0),
        (
            json!({"matchConditions": [{"name": "c", "expression": "request.operation == 'CREATE' && object.metadata.name == 'a'"}]}),
            1,
        ),
        (json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}), 1),
        (json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}), 0),
        (json!({"objectSelector": {"matchLabels": {"l": "1"}}}), 1),
        (json!({"objectSelector": {"matchLabels": {"l": "2"}}}), 0),
        (
            json!({"rules": [{"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}),
            0,
        ),
        (
            json!({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}),
            1,
        ),
        (
            json!({"rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "scope": "Cluster"}]}),
            0,
        ),
        (
            json!({"rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}),
            0,
        ),
    ] {
        configure(&api, "validating", vec![hooks.hook("/v", more.clone())]).await;
        hooks.paths();
        assert_eq!(post(labelled("a", json!({"l": "1"}))).await.len(), want, "{more}");
    }
    // A hook with side effects cannot take part in a dry run.
    configure(&api, "validating", vec![hooks.hook("/v", json!({"sideEffects": "NoneOnDryRun"}))]).await;
    assert_eq!(post(map("a")).await.len(), 1);
    assert_eq!(hooks.calls.lock().len(), 0);
}

#[tokio::test]
async fn equivalent_versions_match_and_are_converted() {
    let api = start().await;
    let mut crd = widget_crd();
    let mut beta = crd["spec"]["versions"][0].clone();
    beta["name"] = json!("v1beta1");
    beta["storage"] = json!(false);
    crd["spec"]["versions"].as_array_mut().unwrap().push(beta);
    api.post(CRDS, crd).await.ok(201);
    let hooks =
        Hooks::start(|_, _| patch(json!([{"op": "replace", "path": "/spec/size", "value": 77}]))).await;
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["x.io"], "apiVersions": ["v1"], "resources": ["widgets"]}]);
    let old = "/apis/x.io/v1beta1/namespaces/default/widgets";
    let mut w = widget("a");
    w["apiVersion"] = json!("x.io/v1beta1");
    configure(&api, "mutating", vec![hooks.hook("/m", json!({"rules": rules, "matchPolicy": "Exact"}))])
        .await;
    assert_eq!(api.post(&format!("{old}?dryRun=All"), w.clone()).await.ok(201)["spec"]["size"], 5);
    configure(&api, "mutating", vec![hooks.hook("/m", json!({"rules": rules, "matchPolicy": "Equivalent"}))])
        .await;
    let made = api.post(old, w).await.ok(201);
    assert_eq!((&made["spec"]["size"], &made["apiVersion"]), (&json!(77), &json!("x.io/v1beta1")));
    let (_, r) = hooks.calls.lock().pop().unwrap();
    assert_eq!((&r["kind"]["version"], &r["requestKind"]["version"]), (&json!("v1"), &json!("v1beta1")));
    assert_eq!(r["object"]["apiVersion"], "x.io/v1");
}

#[tokio::test]
async fn conversion_webhooks() {
    let api = start().await;
    // v1 has spec.size, v2 has spec.width.
    let hooks = Hooks::start(|_, request| {
        let to = request["desiredAPIVersion"].as_str().unwrap();
        let convert = |o: &Value| {
            let mut o = o.clone();
            o["apiVersion"] = json!(to);
            let spec = o["spec"].as_object_mut().unwrap();
            let (from, into) = if to == "x.io/v2" { ("size", "width") } else { ("width", "size") };
            if let Some(v) = spec.remove(from) {
                spec.insert(into.into(), v);
            }
            o["metadata"]["labels"] = json!({"converted": "yes"});
            o
        };
        let objects: Vec<Value> = request["objects"].as_array().unwrap().iter().map(convert).collect();
        if objects.iter().any(|o| o["metadata"]["name"] == "broken") {
            return Some(json!({"result": {"status": "Failure", "message": "cannot convert this"}}));
        }
        Some(json!({"convertedObjects": objects, "result": {"status": "Success"}}))
    })
    .await;
    let mut crd = widget_crd();
    let version = |name: &str, field: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {field: {"type": "integer"}}}}}}})
    };
    crd["spec"]["versions"] = json!([version("v1", "size", true), version("v2", "width", false)]);
    crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": hooks.client("/convert")}});
    api.post(CRDS, crd).await.ok(201);
    let new = "/apis/x.io/v2/namespaces/default/widgets";
    let made = api.post(new, json!({"apiVersion": "x.io/v2", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"width": 9}})).await.ok(201);
    assert_eq!(made["spec"], json!({"width": 9}));
    let stored = api.get(&format!("{WIDGETS}/a")).await.ok(200);
    assert_eq!((&stored["spec"], &stored["apiVersion"]), (&json!({"size": 9}), &json!("x.io/v1")));
    api.post(WIDGETS, widget("b")).await.ok(201);
    hooks.paths();
    let list = api.get(new).await.ok(200);
    assert_eq!(hooks.paths().len(), 1, "a list is one call");
    assert_eq!(list["items"][1]["spec"], json!({"width": 5}));
    assert_eq!(api.get(new).await.ok(200), list);
    let b = api.get(&format!("{new}/b")).await.ok(200);
    assert_eq!(b["spec"], json!({"width": 5}));
    assert_eq!(hooks.paths().len(), 0, "the same state is not asked about again");
    let mut w = api.watch(&format!("{new}?watch=1")).await;
    assert_eq!(w.take(2).await[1]["object"]["spec"], json!({"width": 5}));
    api.patch(MERGE, &format!("{new}/b"), json!({"spec": {"width": 6}})).await.ok(200);
    assert_eq!(w.next().await.unwrap()["object"]["spec"], json!({"width": 6}));
    assert_eq!(api.get(&format!("{WIDGETS}/b")).await.ok(200)["spec"], json!({"size": 6}));
    hooks.paths();
    let again = api.get(new).await.ok(200);
    assert_eq!(again["items"][1]["spec"], json!({"width": 6}), "a new state is");
    assert!(hooks.paths().len() <= 1);
    api.post(WIDGETS, widget("broken")).await.ok(201);
    let m = api.get(&format!("{new}/broken")).await.fails(500, "InternalError");
    assert!(m.contains("cannot convert this"), "{m}");
}
