//! A world, and control planes in it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{Api, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;
use serde_json::{Value, json};
use std::time::Duration;
use world::{Options, World};

/// Long enough for a loaded machine; no test waits for it to pass.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version,
        kind: kind.into(),
        plural: plural.into(),
    }
}

pub fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

pub struct Kit {
    pub world: World,
}

const SUB: &str = "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups";

/// A HostedControlPlane as the HostedCluster controller writes it. The API has a balancer of its own.
pub fn hosted_control_plane(namespace: &str, name: &str, release: &str) -> Value {
    let id = |n: u8| json!({"clientID": format!("00000000-0000-0000-0000-00000000000{n}")});
    let service = |s: &str, strategy: Value| json!({"service": s, "servicePublishingStrategy": strategy});
    let route = |s: &str, host: &str| {
        service(s, json!({"type": "Route", "route": {"hostname": format!("{host}-{name}.hc.example.com")}}))
    };
    json!({
        "apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedControlPlane",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "releaseImage": release, "infraID": format!("{name}-x7k2p"), "clusterID": "5d9b2b0e-5a3c-4b0e-9a34-6d3b3f3f2a11",
            "issuerURL": format!("https://{name}oidc.blob.core.windows.net/{name}oidc"),
            "dns": {"baseDomain": "example.com"}, "sshKey": {"name": "ssh-key"}, "pullSecret": {"name": "pull-secret"},
            "controllerAvailabilityPolicy": "SingleReplica",
            "etcd": {"managementType": "Managed", "managed": {"storage": {"type": "PersistentVolume", "persistentVolume": {"size": "8Gi"}}}},
            "networking": {"networkType": "OVNKubernetes", "clusterNetwork": [{"cidr": "10.132.0.0/14"}],
                "serviceNetwork": [{"cidr": "172.31.0.0/16"}], "machineNetwork": [{"cidr": "10.0.0.0/16"}]},
            "services": [
                service("APIServer", json!({"type": "LoadBalancer"})),
                route("OAuthServer", "oauth"), route("Konnectivity", "konnectivity"), route("Ignition", "ignition"),
            ],
            "platform": {"type": "Azure", "azure": {
                "location": "eastus", "resourceGroup": format!("{name}-rg"), "tenantID": "11111111-1111-1111-1111-111111111111",
                "subscriptionID": "22222222-2222-2222-2222-222222222222",
                "vnetID": format!("{SUB}/net/providers/Microsoft.Network/virtualNetworks/{name}"),
                "subnetID": format!("{SUB}/net/providers/Microsoft.Network/virtualNetworks/{name}/subnets/default"),
                "securityGroupID": format!("{SUB}/net/providers/Microsoft.Network/networkSecurityGroups/{name}-nsg"),
                "azureAuthenticationConfig": {"azureAuthenticationConfigType": "WorkloadIdentities", "workloadIdentities": {
                    "cloudProvider": id(0), "nodePoolManagement": id(1), "controlPlaneOperator": id(2), "ingress": id(3),
                    "network": id(4), "disk": id(5), "file": id(6), "imageRegistry": id(7)}},
            }},
        },
    })
}

impl Kit {
    pub async fn start(options: Options) -> Kit {
        Kit { world: World::start(options).await.unwrap() }
    }

    pub fn api(&self, namespace: &str, group: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let version = if group == "hypershift.openshift.io" { "v1beta1" } else { "v1" };
        Api::namespaced_with(self.world.client(), namespace, &resource(group, version, kind, plural))
    }

    pub fn planes(&self, namespace: &str) -> Api<DynamicObject> {
        self.api(namespace, "hypershift.openshift.io", "HostedControlPlane", "hostedcontrolplanes")
    }

    /// What the HostedCluster controller makes before the control plane: namespace, account, keys.
    pub async fn prepare(&self, namespace: &str) {
        let names: Api<DynamicObject> =
            Api::all_with(self.world.client(), &resource("", "v1", "Namespace", "namespaces"));
        names.create(&Default::default(), &object(json!({"metadata": {"name": namespace}}))).await.unwrap();
        let accounts = self.api(namespace, "", "ServiceAccount", "serviceaccounts");
        accounts
            .create(&Default::default(), &object(json!({"metadata": {"name": "control-plane-operator"}})))
            .await
            .unwrap();
        let key = pki::KeyKind::Rsa2048.generate().unwrap();
        let sa = json!({"service-account.key": STANDARD.encode(key.serialize_pem()),
            "service-account.pub": STANDARD.encode(key.public_key_pem())});
        let pull = json!({".dockerconfigjson": STANDARD.encode(r#"{"auths":{}}"#)});
        for (name, data) in [("sa-signing-key", sa), ("pull-secret", pull)] {
            let secret = json!({"metadata": {"name": name,
                "labels": {"hypershift.openshift.io/hosted-control-plane": namespace}}, "data": data});
            let api = self.api(namespace, "", "Secret", "secrets");
            api.create(&Default::default(), &object(secret)).await.unwrap();
        }
    }

    /// Creates a control plane in a namespace of its own.
    pub async fn create(&self, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        self.prepare(namespace).await;
        let mut plane = hosted_control_plane(namespace, name, self.world.cloud().release("4.19.3").unwrap());
        change(&mut plane);
        self.planes(namespace).create(&Default::default(), &object(plane)).await.unwrap();
        self.operator(namespace).await;
    }

    /// The operator's pod, as the HostedCluster controller writes it.
    pub async fn operator(&self, namespace: &str) {
        let labels = json!({"app": "control-plane-operator"});
        let container = json!({"name": "control-plane-operator", "image": self.world.cloud().image("zaffre"),
            "command": ["/usr/bin/zaffre", "serve", "control-plane-operator"]});
        let deployment = json!({"metadata": {"name": "control-plane-operator"}, "spec": {"replicas": 1,
            "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
                "spec": {"serviceAccountName": "control-plane-operator", "containers": [container]}}}});
        let api = self.api(namespace, "apps", "Deployment", "deployments");
        api.create(&Default::default(), &object(deployment)).await.unwrap();
    }

    /// Waits until a control plane is so, and says how things stand if it never is.
    pub async fn until(
        &self,
        namespace: &str,
        name: &str,
        what: &str,
        so: impl Fn(&Value) -> bool,
    ) -> DynamicObject {
        let seen = |o: Option<&DynamicObject>| o.is_some_and(|o| so(&o.data["status"]));
        let wait = kube::runtime::wait::await_condition(self.planes(namespace), name, seen);
        match tokio::time::timeout(DEADLINE, wait).await {
            Ok(o) => o.unwrap().unwrap(),
            Err(_) => panic!("never: {what}\n{}", self.story(namespace, name).await),
        }
    }

    pub async fn available(&self, namespace: &str, name: &str) -> DynamicObject {
        self.until(namespace, name, "Available", |s| is_true(s, "Available")).await
    }

    /// What objects have to say, for a test that fails.
    pub async fn story(&self, namespace: &str, name: &str) -> String {
        let mut text = String::new();
        let pods = self.api(namespace, "", "Pod", "pods").list(&Default::default()).await.unwrap();
        for p in &pods.items {
            let status = &p.data["status"];
            let ready = is_true(status, "Ready");
            if ready || status["phase"] == "Succeeded" {
                continue;
            }
            text.push_str(&format!(
                "pod {}: {}\n",
                p.metadata.name.as_deref().unwrap_or_default(),
                status["phase"]
            ));
            for list in ["initContainerStatuses", "containerStatuses"] {
                for c in status[list].as_array().into_iter().flatten() {
                    text.push_str(&format!("  {}: ready {} {}\n", c["name"], c["ready"], c["state"]));
                    if c["ready"] != true {
                        let pod = p.metadata.name.as_deref().unwrap_or_default();
                        let log = self.log(namespace, pod, c["name"].as_str().unwrap_or_default()).await;
                        log.lines().for_each(|l| text.push_str(&format!("    | {l}\n")));
                    }
                }
            }
        }
        let events = self.api(namespace, "", "Event", "events").list(&Default::default()).await.unwrap();
        for e in events.items.iter().filter(|e| e.data["type"] == "Warning") {
            text.push_str(&format!(
                "{} {}: {}\n",
                e.data["involvedObject"]["name"], e.data["reason"], e.data["message"]
            ));
        }
        if let Ok(o) = self.planes(namespace).get(name).await {
            text.push_str(&format!("{:#}\n", o.data["status"]));
        }
        text.push_str(&format!("{:#?}", self.world.planes().explain(&format!("{namespace}/{name}"))));
        text
    }

    pub async fn log(&self, namespace: &str, pod: &str, container: &str) -> String {
        let uri = format!("/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}");
        let request = http::Request::get(uri).body(Vec::new()).unwrap();
        self.world.client().request_text(request).await.unwrap_or_default()
    }

    /// The administrator's kubeconfig, as it was published.
    pub async fn kubeconfig(&self, namespace: &str) -> String {
        let secret = self.api(namespace, "", "Secret", "secrets").get("admin-kubeconfig").await.unwrap();
        let text = STANDARD.decode(secret.data["data"]["kubeconfig"].as_str().unwrap()).unwrap();
        String::from_utf8(text).unwrap()
    }
}

pub fn is_true(status: &Value, kind: &str) -> bool {
    let all = status["conditions"].as_array().into_iter().flatten();
    all.into_iter().any(|c| c["type"] == kind && c["status"] == "True")
}

pub async fn client(kubeconfig: &str) -> kube::Client {
    let config = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}
