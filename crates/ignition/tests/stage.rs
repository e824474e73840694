//! A namespace with what payloads are made of, a server, and a machine that asks it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clock::ManualClock;
use ek_server::{ApiServer, Config};
use futures::future::BoxFuture;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use ignition::names::annotation;
use ignition::render::Rendered;
use ignition::{Certificate, PayloadProvider, Release, Releases, Setup, data};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use reconcile::{Kind, Metrics, Runtime};
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

pub const NS: &str = "clusters-demo";
const CRDS: Kind =
    Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
        .cluster_wide();
const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap", "configmaps");
const SECRET: Kind = Kind::new("", "v1", "Secret", "secrets");
const NAMESPACE: Kind = Kind::new("", "v1", "Namespace", "namespaces").cluster_wide();

pub const MACHINE_CONFIG: &str = "apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: 99-mine}
spec:
  config:
    ignition: {version: 3.2.0}
    storage: {files: [{path: /etc/mine, contents: {source: \"data:,hello\"}}]}
    systemd: {units: [{name: mine.service, enabled: true, contents: \"[Service]\"}]}";

struct Known;

impl Releases for Known {
    fn release<'a>(&'a self, image: &'a str, _: &'a [u8]) -> BoxFuture<'a, Result<Release, String>> {
        Box::pin(async move {
            if image != "registry.example/release@sha256:aa" {
                return Err(format!("there is no release {image}"));
            }
            let images = [("haproxy-router".to_owned(), "registry.example/haproxy".to_owned())].into();
            Ok(Release { version: "4.19.3".into(), kubernetes: "1.32.5".into(), images })
        })
    }
}

pub struct Stage {
    _api: ApiServer,
    pub client: kube::Client,
    pub clock: Arc<ManualClock>,
    pub metrics: Metrics,
    address: SocketAddr,
    tls: TlsConnector,
    stop: CancellationToken,
    _dir: tempfile::TempDir,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub fn rendered() -> Arc<dyn PayloadProvider> {
    Arc::new(Rendered { releases: Arc::new(Known), gates: vec![("Quick".into(), true)] })
}

impl Stage {
    pub async fn start(provider: Arc<dyn PayloadProvider>) -> Stage {
        let api = ApiServer::start(Config::memory()).await.unwrap();
        let client = api.client();
        let crd = json!({"metadata": {"name": "hostedcontrolplanes.hypershift.openshift.io"},
            "spec": {"group": "hypershift.openshift.io", "scope": "Namespaced",
                "names": {"kind": "HostedControlPlane", "plural": "hostedcontrolplanes"},
                "versions": [{"name": "v1beta1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
        create(&client, &CRDS, crd).await;
        create(&client, &NAMESPACE, json!({"metadata": {"name": NS}})).await;
        let dir = tempfile::tempdir().unwrap();
        let cert = rcgen::generate_simple_self_signed(["ignition.example".to_owned()]).unwrap();
        let (at, key) = (dir.path().join("tls.crt"), dir.path().join("tls.key"));
        std::fs::write(&at, cert.cert.pem()).unwrap();
        std::fs::write(&key, cert.signing_key.serialize_pem()).unwrap();
        let clock = ManualClock::new("2026-01-01T00:00:00Z".parse().unwrap());
        let (metrics, stop) = (Metrics::default(), CancellationToken::new());
        let mut runtime = Runtime::new(clock.clone(), &metrics);
        let setup = Setup {
            client: client.clone(),
            namespace: NS.into(),
            provider,
            clock: clock.clone(),
            random: clock::Random::seeded(3),
            metrics: metrics.clone(),
        };
        let door = ignition::start(&mut runtime, setup);
        tokio::spawn(runtime.run(stop.clone()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let certificate = Arc::new(Certificate::load(at, key).unwrap());
        tokio::spawn(ignition::serve(listener, certificate, door, stop.clone()));
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(cert.cert.der().to_vec())).unwrap();
        let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let tls = TlsConnector::from(Arc::new(config));
        Stage { _api: api, client, clock, metrics, address, tls, stop, _dir: dir }
    }

    /// Everything that the control-plane operator would have written.
    pub async fn furnish(&self) {
        let map = |name: &str, key: &str, text: &str| json!({"metadata": {"name": name, "namespace": NS}, "data": {key: text}});
        for (name, key, text) in [
            ("root-ca", "ca.crt", "ROOT"),
            ("kubelet-client-ca", "ca.crt", "KUBELETS"),
            ("azure-cloud-config", "cloud.conf", "{\"cloud\": \"x\"}"),
        ] {
            create(&self.client, &CONFIG_MAP, map(name, key, text)).await;
        }
        for (name, key, text) in [
            ("pull-secret", ".dockerconfigjson", "{}"),
            ("bootstrap-kubeconfig", "kubeconfig", "apiVersion: v1"),
            ("ssh-key", "id_rsa.pub", "ssh-ed25519 AAAA me"),
        ] {
            let secret = json!({"metadata": {"name": name, "namespace": NS}, "stringData": {key: text}});
            create(&self.client, &SECRET, secret).await;
        }
        let plane = json!({"metadata": {"name": "demo", "namespace": NS},
            "spec": {"networking": {"serviceNetwork": [{"cidr": "172.31.0.0/16"}]}},
            "status": {"controlPlaneEndpoint": {"host": "api.example", "port": 7443}}});
        create(&self.client, &ignition::operate::PLANE, plane).await;
    }

    /// A token Secret as the NodePool controller writes it.
    pub async fn token(&self, name: &str, token: &str, more: Value) {
        let mut secret = json!({
            "metadata": {"name": name, "namespace": NS, "annotations": {
                annotation::IGNITION_CONFIG: "true", annotation::NODE_POOL: "clusters/workers",
                annotation::UPGRADE_TYPE: "Replace", annotation::GENERATED: "2026-01-01T00:00:00Z"}},
            "stringData": {"token": token, "release": "registry.example/release@sha256:aa", "release-version": "4.19.3",
                "config": data::pack(MACHINE_CONFIG.as_bytes()), "pull-secret-hash": data::hash_bytes(b"{}"),
                "cloud-config-hash": data::hash("{\"cloud\": \"x\"}")},
        });
        lay(&mut secret, &more);
        create(&self.client, &SECRET, secret).await;
    }

    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), NS)
    }

    pub async fn patch(&self, kind: &str, name: &str, patch: Value) {
        let kind = if kind == "secret" { &SECRET } else { &CONFIG_MAP };
        let api = kind.api(&self.client, NS);
        api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// Waits until a Secret is as wanted; `None`: gone.
    pub async fn until(&self, name: &str, what: impl Fn(Option<&Secret>) -> bool) -> Option<Secret> {
        let condition = |s: Option<&Secret>| what(s);
        let wait = kube::runtime::wait::await_condition(self.secrets(), name, condition);
        match tokio::time::timeout(Duration::from_secs(30), wait).await {
            Ok(found) => found.unwrap(),
            Err(_) => panic!("{name} is {:?}", self.secrets().get_opt(name).await.unwrap()),
        }
    }

    /// Asks as Ignition does.
    pub async fn get(&self, path: &str, authorization: Option<&str>) -> (u16, Bytes) {
        let tcp = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("ignition.example").unwrap();
        let stream = self.tls.connect(name, tcp).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let driver = tokio::spawn(connection);
        let mut request =
            Request::get(path).header("Host", "ignition.example").header("NodePool", "clusters/workers");
        if let Some(a) = authorization {
            request = request.header("Authorization", a);
        }
        let answer = sender.send_request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        driver.abort();
        (code, body)
    }

    pub async fn fetch(&self, token: &str) -> (u16, Value) {
        let (code, body) = self.get("/ignition", Some(&format!("Bearer {}", STANDARD.encode(token)))).await;
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }
}

async fn create(client: &kube::Client, kind: &Kind, mut object: Value) {
    (object["apiVersion"], object["kind"]) = (json!(kind.api_version()), json!(kind.kind));
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    kind.api(client, &namespace).create(&Default::default(), &object).await.unwrap();
}

pub fn text(secret: Option<&Secret>, key: &str) -> String {
    let data = secret.and_then(|s| s.data.as_ref()).and_then(|d| d.get(key));
    data.map(|b| String::from_utf8_lossy(&b.0).into_owned()).unwrap_or_default()
}

pub fn marked(secret: Option<&Secret>, annotation: &str) -> Option<String> {
    secret?.metadata.annotations.as_ref()?.get(annotation).cloned()
}

/// The content of a file of a payload.
pub fn file(payload: &Value, path: &str) -> Option<String> {
    let all = payload["storage"]["files"].as_array()?;
    let source = all.iter().find(|f| f["path"] == path)?["contents"]["source"].as_str()?;
    match source.split_once(";base64,") {
        Some((_, encoded)) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => source.strip_prefix("data:,").map(str::to_owned),
    }
}

pub fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Objects are merged, everything else is replaced.
fn lay(into: &mut Value, over: &Value) {
    match (into.as_object_mut(), over.as_object()) {
        (Some(into), Some(over)) => {
            for (k, v) in over {
                lay(into.entry(k.clone()).or_insert(Value::Null), v);
            }
        }
        _ => *into = over.clone(),
    }
}
