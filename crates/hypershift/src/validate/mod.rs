//! What a cluster must be before anything of it is made. Pure.
//!
//! The definitions refuse what one object shows; here is what takes the objects it names, the release, the management
//! cluster or its neighbours. Every finding names the field and the way out; all that are found are told at once.

pub mod configuration;
pub mod inputs;
pub mod network;
pub mod release;

use apis::conditions::{hosted_cluster as condition, reason};
use reconcile::conditions::{Finding, Status};

/// What time alone brings about, or somebody's slip: a cluster that runs is told of it, and looked after all the same.
const BORNE: [&str; 2] = [reason::SECRET_NOT_FOUND, reason::CERTIFICATE_EXPIRED];

/// Something that must change, and where it is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub condition: &'static str,
    pub reason: &'static str,
    pub message: String,
}

impl Problem {
    pub fn configuration(message: impl Into<String>) -> Problem {
        Problem {
            condition: condition::VALID_CONFIGURATION,
            reason: reason::INVALID_CONFIGURATION,
            message: message.into(),
        }
    }

    /// Whether it keeps even a cluster that runs from being looked after.
    pub fn stops(&self) -> bool {
        !BORNE.contains(&self.reason)
    }
}

/// The finding of a condition: True when nobody has a problem with it, else all problems.
pub fn finding(kind: &str, problems: &[Problem], good: &str) -> Finding {
    let mine: Vec<&Problem> = problems.iter().filter(|p| p.condition == kind).collect();
    let Some(first) = mine.first() else {
        return Finding::new(kind, Status::True, reason::AS_EXPECTED, good);
    };
    let told: Vec<&str> = mine.iter().map(|p| p.message.as_str()).collect();
    Finding::new(kind, Status::False, first.reason, told.join("; "))
}
