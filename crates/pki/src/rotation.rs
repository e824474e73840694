//! Replacing an authority while everything it signed stays in use.
//!
//! ```text
//! steady ──asked, or ending──> announced ──new one trusted everywhere──> promoted ──nothing old left──> steady
//!          make the successor             it signs, leaves are reissued             forget the old one
//! ```
//!
//! In `announced` both are trusted and the old one signs; in `promoted` both are trusted and the new one signs. So at
//! no moment does anybody hold a certificate that the other side does not trust, whatever the order in which programs
//! read their files again. Where a rotation stands is read off what is stored, never remembered: a crash between any
//! two steps goes on with the next.

use crate::authority::Authority;
use crate::pair::Bundle;
use jiff::{SignedDuration, Timestamp};

/// An authority as it is stored, with what is left of its predecessor or prepared of its successor.
#[derive(Clone, Debug)]
pub struct Stored {
    pub current: Authority,
    /// Made, trusted, not signing yet.
    pub next: Option<Authority>,
    /// Certificate of the one before, trusted while something it signed may be in use.
    pub previous: Option<String>,
    /// The wish it was last rotated for.
    pub honoured: Option<String>,
}

impl Stored {
    pub fn new(current: Authority) -> Stored {
        Stored { current, next: None, previous: None, honoured: None }
    }

    pub fn phase(&self) -> Phase {
        match (&self.next, &self.previous) {
            (Some(_), _) => Phase::Announced,
            (None, Some(_)) => Phase::Promoted,
            (None, None) => Phase::Steady,
        }
    }

    /// What relying parties must trust now.
    pub fn trusted(&self) -> Bundle {
        let mut bundle = Bundle::new().with(self.current.cert());
        if let Some(next) = &self.next {
            bundle.add(next.cert());
        }
        if let Some(previous) = &self.previous {
            bundle.add(previous);
        }
        bundle
    }
}

/// Where a rotation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Steady,
    Announced,
    Promoted,
}

/// What is known outside of the stored authority.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// A word that asks for a rotation; each word is honoured once.
    pub asked: Option<String>,
    /// Everything that trusts this authority runs with the bundle as it is now.
    pub bundle_in_use: bool,
    /// Everything that holds a certificate of this authority runs with one the current one signed.
    pub leaves_in_use: bool,
    /// Each step lasts this long at least: for those of whom nothing can be known.
    pub overlap: SignedDuration,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing until then.
    Rest { until: Timestamp },
    /// Make a successor and trust both.
    Announce { why: &'static str },
    /// Wait until the bundle is in use everywhere.
    AwaitTrust,
    /// Let the successor sign.
    Promote,
    /// Wait until all leaves are the new one's.
    AwaitLeaves,
    /// Forget the predecessor.
    Retire,
}

/// How long before its end an authority is replaced without being asked.
pub const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(24 * 365);

/// The next step of an authority; pure, so the same answer for the same state.
pub fn next(stored: &Stored, known: &Known, now: Timestamp) -> Step {
    match stored.phase() {
        Phase::Announced if known.bundle_in_use => Step::Promote,
        Phase::Announced => Step::AwaitTrust,
        Phase::Promoted if known.leaves_in_use => Step::Retire,
        Phase::Promoted => Step::AwaitLeaves,
        Phase::Steady => {
            if known.asked.is_some() && known.asked != stored.honoured {
                return Step::Announce { why: "it was asked for" };
            }
            let end = stored.current.facts().map_or(Timestamp::MIN, |f| f.not_after);
            let until = end.checked_sub(RENEW_BEFORE).unwrap_or(Timestamp::MIN);
            if now >= until { Step::Announce { why: "its life ends" } } else { Step::Rest { until } }
        }
    }
}

/// Carries a step out on the stored state; `make` makes a successor.
pub fn apply<E>(
    mut stored: Stored,
    step: &Step,
    asked: Option<&str>,
    make: impl FnOnce() -> Result<Authority, E>,
) -> Result<Stored, E> {
    match step {
        Step::Announce { .. } => {
            stored.next = Some(make()?);
            stored.honoured = asked.map(str::to_owned).or(stored.honoured);
        }
        Step::Promote => {
            if let Some(next) = stored.next.take() {
                stored.previous = Some(stored.current.cert().to_owned());
                stored.current = next;
            }
        }
        Step::Retire => stored.previous = None,
        Step::Rest { .. } | Step::AwaitTrust | Step::AwaitLeaves => {}
    }
    Ok(stored)
}
