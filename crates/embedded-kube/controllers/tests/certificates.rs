//! Certificates for kubelets and others.

use crate::world::World;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

fn request(cn: &str, o: &str) -> String {
    let mut p = CertificateParams::default();
    let mut dn = DistinguishedName::new();
    dn.push(DnType::CommonName, cn);
    dn.push(DnType::OrganizationName, o);
    p.distinguished_name = dn;
    let pem = p.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    STANDARD.encode(pem)
}

fn csr(name: &str, signer: &str, cn: &str, o: &str) -> Value {
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"signerName": signer, "request": request(cn, o), "usages": ["digital signature", "client auth"]}})
}

const TABLE: &str = "certificates.k8s.io/certificatesigningrequests";

#[tokio::test]
async fn kubelets_are_approved_others_wait_for_somebody() {
    let w = World::new().await;
    w.create(
        TABLE,
        csr("node", "kubernetes.io/kube-apiserver-client-kubelet", "system:node:n1", "system:nodes"),
    )
    .await;
    w.create(TABLE, csr("fake", "kubernetes.io/kube-apiserver-client-kubelet", "bob", "system:nodes")).await;
    w.create(TABLE, csr("alice", "kubernetes.io/kube-apiserver-client", "alice", "dev")).await;
    w.settle().await;
    let status = |n: &str| w.get(TABLE, n)["status"].clone();
    assert_eq!(status("node")["conditions"][0]["reason"], "AutoApproved");
    let cert = STANDARD.decode(status("node")["certificate"].as_str().unwrap()).unwrap();
    assert!(cert.starts_with(b"-----BEGIN CERTIFICATE-----"));
    assert!(status("fake")["conditions"].is_null() && status("alice")["conditions"].is_null());
    let approve = |c: &mut Value| {
        c["status"]["conditions"] =
            json!([{"type": "Approved", "status": "True", "reason": "Test", "message": ""}]);
        true
    };
    for name in ["fake", "alice"] {
        w.access.update(&crate::world::table(TABLE), "", name, "approval", approve).await.unwrap();
    }
    w.settle().await;
    assert!(status("alice")["certificate"].is_string());
    let failed = status("fake")["conditions"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&failed["type"], &failed["reason"]), (&json!("Failed"), &json!("SignerValidationFailure")));
    w.pass(3700).await;
    assert!(w.names(TABLE).is_empty(), "what is decided is kept an hour");
}
