//! Data of guests that is encrypted by a key of a vault: from the start, through a change of the key, and while the vault
//! or the right to use it is away.

use crate::kit::{Kit, is_true};
use crate::place::{Place, Reached};
use crate::tools::{Kubectl, disk, grant, me, on_disk, principal, put, replace, revoke, says, until};
use arm::ResourceId;
use azure::ops::Vaults;
use azure::vault::{Attributes, KeyKind, NewKey};
use base64::Engine as _;
use ek_engine::ClusterId;
use futures::StreamExt;
use hypershift::kinds;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use world::sample::NAMESPACE;
use world::{Flavour, Landing, World};

const OFFICER: &str = "14b46e9e-c2b7-41b4-b07b-48a6ebf60603";
const USER: &str = "12338af0-0e69-4776-bea7-57ae8d297424";
pub const KEY: &str = "etcd";

/// A vault whose key a cluster may use.
pub struct Vault<'a, P> {
    kit: &'a Kit<P>,
    pub name: String,
    id: ResourceId,
    grant: ResourceId,
}

fn client_id(landing: &Landing) -> &str {
    let k = &landing.kms;
    k["workloadIdentity"]["clientID"].as_str().or_else(|| k["kms"]["clientID"].as_str()).unwrap()
}

impl<'a, P: Place> Vault<'a, P> {
    pub async fn make(kit: &'a Kit<P>, name: &str) -> Vault<'a, P> {
        let name = kit.named(name);
        let arm = kit.cloud().client.arm::<Vaults>();
        let id = arm.id(&kit.landing.layout.main, &name).unwrap();
        let body = json!({"location": world::landing::LOCATION, "properties": {"tenantId": kit.landing.tenant,
            "sku": {"family": "A", "name": "standard"}, "enableRbacAuthorization": true}});
        put::<Vaults>(kit, &id, body).await;
        grant(kit, &me(kit).await, OFFICER, &id).await;
        let grant = Vault::let_in(kit, &id).await;
        Vault { kit, name, id, grant }
    }

    async fn let_in(kit: &Kit<P>, id: &ResourceId) -> ResourceId {
        grant(kit, &principal(kit, client_id(&kit.landing)).await, USER, id).await
    }

    /// Another version of the key; the first makes it.
    pub async fn version(&self) -> String {
        let keys = self.kit.cloud().client.vault(&self.name).unwrap().keys();
        let made = keys.create(KEY, &NewKey::new(KeyKind::Rsa(2048))).await.unwrap();
        made.version().to_owned()
    }

    async fn disable(&self, version: &str) {
        let keys = self.kit.cloud().client.vault(&self.name).unwrap().keys();
        let off = Attributes { enabled: Some(false), ..Attributes::default() };
        keys.update(KEY, version, &off, None).await.unwrap();
    }

    fn change(&self, version: &str) -> Value {
        json!({"spec": {"secretEncryption": {"kms": {"azure": {"activeKey": {"keyVersion": version}}}}}})
    }
}

async fn write<P: Place>(kit: &Kit<P>, cluster: &str, name: &str) -> kube::Result<Secret> {
    let secrets: Api<Secret> = Api::namespaced(kit.admin(cluster).await, "default");
    let secret =
        json!({"metadata": {"name": name}, "stringData": {"password": format!("correct horse {name}")}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await
}

async fn read<P: Place>(kit: &Kit<P>, cluster: &str, name: &str) -> String {
    let secrets: Api<Secret> = Api::namespaced(kit.admin(cluster).await, "default");
    let data = secrets.get(name).await.unwrap().data.unwrap();
    String::from_utf8(data["password"].0.clone()).unwrap()
}

/// What a Secret that `write` made would look like to somebody who has the disk.
fn needle(name: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(format!("correct horse {name}"))
}

/// Under which names of providers a guest's objects are stored now.
fn providers(world: &World, plane: &str) -> Vec<String> {
    let main = ClusterId::new("main");
    let server = world.guests().server(&main, plane).expect("a guest");
    let guest = ClusterId::new(&ek_guest::Guests::name(&main, plane));
    let stored = server.store().sealed(&guest);
    assert!(stored.len() > 10, "little is sealed: {}", stored.len());
    let mut names: Vec<String> = stored
        .iter()
        .map(|s| {
            String::from_utf8_lossy(&s[..s.len().min(64)]).split(':').nth(4).unwrap_or_default().to_owned()
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_self_managed_cluster_is_encrypted_and_moves_to_another_key() {
    let kit = Kit::start(Flavour::Workload).await;
    assert_eq!(moves_to_another_key(&kit).await, Reached::End);
    kit.world.stop().await;
}

pub async fn moves_to_another_key<P: Place>(kit: &Kit<P>) -> Reached {
    let vault = Vault::make(kit, "demokms").await;
    let first = vault.version().await;
    let demo = kit.sample("demo").encrypted_by(&kit.landing, &vault.name, KEY, &first);
    let name = demo.name.as_str();
    kit.create(&demo).await;
    if let Some(stuck) = kit.stuck(&demo).await {
        return stuck;
    }
    kit.available(name).await;
    let plane = demo.plane();
    write(kit, name, "one").await.unwrap();
    if let Some(data) = disk(kit, &plane, 0).await {
        assert!(!on_disk(&data, needle("one").as_bytes()), "the secret is readable on disk");
        assert!(on_disk(&data, b"k8s:enc:kms:v2:azure-"), "and nothing is encrypted there");
    }
    let by = || kit.inside("which key objects are stored by").map(|world| providers(world, &plane));
    let before = by();
    assert!(before.as_ref().is_none_or(|b| b.len() == 1), "{before:?}");
    if let Some(kubectl) = Kubectl::new(kit, name, &kit.kubeconfig(name).await) {
        let (_, text) = kubectl.run(&["get", "secret", "one", "-o=jsonpath={.data.password}"]).await;
        assert_eq!(text, needle("one"));
    }

    // Another version of the key: every phase is seen, and what is written meanwhile can be read by all.
    let phases = Arc::new(Mutex::new(Vec::<String>::new()));
    let (seen, planes) = (phases.clone(), kit.api(&kinds::PLANE, &plane));
    let watching = tokio::spawn(async move {
        let mut all = std::pin::pin!(watcher(planes, watcher::Config::default()).applied_objects());
        while let Some(Ok(o)) = all.next().await {
            let state =
                o.data["status"]["secretEncryption"]["history"][0]["state"].as_str().map(str::to_owned);
            let mut seen = seen.lock().unwrap();
            if state.is_some() && seen.last() != state.as_ref() {
                seen.extend(state);
            }
        }
    });
    let second = vault.version().await;
    kit.patch(name, vault.change(&second)).await;
    let reached = |state: &'static str| {
        move |o: &kube::api::DynamicObject| {
            o.data["status"]["secretEncryption"]["history"][0]["state"] == state
        }
    };
    let planes = || kit.api(&kinds::PLANE, &plane);
    until(kit, name, "a new key is told", planes(), name, |o| {
        !o.data["status"]["secretEncryption"]["history"][0].is_null()
    })
    .await;
    let mut made = 0;
    while !reached("Completed")(&planes().get(name).await.unwrap()) {
        // An API server that is just being replaced may refuse; what it accepted must be there in the end.
        if write(kit, name, &format!("during-{made}")).await.is_ok() {
            made += 1;
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        assert!(made < 1000, "the rotation never ends\n{}", kit.story(name).await);
    }
    // What the watch tells may come a moment later.
    let told = async {
        while phases.lock().unwrap().last().map(String::as_str) != Some("Completed") {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(crate::kit::DEADLINE, told).await.expect("the end of the rotation is told");
    watching.abort();
    assert_eq!(*phases.lock().unwrap(), ["ReadOnlyDeploy", "WritePromote", "Migrating", "Completed"]);
    // API servers are told once more: to forget the old key.
    kit.until(name, "all data is told to be up to date", |s| {
        is_true(s, "EtcdDataEncryptionUpToDate") && is_true(s, "Available")
    })
    .await;
    let after = by();
    assert!(after.as_ref().is_none_or(|a| a.len() == 1 && after != before), "{before:?} {after:?}");

    // Nobody needs the old one any more: without it, and with API servers that know nothing yet, all is there.
    vault.disable(&first).await;
    replace(kit, name, "kube-apiserver").await;
    kit.available(name).await;
    assert_eq!(read(kit, name, "one").await, "correct horse one");
    for n in 0..made {
        assert_eq!(read(kit, name, &format!("during-{n}")).await, format!("correct horse during-{n}"));
    }

    // The right to use the key is taken away: an API server that starts now serves and is not ready, and that is said.
    revoke(kit, &vault.grant).await;
    let pods = kit.api(&crate::kit::POD, &plane);
    let labelled = kube::api::ListParams::default().labels("app=kube-apiserver");
    pods.delete_collection(&Default::default(), &labelled).await.unwrap();
    let said = |s: &Value| says(s, "KubeAPIServerAvailable", "False", "cannot encrypt with key etcd/");
    let o = kit.until(name, "the cause", said).await;
    assert!(!is_true(&o.data["status"], "Available"));
    let serves = async {
        loop {
            for pod in pods.list(&labelled).await.unwrap().items {
                let name = pod.metadata.name.unwrap();
                if kit.log(&plane, &name, "kube-apiserver").await.contains("connected to etcd") {
                    return;
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(crate::kit::DEADLINE, serves).await.expect("it serves");
    // Given back, it goes on without anybody's help.
    Vault::let_in(kit, &vault.id).await;
    kit.available(name).await;
    assert_eq!(read(kit, name, "one").await, "correct horse one");
    write(kit, name, "later").await.unwrap();
    Reached::End
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_managed_cluster_is_encrypted_and_survives_a_vault_that_is_away() {
    let kit = Kit::start(Flavour::Managed).await;
    assert_eq!(survives_its_vault(&kit).await, Reached::End);
    kit.world.stop().await;
}

pub async fn survives_its_vault<P: Place>(kit: &Kit<P>) -> Reached {
    let vault = Vault::make(kit, "prodkms").await;
    let version = vault.version().await;
    let prod = kit.sample("prod").highly_available().encrypted_by(&kit.landing, &vault.name, KEY, &version);
    let name = prod.name.as_str();
    kit.create(&prod).await;
    if let Some(stuck) = kit.stuck(&prod).await {
        return stuck;
    }
    let o = kit.available(name).await;
    assert!(
        says(&o.data["status"], "ValidAzureKMSConfig", "True", "the key encrypts"),
        "{}",
        kit.story(name).await
    );
    write(kit, name, "one").await.unwrap();
    for member in 0..3 {
        let Some(data) = disk(kit, &prod.plane(), member).await else { continue };
        assert!(!on_disk(&data, needle("one").as_bytes()), "the secret is readable on disk {member}");
        assert!(on_disk(&data, b"k8s:enc:kms:v2:azure-"), "{member}");
    }
    // The vault does not answer: keys that API servers hold go on, nothing is restarted, and the cause is told.
    let away = json!([{"name": "vault-away", "match": {"host": format!("{}.vault.azure.net", vault.name)},
        "then": {"answer": {"status": 503, "code": "ServiceUnavailable", "message": "the vault is away"}}}]);
    let rules = azure_sim::read_faults(away.to_string().as_bytes()).unwrap();
    kit.cloud().sim.world().add_faults(rules).unwrap();
    let said = |s: &Value| says(s, "KubeAPIServerAvailable", "False", &vault.name);
    kit.until(name, "the cause", said).await;
    let doubt = |s: &Value| says(s, "ValidAzureKMSConfig", "Unknown", "the vault is away");
    kit.until(name, "the key is not known to work", doubt).await;
    assert!(kit.cloud().sim.world().remove_fault("vault-away"));
    kit.until(name, "Available again", |s| is_true(s, "Available") && is_true(s, "ValidAzureKMSConfig"))
        .await;
    assert_eq!(read(kit, name, "one").await, "correct horse one");
    let clusters = kit.api(&kinds::CLUSTER, NAMESPACE);
    assert!(clusters.get(name).await.is_ok());
    Reached::End
}
