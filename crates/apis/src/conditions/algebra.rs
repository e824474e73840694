//! Pure functions on lists of conditions.
//!
//! Time comes in as an argument, and a transition time moves only when the status does, so that computing the same
//! state twice writes nothing.

use crate::common::{Condition, ConditionStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

impl Condition {
    /// A condition that starts now.
    pub fn new(
        type_: &str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status,
            reason: reason.to_owned(),
            message: message.into(),
            last_transition_time: Time(whole_seconds(now)),
            observed_generation: None,
        }
    }

    /// With the generation it was computed from.
    pub fn at_generation(self, generation: Option<i64>) -> Condition {
        Condition { observed_generation: generation, ..self }
    }
}

/// Kubernetes stores whole seconds; a finer time would differ from what comes back.
fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|c| c.status == ConditionStatus::True)
}

pub fn is_false(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|c| c.status == ConditionStatus::False)
}

/// Adds or replaces; the transition time stays if the status does. Says whether anything changed.
pub fn set(conditions: &mut Vec<Condition>, mut new: Condition) -> bool {
    match conditions.iter_mut().find(|c| c.type_ == new.type_) {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time.clone();
            }
            let changed = *old != new;
            *old = new;
            changed
        }
        None => {
            conditions.push(new);
            true
        }
    }
}

/// Takes a condition away; says whether it was there.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|c| c.type_ != type_);
    conditions.len() != before
}

/// The condition of another object under a name of ours; Unknown/StatusUnknown if the other has none.
pub fn mirror(
    source: &[Condition],
    from: &str,
    to: &str,
    generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    match find(source, from) {
        Some(c) => Condition { type_: to.to_owned(), observed_generation: generation, ..c.clone() },
        None => {
            let message = format!("{from} is not reported yet");
            Condition::new(to, ConditionStatus::Unknown, super::reason::STATUS_UNKNOWN, message, now)
                .at_generation(generation)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let mut list = Vec::new();
        let ready = |status, message: &str, t| Condition::new("Ready", status, "AsExpected", message, at(t));
        assert!(set(&mut list, ready(ConditionStatus::True, "a", 1)));
        assert!(!set(&mut list, ready(ConditionStatus::True, "a", 2)), "the same state writes nothing");
        assert!(set(&mut list, ready(ConditionStatus::True, "b", 3)));
        assert_eq!(list[0].last_transition_time, Time(at(1)));
        assert!(set(&mut list, ready(ConditionStatus::False, "b", 4)));
        assert_eq!((list.len(), &list[0].last_transition_time), (1, &Time(at(4))));
        assert!(
            is_false(&list, "Ready")
                && !is_true(&list, "Ready")
                && remove(&mut list, "Ready")
                && list.is_empty()
        );
    }

    #[test]
    fn a_missing_source_is_unknown() {
        let source = [Condition::new("EtcdAvailable", ConditionStatus::True, "QuorumAvailable", "", at(7))];
        let copied = mirror(&source, "EtcdAvailable", "EtcdAvailable", Some(3), at(9));
        assert_eq!(
            (copied.status, copied.last_transition_time, copied.observed_generation),
            (ConditionStatus::True, Time(at(7)), Some(3))
        );
        let missing = mirror(&source, "Degraded", "Degraded", None, at(9));
        assert_eq!((missing.status, missing.reason.as_str()), (ConditionStatus::Unknown, "StatusUnknown"));
    }
}
