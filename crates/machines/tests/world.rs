//! A management cluster, a guest and an Azure, with the controllers between them and somebody who boots machines.

use arm::ResourceId;
use azure::ops::{LoadBalancers, ResourceGroups, VirtualNetworks};
use azure::{Client as Azure, ClientOptions, Env, connect};
use azure_sim::{AzureSim, Config, Happening, Profile};
use ek_server::{ApiServer, Config as KubeConfig};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use machines::around::{Clouds, Reach, Unreachable};
use machines::{kinds, operate};
use reconcile::{Backoff, Kind, Metrics, Options, Runtime};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub const NS: &str = "clusters-demo";
pub const CRDS: Kind =
    Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
        .cluster_wide();
pub const NAMESPACE: Kind = Kind::of_cluster::<k8s_openapi::api::core::v1::Namespace>();

/// What the controllers are given, and what a test may take away.
pub struct Ways {
    guest: Client,
    azure: Azure,
    pub away: AtomicBool,
}

impl Reach for Ways {
    fn guest<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Client, Unreachable>> {
        let answer = match self.away.load(Ordering::SeqCst) {
            true => Err(Unreachable("connection refused".into())),
            false => Ok(self.guest.clone()),
        };
        Box::pin(async move { answer })
    }
}

impl Clouds for Ways {
    fn client<'a>(
        &'a self,
        _: &'a apis::capz::AzureClusterIdentity,
    ) -> BoxFuture<'a, Result<Azure, Unreachable>> {
        Box::pin(async move { Ok(self.azure.clone()) })
    }
}

pub struct World {
    pub server: ApiServer,
    pub guest: ApiServer,
    pub sim: AzureSim,
    pub azure: Azure,
    pub ways: Arc<Ways>,
    pub subscription: String,
    /// Whether machines become nodes.
    pub boots: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    _dir: tempfile::TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.iter().for_each(|t| t.abort());
    }
}

/// Controllers that run; dropping them is a crash.
pub struct Running {
    pub handles: operate::Handles,
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

impl World {
    pub async fn start() -> World {
        World::with(Profile::Instant, NS).await
    }

    pub async fn with(profile: Profile, namespace: &str) -> World {
        let server = ApiServer::start(KubeConfig::memory()).await.unwrap();
        let guest = ApiServer::start(KubeConfig::memory()).await.unwrap();
        let engine =
            ek_engine::Engine::new(server.host(), ek_controllers::all(ek_controllers::Options::default()));
        let mut tasks = vec![tokio::spawn(async move { _ = engine.run().await })];
        let client = server.client();
        for crd in apis::machine_crds() {
            let o = serde_json::from_value(serde_json::to_value(crd).unwrap()).unwrap();
            CRDS.api(&client, "").create(&Default::default(), &o).await.unwrap();
        }
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::local(7);
        (config.profile, config.ca_file) = (profile, Some(dir.path().join("ca.pem")));
        let sim = AzureSim::start(config).await.unwrap();
        let options = ClientOptions {
            poll_default: Duration::from_millis(10),
            retry: azure::RetryPolicy {
                attempts: 2,
                base: Duration::from_millis(5),
                patience: Duration::from_millis(50),
                ..azure::RetryPolicy::default()
            },
            ..ClientOptions::default()
        };
        let connected = connect(&Env::parse(&sim.env()), options).await.unwrap();
        let (azure, subscription) = (connected.client, connected.subscription.unwrap());
        let ways =
            Arc::new(Ways { guest: guest.client(), azure: azure.clone(), away: AtomicBool::new(false) });
        let boots = Arc::new(AtomicBool::new(true));
        tasks.push(tokio::spawn(boot(sim.world().clone(), guest.client(), boots.clone())));
        let w = World { server, guest, sim, azure, ways, subscription, boots, tasks, _dir: dir };
        w.network().await;
        w.cluster(namespace).await;
        w
    }

    pub fn group(&self) -> ResourceId {
        ResourceId::group_scope(&self.subscription, "demo").unwrap()
    }

    async fn network(&self) {
        let group = self.group();
        let read = |v: Value| serde_json::from_value(v).unwrap();
        self.azure.arm::<ResourceGroups>().put(&group, &read(json!({"location": "westus2"}))).await.unwrap();
        let vnet = group.provider("Microsoft.Network", "virtualNetworks", "net").unwrap();
        let body = json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
            "subnets": [{"name": "nodes", "properties": {"addressPrefix": "10.0.0.0/20"}}]}});
        let vnet_body = serde_json::from_value(body).unwrap();
        self.azure.arm::<VirtualNetworks>().put(&vnet, &vnet_body).await.unwrap();
        let lb = group.provider("Microsoft.Network", "loadBalancers", "demo-x").unwrap();
        let body = json!({"location": "westus2", "sku": {"name": "Standard"}, "properties": {
            "frontendIPConfigurations": [{"name": "f", "properties": {"subnet": {"id": format!("{vnet}/subnets/nodes")}}}],
            "backendAddressPools": [{"name": "demo-x"}]}});
        let lb_body = serde_json::from_value(body).unwrap();
        self.azure.arm::<LoadBalancers>().put(&lb, &lb_body).await.unwrap();
    }

    /// A cluster without machines.
    pub async fn cluster(&self, ns: &str) {
        self.create(&NAMESPACE, json!({"metadata": {"name": ns}})).await;
        self.create(&kinds::AZURE_IDENTITY, json!({"metadata": {"name": "demo", "namespace": ns}, "spec": {
            "type": "WorkloadIdentity", "clientID": "c", "tenantID": "t", "allowedNamespaces": {"list": [ns]}}}))
            .await;
        self.create(
            &kinds::AZURE_CLUSTER,
            json!({"metadata": {"name": "demo", "namespace": ns}, "spec": {
            "location": "westus2", "resourceGroup": "demo", "subscriptionID": self.subscription,
            "networkSpec": {"vnet": {"name": "net", "resourceGroup": "demo"},
                "nodeOutboundLB": {"name": "demo-x", "backendPool": {"name": "demo-x"}}},
            "identityRef": {"kind": "AzureClusterIdentity", "name": "demo", "namespace": ns}}}),
        )
        .await;
        let ready = json!({"status": {"ready": true}});
        let api = self.api(&kinds::AZURE_CLUSTER, ns);
        api.patch_status("demo", &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
        self.create(&kinds::SECRET, json!({"metadata": {"name": "user-data", "namespace": ns}, "stringData": {"value": "{\"ignition\":{}}"}}))
            .await;
        self.template(ns, "t1", json!({})).await;
        // Last: who finds it finds all.
        self.create(&kinds::CLUSTER, json!({"metadata": {"name": "demo-x", "namespace": ns}, "spec": {
            "infrastructureRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "AzureCluster", "name": "demo", "namespace": ns}}}))
            .await;
    }

    pub async fn template(&self, ns: &str, name: &str, more: Value) {
        let mut spec = json!({"vmSize": "Standard_D4s_v5", "failureDomain": "1", "osDisk": {"osType": "Linux", "diskSizeGB": 64,
            "managedDisk": {"storageAccountType": "Premium_LRS"}},
            "networkInterfaces": [{"subnetName": "nodes"}],
            "image": {"marketplace": {"publisher": "azureopenshift", "offer": "aro4", "sku": "420-v2", "version": "latest"}},
            "securityProfile": {"encryptionAtHost": true}, "sshPublicKey": "c3NoLXJzYSBBQUFB"});
        for (k, v) in more.as_object().unwrap() {
            spec[k] = v.clone();
        }
        self.create(
            &kinds::AZURE_TEMPLATE,
            json!({"metadata": {"name": name, "namespace": ns}, "spec": {"template": {"spec": spec}}}),
        )
        .await;
    }

    pub fn pool(ns: &str, replicas: u32) -> Value {
        json!({"metadata": {"name": "pool", "namespace": ns}, "spec": {"clusterName": "demo-x", "replicas": replicas,
            "selector": {"matchLabels": {"pool": "pool"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": {"pool": "pool"}}, "spec": {"clusterName": "demo-x",
                "bootstrap": {"dataSecretName": "user-data"},
                "infrastructureRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "AzureMachineTemplate", "name": "t1", "namespace": ns}}}}})
    }

    pub fn operate(&self) -> Running {
        self.operate_as(&self.server.client())
    }

    pub fn operate_as(&self, client: &Client) -> Running {
        let metrics = Metrics::default();
        let mut runtime = Runtime::new(clock::system(), &metrics);
        let random = clock::Random::from_os();
        let handles = operate::start(
            &mut runtime,
            client,
            operate::Setup {
                clock: clock::system(),
                random: &random,
                metrics: &metrics,
                reach: self.ways.clone(),
                clouds: self.ways.clone(),
                tenants: operate::Tenants::all(),
                namespace: None,
                // Nobody learns anything from waiting.
                options: Options {
                    backoff: Backoff { first: Duration::from_millis(20), last: Duration::from_millis(200) },
                    ..Options::default()
                },
                look: SignedDuration::from_millis(300),
            },
        );
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { _ = runtime.run(stopped).await });
        Running { handles, metrics, stop, task: Some(task) }
    }

    pub fn api(&self, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
        kind.api(&self.server.client(), namespace)
    }

    pub fn guest_api(&self, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
        kind.api(&self.guest.client(), namespace)
    }

    pub async fn create(&self, kind: &Kind, o: Value) -> DynamicObject {
        create(&self.server.client(), kind, o).await.unwrap()
    }

    pub async fn patch(&self, kind: &Kind, ns: &str, name: &str, patch: Value) {
        self.api(kind, ns).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    pub async fn all(&self, kind: &Kind, ns: &str) -> Vec<DynamicObject> {
        self.api(kind, ns).list(&Default::default()).await.unwrap().items
    }

    /// Waits until something holds of the objects of a kind.
    pub async fn until(
        &self,
        kind: &Kind,
        ns: &str,
        what: &str,
        good: impl Fn(&[DynamicObject]) -> bool,
    ) -> Vec<DynamicObject> {
        let end = tokio::time::Instant::now() + Duration::from_secs(30);
        let mut events = std::pin::pin!(kube::runtime::watcher(self.api(kind, ns), Default::default()));
        loop {
            let all = self.all(kind, ns).await;
            if good(&all) {
                return all;
            }
            // A list may be older than the first event; whatever comes, it is looked at again.
            let next = futures::StreamExt::next(&mut events);
            let next = tokio::time::timeout(Duration::from_millis(250), next).await;
            drop(next);
            if tokio::time::Instant::now() > end {
                self.tell(ns).await;
                panic!("{} objects never were so: {what}", kind.kind);
            }
        }
    }

    /// What there is, for somebody who wonders.
    pub async fn tell(&self, ns: &str) {
        for kind in [
            kinds::CLUSTER,
            kinds::DEPLOYMENT,
            kinds::SET,
            kinds::MACHINE,
            kinds::AZURE_MACHINE,
            kinds::CHECK,
        ] {
            for o in self.all(&kind, ns).await {
                eprintln!(
                    "{} {} {:?} {}",
                    kind.kind,
                    o.metadata.name.unwrap(),
                    o.metadata.deletion_timestamp.map(|_| "going"),
                    o.data
                );
            }
        }
        eprintln!("azure: {:#}", self.sim.world().leaks()["value"]);
    }

    /// Waits until the pool is as large as it should be, all of one template, all nodes.
    pub async fn settled(&self, ns: &str, n: u64) -> DynamicObject {
        let all = self
            .until(&kinds::DEPLOYMENT, ns, &format!("{n} machines"), |all| {
                all.iter().any(|d| {
                    let s = &d.data["status"];
                    let is = |f: &str| s[f].as_u64() == Some(n);
                    s["observedGeneration"].as_i64() == d.metadata.generation
                        && ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
                            .iter()
                            .all(|f| is(f))
                })
            })
            .await;
        all.into_iter().next().unwrap()
    }

    /// What is left in Azure beyond the network.
    pub fn leaks(&self) -> BTreeSet<String> {
        let left = self.sim.world().leaks();
        let ids = left["value"].as_array().unwrap().iter().map(|l| l["id"].as_str().unwrap().to_owned());
        ids.filter(|id| {
            !id.ends_with("/net")
                && !id.contains("/loadBalancers/")
                && !id.ends_with("resourceGroups/demo")
                && !id.contains("/subnets/")
        })
        .collect()
    }

    /// Calls that changed something in Azure since a number of the journal, by method and type.
    pub fn writes(&self, after: u64) -> Vec<String> {
        let journal = self.sim.world().journal();
        let calls = journal
            .iter()
            .filter(|e| e.number > after && e.method != "GET" && e.path.starts_with("/subscriptions"));
        calls.map(|e| format!("{} {}", e.method, e.path)).collect()
    }
}

pub async fn create(client: &Client, kind: &Kind, mut o: Value) -> Result<DynamicObject, kube::Error> {
    (o["apiVersion"], o["kind"]) = (json!(kind.api_version()), json!(kind.kind));
    let ns = o["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let o = serde_json::from_value(o).unwrap();
    kind.api(client, &ns).create(&Default::default(), &o).await
}

/// Boots machines: what is ready in Azure joins the guest as a node.
async fn boot(world: Arc<azure_sim::World>, guest: Client, boots: Arc<AtomicBool>) {
    let mut cursor = 0;
    loop {
        let page = world.next_machine_events(cursor, Duration::from_secs(5)).await;
        for event in page.value {
            cursor = event.number;
            if event.what != Happening::Ready || !boots.load(Ordering::SeqCst) {
                continue;
            }
            let name = event.id.rsplit('/').next().unwrap_or_default().to_owned();
            join(&guest, &name, &event.id).await;
        }
    }
}

pub async fn join(guest: &Client, name: &str, id: &str) {
    // As a cloud provider spells it.
    let id = id.replace("resourceGroups/demo", "resourceGroups/DEMO");
    let node = json!({"metadata": {"name": name}, "spec": {"providerID": format!("azure://{id}")}});
    if create(guest, &kinds::NODE, node).await.is_ok() {
        node_ready(guest, name, "True").await;
    }
}

pub async fn node_ready(guest: &Client, name: &str, status: &str) {
    let now = clock::system().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let patch =
        json!({"status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": now}]}});
    let api = kinds::NODE.api(guest, "");
    _ = api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
}

pub fn condition<'a>(o: &'a DynamicObject, kind: &str) -> &'a Value {
    let list = o.data["status"]["conditions"].as_array();
    list.into_iter().flatten().find(|c| c["type"] == kind).unwrap_or(&Value::Null)
}
