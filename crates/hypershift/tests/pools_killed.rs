//! An operator that is killed after any write of a pool's life goes on where it was; a settled pool costs nothing.

use crate::pools::{NS, pool};
use crate::settled::{Failed, listening};
use crate::world::{World, condition};
use hypershift::kinds;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use testkit::adversarial::{Interrupted, Probe, Workflow, assert_robust};
use tokio::sync::OnceCell;

/// Every sort of write that a pool causes.
const ATTACKED: [&str; 6] = [
    "nodepools",
    "nodepools status",
    "secrets",
    "machinedeployments",
    "azuremachinetemplates",
    "machinehealthchecks",
];

struct Life {
    world: OnceCell<Arc<World>>,
    next: AtomicUsize,
}

/// One pool of the one cluster.
struct Corner {
    pool: String,
    /// What there was when it was rolled.
    rolled: Mutex<Option<BTreeSet<String>>>,
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
        let make = || async {
            let w = World::start().await.with_inputs().await;
            let running = w.operate();
            let w = w.with_cluster().await;
            w.condition("Available", "True").await;
            drop(running);
            Arc::new(w)
        };
        self.world.get_or_init(make).await.clone()
    }

    /// Every object of the pool, with its own name and times left out.
    async fn all(&self, corner: &Corner) -> BTreeSet<String> {
        let w = self.world().await;
        let mut found = BTreeSet::new();
        for (kind, namespace) in [
            (kinds::POOL, "clusters"),
            (kinds::SECRET, NS),
            (kinds::MACHINE_DEPLOYMENT, NS),
            (kinds::MACHINE_CHECK, NS),
            (kinds::AZURE_TEMPLATE, NS),
        ] {
            for o in w.api(&kind, namespace).list(&Default::default()).await.unwrap().items {
                let name = o.metadata.name.unwrap();
                let ours = name == corner.pool || name.contains(&format!("{}-", corner.pool));
                if !ours {
                    continue;
                }
                let notes = o.metadata.annotations.unwrap_or_default();
                let ends = notes.contains_key("hypershift.openshift.io/ignition-token-expiration-timestamp");
                found.insert(format!("{} {} ends={ends}", kind.kind, name.replace(&corner.pool, "<pool>")));
            }
        }
        found
    }
}

impl Workflow for Life {
    type World = Corner;
    type Running = usize;
    type Observed = (Option<BTreeSet<String>>, BTreeSet<String>);
    type Error = Error;

    fn steps(&self) -> Vec<String> {
        vec!["begin".into(), "roll".into(), "end".into()]
    }

    fn new_world(&self) -> Corner {
        Corner {
            // Of one length, and none the beginning of another.
            pool: format!("p{:03}", self.next.fetch_add(1, Ordering::SeqCst)),
            rolled: Mutex::new(None),
            ending: AtomicBool::new(false),
        }
    }

    async fn start(&self, corner: &Corner) -> Result<usize, Error> {
        Ok(if corner.ending.load(Ordering::SeqCst) { 2 } else { 0 })
    }

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
        let (probe, name) = (probe.clone(), corner.pool.clone());
        let client = listening(w.server.client(), move |what| {
            let (probe, met) = (probe.clone(), met.clone());
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
            let ours = what.contains(&name);
            Box::pin(async move {
                let counted = ATTACKED.iter().any(|a| sort.ends_with(a));
                if reading || !ours || !counted || !met.lock().insert(sort.clone()) {
                    return Ok(());
                }
                probe.at(&sort).await.map_err(Failed::from)
            })
        });
        let running = w.operate_as(&client);
        match step {
            0 => begin(&w, &corner.pool).await,
            1 => roll(&w, &corner.pool).await,
            _ => {
                corner.ending.store(true, Ordering::SeqCst);
                end(&w, &corner.pool).await;
            }
        }
        drop(running);
        if step == 1 {
            let all = self.all(corner).await;
            corner.rolled.lock().get_or_insert(all);
        }
        Ok(())
    }

    async fn observe(&self, corner: &Corner) -> Self::Observed {
        let rolled = corner.rolled.lock().clone();
        (rolled, self.all(corner).await)
    }
}

/// The pool is there, and machines could be made.
async fn begin(w: &World, name: &str) {
    let o = serde_json::from_value(pool(name, |_| {})).unwrap();
    match w.api(&kinds::POOL, "clusters").create(&Default::default(), &o).await {
        Ok(_) => {}
        Err(kube::Error::Api(s)) if s.code == 409 => {}
        Err(e) => panic!("{e}"),
    }
    w.md(name, "being", |_| true).await;
    w.until(&kinds::POOL, "clusters", name, "a pass", |o| {
        o.is_some_and(|o| !condition(o, "Ready").is_null())
    })
    .await;
    // The first machine fetches ignition.
    for token in w.secrets(&format!("token-{name}-")).await {
        let reached =
            json!({"metadata": {"annotations": {"hypershift.openshift.io/ignition-reached": "True"}}});
        w.patch(&kinds::SECRET, NS, token.metadata.name.as_deref().unwrap(), reached).await;
    }
    w.until(&kinds::MACHINE_CHECK, NS, name, "being", |o| o.is_some()).await;
}

/// Another size of machines, all the way.
async fn roll(w: &World, name: &str) {
    let change = json!({"spec": {"platform": {"azure": {"vmSize": "Standard_D8s_v5"}}}});
    w.patch(&kinds::POOL, "clusters", name, change).await;
    let target = |o: &DynamicObject| {
        let template = &o.data["spec"]["template"]["spec"]["infrastructureRef"]["name"];
        template.as_str().unwrap_or_default().to_owned()
    };
    let is_large = async || {
        let md = w.api(&kinds::MACHINE_DEPLOYMENT, NS).get(name).await.unwrap();
        let template = w.api(&kinds::AZURE_TEMPLATE, NS).get_opt(&target(&md)).await.unwrap();
        template.is_some_and(|t| t.data["spec"]["template"]["spec"]["vmSize"] == "Standard_D8s_v5")
    };
    let rolled = async {
        while !is_large().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), rolled).await.unwrap();
    w.settle(name).await;
    w.until(&kinds::POOL, "clusters", name, "its new template", |o| {
        o.is_some_and(|o| {
            let notes = o.metadata.annotations.clone().unwrap_or_default();
            let current = notes.get("hypershift.openshift.io/nodePoolPlatformMachineTemplate");
            o.data["status"]["version"] == "4.20.3"
                && current.is_some()
                && condition(o, "Ready")["status"] == "True"
                && condition(o, "UpdatingPlatformMachineTemplate")["status"] == "False"
        })
    })
    .await;
    // Templates that nobody names go.
    let tidy = async {
        let of = format!("{name}-");
        loop {
            let all = w.api(&kinds::AZURE_TEMPLATE, NS).list(&Default::default()).await.unwrap().items;
            if all.iter().filter(|t| t.metadata.name.as_deref().unwrap().starts_with(&of)).count() == 1 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), tidy).await.unwrap();
}

async fn end(w: &World, name: &str) {
    match w.api(&kinds::POOL, "clusters").delete(name, &Default::default()).await {
        Ok(_) => {}
        Err(kube::Error::Api(s)) if s.code == 404 => {}
        Err(e) => panic!("{e}"),
    }
    w.until(&kinds::POOL, "clusters", name, "its end", |o| o.is_none()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_dies_after_any_write_of_a_pool_goes_on_where_it_was() {
    let life = Life { world: OnceCell::new(), next: AtomicUsize::new(0) };
    let survived = assert_robust(&life).await;
    assert!(survived.points.len() > 10, "{:?}", survived.points);
    assert!(survived.missed.len() * 4 < survived.points.len(), "{:?}", survived.missed);
    for sort in ATTACKED {
        assert!(survived.points.iter().any(|p| p.ends_with(sort)), "{sort}: {:?}", survived.points);
    }
}
