//! Earlier states, for reads that see them. A state shares what did not change, so a few cost little.

use crate::state::State;
use crate::trouble::Stale;
use jiff::{SignedDuration, Timestamp};
use std::collections::VecDeque;

const KEPT: usize = 64;

/// States before writes, the oldest first, each with the time of the write that ended it.
#[derive(Default)]
pub struct History(VecDeque<(Timestamp, State)>);

impl History {
    pub fn keep(&mut self, before: State, at: Timestamp) {
        if self.0.len() >= KEPT {
            self.0.pop_front();
        }
        self.0.push_back((at, before));
    }

    /// The state so long ago, and when that was; `None` if nothing was written since.
    pub fn look(&self, how: Stale, now: Timestamp) -> Option<(State, Timestamp)> {
        match how {
            Stale::Versions(n) => {
                let (ended, state) = self.0.get(self.0.len().saturating_sub(n))?;
                Some((state.clone(), (*ended).min(now)))
            }
            Stale::Seconds(s) => {
                let then = now.checked_sub(SignedDuration::from_secs(i64::from(s))).unwrap_or(Timestamp::MIN);
                let (_, state) = self.0.iter().find(|(ended, _)| *ended > then)?;
                Some((state.clone(), then))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_writes_and_by_time() {
        let at = |s: i64| Timestamp::from_second(s).unwrap();
        let mut history = History::default();
        assert!(history.look(Stale::Versions(1), at(100)).is_none());
        for (seed, ended) in [(1, 10), (2, 20), (3, 30)] {
            history.keep(State::new(seed, String::new()), at(ended));
        }
        let seen = |how, now| history.look(how, at(now)).map(|(s, _)| s.seed);
        assert_eq!(seen(Stale::Versions(1), 100), Some(3));
        assert_eq!(seen(Stale::Versions(3), 100), Some(1));
        assert_eq!(seen(Stale::Versions(50), 100), Some(1), "no further back than is kept");
        assert_eq!(seen(Stale::Seconds(5), 32), Some(3), "at 27 the third was in force");
        assert_eq!(seen(Stale::Seconds(15), 32), Some(2));
        assert_eq!(seen(Stale::Seconds(1), 100), None, "nothing was written since");
    }
}
