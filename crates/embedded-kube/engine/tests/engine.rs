//! The engine with a controller as small as can be: every ConfigMap labelled `twin` gets a twin.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use clock::{ManualClock, Random};
use ek_engine::{Controller, Delta, Engine, Keys, Outcome, deferring, split};
use ek_meta::Status;
use ek_server::registry::table_name;
use ek_server::{Access, ApiServer, ClusterConfig, Config, Deletion};
use ek_store::TableName;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

static MAPS: LazyLock<TableName> = LazyLock::new(|| table_name("", "configmaps"));
static LEASES: LazyLock<TableName> = LazyLock::new(|| table_name("coordination.k8s.io", "leases"));

#[derive(Default)]
struct Twins {
    runs: AtomicUsize,
}

impl Controller for Twins {
    fn name(&self) -> &'static str {
        "twins"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["/configmaps"]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        if delta.latest().is_some_and(|e| e.meta.label("twin").is_some()) {
            keys.push(delta.key.clone());
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            self.runs.fetch_add(1, Ordering::Relaxed);
            let (ns, name) = split(key);
            let twin = format!("{name}-twin");
            match access.get(&MAPS, ns, name) {
                None => access.delete(&MAPS, ns, &twin, Deletion::default()).await?,
                Some(m) if m["data"]["panic"] == "yes" => panic!("asked to"),
                Some(m) if m["data"]["wait"] == "yes" && access.get(&MAPS, ns, &twin).is_none() => {
                    let born: jiff::Timestamp =
                        m["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
                    let ripe = born + SignedDuration::from_secs(10);
                    if access.now() < ripe {
                        return Ok(Outcome::After(ripe.duration_since(access.now())));
                    }
                    make(access, ns, &twin).await?;
                }
                Some(_) if access.get(&MAPS, ns, &twin).is_none() => make(access, ns, &twin).await?,
                Some(_) => {}
            }
            Ok(Outcome::Done)
        })
    }
}

async fn make(access: &Access, ns: &str, name: &str) -> Result<(), Status> {
    access
        .create(&MAPS, json!({"metadata": {"name": name, "namespace": ns}, "data": {"made": "yes"}}))
        .await
        .map(|_| ())
}

struct World {
    server: ApiServer,
    clock: Arc<ManualClock>,
    twins: Arc<Twins>,
    engine: Engine,
}

async fn world() -> World {
    let clock = ManualClock::new("2026-01-02T03:04:05Z".parse().unwrap());
    let config = Config { clock: clock.clone(), random: Random::seeded(1), ..Config::memory() };
    let server = ApiServer::start(config).await.unwrap();
    let twins = Arc::<Twins>::default();
    let engine = Engine::new(server.host(), deferring("kube-controller-manager", vec![twins.clone()]));
    engine.settle().await;
    World { server, clock, twins, engine }
}

fn marked(name: &str, data: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "labels": {"twin": ""}}, "data": data})
}

#[tokio::test]
async fn changes_lead_to_runs_and_runs_to_rest() {
    let w = world().await;
    let access = w.server.access("test");
    access.create(&MAPS, marked("a", json!({}))).await.unwrap();
    access.create(&MAPS, json!({"metadata": {"name": "b", "namespace": "default"}})).await.unwrap();
    assert_eq!(w.engine.settle().await, 1, "one object, one run, whatever else changes");
    let twin = access.get(&MAPS, "default", "a-twin").unwrap();
    assert_eq!(twin["metadata"]["managedFields"][0]["manager"], "twins");
    assert!(access.get(&MAPS, "default", "b-twin").is_none());
    assert_eq!(w.engine.settle().await, 0);
    access.delete(&MAPS, "default", "a", Deletion::default()).await.unwrap();
    w.engine.settle().await;
    assert!(access.get(&MAPS, "default", "a-twin").is_none());
}

#[tokio::test]
async fn time_passes_only_when_moved() {
    let w = world().await;
    let access = w.server.access("test");
    access.create(&MAPS, marked("a", json!({"wait": "yes"}))).await.unwrap();
    w.engine.settle().await;
    assert!(access.get(&MAPS, "default", "a-twin").is_none());
    assert!(w.engine.next_due().is_some());
    w.clock.advance(SignedDuration::from_secs(10));
    w.engine.settle().await;
    assert!(access.get(&MAPS, "default", "a-twin").is_some());
    assert_eq!(w.engine.next_due(), None);
}

#[tokio::test]
async fn a_panic_is_one_keys_trouble() {
    let w = world().await;
    let access = w.server.access("test");
    access.create(&MAPS, marked("bad", json!({"panic": "yes"}))).await.unwrap();
    access.create(&MAPS, marked("good", json!({}))).await.unwrap();
    w.engine.settle().await;
    assert!(access.get(&MAPS, "default", "good-twin").is_some());
    // It is tried again, and works once the cause is gone.
    access
        .update(&MAPS, "default", "bad", "", |m| {
            m["data"] = json!({});
            true
        })
        .await
        .unwrap();
    w.engine.settle().await;
    assert!(access.get(&MAPS, "default", "bad-twin").is_some());
}

#[tokio::test]
async fn clusters_come_and_go() {
    let w = world().await;
    let host = w.server.host();
    let other = host.ensure("other", ClusterConfig::default()).await.unwrap();
    other.access("test").create(&MAPS, marked("a", json!({"wait": "yes"}))).await.unwrap();
    w.engine.settle().await;
    assert!(w.engine.next_due().is_some());
    host.delete("other").await.unwrap();
    w.engine.settle().await;
    assert_eq!(w.engine.next_due(), None, "nothing is kept for what is gone");
}

#[tokio::test]
async fn a_held_lease_is_respected_until_it_runs_out() {
    let w = world().await;
    let access = w.server.access("test");
    let lease = json!({"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
        "spec": {"holderIdentity": "the-real-one", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.000000Z"}});
    access.create(&LEASES, lease).await.unwrap();
    access.create(&MAPS, marked("a", json!({}))).await.unwrap();
    w.engine.settle().await;
    assert!(access.get(&MAPS, "default", "a-twin").is_none());
    assert_eq!(w.twins.runs.load(Ordering::Relaxed), 0);
    w.clock.advance(SignedDuration::from_secs(16));
    w.engine.settle().await;
    assert!(access.get(&MAPS, "default", "a-twin").is_some());
}

/// More keys than run at a time, and no further change to wake anybody: none is left waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_waiting() {
    const KEYS: usize = 2000;
    let server = ApiServer::start(Config::memory()).await.unwrap();
    let access = server.access("test");
    for i in 0..KEYS {
        access.create(&MAPS, marked(&format!("m{i}"), json!({"wait": "yes"}))).await.unwrap();
    }
    let twins = Arc::<Twins>::default();
    let engine = Engine::new(server.host(), vec![twins.clone()]);
    tokio::spawn(engine.clone().run());
    // Each looks once, finds that it is too early, and asks for later: nothing is written.
    let seen = async {
        while twins.runs.load(Ordering::Relaxed) < KEYS {
            tokio::task::yield_now().await;
        }
    };
    let done = tokio::time::timeout(std::time::Duration::from_secs(9), seen).await;
    assert!(done.is_ok(), "{} of {KEYS} ran", twins.runs.load(Ordering::Relaxed));
    server.stop().await;
}
