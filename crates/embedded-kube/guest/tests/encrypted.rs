//! Encryption at rest, as it lies on the members' disks.

use crate::kit::{Hosted, Kit};
use base64::Engine as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

fn config(keys: &[(&str, u8)]) -> Value {
    let encode = |b: u8| base64::engine::general_purpose::STANDARD.encode([b; 32]);
    let keys: Vec<Value> = keys.iter().map(|(n, b)| json!({"name": n, "secret": encode(*b)})).collect();
    json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": [{"aescbc": {"keys": keys}}, {"identity": {}}]}]})
}

/// Whether some file below a directory has these bytes in it.
fn on_disk(dir: &Path, needle: &[u8]) -> bool {
    std::fs::read_dir(dir).unwrap().flatten().any(|e| match e.path() {
        p if p.is_dir() => on_disk(&p, needle),
        p => std::fs::read(p).unwrap().windows(needle.len()).any(|w| w == needle),
    })
}

/// The API servers start anew, as a changed configuration makes them.
async fn roll(kit: &Kit, hosted: &Hosted) {
    let ns = hosted.pki.ns.as_str();
    hosted.put_files(kit).await;
    kit.edit("apps/deployments", ns, "kube-apiserver", |d| d["spec"]["replicas"] = json!(0)).await;
    kit.until("no API server", |k| k.pods(ns, "kube-apiserver").is_empty()).await;
    kit.edit("apps/deployments", ns, "kube-apiserver", |d| d["spec"]["replicas"] = json!(1)).await;
    hosted.up(kit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_sealed_on_disk_and_move_to_a_new_key() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::start(dir.path()).await;
    let mut hosted = Hosted::new("clusters-e");
    hosted.encryption = Some(config(&[("one", 1)]));
    hosted.deploy(&kit).await;
    hosted.up(&kit).await;
    let admin = hosted.pki.admin();
    let secrets: Api<Secret> = Api::namespaced(kit.client(&hosted, &admin).await, "default");
    let secret = Secret {
        metadata: ObjectMeta { name: Some("quiet".into()), ..ObjectMeta::default() },
        string_data: Some(BTreeMap::from([("password".to_owned(), "correct horse battery".to_owned())])),
        ..Secret::default()
    };
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let needle = base64::engine::general_purpose::STANDARD.encode("correct horse battery");
    let data = kit.claim("clusters-e", 0).join("data");
    assert!(!on_disk(&data, needle.as_bytes()), "the secret is readable on disk");
    assert!(on_disk(&data, b"k8s:enc:aescbc:v1:one:"));
    assert!(on_disk(&data, b"kube-system"), "the others are not sealed");

    // A second key writes; the first still reads, until everything was written again.
    hosted.encryption = Some(config(&[("two", 2), ("one", 1)]));
    roll(&kit, &hosted).await;
    let secrets: Api<Secret> = Api::namespaced(kit.client(&hosted, &admin).await, "default");
    let before = secrets.get("quiet").await.unwrap();
    assert!(!on_disk(&data, b"k8s:enc:aescbc:v1:two:"), "nothing moved by itself");
    // As the storage version migrator does it: an update that changes nothing.
    secrets.replace("quiet", &PostParams::default(), &before).await.unwrap();
    assert!(on_disk(&data, b"k8s:enc:aescbc:v1:two:"));
    let after = secrets.get("quiet").await.unwrap();
    assert_ne!(before.metadata.resource_version, after.metadata.resource_version);
    assert_eq!(before.data, after.data);
    secrets.replace("quiet", &PostParams::default(), &after).await.unwrap();
    let again = secrets.get("quiet").await.unwrap();
    assert_eq!(
        again.metadata.resource_version, after.metadata.resource_version,
        "now there is nothing to do"
    );
    let server = kit.guests.server(&Kit::id(), "clusters-e").unwrap();
    assert_eq!(server.rewrite("", "secrets").await.unwrap(), 0);

    // Back to the first key alone: what the second wrote cannot be read, and is not taken for absent.
    hosted.encryption = Some(config(&[("one", 1)]));
    roll(&kit, &hosted).await;
    let secrets: Api<Secret> = Api::namespaced(kit.client(&hosted, &admin).await, "default");
    let e = secrets.get("quiet").await.unwrap_err().to_string();
    assert!(e.contains("no matching key was found for the provided AES transformer"), "{e}");
    let e = secrets.list(&ListParams::default()).await.unwrap_err().to_string();
    assert!(e.contains("unable to transform key \"/kubernetes.io/secrets/default/quiet\""), "{e}");
    assert!(secrets.create(&PostParams::default(), &secret).await.is_err(), "its name is taken");
    // With the key again, after a restart of everything.
    hosted.encryption = Some(config(&[("two", 2)]));
    hosted.put_files(&kit).await;
    kit.stop().await;
    let kit = Kit::start(dir.path()).await;
    hosted.up(&kit).await;
    let secrets: Api<Secret> = Api::namespaced(kit.client(&hosted, &admin).await, "default");
    assert_eq!(secrets.get("quiet").await.unwrap().data, after.data);
    kit.stop().await;
}
