//! Conditions as Cluster API's v1beta1 has them: with a severity, without a generation.
//!
//! A list belongs to several writers (the machine's own controller, the health check), so a condition is put into what
//! is there and all others are kept.

use jiff::Timestamp;
use reconcile::conditions::Status;
use serde_json::{Value, json};

pub const READY: &str = "Ready";

/// One condition before it is known when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub kind: &'static str,
    pub status: Status,
    /// `Error`, `Warning` or `Info`; nothing when all is well.
    pub severity: &'static str,
    pub reason: String,
    pub message: String,
}

/// The schema allows 10240; nobody reads that.
const LONGEST: usize = 2048;

impl Word {
    pub fn good(kind: &'static str) -> Word {
        Word { kind, status: Status::True, severity: "", reason: String::new(), message: String::new() }
    }

    pub fn bad(kind: &'static str, severity: &'static str, reason: &str, message: impl Into<String>) -> Word {
        let message: String = message.into();
        Word {
            kind,
            status: Status::False,
            severity,
            reason: reason.to_owned(),
            message: message.chars().take(LONGEST).collect(),
        }
    }

    pub fn is_good(&self) -> bool {
        self.status == Status::True
    }
}

/// The conditions of a status.
pub fn list(status: &Value) -> Vec<Value> {
    status["conditions"].as_array().cloned().unwrap_or_default()
}

pub fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|c| c["type"] == kind)
}

pub fn is(status: &Value, kind: &str, what: &str) -> bool {
    find(status, kind).is_some_and(|c| c["status"] == what)
}

/// Puts a condition down. It began `now`, unless it was so before.
pub fn set(list: &mut Vec<Value>, word: &Word, now: Timestamp) {
    let status = json!(word.status);
    let before = list.iter().find(|c| c["type"] == word.kind && c["status"] == status);
    let began = before.and_then(|c| c["lastTransitionTime"].as_str()).map(str::to_owned);
    let mut c = json!({"type": word.kind, "status": status,
        "lastTransitionTime": began.unwrap_or_else(|| crate::text::stamp(now))});
    for (field, text) in [("severity", word.severity), ("reason", &*word.reason), ("message", &*word.message)]
    {
        if !text.is_empty() {
            c[field] = json!(text);
        }
    }
    match list.iter_mut().find(|c| c["type"] == word.kind) {
        Some(old) => *old = c,
        None => list.push(c),
    }
    // Ready first, as Cluster API has it, then by name.
    list.sort_by(|a, b| {
        let key = |c: &Value| (c["type"] != READY, c["type"].as_str().unwrap_or_default().to_owned());
        key(a).cmp(&key(b))
    });
}

pub fn remove(list: &mut Vec<Value>, kind: &str) {
    list.retain(|c| c["type"] != kind);
}

/// `Ready`: the first of these that is not good, under its own reason.
pub fn summary(of: &[Word]) -> Word {
    let rank = |w: &&Word| match w.severity {
        "Error" => 0,
        "Warning" => 1,
        _ => 2,
    };
    match of.iter().filter(|w| !w.is_good()).min_by_key(rank) {
        Some(w) => Word { kind: READY, ..w.clone() },
        None => Word::good(READY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_kept_and_times_stand() {
        let (a, b) = (Timestamp::from_second(10).unwrap(), Timestamp::from_second(20).unwrap());
        let mut all = vec![json!({"type": "Foreign", "status": "True"})];
        set(&mut all, &Word::bad("Mine", "Info", "Waiting", "for x"), a);
        set(&mut all, &Word::bad("Mine", "Info", "Waiting", "for y"), b);
        assert_eq!(all.len(), 2);
        assert_eq!(all[1]["lastTransitionTime"], "1970-01-01T00:00:10Z");
        assert_eq!(all[1]["message"], "for y");
        set(&mut all, &Word::good("Mine"), b);
        assert_eq!(
            (all[1]["lastTransitionTime"].as_str(), all[1].get("reason")),
            (Some("1970-01-01T00:00:20Z"), None)
        );
        let worst =
            summary(&[Word::good("A"), Word::bad("B", "Info", "x", ""), Word::bad("C", "Error", "y", "z")]);
        assert_eq!((worst.kind, worst.reason.as_str()), (READY, "y"));
    }
}
