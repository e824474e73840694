//! A cluster in process, and a road to it on which every request is counted and watches can be cut.

use bytes::Bytes;
use ek_server::{ApiServer, Config, LocalService};
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use kube::core::DynamicObject;
use reconcile::{Applier, Kind, Kinds, Ledger, Metrics, ObjectRef, Runtime, Watch};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const MAPS: Kind = Kind::of::<k8s_openapi::api::core::v1::ConfigMap>();
pub const SECRETS: Kind = Kind::of::<k8s_openapi::api::core::v1::Secret>();
pub const SERVICES: Kind = Kind::of::<k8s_openapi::api::core::v1::Service>();
pub const ACCOUNTS: Kind = Kind::of::<k8s_openapi::api::core::v1::ServiceAccount>();
pub const DEPLOYMENTS: Kind = Kind::of::<k8s_openapi::api::apps::v1::Deployment>();
pub const JOBS: Kind = Kind::of::<k8s_openapi::api::batch::v1::Job>();
pub const NAMESPACES: Kind = Kind::of_cluster::<k8s_openapi::api::core::v1::Namespace>();

/// What went over the road, and what is to go wrong on it.
#[derive(Default)]
pub struct Road {
    requests: Mutex<Vec<String>>,
    watches: AtomicUsize,
    cut: Mutex<CancellationToken>,
    /// Watches to be answered with "too old".
    pub forgotten: AtomicUsize,
    /// Nobody answers.
    pub closed: AtomicBool,
    /// Statuses are refused this often, as if somebody had been quicker.
    pub conflicts: AtomicUsize,
}

impl Road {
    /// Ends all watches.
    pub fn cut(&self) {
        std::mem::take(&mut *self.cut.lock().unwrap()).cancel();
    }

    /// Requests since the last time, watches and lists of watches left out.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    pub fn watches(&self) -> usize {
        self.watches.load(Ordering::SeqCst)
    }
}

#[derive(Clone)]
struct Counted(LocalService, Arc<Road>);

type Trouble = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, Trouble>>;

fn refusal(code: u16, reason: &str) -> Answer {
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": format!("the road says {reason}")});
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never: Infallible| match never {});
    Response::builder().status(code).body(body.boxed_unsync()).unwrap()
}

/// Takes one from a budget, if there is any left.
fn spend(budget: &AtomicUsize) -> bool {
    budget.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
}

impl tower::Service<Request<Body>> for Counted {
    type Response = Answer;
    type Error = Trouble;
    type Future = BoxFuture<'static, Result<Answer, Trouble>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Trouble>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut server, road) = (self.0.clone(), self.1.clone());
        Box::pin(async move {
            let target = request.uri().path_and_query().map(|p| p.to_string()).unwrap_or_default();
            let is_watch = target.contains("watch=true");
            if road.closed.load(Ordering::SeqCst) {
                return Err("the road is closed".into());
            }
            if is_watch && spend(&road.forgotten) {
                return Ok(refusal(410, "Expired"));
            }
            if is_watch {
                road.watches.fetch_add(1, Ordering::SeqCst);
            } else {
                road.requests.lock().unwrap().push(format!("{} {target}", request.method()));
            }
            if target.contains("/status") && spend(&road.conflicts) {
                return Ok(refusal(409, "Conflict"));
            }
            let answer = tower::Service::call(&mut server, request).await?;
            let cut = road.cut.lock().unwrap().clone();
            Ok(answer.map(|body| {
                let whole = BodyStream::new(body).map(|frame| frame.map_err(Trouble::from));
                match is_watch {
                    true => StreamBody::new(whole.take_until(cut.cancelled_owned())).boxed_unsync(),
                    false => StreamBody::new(whole).boxed_unsync(),
                }
            }))
        })
    }
}

/// A cluster, a counted client for those under test and a plain one for everybody else.
pub struct World {
    pub client: Client,
    pub road: Arc<Road>,
    pub others: Client,
    pub ledger: Arc<Ledger>,
    pub metrics: Metrics,
}

impl World {
    pub async fn new() -> World {
        World::with(Config::memory()).await
    }

    pub async fn with(config: Config) -> World {
        let server = ApiServer::start(config).await.unwrap();
        let road = Arc::<Road>::default();
        let service = Counted(server.service(ek_auth::User::loopback()), road.clone());
        World {
            client: Client::new(service, "default"),
            others: server.client(),
            road,
            ledger: Ledger::new("us", &clock::Random::seeded(1)),
            metrics: Metrics::default(),
        }
    }

    /// Ours writes as the ledger says; others have a ledger of their own, and no watch.
    pub fn applier(&self, manager: &'static str) -> Applier {
        let ledger = match manager == self.ledger.manager() {
            true => self.ledger.clone(),
            false => Ledger::new(manager, &clock::Random::seeded(9)),
        };
        let kinds = Arc::new(Kinds::builtin().with([widgets()]));
        Applier::new(self.client.clone(), kinds, ledger).with_metrics(&self.metrics)
    }

    pub fn runtime(&self) -> Runtime {
        Runtime::new(clock::system(), &self.metrics)
    }

    /// Runs watches that feed the ledger and nothing else; returns when they have listed.
    pub async fn follow(&self, watches: Vec<Watch>) -> Running {
        let mut runtime = self.runtime();
        let (ready, listed) = tokio::sync::mpsc::channel(1);
        let first = runtime.controller(Arc::new(Ready(ready)), reconcile::Options::default());
        first.poke("ready");
        for watch in watches {
            runtime.watch(watch.into_sink(self.ledger.clone()));
        }
        let running = Running::start(runtime);
        within(async { { listed }.recv().await }).await;
        self.road.take();
        running
    }

    pub async fn get(&self, at: &ObjectRef) -> Option<DynamicObject> {
        at.kind.api(&self.others, &at.namespace).get_opt(&at.name).await.unwrap()
    }

    /// A merge patch by somebody else.
    pub async fn edit(&self, at: &ObjectRef, patch: Value) -> DynamicObject {
        let params = kube::api::PatchParams { field_manager: Some("somebody".into()), ..Default::default() };
        let api = at.kind.api(&self.others, &at.namespace);
        api.patch(&at.name, &params, &kube::api::Patch::Merge(patch)).await.unwrap()
    }

    pub async fn create(&self, kind: &Kind, object: Value) -> DynamicObject {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        kind.api(&self.others, &namespace).create(&Default::default(), &object).await.unwrap()
    }

    pub async fn delete(&self, at: &ObjectRef) {
        at.kind.api(&self.others, &at.namespace).delete(&at.name, &Default::default()).await.unwrap();
    }

    /// A custom kind with status, served from now on.
    pub async fn serve_widgets(&self) {
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
        let crds =
            Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
                .cluster_wide();
        self.create(&crds, crd).await;
        let api = widgets().api(&self.others, "default");
        within(async {
            while api.list(&Default::default()).await.is_err() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

struct Ready(tokio::sync::mpsc::Sender<()>);

impl reconcile::Controller for Ready {
    fn name(&self) -> &'static str {
        "ready"
    }

    fn reconcile<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<reconcile::Outcome, reconcile::Failure>> {
        Box::pin(async move {
            let _ = self.0.try_send(());
            Ok(reconcile::Outcome::Done)
        })
    }
}

pub fn widgets() -> Kind {
    Kind::new("example.com", "v1", "Widget", "widgets")
}

/// A runtime at work; stops with the test.
pub struct Running {
    stop: CancellationToken,
    task: Option<JoinHandle<reconcile::Drained>>,
}

impl Running {
    pub fn start(runtime: Runtime) -> Running {
        let stop = CancellationToken::new();
        let task = Some(tokio::spawn(runtime.run(stop.clone())));
        Running { stop, task }
    }

    pub async fn stop(mut self) -> reconcile::Drained {
        self.stop.cancel();
        within(self.task.take().unwrap()).await.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Nothing in these tests takes this long; what does hangs.
pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work).await.expect("hangs")
}

/// Waits for something that is going to be true.
pub async fn eventually(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

pub fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data})
}
