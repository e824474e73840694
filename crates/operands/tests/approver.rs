//! Requests of nodes against an API server: who is let in, and what a stranger with the shared identity gets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ek_auth::User;
use ek_server::{ApiServer, Config};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest as Csr;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use operands::approver::{MACHINE, Setup};
use rcgen::{CertificateParams, DnType, KeyPair};
use reconcile::{Kind, Metrics, Runtime};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const NS: &str = "clusters-demo";
const BOOTSTRAPPER: &str = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";
const CRDS: Kind =
    Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
        .cluster_wide();

/// One server is both clusters: the management cluster has the Machine, the guest the requests.
struct World {
    server: ApiServer,
    running: tokio::task::JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn start() -> World {
    let server = ApiServer::start(Config::memory()).await.unwrap();
    let client = server.client();
    let machines =
        apis::crds().into_iter().find(|c| c.metadata.name.as_deref() == Some("machines.cluster.x-k8s.io"));
    let crd = serde_json::from_value(serde_json::to_value(machines.unwrap()).unwrap()).unwrap();
    CRDS.api(&client, "").create(&PostParams::default(), &crd).await.unwrap();
    let ns = json!({"metadata": {"name": NS}});
    let spaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    spaces.create(&PostParams::default(), &serde_json::from_value(ns).unwrap()).await.unwrap();
    // Who asks may ask; nothing else is looked at here.
    let binding = json!({"metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated"}]});
    let bindings: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> = Api::all(client.clone());
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    let metrics = Metrics::default();
    let mut runtime = Runtime::new(clock::system(), &metrics);
    let setup = Setup {
        management: client.clone(),
        namespace: NS.into(),
        guest: client.clone(),
        clock: clock::system(),
        metrics,
        say: Arc::new(|_| {}),
    };
    operands::approver::start(&mut runtime, setup);
    let running = tokio::spawn(async move {
        runtime.run(tokio_util::sync::CancellationToken::new()).await;
    });
    World { server, running }
}

impl World {
    async fn machine(&self, name: &str) {
        let api = MACHINE.api(&self.server.client(), NS);
        let o = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": {"name": name, "namespace": NS},
            "spec": {"clusterName": "demo", "bootstrap": {"dataSecretName": "x"}, "infrastructureRef": {"kind": "AzureMachine", "name": name}}});
        api.create(&PostParams::default(), &serde_json::from_value(o).unwrap()).await.unwrap();
        let status = json!({"status": {"addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": "10.0.0.5"}]}});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }

    async fn ask(&self, user: &User, request: &str, node: &str, key: &KeyPair, names: &[&str]) {
        let mut params =
            CertificateParams::new(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
        let pem = params.serialize_request(key).unwrap().pem().unwrap();
        let (signer, usage) = match names.is_empty() {
            true => ("kubernetes.io/kube-apiserver-client-kubelet", "client auth"),
            false => ("kubernetes.io/kubelet-serving", "server auth"),
        };
        let csr = json!({"metadata": {"name": request}, "spec": {"request": STANDARD.encode(pem), "signerName": signer,
            "usages": ["digital signature", usage]}});
        let api: Api<Csr> = Api::all(self.server.client_as(user.clone()));
        api.create(&PostParams::default(), &serde_json::from_value(csr).unwrap()).await.unwrap();
    }

    async fn until(&self, what: &str, good: impl AsyncFn() -> bool) {
        for _ in 0..500 {
            if good().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("not within 10 s: {what}");
    }

    async fn is_approved(&self, request: &str) -> bool {
        let api: Api<Csr> = Api::all(self.server.client());
        let status = api.get(request).await.unwrap().status.unwrap_or_default();
        status.conditions.iter().flatten().any(|c| c.type_ == "Approved")
    }

    async fn approved(&self, request: &str) {
        self.until(&format!("{request} is approved"), async || self.is_approved(request).await).await;
    }

    /// Left undecided, and an event says why.
    async fn refused(&self, request: &str, word: &str) {
        let events: Api<Event> = Api::namespaced(self.server.client(), "default");
        self.until(&format!("{request} is refused: {word}"), async || {
            let all = events.list(&ListParams::default()).await.unwrap().items;
            let told = |e: &Event| {
                e.involved_object.name.as_deref() == Some(request)
                    && e.message.as_deref().is_some_and(|m| m.contains(word))
            };
            all.iter().any(told)
        })
        .await;
        assert!(!self.is_approved(request).await, "{request}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replays_and_strange_names_are_refused() {
    let w = start().await;
    let shared = User::new(
        BOOTSTRAPPER,
        &["system:serviceaccounts:openshift-machine-config-operator", "system:authenticated"],
    );
    let (mine, theirs) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    w.ask(&shared, "nobody", "workers-x7", &mine, &[]).await;
    w.refused("nobody", "no Machine is expected").await;
    w.machine("workers-x7").await;
    w.approved("nobody").await;
    // No Node yet, and somebody else who read a payload asks for the same name.
    w.ask(&shared, "replay", "workers-x7", &theirs, &[]).await;
    w.refused("replay", "given to another key").await;
    // The machine itself starts again before it joined.
    w.ask(&shared, "again", "workers-x7", &mine, &[]).await;
    w.approved("again").await;
    // Two keys at once: one of them is let in, whichever it is.
    w.machine("workers-y8").await;
    for (request, key) in [("both-1", &mine), ("both-2", &theirs)] {
        w.ask(&shared, request, "workers-y8", key, &[]).await;
    }
    w.until("one of both", async || w.is_approved("both-1").await || w.is_approved("both-2").await).await;
    let other = if w.is_approved("both-1").await { "both-2" } else { "both-1" };
    w.refused(other, "given to another key").await;

    let node = User::new("system:node:workers-x7", &["system:nodes", "system:authenticated"]);
    for (request, names, word) in [
        ("name", ["workers-x7", "api.example.com"], "no name of Machine"),
        ("address", ["workers-x7", "10.0.0.6"], "no address of Machine"),
    ] {
        w.ask(&node, request, "workers-x7", &mine, &names).await;
        w.refused(request, word).await;
    }
    w.ask(&node, "serving", "workers-x7", &mine, &["workers-x7", "10.0.0.5"]).await;
    w.approved("serving").await;
}
