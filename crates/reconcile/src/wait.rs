//! How long to wait, and what for.

use clock::SharedClock;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Waits that double, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    pub last: Duration,
}

impl Default for Backoff {
    /// What the operators we take the place of do: 1 to 10 seconds.
    fn default() -> Backoff {
        Backoff { first: Duration::from_secs(1), last: Duration::from_secs(10) }
    }
}

impl Backoff {
    /// After this many failures in a row.
    pub fn wait(&self, failures: u32) -> Duration {
        let doubled = 1_u32 << failures.saturating_sub(1).min(20);
        self.first.saturating_mul(doubled).min(self.last)
    }

    /// The same, up to a tenth less, depending on `who`: those who failed together do not return together.
    pub(crate) fn spread(&self, failures: u32, who: &str) -> Duration {
        let tenth = xxhash_rust::xxh3::xxh3_64_with_seed(who.as_bytes(), u64::from(failures)) % 100;
        self.wait(failures).mul_f64(1.0 - tenth as f64 / 1000.0)
    }
}

/// `wait` from `now`, as far as time goes.
pub(crate) fn after(now: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// Never, when there is nothing to wait for.
pub(crate) async fn until(clock: &SharedClock, due: Option<Timestamp>) {
    let Some(due) = due else { return std::future::pending().await };
    let wait = due.duration_since(clock.now()).max(SignedDuration::ZERO);
    tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
}

/// Something a reconcile waits for. Not an error: a watch or a timer will bring it back.
///
/// A list of these per key is what `zaffre explain` prints: what is waited for, since when, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// `Deployment ns/kube-apiserver to be available`.
    pub on: String,
    /// Kept by the runtime for as long as `on` is waited for.
    pub since: Timestamp,
    /// What a person can look at or do. May be empty.
    pub hint: String,
}

impl Waiting {
    /// No list is longer, no text either (in bytes): it is for people.
    pub(crate) const MOST: usize = 32;
    const LONGEST: usize = 512;

    pub fn new(on: impl Into<String>, hint: impl Into<String>, now: Timestamp) -> Waiting {
        Waiting {
            on: bounded(on.into(), Self::LONGEST),
            since: now,
            hint: bounded(hint.into(), Self::LONGEST),
        }
    }
}

/// The text, or its beginning.
pub(crate) fn bounded(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        let mut end = longest.saturating_sub('…'.len_utf8());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_last_and_spread() {
        let b = Backoff::default();
        let waits: Vec<u64> = [0, 1, 2, 3, 4, 5, 99].map(|n| b.wait(n).as_secs()).into();
        assert_eq!(waits, [1, 1, 2, 4, 8, 10, 10]);
        let spread: Vec<Duration> = (0..50).map(|i| b.spread(1, &format!("k{i}"))).collect();
        assert!(spread.iter().all(|w| *w <= b.first && *w >= b.first.mul_f64(0.9)));
        assert!(spread.iter().any(|w| *w != spread[0]));
    }

    #[test]
    fn texts_end_between_characters() {
        assert_eq!(bounded("ab".into(), 3), "ab");
        assert_eq!(bounded("äöüäöü".into(), 6), "ä…");
    }
}
