//! Certificates that change under running connections.

use crate::data::{config_map, read, write};
use crate::kit::{Hosted, Kit, client_at};
use crate::pki::{Pki, client, new_authority};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_rotate_with_overlap_under_a_running_watch() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::start(dir.path()).await;
    let hosted = Hosted::new("clusters-r");
    hosted.deploy(&kit).await;
    hosted.up(&kit).await;
    let old_admin = hosted.pki.admin();
    let old = kit.client(&hosted, &old_admin).await;
    let maps: Api<ConfigMap> = Api::namespaced(old.clone(), "default");
    let version = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut watch = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    let (new_root, new_clients) = (new_authority("root-ca"), new_authority("system-admin-signer"));
    let new_admin = client(&new_clients, "system:admin", "system:masters");
    let address = kit.address("clusters-r", 6443);

    // First the new authority is believed beside the old one.
    let both = format!("{}{}", hosted.pki.clients.cert_pem(), new_clients.cert_pem());
    kit.edit("configmaps", "clusters-r", "client-ca", |c| c["data"]["ca.crt"] = json!(both)).await;
    eventually("the new authority's clients are let in", async || {
        let c = client_at(address, hosted.pki.root.cert_pem(), &new_admin).await;
        read_ok(&c).await
    })
    .await;
    assert!(
        read_ok(&client_at(address, hosted.pki.root.cert_pem(), &old_admin).await).await,
        "and so are the old one's"
    );

    // Then the certificate that is shown changes.
    let shown = Pki::server(&new_root, &hosted.pki.api_names());
    kit.edit("secrets", "clusters-r", "kas-server-crt", |s| {
        s["data"] = json!({"tls.crt": STANDARD.encode(&shown.cert_pem), "tls.key": STANDARD.encode(shown.key_pem.expose())});
    })
    .await;
    eventually("the new certificate is shown", async || {
        read_ok(&client_at(address, new_root.cert_pem(), &new_admin).await).await
    })
    .await;
    assert!(
        !read_ok(&client_at(address, hosted.pki.root.cert_pem(), &new_admin).await).await,
        "the old one is not"
    );

    // Then the old authority is not believed any more.
    kit.edit("configmaps", "clusters-r", "client-ca", |c| {
        c["data"]["ca.crt"] = json!(new_clients.cert_pem())
    })
    .await;
    eventually("the old authority's clients are refused", async || {
        !read_ok(&client_at(address, new_root.cert_pem(), &old_admin).await).await
    })
    .await;

    assert!(!read_ok(&old).await, "who was let in before is asked again with the next request");

    // The watch from before sees what is written now; nothing restarted.
    let now = client_at(address, new_root.cert_pem(), &new_admin).await;
    write(&now, "afterwards", "x").await;
    let seen = async {
        while let Some(e) = watch.try_next().await.expect("the watch goes on") {
            if let WatchEvent::Added(m) = e
                && m.metadata.name.as_deref() == Some("afterwards")
            {
                return;
            }
        }
        panic!("the watch ended");
    };
    tokio::time::timeout(crate::kit::DEADLINE, seen).await.unwrap();
    let pods = kit.pods("clusters-r", "kube-apiserver");
    assert_eq!(pods.len(), 1);
    let restarts = pods[0]["status"]["containerStatuses"].as_array().unwrap().iter();
    assert!(restarts.into_iter().all(|c| c["restartCount"] == 0));
    assert_eq!(read(&now, "afterwards").await.as_deref(), Some("x"));
    kit.stop().await;
}

async fn read_ok(client: &kube::Client) -> bool {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.list(&ListParams::default()).await.is_ok()
}

async fn eventually(what: &str, so: impl AsyncFn() -> bool) {
    let run = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(crate::kit::DEADLINE, run).await.is_ok(), "never: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_choose_certificates_and_a_front_proxy_speaks_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::start(dir.path()).await;
    let hosted = Hosted::new("clusters-p");
    hosted.deploy(&kit).await;
    hosted.up(&kit).await;
    let admin = kit.client(&hosted, &hosted.pki.admin()).await;
    // Somebody who may do one thing.
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "maps"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "create"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "maps"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "maps"}, "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "cartographers"}]});
    for (path, o) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let request = http::Request::post(format!("/apis/rbac.authorization.k8s.io/v1/{path}"))
            .header("content-type", "application/json")
            .body(o.to_string().into_bytes())
            .unwrap();
        admin.request::<serde_json::Value>(request).await.unwrap();
    }
    let ask = async |proxy: &ek_auth::pki::Pair, user: Option<&str>| {
        let c = kit.client(&hosted, proxy).await;
        let mut request = http::Request::get("/api/v1/namespaces/default/configmaps");
        if let Some(user) = user {
            request = request.header("X-Remote-User", user).header("X-Remote-Group", "cartographers");
        }
        match c.request_text(request.body(Vec::new()).unwrap()).await {
            Ok(_) => 200,
            Err(kube::Error::Api(s)) => s.code,
            Err(e) => panic!("{e}"),
        }
    };
    let proxy = client(&hosted.pki.aggregator, "system:openshift-aggregator", "x");
    let unnamed = client(&hosted.pki.aggregator, "somebody", "x");
    assert_eq!(ask(&proxy, Some("jane")).await, 200, "the proxy speaks for jane");
    assert_eq!(ask(&proxy, None).await, 401, "for itself it is nobody");
    assert_eq!(ask(&unnamed, Some("jane")).await, 401, "not every certificate of that authority may");
    let user = client(&hosted.pki.clients, "joe", "users");
    assert_eq!(ask(&user, Some("jane")).await, 403, "a user that sends those headers is still itself");

    let address = kit.address("clusters-p", 6443);
    let names = |sni: &'static str| async move { shown_names(address, sni).await };
    assert!(
        names("private.clusters-p.example.com").await.contains(&"private.clusters-p.example.com".to_owned())
    );
    assert!(names("anything.else").await.contains(&"kubernetes".to_owned()));
    let maps: Api<ConfigMap> = Api::namespaced(admin, "default");
    maps.create(&PostParams::default(), &config_map("x", "y")).await.unwrap();
    kit.stop().await;
}

/// The DNS names in the certificate that is shown for a name.
async fn shown_names(address: std::net::SocketAddr, sni: &str) -> Vec<String> {
    let (tx, rx) = std::sync::mpsc::sync_channel(4);
    let config = rustls::ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(std::sync::Arc::new(Looks(tx)))
        .with_no_client_auth();
    let tcp = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from(sni.to_owned()).unwrap();
    let _ = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config)).connect(name, tcp).await.unwrap();
    ek_auth::pki::dns_names(&rx.recv().unwrap())
}

#[derive(Debug)]
struct Looks(std::sync::mpsc::SyncSender<Vec<u8>>);

impl rustls::client::danger::ServerCertVerifier for Looks {
    fn verify_server_cert(
        &self,
        cert: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        let _ = self.0.send(cert.to_vec());
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
