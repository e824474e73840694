//! The life of one cluster: kubectl, tokens that Azure believes, upgrades by a z- and a y-stream, and the end.

use crate::kit::{DEADLINE, Kit, is_true};
use azure::Call;
use azure::credential::{Confidential, Entra, Proof};
use azure::{Client, ClientOptions, Credential};
use hypershift::kinds;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, DynamicObject};
use serde_json::{Value, json};
use std::path::Path;
use world::Flavour;
use world::sample::NAMESPACE;

const ACCOUNT: (&str, &str) = ("openshift-ingress-operator", "ingress-operator");

/// A token of the guest, as its TokenRequest API gives it.
async fn token(admin: &kube::Client, audience: &str) -> String {
    let (namespace, name) = ACCOUNT;
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [audience]}});
    let uri = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let request = http::Request::post(uri).header("content-type", "application/json");
    let request = request.body(body.to_string().into_bytes()).unwrap();
    let answer: Value = admin.request(request).await.unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// Somebody who has nothing but a token in a file.
fn pod(kit: &Kit, client_id: &str, file: &Path) -> Client {
    let azure = kit.world.cloud().azure();
    let timing = azure.options.timing.clone();
    let entra = Entra { http: azure.http.clone(), login: azure.cloud.login.clone(), timing: timing.clone() };
    let proof = Proof::FederatedFile(file.to_owned());
    let credential = Credential::new(Confidential::new(entra, &kit.landing.tenant, client_id, proof), timing);
    Client::new(azure.cloud.clone(), azure.http, credential, ClientOptions::default())
}

/// Tokens of the guest's accounts verify against the published keys, and Entra ID takes them for Azure's, if they were
/// made for it.
async fn tokens(kit: &Kit, admin: &kube::Client) {
    let url = format!("{}/openid/v1/jwks", kit.landing.issuer);
    let request = http::Request::get(url).body(bytes::Bytes::new()).unwrap();
    let answer = kit.world.cloud().azure().http.send(request).await.unwrap();
    let keys: JwkSet = serde_json::from_value(answer.json().unwrap()).unwrap();
    let good = token(admin, "openshift").await;
    let kid = decode_header(&good).unwrap().kid.unwrap();
    let key = DecodingKey::from_jwk(keys.find(&kid).expect("the key is published")).unwrap();
    let mut rules = Validation::new(Algorithm::RS256);
    rules.set_audience(&["openshift"]);
    rules.set_issuer(&[&kit.landing.issuer]);
    let claims = decode::<Value>(&good, &key, &rules).unwrap().claims;
    assert_eq!(claims["sub"], format!("system:serviceaccount:{}:{}", ACCOUNT.0, ACCOUNT.1));

    let ingress = &kit.landing.authentication["workloadIdentities"]["ingress"]["clientID"];
    let ingress = ingress.as_str().unwrap();
    let dir = kit.world.dir().join("tokens");
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("good");
    std::fs::write(&file, &good).unwrap();
    // What its role lets it do: write records.
    let record = format!(
        "/subscriptions/{}/resourceGroups/zaffre-dns/providers/Microsoft.Network/dnsZones/{}/A/apps.demo?api-version=2018-05-01",
        kit.landing.subscription,
        world::landing::DOMAIN
    );
    let call = || {
        let mut call = Call::new(http::Method::PUT, record.clone());
        call.body = Some(json!({"properties": {"TTL": 30, "ARecords": [{"ipv4Address": "1.2.3.4"}]}}));
        call
    };
    pod(kit, ingress, &file).send(call()).await.unwrap();
    let file = dir.join("other");
    std::fs::write(&file, token(admin, "https://kubernetes.default.svc").await).unwrap();
    let refused = pod(kit, ingress, &file).send(call()).await.unwrap_err();
    assert!(matches!(refused, azure::Error::Token { .. }), "{refused:?}");
}

/// Moves the cluster to another release and waits until its control plane is there.
async fn upgrade(kit: &Kit, name: &str, version: &str) {
    let image = kit.world.cloud().release(version).unwrap();
    kit.patch(name, json!({"spec": {"release": {"image": image}}})).await;
    let done = |s: &Value| {
        let first = &s["controlPlaneVersion"]["history"][0];
        first["version"] == version && first["state"] == "Completed" && is_true(s, "Available")
    };
    kit.until(name, &format!("control plane at {version}"), done).await;
}

fn kubectl(config: &str, dir: &Path, args: &[&str]) -> Option<(bool, String)> {
    let kubectl = testkit::tools::kubectl()?;
    let file = dir.join("kubeconfig");
    std::fs::write(&file, config).unwrap();
    let out = std::process::Command::new(kubectl).arg("--kubeconfig").arg(&file).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    Some((out.status.success(), text))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_the_first_token_through_two_upgrades_to_the_end() {
    let kit = Kit::start(Flavour::Workload).await;
    let demo = kit.sample("demo");
    demo.create(&kit.world).await.unwrap();
    kit.available("demo").await;
    let admin = kit.admin("demo").await;
    tokens(&kit, &admin).await;

    let config = kit.kubeconfig("demo").await;
    for (args, expected) in [
        (&["create", "namespace", "shop"][..], "namespace/shop created"),
        (&["-n", "shop", "create", "deployment", "web", "--image=x"], "deployment.apps/web created"),
        (&["auth", "can-i", "create", "pods"], "yes"),
        (&["auth", "can-i", "list", "secrets", "--as=system:serviceaccount:shop:default"], "no"),
        (&["-n", "shop", "create", "token", "default"], "eyJ"),
        (&["get", "clusterversion", "version", "-o=jsonpath={.status.desired.version}"], "4.19.3"),
    ] {
        let dir = kit.world.dir().to_owned();
        let config = config.clone();
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        let run = tokio::task::spawn_blocking(move || {
            kubectl(&config, &dir, &args.iter().map(String::as_str).collect::<Vec<_>>())
        });
        if let Some((_, text)) = run.await.unwrap() {
            assert!(text.contains(expected), "{text}");
        }
    }

    upgrade(&kit, "demo", "4.19.4").await;
    upgrade(&kit, "demo", "4.20.1").await;
    // What was written before is there, and the API answers at the same place.
    let spaces: Api<Namespace> = Api::all(kit.admin("demo").await);
    spaces.list(&Default::default()).await.unwrap();

    let clusters = kit.api(&kinds::CLUSTER, NAMESPACE);
    clusters.delete("demo", &DeleteParams::default()).await.unwrap();
    let gone = |o: Option<&DynamicObject>| o.is_none();
    let wait = kube::runtime::wait::await_condition(clusters, "demo", gone);
    if tokio::time::timeout(DEADLINE, wait).await.is_err() {
        panic!("it is never gone\n{}", kit.story("demo").await);
    }
    let here: Api<Namespace> = Api::all(kit.world.client());
    let plane = demo.plane();
    let wait = kube::runtime::wait::await_condition(here, &plane, |o: Option<&Namespace>| o.is_none());
    tokio::time::timeout(DEADLINE, wait).await.expect("its namespace is gone").unwrap();
    kit.world.stop().await;
}
