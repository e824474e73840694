//! The life of a pod on a node: what its status should say, computed from what it says, what really runs, and
//! the time. Nothing in here does anything; see [`plan::plan`].

pub(crate) mod conditions;
pub(crate) mod container;
pub(crate) mod plan;
mod steps;

use jiff::Timestamp;
use std::collections::HashMap;

/// What is known of a container that a program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// It could not be started, and why.
    Blocked {
        reason: String,
        message: String,
    },
    Running {
        id: String,
        since: Timestamp,
        started: bool,
        ready: bool,
    },
    Exited {
        id: String,
        since: Timestamp,
        at: Timestamp,
        code: i64,
        reason: String,
        message: String,
    },
}

/// What is known of the newest run of a container, and how the one before it ended.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// How often it was restarted before.
    pub round: i64,
    pub fact: Fact,
    pub before: Option<Fact>,
}

impl Known {
    /// What is known of one run.
    pub(crate) fn at(&self, round: i64) -> Option<&Fact> {
        if round == self.round {
            Some(&self.fact)
        } else {
            self.before.as_ref().filter(|_| round + 1 == self.round)
        }
    }
}

/// By container name.
pub(crate) type Facts = HashMap<String, Known>;

/// What a pod is waiting for; kept between runs, and lost without harm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// Per container (or the pod, under the empty name): the stage, the round, when it ends (`None`: never).
    pub timers: HashMap<String, (String, i64, Option<Timestamp>)>,
    /// Transitions still allowed in manual mode.
    pub steps: u32,
    /// The end of its containers was announced.
    pub killing: bool,
}

impl Memory {
    pub(crate) fn is_idle(&self) -> bool {
        self.timers.is_empty() && self.steps == 0 && !self.killing
    }
}

/// An event to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
    /// The container it is about.
    pub field_path: Option<String>,
}
