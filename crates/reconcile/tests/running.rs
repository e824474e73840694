//! Keys run: once at a time, again when something happens, later when they fail, and to the end on shutdown.

use crate::world::*;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use kube::core::DynamicObject;
use reconcile::metrics::{RECONCILES, WATCH_RESTARTS};
use reconcile::{Controller, Failure, Handle, Options, Outcome, View, Waiting, Watch};
use serde_json::json;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;

type Run = dyn Fn(String, usize) -> BoxFuture<'static, Result<Outcome, Failure>> + Send + Sync;

/// Counts runs per key, and that no key runs twice at a time; what it does is given.
struct Counting {
    runs: Mutex<HashMap<String, usize>>,
    at_once: Mutex<HashMap<String, usize>>,
    what: Box<Run>,
}

impl Counting {
    fn new<F: Future<Output = Result<Outcome, Failure>> + Send + 'static>(
        what: impl Fn(String, usize) -> F + Send + Sync + 'static,
    ) -> Arc<Counting> {
        let what = Box::new(move |k, n| Box::pin(what(k, n)) as BoxFuture<'static, _>);
        Arc::new(Counting { runs: Mutex::default(), at_once: Mutex::default(), what })
    }

    fn runs(&self, key: &str) -> usize {
        self.runs.lock().unwrap().get(key).copied().unwrap_or(0)
    }
}

impl Controller for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(async move {
            let n = {
                let mut runs = self.runs.lock().unwrap();
                let n = runs.entry(key.to_owned()).or_default();
                *n += 1;
                *n
            };
            let others =
                std::mem::replace(self.at_once.lock().unwrap().entry(key.to_owned()).or_default(), 1);
            assert_eq!(others, 0, "{key} runs twice at a time");
            let result = (self.what)(key.to_owned(), n).await;
            self.at_once.lock().unwrap().insert(key.to_owned(), 0);
            result
        })
    }
}

fn itself(h: &Handle) -> Arc<dyn reconcile::Sink> {
    h.keys(|o, keys| keys.itself(o))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_runs_after_its_last_change_and_never_twice_at_a_time() {
    let w = World::new().await;
    let view = View::whole();
    let seen = Arc::new(Mutex::new(HashMap::<String, u64>::new()));
    let (v, s) = (view.clone(), seen.clone());
    let c = Counting::new(move |key, _| {
        let (view, seen) = (v.clone(), s.clone());
        async move {
            let (ns, name) = reconcile::split(&key);
            let n = view.get(ns, name).and_then(|m| m.data["data"]["n"].as_str()?.parse().ok()).unwrap_or(0);
            tokio::task::yield_now().await;
            seen.lock().unwrap().insert(key, n);
            Ok(Outcome::Done)
        }
    });
    let mut runtime = w.runtime();
    let h = runtime.controller(c.clone(), Options { workers: 4, ..Options::default() });
    runtime.watch(Watch::whole(&w.client, &MAPS).namespace("default").into_sink(view).wakes(itself(&h)));
    let running = Running::start(runtime);
    for i in 0..20 {
        w.create(&MAPS, map(&format!("m{i}"), json!({"n": "0"}))).await;
    }
    for n in 1..=30 {
        for i in 0..20 {
            w.edit(&MAPS.at("default", format!("m{i}")), json!({"data": {"n": n.to_string()}})).await;
        }
    }
    eventually("all keys saw the last change", async || {
        let seen = seen.lock().unwrap();
        (0..20).all(|i| seen.get(&format!("default/m{i}")) == Some(&30))
    })
    .await;
    running.stop().await;
    let total: usize = c.runs.lock().unwrap().values().sum();
    assert!(total <= 20 * 31, "{total} runs for {} changes", 20 * 31);
}

#[tokio::test]
async fn what_happens_during_a_run_is_one_more_run() {
    let w = World::new().await;
    let gate = Arc::new(Semaphore::new(0));
    let g = gate.clone();
    let c = Counting::new(move |_, _| {
        let gate = g.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            Ok(Outcome::Done)
        }
    });
    let mut runtime = w.runtime();
    let h = runtime.controller(c.clone(), Options::default());
    let running = Running::start(runtime);
    h.poke("a");
    eventually("it runs", async || c.runs("a") == 1).await;
    for _ in 0..1000 {
        h.poke("a");
    }
    gate.add_permits(1);
    eventually("it runs again", async || c.runs("a") == 2).await;
    gate.add_permits(1);
    h.poke("b");
    gate.add_permits(1);
    eventually("b ran", async || c.runs("b") == 1).await;
    running.stop().await;
    assert_eq!(c.runs("a"), 2, "a thousand wishes are one");
}

#[tokio::test]
async fn a_panic_and_a_hang_are_one_keys_trouble() {
    let w = World::new().await;
    let c = Counting::new(|key, n| async move {
        match (&*key, n) {
            ("panics", 1) => panic!("asked to"),
            ("hangs", 1) => std::future::pending().await,
            _ => Ok(Outcome::Done),
        }
    });
    // The count of who runs is not reset by a panic or a hang.
    struct Unchecked(Arc<Counting>);
    impl Controller for Unchecked {
        fn name(&self) -> &'static str {
            "unchecked"
        }
        fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
            self.0.at_once.lock().unwrap().clear();
            self.0.reconcile(key)
        }
    }
    let mut runtime = w.runtime();
    let backoff = reconcile::Backoff { first: Duration::from_millis(10), last: Duration::from_millis(20) };
    let options = Options { deadline: Duration::from_millis(100), backoff, workers: 1, ..Options::default() };
    let h = runtime.controller(Arc::new(Unchecked(c.clone())), options);
    let running = Running::start(runtime);
    for key in ["panics", "hangs", "good"] {
        h.poke(key);
    }
    eventually("the panic is told", async || {
        h.explain("panics").error.as_deref() == Some("the reconcile panicked: asked to")
            || c.runs("panics") == 2
    })
    .await;
    eventually("all are done", async || c.runs("panics") == 2 && c.runs("hangs") == 2 && c.runs("good") == 1)
        .await;
    eventually("they end", async || w.metrics.value(&RECONCILES, &["unchecked", "success"]) == 3).await;
    assert_eq!(w.metrics.value(&RECONCILES, &["unchecked", "panic"]), 1);
    assert_eq!(w.metrics.value(&RECONCILES, &["unchecked", "timeout"]), 1);
    running.stop().await;
}

/// Wall-clock time that stands still with tokio's.
struct TokioTime(tokio::time::Instant);

impl clock::Clock for TokioTime {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH + SignedDuration::try_from(self.0.elapsed()).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn failures_wait_longer_and_success_forgets() {
    let start = tokio::time::Instant::now();
    let times = Arc::new(Mutex::new(Vec::new()));
    let t = times.clone();
    let c = Counting::new(move |_, n| {
        t.lock().unwrap().push(start.elapsed().as_secs_f64());
        async move {
            match n {
                1..=5 => Err("no luck".into()),
                6 => Ok(Outcome::After(SignedDuration::from_secs(60))),
                7 => Err("again".into()),
                _ => Ok(Outcome::Done),
            }
        }
    });
    let metrics = reconcile::Metrics::default();
    let mut runtime = reconcile::Runtime::new(Arc::new(TokioTime(start)), &metrics);
    let h = runtime.controller(c.clone(), Options::default());
    let running = Running::start(runtime);
    h.poke("a");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let explained = h.explain("a");
    assert_eq!((explained.error.as_deref(), explained.failures), (Some("no luck"), 1));
    tokio::time::sleep(Duration::from_secs(200)).await;
    let waits: Vec<f64> = times.lock().unwrap().windows(2).map(|w| w[1] - w[0]).collect();
    for (wait, limit) in waits.iter().zip([1.0, 2.0, 4.0, 8.0, 10.0, 60.0, 1.0]) {
        let least = if limit == 60.0 { 59.99 } else { limit * 0.9 };
        assert!(*wait <= limit + 0.01 && *wait >= least, "{waits:?}");
    }
    assert_eq!((waits.len(), c.runs("a")), (7, 8));
    assert_eq!(
        h.explain("a"),
        reconcile::Explanation { waiting: vec![], error: None, failures: 0, due: None }
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_waited_for_is_told_since_when() {
    let start = tokio::time::Instant::now();
    let clock: clock::SharedClock = Arc::new(TokioTime(start));
    let now = clock.clone();
    let c = Counting::new(move |_, n| {
        let now = now.now();
        async move {
            if n == 4 {
                return Ok(Outcome::Done);
            }
            let on = vec![
                Waiting::new("etcd", "look at its pods", now),
                Waiting::new(if n < 3 { "kas" } else { "dns" }, "", now),
            ];
            Ok(Outcome::Waiting { on, again: Some(SignedDuration::from_secs(10)) })
        }
    });
    let mut runtime = reconcile::Runtime::new(clock, &reconcile::Metrics::default());
    let h = runtime.controller(c, Options::default());
    let running = Running::start(runtime);
    h.poke("a");
    tokio::time::sleep(Duration::from_secs(25)).await;
    let told: Vec<_> = h.explain("a").waiting.iter().map(|w| (w.on.clone(), w.since.as_second())).collect();
    assert_eq!(told, [("etcd".to_owned(), 0), ("dns".to_owned(), 20)]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(h.explain("a").waiting.is_empty());
    running.stop().await;
}

#[tokio::test]
async fn a_shutdown_finishes_what_has_begun_and_begins_nothing() {
    let w = World::new().await;
    let gate = Arc::new(Semaphore::new(0));
    let done = Arc::new(AtomicUsize::new(0));
    let (g, d) = (gate.clone(), done.clone());
    let c = Counting::new(move |_, _| {
        let (gate, done) = (g.clone(), d.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            done.fetch_add(1, Ordering::SeqCst);
            Ok(Outcome::Done)
        }
    });
    let mut runtime = w.runtime();
    let h = runtime.controller(c.clone(), Options { workers: 2, ..Options::default() });
    let running = Running::start(runtime);
    for key in ["a", "b", "c", "d"] {
        h.poke(key);
    }
    eventually("two run", async || c.runs.lock().unwrap().len() == 2).await;
    let stopping = tokio::spawn(running.stop());
    gate.add_permits(10);
    assert_eq!(within(stopping).await.unwrap(), reconcile::Drained { broken_off: 0 });
    assert!((2..=4).contains(&done.load(Ordering::SeqCst)), "those that had begun ended");
    assert_eq!(done.load(Ordering::SeqCst), c.runs.lock().unwrap().len(), "and none was left half done");
    // Who does not end in time is broken off, and that is said.
    let c = Counting::new(|_, _| std::future::pending());
    let mut runtime = w.runtime();
    let h = runtime.controller(c.clone(), Options { grace: Duration::from_millis(20), ..Options::default() });
    let running = Running::start(runtime);
    h.poke("a");
    eventually("it runs", async || c.runs("a") == 1).await;
    assert_eq!(running.stop().await, reconcile::Drained { broken_off: 1 });
}

fn names(view: &View<DynamicObject>) -> Vec<String> {
    view.within("default").iter().map(|o| o.metadata.name.clone().unwrap()).collect()
}

#[tokio::test]
async fn a_watch_that_breaks_goes_on_and_one_that_forgot_lists_again() {
    let w = World::new().await;
    for name in ["a", "b", "c"] {
        w.create(&MAPS, map(name, json!({}))).await;
    }
    let view = View::whole();
    let c = Counting::new(|_, _| async { Ok(Outcome::Done) });
    let mut runtime = w.runtime();
    let h = runtime.controller(c.clone(), Options::default());
    let watch = Watch::whole(&w.client, &MAPS).namespace("default");
    runtime.watch(watch.into_sink(view.clone()).into_sink(w.ledger.clone()).wakes(itself(&h)));
    let running = Running::start(runtime);
    eventually("all ran", async || c.runs.lock().unwrap().len() == 3).await;
    let a = w.applier("us");
    let desired = a.desired(map("c", json!({"ours": "1"}))).unwrap();
    a.apply(&desired).await.unwrap();
    eventually("applied", async || c.runs("default/c") >= 2).await;
    assert_eq!(a.apply(&desired).await.unwrap(), reconcile::Applied::Skipped);

    // The connection breaks: nothing is missed, and nothing is listed again.
    w.road.take();
    let (before, watches) = (c.runs("default/a"), w.road.watches());
    w.road.cut();
    w.edit(&MAPS.at("default", "a"), json!({"data": {"x": "1"}})).await;
    eventually("the change arrived", async || c.runs("default/a") > before).await;
    assert!(w.road.watches() > watches);
    assert!(w.road.take().is_empty(), "it went on from where it was");

    // The server forgot where we were; meanwhile one changed, one vanished, one came.
    let before = (c.runs("default/a"), c.runs("default/b"), c.runs("default/c"));
    w.road.closed.store(true, Ordering::SeqCst);
    w.road.cut();
    w.edit(&MAPS.at("default", "a"), json!({"data": {"x": "2"}})).await;
    w.delete(&MAPS.at("default", "b")).await;
    w.delete(&MAPS.at("default", "c")).await;
    w.create(&MAPS, map("d", json!({}))).await;
    w.road.forgotten.store(1, Ordering::SeqCst);
    w.road.closed.store(false, Ordering::SeqCst);
    eventually("all are woken, the vanished too", async || {
        c.runs("default/a") > before.0
            && c.runs("default/b") > before.1
            && c.runs("default/c") > before.2
            && c.runs("default/d") == 1
    })
    .await;
    assert_eq!(names(&view), ["a", "d"]);
    assert!(w.metrics.value(&WATCH_RESTARTS, &["ConfigMap"]) >= 1);
    assert_ne!(
        a.apply(&desired).await.unwrap(),
        reconcile::Applied::Skipped,
        "the ledger knows that it is gone"
    );
    assert!(w.get(desired.at()).await.is_some());
    running.stop().await;
}

#[tokio::test]
async fn nothing_runs_before_everything_is_listed_and_kinds_may_be_missing() {
    let w = World::new().await;
    w.create(&MAPS, map("a", json!({}))).await;
    let (maps, things) = (View::whole(), View::whole());
    let (m, t) = (maps.clone(), things.clone());
    let seen = Arc::new(Mutex::new(None));
    let s = seen.clone();
    let c = Counting::new(move |_, _| {
        s.lock().unwrap().get_or_insert((m.len(), t.len()));
        async { Ok(Outcome::Done) }
    });
    let mut runtime = w.runtime();
    let h = runtime.controller(c.clone(), Options::default());
    h.poke("early");
    runtime.watch(Watch::whole(&w.client, &MAPS).namespace("default").into_sink(maps));
    // Nobody serves widgets yet.
    runtime.watch(Watch::metadata(&w.client, &widgets()).optional().into_sink(things).wakes(itself(&h)));
    w.road.closed.store(true, Ordering::SeqCst);
    let running = Running::start(runtime);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(c.runs("early"), 0, "absence proves nothing yet");
    w.road.closed.store(false, Ordering::SeqCst);
    eventually("it runs", async || c.runs("early") == 1).await;
    assert_eq!(*seen.lock().unwrap(), Some((1, 0)));
    running.stop().await;
}

#[tokio::test]
async fn who_moves_wakes_both_ends() {
    let w = World::new().await;
    let c = Counting::new(|_, _| async { Ok(Outcome::Done) });
    let mut runtime = w.runtime();
    let h = runtime.controller(c.clone(), Options::default());
    let by_annotation = h.keys(|o, keys| keys.annotated(o, "example.com/cluster"));
    runtime.watch(Watch::metadata(&w.client, &MAPS).wakes(by_annotation));
    let running = Running::start(runtime);
    let mut m = map("m", json!({}));
    m["metadata"]["annotations"] = json!({"example.com/cluster": "ns/one"});
    w.create(&MAPS, m).await;
    eventually("one", async || c.runs("ns/one") == 1).await;
    w.edit(&MAPS.at("default", "m"), json!({"metadata": {"annotations": {"example.com/cluster": "ns/two"}}}))
        .await;
    eventually("both", async || c.runs("ns/one") == 2 && c.runs("ns/two") == 1).await;
    w.edit(&MAPS.at("default", "m"), json!({"metadata": {"annotations": null}})).await;
    eventually("left", async || c.runs("ns/two") == 2).await;
    assert_eq!(c.runs("ns/one"), 2);
    running.stop().await;
}

/// The whole loop: somebody edits what we own, nobody tells us but the watch.
#[tokio::test]
async fn drift_is_corrected_by_the_watch_alone() {
    let w = World::new().await;
    let a = w.applier("us");
    let c = Counting::new(move |_, _| {
        let a = a.clone();
        async move {
            a.apply(&a.desired(map("m", json!({"ours": "1"})))?).await?;
            Ok(Outcome::Done)
        }
    });
    let mut runtime = w.runtime();
    let h = runtime.controller(c, Options::default());
    runtime.watch(
        Watch::metadata(&w.client, &MAPS)
            .into_sink(w.ledger.clone())
            .wakes(h.keys(|_, keys| keys.push("all"))),
    );
    let running = Running::start(runtime);
    let at = MAPS.at("default", "m");
    eventually("made", async || w.get(&at).await.is_some()).await;
    for n in 0..10 {
        w.edit(&at, json!({"data": {"ours": format!("theirs {n}")}})).await;
        eventually("put back", async || w.get(&at).await.unwrap().data["data"]["ours"] == "1").await;
    }
    running.stop().await;
}
