//! A world, and hosted clusters in it.

use crate::place::Place;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use hypershift::kinds;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use machines::{Reach, Unreachable};
use reconcile::Kind;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use world::sample::{NAMESPACE, Sample};
use world::{Cloud, Flavour, Landing, Options, World};

/// Long enough for a loaded machine; no test waits for it to pass.
pub const DEADLINE: Duration = Duration::from_secs(300);

pub const POD: Kind = Kind::new("", "v1", "Pod", "pods");
pub const EVENT: Kind = Kind::new("", "v1", "Event", "events");
pub const STATEFUL_SET: Kind = Kind::new("apps", "v1", "StatefulSet", "statefulsets");

/// Where it all happens is a world of ours, unless said otherwise.
pub struct Kit<P = World> {
    pub world: P,
    pub landing: Landing,
}

impl Kit {
    pub async fn start(flavour: Flavour) -> Kit {
        Kit::start_with(flavour, Options::default()).await
    }

    pub async fn start_with(flavour: Flavour, options: Options) -> Kit {
        let world = World::start(options).await.unwrap();
        let landing = Landing::make(world.cloud(), world.dir(), "land", flavour).await.unwrap();
        Kit { world, landing }
    }
}

impl<P: Place> Kit<P> {
    pub fn client(&self) -> kube::Client {
        self.world.client()
    }

    pub fn cloud(&self) -> &Cloud {
        self.world.cloud()
    }

    /// What something is called here.
    pub fn named(&self, name: &str) -> String {
        match self.world.mark() {
            "" => name.to_owned(),
            mark => format!("{name}-{mark}"),
        }
    }

    /// A file of this test's own.
    pub fn file(&self, name: &str) -> PathBuf {
        self.world.dir().join(self.named(name))
    }

    pub fn api(&self, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
        kind.api(&self.client(), namespace)
    }

    pub fn sample(&self, name: &str) -> Sample {
        self.sample_of(name, "4.19.3")
    }

    pub fn sample_of(&self, name: &str, version: &str) -> Sample {
        Sample::of(&self.landing, &self.named(name), self.cloud().release(version).unwrap())
    }

    pub async fn create(&self, sample: &Sample) {
        sample.create_in(&self.client()).await.unwrap();
    }

    /// Changes a cluster.
    pub async fn patch(&self, name: &str, patch: Value) {
        let api = self.api(&kinds::CLUSTER, NAMESPACE);
        api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// Waits until a cluster is so, and says how things stand if it never is.
    pub async fn until(&self, name: &str, what: &str, so: impl Fn(&Value) -> bool) -> DynamicObject {
        let seen = |o: Option<&DynamicObject>| o.is_some_and(|o| so(&o.data["status"]));
        let wait = kube::runtime::wait::await_condition(self.api(&kinds::CLUSTER, NAMESPACE), name, seen);
        match tokio::time::timeout(DEADLINE, wait).await {
            Ok(o) => o.unwrap().unwrap(),
            Err(_) => panic!("never: {what}\n{}", self.story(name).await),
        }
    }

    pub async fn available(&self, name: &str) -> DynamicObject {
        self.until(name, "Available", |s| is_true(s, "Available")).await
    }

    /// What objects have to say, for a test that fails.
    pub async fn story(&self, name: &str) -> String {
        let plane = format!("{NAMESPACE}-{name}");
        let mut text = String::new();
        for p in &self.api(&POD, &plane).list(&Default::default()).await.unwrap().items {
            let status = &p.data["status"];
            if is_true(status, "Ready") || status["phase"] == "Succeeded" {
                continue;
            }
            let pod = p.metadata.name.as_deref().unwrap_or_default();
            text.push_str(&format!("pod {pod}: {}\n", status["phase"]));
            for list in ["initContainerStatuses", "containerStatuses"] {
                for c in status[list].as_array().into_iter().flatten().filter(|c| {
                    c["ready"] != true || (list.starts_with("init") && c["state"]["running"].is_object())
                }) {
                    text.push_str(&format!("  {}: {}\n", c["name"], c["state"]));
                    let log = self.log(&plane, pod, c["name"].as_str().unwrap_or_default()).await;
                    log.lines().for_each(|l| text.push_str(&format!("    | {l}\n")));
                }
            }
        }
        for e in &self.api(&EVENT, &plane).list(&Default::default()).await.unwrap().items {
            if e.data["type"] == "Warning" {
                let who = &e.data["involvedObject"]["name"];
                text.push_str(&format!("{who} {}: {}\n", e.data["reason"], e.data["message"]));
            }
        }
        for (kind, space) in [(kinds::CLUSTER, NAMESPACE), (kinds::PLANE, &plane)] {
            if let Ok(o) = self.api(&kind, space).get(name).await {
                for c in o.data["status"]["conditions"].as_array().into_iter().flatten() {
                    text.push_str(&format!(
                        "{} {}={} {}: {}\n",
                        kind.kind, c["type"], c["status"], c["reason"], c["message"]
                    ));
                }
            }
        }
        text + &self.world.explain(name)
    }

    /// When pods of a control plane were made and ready, the slowest last: what to look at when this takes long.
    pub async fn timeline(&self, plane: &str) -> String {
        let pods = self.api(&POD, plane).list(&Default::default()).await.unwrap().items;
        let mut rows: Vec<(String, String)> = pods
            .iter()
            .map(|p| {
                let at = |kind: &str| {
                    let all = p.data["status"]["conditions"].as_array().into_iter().flatten();
                    let c = all.into_iter().find(|c| c["type"] == kind && c["status"] == "True");
                    c.and_then(|c| c["lastTransitionTime"].as_str()).unwrap_or("-").to_owned()
                };
                let made =
                    p.metadata.creation_timestamp.as_ref().map(|t| t.0.to_string()).unwrap_or_default();
                let name = p.metadata.name.as_deref().unwrap_or_default();
                (
                    at("Ready"),
                    format!("{} made {made}, initialised {}, ready {}", name, at("Initialized"), at("Ready")),
                )
            })
            .collect();
        rows.sort();
        rows.into_iter().map(|(_, row)| row + "\n").collect()
    }

    pub async fn log(&self, namespace: &str, pod: &str, container: &str) -> String {
        let uri = format!("/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}");
        let request = http::Request::get(uri).body(Vec::new()).unwrap();
        self.client().request_text(request).await.unwrap_or_default()
    }

    /// The administrator's kubeconfig, where the cluster says that it is, as this machine can use it.
    pub async fn kubeconfig(&self, name: &str) -> String {
        let cluster = self.api(&kinds::CLUSTER, NAMESPACE).get(name).await.unwrap();
        let secret = cluster.data["status"]["kubeconfig"]["name"].as_str().expect("a kubeconfig").to_owned();
        let secret = self.api(&kinds::SECRET, NAMESPACE).get(&secret).await.unwrap();
        let text = STANDARD.decode(secret.data["data"]["kubeconfig"].as_str().unwrap()).unwrap();
        self.world.reachable(&String::from_utf8(text).unwrap())
    }

    pub async fn admin(&self, name: &str) -> kube::Client {
        let config = Kubeconfig::from_yaml(&self.kubeconfig(name).await).unwrap();
        let config =
            kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        kube::Client::try_from(config).unwrap()
    }

    /// What kubectl says in a guest, and whether it is content; nothing where there is no kubectl.
    pub async fn kubectl(&self, name: &str, args: &[&str]) -> Option<(bool, String)> {
        let kubectl = testkit::tools::kubectl()?;
        let file = self.file(&format!("{name}.kubeconfig"));
        std::fs::write(&file, self.kubeconfig(name).await).unwrap();
        let mut command = std::process::Command::new(kubectl);
        command.arg("--kubeconfig").arg(&file).args(args);
        let out = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        Some((out.status.success(), text))
    }
}

/// A client whose requests somebody meets on their way. Whoever meets them sends them on, or does not.
pub fn met<F>(
    client: kube::Client,
    meet: impl Fn(kube::Client, http::Request<Body>) -> F + Send + Sync + 'static,
) -> kube::Client
where
    F: Future<Output = Result<http::Response<Body>, tower::BoxError>> + Send + 'static,
{
    let service = tower::service_fn(move |request: http::Request<Body>| meet(client.clone(), request));
    kube::Client::new(service, "default")
}

/// Stands between the machines' controllers and their guests.
pub struct Between {
    reach: Arc<dyn Reach>,
    instead: Box<dyn Fn(kube::Client) -> kube::Client + Send + Sync>,
}

impl Between {
    pub fn new(
        reach: Arc<dyn Reach>,
        instead: impl Fn(kube::Client) -> kube::Client + Send + Sync + 'static,
    ) -> Arc<Between> {
        Arc::new(Between { reach, instead: Box::new(instead) })
    }
}

impl Reach for Between {
    fn guest<'a>(
        &'a self,
        namespace: &'a str,
        cluster: &'a str,
    ) -> BoxFuture<'a, Result<kube::Client, Unreachable>> {
        Box::pin(async move { Ok((self.instead)(self.reach.guest(namespace, cluster).await?)) })
    }
}

/// A condition; null if it is not there.
pub fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let all = status["conditions"].as_array().into_iter().flatten();
    all.into_iter().find(|c| c["type"] == kind).unwrap_or(&Value::Null)
}

/// Whether a condition is so, and its message has all these words.
pub fn says(status: &Value, kind: &str, is: &str, words: &[&str]) -> bool {
    let c = condition(status, kind);
    let message = c["message"].as_str().unwrap_or_default();
    c["status"] == is && words.iter().all(|w| message.contains(w) || c["reason"] == *w)
}

pub fn is_true(status: &Value, kind: &str) -> bool {
    let all = status["conditions"].as_array().into_iter().flatten();
    all.into_iter().any(|c| c["type"] == kind && c["status"] == "True")
}
