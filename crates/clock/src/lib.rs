//! Time and randomness as values that are handed in.
//!
//! Nothing in Zaffre reads the wall clock or a global random generator directly (`clippy.toml` forbids it):
//! it holds a [`Clock`] and a [`Random`]. Production passes [`system`] and [`Random::from_os`]; a test passes
//! a [`ManualClock`] and [`Random::seeded`] and then owns both.

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;

/// A source of wall-clock time.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

pub type SharedClock = Arc<dyn Clock>;

struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The machine's clock.
pub fn system() -> SharedClock {
    Arc::new(SystemClock)
}

/// A clock that moves only when told to.
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    pub fn new(start: Timestamp) -> Arc<Self> {
        Arc::new(ManualClock(Mutex::new(start)))
    }

    pub fn advance(&self, by: SignedDuration) {
        let mut t = self.0.lock();
        *t = t.checked_add(by).unwrap_or(Timestamp::MAX);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}

/// A shared random generator.
#[derive(Clone)]
pub struct Random(Arc<Mutex<StdRng>>);

impl Random {
    pub fn from_os() -> Random {
        Random(Arc::new(Mutex::new(rand::make_rng())))
    }

    pub fn seeded(seed: u64) -> Random {
        Random(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// Uniform below `bound`, which must not be 0.
    pub fn below(&self, bound: usize) -> usize {
        self.0.lock().random_range(0..bound)
    }

    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        self.0.lock().random()
    }

    /// A random (version 4) UUID in text form.
    pub fn uuid(&self) -> String {
        let mut b: [u8; 16] = self.bytes();
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        // Every request gets one, so it is written digit by digit and not formatted.
        const DIGITS: [char; 16] =
            ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
        let mut text = String::with_capacity(36);
        for (i, x) in b.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push(DIGITS[usize::from(x >> 4)]);
            text.push(DIGITS[usize::from(x & 15)]);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_randomness_repeats_and_manual_time_stands() {
        assert_eq!(Random::seeded(7).uuid(), Random::seeded(7).uuid());
        assert_eq!(Random::seeded(7).uuid().split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_ne!(Random::seeded(7).uuid(), Random::seeded(8).uuid());
        let c = ManualClock::new(Timestamp::UNIX_EPOCH);
        c.advance(SignedDuration::from_secs(5));
        assert_eq!(c.now().as_second(), 5);
    }
}
