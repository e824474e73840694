//! What differs between what is wanted and what is there.

use super::Action;
use arm::{ProvisioningState, ResourceId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// One field that is not as it should be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// A JSON pointer; elements of lists are named by their name where they have one.
    pub at: String,
    pub was: Value,
    pub wanted: Value,
}

fn short(v: &Value) -> String {
    let text = if v.is_null() { "nothing".to_owned() } else { v.to_string() };
    if text.chars().count() <= 80 {
        text
    } else {
        format!("{}…", text.chars().take(79).collect::<String>())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} → {}", self.at, short(&self.was), short(&self.wanted))
    }
}

/// What the service owns in an envelope, and in the embedded resources inside of one.
const OWNED: [&str; 5] = ["id", "name", "type", "etag", "systemData"];

struct Diff<'a> {
    id: &'a ResourceId,
    hidden: &'static [&'static str],
    /// Resources that are wanted in their own right; a parent's list may show them without naming them.
    wanted: &'a [&'a ResourceId],
    found: Vec<Difference>,
}

/// Keeps or changes: the body to write is what is there, overlaid with what is wanted.
pub fn action(
    id: &ResourceId,
    desired: &Value,
    actual: &Value,
    wanted: &[&ResourceId],
    hidden: &'static [&'static str],
) -> Action {
    let mut diff = Diff { id, hidden, wanted, found: Vec::new() };
    diff.envelope(desired, actual, "");
    match ProvisioningState::of(actual) {
        Some(ProvisioningState::Running(_)) if diff.found.is_empty() => return Action::Await,
        // A failed resource has the right fields and does not work: writing it again is how it is mended.
        Some(s @ (ProvisioningState::Failed | ProvisioningState::Canceled)) => {
            diff.differ("/properties/provisioningState", &s.as_str().into(), &"Succeeded".into());
        }
        _ if diff.found.is_empty() => return Action::Keep,
        _ => {}
    }
    let mut body = actual.clone();
    diff.overlay(&mut body, desired, "");
    if let Some(map) = body.as_object_mut() {
        for owned in OWNED {
            map.remove(owned);
        }
        if let Some(p) = map.get_mut("properties").and_then(Value::as_object_mut) {
            p.remove("provisioningState");
        }
    }
    let etag = actual.get("etag").and_then(Value::as_str).map(str::to_owned);
    Action::Change { body, differences: diff.found, etag }
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// The names of a list whose elements all have one.
fn named(list: &[Value]) -> Option<Vec<&str>> {
    list.iter().map(|e| e.get("name")?.as_str()).collect::<Option<Vec<_>>>().filter(|n| !n.is_empty())
}

fn by_name<'a>(list: &'a [Value], name: &str) -> Option<&'a Value> {
    list.iter().find(|e| e["name"].as_str().is_some_and(|n| n.eq_ignore_ascii_case(name)))
}

fn region(text: &str) -> String {
    text.replace(' ', "").to_lowercase()
}

/// Whether two strings mean the same.
fn same_text(key: &str, a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    match key {
        "location" => region(a) == region(b),
        // A built-in role has one id in each subscription, and one without.
        "roleDefinitionId" => {
            let last = |s: &str| s.rsplit('/').next().unwrap_or_default().to_lowercase();
            last(a) == last(b)
        }
        _ => matches!((ResourceId::parse(a), ResourceId::parse(b)), (Ok(a), Ok(b)) if a == b),
    }
}

fn same_scalar(key: &str, a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => same_text(key, a, b),
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

impl Diff<'_> {
    fn differ(&mut self, at: &str, was: &Value, wanted: &Value) {
        self.found.push(Difference { at: at.to_owned(), was: was.clone(), wanted: wanted.clone() });
    }

    /// A resource, or one embedded in another.
    fn envelope(&mut self, desired: &Value, actual: &Value, at: &str) {
        let Some(map) = desired.as_object() else { return self.differ(at, actual, desired) };
        for (k, v) in map.iter().filter(|(k, _)| !OWNED.contains(&k.as_str())) {
            self.field(k, v, actual, at);
        }
    }

    fn field(&mut self, key: &str, desired: &Value, actual: &Value, at: &str) {
        let at = format!("{at}/{}", escape(key));
        if key != "provisioningState" && !self.hidden.contains(&at.as_str()) {
            self.value(key, desired, actual.get(key).unwrap_or(&Value::Null), &at);
        }
    }

    fn value(&mut self, key: &str, desired: &Value, actual: &Value, at: &str) {
        match (desired, actual) {
            (Value::Object(d), Value::Object(_)) if d.contains_key("properties") => {
                self.envelope(desired, actual, at);
            }
            (Value::Object(d), Value::Object(_)) => {
                for (k, v) in d {
                    self.field(k, v, actual, at);
                }
            }
            // An empty list, an empty object and nothing are one: services show any of them.
            (Value::Object(d), Value::Null) if d.is_empty() => {}
            (Value::Array(d), Value::Null) if d.is_empty() => {}
            (Value::Array(d), Value::Array(a)) => self.list(key, d, a, at),
            (d, a) if same_scalar(key, d, a) => {}
            _ => self.differ(at, actual, desired),
        }
    }

    fn list(&mut self, key: &str, desired: &[Value], actual: &[Value], at: &str) {
        if let Some(names) = named(desired) {
            for (element, name) in desired.iter().zip(&names) {
                let at = format!("{at}/{}", escape(name));
                match by_name(actual, name) {
                    Some(there) => self.envelope(element, there, &at),
                    None => self.differ(&at, &Value::Null, element),
                }
            }
        } else if !desired.is_empty() && desired.iter().any(|e| e.is_object() && e.get("id").is_none()) {
            // Things without identity: their order is all there is.
            if desired.len() != actual.len() {
                return self.differ(at, &Value::from(actual), &Value::from(desired));
            }
            for (i, (d, a)) in desired.iter().zip(actual).enumerate() {
                self.value(key, d, a, &format!("{at}/{i}"));
            }
            return;
        } else if !desired.is_empty() {
            return self.set(key, desired, actual, at);
        }
        for there in actual {
            let name = there["name"].as_str().unwrap_or_default();
            if by_name(desired, name).is_none() && !self.own(key, name) {
                self.differ(&format!("{at}/{}", escape(name)), there, &Value::Null);
            }
        }
    }

    /// Scalars and references: the same ones, in any order.
    fn set(&mut self, key: &str, desired: &[Value], actual: &[Value], at: &str) {
        let id = |v: &Value| v.get("id").and_then(Value::as_str).map(str::to_owned);
        let same = |a: &Value, b: &Value| match (id(a), id(b)) {
            (Some(a), Some(b)) => same_text(key, &a, &b),
            _ => same_scalar(key, a, b),
        };
        let all = |xs: &[Value], ys: &[Value]| xs.iter().all(|x| ys.iter().any(|y| same(x, y)));
        if desired.len() != actual.len() || !all(desired, actual) || !all(actual, desired) {
            self.differ(at, &Value::from(actual), &Value::from(desired));
        }
    }

    /// Whether an element of a list is a resource that is wanted by itself.
    fn own(&self, list: &str, name: &str) -> bool {
        self.id.child(list, name).is_ok_and(|id| self.wanted.contains(&&id))
    }

    /// Writes what is wanted over what is there.
    fn overlay(&self, actual: &mut Value, desired: &Value, key: &str) {
        match (actual, desired) {
            (Value::Object(a), Value::Object(d)) => {
                for (k, v) in d {
                    self.overlay(a.entry(k.clone()).or_insert(Value::Null), v, k);
                }
            }
            (Value::Array(a), Value::Array(d)) if d.is_empty() || named(d).is_some() => {
                let mut merged: Vec<Value> = Vec::with_capacity(d.len());
                for element in d {
                    let name = element["name"].as_str().unwrap_or_default();
                    let mut there = by_name(a, name).cloned().unwrap_or_else(|| Value::Object(Map::new()));
                    self.overlay(&mut there, element, "");
                    merged.push(there);
                }
                let kept = |e: &&Value| {
                    let name = e["name"].as_str().unwrap_or_default();
                    by_name(d, name).is_none() && self.own(key, name)
                };
                merged.extend(a.iter().filter(kept).cloned());
                *a = merged;
            }
            (a, d) => *a = d.clone(),
        }
    }
}
