//! A guest whose data is encrypted by a key of a vault.

use crate::aro;
use crate::kit::is_ready;
use crate::stage::{NS, Stage};
use azure::ops::Vaults;
use azure::vault::{KeyKind, NewKey};
use base64::Engine;
use control_plane::scope::{Encryption, KmsKey, Who};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

const ADMINISTRATOR: &str = "00482a5a-887f-4fb3-b363-3b7fe8e74483";
const CRYPTO_USER: &str = "12338af0-0e69-4776-bea7-57ae8d297424";

fn on_disk(dir: &Path, needle: &[u8]) -> bool {
    std::fs::read_dir(dir).unwrap().flatten().any(|e| {
        if e.path().is_dir() {
            return on_disk(&e.path(), needle);
        }
        std::fs::read(e.path()).unwrap_or_default().windows(needle.len()).any(|w| w == needle)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_keys_are_encrypted_by_the_vault() {
    let mut stage = Stage::start().await;
    let m = aro::managed(&stage);
    let mut scope = aro::scope(&stage, &m).await;
    // A vault for keys, which the owner may fill and the identity may not use yet.
    let arm = stage.azure.client.arm::<Vaults>();
    let vault = arm.id(&m.group_id().unwrap(), "demo-kms").unwrap();
    stage
        .put::<Vaults>(
            &vault,
            json!({"location": "westus2", "properties": {"tenantId": scope.azure.tenant,
            "sku": {"family": "A", "name": "standard"}, "enableRbacAuthorization": true}}),
        )
        .await;
    let world = stage.azure.sim.world();
    world.assign(world.owner_object(), ADMINISTRATOR, vault.as_str());
    let keys = stage.azure.client.vault("demo-kms").unwrap().keys();
    let key = keys.create("etcd", &NewKey::new(KeyKind::Rsa(2048))).await.unwrap();
    let active = KmsKey {
        vault: "demo-kms".into(),
        name: "etcd".into(),
        version: key.version().to_owned(),
        managed_hsm: false,
    };
    let provider = control_plane::config::encryption::provider_name(&active);
    scope.encryption = Some(Encryption::Kms { active, backup: None, private: false });
    // What production renders for the API server, put into the one we have.
    let row = control_plane::table::find("kube-apiserver").unwrap();
    let objects = control_plane::render::one(&scope, row, &crate::facts::Names).unwrap().objects;
    let rendered = objects.last().unwrap()["spec"]["template"]["spec"].clone();
    let of = |list: &str, names: &[&str]| -> Vec<Value> {
        let all = rendered[list].as_array().unwrap().iter();
        all.filter(|v| names.contains(&v["name"].as_str().unwrap())).cloned().collect()
    };
    let sidecars = of("containers", &["azure-kms-provider-active"]);
    assert_eq!(sidecars.len(), 1);
    let mounted = sidecars[0]["volumeMounts"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap());
    let volumes = of("volumes", &mounted.collect::<Vec<_>>());
    assert!(
        volumes.iter().any(|v| v["csi"]["volumeAttributes"]["secretProviderClass"] == "managed-azure-kms")
    );
    stage.hosted.adapt = Some(Box::new(move |pod| {
        pod["containers"].as_array_mut().unwrap().extend(sidecars.clone());
        pod["volumes"].as_array_mut().unwrap().extend(volumes.clone());
    }));
    let find = |name: &str| objects.iter().find(|o| o["metadata"]["name"] == name).unwrap().clone();
    let config = find("kas-secret-encryption-config");
    stage.hosted.encryption = Some(serde_yaml(config["stringData"]["config.yaml"].as_str().unwrap()));
    stage.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})).await;
    stage.apply(find("azure-kms-config")).await;
    // The operator of HostedClusters writes this one.
    let mut class = control_plane::inject::provider_class(&scope, "managed-azure-kms", Who::Kms).unwrap();
    class["metadata"]["namespace"] = json!(NS);
    stage.apply(class).await;
    stage.hosted.deploy(&stage.kit).await;

    // Without a role for the key the plugin ends, and the API server does not come up.
    stage.ended("kube-apiserver", "cannot encrypt with key etcd/").await;
    let words = stage.last_words("kube-apiserver");
    assert!(words.contains("demo-kms") && words.contains("Forbidden"), "{words}");
    assert!(!stage.pods("kube-apiserver").iter().any(is_ready));

    // With it, it does, without anybody's help.
    let client_id = scope.identity.client_id(Who::Kms).unwrap();
    let principal = stage.azure.client.graph().service_principal_of(client_id).await.unwrap().unwrap();
    stage.azure.sim.world().assign(&principal.id, CRYPTO_USER, vault.as_str());
    let guest = stage.guest().await;
    let secrets: Api<Secret> = Api::namespaced(guest, "default");
    let secret = Secret {
        metadata: ObjectMeta { name: Some("quiet".into()), ..ObjectMeta::default() },
        string_data: Some(BTreeMap::from([("password".to_owned(), "correct horse battery".to_owned())])),
        ..Secret::default()
    };
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let data = stage.kit.claim(NS, 0).join("data");
    let needle = base64::engine::general_purpose::STANDARD.encode("correct horse battery");
    assert!(!on_disk(&data, needle.as_bytes()), "the secret is readable on disk");
    assert!(on_disk(&data, format!("k8s:enc:kms:v2:{provider}:").as_bytes()));

    // Another API server has the old data key decrypted by the vault.
    let old: Vec<Value> = stage.pods("kube-apiserver").iter().map(|p| p["metadata"]["uid"].clone()).collect();
    stage.replace("kube-apiserver").await;
    stage
        .until("another API server", || {
            let fresh = |p: &Value| is_ready(p) && !old.contains(&p["metadata"]["uid"]);
            stage.pods("kube-apiserver").iter().any(fresh)
        })
        .await;
    let guest = stage.kit.client(&stage.hosted, &stage.hosted.pki.admin()).await;
    let secrets: Api<Secret> = Api::namespaced(guest, "default");
    let read = secrets.get("quiet").await.unwrap().data.unwrap();
    assert_eq!(read["password"].0, b"correct horse battery");
    stage.kit.stop().await;
}

fn serde_yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}
