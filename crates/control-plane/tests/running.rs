//! A control plane in a management cluster, with simulated pods.

use crate::world::release;
use apis::hypershift::HostedControlPlane;
use control_plane::operate::{self, Setup, Surroundings, Tenants, Verdict};
use control_plane::scope::{Management, Release, Scope};
use ek_controllers::all;
use ek_node::{NodeSpec, Nodes, StageSet};
use ek_server::{ApiServer, Config};
use futures::future::BoxFuture;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use reconcile::{Failure, Handle, Metrics, Runtime};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Tells the operator what it must know; the release is what the object's image names.
#[derive(Default)]
struct Told {
    azure: Arc<std::sync::Mutex<Option<Verdict>>>,
    /// The API does not answer.
    dead: Arc<std::sync::atomic::AtomicBool>,
    /// The registry does not answer.
    away: Arc<std::sync::atomic::AtomicBool>,
}

/// The only issuer that answers.
const ISSUER: &str = "https://login.example/tenant";

impl Surroundings for Told {
    fn release<'a>(&'a self, hcp: &'a HostedControlPlane) -> BoxFuture<'a, Result<Release, Failure>> {
        let version = control_plane::facts::image(hcp).rsplit(':').next().unwrap_or_default().to_owned();
        let away = self.away.load(std::sync::atomic::Ordering::Relaxed);
        Box::pin(async move {
            if away {
                return Err("the registry does not answer".into());
            }
            if version == "none" { Err("there is no such release".into()) } else { Ok(release(&version)) }
        })
    }

    fn healthy<'a>(&'a self, _: &'a Scope) -> BoxFuture<'a, Result<(), String>> {
        let dead = self.dead.load(std::sync::atomic::Ordering::Relaxed);
        Box::pin(async move { if dead { Err("nobody answers".to_owned()) } else { Ok(()) } })
    }

    fn management(&self, _: &str) -> Management {
        Management { uid: Some(1001), minor: 34, ..Management::default() }
    }

    fn vault_reader(&self) -> String {
        String::new()
    }

    fn propagation(&self) -> jiff::SignedDuration {
        jiff::SignedDuration::ZERO
    }

    fn openid<'a>(&'a self, issuer: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move {
            match issuer {
                ISSUER => Ok(json!({"authorization_endpoint": "https://login.example/a",
                    "token_endpoint": "https://login.example/t"})),
                _ => Err("no such host".to_owned()),
            }
        })
    }

    fn azure<'a>(&'a self, _: &'a Scope) -> BoxFuture<'a, Verdict> {
        Box::pin(async { self.azure.lock().unwrap().clone().unwrap_or(Verdict::Good) })
    }
}

pub struct World {
    server: ApiServer,
    handle: Handle,
    pub stop: CancellationToken,
    metrics: Metrics,
    _dir: tempfile::TempDir,
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version,
        kind: kind.into(),
        plural: plural.into(),
    }
}

impl World {
    pub async fn start() -> World {
        World::serving(Tenants::all()).await
    }

    async fn serving(tenants: Arc<Tenants>) -> World {
        World::told(tenants, Told::default()).await
    }

    async fn told(tenants: Arc<Tenants>, told: Told) -> World {
        let dir = tempfile::tempdir().unwrap();
        let server = ApiServer::start(Config::memory()).await.unwrap();
        let mut options = ek_node::Options::new(dir.path());
        options.stages = StageSet::instant();
        let nodes = Nodes::new(server.host(), options);
        let mut controllers = nodes.controllers();
        controllers.extend(all(ek_controllers::Options::default()));
        let engine = ek_engine::Engine::new(server.host(), controllers);
        nodes.attach(&engine);
        for i in 1..=3 {
            nodes.add_node("main", &format!("node-{i}"), NodeSpec::default()).await.unwrap();
        }
        tokio::spawn(engine.run());
        let client = server.client();
        let crds: Api<DynamicObject> = Api::all_with(
            client.clone(),
            &resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
        );
        for crd in apis::crds() {
            crds.create(
                &Default::default(),
                &serde_json::from_value(serde_json::to_value(crd).unwrap()).unwrap(),
            )
            .await
            .unwrap();
        }
        let names: Api<DynamicObject> =
            Api::all_with(client.clone(), &resource("", "v1", "Namespace", "namespaces"));
        let ns = json!({"metadata": {"name": "clusters-demo"}});
        names.create(&Default::default(), &serde_json::from_value(ns).unwrap()).await.unwrap();
        // What `zaffre install` brings.
        let classes: Api<DynamicObject> = Api::all_with(
            client.clone(),
            &resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses"),
        );
        for (name, value) in
            [("control-plane", 100_000_000), ("api-critical", 100_001_000), ("etcd", 100_002_000)]
        {
            let class = json!({"metadata": {"name": format!("hypershift-{name}")}, "value": value});
            classes.create(&Default::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
        }
        let accounts: Api<DynamicObject> = Api::namespaced_with(
            client.clone(),
            "clusters-demo",
            &resource("", "v1", "ServiceAccount", "serviceaccounts"),
        );
        let account = json!({"metadata": {"name": "control-plane-operator"}});
        accounts.create(&Default::default(), &serde_json::from_value(account).unwrap()).await.unwrap();
        let (handle, stop, metrics) = World::operate(&client, tenants, told);
        World { server, handle, stop, metrics, _dir: dir }
    }

    /// The operator is another one from now on, which remembers nothing.
    async fn restart(&mut self, told: Told) {
        self.stop.cancel();
        (self.handle, self.stop, self.metrics) = World::operate(&self.server.client(), Tenants::all(), told);
    }

    fn operate(
        client: &kube::Client,
        tenants: Arc<Tenants>,
        told: Told,
    ) -> (Handle, CancellationToken, Metrics) {
        let metrics = Metrics::default();
        let mut runtime = Runtime::new(clock::system(), &metrics);
        let served = [
            "hypershift.openshift.io/ControlPlaneComponent",
            "hypershift.openshift.io/HCPEtcdBackup",
            "hypershift.openshift.io/AzurePrivateLinkService",
            "route.openshift.io/Route",
            "secrets-store.csi.x-k8s.io/SecretProviderClass",
        ];
        let served = served.map(str::to_owned).into();
        let random = clock::Random::seeded(7);
        let setup = Setup {
            served,
            clock: clock::system(),
            random: &random,
            around: Arc::new(told),
            metrics: &metrics,
            tenants,
            namespace: None,
            only: Default::default(),
        };
        let handle = operate::start(&mut runtime, client, setup);
        let stop = CancellationToken::new();
        tokio::spawn(runtime.run(stop.clone()));
        (handle, stop, metrics)
    }

    pub fn api(&self, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.server.client(), "clusters-demo", &resource(group, version, kind, plural))
    }

    pub fn planes(&self) -> Api<DynamicObject> {
        self.api("hypershift.openshift.io", "v1beta1", "HostedControlPlane", "hostedcontrolplanes")
    }

    async fn create(&self, change: impl FnOnce(&mut Value)) {
        self.create_alone(change).await;
        self.operands().await;
    }

    /// What the storage operator makes beside itself; its pod is simulated here and makes nothing.
    async fn operands(&self) {
        let deployments = self.api("apps", "v1", "Deployment", "deployments");
        for name in control_plane::table::OPERANDS {
            let labels = json!({"app": name});
            let made = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "csi"}]}}}});
            deployments.create(&Default::default(), &serde_json::from_value(made).unwrap()).await.unwrap();
        }
    }

    pub async fn create_alone(&self, change: impl FnOnce(&mut Value)) {
        for name in ["pull-secret", "sa-signing-key"] {
            let secret = json!({"metadata": {"name": name, "namespace": "clusters-demo",
                "labels": {"hypershift.openshift.io/hosted-control-plane": "clusters-demo"}}, "data": {}});
            let api = self.api("", "v1", "Secret", "secrets");
            api.create(&Default::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
        }
        let mut object = crate::facts::object();
        change(&mut object);
        self.planes().create(&Default::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    /// Waits for a condition of the control plane, and says how things stand if it never comes.
    async fn until(&self, kind: &str, status: &str) -> DynamicObject {
        let seen = |o: Option<&DynamicObject>| {
            let conditions = o.and_then(|o| o.data["status"]["conditions"].as_array());
            conditions.into_iter().flatten().any(|c| c["type"] == kind && c["status"] == status)
        };
        let wait = kube::runtime::wait::await_condition(self.planes(), "demo", seen);
        match tokio::time::timeout(Duration::from_secs(240), wait).await {
            Ok(o) => o.unwrap().unwrap(),
            Err(_) => {
                let events = self.api("", "v1", "Event", "events").list(&Default::default()).await.unwrap();
                for e in events.items.iter().filter(|e| e.data["type"] == "Warning") {
                    eprintln!(
                        "{} {}: {}",
                        e.data["involvedObject"]["name"], e.data["reason"], e.data["message"]
                    );
                }
                let o = self.planes().get("demo").await.unwrap();
                panic!(
                    "{kind} never became {status}: {:#}\n{:#?}",
                    o.data["status"],
                    self.handle.explain("clusters-demo/demo")
                );
            }
        }
    }

    /// The balancer's address, as a cloud would give it.
    pub async fn give_address(&self) {
        let services = self.api("", "v1", "Service", "services");
        let there = |o: Option<&DynamicObject>| o.is_some();
        kube::runtime::wait::await_condition(services.clone(), "kube-apiserverlb", there).await.unwrap();
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "20.1.2.3"}]}}});
        services
            .patch_status("kube-apiserverlb", &PatchParams::default(), &Patch::Merge(&status))
            .await
            .unwrap();
    }

    /// How often the operator has run.
    fn runs(&self) -> i64 {
        let text = self.metrics.text();
        let lines = text.lines().filter(|l| l.starts_with("controller_runtime_reconcile_total"));
        lines.filter_map(|l| l.rsplit(' ').next()?.parse::<i64>().ok()).sum()
    }

    /// How long all runs took.
    fn seconds(&self) -> f64 {
        let text = self.metrics.text();
        let line = text.lines().find(|l| l.starts_with("controller_runtime_reconcile_time_seconds_sum"));
        line.and_then(|l| l.rsplit(' ').next()?.parse().ok()).unwrap()
    }

    /// Objects that were rendered to be applied, written or not.
    fn applies(&self) -> i64 {
        let text = self.metrics.text();
        let lines = text.lines().filter(|l| l.starts_with("reconcile_applies_total"));
        lines.filter_map(|l| l.rsplit(' ').next()?.parse::<i64>().ok()).sum()
    }

    /// Asks for a run and waits for its end.
    async fn run(&self) {
        let runs = self.runs();
        self.handle.poke("clusters-demo/demo");
        let run = async {
            while self.runs() == runs {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), run).await.unwrap();
    }

    /// Waits until nothing is waited for, and nothing moves any more.
    async fn settled(&self) {
        let settled = async {
            loop {
                let runs = self.runs();
                tokio::time::sleep(Duration::from_millis(300)).await;
                let waiting = self.handle.explain("clusters-demo/demo").waiting;
                if waiting.is_empty() && self.runs() == runs {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(240), settled).await.unwrap();
    }
}

fn condition<'a>(o: &'a DynamicObject, kind: &str) -> &'a Value {
    let list = o.data["status"]["conditions"].as_array().unwrap();
    list.iter().find(|c| c["type"] == kind).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_an_object_to_a_control_plane_and_through_an_upgrade() {
    let w = World::start().await;
    w.create_alone(|_| {}).await;
    let held = w.until("InfrastructureReady", "False").await;
    assert_eq!(condition(&held, "InfrastructureReady")["reason"], "WaitingOnInfrastructureReady");
    w.give_address().await;
    let o = w.until("Available", "True").await;
    assert_eq!(o.data["status"]["ready"], true);
    assert_eq!(o.data["status"]["controlPlaneEndpoint"], json!({"host": "20.1.2.3", "port": 7443}));
    let components =
        w.api("hypershift.openshift.io", "v1beta1", "ControlPlaneComponent", "controlplanecomponents");
    let scope_components = control_plane::table::all().len();
    assert!(components.list(&Default::default()).await.unwrap().items.len() > scope_components / 2);

    // It serves without the drivers of volumes, and is not rolled out before they are there.
    let storage = |status: &'static str, words: &'static str| {
        move |o: Option<&DynamicObject>| {
            let rollout = o.map(|o| condition(o, "RolloutComplete").clone()).unwrap_or_default();
            rollout["status"] == status && rollout["message"].as_str().is_some_and(|m| m.contains(words))
        }
    };
    let until = async |so: Box<dyn Fn(Option<&DynamicObject>) -> bool + Send>| {
        let wait = kube::runtime::wait::await_condition(components.clone(), "cluster-storage-operator", so);
        tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap().unwrap().unwrap()
    };
    let o =
        until(Box::new(storage("False", "azure-disk-csi-driver-operator, azure-disk-csi-driver-controller")))
            .await;
    assert_eq!(condition(&o, "RolloutComplete")["reason"], "WaitingForOperands");
    assert!(o.data["status"]["version"].is_null(), "{}", o.data["status"]);
    let history = |o: &DynamicObject| o.data["status"]["controlPlaneVersion"]["history"][0]["state"].clone();
    assert_eq!(history(&w.planes().get("demo").await.unwrap()), "Partial");
    w.operands().await;
    let o = until(Box::new(storage("True", ""))).await;
    let parts = o.data["status"]["resources"].as_array().unwrap();
    let own = json!({"group": "apps", "kind": "Deployment", "name": "cluster-storage-operator"});
    assert!(parts.contains(&own) && parts.iter().any(|p| p["kind"] == "Role"), "{parts:?}");

    // What aggregated APIs are dialled at was not known before there were Services; a watch told.
    let services = w.api("", "v1", "Service", "services");
    let mut dialled = Vec::new();
    for (name, _) in control_plane::publish::AGGREGATED {
        let service = services.get(name).await.unwrap();
        dialled.push(format!("ipv4={}", service.data["spec"]["clusterIP"].as_str().unwrap()));
    }
    let agent = w.api("apps", "v1", "Deployment", "deployments").get("konnectivity-agent").await.unwrap();
    let args = &agent.data["spec"]["template"]["spec"]["containers"][0]["args"];
    assert!(args.as_array().unwrap().contains(&json!(dialled.join("&"))), "{args}");

    // Another release: every component is rendered again, in order, and the history says so.
    let change = json!({"spec": {"releaseImage": "quay.example/ocp-release:4.19.4"}});
    w.planes().patch("demo", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    let done = |o: Option<&DynamicObject>| {
        let first = o.map(|o| &o.data["status"]["controlPlaneVersion"]["history"][0]);
        first.is_some_and(|f| f["version"] == "4.19.4" && f["state"] == "Completed")
    };
    let wait = kube::runtime::wait::await_condition(w.planes(), "demo", done);
    let o = tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap().unwrap().unwrap();
    assert_eq!(o.data["status"]["controlPlaneVersion"]["history"].as_array().unwrap().len(), 2);
    assert_eq!(condition(&o, "Available")["status"], "True", "it was never away");
    // Settled: more runs write nothing, and do not even render.
    w.settled().await;
    let (before, version) = (w.applies(), w.planes().get("demo").await.unwrap().metadata.resource_version);
    let (spent, runs) = (w.seconds(), w.runs());
    for _ in 0..100 {
        w.run().await;
    }
    println!("a settled run: {:.2} ms", (w.seconds() - spent) * 1000.0 / (w.runs() - runs) as f64);
    assert_eq!(w.applies(), before, "nothing was rendered");
    let now = w.planes().get("demo").await.unwrap().metadata.resource_version;
    assert_eq!(now, version);

    // Somebody changes what is ours, or takes it away: it is put right, and nothing else is looked at.
    let deployments = w.api("apps", "v1", "Deployment", "deployments");
    let other = json!({"spec": {"replicas": 7, "template": {"spec": {"priorityClassName": null}}}});
    deployments.patch("dns-operator", &PatchParams::default(), &Patch::Merge(&other)).await.unwrap();
    let maps = w.api("", "v1", "ConfigMap", "configmaps");
    maps.delete("kas-config", &Default::default()).await.unwrap();
    let right = |o: Option<&DynamicObject>| {
        o.is_some_and(|o| {
            o.data["spec"]["replicas"] == 1
                && o.data["spec"]["template"]["spec"]["priorityClassName"] == "hypershift-control-plane"
        })
    };
    let wait = kube::runtime::wait::await_condition(deployments, "dns-operator", right);
    tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap().unwrap();
    let wait =
        kube::runtime::wait::await_condition(maps, "kas-config", |o: Option<&DynamicObject>| o.is_some());
    tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap().unwrap();
    w.settled().await;
    let repaired = w.applies() - before;
    assert!((2..60).contains(&repaired), "{repaired} objects were applied to repair two");

    // A component that is not wanted any more goes with all it had, and comes back when it is.
    let own = [
        w.api("apps", "v1", "Deployment", "deployments"),
        w.api("", "v1", "Service", "services"),
        w.api("", "v1", "ServiceAccount", "serviceaccounts"),
        w.api("rbac.authorization.k8s.io", "v1", "Role", "roles"),
        components,
    ];
    for (word, wanted) in [(json!("true"), false), (Value::Null, true)] {
        let change =
            json!({"metadata": {"annotations": {"hypershift.openshift.io/disable-ignition-server": word}}});
        w.planes().patch("demo", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
        for api in &own {
            let so = move |o: Option<&DynamicObject>| o.is_some() == wanted;
            let wait = kube::runtime::wait::await_condition(api.clone(), "ignition-server", so);
            tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap().unwrap();
        }
        w.settled().await;
        let services = w.api("", "v1", "Service", "services").list(&Default::default()).await.unwrap();
        assert!(services.items.iter().any(|s| s.metadata.name.as_deref() == Some("etcd-client")));
    }
    w.stop.cancel();
}

/// Nothing is done in a namespace that is not served; when it is, at once.
/// Who keeps machines is applied by the operator of HostedClusters, and is a component like the others to who looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_bring_is_told_of_while_it_is_there() {
    let w = World::start().await;
    w.create(|_| {}).await;
    w.give_address().await;
    w.until("Available", "True").await;
    let deployments = w.api("apps", "v1", "Deployment", "deployments");
    let labels = json!({"hypershift.openshift.io/control-plane-component": "capi-provider",
        "hypershift.openshift.io/hosted-control-plane": "clusters-demo"});
    let brought = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "capi-provider", "namespace": "clusters-demo", "labels": labels},
        "spec": {"selector": {"matchLabels": {"app": "capi-provider"}}, "template": {
            "metadata": {"labels": {"app": "capi-provider"}},
            "spec": {"containers": [{"name": "manager", "image": "m"}]}}}});
    deployments.create(&Default::default(), &serde_json::from_value(brought).unwrap()).await.unwrap();
    let components =
        w.api("hypershift.openshift.io", "v1beta1", "ControlPlaneComponent", "controlplanecomponents");
    let until = async |so: fn(Option<&DynamicObject>) -> bool| {
        let wait = kube::runtime::wait::await_condition(components.clone(), "capi-provider", so);
        tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap().unwrap()
    };
    let rolled = |o: Option<&DynamicObject>| {
        o.is_some_and(|o| {
            let all = o.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            !all.is_empty() && all.iter().all(|c| c["status"] == "True")
        })
    };
    until(rolled).await;
    deployments.delete("capi-provider", &Default::default()).await.unwrap();
    until(|o| o.is_none()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_serves_whom_it_admits() {
    let tenants = Tenants::admitted();
    let w = World::serving(tenants.clone()).await;
    w.create(|_| {}).await;
    w.run().await;
    assert_eq!(w.applies(), 0);
    assert!(w.planes().get("demo").await.unwrap().data.get("status").is_none());
    tenants.admit("clusters-demo");
    w.until("InfrastructureReady", "False").await;
    tenants.dismiss("clusters-demo");
    w.give_address().await;
    w.run().await;
    let o = w.planes().get("demo").await.unwrap();
    assert_eq!(condition(&o, "InfrastructureReady")["status"], "False", "nobody looks any more");
    tenants.admit("clusters-demo");
    w.until("Available", "True").await;
    w.stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_holds_it_up_is_said() {
    let w = World::start().await;
    w.create(|o| o["spec"]["releaseImage"] = json!("quay.example/ocp-release:none")).await;
    let o = w.until("ValidReleaseInfo", "False").await;
    assert_eq!(condition(&o, "ValidReleaseInfo")["message"], "there is no such release");
    assert_eq!(condition(&o, "Available")["status"], "False");
    w.stop.cancel();
}

/// A registry that has gone, or a release that nobody has, holds up a change; what serves serves on, and is told as it is. So
/// it is under a pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_serves_is_told_as_it_is_whatever_holds_up_a_change() {
    use std::sync::atomic::Ordering::Relaxed;
    let dead = Arc::default();
    let w = World::told(Tenants::all(), Told { dead: Arc::clone(&dead), ..Told::default() }).await;
    w.create(|_| {}).await;
    w.give_address().await;
    w.until("Available", "True").await;
    w.settled().await;
    let image = async |tag: &str| {
        let change = json!({"spec": {"releaseImage": format!("quay.example/ocp-release:{tag}")}});
        w.planes().patch("demo", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    };
    image("none").await;
    let o = w.until("ValidReleaseInfo", "False").await;
    for (kind, status) in [
        ("Available", "True"),
        ("EtcdAvailable", "True"),
        ("KubeAPIServerAvailable", "True"),
        ("InfrastructureReady", "True"),
        ("Degraded", "False"),
    ] {
        assert_eq!(condition(&o, kind)["status"], status, "{kind}: {}", condition(&o, kind));
    }
    image("4.19.3").await;
    w.until("ValidReleaseInfo", "True").await;
    w.settled().await;

    let pause = |word: Value| json!({"spec": {"pausedUntil": word}});
    let change = pause(json!("true"));
    w.planes().patch("demo", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    w.run().await;
    let applied = w.applies();
    dead.store(true, Relaxed);
    // One of its pods goes: somebody looks.
    let deployments = w.api("apps", "v1", "Deployment", "deployments");
    let none = json!({"spec": {"replicas": 0}});
    deployments.patch("kube-apiserver", &PatchParams::default(), &Patch::Merge(&none)).await.unwrap();
    let o = w.until("Available", "False").await;
    assert_eq!(condition(&o, "ValidIDPConfiguration")["status"], "True", "what was said of its facts stands");
    assert_eq!(deployments.get("kube-apiserver").await.unwrap().data["spec"]["replicas"], 0);
    assert_eq!(w.applies(), applied, "nothing is put right during a pause");
    dead.store(false, Relaxed);
    let change = pause(Value::Null);
    w.planes().patch("demo", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    w.until("Available", "True").await;
    w.stop.cancel();
}

/// A registry that does not answer takes nothing away: its last word counts, and after a restart what is seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_that_is_away_makes_no_control_plane_unavailable() {
    let away: Arc<std::sync::atomic::AtomicBool> = Arc::default();
    let mut w = World::told(Tenants::all(), Told { away: Arc::clone(&away), ..Told::default() }).await;
    w.create(|_| {}).await;
    w.give_address().await;
    w.until("Available", "True").await;
    w.settled().await;
    away.store(true, std::sync::atomic::Ordering::Relaxed);
    // Whoever changes the object has its release looked up again.
    let change = json!({"metadata": {"annotations": {"example.com/word": "new"}}});
    w.planes().patch("demo", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    let told = |o: Option<&DynamicObject>| {
        let list = o.and_then(|o| o.data["status"]["conditions"].as_array());
        let info = list.into_iter().flatten().find(|c| c["type"] == "ValidReleaseInfo");
        info.is_some_and(|c| c["message"].as_str().is_some_and(|m| m.contains("as it was last looked up")))
    };
    let wait = kube::runtime::wait::await_condition(w.planes(), "demo", told);
    let o = tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap().unwrap().unwrap();
    assert_eq!(condition(&o, "ValidReleaseInfo")["status"], "True");
    assert_eq!(condition(&o, "Available")["status"], "True");
    // It is looked after: what somebody takes away is put back.
    let maps = w.api("", "v1", "ConfigMap", "configmaps");
    maps.delete("kas-config", &Default::default()).await.unwrap();
    let there = |o: Option<&DynamicObject>| o.is_some();
    let wait = kube::runtime::wait::await_condition(maps, "kas-config", there);
    tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap().unwrap();

    w.restart(Told { away: Arc::clone(&away), ..Told::default() }).await;
    let o = w.until("ValidReleaseInfo", "False").await;
    for kind in ["Available", "EtcdAvailable", "KubeAPIServerAvailable", "InfrastructureReady"] {
        assert_eq!(condition(&o, kind)["status"], "True", "{kind}: {}", condition(&o, kind));
    }
    let deployments = w.api("apps", "v1", "Deployment", "deployments");
    deployments.delete("kube-apiserver", &Default::default()).await.unwrap();
    let o = w.until("Available", "False").await;
    assert_eq!(condition(&o, "KubeAPIServerAvailable")["reason"], "NotFound");
    w.stop.cancel();
}

/// A control plane may go ahead of its guest: components are of its release, what the guest is told to be is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_may_have_a_release_of_its_own() {
    let w = World::start().await;
    let own = "quay.example/ocp-release:4.20.1";
    w.create(|o| o["spec"]["controlPlaneReleaseImage"] = json!(own)).await;
    w.give_address().await;
    let o = w.until("Available", "True").await;
    let version = &o.data["status"]["controlPlaneVersion"]["desired"];
    assert_eq!(*version, json!({"image": own, "version": "4.20.1"}));
    let deployments = w.api("apps", "v1", "Deployment", "deployments");
    let api = deployments.get("kube-apiserver").await.unwrap();
    let of = &api.metadata.annotations.unwrap()["hypershift.openshift.io/release-version"];
    assert_eq!(of, "4.20.1");
    let cvo = deployments.get("cluster-version-operator").await.unwrap();
    let pod = &cvo.data["spec"]["template"]["spec"];
    let guest = "quay.example/ocp-release:4.19.3";
    let first = pod["initContainers"].as_array().unwrap();
    let payload = first.iter().find(|c| c["name"] == "prepare-payload").unwrap();
    assert_eq!(payload["image"], guest, "the payload that is applied");
    assert_eq!(pod["containers"][0]["image"], "quay.example/release@sha256:cluster-version-operator");
    let variables = pod["containers"][0]["env"].as_array().unwrap();
    assert!(variables.contains(&json!({"name": "RELEASE_IMAGE", "value": guest})), "{variables:?}");
    w.stop.cancel();
}

/// Who would put back what a guest removes in Azure ends before that; and only if it is removed at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_puts_back_what_a_cluster_that_goes_removes() {
    let w = World::start().await;
    let cleanup = "hypershift.openshift.io/cleanup-cloud-resources";
    w.create(|o| {
        o["metadata"]["annotations"] = json!({cleanup: "true"});
        o["metadata"]["finalizers"] = json!(["hypershift.openshift.io/finalizer"]);
    })
    .await;
    w.give_address().await;
    w.until("Available", "True").await;
    let deployments = w.api("apps", "v1", "Deployment", "deployments");
    w.planes().delete("demo", &Default::default()).await.unwrap();
    let o = w.until("CVOScaledDown", "True").await;
    assert!(o.metadata.deletion_timestamp.is_some());
    let cvo = deployments.get("cluster-version-operator").await.unwrap();
    assert_eq!(cvo.data["spec"]["replicas"], 0);
    assert_eq!(deployments.get("ingress-operator").await.unwrap().data["spec"]["replicas"], 1);
    w.stop.cancel();
}

/// A name of the user's own has its kubeconfig as long as it is wanted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_further_name_comes_and_goes_with_its_kubeconfig() {
    let w = World::start().await;
    w.create(|o| o["spec"]["kubeAPIServerDNSName"] = json!("api.custom.example.com")).await;
    w.give_address().await;
    let o = w.until("EtcdAvailable", "True").await;
    let named = json!({"name": "custom-admin-kubeconfig", "key": "kubeconfig"});
    assert_eq!(o.data["status"]["customKubeconfig"], named);
    let secrets = w.api("", "v1", "Secret", "secrets");
    secrets.get("custom-admin-kubeconfig").await.unwrap();
    let change = json!({"spec": {"kubeAPIServerDNSName": null}});
    w.planes().patch("demo", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    let gone = |o: Option<&DynamicObject>| o.is_none();
    let wait = kube::runtime::wait::await_condition(secrets, "custom-admin-kubeconfig", gone);
    tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap().unwrap();
    let unnamed = |o: Option<&DynamicObject>| {
        o.is_some_and(|o| o.data["status"].get("customKubeconfig").is_none_or(Value::is_null))
    };
    let wait = kube::runtime::wait::await_condition(w.planes(), "demo", unnamed);
    tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap().unwrap();
    w.stop.cancel();
}

fn say(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "Told", "message": "by another",
        "lastTransitionTime": "2026-11-16T00:00:00Z"})
}

/// Where people log in is the issuer's to say; one that says nothing holds up nobody but logins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_is_asked_where_it_sends_people() {
    let w = World::start().await;
    let oauth = |issuer: &str| {
        json!({"oauth": {"identityProviders": [{"name": "entra", "type": "OpenID", "mappingMethod": "claim",
            "openID": {"clientID": "id", "clientSecret": {"name": "entra"}, "issuer": issuer, "claims": {}}}]}})
    };
    w.create(|o| o["spec"]["configuration"] = oauth("https://away.example")).await;
    w.give_address().await;
    let o = w.until("ValidIDPConfiguration", "False").await;
    let why = condition(&o, "ValidIDPConfiguration")["message"].as_str().unwrap().to_owned();
    assert!(why.contains("identityProviders[0].openID.issuer") && why.contains("no such host"), "{why}");
    w.until("KubeAPIServerAvailable", "True").await;
    let change = json!({"spec": {"configuration": oauth(ISSUER)}});
    w.planes().patch("demo", &Default::default(), &kube::api::Patch::Merge(&change)).await.unwrap();
    w.until("ValidIDPConfiguration", "True").await;
    w.stop.cancel();
}

/// Who says how people log in has no administrator with a password any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_administrator_goes_when_others_can_log_in() {
    let w = World::start().await;
    w.create(|_| {}).await;
    w.give_address().await;
    let o = w.until("KubeAPIServerAvailable", "True").await;
    assert_eq!(o.data["status"]["kubeadminPassword"]["name"], "kubeadmin-password");
    let secrets = w.api("", "v1", "Secret", "secrets");
    secrets.get("kubeadmin-password").await.unwrap();
    let change = json!({"spec": {"configuration": {"oauth": {"identityProviders": []}}}});
    w.planes().patch("demo", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    let gone = |o: Option<&DynamicObject>| o.is_none();
    let wait = kube::runtime::wait::await_condition(secrets, "kubeadmin-password", gone);
    tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap().unwrap();
    let unnamed = |o: Option<&DynamicObject>| {
        o.is_some_and(|o| o.data["status"].get("kubeadminPassword").is_none_or(Value::is_null))
    };
    let wait = kube::runtime::wait::await_condition(w.planes(), "demo", unnamed);
    tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap().unwrap();
    w.stop.cancel();
}

/// A key is changed in phases, each of which is seen before the next; what others say of a control plane stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_changed_while_everything_runs() {
    let w = World::start().await;
    let key = |version: &str| {
        json!({"type": "kms", "kms": {"provider": "Azure", "azure": {
            "activeKey": {"keyVaultName": "vault", "keyName": "etcd", "keyVersion": version},
            "workloadIdentity": {"clientID": "00000000-0000-0000-0000-000000000001"}}}})
    };
    w.create(|o| o["spec"]["secretEncryption"] = key("one")).await;
    // Told while there is no key in use yet: the definition refuses a status of encryption with nothing in it.
    let o = w.until("InfrastructureReady", "False").await;
    assert!(o.data["status"].get("secretEncryption").is_none());
    w.give_address().await;
    let o = w.until("Available", "True").await;
    assert_eq!(condition(&o, "ValidAzureKMSConfig")["status"], "True");
    assert_eq!(condition(&o, "ExternalDNSReachable")["status"], "Unknown");
    assert_eq!(condition(&o, "ValidIDPConfiguration")["reason"], "IDPConfigurationValid");
    w.until("EtcdDataEncryptionUpToDate", "True").await;

    // Somebody else's condition, and a new key.
    let mut conditions = w.planes().get("demo").await.unwrap().data["status"]["conditions"].clone();
    conditions.as_array_mut().unwrap().push(say("CloudResourcesDestroyed"));
    let foreign = json!({"status": {"conditions": conditions}});
    w.planes().patch_status("demo", &PatchParams::default(), &Patch::Merge(&foreign)).await.unwrap();
    let change = json!({"spec": {"secretEncryption": key("two")}});
    w.planes().patch("demo", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    let state = |wanted: &'static str| {
        move |o: Option<&DynamicObject>| {
            o.is_some_and(|o| o.data["status"]["secretEncryption"]["history"][0]["state"] == wanted)
        }
    };
    let reach = async |wanted: &'static str| {
        let wait = kube::runtime::wait::await_condition(w.planes(), "demo", state(wanted));
        tokio::time::timeout(Duration::from_secs(240), wait).await.expect(wanted).unwrap().unwrap()
    };
    let o = reach("Migrating").await;
    let config = w.api("", "v1", "Secret", "secrets").get("kas-secret-encryption-config").await.unwrap();
    let config = base64(&config.data["data"]["config.yaml"]);
    let places: Vec<usize> = ["active", "backup"].iter().map(|n| config.find(n).unwrap()).collect();
    assert!(places[0] < places[1], "{config}");
    let to = o.data["status"]["secretEncryption"]["history"][0]["to"]["fingerprint"].clone();
    w.settled().await;
    assert_eq!(
        w.planes().get("demo").await.unwrap().data["status"]["secretEncryption"]["history"][0]["state"],
        "Migrating"
    );
    let done = json!({"metadata": {"annotations": {"hypershift.openshift.io/re-encrypted-with": to}}});
    w.planes().patch("demo", &PatchParams::default(), &Patch::Merge(&done)).await.unwrap();
    let o = reach("Completed").await;
    let status = &o.data["status"]["secretEncryption"];
    assert_eq!(status["activeKey"]["azure"]["keyVersion"], "two");
    assert!(status.get("targetKey").is_none());
    assert_eq!(condition(&o, "CloudResourcesDestroyed")["reason"], "Told", "not ours to touch");
    w.stop.cancel();
}

fn base64(text: &Value) -> String {
    use std::process::{Command, Stdio};
    let mut child =
        Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_str().unwrap().as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// Azure says that a network is elsewhere: nothing is made, and it says so; corrected, it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_azure_does_not_agree_with_is_not_begun() {
    let azure = Arc::default();
    let told = Told { azure: Arc::clone(&azure), ..Told::default() };
    let message = "the VNet is in westus, the cluster in eastus: use a VNet of eastus".to_owned();
    *azure.lock().unwrap() = Some(Verdict::Bad { reason: "InvalidConfiguration", message: message.clone() });
    let w = World::told(Tenants::all(), told).await;
    w.create_alone(crate::facts::with_managed_identities).await;
    let o = w.until("ValidHostedControlPlaneConfiguration", "False").await;
    assert_eq!(condition(&o, "ValidHostedControlPlaneConfiguration")["message"], message);
    let made =
        w.api("apps", "v1", "Deployment", "deployments").list(&Default::default()).await.unwrap().items;
    assert!(made.is_empty(), "nothing is begun");
    *azure.lock().unwrap() = None;
    w.until("ValidHostedControlPlaneConfiguration", "True").await;
    w.until("InfrastructureReady", "False").await;
    w.stop.cancel();
}

/// Snapshots are taken one at a time; what became of them is told on each and on the control plane.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_are_taken_one_at_a_time() {
    let w = World::start().await;
    w.create(|_| {}).await;
    w.give_address().await;
    w.until("Available", "True").await;
    let backups = w.api("hypershift.openshift.io", "v1beta1", "HCPEtcdBackup", "hcpetcdbackups");
    let ask = async |name: &str, blob: Value| {
        let object = json!({"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HCPEtcdBackup", "metadata": {"name": name},
            "spec": {"storage": {"storageType": "AzureBlob", "azureBlob": blob}}});
        backups.create(&Default::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    };
    let over = async |name: &str, reason: &'static str| {
        let told = move |o: Option<&DynamicObject>| {
            let list = o.and_then(|o| o.data["status"]["conditions"].as_array());
            list.into_iter().flatten().any(|c| c["reason"] == reason)
        };
        let wait = kube::runtime::wait::await_condition(backups.clone(), name, told);
        tokio::time::timeout(Duration::from_secs(240), wait).await.expect(reason).unwrap().unwrap()
    };
    // A self-managed control plane has no identity that could write there.
    ask("nameless", json!({"storageAccount": "backups", "container": "etcd"})).await;
    let o = over("nameless", "BackupFailed").await;
    assert!(o.data["status"]["conditions"][0]["message"].as_str().unwrap().contains("azureBlob.credentials"));
    w.until("EtcdBackupSucceeded", "False").await;
    let blob = json!({"storageAccount": "backups", "container": "etcd", "keyPrefix": "east", "credentials": {"name": "creds"}});
    ask("nightly", blob).await;
    let o = over("nightly", "BackupSucceeded").await;
    let whose = o.metadata.uid.clone().unwrap();
    let url = o.data["status"]["snapshotURL"].as_str().unwrap();
    assert!(
        url.starts_with("https://backups.blob.core.windows.net/etcd/east/clusters-demo/")
            && url.ends_with("-nightly.db"),
        "{url}"
    );
    let o = w.until("EtcdBackupSucceeded", "True").await;
    assert!(condition(&o, "EtcdBackupSucceeded")["message"].as_str().unwrap().contains(url));
    let job = format!("etcd-backup-nightly-{}", &whose[..8]);
    let job = w.api("batch", "v1", "Job", "jobs").get(&job).await.unwrap();
    let pod = &job.data["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "quay.example/zaffre:dev");
    assert_eq!(pod["containers"][0]["envFrom"], json!([{"secretRef": {"name": "creds"}}]));
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "as hardened as any other");
    w.stop.cancel();
}

/// One member of three fails whenever it starts: it loses its disk, joins again, and that is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_member_of_etcd_begins_empty() {
    let w = World::start().await;
    w.create(|o| o["spec"]["controllerAvailabilityPolicy"] = json!("HighlyAvailable")).await;
    w.give_address().await;
    w.until("EtcdAvailable", "True").await;
    w.until("Available", "True").await;
    let pods = w.api("", "v1", "Pod", "pods");
    let claims = w.api("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
    let (pod, claim) = (pods.get("etcd-1").await.unwrap(), claims.get("data-etcd-1").await.unwrap());
    // It fails whenever it starts, and that it has often done so is made up: waiting for that takes long.
    let fail = json!({"metadata": {"annotations": {ek_node::stage::FAIL: "CrashLoop/etcd"}}});
    pods.patch("etcd-1", &PatchParams::default(), &Patch::Merge(&fail)).await.unwrap();
    let etcd = |o: &DynamicObject| {
        let all = o.data["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        all.iter().position(|c| c["name"] == "etcd" && c["state"]["waiting"]["reason"] == "CrashLoopBackOff")
    };
    let fails = |o: Option<&DynamicObject>| o.is_some_and(|o| etcd(o).is_some());
    let wait = kube::runtime::wait::await_condition(pods.clone(), "etcd-1", fails);
    let failing = tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap().unwrap().unwrap();
    let mut statuses = failing.data["status"]["containerStatuses"].clone();
    statuses[etcd(&failing).unwrap()]["restartCount"] = json!(control_plane::etcd::recovery::TRIES);
    let often = json!({"status": {"containerStatuses": statuses}});
    pods.patch_status("etcd-1", &PatchParams::default(), &Patch::Merge(&often)).await.unwrap();
    let other =
        |uid: Option<String>| move |o: Option<&DynamicObject>| o.is_some_and(|o| o.metadata.uid != uid);
    let wait = kube::runtime::wait::await_condition(pods, "etcd-1", other(pod.metadata.uid));
    tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap().unwrap();
    let wait = kube::runtime::wait::await_condition(claims, "data-etcd-1", other(claim.metadata.uid));
    tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap().unwrap();
    // Only who has said that a member is lost says that all are there again.
    let o = w.until("EtcdRecoveryActive", "False").await;
    assert_eq!(condition(&o, "EtcdRecoveryActive")["message"], "all members of etcd are ready");
    w.stop.cancel();
}

/// All authorities are replaced under a running control plane, and whatever is stored at any moment is trusted at it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_are_replaced_under_a_running_control_plane() {
    let w = World::start().await;
    w.create(|_| {}).await;
    w.give_address().await;
    w.until("Available", "True").await;
    w.settled().await;
    let secrets = w.api("", "v1", "Secret", "secrets");
    let read = async |name: &str, key: &str| base64(&secrets.get(name).await.unwrap().data["data"][key]);
    let authorities = control_plane::certificates::AUTHORITIES.map(|ca| ca.secret);
    let mut before = Vec::new();
    for ca in authorities {
        before.push(read(ca, "ca.crt").await);
    }
    let old_client = read("system-admin-client", "tls.crt").await;
    let ask =
        json!({"metadata": {"annotations": {"hypershift.openshift.io/rotate-authorities": "all@november"}}});
    w.planes().patch("demo", &PatchParams::default(), &Patch::Merge(&ask)).await.unwrap();
    w.until("CertificateAuthoritiesRotating", "True").await;
    let o = w.until("CertificateAuthoritiesRotating", "False").await;
    assert!(
        condition(&o, "CertificateAuthoritiesRotating")["message"].as_str().unwrap().contains("november")
    );
    // A single etcd is away while it is replaced, and so is everything else for a moment.
    w.until("Available", "True").await;
    for (ca, old) in authorities.iter().zip(&before) {
        let new = read(ca, "ca.crt").await;
        assert_ne!(new, *old, "{ca}");
        let data = secrets.get(ca).await.unwrap().data["data"].clone();
        assert_eq!((&data["previous.crt"], &data["next.crt"]), (&json!(""), &json!("")), "{ca}");
    }
    assert_ne!(read("system-admin-client", "tls.crt").await, old_client);
    // Said once, done once.
    w.settled().await;
    let after = read("root-ca", "ca.crt").await;
    for _ in 0..5 {
        w.run().await;
    }
    assert_eq!(read("root-ca", "ca.crt").await, after);
    w.stop.cancel();
}
