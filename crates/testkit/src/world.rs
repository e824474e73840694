//! Time and randomness that belong to the test.
//!
//! A [`TestWorld`] starts at a fixed instant with a fixed seed, so two runs of a test see the same uids and
//! the same timestamps, and a test that fails fails again. Advance the clock; never wait for it.

pub use clock::{Clock, ManualClock, Random, SharedClock};
use std::sync::Arc;

/// Where every test begins: 2026-01-01T00:00:00Z. Recent enough for certificate checks, easy to spot in output.
const START: i64 = 1_767_225_600;

/// A clock and a random generator that repeat.
#[derive(Clone)]
pub struct TestWorld {
    pub clock: Arc<ManualClock>,
    pub random: Random,
}

impl TestWorld {
    /// The same seed gives the same world.
    pub fn new(seed: u64) -> TestWorld {
        let start = jiff::Timestamp::from_second(START).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        TestWorld { clock: ManualClock::new(start), random: Random::seeded(seed) }
    }

    /// The clock as production code takes it.
    pub fn shared_clock(&self) -> SharedClock {
        self.clock.clone()
    }

    pub fn advance_secs(&self, seconds: i64) {
        self.clock.advance(jiff::SignedDuration::from_secs(seconds));
    }
}

impl Default for TestWorld {
    fn default() -> TestWorld {
        TestWorld::new(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_worlds_of_one_seed_agree_and_time_moves_only_when_told() {
        let (a, b) = (TestWorld::new(3), TestWorld::new(3));
        assert_eq!(a.random.uuid(), b.random.uuid());
        let before = a.shared_clock().now();
        assert_eq!(before.to_string(), "2026-01-01T00:00:00Z");
        a.advance_secs(90);
        assert_eq!(a.clock.now().duration_since(before).as_secs(), 90);
    }
}
