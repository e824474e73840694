//! An admission webhook that is a program behind a Service.

use crate::kit::{Kit, condition};
use base64::Engine;
use bytes::Bytes;
use ek_node::{FnProgram, ProgramContext};
use ek_server::registry::table_name;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;

/// Refuses ConfigMaps that say so, over TLS with the certificate from its volume.
async fn guard(ctx: ProgramContext) -> i32 {
    let read = |name: &str| std::fs::read(ctx.path(format!("/tls/{name}")).unwrap()).unwrap();
    let certs = vec![CertificateDer::from_pem_slice(&read("tls.crt")).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(&read("tls.key")).unwrap();
    let tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(certs, key).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = ctx.listener(8443).await.unwrap();
    loop {
        let tcp = tokio::select! {
            () = ctx.stopping().cancelled() => return 0,
            a = listener.accept() => a.unwrap().0,
        };
        let Ok(tls) = acceptor.accept(tcp).await else { continue };
        let ctx = ctx.clone();
        tokio::spawn(async move {
            let service = service_fn(move |req: http::Request<hyper::body::Incoming>| {
                let ctx = ctx.clone();
                async move {
                    let body = req.into_body().collect().await.unwrap().to_bytes();
                    if body.is_empty() {
                        return Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from("ok"))));
                    }
                    let review: Value = serde_json::from_slice(&body).unwrap();
                    let object = &review["request"]["object"];
                    let bad = object["data"]["forbidden"] == "yes";
                    ctx.log(format!("asked about {}", object["metadata"]["name"]));
                    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                        "response": {"uid": review["request"]["uid"], "allowed": !bad, "status": {"message": "it says so itself"}}});
                    Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(answer.to_string()))))
                }
            });
            let _ =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tls), service).await;
        });
    }
}

#[tokio::test]
async fn a_program_decides_what_is_admitted() {
    let kit = Kit::live(|o| {
        o.programs.register("test/guard", FnProgram(guard));
    })
    .await;
    let pair =
        kit.access.authority().issue_server(&["guard.default.svc".into()], &[], kit.access.now()).unwrap();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "guard", "namespace": "default"}, "type": "kubernetes.io/tls",
        "stringData": {"tls.crt": pair.cert_pem, "tls.key": pair.key_pem.expose()}});
    kit.create("secrets", secret).await;
    kit.pod("guard", |p| {
        p["metadata"]["labels"] = json!({"app": "guard"});
        p["spec"]["volumes"] = json!([{"name": "tls", "secret": {"secretName": "guard"}}]);
        p["spec"]["containers"] = json!([{"name": "main", "image": "test/guard", "ports": [{"containerPort": 8443}], "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
            "readinessProbe": {"httpGet": {"scheme": "HTTPS", "port": 8443, "path": "/"}, "periodSeconds": 1}}]);
    })
    .await;
    kit.create(
        "services",
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "guard", "namespace": "default"},
        "spec": {"selector": {"app": "guard"}, "ports": [{"port": 443, "targetPort": 8443}]}}),
    )
    .await;
    kit.until("ready", |k| condition(&k.get("guard"), "Ready") == "True").await;
    let get = http::Request::get("/api/v1/namespaces/default/services/https:guard:443/proxy/")
        .body(Vec::new())
        .unwrap();
    assert_eq!(kit.server.client().request_text(get).await.unwrap(), "ok");
    let ca = base64::engine::general_purpose::STANDARD.encode(kit.access.ca_pem());
    let hook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "guard"},
        "webhooks": [{"name": "guard.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "guard", "namespace": "default", "port": 443}, "caBundle": ca},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]}]});
    kit.access
        .create(&table_name("admissionregistration.k8s.io", "validatingwebhookconfigurations"), hook)
        .await
        .unwrap();
    let map = |name: &str, forbidden: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"forbidden": forbidden}});
    kit.create("configmaps", map("good", "no")).await;
    let refused = kit.access.create(&table_name("", "configmaps"), map("bad", "yes")).await.unwrap_err();
    assert!(refused.message.contains("denied the request: it says so itself"), "{}", refused.message);
}
