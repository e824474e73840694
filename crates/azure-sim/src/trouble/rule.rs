//! Fault rules as data.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    #[error("this is not a fault rule, or a list of them")]
    Read(#[source] serde_json::Error),
    #[error("rule '{name}': {field} {why}")]
    Field { name: String, field: &'static str, why: String },
}

/// Whose requests `nth`, `every` and `times` count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Each {
    /// All that the rule fits, together.
    #[default]
    Rule,
    /// Those of each method and path by themselves.
    Id,
}

fn is_default<T: Default + PartialEq>(v: &T) -> bool {
    *v == T::default()
}

/// Which requests a rule meets: those that fit everything that is said. Texts are patterns, in which `*` stands for
/// anything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Match {
    /// `arm`, `login`, `graph`, `access`… or the name of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Such as `Microsoft.Network/virtualNetworks`; of a poll, `Microsoft.Network/locations/operations`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Name, object id or client id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The right that it needs, such as `Microsoft.Network/virtualNetworks/write`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// One of the `zones` in the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Only the nth such request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// Only every nth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// Only so many of them, between 0 and 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// At most so often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    #[serde(skip_serializing_if = "is_default")]
    pub each: Each,
}

/// An answer in the service's place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Answer {
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// A detail's code, where the real answer has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// A page in place of JSON.
    #[serde(default, skip_serializing_if = "is_default")]
    pub html: bool,
    /// Instead of what follows from code and message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Seconds of Azure's; said in the client's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// The service never sees the request.
    Before,
    /// It is done, and nobody hears of it.
    After,
}

/// The error that an operation ends with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Why {
    pub code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How old an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Stale {
    /// So many writes ago.
    Versions(usize),
    /// So many seconds ago.
    Seconds(u32),
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Then {
    Answer(Answer),
    /// 429, with a wait in seconds of Azure's and the code that the provider has for it.
    Throttle(u32),
    /// The connection breaks.
    Drop(When),
    /// Milliseconds of the world's before it is looked at.
    Delay(u64),
    /// Accepted; the operation fails at its end and leaves the resource `Failed`.
    FailLate(Why),
    /// Done in part: of a group that is deleted some resources stay; anything else is done, but answered with the
    /// error.
    Partial(Why),
    /// A read sees an earlier state.
    Stale(Stale),
    /// The token is refused from now on.
    ExpireToken,
    /// Tokens are signed with a new key; with `true`, what the old ones signed is refused.
    RotateKeys(bool),
}

impl Then {
    pub fn name(&self) -> &'static str {
        match self {
            Then::Answer(_) => "answer",
            Then::Throttle(_) => "throttle",
            Then::Drop(_) => "drop",
            Then::Delay(_) => "delay",
            Then::FailLate(_) => "failLate",
            Then::Partial(_) => "partial",
            Then::Stale(_) => "stale",
            Then::ExpireToken => "expireToken",
            Then::RotateKeys(_) => "rotateKeys",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// Made up if it is not given.
    #[serde(default)]
    pub name: String,
    #[serde(rename = "match", default)]
    pub on: Match,
    pub then: Then,
}

const MAX_TEXT: usize = 1_024;
const MAX_BODY: usize = 64 << 10;
const MAX_DELAY: u64 = 3_600_000;
const MAX_WAIT: u32 = 3_600;

impl Rule {
    pub fn new(name: &str, on: Match, then: Then) -> Rule {
        Rule { name: name.to_owned(), on, then }
    }

    /// Refuses what cannot be meant.
    pub fn check(&self) -> Result<(), RuleError> {
        let bad =
            |field, why: &str| Err(RuleError::Field { name: self.name.clone(), field, why: why.into() });
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if self.name.is_empty() || self.name.len() > 64 || !self.name.bytes().all(plain) {
            return bad("name", "is 1 to 64 letters, digits, '-', '_' or '.'");
        }
        let on = &self.on;
        for text in [&on.host, &on.method, &on.kind, &on.id, &on.principal, &on.action, &on.zone] {
            if text.as_ref().is_some_and(|t| t.is_empty() || t.len() > MAX_TEXT) {
                return bad("match", "has an empty or endless text: leave out what does not matter");
            }
        }
        if on.nth == Some(0) || on.every == Some(0) || on.times == Some(0) {
            return bad("match", "counts from 1: nth, every and times cannot be 0");
        }
        if on.nth.is_some() && on.every.is_some() {
            return bad("match", "has nth and every: choose one");
        }
        if on.probability.is_some_and(|p| !(p > 0.0 && p <= 1.0)) {
            return bad("match.probability", "is more than 0 and at most 1");
        }
        match &self.then {
            Then::Answer(a) => {
                if !(400..=599).contains(&a.status) {
                    return bad("then.answer.status", "is an error: 400 to 599");
                }
                if a.body.as_ref().is_some_and(|b| b.to_string().len() > MAX_BODY) {
                    return bad("then.answer.body", "is at most 64 KiB");
                }
                if a.retry_after.is_some_and(|s| s > MAX_WAIT) {
                    return bad("then.answer.retryAfter", "is at most 3600 seconds");
                }
                let good = |(k, v): (&String, &String)| {
                    k.parse::<http::HeaderName>().is_ok() && v.parse::<http::HeaderValue>().is_ok()
                };
                if a.headers.len() > 32 || !a.headers.iter().all(good) {
                    return bad("then.answer.headers", "has a name or a value that cannot be sent");
                }
            }
            Then::Throttle(s) if *s > MAX_WAIT => return bad("then.throttle", "is at most 3600 seconds"),
            Then::Delay(ms) if *ms > MAX_DELAY => return bad("then.delay", "is at most an hour: 3600000"),
            Then::FailLate(w) | Then::Partial(w) if w.code.is_empty() || w.code.len() > 128 => {
                return bad("then", "needs a code of at most 128 letters");
            }
            Then::Stale(Stale::Versions(n)) if *n == 0 || *n > 64 => {
                return bad("then.stale.versions", "is 1 to 64");
            }
            _ => {}
        }
        Ok(())
    }
}

/// One rule, a list, or `{"rules": […]}`.
pub fn read(text: &[u8]) -> Result<Vec<Rule>, RuleError> {
    let value: Value = serde_json::from_slice(text).map_err(RuleError::Read)?;
    let value = match value {
        Value::Object(mut m) if m.contains_key("rules") => m.remove("rules").unwrap_or_default(),
        other => other,
    };
    match value {
        list @ Value::Array(_) => serde_json::from_value(list).map_err(RuleError::Read),
        one => Ok(vec![serde_json::from_value(one).map_err(RuleError::Read)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(text: &str) -> Result<Rule, String> {
        let mut rules =
            read(text.as_bytes()).map_err(|e| format!("{e}: {:?}", std::error::Error::source(&e)))?;
        let rule = rules.remove(0);
        rule.check().map_err(|e| e.to_string())?;
        Ok(rule)
    }

    #[test]
    fn written_and_read_back() {
        for then in [
            r#""expireToken""#,
            r#"{"drop":"after"}"#,
            r#"{"throttle":7}"#,
            r#"{"stale":{"versions":1}}"#,
            r#"{"failLate":{"code":"AllocationFailed"}}"#,
            r#"{"answer":{"status":503,"html":true}}"#,
        ] {
            let rule = one(&format!(r#"{{"name":"a","match":{{"type":"x/y"}},"then":{then}}}"#)).unwrap();
            let again = serde_json::to_string(&rule).unwrap();
            assert_eq!(one(&again).unwrap(), rule);
            assert!(again.contains(then), "{again}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        let cases = [
            (r#"{"name":"a b","then":"expireToken"}"#, "name"),
            (r#"{"name":"a","then":{"answer":{"status":200}}}"#, "then.answer.status"),
            (r#"{"name":"a","match":{"nth":0},"then":"expireToken"}"#, "counts from 1"),
            (r#"{"name":"a","match":{"nth":1,"every":2},"then":"expireToken"}"#, "choose one"),
            (r#"{"name":"a","match":{"probability":2},"then":"expireToken"}"#, "probability"),
            (r#"{"name":"a","match":{"colour":"x"},"then":"expireToken"}"#, "colour"),
            (r#"{"name":"a","then":"explode"}"#, "explode"),
            (r#"{"name":"a","then":{"delay":99999999999}}"#, "hour"),
            (r#"{"name":"a","then":{"answer":{"status":500,"headers":{"a b":"c"}}}}"#, "headers"),
        ];
        for (text, says) in cases {
            let why = one(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
        assert!(read(b"nonsense").is_err());
    }

    proptest! {
        #[test]
        fn junk_is_refused_in_words(s in "\\PC{0,200}") {
            let _ = read(s.as_bytes());
        }
    }
}
