//! Runs controllers for all clusters of a host: one feed of changes, one queue, one clock.
//!
//! A [`Controller`] says which keys a change concerns and what to do about a key. It is given a key and nothing
//! else, so a run after a change, after a failure, after a time and after a restart are the same run. The engine
//! sees to it that
//!
//! * a key waits in the queue once, however often it is asked for, and never runs twice at the same time;
//! * a run that fails is tried again, later each time, and the failure is logged once per kind;
//! * a run that asks to be looked at again after a while is, unless something happens before;
//! * nothing is kept for a cluster in which nothing happens, and nothing at all for one that is gone.
//!
//! In production [`Engine::run`] follows the feed. A test calls [`Engine::settle`], which works until nothing is
//! left to do *now*; time passes only when the test moves its clock.
//!
//! ```text
//! store ── feed ──> concerns(delta) ──> queue ──> reconcile(access, key) ──> verbs ──> store
//!                                        ▲  └── again after … (one timer heap) ┘
//! ```

mod defer;
mod queue;

pub use defer::deferring;

use clock::SharedClock;
use ek_meta::Status;
use ek_server::{Access, Host};
pub use ek_store::{ClusterId, Delta, TableName};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use queue::{Item, Queue};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Runs at the same time. Writes wait for the disk together, so this is more than there are cores.
const PARALLEL: usize = 64;

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to do until something changes.
    Done,
    /// Look again after this long, or when something changes.
    After(SignedDuration),
}

/// Work that keeps objects as they should be.
pub trait Controller: Send + Sync + 'static {
    /// In logs, metrics and managed fields.
    fn name(&self) -> &'static str;

    /// `group/plural` of what it must hear of; empty: of everything.
    fn watches(&self) -> &'static [&'static str];

    /// Pushes the keys a change concerns. A key is what the controller likes it to be: most are
    /// `namespace/name` of the object it looks after; the empty key stands for the whole cluster.
    fn concerns(&self, access: &Access, delta: &Delta, keys: &mut Keys);

    /// Brings what belongs to a key into order. Must be safe to run at any time.
    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>>;

    /// A cluster is gone: forget what is remembered of it.
    fn forget(&self, _cluster: &ClusterId) {}

    /// A cluster is out of reach; if it comes back, all of its objects are news.
    fn closed(&self, cluster: &ClusterId) {
        self.forget(cluster);
    }
}

/// Where [`Controller::concerns`] puts keys.
#[derive(Default)]
pub struct Keys(Vec<Arc<str>>);

impl Keys {
    pub fn push(&mut self, key: impl Into<Arc<str>>) {
        self.0.push(key.into());
    }

    pub fn object(&mut self, namespace: &str, name: &str) {
        self.push(ek_store::object_key(namespace, name));
    }
}

/// `namespace/name` taken apart; without a slash the namespace is empty.
pub fn split(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// A handle to the running machinery; cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    host: Host,
    clock: SharedClock,
    feed: ek_store::Feed,
    controllers: Vec<Arc<dyn Controller>>,
    /// Controllers by what they hear of.
    interested: HashMap<&'static str, Vec<usize>>,
    in_everything: Vec<usize>,
    queue: Mutex<Queue>,
    wake: Notify,
}

impl Engine {
    /// Everything that is there already counts as a change.
    pub fn new(host: &Host, controllers: Vec<Arc<dyn Controller>>) -> Engine {
        let mut interested: HashMap<&'static str, Vec<usize>> = HashMap::new();
        let mut in_everything = Vec::new();
        for (i, c) in controllers.iter().enumerate() {
            if c.watches().is_empty() {
                in_everything.push(i);
            }
            for table in c.watches() {
                interested.entry(table).or_default().push(i);
            }
        }
        Engine(Arc::new(Inner {
            host: host.clone(),
            clock: host.clock().clone(),
            feed: host.feed(),
            controllers,
            interested,
            in_everything,
            queue: Mutex::default(),
            wake: Notify::new(),
        }))
    }

    /// Asks for a run from outside: a program that ended, a probe that answered.
    pub fn poke(&self, cluster: &ClusterId, controller: &str, key: &str) {
        let Some(i) = self.0.controllers.iter().position(|c| c.name() == controller) else { return };
        self.0.queue.lock().add(Item { cluster: cluster.clone(), controller: i, key: Arc::from(key) });
        self.0.wake.notify_one();
    }

    /// Works until the host stops.
    pub async fn run(self) {
        let stop = self.0.host.shutdown().clone();
        let mut running = JoinSet::new();
        loop {
            self.read_feed();
            self.start_due(&mut running);
            // Runs may be over as soon as they are started: what they left room for must not wait for a change.
            if running.len() < PARALLEL && self.0.queue.lock().has_due(self.0.clock.now()) {
                continue;
            }
            let due = self.0.queue.lock().next_due();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = running.join_next(), if !running.is_empty() => {}
                () = self.0.feed.changed() => {}
                () = self.0.wake.notified() => {}
                () = sleep_until(&self.0.clock, due) => {}
            }
        }
        running.shutdown().await;
    }

    /// Works until nothing is left to do at the present time of the clock. Returns how many runs it took.
    ///
    /// # Panics
    /// When there is no end to it: controllers that undo each other's work must not hang a test.
    pub async fn settle(&self) -> usize {
        const ENDLESS: usize = 2_000_000;
        let mut running = JoinSet::new();
        let mut runs = 0;
        loop {
            self.read_feed();
            runs += self.start_due(&mut running);
            assert!(runs < ENDLESS, "controllers do not come to rest: {:?}", self.0.queue.lock());
            if running.join_next().await.is_none() {
                self.read_feed();
                if !self.0.queue.lock().has_due(self.0.clock.now()) {
                    return runs;
                }
            }
        }
    }

    /// When the next run is due that waits for time alone.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.0.queue.lock().next_due()
    }

    fn read_feed(&self) {
        let inner = &self.0;
        let news = inner.feed.take();
        for id in &news.dropped {
            inner.queue.lock().forget(id);
            for c in &inner.controllers {
                c.forget(id);
            }
        }
        for id in &news.closed {
            inner.queue.lock().forget(id);
            for c in &inner.controllers {
                c.closed(id);
            }
        }
        let mut access: Option<Access> = None;
        let mut keys = Keys::default();
        for delta in news.deltas {
            // Changes come in runs of the same cluster.
            if access.as_ref().is_none_or(|a| *a.id() != delta.cluster) {
                access = inner.host.access(&delta.cluster, "kube-controller-manager");
            }
            let Some(access) = &access else { continue };
            let some = inner.interested.get(&*delta.table).map(Vec::as_slice).unwrap_or_default();
            for &i in some.iter().chain(&inner.in_everything) {
                inner.controllers[i].concerns(access, &delta, &mut keys);
                let mut queue = inner.queue.lock();
                for key in keys.0.drain(..) {
                    queue.add(Item { cluster: delta.cluster.clone(), controller: i, key });
                }
            }
        }
    }

    fn start_due(&self, running: &mut JoinSet<()>) -> usize {
        let mut started = 0;
        while running.len() < PARALLEL {
            let Some(item) = self.0.queue.lock().take(self.0.clock.now()) else { break };
            let me = self.clone();
            running.spawn(async move { me.work(item).await });
            started += 1;
        }
        // Results are taken by whoever waits; those that are there already make room.
        while running.try_join_next().is_some() {}
        started
    }

    async fn work(&self, item: Item) {
        let inner = &self.0;
        let controller = &inner.controllers[item.controller];
        let Some(access) = inner.host.access(&item.cluster, controller.name()) else {
            inner.queue.lock().finish(&item, None);
            return;
        };
        let (by, cluster) = (controller.name(), item.cluster.as_str());
        tracing::trace!(target: "census", what = "run", cluster, by, key = &*item.key);
        // A controller that panics must not take the others with it, nor its key out of the queue.
        let run = std::panic::AssertUnwindSafe(controller.reconcile(&access, &item.key));
        let result = match futures::FutureExt::catch_unwind(run).await {
            Ok(r) => r,
            Err(_) => Err(Status::internal(format!("controller {} panicked", controller.name()))),
        };
        let now = inner.clock.now();
        let mut queue = inner.queue.lock();
        match result {
            Ok(Outcome::Done) => queue.finish(&item, None),
            Ok(Outcome::After(wait)) => queue.finish(&item, now.checked_add(wait).ok()),
            Err(e) => {
                let (tries, wait) = queue.failed(&item);
                queue.finish(&item, now.checked_add(wait).ok());
                drop(queue);
                let (controller, key, cluster) = (controller.name(), &*item.key, item.cluster.as_str());
                // Losing a race is everyday; only what goes on failing is worth a line.
                if e.code == 409 || tries < 3 {
                    tracing::debug!(controller, cluster, key, error = %e, "will try again");
                } else if tries.is_power_of_two() {
                    tracing::warn!(controller, cluster, key, error = %e, tries, "keeps failing");
                }
            }
        }
    }
}

/// Never, when there is nothing to wait for.
async fn sleep_until(clock: &SharedClock, due: Option<Timestamp>) {
    let Some(due) = due else { return std::future::pending().await };
    let wait = due.duration_since(clock.now()).max(SignedDuration::ZERO);
    tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
}
