//! Budgets: not asking more often than Azure answers.
//!
//! Azure gives each principal a token bucket per subscription and kind of call. We keep a copy, shared by all
//! clients that were given the same [`Budgets`], so that a burst waits here instead of being refused there; the
//! copy is corrected by what each answer says is left, and closed when one says 429.

use http::{HeaderMap, Method};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Read,
    Write,
    Delete,
}

impl Class {
    pub fn of(method: &Method) -> Class {
        match *method {
            Method::GET | Method::HEAD => Class::Read,
            Method::DELETE => Class::Delete,
            _ => Class::Write,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Class::Read => "reads",
            Class::Write => "writes",
            Class::Delete => "deletes",
        }
    }
}

/// Sizes and refills per second: what Azure documents.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    pub reads: (f64, f64),
    pub writes: (f64, f64),
    pub deletes: (f64, f64),
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { reads: (250.0, 25.0), writes: (200.0, 10.0), deletes: (200.0, 10.0) }
    }
}

impl Budget {
    fn of(&self, class: Class) -> (f64, f64) {
        match class {
            Class::Read => self.reads,
            Class::Write => self.writes,
            Class::Delete => self.deletes,
        }
    }
}

#[derive(Clone, Debug)]
struct Bucket {
    left: f64,
    size: f64,
    refill: f64,
    at: Timestamp,
    closed_until: Timestamp,
}

impl Bucket {
    fn fill(&mut self, now: Timestamp) {
        let passed = now.duration_since(self.at).as_secs_f64().max(0.0);
        self.left = (self.left + passed * self.refill).min(self.size);
        self.at = self.at.max(now);
    }

    /// Takes one, or says how long until there is one.
    fn take(&mut self, now: Timestamp) -> Result<(), Duration> {
        if let Ok(closed) = Duration::try_from(self.closed_until.duration_since(now))
            && !closed.is_zero()
        {
            return Err(closed);
        }
        self.fill(now);
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64(((1.0 - self.left) / self.refill.max(0.01)).max(0.001)))
    }

    fn learn(&mut self, remaining: f64) {
        self.left = self.left.min(remaining);
    }

    fn close(&mut self, now: Timestamp, wait: Duration) {
        self.left = 0.0;
        self.at = now;
        let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::ZERO);
        self.closed_until = self.closed_until.max(now.checked_add(wait).unwrap_or(now));
    }
}

/// Buckets by subscription; the empty one is the tenant's.
#[derive(Clone, Default)]
pub struct Budgets {
    budget: Budget,
    buckets: Arc<Mutex<HashMap<(String, Class), Bucket>>>,
}

impl Budgets {
    pub fn new(budget: Budget) -> Budgets {
        Budgets { budget, buckets: Arc::default() }
    }

    fn with<T>(
        &self,
        subscription: &str,
        class: Class,
        now: Timestamp,
        f: impl FnOnce(&mut Bucket) -> T,
    ) -> T {
        let mut all = self.buckets.lock();
        let (size, refill) = self.budget.of(class);
        let fresh = || Bucket { left: size, size, refill, at: now, closed_until: now };
        f(all.entry((subscription.to_ascii_lowercase(), class)).or_insert_with(fresh))
    }

    /// Takes one call out of the budget, or says how long to wait.
    pub fn take(&self, subscription: &str, class: Class, now: Timestamp) -> Result<(), Duration> {
        self.with(subscription, class, now, |b| b.take(now))
    }

    /// Corrects the copy by what an answer says is left.
    pub fn learn(&self, subscription: &str, class: Class, headers: &HeaderMap, now: Timestamp) {
        let end = format!("-{}", class.word());
        let left = headers
            .iter()
            .filter(|(k, _)| {
                let k = k.as_str();
                k.starts_with("x-ms-ratelimit-remaining-")
                    && (k.ends_with(&end) || k.ends_with("-subscription-resource-requests"))
            })
            .filter_map(|(_, v)| v.to_str().ok()?.trim().parse::<f64>().ok())
            .filter(|n| *n >= 0.0)
            .reduce(f64::min);
        if let Some(left) = left {
            self.with(subscription, class, now, |b| b.learn(left));
        }
    }

    /// A call was refused for coming too often.
    pub fn refused(&self, subscription: &str, class: Class, wait: Duration, now: Timestamp) {
        self.with(subscription, class, now, |b| b.close(now, wait));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn t(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_700_000_000_000 + ms).unwrap()
    }

    #[test]
    fn learns_and_closes() {
        let b = Budgets::default();
        let take = |at: i64| b.take("S", Class::Write, t(at));
        assert_eq!(take(0), Ok(()));
        let headers: HeaderMap = [
            ("x-ms-ratelimit-remaining-subscription-writes", "1"),
            ("x-ms-ratelimit-remaining-subscription-global-reads", "0"),
        ]
        .into_iter()
        .map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap()))
        .collect();
        b.learn("s", Class::Write, &headers, t(0));
        assert_eq!(take(0), Ok(()));
        assert_eq!(take(0), Err(Duration::from_millis(100)), "one each tenth of a second");
        assert_eq!(take(100), Ok(()));
        b.refused("s", Class::Write, Duration::from_secs(7), t(100));
        assert_eq!(take(1100), Err(Duration::from_secs(6)));
        assert_eq!(take(7200), Ok(()));
        assert_eq!(b.take("s", Class::Read, t(1100)), Ok(()), "classes do not share");
        assert_eq!(b.take("other", Class::Write, t(1100)), Ok(()), "nor subscriptions");
    }

    proptest! {
        /// Never more than the size at once plus the refill, whatever the order of calls.
        #[test]
        fn never_exceeds_the_budget(steps in proptest::collection::vec(0_i64..50, 1..400)) {
            let b = Budgets::new(Budget { reads: (5.0, 10.0), ..Budget::default() });
            let (mut now, mut took) = (0, 0_i64);
            for s in steps {
                now += s;
                if b.take("s", Class::Read, t(now)).is_ok() { took += 1; }
            }
            prop_assert!(took <= 5 + now / 100 + 1);
        }
    }
}
