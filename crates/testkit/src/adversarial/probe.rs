//! Points where a workflow can be interrupted.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The injected failure. A workflow's own error type must be able to hold it, as it must hold any other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("interrupted at {point:?}")]
pub struct Interrupted {
    pub point: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attack {
    Fail,
    Crash,
}

/// One meeting of a point. Counted per name: where parts of a step run side by side, the order of different
/// points is chance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) name: String,
    pub(super) nth: usize,
}

#[derive(Default)]
struct State {
    /// Prefix of point names: the running step.
    step: String,
    /// Every point met so far in this scenario.
    met: Vec<String>,
    /// Which point to attack, at which of its meetings, and how. Used up by the attack.
    armed: Option<(Point, Attack)>,
    crashed: bool,
    waker: Option<Waker>,
}

/// Handed to every step; cheap to clone into the parts a step is made of.
#[derive(Clone, Default)]
pub struct Probe(Arc<Mutex<State>>);

impl Probe {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A point between two effects. Returns at once, except in the scenario that attacks it: there it fails,
    /// or never returns because the process is no more.
    pub async fn at(&self, point: &str) -> Result<(), Interrupted> {
        let name = {
            let state = self.lock();
            format!("{}: {point}", state.step)
        };
        match self.meet(name.clone()) {
            None => Ok(()),
            Some(Attack::Fail) => Err(Interrupted { point: name }),
            Some(Attack::Crash) => std::future::pending().await,
        }
    }

    fn meet(&self, name: String) -> Option<Attack> {
        let mut state = self.lock();
        let nth = state.met.iter().filter(|m| **m == name).count();
        let here = Point { name, nth };
        state.met.push(here.name.clone());
        let (_, attack) = state.armed.take_if(|(at, _)| *at == here)?;
        if attack == Attack::Crash {
            state.crashed = true;
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        }
        Some(attack)
    }

    pub(super) fn armed(at: Point, attack: Attack) -> Probe {
        let probe = Probe::default();
        probe.lock().armed = Some((at, attack));
        probe
    }

    pub(super) fn enter(&self, step: &str) {
        self.lock().step = step.to_owned();
    }

    pub(super) fn met(&self) -> Vec<Point> {
        let state = self.lock();
        let nth = |i: usize, name: &String| state.met[..i].iter().filter(|m| *m == name).count();
        state
            .met
            .iter()
            .enumerate()
            .map(|(i, name)| Point { name: name.clone(), nth: nth(i, name) })
            .collect()
    }

    /// Whether the attack is still to come.
    pub(super) fn is_armed(&self) -> bool {
        self.lock().armed.is_some()
    }

    /// Runs a future until it ends or the process "dies": `None`, with the future dropped where it stood.
    pub(super) async fn alive<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let outcome = poll_fn(|cx| {
            self.lock().waker = Some(cx.waker().clone());
            match future.as_mut().poll(cx) {
                // A step that swallowed the end of the world, say in a select, still does not outlive it.
                _ if self.lock().crashed => Poll::Ready(None),
                Poll::Ready(value) => Poll::Ready(Some(value)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        self.lock().crashed = false;
        outcome
    }
}
