//! A machine that joins by itself.

use crate::kit::{Kit, condition};
use base64::Engine;
use bytes::Bytes;
use ek_auth::User;
use ek_node::{ExternalNode, ExternalOptions, Identity, NodeSpec, StageSet};
use ek_server::Deletion;
use ek_server::registry::table_name;
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;

/// What an approver and a signer do, in one.
async fn sign(kit: &Kit) {
    let table = table_name("certificates.k8s.io", "certificatesigningrequests");
    let waiting = |k: &Kit| k.access.table(&table).objects.keys().next().cloned();
    kit.until("a request", |k| waiting(k).is_some()).await;
    let name = waiting(kit).unwrap();
    let csr = kit.access.get(&table, "", &name).unwrap();
    let b64 = base64::engine::general_purpose::STANDARD;
    let request = String::from_utf8(b64.decode(csr["spec"]["request"].as_str().unwrap()).unwrap()).unwrap();
    let signer = csr["spec"]["signerName"].as_str().unwrap();
    let hour = SignedDuration::from_hours(1);
    let cert = kit.access.authority().sign_request(&request, signer, kit.access.now(), hour).unwrap();
    let put = |c: &mut Value| {
        c["status"] = json!({"certificate": b64.encode(&cert)});
        true
    };
    kit.access.update(&table, "", &name, "status", put).await.unwrap();
}

#[tokio::test]
async fn joins_beats_and_runs_pods() {
    let kit = Kit::live(|_| {}).await;
    let bootstrap = kit
        .server
        .client_as(User::new("system:bootstrap:abcdef", &["system:bootstrappers", "system:authenticated"]));
    let key = Identity::draw().unwrap();
    let refused = Identity::request(&bootstrap, "vm-1", &key).await;
    assert!(refused.is_err(), "nobody may ask without being allowed to");
    let admin = kit.server.client();
    let (identity, ()) = tokio::join!(Identity::request(&admin, "vm-1", &key), sign(&kit));
    let identity = identity.unwrap();
    assert!(identity.cert_pem.contains("BEGIN CERTIFICATE"));
    // From here on as the node, with what a node may do and no more, through the socket.
    let listening = kit.server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let client = identity.client(&format!("https://{}", listening.address), kit.server.ca_pem()).unwrap();
    let options = ExternalOptions { stages: StageSet::instant(), ..ExternalOptions::new() };
    let node = ExternalNode::register(client, "vm-1", &NodeSpec::default(), options).await.unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(node.run(stop.clone()));
    let nodes = table_name("", "nodes");
    assert_eq!(condition(&kit.access.get(&nodes, "", "vm-1").unwrap(), "Ready"), "True");
    kit.pod("a", |p| p["spec"]["nodeName"] = json!("vm-1")).await;
    kit.until("ready", |k| condition(&k.get("a"), "Ready") == "True").await;
    assert_eq!(kit.nodes.names("main"), ["n1"], "it is not one of ours");
    let leases = table_name("coordination.k8s.io", "leases");
    kit.until("a lease", |k| k.access.get(&leases, "kube-node-lease", "vm-1").is_some()).await;
    kit.access.delete(&table_name("", "pods"), "default", "a", Deletion::default()).await.unwrap();
    kit.until("gone", |k| k.get("a").is_null()).await;
    stop.cancel();
    task.await.unwrap();
    listening.drain().await;
}

/// An API server that goes in the midst of a request, and leaves it without an answer.
#[tokio::test(start_paused = true)]
async fn a_heartbeat_without_an_answer_is_not_the_last() {
    let beats = Arc::new(AtomicUsize::new(0));
    let counted = beats.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (path, patch) = (request.uri().path().to_owned(), request.method() == http::Method::PATCH);
        let nth = counted.fetch_add(usize::from(patch && path.contains("/leases/")), Ordering::SeqCst);
        async move {
            if path.contains("/pods") || (path.contains("/leases/") && nth == 0) {
                std::future::pending::<()>().await;
            }
            let node = json!({"kind": "Node", "metadata": {"name": "vm-1", "uid": "u"}}).to_string();
            Ok::<_, std::convert::Infallible>(http::Response::new(http_body_util::Full::<Bytes>::from(node)))
        }
    });
    let client = kube::Client::new(service, "default");
    let spec = NodeSpec::default();
    let node = ExternalNode::register(client, "vm-1", &spec, ExternalOptions::new()).await.unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(node.run(stop.clone()));
    // A minute of a clock that goes as fast as it may.
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    stop.cancel();
    task.await.unwrap();
    let beats = beats.load(Ordering::SeqCst);
    assert!(beats >= 4, "{beats} heartbeats in a minute");
}
