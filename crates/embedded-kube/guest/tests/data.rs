//! A guest's data: written through TLS, kept in its etcd's volume, found again.

use crate::kit::{Hosted, Kit, anonymous, is_ready};
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub fn namespace(name: &str) -> Namespace {
    Namespace {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        ..Namespace::default()
    }
}

pub fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("value".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

pub async fn write(client: &kube::Client, name: &str, value: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.create(&PostParams::default(), &config_map(name, value)).await.unwrap();
}

pub async fn read(client: &kube::Client, name: &str) -> Option<String> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.get_opt(name).await.unwrap()?.data?.get("value").cloned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hosted_cluster_serves_under_its_own_identity_and_keeps_its_data() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::start(dir.path()).await;
    let mut hosted = Hosted::new("clusters-a");
    hosted.replicas = 2;
    // As OpenShift has them.
    hosted.pki.sa = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    hosted.deploy(&kit).await;
    hosted.up(&kit).await;
    let client = kit.client(&hosted, &hosted.pki.admin()).await;
    let spaces: Api<Namespace> = Api::all(client.clone());
    spaces.create(&PostParams::default(), &namespace("shop")).await.unwrap();
    assert!(spaces.list(&ListParams::default()).await.unwrap().items.len() >= 5);
    write(&client, "kept", "one").await;

    // The controllers of this process work for the guest.
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "shop");
    let there =
        kube::runtime::wait::await_condition(accounts.clone(), "default", |a: Option<&ServiceAccount>| {
            a.is_some()
        });
    tokio::time::timeout(crate::kit::DEADLINE, there).await.unwrap().unwrap();

    // A token of this issuer, signed with the given key, verified with the published one.
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec!["openshift".into()],
            expiration_seconds: Some(3600),
            bound_object_ref: None,
        },
        ..TokenRequest::default()
    };
    let token = accounts.create_token_request("default", &PostParams::default(), &request).await.unwrap();
    let token = token.status.unwrap().token;
    let jwks: JwkSet =
        client.request(http::Request::get("/openid/v1/jwks").body(Vec::new()).unwrap()).await.unwrap();
    let header = jsonwebtoken::decode_header(&token).unwrap();
    assert_eq!(header.alg, Algorithm::RS256);
    let published = jwks.find(header.kid.as_deref().unwrap()).expect("the key that signed is published");
    let mut rules = Validation::new(Algorithm::RS256);
    rules.set_audience(&["openshift"]);
    rules.set_issuer(&["https://issuer.clusters-a.example.com"]);
    for key in [
        DecodingKey::from_rsa_pem(hosted.pki.sa.public_key_pem().as_bytes()).unwrap(),
        DecodingKey::from_jwk(published).unwrap(),
    ] {
        let claims = jsonwebtoken::decode::<Value>(&token, &key, &rules).unwrap().claims;
        assert_eq!(claims["sub"], "system:serviceaccount:shop:default");
    }
    let wellknown = http::Request::get("/.well-known/openid-configuration").body(Vec::new()).unwrap();
    let discovery: Value = client.request(wellknown).await.unwrap();
    assert_eq!(discovery["jwks_uri"], "https://issuer.clusters-a.example.com/openid/v1/jwks");

    // Whoever has a certificate of somebody else is nobody, and so is the management cluster's admin.
    let stranger = crate::pki::client(&hosted.pki.etcd, "system:admin", "system:masters");
    let refused = read_error(&kit.client(&hosted, &stranger).await).await;
    assert_eq!(refused, 401);
    assert!(kit.host.cluster("clusters-a").is_none());
    assert_eq!(kit.host.names(), ["main"], "guests are not among the host's own clusters");

    // An API server's pod goes: the others serve the same data, and the next one does.
    let pods = kit.pods("clusters-a", "kube-apiserver");
    for p in &pods {
        kit.delete("pods", "clusters-a", p["metadata"]["name"].as_str().unwrap()).await;
    }
    let old: Vec<Value> = pods.iter().map(|p| p["metadata"]["uid"].clone()).collect();
    kit.until("new API servers", |k| {
        let now = k.pods("clusters-a", "kube-apiserver");
        now.iter().filter(|p| is_ready(p) && !old.contains(&p["metadata"]["uid"])).count() == 2
    })
    .await;
    let client = kit.client(&hosted, &hosted.pki.admin()).await;
    assert_eq!(read(&client, "kept").await.as_deref(), Some("one"));

    // The whole process.
    kit.stop().await;
    let kit = Kit::start(dir.path()).await;
    hosted.up(&kit).await;
    let client = kit.client(&hosted, &hosted.pki.admin()).await;
    assert_eq!(read(&client, "kept").await.as_deref(), Some("one"));
    let log = kit
        .log(
            "clusters-a",
            kit.pods("clusters-a", "kube-apiserver")[0]["metadata"]["name"].as_str().unwrap(),
            "kube-apiserver",
        )
        .await;
    assert!(log.contains("connected to etcd-client.clusters-a.svc:2379"), "{log}");
    kit.stop().await;
}

async fn read_error(client: &kube::Client) -> u16 {
    let spaces: Api<Namespace> = Api::all(client.clone());
    match spaces.list(&ListParams::default()).await {
        Err(kube::Error::Api(s)) => s.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_without_etcd_says_so_and_goes_on_when_it_comes() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::start(dir.path()).await;
    let hosted = Hosted::new("clusters-b");
    hosted.deploy(&kit).await;
    hosted.up(&kit).await;
    let client = kit.client(&hosted, &hosted.pki.admin()).await;
    write(&client, "kept", "two").await;
    // etcd goes while the API server runs.
    kit.edit("apps/statefulsets", "clusters-b", "etcd", |s| s["spec"]["replicas"] = json!(0)).await;
    kit.until("etcd is gone", |k| k.pods("clusters-b", "etcd").is_empty()).await;
    kit.until("the API server is not ready", |k| k.ready("clusters-b", "kube-apiserver") == 0).await;
    let pod = kit.pods("clusters-b", "kube-apiserver")[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let address = kit.nodes.resolve_pod("main", "clusters-b", &pod, 6443).unwrap();
    let (code, text) = anonymous(address, "/readyz").await;
    assert_eq!(code, 500, "{text}");
    assert!(text.contains("[-]etcd"), "{text}");
    assert_eq!(anonymous(address, "/livez?exclude=etcd").await.0, 200, "it is alive");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let refused = maps.create(&PostParams::default(), &config_map("lost", "x")).await.unwrap_err();
    assert!(refused.to_string().contains("no leader"), "{refused}");
    // An API server that starts now waits, and tells what for.
    kit.delete("pods", "clusters-b", &pod).await;
    kit.until("the next one waits", |k| {
        k.pods("clusters-b", "kube-apiserver").iter().any(|p| p["metadata"]["name"] != pod.as_str())
    })
    .await;
    kit.edit("apps/statefulsets", "clusters-b", "etcd", |s| s["spec"]["replicas"] = json!(1)).await;
    hosted.up(&kit).await;
    let client = kit.client(&hosted, &hosted.pki.admin()).await;
    assert_eq!(read(&client, "kept").await.as_deref(), Some("two"));
    assert_eq!(read(&client, "lost").await, None);
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_certificates_and_missing_files_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::start(dir.path()).await;
    // etcd's clients are of another authority than etcd believes.
    let hosted = Hosted::new("clusters-c");
    hosted.deploy(&kit).await;
    hosted.up(&kit).await;
    let other = crate::pki::new_authority("etcd-signer");
    let wrong = crate::pki::client(&other, "etcd-client", "kubernetes");
    kit.edit("secrets", "clusters-c", "etcd-client-tls", |s| {
        use base64::Engine;
        let b64 = |t: &str| json!(base64::engine::general_purpose::STANDARD.encode(t));
        s["data"] =
            json!({"etcd-client.crt": b64(&wrong.cert_pem), "etcd-client.key": b64(wrong.key_pem.expose())});
    })
    .await;
    kit.until("etcd's health check is not let in", |k| k.ready("clusters-c", "etcd") == 0).await;
    // A signing key that is none.
    kit.edit("secrets", "clusters-c", "sa-signing-key", |s| {
        s["data"]["service-account.key"] = json!("anVuaw==")
    })
    .await;
    hosted.put_files(&kit).await;
    kit.edit("secrets", "clusters-c", "sa-signing-key", |s| {
        s["data"]["service-account.key"] = json!("anVuaw==")
    })
    .await;
    kit.until("etcd is ready again", |k| k.ready("clusters-c", "etcd") == 1).await;
    let pod = kit.pods("clusters-c", "kube-apiserver")[0]["metadata"]["name"].as_str().unwrap().to_owned();
    kit.delete("pods", "clusters-c", &pod).await;
    kit.until("it ends and says why", |k| {
        let pods = k.pods("clusters-c", "kube-apiserver");
        let crashed = |p: &Value| {
            let all = p["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
            all.iter().any(|c| c["name"] == "kube-apiserver" && c["restartCount"].as_u64() > Some(0))
        };
        pods.iter().any(|p| p["metadata"]["name"] != pod.as_str() && crashed(p))
    })
    .await;
    let name = kit
        .pods("clusters-c", "kube-apiserver")
        .iter()
        .find(|p| p["metadata"]["name"] != pod.as_str())
        .unwrap()["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut log = kit.log("clusters-c", &name, "kube-apiserver&previous=true").await;
    log.push_str(&kit.log("clusters-c", &name, "kube-apiserver").await);
    assert!(log.contains("service account signing key"), "{log}");
    kit.stop().await;
}
