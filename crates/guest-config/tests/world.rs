//! Two clusters, and an operator between them.

use clock::{ManualClock, Random};
use ek_auth::User;
use ek_server::{ApiServer, Config, LocalService};
use futures::future::BoxFuture;
use guest_config::facts::Told;
use guest_config::probe::{Answer, Backends};
use guest_config::{Around, definitions, start};
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::client::Body;
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use reconcile::{Handle, Kind, Kinds, Metrics, Runtime};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub const NS: &str = "clusters-demo";
const SUB: &str = "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups";

/// A self-managed control plane.
pub fn plane() -> Value {
    let id = |n: u8| json!({"clientID": format!("00000000-0000-0000-0000-00000000000{n}")});
    let service = |s: &str| {
        let host = format!("{}-demo.hc.example.com", s.to_lowercase());
        json!({"service": s, "servicePublishingStrategy": {"type": "Route", "route": {"hostname": host}}})
    };
    json!({
        "apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedControlPlane",
        "metadata": {"name": "demo", "namespace": NS},
        "spec": {
            "releaseImage": "quay.example/ocp-release:4.19.3", "infraID": "demo-x7k2p",
            "clusterID": "5d9b2b0e-5a3c-4b0e-9a34-6d3b3f3f2a11", "channel": "stable-4.19",
            "issuerURL": "https://demooidc.blob.core.windows.net/demooidc",
            "dns": {"baseDomain": "example.com", "privateZoneID": "/zones/private", "publicZoneID": "/zones/public"},
            "sshKey": {"name": "ssh-key"}, "pullSecret": {"name": "pull-secret"},
            "etcd": {"managementType": "Managed", "managed": {"storage": {"type": "PersistentVolume"}}},
            "networking": {"networkType": "OVNKubernetes", "clusterNetwork": [{"cidr": "10.132.0.0/14"}],
                "serviceNetwork": [{"cidr": "172.31.0.0/16"}], "machineNetwork": [{"cidr": "10.0.0.0/16"}]},
            "services": [service("APIServer"), service("OAuthServer"), service("Konnectivity"), service("Ignition")],
            "platform": {"type": "Azure", "azure": {
                "location": "eastus", "resourceGroup": "demo-demo-x7k2p", "tenantID": "11111111-1111-1111-1111-111111111111",
                "subscriptionID": "22222222-2222-2222-2222-222222222222",
                "vnetID": format!("{SUB}/demo-vnet/providers/Microsoft.Network/virtualNetworks/demo"),
                "subnetID": format!("{SUB}/demo-vnet/providers/Microsoft.Network/virtualNetworks/demo/subnets/default"),
                "securityGroupID": format!("{SUB}/demo-nsg/providers/Microsoft.Network/networkSecurityGroups/demo-nsg"),
                "azureAuthenticationConfig": {"azureAuthenticationConfigType": "WorkloadIdentities", "workloadIdentities": {
                    "cloudProvider": id(0), "nodePoolManagement": id(1), "controlPlaneOperator": id(2), "ingress": id(3),
                    "network": id(4), "disk": id(5), "file": id(6), "imageRegistry": id(7)}},
            }},
        },
        "status": {"ready": false, "initialized": false,
            "controlPlaneEndpoint": {"host": "api-demo.hc.example.com", "port": 443}},
    })
}

/// The same, as ARO HCP has it, with more of everything.
pub fn managed_plane() -> Value {
    let mut o = plane();
    let m = |n: &str| json!({"credentialsSecretName": format!("{n}-creds"), "objectEncoding": "utf-8"});
    o["spec"]["platform"]["azure"]["azureAuthenticationConfig"] = json!({
        "azureAuthenticationConfigType": "ManagedIdentities", "managedIdentities": {
            "controlPlane": {"managedIdentitiesKeyVault": {"name": "kv", "tenantID": "t"},
                "cloudProvider": m("cp"), "nodePoolManagement": m("np"), "controlPlaneOperator": m("cpo"),
                "ingress": m("in"), "network": m("net"), "disk": m("disk"), "file": m("file"), "imageRegistry": m("reg")},
            "dataPlane": {"imageRegistryMSIClientID": "00000000-0000-0000-0000-0000000000a1",
                "diskMSIClientID": "00000000-0000-0000-0000-0000000000a2", "fileMSIClientID": "00000000-0000-0000-0000-0000000000a3"}}});
    o["metadata"]["annotations"] = json!({"hypershift.openshift.io/swift-pod-network-instance": "pni"});
    o["spec"]["capabilities"] = json!({"disabled": ["ImageRegistry", "Console"]});
    o["spec"]["infrastructureAvailabilityPolicy"] = json!("HighlyAvailable");
    o["spec"]["imageContentSources"] =
        json!([{"source": "quay.io/openshift", "mirrors": ["mirror.example.com/openshift"]}]);
    o["spec"]["updateService"] = json!("https://updates.example.com/graph");
    o["spec"]["configuration"] = json!({
        "authentication": {"type": "OIDC", "oidcProviders": [{"name": "entra"}]},
        "proxy": {"httpProxy": "http://proxy.example.com:3128", "noProxy": "intranet.example.com", "trustedCA": {"name": "proxy-ca"}},
        "image": {"registrySources": {"blockedRegistries": ["bad.example.com"]}},
    });
    o["spec"]["operatorConfiguration"] =
        json!({"clusterNetworkOperator": {"ovnKubernetesConfig": {"mtu": 1400}}});
    o
}

pub fn told() -> Told {
    let images = ["zaffre", "apiserver-network-proxy", "azure-cloud-node-manager"];
    Told {
        namespace: NS.into(),
        name: "demo".into(),
        version: "4.19.3".into(),
        image: "quay.example/ocp-release:4.19.3".into(),
        kubernetes: "1.32.5".into(),
        images: images.map(|i| (i.to_owned(), format!("quay.example/{i}:4.19.3"))).into(),
        ..Told::default()
    }
}

/// What the control plane's namespace holds.
pub fn material() -> Vec<Value> {
    let text = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NS}, "data": data});
    let secret = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NS}, "stringData": data});
    vec![
        text("root-ca", json!({"ca.crt": "ROOT"})),
        text("kubelet-client-ca", json!({"ca.crt": "KUBELET"})),
        text("konnectivity-ca-bundle", json!({"ca.crt": "KONNECTIVITY"})),
        text("azure-cloud-config", json!({"cloud.conf": "{}"})),
        secret("pull-secret", json!({".dockerconfigjson": "{\"auths\": {}}"})),
        secret("konnectivity-agent", json!({"tls.crt": "CERT", "tls.key": "KEY"})),
        secret("ingress-crt", json!({"tls.crt": "CERT", "tls.key": "KEY"})),
        secret("kubeadmin-password", json!({"password": "aaaaa-bbbbb-ccccc-ddddd"})),
    ]
}

/// OpenShift's API server, and what it answers.
pub struct Behind(pub Mutex<Answer>);

impl Default for Behind {
    fn default() -> Behind {
        Behind(Mutex::new(Answer::Lacks))
    }
}

impl Backends for Behind {
    fn serves<'a>(&'a self, _: &'a str, group: &'a str, roots: &'a str) -> BoxFuture<'a, Answer> {
        assert_eq!((group, roots), ("route.openshift.io", "ROOT"));
        Box::pin(async { self.0.lock().clone() })
    }
}

/// The way from the operator to the guest, which can be closed.
#[derive(Clone)]
struct Road(LocalService, Arc<AtomicBool>);

impl tower::Service<http::Request<Body>> for Road {
    type Response = <LocalService as tower::Service<http::Request<Body>>>::Response;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (mut server, closed) = (self.0.clone(), self.1.load(Ordering::SeqCst));
        Box::pin(async move {
            if closed {
                return Err("the road is closed".into());
            }
            server.call(request).await.map_err(Into::into)
        })
    }
}

pub struct World {
    pub closed: Arc<AtomicBool>,
    pub management: ApiServer,
    pub guest: ApiServer,
    pub clock: Arc<ManualClock>,
    pub metrics: Metrics,
    pub behind: Arc<Behind>,
    kinds: Kinds,
}

pub struct Running {
    pub handle: Handle,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<reconcile::Drained>,
}

impl Running {
    pub async fn stop(self) {
        self.stop.cancel();
        assert_eq!(self.task.await.unwrap().broken_off, 0);
    }
}

impl World {
    /// Both clusters, with what their makers give them, and a control plane whose API server runs.
    pub async fn start(plane: Value) -> World {
        let management = ApiServer::start(Config::memory()).await.unwrap();
        let guest = ApiServer::start(Config::memory()).await.unwrap();
        let w = World {
            closed: Arc::default(),
            management,
            guest,
            clock: ManualClock::new("2026-03-01T12:00:00Z".parse::<Timestamp>().unwrap()),
            metrics: Metrics::default(),
            behind: Arc::default(),
            kinds: guest_config::kinds::all().with([guest_config::kinds::PLANE]),
        };
        for crd in apis::hypershift_crds() {
            w.put(&w.management.client(), serde_json::to_value(crd).unwrap()).await;
        }
        let ns = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}});
        w.put(&w.management.client(), ns).await;
        for object in material() {
            w.put(&w.management.client(), object).await;
        }
        w.put(&w.management.client(), openshift_apiserver(true)).await;
        w.put(&w.management.client(), plane).await;
        definitions::bootstrap(&w.guest.client(), &Random::seeded(1)).await.unwrap();
        w
    }

    /// As the config operator's certificate has it.
    pub fn operator_client(&self) -> Client {
        let user = User::new(definitions::USER, &["kubernetes", "system:authenticated"]);
        Client::new(Road(self.guest.service(user), self.closed.clone()), "default")
    }

    pub fn operator(&self) -> Running {
        let around = Around {
            management: self.management.client(),
            guest: self.operator_client(),
            told: told(),
            backends: self.behind.clone(),
            clock: self.clock.clone(),
            random: Random::seeded(7),
            metrics: self.metrics.clone(),
        };
        let mut runtime = Runtime::new(self.clock.clone(), &self.metrics);
        let handle = start(&mut runtime, around);
        let stop = CancellationToken::new();
        let task = tokio::spawn(runtime.run(stop.clone()));
        Running { handle, stop, task }
    }

    pub fn api(&self, client: &Client, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        self.kinds.find(api_version, kind).unwrap().api(client, namespace)
    }

    pub fn of(&self, client: &Client, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
        kind.api(client, namespace)
    }

    /// Creates an object, and its status.
    pub async fn put(&self, client: &Client, object: Value) {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let api = self.api(
            client,
            &text(&object["apiVersion"]),
            &text(&object["kind"]),
            &text(&object["metadata"]["namespace"]),
        );
        let name = text(&object["metadata"]["name"]);
        api.create(&Default::default(), &serde_json::from_value(object.clone()).unwrap()).await.unwrap();
        if !object["status"].is_null() {
            let status = json!({"status": object["status"]});
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        }
    }

    pub fn planes(&self) -> Api<DynamicObject> {
        self.of(&self.management.client(), &guest_config::kinds::PLANE, NS)
    }

    /// Waits for something about an object, and says how it is if it never comes.
    pub async fn until(
        &self,
        what: &str,
        api: Api<DynamicObject>,
        name: &str,
        is: impl Fn(Option<&DynamicObject>) -> bool,
    ) -> Option<DynamicObject> {
        let wait = kube::runtime::wait::await_condition(api.clone(), name, |o: Option<&DynamicObject>| is(o));
        match tokio::time::timeout(Duration::from_secs(30), wait).await {
            Ok(o) => o.unwrap(),
            Err(_) => {
                let o = api.get_opt(name).await.unwrap();
                let plane = self.planes().get_opt("demo").await.unwrap();
                panic!(
                    "{what} never came: {:?}\n{:#}",
                    o.map(|o| o.data),
                    plane.map(|p| p.data["status"].clone()).unwrap_or_default()
                );
            }
        }
    }

    /// Waits for a condition of the control plane.
    pub async fn condition(&self, kind: &str, status: &str) -> Value {
        let of = |o: &DynamicObject| {
            let all = o.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            all.into_iter().find(|c| c["type"] == kind && c["status"] == status)
        };
        let o = self
            .until(&format!("{kind}={status}"), self.planes(), "demo", |o| o.and_then(of).is_some())
            .await;
        of(&o.unwrap()).unwrap()
    }

    /// Waits for a condition of the control plane with a reason.
    pub async fn until_reason(&self, kind: &str, reason: &str) -> Value {
        let of = |o: &DynamicObject| {
            let all = o.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            all.into_iter().find(|c| c["type"] == kind && c["reason"] == reason)
        };
        let o = self
            .until(&format!("{kind} because of {reason}"), self.planes(), "demo", |o| {
                o.and_then(of).is_some()
            })
            .await;
        of(&o.unwrap()).unwrap()
    }

    /// The key that everything is said to be encrypted with.
    pub async fn noted(&self) -> Option<String> {
        let o = self.planes().get("demo").await.unwrap();
        o.annotations().get("hypershift.openshift.io/re-encrypted-with").cloned()
    }

    /// Objects that were really sent.
    pub fn sent(&self) -> i64 {
        let text = self.metrics.text();
        let lines =
            text.lines().filter(|l| l.starts_with("reconcile_applies_total") && !l.contains("skipped"));
        lines.filter_map(|l| l.rsplit(' ').next()?.parse::<i64>().ok()).sum()
    }

    pub fn runs(&self) -> i64 {
        let text = self.metrics.text();
        let lines = text.lines().filter(|l| l.starts_with("controller_runtime_reconcile_total"));
        lines.filter_map(|l| l.rsplit(' ').next()?.parse::<i64>().ok()).sum()
    }

    /// Runs a part of the work again, to its end.
    pub async fn again(&self, running: &Running, key: &str) {
        let before = self.runs();
        running.handle.poke(key);
        let run = async {
            while self.runs() == before {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), run).await.unwrap();
    }

    /// Until nothing is written any more.
    pub async fn settled(&self, running: &Running) {
        let quiet = async {
            loop {
                let before = (self.sent(), self.runs());
                for key in [guest_config::operate::RESOURCES, guest_config::operate::REPORT] {
                    self.again(running, key).await;
                }
                if self.sent() == before.0 && self.runs() == before.1 + 2 {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), quiet).await.unwrap();
    }
}

pub fn openshift_apiserver(available: bool) -> Value {
    let status = if available { "True" } else { "False" };
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "openshift-apiserver", "namespace": NS},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": {"metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "a", "image": "a"}]}}},
        "status": {"conditions": [{"type": "Available", "status": status}]}})
}

/// The labels of an object say that we keep it.
pub fn is_ours(o: &DynamicObject) -> bool {
    o.labels().get(guest_config::plan::LABEL.0).is_some()
}
