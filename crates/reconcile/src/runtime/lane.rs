//! One controller at work: its queue, its runs, what is known about its keys.

use super::queue::{End, Queue};
use super::{Controller, Explanation, Failure, Options, Outcome};
use crate::metrics::{ACTIVE, DEPTH, Metrics, RECONCILE_SECONDS, RECONCILES};
use crate::wait::{self, Waiting, bounded};
use clock::SharedClock;
use futures::FutureExt;
use jiff::SignedDuration;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What the last run of a key left behind, if it did not simply succeed.
#[derive(Debug, Default)]
struct Note {
    waiting: Vec<Waiting>,
    error: Option<String>,
}

pub(crate) struct Lane {
    pub(super) controller: Arc<dyn Controller>,
    options: Options,
    clock: SharedClock,
    metrics: Metrics,
    queue: Mutex<Queue>,
    wake: Notify,
    notes: Mutex<HashMap<Arc<str>, Note>>,
}

enum Ran {
    Came(Result<Outcome, Failure>),
    Panicked(String),
    Overran,
}

impl Lane {
    pub(super) fn new(
        controller: Arc<dyn Controller>,
        options: Options,
        clock: SharedClock,
        metrics: Metrics,
    ) -> Lane {
        let queue = Mutex::new(Queue::new(options.backoff));
        Lane { controller, options, clock, metrics, queue, wake: Notify::new(), notes: Mutex::default() }
    }

    pub(super) fn add(&self, keys: &[Arc<str>]) {
        let mut queue = self.queue.lock();
        let news = keys.iter().filter(|k| queue.add(k)).count() > 0;
        let depth = queue.depth();
        drop(queue);
        if news {
            self.note_depth(depth);
            self.wake.notify_one();
        }
    }

    fn note_depth(&self, depth: usize) {
        self.metrics.set(&DEPTH, &[self.controller.name()], i64::try_from(depth).unwrap_or(i64::MAX));
    }

    /// Works until stopped, then finishes what has begun. Says how many runs had to be broken off.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) -> usize {
        let mut running = JoinSet::new();
        while !stop.is_cancelled() {
            self.start_due(&mut running);
            // Runs may be over as soon as they are started: what they left room for must not wait for a change.
            let now = self.clock.now();
            if running.len() < self.options.workers && self.queue.lock().has_due(now) {
                continue;
            }
            // With all hands busy, only one that becomes free can help.
            let due = match running.len() < self.options.workers {
                true => self.queue.lock().next_due(),
                false => None,
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = running.join_next(), if !running.is_empty() => {}
                () = self.wake.notified() => {}
                () = wait::until(&self.clock, due) => {}
            }
        }
        let drain = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(self.options.grace, drain).await.is_ok() {
            return 0;
        }
        let left = running.len();
        running.shutdown().await;
        tracing::warn!(
            controller = self.controller.name(),
            left,
            "reconciles were broken off by the shutdown"
        );
        left
    }

    fn start_due(self: &Arc<Self>, running: &mut JoinSet<()>) {
        while running.try_join_next().is_some() {}
        while running.len() < self.options.workers {
            let mut queue = self.queue.lock();
            let Some(key) = queue.take(self.clock.now()) else { break };
            let depth = queue.depth();
            drop(queue);
            self.note_depth(depth);
            let me = self.clone();
            running.spawn(async move { me.work(key).await });
        }
        self.metrics.set(
            &ACTIVE,
            &[self.controller.name()],
            i64::try_from(running.len()).unwrap_or(i64::MAX),
        );
    }

    async fn work(&self, key: Arc<str>) {
        let name = self.controller.name();
        let started = tokio::time::Instant::now();
        tracing::trace!(target: "census", what = "run", by = name, key = &*key);
        // A controller that panics must not take the others with it, nor its key out of the queue; one that hangs
        // must not keep its key for ever.
        let run = AssertUnwindSafe(async { self.controller.reconcile(&key).await }).catch_unwind();
        let ran = match tokio::time::timeout(self.options.deadline, run).await {
            Ok(Ok(result)) => Ran::Came(result),
            Ok(Err(panic)) => Ran::Panicked(said(&*panic)),
            Err(_) => Ran::Overran,
        };
        self.metrics.observe(&RECONCILE_SECONDS, &[name], started.elapsed().as_secs_f64());
        let (word, end, waiting, error) = match ran {
            Ran::Came(Ok(Outcome::Done)) => ("success", End::Done, Vec::new(), None),
            Ran::Came(Ok(Outcome::After(wait))) => ("requeue_after", later(wait), Vec::new(), None),
            Ran::Came(Ok(Outcome::Waiting { on, again })) => {
                ("waiting", again.map_or(End::Done, later), on, None)
            }
            Ran::Came(Err(e)) => ("error", End::Failed, Vec::new(), Some(crate::chain(&*e).to_string())),
            Ran::Panicked(said) => {
                ("panic", End::Failed, Vec::new(), Some(format!("the reconcile panicked: {said}")))
            }
            Ran::Overran => {
                let text = format!("the reconcile was not done after {:?}", self.options.deadline);
                ("timeout", End::Failed, Vec::new(), Some(text))
            }
        };
        self.metrics.count(&RECONCILES, &[name, word]);
        let failures = self.queue.lock().finish(&key, end, self.clock.now());
        if let Some(error) = &error {
            // Losing a race is everyday; only what goes on failing is worth a line.
            if failures < 3 {
                tracing::debug!(controller = name, key = &*key, error, "will try again");
            } else if failures.is_power_of_two() || failures == 3 {
                tracing::warn!(controller = name, key = &*key, error, failures, "keeps failing");
            }
        }
        self.note(&key, waiting, error);
    }

    fn note(&self, key: &Arc<str>, mut waiting: Vec<Waiting>, error: Option<String>) {
        const LONGEST: usize = 2048;
        let mut notes = self.notes.lock();
        if waiting.is_empty() && error.is_none() {
            notes.remove(key);
            return;
        }
        waiting.truncate(Waiting::MOST);
        let note = notes.entry(key.clone()).or_default();
        for w in &mut waiting {
            // Who waited for this already has waited since then.
            if let Some(before) = note.waiting.iter().find(|b| b.on == w.on) {
                w.since = before.since.min(w.since);
            }
        }
        // A failed run does not know what it would have waited for: the last list stands.
        if error.is_none() {
            note.waiting = waiting;
        }
        note.error = error.map(|e| bounded(e, LONGEST));
    }

    pub(super) fn explain(&self, key: &str) -> Explanation {
        let (failures, due) = self.queue.lock().look(key);
        let notes = self.notes.lock();
        let note = notes.get(key);
        Explanation {
            waiting: note.map(|n| n.waiting.clone()).unwrap_or_default(),
            error: note.and_then(|n| n.error.clone()),
            failures,
            due,
        }
    }
}

/// What a panic says, if it says anything.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a word").to_owned()
}

fn later(wait: SignedDuration) -> End {
    End::After(Duration::try_from(wait).unwrap_or_default())
}
