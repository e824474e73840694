//! Who is calling.

use crate::api::*;
use ek_auth::User;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use jiff::SignedDuration;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;

pub const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

type Sender = hyper::client::conn::http1::SendRequest<Full<bytes::Bytes>>;

/// A connection over TLS, with a client certificate or without.
async fn connect(api: &Api, to: SocketAddr, pair: Option<(&str, &str)>) -> Sender {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(api.server.ca_pem().as_bytes()).unwrap()).unwrap();
    let builder = rustls::ClientConfig::builder().with_root_certificates(roots);
    let config = match pair {
        Some((cert, key)) => {
            let cert = CertificateDer::from_pem_slice(cert.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![cert], key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    let tcp = tokio::net::TcpStream::connect(to).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let tls = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
    let (send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.unwrap();
    tokio::spawn(connection);
    send
}

async fn ask(
    send: &mut Sender,
    token: &str,
    method: &str,
    uri: &str,
) -> http::Response<hyper::body::Incoming> {
    let mut req = http::Request::builder().method(method).uri(uri).header("host", "localhost");
    if !token.is_empty() {
        req = req.header("authorization", format!("Bearer {token}"));
    }
    send.send_request(req.body(Full::new(bytes::Bytes::new())).unwrap()).await.unwrap()
}

async fn over_tls(
    api: &Api,
    to: SocketAddr,
    pair: Option<(&str, &str)>,
    token: &str,
    uri: &str,
) -> (u16, Value) {
    let r = ask(&mut connect(api, to, pair).await, token, "GET", uri).await;
    let code = r.status().as_u16();
    let body = r.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

pub async fn token(api: &Api, account: &str, spec: Value) -> String {
    let t = api.post(&format!("{ACCOUNTS}/{account}/token"), json!({"spec": spec})).await.ok(201);
    t["status"]["token"].as_str().unwrap().to_owned()
}

async fn review(api: &Api, token: &str, audiences: Value) -> Value {
    let spec = json!({"spec": {"token": token, "audiences": audiences}});
    api.post("/apis/authentication.k8s.io/v1/tokenreviews", spec).await.ok(201)["status"].clone()
}

#[tokio::test]
async fn certificates_and_tokens_over_the_wire() {
    use base64::Engine;
    let api = start().await;
    let listening = api.server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let to = listening.address;
    let config = api.server.kubeconfig(&format!("https://{to}")).unwrap();
    let data = |p: &str| {
        let b64 = config.pointer(p).unwrap().as_str().unwrap();
        String::from_utf8(base64::engine::general_purpose::STANDARD.decode(b64).unwrap()).unwrap()
    };
    let (cert, key) = (data("/users/0/user/client-certificate-data"), data("/users/0/user/client-key-data"));
    assert_eq!(data("/clusters/0/cluster/certificate-authority-data"), api.server.ca_pem());
    let (code, _) = over_tls(&api, to, Some((&cert, &key)), "", "/api/v1/namespaces").await;
    assert_eq!(code, 200, "the administrator's certificate has all rights");
    let (code, body) = over_tls(&api, to, None, "", "/api/v1/namespaces").await;
    assert_eq!(code, 403);
    assert_eq!(
        body["message"],
        "namespaces is forbidden: User \"system:anonymous\" cannot list resource \"namespaces\" in API group \"\" at the cluster scope"
    );
    for open in ["/version", "/livez", "/readyz", "/healthz"] {
        assert_eq!(over_tls(&api, to, None, "", open).await.0, 200, "{open}");
    }
    let (code, body) = over_tls(&api, to, None, "", "/metrics").await;
    assert_eq!(
        (code, body["message"].as_str().unwrap()),
        (403, "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"")
    );
    let (code, body) = over_tls(&api, to, None, "nonsense", "/version").await;
    assert_eq!(
        (code, &body["reason"], &body["message"]),
        (401, &json!("Unauthorized"), &json!("Unauthorized"))
    );
    api.post(ACCOUNTS, json!({"metadata": {"name": "s"}})).await.ok(201);
    let t = token(&api, "s", json!({})).await;
    assert_eq!(over_tls(&api, to, None, &t, "/apis").await.0, 200);
    let (code, body) = over_tls(&api, to, None, &t, "/api/v1/namespaces/default/pods").await;
    assert_eq!(code, 403);
    assert_eq!(
        body["message"],
        "pods is forbidden: User \"system:serviceaccount:default:s\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
    );
    listening.drain().await;
}

#[tokio::test]
async fn watches_are_flushed_and_end_when_the_server_drains() {
    let api = start().await;
    let listening = api.server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    api.post(ACCOUNTS, json!({"metadata": {"name": "s"}})).await.ok(201);
    api.post(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        json!({"metadata": {"name": "s"}, "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "default"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}}),
    )
    .await
    .ok(201);
    let bearer = token(&api, "s", json!({})).await;
    let mut send = connect(&api, listening.address, None).await;
    let head = ask(&mut send, &bearer, "HEAD", MAPS).await;
    assert_eq!(head.status(), 405);
    assert!(head.into_body().collect().await.unwrap().to_bytes().is_empty());
    let now = rv(&api.get(MAPS).await.ok(200));
    let uri = format!("{MAPS}?watch=1&resourceVersion={now}");
    let mut body = ask(&mut send, &bearer, "GET", &uri).await.into_body();
    for n in ["a", "b"] {
        api.post(MAPS, map(n)).await.ok(201);
        let frame =
            tokio::time::timeout(DEADLINE, body.frame()).await.expect("an event at once").unwrap().unwrap();
        let event: Value = serde_json::from_slice(frame.data_ref().unwrap()).unwrap();
        assert_eq!(event["object"]["metadata"]["name"], n);
    }
    listening.drain().await;
    assert!(tokio::time::timeout(DEADLINE, body.frame()).await.expect("an end").is_none());
}

#[tokio::test]
async fn token_requests_are_checked() {
    let (api, _) = start_manual().await;
    let sa = api.post(ACCOUNTS, json!({"metadata": {"name": "s"}})).await.ok(201);
    let at = format!("{ACCOUNTS}/s/token");
    let ask = async |spec: Value| api.post(&at, json!({"spec": spec})).await;
    let m = ask(json!({"expirationSeconds": 599})).await.fails(422, "Invalid");
    assert!(
        m.contains(
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"
        ),
        "{m}"
    );
    let r = ask(json!({"audiences": ["x"], "expirationSeconds": 600})).await.ok(201);
    assert_eq!(r["status"]["expirationTimestamp"], "2026-01-02T03:14:05Z");
    let claims = claims(r["status"]["token"].as_str().unwrap());
    assert_eq!(claims["aud"], json!(["x"]));
    assert_eq!(claims["iss"], "https://kubernetes.default.svc.cluster.local");
    assert_eq!(claims["sub"], "system:serviceaccount:default:s");
    assert_eq!(claims["kubernetes.io"]["serviceaccount"], json!({"name": "s", "uid": sa["metadata"]["uid"]}));
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 600);
    let bound =
        |uid: &str| json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": uid}});
    ask(bound("")).await.fails(404, "NotFound");
    let mut p = pod("p");
    p["spec"]["serviceAccountName"] = json!("s");
    api.post(PODS, p).await.ok(201);
    let m = ask(bound("other")).await.fails(409, "Conflict");
    assert!(
        m.contains("the UID in the bound object reference (other) does not match the UID in record"),
        "{m}"
    );
    ask(bound("")).await.ok(201);
    api.post(PODS, pod("q")).await.ok(201);
    let other = json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "q"}});
    ask(other).await.fails(400, "BadRequest");
    api.post(&format!("{ACCOUNTS}/none/token"), json!({})).await.fails(404, "NotFound");
}

fn claims(token: &str) -> Value {
    use base64::Engine;
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[tokio::test]
async fn tokens_end_with_time_and_with_what_they_are_bound_to() {
    let (api, clock) = start_manual().await;
    api.post(ACCOUNTS, json!({"metadata": {"name": "s"}})).await.ok(201);
    let mut p = pod("p");
    p["spec"]["serviceAccountName"] = json!("s");
    api.post(PODS, p).await.ok(201);
    let free = token(&api, "s", json!({"expirationSeconds": 3600})).await;
    let bound =
        token(&api, "s", json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}})).await;
    let elsewhere = token(&api, "s", json!({"audiences": ["vault"]})).await;
    let r = review(&api, &bound, json!([])).await;
    assert_eq!(
        (&r["authenticated"], &r["user"]["username"]),
        (&json!(true), &json!("system:serviceaccount:default:s"))
    );
    assert_eq!(
        r["user"]["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    assert_eq!(r["user"]["extra"]["authentication.kubernetes.io/pod-name"], json!(["p"]));
    assert!(review(&api, &elsewhere, json!([])).await["authenticated"] != true);
    let r = review(&api, &elsewhere, json!(["vault", "other"])).await;
    assert_eq!((&r["authenticated"], &r["audiences"]), (&json!(true), &json!(["vault"])));
    api.delete(&format!("{PODS}/p")).await.ok(200);
    let r = review(&api, &bound, json!([])).await;
    assert!(r["authenticated"] != true && r["error"].is_string(), "{r}");
    assert_eq!(review(&api, &free, json!([])).await["authenticated"], true);
    clock.advance(SignedDuration::from_secs(3700));
    assert!(review(&api, &free, json!([])).await["authenticated"] != true);
    let fresh = token(&api, "s", json!({})).await;
    api.delete(&format!("{ACCOUNTS}/s")).await.ok(200);
    assert!(review(&api, &fresh, json!([])).await["authenticated"] != true);
    assert!(review(&api, "a.b.c", json!([])).await["authenticated"] != true);
}

#[tokio::test]
async fn reviews_answer_what_the_server_would_do() {
    let api = start().await;
    let alice = api.as_user(User::new("alice", &["devs"]).authenticated());
    let me = alice.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await.ok(201);
    assert_eq!(
        me["status"]["userInfo"],
        json!({"username": "alice", "groups": ["devs", "system:authenticated"]})
    );
    let may = async |path: &str, spec: Value| {
        api.post(&format!("/apis/authorization.k8s.io/v1/{path}"), json!({"spec": spec})).await
    };
    let pods = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let r = may("subjectaccessreviews", json!({"user": "alice", "resourceAttributes": pods})).await.ok(201);
    assert_eq!(r["status"]["allowed"], false);
    let r = may(
        "subjectaccessreviews",
        json!({"groups": ["system:masters"], "user": "x", "resourceAttributes": pods}),
    )
    .await
    .ok(201);
    assert_eq!(r["status"]["allowed"], true);
    let r = may("subjectaccessreviews", json!({"user": "x", "groups": ["system:authenticated"], "nonResourceAttributes": {"verb": "get", "path": "/version"}})).await.ok(201);
    assert_eq!(r["status"]["allowed"], true);
    may("subjectaccessreviews", json!({"resourceAttributes": pods})).await.fails(422, "Invalid");
    may("subjectaccessreviews", json!({"user": "x"})).await.fails(422, "Invalid");
    let r = may(
        "namespaces/default/localsubjectaccessreviews",
        json!({"user": "alice", "resourceAttributes": pods}),
    )
    .await
    .ok(201);
    assert_eq!(r["status"]["allowed"], false);
    may(
        "namespaces/kube-system/localsubjectaccessreviews",
        json!({"user": "alice", "resourceAttributes": pods}),
    )
    .await
    .fails(422, "Invalid");
    let own = alice
        .post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            json!({"spec": {"resourceAttributes": pods}}),
        )
        .await
        .ok(201);
    assert_eq!(own["status"]["allowed"], false);
    let rules = alice
        .post(
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            json!({"spec": {"namespace": "default"}}),
        )
        .await
        .ok(201);
    let text = rules["status"].to_string();
    assert!(text.contains("selfsubjectaccessreviews") && text.contains("/version"), "{text}");
    assert_eq!(rules["status"]["incomplete"], false);
    api.get("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews").await.fails(405, "MethodNotAllowed");
}

#[tokio::test]
async fn impersonation_needs_permission_for_each_part() {
    let api = start().await;
    let whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let as_bob = api
        .with("impersonate-user", "bob")
        .with("impersonate-group", "g")
        .with("impersonate-uid", "7")
        .with("impersonate-extra-scopes", "a");
    let r = as_bob.post(whoami, json!({})).await.ok(201);
    assert_eq!(
        r["status"]["userInfo"],
        json!({"username": "bob", "groups": ["g", "system:authenticated"], "uid": "7", "extra": {"scopes": ["a"]}})
    );
    as_bob.get(MAPS).await.fails(403, "Forbidden");
    let sa =
        api.with("impersonate-user", "system:serviceaccount:default:s").post(whoami, json!({})).await.ok(201);
    assert_eq!(
        sa["status"]["userInfo"]["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    let alice = api.as_user(User::new("alice", &[]).authenticated());
    assert_eq!(
        alice.with("impersonate-user", "bob").get(MAPS).await.fails(403, "Forbidden"),
        "users \"bob\" is forbidden: User \"alice\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
    );
    let rules = json!([{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]}]);
    api.post(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        json!({"metadata": {"name": "imp"}, "rules": rules}),
    )
    .await
    .ok(201);
    api.post(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        json!({"metadata": {"name": "imp"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "imp"},
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}]}),
    )
    .await
    .ok(201);
    alice.with("impersonate-user", "bob").post(whoami, json!({})).await.ok(201);
    alice
        .with("impersonate-user", "bob")
        .with("impersonate-group", "system:masters")
        .get(MAPS)
        .await
        .fails(403, "Forbidden");
    let r = api.with("impersonate-group", "g").get(MAPS).await;
    assert!(r.code >= 400, "a group without a user");
}

#[tokio::test]
async fn the_issuer_introduces_itself() {
    let api = start().await;
    let r = api.get("/.well-known/openid-configuration").await;
    assert_eq!(r.header("content-type"), "application/json");
    let d = r.ok(200);
    assert_eq!(d["issuer"], "https://kubernetes.default.svc.cluster.local");
    assert_eq!(d["id_token_signing_alg_values_supported"], json!(["ES256"]));
    let r = api.get("/openid/v1/jwks").await;
    assert_eq!(r.header("content-type"), "application/jwk-set+json");
    let keys = r.ok(200);
    assert!(keys["keys"][0]["kid"].is_string() && keys["keys"][0]["d"].is_null());
}
