//! When to ask again: pure decisions about answers and failures.

use http::{HeaderMap, Method};
use jiff::Timestamp;
use std::time::Duration;

/// Longest wait that a server may ask for and get.
const LONGEST: Duration = Duration::from_secs(600);

/// How long the server wants us to wait, in any of the ways Azure says it.
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim);
    for name in ["retry-after-ms", "x-ms-retry-after-ms"] {
        if let Some(ms) = text(name).and_then(|v| v.parse::<u64>().ok()) {
            return Some(Duration::from_millis(ms).min(LONGEST));
        }
    }
    let said = text("retry-after")?;
    if let Ok(seconds) = said.parse::<u64>() {
        return Some(Duration::from_secs(seconds).min(LONGEST));
    }
    let at = jiff::fmt::rfc2822::parse(said).ok()?.timestamp();
    Some(Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO).min(LONGEST))
}

/// What went wrong with one attempt, as far as repeating is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The server cannot have seen the request.
    NeverSent,
    /// It may have been seen; the answer did not arrive.
    Lost,
    /// There is no token yet, because a federated credential has not arrived everywhere.
    Unsettled,
    /// It was answered: status, error code, and how long the server wants us to wait.
    Answered { status: u16, code: String, said: Option<Duration> },
}

/// Codes that a right, a principal or an identity causes that has not arrived everywhere.
const UNSETTLED: [(u16, &str); 6] = [
    (403, "AuthorizationFailed"),
    (403, "LinkedAuthorizationFailed"),
    (400, "PrincipalNotFound"),
    (400, "FailedIdentityOperation"),
    // What vaults (with roles) and accounts say.
    (403, "ForbiddenByRbac"),
    (403, "AuthorizationPermissionMismatch"),
];
/// Between two looks whether it has.
const LOOK: Duration = Duration::from_secs(5);

/// Codes that promise that nothing was done and that later it may be.
const BUSY: [&str; 3] = ["AnotherOperationInProgress", "RetryableError", "ReferencedResourceNotProvisioned"];

#[derive(Clone, Debug)]
pub struct RetryPolicy {
    pub attempts: u32,
    pub base: Duration,
    pub longest: Duration,
    /// No retry starts after this much waiting in total.
    pub patience: Duration,
    /// How long refusals are waited out that follow from something just made not being known everywhere yet: rights
    /// (403), principals and identities (400). None by default, because mostly such a refusal is meant; a caller
    /// that has just given itself a right asks for it.
    pub settle: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            attempts: 7,
            base: Duration::from_millis(800),
            longest: Duration::from_secs(60),
            patience: Duration::from_secs(300),
            settle: Duration::ZERO,
        }
    }
}

/// Whether doing it twice is the same as doing it once.
pub fn repeatable(method: &Method) -> bool {
    method.is_idempotent()
}

impl RetryPolicy {
    /// For whoever asks again before long and has others waiting meanwhile: a second chance, then the answer there is.
    pub fn brief() -> RetryPolicy {
        let second = Duration::from_secs(1);
        RetryPolicy { attempts: 2, longest: second, patience: second, ..RetryPolicy::default() }
    }

    /// How long to wait before attempt `made + 1`, or `None` to give up. `chance` is uniform in 0..1.
    pub fn again(
        &self,
        made: u32,
        waited: Duration,
        repeatable: bool,
        trouble: &Trouble,
        chance: f64,
    ) -> Option<Duration> {
        let unsettled = match trouble {
            Trouble::Unsettled => true,
            Trouble::Answered { status, code, .. } => UNSETTLED.contains(&(*status, code.as_str())),
            _ => false,
        };
        if unsettled {
            // By the window alone: it is a matter of time, not of luck.
            let doubled = self.base.saturating_mul(1 << made.saturating_sub(1).min(16));
            let wait = doubled.min(LOOK).mul_f64(0.75 + 0.5 * chance);
            return (waited + wait <= self.settle).then_some(wait);
        }
        let worth = match trouble {
            Trouble::NeverSent => true,
            Trouble::Unsettled => false,
            Trouble::Lost => repeatable,
            Trouble::Answered { status, code, .. } => match status {
                // Refused before anything was done.
                408 | 429 | 503 => true,
                500 | 502 | 504 => repeatable,
                409 => BUSY.contains(&code.as_str()),
                _ => false,
            },
        };
        if !worth || made >= self.attempts {
            return None;
        }
        let said = match trouble {
            // "At once" is what a server says that does not mean to say anything.
            Trouble::Answered { said, .. } => said.filter(|s| !s.is_zero()),
            _ => None,
        };
        let wait = match said {
            // A little later than said, so that those who were told the same do not come back as one.
            Some(said) => said.mul_f64(1.0 + 0.1 * chance),
            None => {
                let doubled = self.base.saturating_mul(1 << made.saturating_sub(1).min(16));
                doubled.min(self.longest).mul_f64(0.75 + 0.5 * chance)
            }
        };
        (waited + wait <= self.patience).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        [(name.parse().unwrap(), value.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn waits_are_read_in_every_spelling() {
        let now: Timestamp = "2024-11-06T08:49:00Z".parse().unwrap();
        let of = |n, v| retry_after(&headers(n, v), now);
        assert_eq!(of("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(of("retry-after", "0"), Some(Duration::ZERO));
        assert_eq!(of("retry-after-ms", "15"), Some(Duration::from_millis(15)));
        assert_eq!(of("x-ms-retry-after-ms", "1500"), Some(Duration::from_millis(1500)));
        assert_eq!(of("retry-after", "Wed, 06 Nov 2024 08:49:37 GMT"), Some(Duration::from_secs(37)));
        assert_eq!(of("retry-after", "Wed, 06 Nov 2024 08:48:37 GMT"), Some(Duration::ZERO), "in the past");
        assert_eq!(of("retry-after", "99999999"), Some(LONGEST));
        assert_eq!(of("retry-after", "soon"), None);
        assert_eq!(of("other", "1"), None);
    }

    #[test]
    fn what_is_worth_repeating() {
        let policy = RetryPolicy::default();
        let answered = |status, code: &str| Trouble::Answered { status, code: code.to_owned(), said: None };
        let again = |repeatable, t: &Trouble| policy.again(1, Duration::ZERO, repeatable, t, 0.5).is_some();
        for status in [408, 429, 503] {
            assert!(again(false, &answered(status, "")), "{status}");
        }
        for status in [500, 502, 504] {
            assert!(again(true, &answered(status, "")) && !again(false, &answered(status, "")), "{status}");
        }
        for status in [400, 401, 403, 404, 409, 412, 501] {
            assert!(!again(true, &answered(status, "Conflict")), "{status}");
        }
        assert!(again(false, &answered(409, "AnotherOperationInProgress")));
        let at_once = Trouble::Answered { status: 429, code: String::new(), said: Some(Duration::ZERO) };
        assert!(policy.again(1, Duration::ZERO, true, &at_once, 0.0).unwrap() >= Duration::from_millis(600));
        let forbidden = answered(403, "AuthorizationFailed");
        assert!(!again(true, &forbidden), "meant, unless the caller says otherwise");
        let patient = RetryPolicy { settle: Duration::from_secs(60), ..RetryPolicy::default() };
        let again = |made, waited, t| patient.again(made, Duration::from_secs(waited), false, t, 0.5);
        assert!(again(30, 50, &forbidden).is_some(), "as often as fits");
        assert!(again(2, 59, &forbidden).is_none(), "but not for ever");
        assert!(again(1, 0, &answered(403, "Forbidden")).is_none());
        let again = |r, t: &Trouble| policy.again(1, Duration::ZERO, r, t, 0.5).is_some();
        assert!(
            again(false, &Trouble::NeverSent) && again(true, &Trouble::Lost) && !again(false, &Trouble::Lost)
        );
    }

    proptest! {
        #[test]
        fn bounded_whatever_is_said(made in 1_u32..20, waited in 0_u64..1000, said in proptest::option::of(0_u64..10_000), chance in 0.0_f64..1.0) {
            let policy = RetryPolicy::default();
            let t = Trouble::Answered { status: 429, code: String::new(), said: said.map(Duration::from_secs) };
            match policy.again(made, Duration::from_secs(waited), true, &t, chance) {
                Some(wait) => {
                    prop_assert!(made < policy.attempts);
                    prop_assert!(Duration::from_secs(waited) + wait <= policy.patience);
                    if let Some(s) = said { prop_assert!(wait >= Duration::from_secs(s), "never earlier than said"); }
                    else { prop_assert!(wait <= policy.longest.mul_f64(1.25)); }
                }
                None => prop_assert!(made >= policy.attempts || waited + said.unwrap_or(0) > 200),
            }
        }
    }
}
