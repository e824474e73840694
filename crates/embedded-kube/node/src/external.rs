//! Nodes that come from elsewhere: a machine that booted joins with what it was given and lives on through the API.
//!
//! It sees nothing but a client, so it works against any cluster: it asks for a certificate with its bootstrap
//! identity, registers, renews its lease, and walks its pods through the same stages as every other node here. One
//! task per machine, which waits for three things: news of its pods, the next heartbeat, the next transition.

use crate::events::{self, Events};
use crate::node::{self, Addresses, NodeSpec};
use crate::pod::plan::{Surroundings, plan};
use crate::pod::{Facts, Memory, Note};
use crate::stage::{StageSet, mix};
use base64::Engine;
use clock::SharedClock;
use ek_auth::pki::Secret;
use ek_meta::{object, time};
use futures::TryStreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, WatchEvent, WatchParams};
use kube::core::ApiResource;
use kube::runtime::watcher;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Who signs certificates of kubelets.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Who signs those that kubelets serve with.
const SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";

#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("cannot make a key and a signing request")]
    Request(#[source] rcgen::Error),
    #[error("cannot {action}")]
    Api { action: &'static str, source: Box<kube::Error> },
    #[error("the signing request {name} was {verdict}: {message}")]
    Refused { name: String, verdict: String, message: String },
    #[error("the signing request {name} was deleted before it was signed")]
    Vanished { name: String },
    #[error("a certificate is not PEM")]
    Certificate,
    #[error("{0:?} is no address of a cluster")]
    Address(String),
}

fn api(action: &'static str) -> impl FnOnce(kube::Error) -> JoinError {
    move |e| JoinError::Api { action, source: Box::new(e) }
}

/// What a node is known by once it has joined.
#[derive(Clone, Debug)]
pub struct Identity {
    pub name: String,
    pub cert_pem: String,
    pub key_pem: Secret,
}

/// A certificate to serve with: asked for once a node is registered, as kubelets do.
#[derive(Clone, Debug, Default)]
pub struct ServingRequest {
    /// Addresses that are to be in it, besides the node's name.
    pub addresses: Vec<String>,
}

/// The object by which a node asks for a certificate.
fn request(
    mut params: CertificateParams,
    key: &KeyPair,
    node: &str,
    signer: &str,
    usage: &str,
) -> Result<CertificateSigningRequest, JoinError> {
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
    let pem = params.serialize_request(key).and_then(|r| r.pem()).map_err(JoinError::Request)?;
    let object = json!({
        "metadata": {"generateName": "node-csr-"},
        "spec": {"request": base64::engine::general_purpose::STANDARD.encode(pem), "signerName": signer,
            "usages": ["digital signature", "key encipherment", usage]},
    });
    Ok(serde_json::from_value(object).unwrap_or_default())
}

impl ServingRequest {
    /// Submits the request as the node; whoever approves it looks at the names in it.
    pub async fn submit(&self, node: &kube::Client, name: &str) -> Result<String, JoinError> {
        let key = KeyPair::generate().map_err(JoinError::Request)?;
        let names: Vec<String> =
            [name.to_owned()].into_iter().chain(self.addresses.iter().cloned()).collect();
        // An address among the names becomes an address in the certificate.
        let params = CertificateParams::new(names).map_err(JoinError::Request)?;
        let csr = request(params, &key, name, SERVING_SIGNER, "server auth")?;
        let all: Api<CertificateSigningRequest> = Api::all(node.clone());
        let made =
            all.create(&Default::default(), &csr).await.map_err(api("ask for a serving certificate"))?;
        Ok(made.metadata.name.unwrap_or_default())
    }
}

impl Identity {
    /// A key to ask with. It is kept before anybody is asked: who asks again with another is somebody else.
    pub fn draw() -> Result<Secret, JoinError> {
        Ok(Secret::new(KeyPair::generate().map_err(JoinError::Request)?.serialize_pem()))
    }

    /// Asks for a client certificate and waits until somebody approved and signed it. Bound the wait from outside:
    /// a cluster without an approver never answers.
    pub async fn request(
        bootstrap: &kube::Client,
        name: &str,
        key_pem: &Secret,
    ) -> Result<Identity, JoinError> {
        let key = KeyPair::from_pem(key_pem.expose()).map_err(JoinError::Request)?;
        let csr = request(CertificateParams::default(), &key, name, SIGNER, "client auth")?;
        let all: Api<CertificateSigningRequest> = Api::all(bootstrap.clone());
        let made = all.create(&Default::default(), &csr).await.map_err(api("ask for a certificate"))?;
        let made_name = made.metadata.name.clone().unwrap_or_default();
        let cert = signed(&all, made, &made_name).await?;
        let cert_pem = String::from_utf8(cert).map_err(|_| JoinError::Certificate)?;
        Ok(Identity { name: name.to_owned(), cert_pem, key_pem: key_pem.clone() })
    }
}

impl Identity {
    /// A client of the cluster at `url`, whose authority is `ca_pem`, that is this node.
    pub fn client(&self, url: &str, ca_pem: &str) -> Result<kube::Client, JoinError> {
        let b64 = |s: &str| base64::engine::general_purpose::STANDARD.encode(s);
        let user = json!({"client-certificate-data": b64(&self.cert_pem), "client-key-data": b64(self.key_pem.expose())});
        let mut config = kube::Config::new(url.parse().map_err(|_| JoinError::Address(url.to_owned()))?);
        config.auth_info = serde_json::from_value(user).unwrap_or_default();
        let der = CertificateDer::pem_slice_iter(ca_pem.as_bytes()).map(|c| c.map(|c| c.to_vec()));
        config.root_cert = Some(der.collect::<Result<_, _>>().map_err(|_| JoinError::Certificate)?);
        kube::Client::try_from(config).map_err(api("make a client"))
    }
}

/// The certificate, or why there will be none; `None`: not decided yet.
fn verdict(csr: &CertificateSigningRequest, name: &str) -> Option<Result<Vec<u8>, JoinError>> {
    let status = csr.status.as_ref()?;
    if let Some(cert) = status.certificate.as_ref().filter(|c| !c.0.is_empty()) {
        return Some(Ok(cert.0.clone()));
    }
    let no = status.conditions.iter().flatten().find(|c| matches!(c.type_.as_str(), "Denied" | "Failed"))?;
    Some(Err(JoinError::Refused {
        name: name.to_owned(),
        verdict: no.type_.to_lowercase(),
        message: no.message.clone().unwrap_or_default(),
    }))
}

async fn signed(
    all: &Api<CertificateSigningRequest>,
    made: CertificateSigningRequest,
    name: &str,
) -> Result<Vec<u8>, JoinError> {
    let mut known = made;
    loop {
        if let Some(v) = verdict(&known, name) {
            return v;
        }
        let from = known.metadata.resource_version.clone().unwrap_or_default();
        let params = WatchParams::default().fields(&format!("metadata.name={name}"));
        let news = all.watch(&params, &from).await.map_err(api("wait for the certificate"))?;
        let mut news = std::pin::pin!(news);
        while let Some(event) = news.try_next().await.map_err(api("wait for the certificate"))? {
            match event {
                WatchEvent::Added(c) | WatchEvent::Modified(c) => {
                    if let Some(v) = verdict(&c, name) {
                        return v;
                    }
                }
                WatchEvent::Deleted(_) => return Err(JoinError::Vanished { name: name.to_owned() }),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
            }
        }
        // The watch ended: look where things are, and go on from there.
        known = all.get(name).await.map_err(api("wait for the certificate"))?;
    }
}

/// How an external node lives.
#[derive(Clone)]
pub struct ExternalOptions {
    pub clock: SharedClock,
    pub seed: u64,
    pub stages: StageSet,
    pub heartbeat: Duration,
    pub events: Events,
    /// Whether it asks for a certificate to serve with; nothing here is served with it.
    pub serving: Option<ServingRequest>,
    /// Told of every pod that is to run here, and of what changes about it.
    pub heard: Option<Arc<dyn Fn(&Value) + Send + Sync>>,
}

impl ExternalOptions {
    pub fn new() -> ExternalOptions {
        ExternalOptions {
            clock: clock::system(),
            seed: 0,
            stages: StageSet::realistic(),
            heartbeat: Duration::from_secs(10),
            events: Events::All,
            serving: None,
            heard: None,
        }
    }
}

impl Default for ExternalOptions {
    fn default() -> ExternalOptions {
        ExternalOptions::new()
    }
}

/// A node on its own, with a client of the cluster it belongs to.
pub struct ExternalNode {
    name: String,
    client: kube::Client,
    options: ExternalOptions,
    address: String,
    network: Ipv4Addr,
    addresses: Addresses,
    pods: HashMap<String, (Value, Memory, Option<Timestamp>)>,
    uid: String,
    /// Whether heartbeats may have been missed: then somebody may have written it off.
    doubted: bool,
}

impl ExternalNode {
    /// Registers the Node, or takes up the one of that name. `client` speaks with the identity the node has by now.
    pub async fn register(
        client: kube::Client,
        name: &str,
        spec: &NodeSpec,
        options: ExternalOptions,
    ) -> Result<ExternalNode, JoinError> {
        let number = u32::try_from(mix(7, &[name], 0) % 0x7fff).unwrap_or(0);
        let id = format!("{:016x}{:016x}", mix(1, &[name], 0), mix(2, &[name], 0));
        let mut object = spec.object(name, number, options.clock.now(), &id);
        // Kept by its machine, not by this process.
        if let Some(a) = object["metadata"]["annotations"].as_object_mut() {
            a.remove(node::EMBEDDED);
        }
        let status = object["status"].clone();
        let there = match send(&client, "POST", "/api/v1/nodes", Some(&object)).await {
            Ok(n) => n,
            Err(kube::Error::Api(s)) if s.code == 409 => {
                send(&client, "GET", &format!("/api/v1/nodes/{name}"), None)
                    .await
                    .map_err(api("read the node"))?
            }
            Err(e) => return Err(api("register the node")(e)),
        };
        let patch = json!({"status": status});
        let path = format!("/api/v1/nodes/{name}/status");
        send(&client, "PATCH", &path, Some(&patch)).await.map_err(api("report the node's status"))?;
        let cidr = there["spec"]["podCIDR"].as_str().and_then(|c| c.split('/').next()?.parse().ok());
        Ok(ExternalNode {
            name: name.to_owned(),
            client,
            address: spec.address(number).to_string(),
            network: cidr.unwrap_or_else(|| node::pod_network(number)),
            addresses: Addresses::default(),
            pods: HashMap::new(),
            uid: object::uid(&there).to_owned(),
            doubted: false,
            options,
        })
    }

    /// Lives until told to stop; the Node stays, as that of a machine whose power went.
    pub async fn run(mut self, stop: CancellationToken) {
        let resource = ApiResource::erase::<Pod>(&());
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let config = watcher::Config::default().fields(&format!("spec.nodeName={}", self.name));
        let news = kube::runtime::WatchStreamExt::default_backoff(watcher(all, config));
        let mut news = Box::pin(news);
        if let Some(serving) = &self.options.serving
            && let Err(e) = serving.submit(&self.client, &self.name).await
        {
            tracing::debug!(node = self.name, error = %e, "no certificate to serve with was asked for");
        }
        let mut beat = tokio::time::interval(self.options.heartbeat.max(Duration::from_millis(10)));
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let wake = self.pods.values().filter_map(|(.., at)| *at).min();
            tokio::select! {
                () = stop.cancelled() => return,
                _ = beat.tick() => {
                    if let Err(e) = self.renew().await {
                        self.doubted = true;
                        tracing::debug!(node = self.name, error = %e, "a heartbeat did not arrive");
                    }
                }
                event = news.try_next() => match event {
                    Ok(Some(event)) => self.hear(event).await,
                    Ok(None) => return,
                    Err(e) => tracing::debug!(node = self.name, error = %e, "news of pods were interrupted"),
                },
                () = sleep_until(&self.options.clock, wake) => self.move_on().await,
            }
        }
    }

    async fn hear(&mut self, event: watcher::Event<DynamicObject>) {
        match event {
            watcher::Event::Apply(p) | watcher::Event::InitApply(p) => {
                let Ok(pod) = serde_json::to_value(&p) else { return };
                if let Some(heard) = &self.options.heard {
                    heard(&pod);
                }
                let key = format!("{}/{}", object::namespace(&pod), object::name(&pod));
                let ip = pod["status"]["podIP"].as_str().and_then(|ip| ip.parse().ok());
                if let Some(ip) = ip {
                    self.addresses.keep(self.network, object::uid(&pod), ip);
                }
                let memory = match self.pods.remove(&key) {
                    Some((old, m, _)) if object::uid(&old) == object::uid(&pod) => m,
                    _ => Memory::default(),
                };
                self.pods.insert(key.clone(), (pod, memory, None));
                self.sync(&key).await;
            }
            watcher::Event::Delete(p) => {
                let meta = p.metadata;
                let key = format!("{}/{}", meta.namespace.unwrap_or_default(), meta.name.unwrap_or_default());
                self.pods.remove(&key);
                self.addresses.free(&meta.uid.unwrap_or_default());
            }
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
    }

    async fn move_on(&mut self) {
        let now = self.options.clock.now();
        let due = |at: &Option<Timestamp>| at.is_some_and(|at| at <= now);
        let keys: Vec<String> =
            self.pods.iter().filter(|(_, (.., at))| due(at)).map(|(k, _)| k.clone()).collect();
        for key in keys {
            self.sync(&key).await;
        }
    }

    async fn sync(&mut self, key: &str) {
        let Some((pod, memory, at)) = self.pods.get_mut(key) else { return };
        *at = None;
        let ip = match pod["spec"]["hostNetwork"] == true {
            true => self.address.clone(),
            false => self.addresses.of(self.network, object::uid(pod)).to_string(),
        };
        let made = plan(
            pod,
            memory,
            &Surroundings {
                stages: &self.options.stages,
                seed: self.options.seed,
                now: self.options.clock.now(),
                host_ip: &self.address,
                pod_ip: &ip,
                facts: &Facts::new(),
                real: &|_| false,
            },
        );
        let path = format!("/api/v1/namespaces/{}/pods/{}", object::namespace(pod), object::name(pod));
        if made.changed {
            match send(&self.client, "PUT", &format!("{path}/status"), Some(&made.pod)).await {
                Ok(new) => *pod = new,
                // Somebody wrote to it: the watch tells of that, and the plan is made anew.
                Err(kube::Error::Api(s)) if s.code == 409 || s.code == 404 => return,
                Err(e) => {
                    tracing::debug!(key, error = %e, "a status was not written");
                    *at = self.options.clock.now().checked_add(SignedDuration::from_secs(1)).ok();
                    return;
                }
            }
        }
        (*memory, *at) = (made.memory, made.wake);
        let pod = pod.clone();
        self.record(&pod, &made.notes).await;
        if made.gone {
            let how = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": {"uid": object::uid(&pod)}});
            if let Err(e) = send(&self.client, "DELETE", &path, Some(&how)).await {
                tracing::debug!(key, error = %e, "a pod was not removed");
            }
        }
    }

    async fn record(&self, pod: &Value, notes: &[Note]) {
        let kept = self.options.events;
        for note in notes.iter().filter(|n| kept == Events::All || (kept == Events::Warnings && n.warning)) {
            let now = time::rfc3339(self.options.clock.now());
            let event = events::event(pod, note, &self.name, &now);
            let path = format!("/api/v1/namespaces/{}/events", object::namespace(pod));
            // The same one again is refused by its name; once is enough.
            let _ = send(&self.client, "POST", &path, Some(&event)).await;
        }
    }

    async fn renew(&mut self) -> Result<(), kube::Error> {
        let now = self.options.clock.now();
        let lease = node::lease(&self.name, &self.uid, now);
        let all = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        let patch = json!({"spec": lease["spec"]});
        match send(&self.client, "PATCH", &format!("{all}/{}", self.name), Some(&patch)).await {
            Err(kube::Error::Api(s)) if s.code == 404 => {
                _ = send(&self.client, "POST", all, Some(&lease)).await?
            }
            Err(e) => return Err(e),
            Ok(_) => {}
        }
        // A node whose lease never lapsed is not written off, and need not look at itself.
        if !self.doubted {
            return Ok(());
        }
        let path = format!("/api/v1/nodes/{}", self.name);
        let there = send(&self.client, "GET", &path, None).await?;
        let old = there["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if !old.iter().any(|c| c["type"] == "Ready" && c["status"] == "True") {
            let patch = json!({"status": {"conditions": node::conditions(now, &old)}});
            send(&self.client, "PATCH", &format!("{path}/status"), Some(&patch)).await?;
        }
        self.doubted = false;
        Ok(())
    }
}

async fn sleep_until(clock: &SharedClock, at: Option<Timestamp>) {
    let Some(at) = at else { return std::future::pending().await };
    let wait = at.duration_since(clock.now()).max(SignedDuration::ZERO);
    tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
}

/// A request takes this long at most. Who waited for ever for an API server that went would miss all heartbeats from then
/// on, and be written off although it runs.
const ANSWERED: Duration = Duration::from_secs(10);

/// One request; patches are merge patches.
async fn send(
    client: &kube::Client,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, kube::Error> {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let bytes = body.map(|b| b.to_string().into_bytes()).unwrap_or_default();
    let request = http::Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, kind);
    let request = request.body(bytes).map_err(kube::Error::HttpError)?;
    let late = |_| kube::Error::Service(format!("no answer within {ANSWERED:?}").into());
    tokio::time::timeout(ANSWERED, client.request(request)).await.map_err(late)?
}
