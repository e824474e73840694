//! Conditions are an algebra.
//!
//! A status is computed once, last, by a pure function from what was observed. Its parts are made from other
//! conditions by a few operations: [`Conditions::set`] (a finding of our own), [`Conditions::mirror`] (somebody else's, under
//! our name), [`aggregate`] (one condition of many objects) and [`summarise`] (many conditions of one object). None reads a
//! clock; all give the same result whatever the order of their input.
//!
//! Most conditions are good when `True`. Those that are good when `False` (`Degraded`, `Progressing`) have to be
//! listed, because nothing in their name or data tells.

mod combine;

pub use combine::{Polarity, aggregate, summarise};

use crate::wait::bounded;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// As it should be.
pub const AS_EXPECTED: &str = "AsExpected";
/// There is nothing to mirror or combine yet.
pub const NOT_REPORTED: &str = "NotReported";
/// More than one reason among those that count.
pub const SEVERAL: &str = "SeveralReasons";

/// The API allows 32768; nobody reads that.
pub(crate) const LONGEST_MESSAGE: usize = 2048;
const LONGEST_REASON: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Status {
    True,
    False,
    Unknown,
}

impl From<bool> for Status {
    fn from(b: bool) -> Status {
        if b { Status::True } else { Status::False }
    }
}

/// A condition before it is known when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub kind: String,
    pub status: Status,
    pub reason: String,
    pub message: String,
}

impl Finding {
    /// Reasons are CamelCase constants; what the API would refuse is left out of them.
    pub fn new(kind: &str, status: impl Into<Status>, reason: &str, message: impl Into<String>) -> Finding {
        Finding {
            kind: kind.to_owned(),
            status: status.into(),
            reason: valid_reason(reason),
            message: bounded(message.into(), LONGEST_MESSAGE),
        }
    }
}

/// `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`, never empty.
fn valid_reason(reason: &str) -> String {
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':');
    let mut out: String = reason
        .chars()
        .filter(allowed)
        .skip_while(|c| !c.is_ascii_alphabetic())
        .take(LONGEST_REASON)
        .collect();
    while out.ends_with([',', ':']) {
        out.pop();
    }
    if out.is_empty() { "Unknown".to_owned() } else { out }
}

/// `metav1.Condition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: Status,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(serialize_with = "write_time", deserialize_with = "read_time", default)]
    pub last_transition_time: Timestamp,
}

fn write_time<S: Serializer>(t: &Timestamp, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(&whole_seconds(*t))
}

fn read_time<'de, D: Deserializer<'de>>(d: D) -> Result<Timestamp, D::Error> {
    // Absent and null are what objects written by hand have.
    let text = Option::<String>::deserialize(d)?;
    text.filter(|t| !t.is_empty())
        .map_or(Ok(Timestamp::UNIX_EPOCH), |t| t.parse().map_err(serde::de::Error::custom))
}

/// The API keeps no fractions; a time that changes when written would look like a change.
fn whole_seconds(t: Timestamp) -> Timestamp {
    Timestamp::from_second(t.as_second()).unwrap_or(t)
}

/// The conditions of one object, in order of type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Conditions(Vec<Condition>);

impl<'de> Deserialize<'de> for Conditions {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Conditions, D::Error> {
        Ok(Option::<Vec<Condition>>::deserialize(d)?.unwrap_or_default().into_iter().collect())
    }
}

impl FromIterator<Condition> for Conditions {
    /// Of several of one type, the last counts.
    fn from_iter<I: IntoIterator<Item = Condition>>(items: I) -> Conditions {
        let mut out = Conditions::default();
        for c in items {
            out.put(c);
        }
        out
    }
}

impl Conditions {
    /// From `status.conditions` of an object. What is not a condition is left out.
    pub fn of(status: &Value) -> Conditions {
        let list = status["conditions"].as_array().into_iter().flatten();
        list.filter_map(|c| Condition::deserialize(c).ok()).collect()
    }

    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.find(kind).ok().map(|i| &self.0[i])
    }

    pub fn is_true(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(|c| c.status == Status::True)
    }

    pub fn is_false(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(|c| c.status == Status::False)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.iter()
    }

    fn find(&self, kind: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|c| c.kind.as_str().cmp(kind))
    }

    fn put(&mut self, c: Condition) {
        match self.find(&c.kind) {
            Ok(i) => self.0[i] = c,
            Err(i) => self.0.insert(i, c),
        }
    }

    /// Puts a finding down. It began `now`, unless the status was the same before. Says whether anything changed.
    pub fn set(&mut self, finding: Finding, generation: Option<i64>, now: Timestamp) -> bool {
        let before = self.get(&finding.kind);
        let began = before.filter(|c| c.status == finding.status).map_or(now, |c| c.last_transition_time);
        let after = Condition {
            kind: finding.kind,
            status: finding.status,
            reason: finding.reason,
            message: finding.message,
            observed_generation: generation,
            last_transition_time: whole_seconds(began),
        };
        let changed = before != Some(&after);
        if changed {
            self.put(after);
        }
        changed
    }

    /// Takes over another object's condition as `kind`, with the time it began there. One that is not reported is
    /// `Unknown` since `now`.
    pub fn mirror(
        &mut self,
        kind: &str,
        source: Option<&Condition>,
        generation: Option<i64>,
        now: Timestamp,
    ) -> bool {
        match source {
            Some(c) => {
                let finding = Finding::new(kind, c.status, &c.reason, c.message.clone());
                self.set(finding, generation, c.last_transition_time)
            }
            None => {
                let finding = Finding::new(kind, Status::Unknown, NOT_REPORTED, "not reported yet");
                self.set(finding, generation, now)
            }
        }
    }

    pub fn remove(&mut self, kind: &str) -> bool {
        self.find(kind).map(|i| self.0.remove(i)).is_ok()
    }

    /// For `status.conditions`.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
