//! How fast, and how moody, the simulated Azure is.
//!
//! `real` takes the measured times: each operation its own, drawn from a log-normal around the type's median, by
//! seed, resource, operation and generation, so that a run repeats whatever the order of its requests. `fast` takes
//! a fiftieth of them. `instant` takes none: an operation is accepted, is seen pending in the first answer, and is
//! over at the next look. `bad-day` is as fast as `fast`, with the faults, budgets and lags of a bad one. `manual`
//! waits until it is told to go on.
//!
//! `Retry-After` shrinks with the times and with the clock's scale, so real clients speed up too.

mod latency;
mod sample;
mod times;

pub use latency::Latency;
pub use sample::{exponential, log_normal};
pub use times::Span;

use jiff::SignedDuration;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    #[default]
    Instant,
    Fast,
    Real,
    /// What can go wrong does, often enough that a test of a few seconds meets all of it.
    BadDay,
    /// Nothing ends by itself; [`crate::World::finish_operations`] ends it.
    Manual,
}

const NAMES: [(&str, Profile); 5] = [
    ("instant", Profile::Instant),
    ("fast", Profile::Fast),
    ("real", Profile::Real),
    ("bad-day", Profile::BadDay),
    ("manual", Profile::Manual),
];

impl std::str::FromStr for Profile {
    type Err = String;

    fn from_str(s: &str) -> Result<Profile, String> {
        let found = NAMES.iter().find(|(name, _)| *name == s).map(|(_, p)| *p);
        found.ok_or_else(|| format!("'{s}' is not a profile: instant, fast, real, bad-day or manual"))
    }
}

impl Profile {
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, p)| *p == self).map_or("", |(name, _)| name)
    }

    /// What a second of Azure's is here; `None` if nothing ends by itself.
    fn factor(self) -> Option<f64> {
        match self {
            Profile::Instant => Some(0.0),
            Profile::Fast | Profile::BadDay => Some(0.02),
            Profile::Real => Some(1.0),
            Profile::Manual => None,
        }
    }

    /// What a second of lag (rights, principals, credentials) is here: only some profiles have any.
    pub fn lag(self) -> f64 {
        match self {
            Profile::Real => 1.0,
            Profile::BadDay => 0.02,
            Profile::Instant | Profile::Fast | Profile::Manual => 0.0,
        }
    }
}

fn duration(seconds: f64) -> SignedDuration {
    SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::ZERO)
}

/// A profile on a clock.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub profile: Profile,
    /// How many of the world's seconds pass in one of the client's; 0 if none does.
    pub scale: f64,
}

impl Pace {
    /// How long something takes that takes `seconds` in Azure; `None` for ever.
    pub fn lasts(self, seconds: f64) -> Option<SignedDuration> {
        Some(duration(seconds * self.profile.factor()?))
    }

    /// How long this one operation takes, of a type that typically takes `typical`.
    ///
    /// Times were measured by pollers that looked every `retry` seconds, so the operation was over by the look before
    /// the time that was written down: 35 s with looks every 30 s means over within 30. Otherwise the same poller
    /// would see it here at 60. Looks a few seconds apart blur little and are left alone.
    pub fn takes(
        self,
        kind: &str,
        deletes: bool,
        typical: f64,
        retry: u32,
        bits: u128,
    ) -> Option<SignedDuration> {
        let factor = self.profile.factor()?;
        if typical <= 0.0 || factor <= 0.0 {
            return Some(SignedDuration::ZERO);
        }
        let seen = Span::of(kind, deletes, typical).sample(bits);
        let every = f64::from(retry);
        let over = if retry >= 10 && seen >= every { (seen / every).floor() * every } else { seen };
        Some(duration(over * factor))
    }

    /// Whether answers take any time.
    pub fn has_latency(self) -> bool {
        self.scale > 0.0 && self.profile.factor().is_some_and(|f| f > 0.0)
    }

    /// How long an answer is under way, in the client's time.
    pub fn latency(self, row: Latency, bits: u128) -> Duration {
        let seconds = match self.profile {
            Profile::Manual => 0.0,
            _ => row.sample(bits) * self.profile.factor().unwrap_or(0.0),
        };
        self.for_client(seconds)
    }

    /// A time of the world's in the client's. In virtual time there is nothing to wait for.
    pub fn for_client(self, seconds: f64) -> Duration {
        let seconds = if self.scale > 0.0 { seconds / self.scale } else { 0.0 };
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)
    }

    /// The header that tells a client when to ask again, for a wait of Azure's.
    pub fn retry_after(self, seconds: u32) -> Option<(&'static str, String)> {
        match self.profile {
            Profile::Real | Profile::Manual if seconds == 0 => None,
            Profile::Instant => Some(("retry-after-ms", "5".to_owned())),
            p => Some(self.again_in(f64::from(seconds.max(1)) * p.factor().unwrap_or(1.0))),
        }
    }

    /// The same for a wait of the world's. Clients read 0 as their default of half a minute, so parts of a second
    /// are said in milliseconds, which the official clients understand.
    pub fn again_in(self, seconds: f64) -> (&'static str, String) {
        if self.scale <= 0.0 {
            return ("retry-after-ms", "5".to_owned());
        }
        // Bounded and not negative.
        let ms = (seconds * 1_000.0 / self.scale).ceil().clamp(1.0, 86_400_000.0) as u64;
        match ms % 1_000 {
            0 => ("retry-after", (ms / 1_000).to_string()),
            _ => ("retry-after-ms", ms.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_shrink_with_profile_and_scale() {
        let said =
            |profile, scale, s| Pace { profile, scale }.retry_after(s).map(|(n, v)| format!("{n}: {v}"));
        let some = |t: &str| Some(t.to_owned());
        assert_eq!(said(Profile::Real, 1.0, 10), some("retry-after: 10"));
        assert_eq!(said(Profile::Real, 1.0, 0), None);
        assert_eq!(said(Profile::Real, 10.0, 10), some("retry-after: 1"));
        assert_eq!(said(Profile::Real, 50.0, 10), some("retry-after-ms: 200"));
        assert_eq!(said(Profile::Fast, 1.0, 30), some("retry-after-ms: 600"));
        assert_eq!(said(Profile::Fast, 1.0, 0), some("retry-after-ms: 20"));
        assert_eq!(said(Profile::Fast, 1.0, 100), some("retry-after: 2"));
        assert_eq!(said(Profile::Instant, 1.0, 30), some("retry-after-ms: 5"));
        assert_eq!(said(Profile::Real, 0.0, 30), some("retry-after-ms: 5"), "virtual: nothing to wait for");
        let pace = Pace { profile: Profile::Real, scale: 1.0 };
        let zone = "Microsoft.Network/privateDnsZones";
        let lasts = |retry| pace.takes(zone, false, 36.0, retry, 7).map(|d| d.as_secs_f64()).unwrap();
        assert!(lasts(30) == 30.0 && lasts(1) > 33.0, "seen at 35 by a look at 30");
        assert_eq!("bad-day".parse::<Profile>().unwrap().name(), "bad-day");
        assert!("slow".parse::<Profile>().unwrap_err().contains("bad-day"));
    }
}
