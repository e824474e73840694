//! The world's clock: one dial that latency, operations, propagation, budgets and secrets all read.
//!
//! It runs at a scale of the clock that was handed in: 1 is wall time, 50 makes a minute of Azure's pass in little
//! more than a second, 0 stands still until it is moved (virtual time). It can be moved ahead at any scale, also to
//! the next thing that happens.
//!
//! What a client is told in seconds (`Retry-After`, `expires_in`) is said in seconds of the *client's*: divided by
//! the scale. Dates in tokens are the client's too, because clients and resource providers compare them with the
//! machine's clock: `iat`, `nbf` and `exp` are wall time, whatever the dial says. A token lives as long as Azure's,
//! divided by the scale, but never less than [`SHORTEST_TOKEN`]: clients renew five minutes before the end, and a
//! shorter life would make each call fetch a token. Moving the clock ahead takes the same time off the tokens that
//! exist: the simulator refuses them as expired although their `exp` is still to come, which is what a client sees
//! of a revoked token.

use clock::SharedClock;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// The least that a token lives, in seconds of the client's.
pub const SHORTEST_TOKEN: i64 = 600;
/// Faster than this nothing is real any more, and a day passes in a second.
pub const MAX_SCALE: f64 = 100_000.0;

#[derive(Clone, Copy, Debug)]
struct Setting {
    /// When it was set, by the clock that was handed in.
    base: Timestamp,
    /// What it showed then.
    world: Timestamp,
    scale: f64,
    /// How far it was moved ahead by hand, in milliseconds.
    jumped: i64,
}

/// The world's clock.
pub struct Dial {
    base: SharedClock,
    set: Mutex<Setting>,
}

#[derive(Debug, thiserror::Error, PartialEq)]
#[error("a clock cannot run {0} times as fast: the scale is 0 (stands still) to {MAX_SCALE}")]
pub struct ScaleError(f64);

fn plus(t: Timestamp, by: SignedDuration) -> Timestamp {
    t.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn millis(d: SignedDuration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX)
}

impl Setting {
    fn now(&self, base: Timestamp) -> Timestamp {
        let passed = base.duration_since(self.base);
        // Exactly, where it can be: tests compare times.
        let passed = if self.scale == 1.0 { passed } else { scaled(passed, self.scale) };
        plus(self.world, passed)
    }
}

fn scaled(d: SignedDuration, by: f64) -> SignedDuration {
    SignedDuration::try_from_secs_f64(d.as_secs_f64() * by).unwrap_or(SignedDuration::ZERO)
}

impl Dial {
    /// Runs with `base`, so many milliseconds ahead of it.
    pub fn new(base: SharedClock, ahead: i64) -> Dial {
        let now = base.now();
        let world = plus(now, SignedDuration::from_millis(ahead));
        let set = Mutex::new(Setting { base: now, world, scale: 1.0, jumped: ahead });
        Dial { base, set }
    }

    /// One that shows the same now and is its own from then on.
    pub fn fork(&self) -> Dial {
        Dial { base: self.base.clone(), set: Mutex::new(*self.set.lock()) }
    }

    pub fn now(&self) -> Timestamp {
        let base = self.base.now();
        self.set.lock().now(base)
    }

    /// The clock of clients.
    pub fn wall(&self) -> Timestamp {
        self.base.now()
    }

    pub fn scale(&self) -> f64 {
        self.set.lock().scale
    }

    /// Milliseconds that it was moved ahead by hand.
    pub fn jumped(&self) -> i64 {
        self.set.lock().jumped
    }

    /// Milliseconds that it is ahead of the clock that was handed in.
    pub fn ahead(&self) -> i64 {
        let base = self.base.now();
        millis(self.set.lock().now(base).duration_since(base))
    }

    /// From now on it runs so many times as fast.
    pub fn run_at(&self, scale: f64) -> Result<(), ScaleError> {
        if !(0.0..=MAX_SCALE).contains(&scale) {
            return Err(ScaleError(scale));
        }
        let base = self.base.now();
        let mut set = self.set.lock();
        *set = Setting { base, world: set.now(base), scale, jumped: set.jumped };
        Ok(())
    }

    pub fn advance(&self, by: SignedDuration) {
        let by = by.max(SignedDuration::ZERO);
        let mut set = self.set.lock();
        set.world = plus(set.world, by);
        set.jumped = set.jumped.saturating_add(millis(by));
    }

    /// What to call it.
    pub fn mode(&self) -> &'static str {
        match self.scale() {
            0.0 => "virtual",
            1.0 => "wall",
            _ => "scaled",
        }
    }

    /// How long a token lives, in seconds of the client's.
    pub fn token_life(&self, seconds: i64) -> i64 {
        let scale = self.scale();
        if scale <= 1.0 {
            return seconds;
        }
        // Far below 2^53.
        let shorter = (seconds as f64 / scale) as i64;
        shorter.max(SHORTEST_TOKEN).min(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::ManualClock;
    use proptest::prelude::*;

    fn dial() -> (Dial, std::sync::Arc<ManualClock>) {
        let base = ManualClock::new(Timestamp::from_second(1_000).unwrap());
        (Dial::new(base.clone(), 0), base)
    }

    #[test]
    fn it_runs_stands_and_jumps() {
        let (d, base) = dial();
        let pass = |s| base.advance(SignedDuration::from_secs(s));
        pass(5);
        assert_eq!((d.now().as_second(), d.mode()), (1_005, "wall"));
        d.run_at(50.0).unwrap();
        pass(2);
        assert_eq!((d.now().as_second(), d.mode()), (1_105, "scaled"));
        d.run_at(0.0).unwrap();
        pass(1_000);
        assert_eq!((d.now().as_second(), d.mode()), (1_105, "virtual"));
        d.advance(SignedDuration::from_secs(10));
        assert_eq!((d.now().as_second(), d.jumped()), (1_115, 10_000));
        assert_eq!(d.wall().as_second(), 2_007);
        for bad in [-1.0, f64::NAN, f64::INFINITY, MAX_SCALE * 2.0] {
            assert!(d.run_at(bad).is_err());
        }
        let fork = d.fork();
        d.advance(SignedDuration::from_secs(1));
        assert_eq!(fork.now().as_second(), 1_115);
    }

    #[test]
    fn tokens_live_long_enough_to_be_kept() {
        let (d, _) = dial();
        for (scale, life) in [(0.0, 3_599), (1.0, 3_599), (3.0, 1_199), (50.0, 600), (5_000.0, 600)] {
            d.run_at(scale).unwrap();
            assert_eq!(d.token_life(3_599), life, "{scale}");
        }
    }

    proptest! {
        /// Whatever is done to it, it never goes back.
        #[test]
        fn never_backwards(steps in prop::collection::vec((0_u8..3, 0_u16..5_000), 1..40)) {
            let (d, base) = dial();
            let mut last = d.now();
            for (what, n) in steps {
                match what {
                    0 => base.advance(SignedDuration::from_millis(i64::from(n))),
                    1 => d.advance(SignedDuration::from_millis(i64::from(n))),
                    _ => d.run_at(f64::from(n) / 10.0).unwrap(),
                }
                prop_assert!(d.now() >= last);
                last = d.now();
            }
        }
    }
}
