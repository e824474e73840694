//! Killed after every write and every call to Azure, it goes on where it was, and leaves nothing.

use crate::world::{World, create};
use futures::future::BoxFuture;
use kube::client::Body;
use machines::kinds;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use testkit::adversarial::{Interrupted, Probe, Workflow, assert_robust};
use tokio::sync::OnceCell;

type Request = http::Request<Body>;
type Failed = tower::BoxError;

/// Hears of every request, and may let it fail after it was done: a lost answer.
fn listening<F>(client: kube::Client, after: F) -> kube::Client
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

/// A pool from nothing to nothing, through a roll or not.
struct Life {
    world: OnceCell<Arc<World>>,
    next: AtomicUsize,
    rolls: bool,
}

/// What a roll does beyond making and ending machines; only this is attacked in it.
const OF_ROLLS: [&str; 4] =
    ["POST machinesets", "PATCH machinesets", "PATCH machinedeployments", "DELETE machines"];

/// One scenario's corner of the one world: a namespace, and everything in Azure that is named after its pool.
struct Corner {
    ns: String,
    made: AtomicBool,
    ending: AtomicBool,
    complete: Mutex<Option<BTreeMap<String, usize>>>,
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
        let start =
            Box::pin(async { Arc::new(Box::pin(World::with(azure_sim::Profile::Instant, "s")).await) });
        self.world.get_or_init(|| start).await.clone()
    }
}

/// What there is by sort: names are drawn.
async fn counted(w: &World, corner: &Corner) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for kind in [kinds::DEPLOYMENT, kinds::SET, kinds::MACHINE, kinds::AZURE_MACHINE] {
        all.insert(kind.kind.to_string(), w.all(&kind, &corner.ns).await.len());
    }
    for id in w.leaks().iter().filter(|id| id.contains(&format!("/{}-", corner.ns))) {
        *all.entry(id.rsplit('/').nth(1).unwrap_or_default().to_owned()).or_default() += 1;
    }
    all
}

/// `PATCH machines status`, `PUT networkInterfaces`: one point per sort.
fn sort(what: &str) -> String {
    let (method, path) = what.split_once(' ').unwrap_or((what, ""));
    let parts: Vec<&str> = path.split('/').collect();
    match parts.last() {
        Some(&"status") => format!("{method} {} status", parts[parts.len() - 3]),
        _ if method == "POST" => format!("{method} {}", parts[parts.len() - 1]),
        _ => format!("{method} {}", parts[parts.len() - 2]),
    }
}

impl Workflow for Life {
    type World = Corner;
    type Running = usize;
    type Observed = (Option<BTreeMap<String, usize>>, BTreeMap<String, usize>);
    type Error = Error;

    fn steps(&self) -> Vec<String> {
        match self.rolls {
            true => vec!["make".into(), "roll".into(), "end".into()],
            false => vec!["make".into(), "end".into()],
        }
    }

    fn new_world(&self) -> Corner {
        Corner {
            ns: format!("s{}x", self.next.fetch_add(1, Ordering::SeqCst)),
            made: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            complete: Mutex::default(),
        }
    }

    async fn start(&self, corner: &Corner) -> Result<usize, Error> {
        Ok(match (corner.made.load(Ordering::SeqCst), corner.ending.load(Ordering::SeqCst)) {
            (_, true) => self.steps().len() - 1,
            (true, _) if self.rolls => 1,
            _ => 0,
        })
    }

    /// Which writes a step sees first depends on how watches come in.
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
        let met: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let ns = corner.ns.clone();
        let step = self.steps()[step].clone();
        let (rolls, rolling) = (self.rolls, step == "roll");
        // Where it rolls, the rest is attacked elsewhere.
        let attacked = move |sort: &str| !rolls || (rolling && OF_ROLLS.contains(&sort));
        let (at, seen, home) = (probe.clone(), met.clone(), ns.clone());
        let client = listening(w.server.client(), move |what| {
            let (at, seen) = (at.clone(), seen.clone());
            let ours = what.contains(&format!("/{home}/")) && !what.starts_with("GET");
            Box::pin(async move {
                let sort = sort(&what);
                if !ours || !attacked(&sort) || !seen.lock().insert(sort.clone()) {
                    return Ok(());
                }
                at.at(&sort).await.map_err(Failed::from)
            })
        });
        // Azure's journal tells of every call that changed something.
        let (world, at, home) = (w.sim.world().clone(), probe.clone(), ns.clone());
        let from = world.journal().last().map_or(0, |e| e.number);
        let watching = tokio::spawn(async move {
            let mut news = world.journal_news();
            let mut last = from;
            loop {
                let new: Vec<_> = world.journal().into_iter().filter(|e| e.number > last).collect();
                for e in new {
                    last = e.number;
                    let ours = e.method != "GET" && e.path.contains(&format!("/{home}-"));
                    let what = format!("azure {}", sort(&format!("{} {}", e.method, e.path)));
                    if ours
                        && attacked(&what)
                        && met.lock().insert(what.clone())
                        && at.at(&what).await.is_err()
                    {
                        return;
                    }
                }
                if news.changed().await.is_err() {
                    return;
                }
            }
        });
        let running = w.operate_as(&client);
        let result = match step.as_str() {
            "make" => Box::pin(make(&w, corner)).await,
            "roll" => Box::pin(roll(&w, corner)).await,
            _ => Box::pin(end(&w, corner)).await,
        };
        watching.abort();
        drop(running);
        result
    }

    async fn observe(&self, corner: &Corner) -> Self::Observed {
        let w = self.world().await;
        let complete = corner.complete.lock().clone();
        (complete, counted(&w, corner).await)
    }
}

async fn make(w: &World, corner: &Corner) -> Result<(), Error> {
    let ns = corner.ns.as_str();
    if w.api(&kinds::CLUSTER, ns).get_opt("demo-x").await.unwrap().is_none() {
        w.cluster(ns).await;
    }
    let mut pool = World::pool(ns, 1);
    pool["metadata"]["name"] = json!(format!("{ns}-pool"));
    _ = create(&w.server.client(), &kinds::DEPLOYMENT, pool).await;
    w.settled(ns, 1).await;
    let all = counted(w, corner).await;
    corner.complete.lock().get_or_insert(all);
    corner.made.store(true, Ordering::SeqCst);
    Ok(())
}

async fn roll(w: &World, corner: &Corner) -> Result<(), Error> {
    let ns = corner.ns.as_str();
    if w.api(&kinds::AZURE_TEMPLATE, ns).get_opt("t2").await.unwrap().is_none() {
        w.template(ns, "t2", json!({"vmSize": "Standard_D8s_v5"})).await;
    }
    let next = json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": "t2"}}}}});
    w.patch(&kinds::DEPLOYMENT, ns, &format!("{ns}-pool"), next).await;
    w.settled(ns, 1).await;
    let all = counted(w, corner).await;
    *corner.complete.lock() = Some(all);
    Ok(())
}

async fn end(w: &World, corner: &Corner) -> Result<(), Error> {
    corner.ending.store(true, Ordering::SeqCst);
    let ns = corner.ns.as_str();
    match w.api(&kinds::DEPLOYMENT, ns).delete(&format!("{ns}-pool"), &Default::default()).await {
        Ok(_) => {}
        Err(kube::Error::Api(s)) if s.code == 404 => {}
        Err(e) => panic!("{e}"),
    }
    w.until(&kinds::DEPLOYMENT, ns, "its end", |all| all.is_empty()).await;
    for kind in [kinds::SET, kinds::MACHINE, kinds::AZURE_MACHINE] {
        w.until(&kind, ns, "its end", |all| all.is_empty()).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_that_die_after_any_write_or_call_lose_and_leak_nothing() {
    let life = Life { world: OnceCell::new(), next: AtomicUsize::new(0), rolls: false };
    let survived = Box::pin(assert_robust(&life)).await;
    eprintln!(
        "{} scenarios, {} points, {} missed",
        survived.scenarios,
        survived.points.len(),
        survived.missed.len()
    );
    assert!(survived.missed.len() * 4 < survived.points.len() * 2, "{:?}", survived.missed);
    for point in [
        "make: POST machines",
        "make: POST azuremachines",
        "make: azure PUT networkInterfaces",
        "make: azure PUT virtualMachines",
        "make: PATCH azuremachines status",
        "end: azure DELETE virtualMachines",
        "end: azure DELETE networkInterfaces",
        "end: azure DELETE disks",
        "end: DELETE machines",
    ] {
        assert!(survived.points.iter().any(|p| p == point), "{point}: {:?}", survived.points);
    }
    let w = life.world().await;
    assert_eq!(w.leaks(), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_that_die_in_a_roll_go_on_with_it() {
    let life = Life { world: OnceCell::new(), next: AtomicUsize::new(0), rolls: true };
    let survived = Box::pin(assert_robust(&life)).await;
    for point in OF_ROLLS {
        assert!(survived.points.contains(&format!("roll: {point}")), "{point}: {:?}", survived.points);
    }
    assert_eq!(life.world().await.leaks(), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_get_lost_change_nothing() {
    let w = World::start().await;
    // Every third call that changes something is done, and nobody hears of it.
    let rules = json!([
        {"name": "put", "match": {"method": "PUT", "every": 3}, "then": {"drop": "after"}},
        {"name": "delete", "match": {"method": "DELETE", "every": 3}, "then": {"drop": "after"}},
        {"name": "old", "match": {"method": "GET", "type": "Microsoft.Compute/virtualMachines", "every": 4}, "then": {"stale": {"versions": 1}}},
    ]);
    w.sim.world().add_faults(azure_sim::read_faults(rules.to_string().as_bytes()).unwrap()).unwrap();
    let _running = w.operate();
    w.create(&kinds::DEPLOYMENT, World::pool(crate::world::NS, 4)).await;
    w.settled(crate::world::NS, 4).await;
    assert_eq!(w.sim.world().machines().len(), 4);
    w.api(&kinds::DEPLOYMENT, crate::world::NS).delete("pool", &Default::default()).await.unwrap();
    w.until(&kinds::DEPLOYMENT, crate::world::NS, "its end", |all| all.is_empty()).await;
    assert_eq!(w.leaks(), BTreeSet::new());
}

/// Tells what there was at first, and of nothing that comes after.
fn deaf(client: kube::Client, to: &'static str) -> kube::Client {
    let service = tower::service_fn(move |request: Request| {
        let client = client.clone();
        async move {
            let watches = request.uri().query().is_some_and(|q| q.contains("watch=true"));
            if watches && request.uri().path().ends_with(to) {
                std::future::pending::<()>().await;
            }
            client.send(request).await.map_err(Failed::from)
        }
    });
    kube::Client::new(service, "default")
}

/// What no watch has told of may be there all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_do_not_end_before_what_they_stand_on() {
    let ns = crate::world::NS;
    let w = World::start().await;
    let running = w.operate_as(&deaf(w.server.client(), "/azuremachines"));
    w.create(&kinds::DEPLOYMENT, World::pool(ns, 1)).await;
    w.until(&kinds::AZURE_MACHINE, ns, "one", |all| all.len() == 1).await;
    w.api(&kinds::DEPLOYMENT, ns).delete("pool", &Default::default()).await.unwrap();
    w.until(&kinds::AZURE_MACHINE, ns, "its going", |all| {
        all.iter().any(|m| m.metadata.deletion_timestamp.is_some())
    })
    .await;
    assert_eq!(w.all(&kinds::MACHINE, ns).await.len(), 1, "it waits");
    drop(running);
    let _running = w.operate();
    for kind in [kinds::DEPLOYMENT, kinds::MACHINE, kinds::AZURE_MACHINE] {
        w.until(&kind, ns, "its end", |all| all.is_empty()).await;
    }
    assert_eq!(w.leaks(), BTreeSet::new());
}

/// Somebody took the finalizer of a Machine away; what it stood on is known by its labels.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_outlives_its_machine_is_removed() {
    let ns = crate::world::NS;
    let w = World::start().await;
    let running = w.operate();
    w.create(&kinds::DEPLOYMENT, World::pool(ns, 1)).await;
    w.settled(ns, 1).await;
    drop(running);
    let name = w.all(&kinds::MACHINE, ns).await.remove(0).metadata.name.unwrap();
    w.patch(&kinds::MACHINE, ns, &name, json!({"metadata": {"finalizers": null}})).await;
    w.api(&kinds::MACHINE, ns).delete(&name, &Default::default()).await.unwrap();
    w.api(&kinds::AZURE_MACHINE, ns).delete(&name, &Default::default()).await.unwrap();
    let _running = w.operate();
    w.until(&kinds::AZURE_MACHINE, ns, "its end", |all| {
        all.iter().all(|m| m.metadata.name.as_ref() != Some(&name))
    })
    .await;
    assert!(!w.leaks().iter().any(|l| l.contains(&name)), "{:?}", w.leaks());
}
