//! Many conditions into one: the worst counts, and says whose it is.

use super::{AS_EXPECTED, Condition, Conditions, Finding, LONGEST_MESSAGE, NOT_REPORTED, SEVERAL, Status};
use std::collections::BTreeSet;

/// Which conditions are good when `False`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Polarity<'a> {
    pub negative: &'a [&'a str],
}

/// Worse is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    Good,
    Unknown,
    Bad,
}

impl Polarity<'_> {
    fn is_negative(&self, kind: &str) -> bool {
        self.negative.contains(&kind)
    }

    pub(super) fn severity(&self, kind: &str, status: Status) -> Severity {
        match (status, self.is_negative(kind)) {
            (Status::Unknown, _) => Severity::Unknown,
            (Status::True, false) | (Status::False, true) => Severity::Good,
            (Status::False, false) | (Status::True, true) => Severity::Bad,
        }
    }

    fn status(&self, kind: &str, severity: Severity) -> Status {
        match severity {
            Severity::Unknown => Status::Unknown,
            Severity::Good => Status::from(!self.is_negative(kind)),
            Severity::Bad => Status::from(self.is_negative(kind)),
        }
    }
}

/// One condition of many objects: `kind`, from `of` of each child. A child that does not report it is unknown.
pub fn aggregate<'a>(
    kind: &str,
    of: &str,
    children: impl IntoIterator<Item = (&'a str, Option<&'a Condition>)>,
    polarity: Polarity<'_>,
) -> Finding {
    let parts = children.into_iter().map(|(name, c)| Part::new(name, of, c, polarity)).collect();
    combine(kind, parts, polarity)
}

/// Many conditions of one object: `kind`, from those listed. One that is missing is unknown.
pub fn summarise(kind: &str, of: &[&str], conditions: &Conditions, polarity: Polarity<'_>) -> Finding {
    let parts = of.iter().map(|t| Part::new(t, t, conditions.get(t), polarity)).collect();
    combine(kind, parts, polarity)
}

/// Ordered as it is told: the worst first, then by name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Part<'a> {
    severity: std::cmp::Reverse<Severity>,
    name: &'a str,
    reason: &'a str,
    message: &'a str,
}

impl<'a> Part<'a> {
    fn new(name: &'a str, of: &str, c: Option<&'a Condition>, polarity: Polarity<'_>) -> Part<'a> {
        let (status, reason, message) = match c {
            Some(c) => (c.status, &*c.reason, &*c.message),
            None => (Status::Unknown, NOT_REPORTED, "not reported yet"),
        };
        Part { severity: std::cmp::Reverse(polarity.severity(of, status)), name, reason, message }
    }
}

fn combine(kind: &str, mut parts: Vec<Part<'_>>, polarity: Polarity<'_>) -> Finding {
    parts.sort_unstable();
    let Some(worst) = parts.first().map(|p| p.severity.0) else {
        return Finding::new(kind, Status::Unknown, NOT_REPORTED, "nothing to report on yet");
    };
    let status = polarity.status(kind, worst);
    if worst == Severity::Good {
        return Finding::new(kind, status, AS_EXPECTED, "");
    }
    let reasons: BTreeSet<&str> = parts.iter().filter(|p| p.severity.0 == worst).map(|p| p.reason).collect();
    let reason = match reasons.first() {
        Some(only) if reasons.len() == 1 => only,
        _ => SEVERAL,
    };
    let troubled: Vec<&Part<'_>> = parts.iter().filter(|p| p.severity.0 != Severity::Good).collect();
    Finding::new(kind, status, reason, told(&troubled))
}

/// `a: message; b: message; and 3 more`.
fn told(parts: &[&Part<'_>]) -> String {
    const MORE: usize = 32;
    let mut out = String::new();
    for (i, part) in parts.iter().enumerate() {
        let message = if part.message.is_empty() { part.reason } else { part.message };
        let text = format!("{}: {message}", part.name);
        let separator = if out.is_empty() { "" } else { "; " };
        let last = i + 1 == parts.len();
        let room = LONGEST_MESSAGE - if last { 0 } else { MORE };
        // The first is always told; it is the worst, and is cut if need be.
        if i > 0 && out.len() + separator.len() + text.len() > room {
            out.push_str(&format!("; and {} more", parts.len() - i));
            break;
        }
        out.push_str(separator);
        out.push_str(&super::bounded(text, room));
    }
    out
}
