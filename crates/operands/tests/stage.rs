//! Azure, the management cluster and one guest, brought together.

use crate::facts;
use crate::kit::{DEADLINE, Hosted, Kit, is_ready};
use crate::support::{self, quiet};
use arm::ResourceId;
use azure::{ArmType, Credential};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use control_plane::scope::{Identity, Named, Scope, Who};
use ek_guest::Guests;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use landing_zone::identities::{Identities, WorkloadIdentities};
use landing_zone::infra::Layout;
use landing_zone::issuer::{Issuer, KeyDir, Keys, Rotation, SigningKey};
use landing_zone::run::Options;
use operands::{Azure, Operands, SECRETS_STORE};
use serde_json::{Value, json};
use std::sync::LazyLock;
use std::time::Duration;

pub const NS: &str = "clusters-demo";
/// The identity that nodes read vaults as.
pub const READER: &str = "00000000-0000-0000-0000-0000000000aa";

/// The guest's signing key; making one takes long.
static KEY: LazyLock<String> = LazyLock::new(|| landing_zone::managed::new_key().unwrap().serialize_pem());

pub struct Stage {
    pub azure: support::World,
    pub kit: Kit,
    pub hosted: Hosted,
    _dir: tempfile::TempDir,
}

impl Stage {
    /// Azure with a published issuer, and a cluster without anything of the guest yet.
    pub async fn start() -> Stage {
        let azure = support::world().await;
        let dir = tempfile::tempdir().unwrap();
        let wanted = Issuer::new("demooidc", azure.subscription.clone(), "demo-oidc", "westus2").unwrap();
        let keys = Keys {
            dir: KeyDir::open(dir.path()).unwrap(),
            given: None,
            rotation: Rotation::Keep,
            make: || SigningKey::from_pem(&KEY),
        };
        let made = landing_zone::issuer::create(&azure.client, &wanted, &keys, Options::default(), &quiet);
        let (outcome, published) = made.await.unwrap();
        assert!(outcome.is_good());
        let mut hosted = Hosted::new(NS);
        hosted.pki.sa = rcgen::KeyPair::from_pem_and_sign_algo(&KEY, &rcgen::PKCS_RSA_SHA256).unwrap();
        hosted.issuer = published.unwrap().url;

        let (http, cloud, timing) = azure.parts();
        let side = Azure { cloud, http, options: support::options() };
        let looks = sidecars::Timing { look: Duration::from_millis(20), ..sidecars::Timing::system() };
        let operands = Operands::new(side, looks);
        // The nodes' identity: an application with a secret, as good as a machine's for reading vaults.
        let (client, object) = azure.sim.world().add_app("nodes", "a secret of some length", Vec::new());
        azure.sim.world().assign(
            &object,
            "4633458b-17de-408a-b874-0445c86b69e6",
            azure.subscription.as_str(),
        );
        let (http, cloud, _) = azure.parts();
        let tenant = azure.sim.creds().tenant_id;
        let node = move |asked: &str| {
            if asked != READER {
                return Err(format!("the nodes have no identity {asked:?}"));
            }
            let entra = azure::credential::Entra {
                http: http.clone(),
                login: cloud.login.clone(),
                timing: timing.clone(),
            };
            let proof = azure::credential::Proof::Secret(azure::Secret::new("a secret of some length"));
            let source = azure::credential::Confidential::new(entra, &tenant, &client, proof);
            Ok(Credential::new(source, timing.clone()))
        };
        let (store, kms) = (operands.secrets_store(node), operands.kms());
        let kit = Kit::made(
            dir.path(),
            |host| Guests::with_kms(host, kms),
            |options| {
                operands.register(
                    &mut options.programs,
                    |key| format!("*@sha256:{key}"),
                    "quay.example/zaffre:dev",
                );
                options.csi.insert(SECRETS_STORE.into(), store);
            },
        )
        .await;
        let stage = Stage { azure, kit, hosted, _dir: dir };
        for crd in apis::crds() {
            stage.apply(serde_json::to_value(crd).unwrap()).await;
        }
        for (name, value) in [("control-plane", 1000), ("api-critical", 2000), ("etcd", 3000)] {
            let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": format!("hypershift-{name}")}, "value": value});
            stage.apply(class).await;
        }
        stage
    }

    /// The guest, and the kubeconfig that components have.
    pub async fn guest(&self) -> kube::Client {
        self.hosted.deploy(&self.kit).await;
        let admin = self.hosted.pki.admin();
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://kube-apiserver:6443",
                "certificate-authority-data": STANDARD.encode(self.hosted.pki.root.cert_pem())}}],
            "users": [{"name": "u", "user": {"client-certificate-data": STANDARD.encode(&admin.cert_pem),
                "client-key-data": STANDARD.encode(admin.key_pem.expose())}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
        for name in ["service-network-admin-kubeconfig", "ingress-operator-service-account-kubeconfig"] {
            self.secret(name, &[("kubeconfig", &kubeconfig.to_string())]).await;
        }
        self.secret("konnectivity-client", &[("tls.crt", "x"), ("tls.key", "x")]).await;
        self.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "konnectivity-ca-bundle", "namespace": NS}, "data": {"ca.crt": "x"}})).await;
        self.secret("root-ca", &[("ca.crt", self.hosted.pki.root.cert_pem())]).await;
        self.hosted.up(&self.kit).await;
        self.kit.client(&self.hosted, &admin).await
    }

    /// Kinds and objects of a guest that components wait for before they start.
    pub async fn furnish(&self, guest: &kube::Client) {
        for (group, kind, plural) in [
            ("operator.openshift.io", "Storage", "storages"),
            ("operator.openshift.io", "Network", "networks"),
            ("network.operator.openshift.io", "EgressRouter", "egressrouters"),
            ("network.operator.openshift.io", "OperatorPKI", "operatorpkis"),
            ("route.openshift.io", "Route", "routes"),
            ("config.openshift.io", "Infrastructure", "infrastructures"),
            ("config.openshift.io", "DNS", "dnses"),
        ] {
            let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.{group}")},
                "spec": {"group": group, "scope": "Cluster",
                    "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
                    "versions": [{"name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
            apply(guest, crd).await;
        }
        let cluster = json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"}});
        apply(guest, cluster).await;
        for (name, group) in [
            ("cluster-network-operator", "nobody"),
            ("operators", "system:serviceaccounts:openshift-image-registry"),
        ] {
            let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group}]});
            apply(guest, binding).await;
        }
        for ns in [
            "openshift-ingress-operator",
            "openshift-image-registry",
            "openshift-network-operator",
            "openshift-cluster-csi-drivers",
            "openshift-cloud-network-config-controller",
        ] {
            apply(guest, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}})).await;
        }
    }

    pub async fn secret(&self, name: &str, data: &[(&str, &str)]) {
        let data: serde_json::Map<String, Value> =
            data.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
        self.apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NS}, "stringData": data})).await;
    }

    /// Identities with federated credentials and roles, and the cluster's infrastructure.
    pub async fn workload(&self) -> (WorkloadIdentities, Layout, ResourceId) {
        let mut iam = self.azure.iam("demo");
        iam.issuer = self.hosted.issuer.clone();
        let ids = self.azure.make_iam(&iam).await;
        let infra = self.azure.infra("demo", Identities::Workload(ids.clone()));
        let (_, facts) = self.azure.make_infra(&infra).await;
        (ids, infra.layout().unwrap(), facts.zone.unwrap())
    }

    /// The facts of the cluster.
    pub fn scope(&self, identity: Identity, at: &Layout) -> Scope {
        let mut scope = facts::self_managed();
        let named = |id: &ResourceId| Named { name: id.name().into(), group: id.group().unwrap().into() };
        scope.issuer.clone_from(&self.hosted.issuer);
        scope.azure.tenant = self.azure.sim.creds().tenant_id;
        scope.azure.subscription = self.azure.subscription.subscription().unwrap().into();
        scope.azure.resource_group = at.main.name().into();
        scope.azure.location = "westus2".into();
        scope.azure.vnet = named(&at.vnet);
        scope.azure.security_group = named(&at.security_group);
        scope.identity = identity;
        scope
    }

    /// A component as it is rendered for production.
    pub async fn deploy(&self, scope: &Scope, component: &str) {
        let row = control_plane::table::find(component).unwrap();
        for object in control_plane::render::one(scope, row, &facts::Names).unwrap().objects {
            // This cluster has no Prometheus.
            if !object["apiVersion"].as_str().unwrap().starts_with("monitoring.") {
                self.apply(object).await;
            }
        }
    }

    pub async fn apply(&self, object: Value) {
        apply(&self.kit.main.client(), object).await;
    }

    pub fn pods(&self, app: &str) -> Vec<Value> {
        self.kit.pods(NS, app)
    }

    pub async fn ready(&self, app: &str) {
        self.until(&format!("{app} is ready"), || {
            let pods = self.pods(app);
            !pods.is_empty() && pods.iter().all(is_ready)
        })
        .await;
    }

    pub async fn until(&self, what: &str, so: impl Fn() -> bool) {
        let wait = async {
            while !so() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(DEADLINE, wait).await.is_err() {
            let mut logs = String::new();
            for (key, _) in &self.kit.access.table(&ek_server::registry::table_name("", "pods")).objects {
                let (ns, name) = key.split_once('/').unwrap();
                let pod = self.kit.get("pods", ns, name);
                let specs = [&pod["spec"]["initContainers"], &pod["spec"]["containers"]];
                for c in specs.into_iter().filter_map(Value::as_array).flatten() {
                    let c = c["name"].as_str().unwrap();
                    logs.push_str(&format!("--- {name} {c}\n{}\n", self.kit.log(ns, name, c).await));
                }
            }
            panic!("never: {what}\n{}\n{logs}", self.kit.story());
        }
    }

    /// Waits until a container of an app has ended, and its last words hold this.
    pub async fn ended(&self, app: &str, words: &str) {
        self.until(&format!("{app} says {words:?}"), || self.last_words(app).contains(words)).await;
    }

    /// What containers said when they ended, or why they wait.
    pub fn last_words(&self, app: &str) -> String {
        let mut all = String::new();
        for pod in self.pods(app) {
            for list in ["containerStatuses", "initContainerStatuses"] {
                for c in pod["status"][list].as_array().into_iter().flatten() {
                    for at in [
                        "/state/terminated/message",
                        "/lastState/terminated/message",
                        "/state/waiting/message",
                    ] {
                        all.push_str(c.pointer(at).and_then(Value::as_str).unwrap_or_default());
                    }
                }
            }
        }
        all
    }

    pub async fn log(&self, app: &str, container: &str) -> String {
        let pods = self.pods(app);
        let name =
            pods.first().map(|p| p["metadata"]["name"].as_str().unwrap().to_owned()).unwrap_or_default();
        self.kit.log(NS, &name, container).await
    }

    pub fn events(&self, reason: &str) -> Vec<String> {
        let all = self.kit.access.in_namespace(&ek_server::registry::table_name("", "events"), NS);
        let events = all.into_iter().filter_map(|(_, e)| ek_server::parse(&e));
        let of = events.filter(|e| e["reason"] == reason);
        of.filter_map(|e| Some(e["message"].as_str()?.to_owned())).collect()
    }

    /// Another pod in place of each.
    pub async fn replace(&self, app: &str) {
        for p in self.pods(app) {
            self.kit.delete("pods", NS, p["metadata"]["name"].as_str().unwrap()).await;
        }
    }

    pub async fn put<T: ArmType>(&self, id: &ResourceId, body: Value) {
        support::put::<T>(&self.azure, id, body).await;
    }
}

pub async fn apply(client: &kube::Client, object: Value) {
    let text = |f: &str| object[f].as_str().unwrap().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let lower = kind.to_lowercase();
    let plural = match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if lower.ends_with('s') => format!("{lower}es"),
        None => format!("{lower}s"),
    };
    let resource = ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: api_version.clone(),
        kind,
        plural,
    };
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(ns) => Api::namespaced_with(client.clone(), ns, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = object["metadata"]["name"].as_str().unwrap();
    let params = PatchParams::apply("test").force();
    let done = tokio::time::timeout(DEADLINE, async {
        loop {
            match api.patch(name, &params, &Patch::Apply(&object)).await {
                // A kind that was just defined.
                Err(kube::Error::Api(s)) if s.code == 404 => {
                    tokio::time::sleep(Duration::from_millis(20)).await
                }
                other => return other,
            }
        }
    });
    let done = done.await.unwrap();
    assert!(done.is_ok(), "{name}: {done:?}");
}

/// The client ids as a control plane knows them.
pub fn identity(ids: &WorkloadIdentities) -> Identity {
    let who = [
        (Who::CloudProvider, &ids.cloud_provider),
        (Who::NodePoolManagement, &ids.node_pool_management),
        (Who::Ingress, &ids.ingress),
        (Who::Network, &ids.network),
        (Who::Disk, &ids.disk),
        (Who::File, &ids.file),
        (Who::ImageRegistry, &ids.image_registry),
    ];
    Identity::Workload(who.into_iter().map(|(w, c)| (w, c.client_id.clone())).collect())
}
