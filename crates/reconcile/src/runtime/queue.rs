//! What is to be run: each key once, in order of arrival, some not before a time.
//!
//! ```text
//!            add                 take               finish
//!   at rest ─────> ready ──────────────> running ──────────> at rest
//!      ▲             ▲                      │ ▲
//!      │             └── add while running ─┘ │ (again)
//!      └──────────── time ──── delayed <──────┘ (after …, failed)
//! ```
//!
//! There is at most one entry per key, so the queue is as long as there are keys. A key at rest is nothing at all.

use crate::wait::{Backoff, after};
use jiff::Timestamp;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// A key that failed this often in a row waits for its time: news no longer brings it forward. Otherwise a
/// reconcile that fails *because of* or *after* writing something would wake itself for ever.
const PATIENCE: u32 = 3;

#[derive(Clone, Copy, Debug, Default)]
struct State {
    ready: bool,
    running: bool,
    /// Asked for while it ran.
    again: bool,
    due: Option<Timestamp>,
    failures: u32,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    After(Duration),
    Failed,
}

#[derive(Debug)]
pub(crate) struct Queue {
    backoff: Backoff,
    ready: VecDeque<Arc<str>>,
    delayed: BTreeSet<(Timestamp, Arc<str>)>,
    states: HashMap<Arc<str>, State>,
}

impl Queue {
    pub(crate) fn new(backoff: Backoff) -> Queue {
        Queue { backoff, ready: VecDeque::new(), delayed: BTreeSet::new(), states: HashMap::new() }
    }

    /// Something happened: run it, soon. Says whether that is news to the queue.
    pub(crate) fn add(&mut self, key: &Arc<str>) -> bool {
        let state = match self.states.get_mut(key) {
            Some(state) => state,
            None => self.states.entry(key.clone()).or_default(),
        };
        if state.running {
            return !std::mem::replace(&mut state.again, true);
        }
        if state.ready || state.failures >= PATIENCE && state.due.is_some() {
            return false;
        }
        state.ready = true;
        if let Some(due) = state.due.take() {
            self.delayed.remove(&(due, key.clone()));
        }
        self.ready.push_back(key.clone());
        true
    }

    /// The next to run at `now`. It runs until [`Queue::finish`].
    pub(crate) fn take(&mut self, now: Timestamp) -> Option<Arc<str>> {
        self.wake(now);
        let key = self.ready.pop_front()?;
        let state = self.states.entry(key.clone()).or_default();
        (state.ready, state.running, state.again) = (false, true, false);
        Some(key)
    }

    fn wake(&mut self, now: Timestamp) {
        while let Some((due, _)) = self.delayed.first() {
            if *due > now {
                return;
            }
            let Some((_, key)) = self.delayed.pop_first() else { return };
            if let Some(state) = self.states.get_mut(&key) {
                (state.due, state.ready) = (None, true);
                self.ready.push_back(key);
            }
        }
    }

    /// A run is over. Says how many have failed in a row.
    pub(crate) fn finish(&mut self, key: &Arc<str>, end: End, now: Timestamp) -> u32 {
        let Some(state) = self.states.get_mut(key) else { return 0 };
        state.running = false;
        state.failures = if end == End::Failed { state.failures.saturating_add(1) } else { 0 };
        let failures = state.failures;
        if std::mem::take(&mut state.again) && failures < PATIENCE {
            state.ready = true;
            self.ready.push_back(key.clone());
            return failures;
        }
        let wait = match end {
            End::Done => {
                self.states.remove(key);
                return 0;
            }
            End::After(wait) => wait,
            End::Failed => self.backoff.spread(failures, key),
        };
        let due = after(now, wait);
        state.due = Some(due);
        self.delayed.insert((due, key.clone()));
        failures
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.delayed.first().map(|(due, _)| *due)
    }

    /// Whether something could run at `now`.
    pub(crate) fn has_due(&self, now: Timestamp) -> bool {
        !self.ready.is_empty() || self.next_due().is_some_and(|due| due <= now)
    }

    /// Keys that could run now.
    pub(crate) fn depth(&self) -> usize {
        self.ready.len()
    }

    /// Failures in a row, and when it runs next if it waits for time.
    pub(crate) fn look(&self, key: &str) -> (u32, Option<Timestamp>) {
        self.states.get(key).map_or((0, None), |s| (s.failures, s.due))
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
