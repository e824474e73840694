//! The life of one cluster: kubectl, tokens that Azure believes, upgrades by a z- and a y-stream, and the end.

use crate::kit::{DEADLINE, Kit, is_true};
use crate::place::{Place, Reached};
use azure::Call;
use azure::credential::{Confidential, Entra, Proof};
use azure::{Client, ClientOptions, Credential};
use hypershift::kinds;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, DynamicObject};
use reconcile::Kind;
use serde_json::{Value, json};
use std::path::Path;
use world::Flavour;
use world::sample::NAMESPACE;

/// An account of the guest that is somebody in Azure, and what its role lets it do there.
struct Account {
    namespace: &'static str,
    name: &'static str,
    client_id: String,
    call: Call,
}

impl Account {
    fn of<P: Place>(kit: &Kit<P>, flavour: Flavour) -> Account {
        let group = |name: &str| format!("/subscriptions/{}/resourceGroups/{name}", kit.landing.subscription);
        let (namespace, name, client_id, call) = match flavour {
            // Writes records.
            Flavour::Workload => {
                let zone = format!(
                    "{}/providers/Microsoft.Network/dnsZones/{}",
                    group("zaffre-dns"),
                    world::landing::DOMAIN
                );
                let mut call =
                    Call::new(http::Method::PUT, format!("{zone}/A/apps.demo?api-version=2018-05-01"));
                call.body =
                    Some(json!({"properties": {"TTL": 30, "ARecords": [{"ipv4Address": "1.2.3.4"}]}}));
                let id = &kit.landing.authentication["workloadIdentities"]["ingress"]["clientID"];
                ("openshift-ingress-operator", "ingress-operator", id, call)
            }
            // Looks at disks, on nodes: the control plane has certificates instead.
            Flavour::Managed => {
                let disks =
                    format!("{}/providers/Microsoft.Compute/disks", group(kit.landing.layout.main.name()));
                let call = Call::new(http::Method::GET, format!("{disks}?api-version=2023-10-02"));
                let id = &kit.landing.authentication["managedIdentities"]["dataPlane"]["diskMSIClientID"];
                ("openshift-cluster-csi-drivers", "azure-disk-csi-driver-node-sa", id, call)
            }
        };
        Account { namespace, name, client_id: id_text(client_id), call }
    }

    /// It is there, whoever made it.
    async fn exists(&self, admin: &kube::Client) {
        let space = json!({"metadata": {"name": self.namespace}});
        let account = json!({"metadata": {"name": self.name, "namespace": self.namespace}});
        let spaces = Kind::new("", "v1", "Namespace", "namespaces").cluster_wide().api(admin, "");
        let accounts = Kind::new("", "v1", "ServiceAccount", "serviceaccounts").api(admin, self.namespace);
        for (api, object) in [(spaces, space), (accounts, account)] {
            match api.create(&Default::default(), &serde_json::from_value(object).unwrap()).await {
                Ok(_) => {}
                Err(kube::Error::Api(s)) if s.code == 409 => {}
                Err(e) => panic!("{e}"),
            }
        }
    }
}

fn id_text(v: &Value) -> String {
    v.as_str().expect("an identity").to_owned()
}

/// A token of the guest, as its TokenRequest API gives it.
async fn token(admin: &kube::Client, account: &Account, audience: &str) -> String {
    let Account { namespace, name, .. } = account;
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [audience]}});
    let uri = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let request = http::Request::post(uri).header("content-type", "application/json");
    let request = request.body(body.to_string().into_bytes()).unwrap();
    let answer: Value = admin.request(request).await.unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// Somebody who has nothing but a token in a file.
fn pod<P: Place>(kit: &Kit<P>, client_id: &str, file: &Path) -> Client {
    let azure = kit.cloud().azure();
    let timing = azure.options.timing.clone();
    let entra = Entra { http: azure.http.clone(), login: azure.cloud.login.clone(), timing: timing.clone() };
    let proof = Proof::FederatedFile(file.to_owned());
    let credential = Credential::new(Confidential::new(entra, &kit.landing.tenant, client_id, proof), timing);
    Client::new(azure.cloud.clone(), azure.http, credential, ClientOptions::default())
}

/// Tokens of the guest's accounts verify against the published keys, and Entra ID takes them for Azure's, if they were
/// made for it.
async fn tokens<P: Place>(kit: &Kit<P>, admin: &kube::Client, account: &Account) {
    account.exists(admin).await;
    let url = format!("{}/openid/v1/jwks", kit.landing.issuer);
    let request = http::Request::get(url).body(bytes::Bytes::new()).unwrap();
    let answer = kit.cloud().azure().http.send(request).await.unwrap();
    let keys: JwkSet = serde_json::from_value(answer.json().unwrap()).unwrap();
    let good = token(admin, account, "openshift").await;
    let kid = decode_header(&good).unwrap().kid.unwrap();
    let key = DecodingKey::from_jwk(keys.find(&kid).expect("the key is published")).unwrap();
    let mut rules = Validation::new(Algorithm::RS256);
    rules.set_audience(&["openshift"]);
    rules.set_issuer(&[&kit.landing.issuer]);
    let claims = decode::<Value>(&good, &key, &rules).unwrap().claims;
    assert_eq!(claims["sub"], format!("system:serviceaccount:{}:{}", account.namespace, account.name));

    let dir = kit.file("tokens");
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("good");
    std::fs::write(&file, &good).unwrap();
    pod(kit, &account.client_id, &file).send(account.call.clone()).await.unwrap();
    let file = dir.join("other");
    std::fs::write(&file, token(admin, account, "https://kubernetes.default.svc").await).unwrap();
    let refused = pod(kit, &account.client_id, &file).send(account.call.clone()).await.unwrap_err();
    assert!(matches!(refused, azure::Error::Token { .. }), "{refused:?}");
}

/// Moves the cluster to another release and waits until its control plane is there.
async fn upgrade<P: Place>(kit: &Kit<P>, name: &str, version: &str) {
    let image = kit.cloud().release(version).unwrap();
    kit.patch(name, json!({"spec": {"release": {"image": image}}})).await;
    let done = |s: &Value| {
        let first = &s["controlPlaneVersion"]["history"][0];
        first["version"] == version && first["state"] == "Completed" && is_true(s, "Available")
    };
    kit.until(name, &format!("control plane at {version}"), done).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_the_first_token_through_two_upgrades_to_the_end() {
    here(Flavour::Workload).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_with_managed_identities() {
    here(Flavour::Managed).await;
}

async fn here(flavour: Flavour) {
    let kit = Kit::start(flavour).await;
    assert_eq!(whole(&kit, flavour).await, Reached::End);
    kit.world.stop().await;
}

pub async fn whole<P: Place>(kit: &Kit<P>, flavour: Flavour) -> Reached {
    let demo = kit.sample("demo");
    let name = &demo.name;
    kit.create(&demo).await;
    if let Some(stuck) = kit.stuck(&demo).await {
        return stuck;
    }
    kit.available(name).await;
    let admin = kit.admin(name).await;
    tokens(kit, &admin, &Account::of(kit, flavour)).await;

    let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    Api::<Namespace>::all(admin).create(&Default::default(), &shop).await.unwrap();
    for (args, expected) in [
        (&["create", "namespace", "yard"][..], "namespace/yard created"),
        (&["-n", "shop", "create", "deployment", "web", "--image=x"], "deployment.apps/web created"),
        (&["auth", "can-i", "create", "pods"], "yes"),
        (&["auth", "can-i", "list", "secrets", "--as=system:serviceaccount:shop:default"], "no"),
        (&["-n", "shop", "create", "token", "default"], "eyJ"),
        (&["get", "clusterversion", "version", "-o=jsonpath={.status.desired.version}"], "4.19.3"),
    ] {
        if let Some((worked, text)) = kit.kubectl(name, args).await {
            // `can-i` says no by its code, too.
            assert!(text.contains(expected) && worked == (expected != "no"), "{args:?}: {text}");
        }
    }

    upgrade(kit, name, "4.19.4").await;
    upgrade(kit, name, "4.20.1").await;
    // What was written before is there, and the API answers at the same place.
    let spaces: Api<Namespace> = Api::all(kit.admin(name).await);
    spaces.get("shop").await.expect("what was written before the upgrades");

    let clusters = kit.api(&kinds::CLUSTER, NAMESPACE);
    clusters.delete(name, &DeleteParams::default()).await.unwrap();
    let gone = |o: Option<&DynamicObject>| o.is_none();
    let wait = kube::runtime::wait::await_condition(clusters, name, gone);
    if tokio::time::timeout(DEADLINE, wait).await.is_err() {
        panic!("it is never gone\n{}", kit.story(name).await);
    }
    let here: Api<Namespace> = Api::all(kit.client());
    let plane = demo.plane();
    let wait = kube::runtime::wait::await_condition(here, &plane, |o: Option<&Namespace>| o.is_none());
    tokio::time::timeout(DEADLINE, wait).await.expect("its namespace is gone").unwrap();
    Reached::End
}
