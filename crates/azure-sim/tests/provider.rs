//! A resource provider behind the simulator sees what it sees behind Resource Manager.

use crate::client::{Answer, ask};
use azure_sim::{AzureSim, Config, ProxiedProvider};
use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::TcpListener;

const NS: &str = "Microsoft.RedHatOpenShift";

#[derive(Clone, Debug)]
struct Seen {
    method: String,
    path: String,
    headers: HeaderMap,
    body: Value,
}

/// Keeps clusters by path; a delete takes two looks.
#[derive(Default)]
struct Provider {
    seen: Mutex<Vec<Seen>>,
    clusters: Mutex<BTreeMap<String, (Value, Option<u32>)>>,
    refuses_deletes: Mutex<bool>,
}

impl Provider {
    async fn start() -> (Arc<Provider>, String, tokio::task::JoinHandle<()>) {
        let provider = Arc::new(Provider::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (p, own) = (provider.clone(), url.clone());
        let task = tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let (p, own) = (p.clone(), own.clone());
                let service = service_fn(move |req: http::Request<hyper::body::Incoming>| {
                    let (p, own) = (p.clone(), own.clone());
                    async move {
                        let (head, body) = req.into_parts();
                        let body = body.collect().await.unwrap().to_bytes();
                        let seen = Seen {
                            method: head.method.to_string(),
                            path: head.uri.to_string(),
                            headers: head.headers,
                            body: serde_json::from_slice(&body).unwrap_or_default(),
                        };
                        p.seen.lock().push(seen.clone());
                        Ok::<_, Infallible>(p.answer(&seen, &own))
                    }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tcp), service),
                );
            }
        });
        (provider, url, task)
    }

    fn answer(&self, seen: &Seen, own: &str) -> Response<Full<Bytes>> {
        let path = seen.path.split('?').next().unwrap().to_lowercase();
        let reply = |status: u16, body: Value| {
            let b = Response::builder()
                .status(status)
                .header("content-type", "application/json")
                .header("connection", "x-secret")
                .header("x-secret", "1");
            (b, body)
        };
        let mut clusters = self.clusters.lock();
        let (builder, body) = match seen.method.as_str() {
            "PUT" if !path.contains("/providers/") => reply(200, json!({})),
            "PUT" if path.contains("/nodepools/") => reply(200, json!({"id": seen.path, "properties": {}})),
            "PUT" => {
                let mut body = seen.body.clone();
                body["location"] = json!("westus2");
                let new = clusters.insert(path, (body.clone(), None)).is_none();
                let (b, body) = reply(if new { 201 } else { 200 }, body);
                let status = format!(
                    "{own}/subscriptions/s/providers/{NS}/locations/westus2/hcpOperationStatuses/1?api-version=2024-06-10-preview"
                );
                (b.header("azure-asyncoperation", status).header("x-ms-request-id", "rp-request"), body)
            }
            "GET" if path.ends_with("hcpopenshiftclusters") => {
                reply(200, json!({"value": [], "nextLink": format!("{own}/next?$skipToken=1")}))
            }
            "GET" if path.contains("hcpoperationstatuses") => reply(200, json!({"status": "Succeeded"})),
            "GET" => match clusters.get_mut(&path) {
                Some((_, Some(0))) => {
                    clusters.remove(&path);
                    reply(404, json!({"error": {"code": "ResourceNotFound", "message": "gone"}}))
                }
                Some((body, left)) => {
                    if let Some(n) = left {
                        *n -= 1;
                    }
                    reply(200, body.clone())
                }
                None => reply(404, json!({"error": {"code": "ResourceNotFound", "message": "none"}})),
            },
            "DELETE" if *self.refuses_deletes.lock() => {
                reply(400, json!({"error": {"code": "No", "message": "no"}}))
            }
            "DELETE" => match clusters.get_mut(&path) {
                Some(c) => {
                    c.1 = Some(2);
                    reply(202, Value::Null)
                }
                None => reply(204, Value::Null),
            },
            _ => reply(200, json!({"kubeconfig": "x"})),
        };
        let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        builder.body(Full::new(bytes)).unwrap()
    }

    fn last(&self, method: &str, contains: &str) -> Option<Seen> {
        self.seen.lock().iter().rev().find(|s| s.method == method && s.path.contains(contains)).cloned()
    }
}

struct Lab {
    sim: AzureSim,
    provider: Arc<Provider>,
    bearer: String,
    group: String,
    task: tokio::task::JoinHandle<()>,
}

impl Lab {
    async fn new(data_dir: Option<std::path::PathBuf>) -> Lab {
        let (provider, url, task) = Provider::start().await;
        let proxied = vec![ProxiedProvider { namespace: NS.to_lowercase(), url: url.parse().unwrap() }];
        let sim = AzureSim::start(Config { proxied, data_dir, ..Config::local(5) }).await.unwrap();
        let bearer = format!("Bearer {}", sim.world().owner_token().await);
        let group = format!("/subscriptions/{}/resourceGroups/g", sim.creds().subscription_id);
        let lab = Lab { sim, provider, bearer, group, task };
        assert_eq!(lab.ask("PUT", &lab.group, Some(json!({"location": "westus2"}))).await.status, 201);
        lab
    }

    async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.ask_with(method, path, body, &[]).await
    }

    async fn ask_with(&self, method: &str, path: &str, body: Option<Value>, more: &[(&str, &str)]) -> Answer {
        let version = if path.contains(NS) { "2024-06-10-preview" } else { "2021-04-01" };
        let url = if path.contains('?') { path.to_owned() } else { format!("{path}?api-version={version}") };
        let url = if url.starts_with("https:") { url } else { format!("{}{url}", self.sim.arm_url()) };
        let mut headers = vec![("authorization", self.bearer.as_str()), ("content-type", "application/json")];
        headers.extend_from_slice(more);
        ask(self.sim.ca_pem(), method, &url, &headers, body.map_or_else(Bytes::new, |b| b.to_string().into()))
            .await
    }

    fn cluster(&self) -> String {
        format!("{}/providers/{NS}/hcpOpenShiftClusters/c", self.group)
    }

    async fn until(&self, what: impl AsyncFn() -> bool) {
        let wait = async {
            while !what().await {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), wait)
            .await
            .expect("it did not happen in time");
    }
}

#[tokio::test]
async fn a_provider_sees_what_resource_manager_says() {
    let lab = Lab::new(None).await;
    let identity = format!("{}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i", lab.group);
    let body = json!({
        "location": "ignored", "tags": {"a": "b"}, "properties": {},
        "identity": {"type": "UserAssigned", "userAssignedIdentities": {identity.as_str(): {}}},
    });
    let early = lab.ask("PUT", &lab.cluster(), Some(body.clone())).await;
    assert_eq!(early.json()["error"]["code"], "FailedIdentityOperation");
    let made = lab
        .ask("PUT", &format!("{identity}?api-version=2024-11-30"), Some(json!({"location": "westus2"})))
        .await;
    assert_eq!(made.status, 201);
    let smuggled = [
        ("x-ms-client-object-id", "somebody"),
        ("x-ms-home-tenant-id", "elsewhere"),
        ("x-ms-arm-resource-system-data", "{\"createdBy\":\"me\"}"),
        ("x-ms-client-request-id", "request-1"),
        ("x-ms-correlation-request-id", "correlation-1"),
        ("referer", "https://evil.test"),
    ];
    let made = lab.ask_with("PUT", &lab.cluster(), Some(body), &smuggled).await;
    assert_eq!(made.status, 201);
    let creds = lab.sim.creds();
    // The subscription was announced before.
    let announced = lab.provider.last("PUT", "api-version=2.0").unwrap();
    assert!(announced.path.starts_with(&format!("/subscriptions/{}?", creds.subscription_id)));
    assert_eq!(announced.body["state"], "Registered");
    assert_eq!(announced.body["properties"]["tenantId"], creds.tenant_id.as_str());
    assert!(announced.body["registrationDate"].as_str().unwrap().ends_with("GMT"));

    let seen = lab.provider.last("PUT", "hcpOpenShiftClusters").unwrap();
    let header = |n: &str| seen.headers.get(n).map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default();
    let object = lab.sim.world().owner_object();
    assert_eq!(seen.path, format!("{}?api-version=2024-06-10-preview", lab.cluster()));
    assert_eq!(header("x-ms-client-object-id"), object);
    assert_eq!(header("x-ms-client-principal-id"), object);
    assert_eq!(header("x-ms-client-principal-name"), creds.client_id);
    assert_eq!(header("x-ms-home-tenant-id"), creds.tenant_id);
    assert_eq!(header("x-ms-client-tenant-id"), creds.tenant_id);
    assert_eq!(header("x-ms-client-request-id"), "request-1");
    assert_eq!(
        header("referer"),
        format!("{}{}?api-version=2024-06-10-preview", lab.sim.arm_url(), lab.cluster())
    );
    assert_eq!(header("authorization"), "");
    assert!(header("x-ms-identity-url").starts_with(&lab.sim.arm_url()), "{}", header("x-ms-identity-url"));
    assert_eq!(header("x-ms-identity-principal-id"), "");
    let data: Value = serde_json::from_str(&header("x-ms-arm-resource-system-data")).unwrap();
    assert_eq!(
        (data["createdBy"].as_str(), data["createdByType"].as_str()),
        (Some(creds.client_id.as_str()), Some("Application"))
    );
    assert_eq!(header("content-type"), "application/json");

    // The answer leads back through us, without what was of the connection only.
    let operation = made.header("azure-asyncoperation").unwrap().to_owned();
    assert!(operation.starts_with(&lab.sim.arm_url()), "{operation}");
    assert_eq!(made.header("x-ms-request-id"), Some("rp-request"));
    assert_eq!(made.header("x-secret"), None);
    let operation =
        operation.replace("/subscriptions/s/", &format!("/subscriptions/{}/", creds.subscription_id));
    assert_eq!(lab.ask("GET", &operation, None).await.json()["status"], "Succeeded");
    let list =
        lab.ask("GET", &format!("{}/providers/{NS}/hcpOpenShiftClusters", lab.group), None).await.json();
    assert_eq!(list["nextLink"], format!("{}/next?$skipToken=1", lab.sim.arm_url()));
    // Actions go through with their verbs; errors say that they are the provider's.
    let action = lab.ask("POST", &format!("{}/requestAdminCredential", lab.cluster()), Some(json!({}))).await;
    assert_eq!(action.json()["kubeconfig"], "x");
    let lost = lab.ask("GET", &format!("{}x", lab.cluster()), None).await;
    assert_eq!((lost.status, lost.header("x-ms-failure-cause")), (404, Some("service")));
    // An update keeps who made it, and when.
    lab.ask("PUT", &lab.cluster(), Some(json!({"properties": {}}))).await;
    let second = lab.provider.last("PUT", "hcpOpenShiftClusters").unwrap();
    let again: Value =
        serde_json::from_str(second.headers["x-ms-arm-resource-system-data"].to_str().unwrap()).unwrap();
    assert_eq!(again["createdAt"], data["createdAt"]);
    let journal = lab.sim.world().journal();
    assert!(journal.iter().any(|e| e.action.as_deref()
        == Some("Microsoft.RedHatOpenShift/hcpOpenShiftClusters/requestAdminCredential/action")));
    lab.task.abort();
}

#[tokio::test]
async fn the_gate_stands_before_the_provider() {
    let lab = Lab::new(None).await;
    let count = || lab.provider.seen.lock().iter().filter(|s| s.path.contains("/providers/")).count();
    let nowhere = format!("{}x/providers/{NS}/hcpOpenShiftClusters/c", lab.group);
    assert_eq!(
        lab.ask("PUT", &nowhere, Some(json!({}))).await.json()["error"]["code"],
        "ResourceGroupNotFound"
    );
    let (client, object) = lab.sim.world().add_app("reader", "secret", Vec::new());
    lab.sim.world().assign(&object, "acdd72a7-3385-48ef-bd42-f606fba81ae7", &lab.group);
    let reader = format!("Bearer {}", lab.sim.world().token_for(&client, "secret").await);
    let url = format!("{}{}?api-version=2024-06-10-preview", lab.sim.arm_url(), lab.cluster());
    let refused = ask(lab.sim.ca_pem(), "PUT", &url, &[("authorization", &reader)], "{}").await;
    assert_eq!(refused.json()["error"]["code"], "AuthorizationFailed");
    let lock = format!("{}/providers/Microsoft.Authorization/locks/l?api-version=2020-05-01", lab.group);
    lab.ask("PUT", &lock, Some(json!({"properties": {"level": "CanNotDelete"}}))).await;
    assert_eq!(lab.ask("DELETE", &lab.cluster(), None).await.json()["error"]["code"], "ScopeLocked");
    assert_eq!(lab.ask("DELETE", &lock, None).await.status, 200);
    let providers = format!("/subscriptions/{}/providers/{NS}", lab.sim.creds().subscription_id);
    assert_eq!(
        lab.ask("POST", &format!("{providers}/unregister?api-version=2021-04-01"), None).await.status,
        200
    );
    lab.until(async || lab.provider.last("PUT", "2.0").is_some_and(|s| s.body["state"] == "Unregistered"))
        .await;
    assert_eq!(
        lab.ask("PUT", &lab.cluster(), Some(json!({}))).await.json()["error"]["code"],
        "MissingSubscriptionRegistration"
    );
    assert_eq!(count(), 0, "nothing came through");
    assert_eq!(
        lab.ask("POST", &format!("{providers}/register?api-version=2021-04-01"), None).await.status,
        200
    );
    lab.until(async || lab.provider.last("PUT", "2.0").is_some_and(|s| s.body["state"] == "Registered"))
        .await;
    assert_eq!(lab.ask("PUT", &lab.cluster(), Some(json!({}))).await.status, 201);
    // Down: said clearly, and by whom.
    lab.task.abort();
    lab.until(async || lab.ask("GET", &lab.cluster(), None).await.status == 502).await;
    let down = lab.ask("GET", &lab.cluster(), None).await;
    assert_eq!(down.json()["error"]["code"], "BadGatewayConnection");
    assert_eq!(down.header("x-ms-failure-cause"), Some("gateway"));
}

#[tokio::test]
async fn what_providers_hold_is_listed_and_goes_with_its_group() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::new(Some(dir.path().join("data"))).await;
    let listed = async || {
        let url = format!("{}/resources", lab.group);
        lab.ask("GET", &url, None).await.json()["value"].as_array().unwrap().len()
    };
    let put = async || {
        lab.ask("PUT", &lab.cluster(), Some(json!({"tags": {"a": "b"}, "properties": {}}))).await.status
    };
    assert_eq!(put().await, 201);
    // A proxy resource, without a location, is the provider's own affair.
    assert_eq!(lab.ask("PUT", &format!("{}/nodePools/n", lab.cluster()), Some(json!({}))).await.status, 200);
    assert_eq!(listed().await, 1);
    let filtered = format!("{}/resources?api-version=2021-04-01&$filter=tagName%20eq%20'a'", lab.group);
    let shown = lab.ask("GET", &filtered, None).await.json();
    assert_eq!(shown["value"][0]["type"], format!("{NS}/hcpOpenShiftClusters"));
    assert_eq!(shown["value"][0]["location"], "westus2");
    // A delete is forgotten when it is over.
    assert_eq!(lab.ask("DELETE", &lab.cluster(), None).await.status, 202);
    lab.until(async || listed().await == 0).await;
    // A group's deletion waits for the provider.
    assert_eq!(put().await, 201);
    *lab.provider.refuses_deletes.lock() = true;
    let gone = lab.ask("DELETE", &lab.group, None).await;
    let poll = gone.header("location").unwrap().to_owned();
    lab.until(async || lab.provider.seen.lock().iter().filter(|s| s.method == "DELETE").count() > 2).await;
    assert_eq!(lab.ask("GET", &poll, None).await.status, 202);
    *lab.provider.refuses_deletes.lock() = false;
    lab.until(async || lab.ask("GET", &poll, None).await.status == 200).await;
    assert!(lab.provider.clusters.lock().is_empty());
    assert_eq!(lab.ask("GET", &lab.group, None).await.status, 404);
    lab.task.abort();
}

#[tokio::test]
async fn a_deletion_under_way_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let lab = Lab::new(Some(data.clone())).await;
    lab.ask("PUT", &lab.cluster(), Some(json!({"properties": {}}))).await;
    *lab.provider.refuses_deletes.lock() = true;
    let poll = lab.ask("DELETE", &lab.group, None).await.header("location").unwrap().to_owned();
    let path = poll.split_once("/subscriptions").map(|(_, rest)| format!("/subscriptions{rest}")).unwrap();
    let Lab { sim, provider, bearer, group, task } = lab;
    let url = provider.seen.lock()[0].headers["host"].to_str().unwrap().to_owned();
    sim.stop();
    *provider.refuses_deletes.lock() = false;
    let proxied =
        vec![ProxiedProvider { namespace: NS.into(), url: format!("http://{url}").parse().unwrap() }];
    let sim = AzureSim::start(Config { proxied, data_dir: Some(data), ..Config::local(5) }).await.unwrap();
    let lab = Lab { sim, provider, bearer, group, task };
    lab.until(async || lab.ask("GET", &path, None).await.status == 200).await;
    assert!(lab.provider.clusters.lock().is_empty());
    lab.task.abort();
}

/// Over TLS, with an authority that was named; without it nobody is asked.
#[tokio::test]
async fn providers_may_be_reached_by_https_only_if_trusted() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let chain = vec![rustls::pki_types::CertificateDer::from(made.cert.der().to_vec())];
    let tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let tls = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: url::Url =
        format!("https://localhost:{}/base", listener.local_addr().unwrap().port()).parse().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let task = tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let (tls, log) = (tls.clone(), log.clone());
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(tcp).await else { return };
                let service = service_fn(move |req: http::Request<hyper::body::Incoming>| {
                    log.lock().push((req.uri().path().to_owned(), req.headers().clone()));
                    async move {
                        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(
                            "{\"location\": \"westus2\"}",
                        ))))
                    }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    for (trust, want) in [(vec![made.cert.pem()], 200), (Vec::new(), 502)] {
        let proxied = vec![ProxiedProvider { namespace: NS.into(), url: url.clone() }];
        let sim = AzureSim::start(Config { proxied, trust, ..Config::local(5) }).await.unwrap();
        let bearer = format!("Bearer {}", sim.world().owner_token().await);
        let auth = [("authorization", bearer.as_str())];
        let group =
            format!("{}/subscriptions/{}/resourceGroups/g", sim.arm_url(), sim.creds().subscription_id);
        ask(
            sim.ca_pem(),
            "PUT",
            &format!("{group}?api-version=2021-04-01"),
            &auth,
            "{\"location\": \"westus2\"}",
        )
        .await;
        let cluster = format!("{group}/providers/{NS}/hcpOpenShiftClusters/c?api-version=2024-06-10-preview");
        let body = json!({"identity": {"type": "SystemAssigned"}}).to_string();
        assert_eq!(ask(sim.ca_pem(), "PUT", &cluster, &auth, body).await.status, want);
    }
    let all = seen.lock().clone();
    let (path, headers) = all.iter().find(|(p, _)| p.contains("hcpOpenShiftClusters")).unwrap();
    assert!(path.starts_with("/base/subscriptions/"), "{path}");
    assert_eq!(headers["x-ms-identity-principal-id"].len(), 36);
    assert!(headers.contains_key("x-ms-identity-url"));
    task.abort();
}
