//! A management cluster with the operator in it, and somebody who stands in for the control plane.

use crate::samples;
use apis::hypershift::HostedCluster;
use control_plane::scope::Release;
use ek_server::{ApiServer, Config};
use futures::future::BoxFuture;
use hypershift::around::{Management, NoRelease, Payload, Surroundings};
use hypershift::nodepool::capacity::List;
use hypershift::preflight::{Asked, Preflight, Verdict};
use hypershift::{kinds, operate};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use parking_lot::Mutex;
use reconcile::{Backoff, Handle, Kind, Metrics, Options, Runtime};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A release with the images that the operators run.
pub fn release(version: &str) -> Release {
    let images: BTreeMap<String, String> =
        ["cluster-capi-controllers", "azure-cluster-api-controllers", "hypershift"]
            .map(|k| (k.to_owned(), format!("quay.example/release@sha256:{k}")))
            .into();
    Release {
        image: format!("quay.example/ocp-release:{version}"),
        version: version.to_owned(),
        kubernetes: "1.33.5".into(),
        images: images.into(),
        ours: "quay.example/zaffre:dev".into(),
        registry_overrides: String::new(),
    }
}

/// Releases from 4.20 on say what their machines boot from.
pub fn boot_images(version: &str) -> Arc<[hypershift::BootImage]> {
    let old = version.parse::<apis::version::Version>().is_ok_and(|v| v.ordinal() < 20);
    let image = |first: bool| hypershift::BootImage {
        arch: "x86_64".into(),
        first_generation: first,
        publisher: "azureopenshift".into(),
        offer: "aro4".into(),
        sku: if first { "aro_420" } else { "420-v2" }.into(),
        version: "420.0.20260101".into(),
    };
    if old { [].into() } else { [image(false), image(true)].into() }
}

/// Tells the operator what it must know. Images say their version in their tag.
pub struct Told {
    pub verdict: Mutex<Option<Verdict>>,
    /// What Azure was asked last.
    pub last: Mutex<Option<Asked>>,
    pub asked: AtomicUsize,
    pub looked_up: AtomicUsize,
    pub group_gone: Mutex<bool>,
    /// What Azure sells; nothing: it does not say.
    pub sizes: Mutex<Option<List>>,
    pub listed: AtomicUsize,
    /// Whether there is an account for sizes, whoever else may ask.
    pub catalogue: AtomicBool,
    /// What the subscription uses; nothing: nobody may look.
    pub usages: Mutex<Option<Vec<arm::types::Usage>>>,
    pub shard: Mutex<operate::Shard>,
    /// Whether clusters are sorted by size.
    pub sizing: AtomicBool,
    /// Whether no DNS knows any name.
    pub nameless: AtomicBool,
    /// Whether the management cluster has no Routes.
    pub routeless: AtomicBool,
    /// The router that clusters share.
    pub shared_ingress: Mutex<Option<String>>,
}

impl Default for Told {
    fn default() -> Told {
        Told {
            verdict: Mutex::new(Some(Verdict::default())),
            last: Mutex::default(),
            asked: AtomicUsize::new(0),
            looked_up: AtomicUsize::new(0),
            group_gone: Mutex::new(false),
            sizes: Mutex::default(),
            listed: AtomicUsize::new(0),
            catalogue: AtomicBool::new(false),
            usages: Mutex::default(),
            shard: Mutex::default(),
            sizing: AtomicBool::new(false),
            nameless: AtomicBool::new(false),
            routeless: AtomicBool::new(false),
            shared_ingress: Mutex::default(),
        }
    }
}

pub struct Around(pub Arc<Told>);

struct Azure(Arc<Told>);

impl Preflight for Azure {
    fn ask<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Verdict> {
        *self.0.last.lock() = Some(asked.clone());
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        let verdict = self.0.verdict.lock().clone().unwrap_or_default();
        Box::pin(async move { verdict })
    }

    fn group_gone<'a>(&'a self, _: &'a Asked) -> BoxFuture<'a, bool> {
        let gone = *self.0.group_gone.lock();
        Box::pin(async move { gone })
    }

    fn sizes<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<List, String>> {
        self.0.listed.fetch_add(1, Ordering::SeqCst);
        let sizes = self.0.sizes.lock().clone();
        Box::pin(async move { sizes.ok_or_else(|| "Azure does not say".to_owned()) })
    }

    fn usages<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Vec<arm::types::Usage>, String>> {
        let usages = self.0.usages.lock().clone();
        Box::pin(async move { usages.ok_or_else(|| "AuthorizationFailed".to_owned()) })
    }
}

impl Surroundings for Around {
    fn release<'a>(
        &'a self,
        _: &'a HostedCluster,
        image: &'a str,
        _: &'a [u8],
    ) -> BoxFuture<'a, Result<Payload, NoRelease>> {
        self.0.looked_up.fetch_add(1, Ordering::SeqCst);
        let version = image.rsplit(':').next().unwrap_or_default().to_owned();
        Box::pin(async move {
            match version.as_str() {
                "none" => Err(NoRelease::Invalid("there is no such image".into())),
                "away" => Err(NoRelease::Unreachable("the registry does not answer".into())),
                v => Ok(Payload {
                    release: release(v),
                    arch: (v != "4.19.66").then_some(apis::hypershift::status::PayloadArch::Multi),
                    boot: boot_images(v),
                }),
            }
        })
    }

    fn management(&self) -> Management {
        Management { openshift: false, minor: 34, routes: !self.0.routeless.load(Ordering::SeqCst) }
    }

    fn resolves<'a>(&'a self, _: &'a str) -> BoxFuture<'a, bool> {
        let found = !self.0.nameless.load(Ordering::SeqCst);
        Box::pin(async move { found })
    }

    fn vault_reader(&self) -> String {
        "00000000-0000-0000-0000-0000000000aa".into()
    }

    fn home(&self) -> String {
        "hypershift".into()
    }

    fn shared_ingress(&self) -> Option<String> {
        self.0.shared_ingress.lock().clone()
    }

    fn sizing(&self) -> bool {
        self.0.sizing.load(Ordering::SeqCst)
    }

    fn catalogue(&self) -> Option<Arc<dyn Preflight>> {
        let alone = self.0.catalogue.load(Ordering::SeqCst);
        if alone { Some(Arc::new(Azure(self.0.clone()))) } else { self.preflight() }
    }

    fn preflight(&self) -> Option<Arc<dyn Preflight>> {
        self.0.verdict.lock().is_some().then(|| Arc::new(Azure(self.0.clone())) as Arc<dyn Preflight>)
    }
}

pub struct World {
    pub server: ApiServer,
    pub told: Arc<Told>,
    pub clock: Arc<clock::ManualClock>,
    engine: tokio::task::JoinHandle<()>,
}

/// An operator that runs; dropping it is a crash.
pub struct Running {
    pub handle: Handle,
    pub operator: Arc<operate::Operator>,
    pub metrics: Metrics,
    stop: CancellationToken,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

pub const CRDS: Kind =
    Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
        .cluster_wide();

pub fn served() -> BTreeSet<String> {
    kinds::SERVED
        .iter()
        .filter(|k| k.kind != "PodMonitor")
        .map(|k| format!("{}/{}", k.group, k.kind))
        .collect()
}

impl World {
    pub async fn start() -> World {
        let server = ApiServer::start(Config::memory()).await.unwrap();
        let engine =
            ek_engine::Engine::new(server.host(), ek_controllers::all(ek_controllers::Options::default()));
        let engine = tokio::spawn(async move { _ = engine.run().await });
        let client = server.client();
        for crd in apis::crds() {
            let o = serde_json::from_value(serde_json::to_value(crd).unwrap()).unwrap();
            CRDS.api(&client, "").create(&Default::default(), &o).await.unwrap();
        }
        let clock = clock::ManualClock::new("2026-03-01T00:00:00Z".parse().unwrap());
        let w = World { server, told: Arc::default(), clock, engine };
        w.create(&kinds::NAMESPACE, json!({"metadata": {"name": "clusters"}})).await;
        w.create(&kinds::NAMESPACE, json!({"metadata": {"name": "hypershift"}})).await;
        w
    }

    /// Everything a cluster names.
    pub async fn with_inputs(self) -> World {
        for input in samples::inputs() {
            self.create(&kinds::SECRET, input).await;
        }
        self
    }

    pub fn operate(&self) -> Running {
        self.operate_as(&self.server.client())
    }

    pub fn operate_as(&self, client: &kube::Client) -> Running {
        let metrics = Metrics::default();
        let mut runtime = Runtime::new(clock::system(), &metrics);
        let random = clock::Random::seeded(7);
        let around = Arc::new(Around(self.told.clone()));
        let (handle, operator) = operate::start_with(
            &mut runtime,
            client,
            operate::Setup {
                served: served(),
                clock: self.clock.clone(),
                random: &random,
                around,
                metrics: &metrics,
                shard: self.told.shard.lock().clone(),
                // Nobody learns anything from waiting.
                options: Options {
                    backoff: Backoff { first: Duration::from_millis(20), last: Duration::from_millis(500) },
                    ..Options::default()
                },
            },
        );
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { _ = runtime.run(stopped).await });
        Running { handle, operator, metrics, stop, task: Some(task) }
    }

    pub fn api(&self, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
        kind.api(&self.server.client(), namespace)
    }

    pub async fn create(&self, kind: &Kind, mut o: Value) -> DynamicObject {
        (o["apiVersion"], o["kind"]) = (json!(kind.api_version()), json!(kind.kind));
        let namespace = o["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let o = serde_json::from_value(o).unwrap();
        self.api(kind, &namespace).create(&Default::default(), &o).await.unwrap()
    }

    pub async fn patch(&self, kind: &Kind, namespace: &str, name: &str, patch: Value) {
        self.api(kind, namespace).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// Waits until an object is as it should be.
    pub async fn until(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        what: &str,
        good: impl Fn(Option<&DynamicObject>) -> bool,
    ) -> Option<DynamicObject> {
        let wait = kube::runtime::wait::await_condition(self.api(kind, namespace), name, &good);
        match tokio::time::timeout(Duration::from_secs(30), wait).await {
            Ok(o) => o.unwrap(),
            Err(_) => {
                let o = self.api(kind, namespace).get_opt(name).await.unwrap();
                if let Some(hc) = self.api(&kinds::CLUSTER, "clusters").get_opt("demo").await.unwrap() {
                    for c in hc.data["status"]["conditions"].as_array().into_iter().flatten() {
                        eprintln!("{} {} {}: {}", c["type"], c["status"], c["reason"], c["message"]);
                    }
                }
                panic!(
                    "{} {namespace}/{name} never had {what}: {:#?}",
                    kind.kind,
                    o.map(|o| (o.metadata, o.data))
                );
            }
        }
    }

    /// Waits for a condition of the cluster.
    pub async fn condition(&self, kind: &str, status: &str) -> Value {
        let o = self
            .until(&kinds::CLUSTER, "clusters", "demo", &format!("{kind}={status}"), |o| {
                o.is_some_and(|o| condition(o, kind)["status"] == status)
            })
            .await
            .unwrap();
        condition(&o, kind).clone()
    }

    /// What the control plane's operator would report.
    pub async fn report(&self, status: Value) {
        let there = |o: Option<&DynamicObject>| o.is_some();
        self.until(&kinds::PLANE, "clusters-demo", "demo", "being", there).await;
        let patch = json!({"status": status});
        let api = self.api(&kinds::PLANE, "clusters-demo");
        api.patch_status("demo", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// A control plane that is up, with its kubeconfig and password.
    pub async fn report_available(&self) {
        let there = |o: Option<&DynamicObject>| o.is_some();
        self.until(&kinds::PLANE, "clusters-demo", "demo", "being", there).await;
        let secret = |name: &str, key: &str| {
            json!({"metadata": {"name": name, "namespace": "clusters-demo",
                "labels": {"hypershift.openshift.io/hosted-control-plane": "clusters-demo"}}, "stringData": {key: name}})
        };
        self.create(&kinds::SECRET, secret("admin-kubeconfig", "kubeconfig")).await;
        self.create(&kinds::SECRET, secret("kubeadmin-password", "password")).await;
        self.report(available("4.19.3")).await;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.engine.abort();
    }
}

/// What an available control plane reports.
pub fn available(version: &str) -> Value {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "AsExpected", "message": "", "lastTransitionTime": "2026-03-01T00:00:00Z"});
    let image = format!("quay.example/ocp-release:{version}");
    json!({
        "ready": true, "initialized": true, "externalManagedControlPlane": true,
        "controlPlaneEndpoint": {"host": "20.1.2.3", "port": 7443},
        "kubeConfig": {"name": "admin-kubeconfig", "key": "kubeconfig"},
        "kubeadminPassword": {"name": "kubeadmin-password"},
        "controlPlaneVersion": {"desired": {"image": image, "version": version}, "observedGeneration": 1,
            "history": [{"state": "Completed", "startedTime": "2026-03-01T00:00:00Z", "completionTime": "2026-03-01T00:01:00Z",
                "version": version, "image": image}]},
        "conditions": [condition("Available", "True"), condition("KubeAPIServerAvailable", "True"),
            condition("EtcdAvailable", "True"), condition("InfrastructureReady", "True"), condition("Degraded", "False"),
            condition("ClusterVersionFailing", "False"), condition("ClusterVersionUpgradeable", "True")],
    })
}

pub fn condition<'a>(o: &'a DynamicObject, kind: &str) -> &'a Value {
    let list = o.data["status"]["conditions"].as_array();
    list.into_iter().flatten().find(|c| c["type"] == kind).unwrap_or(&Value::Null)
}
