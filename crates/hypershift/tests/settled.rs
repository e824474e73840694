//! A settled cluster costs nothing; a killed operator loses nothing.

use crate::samples;
use crate::world::World;
use futures::future::BoxFuture;
use hypershift::kinds;
use kube::client::Body;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use testkit::adversarial::{Interrupted, Probe, Workflow, assert_robust};
use tokio::sync::OnceCell;

type Request = http::Request<Body>;
pub type Failed = tower::BoxError;

/// Hears of every request, and may let it fail after it was done: a lost answer.
pub fn listening<F>(client: kube::Client, after: F) -> kube::Client
where
    F: Fn(String) -> BoxFuture<'static, Result<(), Failed>> + Clone + Send + Sync + 'static,
{
    let service = tower::service_fn(move |request: Request| {
        let what = format!("{} {}", request.method(), request.uri().path());
        let (client, after) = (client.clone(), after.clone());
        async move {
            let answer = client.send(request).await.map_err(Failed::from);
            after(what).await?;
            answer
        }
    });
    kube::Client::new(service, "default")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settled_cluster_is_reconciled_a_hundred_times_without_a_request() {
    settles(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settled_cluster_that_has_a_size_costs_no_request_either() {
    settles(true).await;
}

async fn settles(sizing: bool) {
    let w = World::start().await.with_inputs().await;
    w.told.sizing.store(sizing, Ordering::SeqCst);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let client = listening(w.server.client(), move |what| {
        // Watches are asked for again when they end; nothing else may be.
        if !what.starts_with("GET") || what.matches('/').count() > 5 {
            count.fetch_add(1, Ordering::SeqCst);
        }
        Box::pin(async { Ok(()) })
    });
    let running = w.operate_as(&client);
    w.create(&kinds::CLUSTER, samples::self_managed()).await;
    w.report_available().await;
    w.condition("Available", "True").await;
    let there = |o: Option<&DynamicObject>| o.is_some();
    w.until(&kinds::DEPLOYMENT, "clusters-demo", "capi-provider", "being", there).await;
    w.until(&kinds::CONFIG_MAP, "hypershift", "supported-versions", "being", there).await;
    let total = |what: &str| -> i64 {
        let text = running.metrics.text();
        let lines = text.lines().filter(|l| l.starts_with(what));
        lines.filter_map(|l| l.rsplit(' ').next()?.parse::<i64>().ok()).sum()
    };
    let runs = || total("controller_runtime_reconcile_total");
    let run = async || {
        let before = runs();
        running.handle.poke("clusters/demo");
        let ran = async {
            while runs() == before {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), ran).await.unwrap();
    };
    // Settled is when a run asks nothing, several times in a row.
    let mut quiet = 0;
    for _ in 0..200 {
        let before = asked.load(Ordering::SeqCst);
        run().await;
        quiet = if asked.load(Ordering::SeqCst) == before { quiet + 1 } else { 0 };
        if quiet == 5 {
            break;
        }
    }
    assert_eq!(quiet, 5, "it never settles");
    let (before, looked_up) = (asked.load(Ordering::SeqCst), w.told.looked_up.load(Ordering::SeqCst));
    let version = w.api(&kinds::CLUSTER, "clusters").get("demo").await.unwrap().metadata.resource_version;
    for _ in 0..100 {
        run().await;
    }
    assert_eq!(asked.load(Ordering::SeqCst), before, "requests of settled runs");
    assert_eq!(w.told.looked_up.load(Ordering::SeqCst), looked_up, "lookups of settled runs");
    let now = w.api(&kinds::CLUSTER, "clusters").get("demo").await.unwrap().metadata.resource_version;
    assert_eq!(now, version);
    let page = hypershift::metrics::text(&running.operator, clock::Clock::now(&*w.clock));
    for family in [
        "hosted_cluster_azure_info{namespace=\"clusters\",name=\"demo\",_id=\"5d9b2b0e",
        "hypershift_hostedclusters{platform=\"Azure\"",
        "hypershift_hostedcluster_nodepools{namespace=\"clusters\",name=\"demo\",_id=",
        "hypershift_operator_info{version=",
    ] {
        assert!(page.contains(family), "{family} is not in {page}");
    }
}

/// Sorts of writes after which it is attacked. The rest are applied beside these, by the same code.
const ATTACKED: [&str; 5] =
    ["namespaces", "secrets", "hostedcontrolplanes", "hostedclusters", "hostedclusters status"];

/// From creation to deletion, killed after each sort of write.
struct Life {
    world: OnceCell<Arc<World>>,
    next: AtomicUsize,
}

/// One scenario's corner of the one server.
struct Corner {
    home: String,
    /// What there was when it was complete.
    complete: Mutex<Option<BTreeSet<String>>>,
    /// Whether its end was asked for: what a restarted caller finds out by asking.
    ending: AtomicBool,
}

#[derive(Debug)]
#[allow(dead_code, reason = "shown by Debug")]
struct Error(String);

impl From<Interrupted> for Error {
    fn from(e: Interrupted) -> Error {
        Error(e.to_string())
    }
}

impl Life {
    async fn world(&self) -> Arc<World> {
        self.world.get_or_init(|| async { Arc::new(World::start().await) }).await.clone()
    }

    /// Every object of the corner, without what chance names.
    async fn all(&self, corner: &Corner) -> BTreeSet<String> {
        let w = self.world().await;
        let inside = format!("{}-demo", corner.home);
        let mut found = BTreeSet::new();
        let kinds = [
            kinds::CLUSTER,
            kinds::PLANE,
            kinds::SECRET,
            kinds::CONFIG_MAP,
            kinds::DEPLOYMENT,
            kinds::CAPI_CLUSTER,
            kinds::AZURE_CLUSTER,
            kinds::AZURE_IDENTITY,
        ];
        for kind in kinds.iter().chain(&hypershift::kinds::ACCESS) {
            for namespace in [&corner.home, &inside] {
                for o in w.api(kind, namespace).list(&Default::default()).await.unwrap().items {
                    let name = o.metadata.name.unwrap();
                    let marks = o.metadata.annotations.unwrap_or_default();
                    let marked = marks.keys().any(|k| k.starts_with("referenced-resource"));
                    found.insert(format!(
                        "{} {}/{name} marked={marked}",
                        kind.kind,
                        if *namespace == inside { "inside" } else { "home" }
                    ));
                }
            }
        }
        for kind in [kinds::CLUSTER_ROLE, kinds::CLUSTER_ROLE_BINDING, kinds::NAMESPACE] {
            for o in w.api(&kind, "").list(&Default::default()).await.unwrap().items {
                let name = o.metadata.name.unwrap();
                if name.contains(&inside) {
                    found.insert(format!("{} {}", kind.kind, name.replace(&inside, "<inside>")));
                }
            }
        }
        found.retain(|o| !o.contains("kube-root-ca.crt") && !o.contains("/default marked"));
        found
    }
}

impl Workflow for Life {
    type World = Corner;
    type Running = usize;
    type Observed = (Option<BTreeSet<String>>, BTreeSet<String>);
    type Error = Error;

    fn steps(&self) -> Vec<String> {
        vec!["begin".into(), "complete".into(), "end".into()]
    }

    fn new_world(&self) -> Corner {
        Corner {
            home: format!("s{}", self.next.fetch_add(1, Ordering::SeqCst)),
            complete: Mutex::new(None),
            ending: AtomicBool::new(false),
        }
    }

    async fn start(&self, corner: &Corner) -> Result<usize, Error> {
        Ok(if corner.ending.load(Ordering::SeqCst) { 2 } else { 0 })
    }

    /// How many passes a write takes, and so which sorts a step sees, depends on how watches come in.
    fn repeatable(&self) -> bool {
        false
    }

    fn resume_at(&self, running: &usize) -> usize {
        *running
    }

    async fn run_step(
        &self,
        corner: &Corner,
        _: &mut usize,
        step: usize,
        probe: &Probe,
    ) -> Result<(), Error> {
        let w = self.world().await;
        let met: Arc<Mutex<BTreeMap<String, ()>>> = Arc::default();
        let (probe, home) = (probe.clone(), corner.home.clone());
        let client = listening(w.server.client(), move |what| {
            let (probe, met) = (probe.clone(), met.clone());
            // One point per sort of write, whoever it is about.
            let mut parts: Vec<&str> = what.split('/').collect();
            let reading = what.starts_with("GET");
            let named = parts.contains(&"status");
            if !named {
                parts.pop();
            }
            let sort = match named {
                true => format!("{} {} status", &what[..5], parts[parts.len() - 3]),
                false => format!("{} {}", &what[..5], parts.last().copied().unwrap_or_default()),
            };
            let ours = what.contains(&home);
            Box::pin(async move {
                let counted = ATTACKED.iter().any(|a| sort.ends_with(a));
                if reading || !ours || !counted || met.lock().insert(sort.clone(), ()).is_some() {
                    return Ok(());
                }
                probe.at(&sort).await.map_err(Failed::from)
            })
        });
        let running = w.operate_as(&client);
        let home = corner.home.as_str();
        let result = match step {
            0 => begin(&w, home).await,
            1 => complete(&w, home).await,
            _ => {
                corner.ending.store(true, Ordering::SeqCst);
                end(&w, home).await
            }
        };
        drop(running);
        if step == 1 {
            let all = self.all(corner).await;
            corner.complete.lock().get_or_insert(all);
        }
        result
    }

    async fn observe(&self, corner: &Corner) -> Self::Observed {
        let complete = corner.complete.lock().clone();
        (complete, self.all(corner).await)
    }
}

async fn make(w: &World, kind: &reconcile::Kind, mut o: Value) {
    let namespace = o["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    (o["apiVersion"], o["kind"]) = (json!(kind.api_version()), json!(kind.kind));
    match w.api(kind, &namespace).create(&Default::default(), &serde_json::from_value(o).unwrap()).await {
        Ok(_) => {}
        Err(kube::Error::Api(s)) if s.code == 409 => {}
        Err(e) => panic!("{e}"),
    }
}

async fn begin(w: &World, home: &str) -> Result<(), Error> {
    make(w, &kinds::NAMESPACE, json!({"metadata": {"name": home}})).await;
    for mut input in samples::inputs() {
        input["metadata"]["namespace"] = json!(home);
        make(w, &kinds::SECRET, input).await;
    }
    let mut hc = samples::self_managed();
    hc["metadata"]["namespace"] = json!(home);
    make(w, &kinds::CLUSTER, hc).await;
    w.until(&kinds::CLUSTER, home, "demo", "a pass", |o| {
        o.is_some_and(|o| crate::world::condition(o, "ReconciliationSucceeded")["status"] == "True")
    })
    .await;
    // A pass that has not heard of the inputs yet succeeds too, and makes nothing.
    w.until(&kinds::PLANE, &format!("{home}-demo"), "demo", "being", |o| o.is_some()).await;
    Ok(())
}

async fn complete(w: &World, home: &str) -> Result<(), Error> {
    let inside = format!("{home}-demo");
    for (name, key) in [("admin-kubeconfig", "kubeconfig"), ("kubeadmin-password", "password")] {
        let secret = json!({"metadata": {"name": name, "namespace": inside,
            "labels": {"hypershift.openshift.io/hosted-control-plane": inside}}, "stringData": {key: name}});
        make(w, &kinds::SECRET, secret).await;
    }
    let patch = json!({"status": crate::world::available("4.19.3")});
    w.api(&kinds::PLANE, &inside)
        .patch_status("demo", &Default::default(), &kube::api::Patch::Merge(&patch))
        .await
        .unwrap();
    w.until(&kinds::CLUSTER, home, "demo", "all of it", |o| {
        o.is_some_and(|o| {
            crate::world::condition(o, "Available")["status"] == "True"
                && o.data["status"]["kubeadminPassword"]["name"].is_string()
                && o.metadata
                    .annotations
                    .as_ref()
                    .is_some_and(|a| a.contains_key("hypershift.openshift.io/HasBeenAvailable"))
        })
    })
    .await;
    w.until(&kinds::DEPLOYMENT, &inside, "capi-provider", "being", |o| o.is_some()).await;
    Ok(())
}

async fn end(w: &World, home: &str) -> Result<(), Error> {
    match w.api(&kinds::CLUSTER, home).delete("demo", &Default::default()).await {
        Ok(_) => {}
        Err(kube::Error::Api(s)) if s.code == 404 => {}
        Err(e) => panic!("{e}"),
    }
    w.until(&kinds::CLUSTER, home, "demo", "its end", |o| o.is_none()).await;
    w.until(&kinds::SECRET, home, "demo-admin-kubeconfig", "its end", |o| o.is_none()).await;
    w.until(&kinds::SECRET, home, "demo-kubeadmin-password", "its end", |o| o.is_none()).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_dies_after_any_write_goes_on_where_it_was() {
    let life = Life { world: OnceCell::new(), next: AtomicUsize::new(0) };
    let survived = assert_robust(&life).await;
    assert!(survived.points.len() > 12, "{:?}", survived.points);
    assert!(survived.missed.len() * 4 < survived.points.len(), "{:?}", survived.missed);
    for sort in ATTACKED {
        assert!(survived.points.iter().any(|p| p.ends_with(sort)), "{sort}: {:?}", survived.points);
    }
}
