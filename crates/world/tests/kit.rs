//! A world, and control planes in it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{Api, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;
use serde_json::Value;
use std::time::Duration;
use world::sample::Sample;
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

    /// Creates a control plane in a namespace of its own.
    pub async fn create(&self, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut sample = self.sample(namespace, name);
        change(&mut sample.plane);
        sample.create(&self.world).await.unwrap();
    }

    pub fn sample(&self, namespace: &str, name: &str) -> Sample {
        Sample::new(&self.world, namespace, name, "4.19.3").unwrap()
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
