//! Runs controllers: watches wake keys, keys are reconciled.
//!
//! A [`Controller`] is given a key and nothing else: not the event, not the object, not the reason. Events are
//! lost, merged, reordered and repeated, and whoever relies on one has a second way through the code that is only
//! taken when things are bad. So a run after a change, after a failure, after a time and after a restart are the same
//! run. The runtime sees to it that
//!
//! * a key waits once, however often it is asked for, and never runs twice at the same time;
//! * what happens while a key runs makes it run again;
//! * a run that fails, panics or hangs is tried again, later each time, and is that key's trouble alone;
//! * a run that asks to be looked at again after a while is, unless something happens before;
//! * nothing runs before every watch has listed what there is: absence proves nothing until then;
//! * on shutdown, what has begun is finished.
//!
//! There is no resync on a timer: a controller that mistrusts its watches returns [`Outcome::After`]. Words are those of
//! `ek-engine`, which does the same inside the embedded server, from its store in place of watches.

mod keys;
mod lane;
mod queue;

pub use keys::{Keys, split};

use crate::metrics::Metrics;
use crate::wait::{Backoff, Waiting};
use crate::watch::{Sink, Watch};
use clock::SharedClock;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use keys::Concerns;
use kube::core::DynamicObject;
use lane::Lane;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to do until something changes.
    Done,
    /// Look again after this long, or when something changes.
    After(SignedDuration),
    /// Something else has to happen first. A watch will tell; `again` is for what no watch tells of.
    Waiting { on: Vec<Waiting>, again: Option<SignedDuration> },
}

/// Why a run failed. It goes to the log and to [`Handle::explain`]; deciding what to tell users is the reconcile's
/// own work and done by then.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Work that keeps something as it should be.
pub trait Controller: Send + Sync + 'static {
    /// In logs and metrics.
    fn name(&self) -> &'static str;

    /// Brings what belongs to a key into order. Must be safe to run at any time, and again.
    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>>;
}

/// How a controller is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Keys at the same time.
    pub workers: usize,
    pub backoff: Backoff,
    /// No run takes longer.
    pub deadline: Duration,
    /// How long a shutdown waits for runs that have begun.
    pub grace: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            workers: 10,
            backoff: Backoff::default(),
            deadline: Duration::from_secs(300),
            grace: Duration::from_secs(20),
        }
    }
}

/// How a key stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub waiting: Vec<Waiting>,
    /// Of the last run, if it failed.
    pub error: Option<String>,
    /// In a row.
    pub failures: u32,
    /// When it runs next, if nothing happens before.
    pub due: Option<Timestamp>,
}

/// A controller from outside. Cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Lane>);

impl Handle {
    /// Asks for a run.
    pub fn poke(&self, key: &str) {
        self.0.add(&[Arc::from(key)]);
    }

    /// For [`Watch::wakes`]: which keys an object concerns.
    pub fn keys(&self, map: impl Fn(&DynamicObject, &mut Keys) + Send + Sync + 'static) -> Arc<dyn Sink> {
        Arc::new(Concerns::new(self.0.clone(), map))
    }

    pub fn explain(&self, key: &str) -> Explanation {
        self.0.explain(key)
    }
}

/// What a shutdown left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Runs that were broken off after the grace period.
    pub broken_off: usize,
}

/// Controllers and watches that are run together.
pub struct Runtime {
    clock: SharedClock,
    metrics: Metrics,
    lanes: Vec<Arc<Lane>>,
    watches: Vec<Watch>,
}

impl Runtime {
    pub fn new(clock: SharedClock, metrics: &Metrics) -> Runtime {
        Runtime { clock, metrics: metrics.clone(), lanes: Vec::new(), watches: Vec::new() }
    }

    pub fn controller(&mut self, controller: Arc<dyn Controller>, options: Options) -> Handle {
        let options = Options { workers: options.workers.max(1), ..options };
        let lane = Arc::new(Lane::new(controller, options, self.clock.clone(), self.metrics.clone()));
        self.lanes.push(lane.clone());
        Handle(lane)
    }

    pub fn watch(&mut self, watch: Watch) {
        self.watches.push(watch);
    }

    /// Works until stopped, then finishes what has begun.
    pub async fn run(self, stop: CancellationToken) -> Drained {
        // Watches go on until the last run is over, so that the ledger does not miss what those runs do.
        let watching = CancellationToken::new();
        let _ended = watching.clone().drop_guard();
        let mut watches = JoinSet::new();
        let mut lists = Vec::new();
        for watch in self.watches {
            let (done, listed) = tokio::sync::watch::channel(false);
            lists.push((watch.source().kind.kind.clone(), listed));
            let (metrics, watching) = (self.metrics.clone(), watching.clone());
            watches.spawn(async move { watch.run(&metrics, &done, &watching).await });
        }
        for (kind, mut listed) in lists {
            // A kind that is forbidden or not served must not keep everybody from work in silence.
            const SAY: Duration = Duration::from_secs(30);
            let said = async {
                while tokio::time::timeout(SAY, listed.wait_for(|done| *done)).await.is_err() {
                    tracing::warn!(%kind, "controllers wait for the first list of a kind they watch");
                }
            };
            tokio::select! {
                () = stop.cancelled() => return Drained::default(),
                () = said => {}
            }
        }
        let mut lanes = JoinSet::new();
        for lane in self.lanes {
            lanes.spawn(lane.run(stop.clone()));
        }
        stop.cancelled().await;
        let broken_off = lanes.join_all().await.into_iter().sum();
        Drained { broken_off }
    }
}
