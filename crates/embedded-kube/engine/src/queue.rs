//! What is to be run: each key once, in order of arrival, some not before a time.

use ek_store::ClusterId;
use jiff::{SignedDuration, Timestamp};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

/// A key of a controller in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Item {
    pub(crate) cluster: ClusterId,
    pub(crate) controller: usize,
    pub(crate) key: Arc<str>,
}

/// The first retry waits this long, each further one twice as long, up to the last.
const FIRST_RETRY: SignedDuration = SignedDuration::from_millis(5);
const LAST_RETRY: SignedDuration = SignedDuration::from_secs(60);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    queued: bool,
    running: bool,
    /// Asked for while it ran.
    again: bool,
    /// The one entry of the timer heap that counts.
    due: Option<Timestamp>,
    failures: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    ready: VecDeque<Item>,
    timers: BinaryHeap<Reverse<(Timestamp, Item)>>,
    states: HashMap<Item, State>,
}

impl Queue {
    /// Something happened: run it, soon.
    pub(crate) fn add(&mut self, item: Item) {
        let state = self.states.entry(item.clone()).or_default();
        if state.running {
            state.again = true;
        } else if !state.queued {
            state.queued = true;
            self.ready.push_back(item);
        }
    }

    /// The next to run at `now`.
    pub(crate) fn take(&mut self, now: Timestamp) -> Option<Item> {
        self.wake_due(now);
        let item = self.ready.pop_front()?;
        let state = self.states.entry(item.clone()).or_default();
        (state.queued, state.running, state.due) = (false, true, None);
        Some(item)
    }

    fn wake_due(&mut self, now: Timestamp) {
        while let Some(Reverse((due, item))) = self.timers.peek() {
            let counts = self.states.get(item).is_some_and(|s| s.due == Some(*due));
            if counts && *due > now {
                return;
            }
            let item = item.clone();
            self.timers.pop();
            if counts {
                if let Some(s) = self.states.get_mut(&item) {
                    s.due = None;
                }
                self.add(item);
            }
        }
    }

    /// A run is over; it wants to run again at `due`, if at all.
    pub(crate) fn finish(&mut self, item: &Item, due: Option<Timestamp>) {
        let Some(state) = self.states.get_mut(item) else { return };
        state.running = false;
        if std::mem::take(&mut state.again) {
            state.queued = true;
            self.ready.push_back(item.clone());
            return;
        }
        match due {
            Some(at) => {
                state.due = Some(at);
                self.timers.push(Reverse((at, item.clone())));
            }
            // Success forgets failures; the state of a key at rest is nothing.
            None => {
                self.states.remove(item);
            }
        }
    }

    /// Counts a failure; says how many in a row and how long to wait.
    pub(crate) fn failed(&mut self, item: &Item) -> (u32, SignedDuration) {
        let Some(state) = self.states.get_mut(item) else { return (1, FIRST_RETRY) };
        state.failures = state.failures.saturating_add(1);
        let wait =
            FIRST_RETRY.checked_mul(1 << state.failures.min(16).saturating_sub(1)).unwrap_or(LAST_RETRY);
        (state.failures, wait.min(LAST_RETRY))
    }

    pub(crate) fn next_due(&mut self) -> Option<Timestamp> {
        loop {
            let Reverse((due, item)) = self.timers.peek()?;
            if self.states.get(item).is_some_and(|s| s.due == Some(*due)) {
                return Some(*due);
            }
            self.timers.pop();
        }
    }

    pub(crate) fn has_due(&mut self, now: Timestamp) -> bool {
        self.wake_due(now);
        !self.ready.is_empty()
    }

    /// A cluster is gone. What runs in it finds out by itself.
    pub(crate) fn forget(&mut self, cluster: &ClusterId) {
        self.ready.retain(|i| i.cluster != *cluster);
        self.states.retain(|i, s| i.cluster != *cluster || s.running);
        if self.timers.len() > 2 * self.states.len() + 64 {
            let states = &self.states;
            self.timers.retain(|Reverse((due, i))| states.get(i).is_some_and(|s| s.due == Some(*due)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(key: &str) -> Item {
        Item { cluster: ClusterId::new("c"), controller: 0, key: Arc::from(key) }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_key_waits_once_and_never_runs_twice_at_a_time() {
        let mut q = Queue::default();
        q.add(item("a"));
        q.add(item("a"));
        let a = q.take(at(0)).unwrap();
        assert_eq!(q.take(at(0)), None);
        q.add(item("a"));
        assert_eq!(q.take(at(0)), None, "it runs already");
        q.finish(&a, Some(at(10)));
        assert_eq!(q.take(at(0)), Some(item("a")), "what happened meanwhile comes first");
        q.finish(&a, None);
        assert!(q.states.is_empty());
    }

    #[test]
    fn time_wakes_and_a_change_comes_before_it() {
        let mut q = Queue::default();
        q.add(item("a"));
        let a = q.take(at(0)).unwrap();
        q.finish(&a, Some(at(10)));
        assert_eq!((q.take(at(9)), q.next_due()), (None, Some(at(10))));
        q.add(item("a"));
        let a = q.take(at(5)).unwrap();
        q.finish(&a, None);
        assert_eq!((q.take(at(20)), q.next_due()), (None, None), "the older wish is void");
    }

    #[test]
    fn failures_wait_longer_each_time() {
        let mut q = Queue::default();
        let mut waits = Vec::new();
        for n in 0..20 {
            q.add(item("a"));
            let a = q.take(at(n)).unwrap();
            let (_, wait) = q.failed(&a);
            waits.push(wait.as_millis());
            q.finish(&a, Some(at(1000)));
        }
        assert_eq!(waits[..4], [5, 10, 20, 40]);
        assert_eq!(waits[19], 60_000);
    }

    #[test]
    fn a_forgotten_cluster_leaves_nothing() {
        let mut q = Queue::default();
        q.add(item("a"));
        q.add(item("b"));
        let a = q.take(at(0)).unwrap();
        q.forget(&a.cluster);
        q.finish(&a, None);
        assert!(q.states.is_empty() && q.ready.is_empty());
    }
}
