//! Who signs requests for certificates in a guest, and how that passes from one controller manager to the next.
//!
//! While a Deployment rolls, two of them run at once. The one that goes must not take away what the other has brought;
//! when the last one is gone, requests wait and none fails.

use crate::kit::{DEADLINE, Hosted, Kit, image, is_ready};
use crate::pki::new_authority;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ek_auth::pki::Authority;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{Api, PostParams};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

const NS: &str = "clusters-s";

/// A controller manager with an authority of its own.
async fn manager(kit: &Kit, name: &str, authority: &Authority) {
    let pair = authority.pair();
    let data = json!({"tls.crt": STANDARD.encode(&pair.cert_pem), "tls.key": STANDARD.encode(pair.key_pem.expose())});
    kit.put("secrets", json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NS}, "data": data}))
        .await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NS, "labels": {"app": "kube-controller-manager"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "kcm", "image": image("hyperkube"),
            "command": ["hyperkube", "kube-controller-manager"],
            "args": ["--root-ca-file=/keys/tls.crt", "--cluster-signing-cert-file=/keys/tls.crt", "--cluster-signing-key-file=/keys/tls.key"],
            "volumeMounts": [{"name": "keys", "mountPath": "/keys"}]}],
            "volumes": [{"name": "keys", "secret": {"secretName": name}}]}});
    kit.put("pods", pod).await;
    kit.until(&format!("{name} runs"), |k| is_ready(&k.get("pods", NS, name))).await;
}

async fn gone(kit: &Kit, name: &str) {
    kit.delete("pods", NS, name).await;
    kit.until(&format!("{name} is gone"), |k| k.get("pods", NS, name).is_null()).await;
}

fn requests(client: &kube::Client) -> Api<CertificateSigningRequest> {
    Api::all(client.clone())
}

/// An approved request of somebody.
async fn ask(client: &kube::Client, name: &str) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let csr = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"signerName": "kubernetes.io/kube-apiserver-client", "request": STANDARD.encode(pem),
            "usages": ["digital signature", "client auth"]}});
    let api = requests(client);
    let mut made = api.create(&PostParams::default(), &serde_json::from_value(csr).unwrap()).await.unwrap();
    let approved =
        json!({"conditions": [{"type": "Approved", "status": "True", "reason": "Test", "message": ""}]});
    made.status = serde_json::from_value(approved).unwrap();
    api.patch_approval(name, &Default::default(), &kube::api::Patch::Merge(&json!({"status": made.status})))
        .await
        .unwrap();
}

/// Waits until it is signed, and by whom.
async fn signed_by(client: &kube::Client, name: &str, authority: &str) {
    let has = |c: Option<&CertificateSigningRequest>| {
        c.and_then(|c| c.status.as_ref()).is_some_and(|s| s.certificate.is_some())
    };
    let wait = kube::runtime::wait::await_condition(requests(client), name, has);
    let csr = tokio::time::timeout(DEADLINE, wait).await.expect("a certificate").unwrap().unwrap();
    let pem = String::from_utf8(csr.status.unwrap().certificate.unwrap().0).unwrap();
    let body: String = pem.lines().filter(|l| !l.starts_with("-----")).collect();
    let der = STANDARD.decode(body).unwrap();
    assert!(
        der.windows(authority.len()).any(|w| w == authority.as_bytes()),
        "{name} is not signed by {authority}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signer_passes_from_one_controller_manager_to_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let kit = Kit::start(dir.path()).await;
    let hosted = Hosted::new(NS);
    hosted.deploy(&kit).await;
    hosted.up(&kit).await;
    let guest = kit.client(&hosted, &hosted.pki.admin()).await;
    // Nobody signs yet: a request waits, and is not refused.
    ask(&guest, "early").await;
    manager(&kit, "first", &new_authority("signer-one")).await;
    signed_by(&guest, "early", "signer-one").await;
    // The successor is there before the first is gone.
    manager(&kit, "second", &new_authority("signer-two")).await;
    ask(&guest, "both").await;
    signed_by(&guest, "both", "signer-two").await;
    gone(&kit, "first").await;
    ask(&guest, "after").await;
    signed_by(&guest, "after", "signer-two").await;
    // The last one takes its keys along.
    gone(&kit, "second").await;
    ask(&guest, "nobody").await;
    // Another authority, as after a rotation: what waited is signed by it.
    manager(&kit, "third", &new_authority("signer-three")).await;
    signed_by(&guest, "nobody", "signer-three").await;
    let failed = |c: &Value| c["type"] == "Failed";
    for csr in requests(&guest).list(&Default::default()).await.unwrap() {
        let status = serde_json::to_value(&csr.status).unwrap();
        assert!(!status["conditions"].as_array().into_iter().flatten().any(failed), "{status}");
    }
    kit.stop().await;
}
