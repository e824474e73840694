//! A management cluster and an Azure with a network on each side, and the controllers between them.

use arm::ResourceId;
use azure::ops::{LoadBalancers, ResourceGroups, VirtualNetworks};
use azure::{Client as Azure, ClientOptions, Env, connect};
use azure_sim::{AzureSim, Config, Profile};
use ek_server::{ApiServer, Config as KubeConfig};
use futures::future::BoxFuture;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use private_link::{Clouds, Management, Unreachable, kinds, operate};
use reconcile::{Backoff, Handle, Kind, Metrics, Options, Runtime, Tenants};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const CRDS: Kind =
    Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
        .cluster_wide();
const NAMESPACE: Kind = Kind::new("", "v1", "Namespace", "namespaces").cluster_wide();

struct Ways(Azure);

impl Clouds for Ways {
    fn client<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Azure, Unreachable>> {
        Box::pin(async move { Ok(self.0.clone()) })
    }
}

pub struct World {
    pub server: ApiServer,
    pub sim: AzureSim,
    pub azure: Azure,
    pub subscription: String,
    engine: tokio::task::JoinHandle<()>,
    _dir: tempfile::TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        self.engine.abort();
    }
}

/// Controllers that run; dropping them is a crash.
pub struct Running {
    pub endpoints: Handle,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        self.task.abort();
    }
}

/// The definition of a control plane, of which nothing matters here but its metadata.
fn plane() -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"metadata": {"name": "hostedcontrolplanes.hypershift.openshift.io"}, "spec": {
        "group": "hypershift.openshift.io", "scope": "Namespaced",
        "names": {"kind": "HostedControlPlane", "plural": "hostedcontrolplanes"},
        "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": any}}]}})
}

impl World {
    pub async fn start() -> World {
        let server = ApiServer::start(KubeConfig::memory()).await.unwrap();
        let engine =
            ek_engine::Engine::new(server.host(), ek_controllers::all(ek_controllers::Options::default()));
        let engine = tokio::spawn(async move { _ = engine.run().await });
        let link = apis::crds().into_iter().map(|c| serde_json::to_value(c).unwrap());
        let link =
            link.into_iter().find(|c| c["spec"]["names"]["kind"] == "AzurePrivateLinkService").unwrap();
        for crd in [link, plane()] {
            let crd = serde_json::from_value(crd).unwrap();
            CRDS.api(&server.client(), "").create(&Default::default(), &crd).await.unwrap();
        }
        let mut config = Config::local(7);
        let dir = tempfile::tempdir().unwrap();
        (config.profile, config.ca_file) = (Profile::Instant, Some(dir.path().join("ca.pem")));
        let sim = AzureSim::start(config).await.unwrap();
        let options = ClientOptions { poll_default: Duration::from_millis(10), ..ClientOptions::default() };
        let connected = connect(&Env::parse(&sim.env()), options).await.unwrap();
        let (azure, subscription) = (connected.client, connected.subscription.unwrap());
        let w = World { server, sim, azure, subscription, engine, _dir: dir };
        w.network("mgmt", "10.1.0.0/16").await;
        w
    }

    pub fn group(&self, name: &str) -> ResourceId {
        ResourceId::group_scope(&self.subscription, name).unwrap()
    }

    /// A group with a network of one subnet.
    async fn network(&self, group: &str, space: &str) -> ResourceId {
        let group = self.group(group);
        let read = |v: Value| serde_json::from_value(v).unwrap();
        self.azure.arm::<ResourceGroups>().put(&group, &read(json!({"location": "westus2"}))).await.unwrap();
        let vnet = group.provider("Microsoft.Network", "virtualNetworks", "net").unwrap();
        let first = space.replace("/16", "/24");
        let body = json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": [space]},
            "subnets": [{"name": "default", "properties": {"addressPrefix": first}}]}});
        let body = serde_json::from_value(body).unwrap();
        self.azure.arm::<VirtualNetworks>().put(&vnet, &body).await.unwrap();
        vnet
    }

    /// A load balancer of the management side.
    pub async fn balancer(&self, name: &str, address: &str) {
        let group = self.group("mgmt");
        let lb = group.provider("Microsoft.Network", "loadBalancers", name).unwrap();
        let subnet = format!("{group}/providers/Microsoft.Network/virtualNetworks/net/subnets/default");
        let body = json!({"location": "westus2", "sku": {"name": "Standard"}, "properties": {
            "frontendIPConfigurations": [{"name": "f", "properties": {"privateIPAddress": address,
                "privateIPAllocationMethod": "Static", "subnet": {"id": subnet}}}]}});
        let body = serde_json::from_value(body).unwrap();
        self.azure.arm::<LoadBalancers>().put(&lb, &body).await.unwrap();
    }

    /// A control plane with a link, and a guest's network of its own; what is there stays. Everything of it in Azure has `name` in its id.
    pub async fn cluster(&self, name: &str, address: Option<&str>) {
        let vnet = self.network(name, "10.0.0.0/16").await;
        let client = self.server.client();
        create(&client, &NAMESPACE, json!({"metadata": {"name": name}})).await;
        let plane = json!({"metadata": {"name": name, "namespace": name}, "spec": {}});
        let plane = create(&client, &kinds::PLANE, plane).await;
        let mut link = json!({
            "metadata": {"name": "private-router", "namespace": name, "labels": {
                "hypershift.openshift.io/infra-id": name, "hypershift.openshift.io/cluster-id": name}},
            "spec": {"subscriptionID": self.subscription, "resourceGroupName": name, "location": "westus2",
                "guestVNetID": vnet, "guestSubnetID": format!("{vnet}/subnets/default"), "baseDomain": "example.com"},
        });
        if let Some(ip) = address {
            link["spec"]["loadBalancerIP"] = json!(ip);
        }
        reconcile::own(&mut link, &kinds::PLANE, &plane);
        create(&client, &kinds::LINK, link).await;
    }

    pub fn operate(&self) -> Running {
        self.operate_as(&self.server.client())
    }

    pub fn operate_as(&self, client: &Client) -> Running {
        let (metrics, random) = (Metrics::default(), clock::Random::from_os());
        let mut runtime = Runtime::new(clock::system(), &metrics);
        // Nobody learns anything from waiting.
        let backoff = Backoff { first: Duration::from_millis(20), last: Duration::from_millis(200) };
        let options = Options { backoff, ..operate::options() };
        let management = Management { client: self.azure.clone(), group: self.group("mgmt") };
        let setup = operate::Services {
            clock: clock::system(),
            random: &random,
            metrics: &metrics,
            management,
            options,
        };
        operate::start_services(&mut runtime, client, setup);
        let setup = operate::Endpoints {
            clock: clock::system(),
            random: &random,
            metrics: &metrics,
            clouds: Arc::new(Ways(self.azure.clone())),
            tenants: Tenants::all(),
            namespace: None,
            options,
        };
        let endpoints = operate::start_endpoints(&mut runtime, client, setup);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { _ = runtime.run(stopped).await });
        Running { endpoints, stop, task }
    }

    pub fn api(&self, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
        kind.api(&self.server.client(), namespace)
    }

    pub async fn patch(&self, name: &str, patch: Value) {
        let api = self.api(&kinds::LINK, name);
        api.patch("private-router", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// Waits until a link is so; nothing is a link that is gone.
    pub async fn until(&self, name: &str, what: &str, so: impl Fn(Option<&DynamicObject>) -> bool) {
        let wait = kube::runtime::wait::await_condition(self.api(&kinds::LINK, name), "private-router", so);
        if tokio::time::timeout(Duration::from_secs(60), wait).await.is_err() {
            let link = self.api(&kinds::LINK, name).get_opt("private-router").await.unwrap();
            panic!("never: {what}\n{:#?}", link.map(|l| (l.metadata.finalizers, l.data["status"].clone())));
        }
    }

    pub async fn open(&self, name: &str) {
        let all = apis::conditions::private_link::ALL;
        self.until(name, "open", |o| all.iter().all(|k| o.is_some_and(|o| says(o, k, "True", "")))).await;
    }

    /// Deletes a control plane, and waits until nothing of it is left in the management cluster.
    pub async fn end(&self, name: &str) {
        let planes = self.api(&kinds::PLANE, name);
        match planes.delete(name, &Default::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(s)) if s.code == 404 => {}
            Err(e) => panic!("{e}"),
        }
        self.until(name, "gone", |o| o.is_none()).await;
        let gone =
            kube::runtime::wait::await_condition(planes, name, |o: Option<&DynamicObject>| o.is_none());
        tokio::time::timeout(Duration::from_secs(60), gone).await.expect("the control plane goes").unwrap();
    }

    /// What there is of a cluster in Azure, besides what it was given.
    pub async fn made(&self, name: &str) -> BTreeSet<String> {
        let left = self.sim.world().leaks();
        let ids = left["value"].as_array().unwrap().iter().map(|l| l["id"].as_str().unwrap().to_owned());
        // A link's interface has a name of chance.
        let ids = ids.filter(|id| id.contains(name) && !id.contains("networkInterfaces"));
        let mut all: BTreeSet<String> = ids
            .filter(|id| !id.ends_with("/net") && !id.ends_with(&format!("/resourceGroups/{name}")))
            .collect();
        let net = self.group("mgmt").provider("Microsoft.Network", "virtualNetworks", "net").unwrap();
        let net = self.azure.arm::<VirtualNetworks>().get(&net).await.unwrap();
        let subnets = net.properties.unwrap().subnets.unwrap().into_iter().filter_map(|s| s.name);
        all.extend(subnets.filter(|s| s.contains(name)));
        all
    }
}

async fn create(client: &Client, kind: &Kind, o: Value) -> DynamicObject {
    let namespace = o["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let mut o = o;
    (o["apiVersion"], o["kind"]) = (json!(kind.api_version()), json!(kind.kind));
    let o: DynamicObject = serde_json::from_value(o).unwrap();
    let api = kind.api(client, &namespace);
    match api.create(&Default::default(), &o).await {
        Ok(o) => o,
        Err(kube::Error::Api(s)) if s.code == 409 => {
            api.get(o.metadata.name.as_deref().unwrap()).await.unwrap()
        }
        Err(e) => panic!("{e}"),
    }
}

/// Whether a condition is so, and has these words in its reason or message.
pub fn says(o: &DynamicObject, kind: &str, status: &str, words: &str) -> bool {
    let all = o.data["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().any(|c| {
        c["type"] == kind
            && c["status"] == status
            && (c["reason"] == words || c["message"].as_str().is_some_and(|m| m.contains(words)))
    })
}
