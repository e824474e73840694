//! Words that many tables share.

use crate::json::{list, str_of};
use ek_meta::object::{at, str_at};
use ek_meta::time;
use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) const NONE: &str = "<none>";
pub(super) const UNSET: &str = "<unset>";
pub(super) const UNKNOWN: &str = "<unknown>";

pub(super) fn name(obj: &Value) -> Value {
    json!(ek_meta::object::name(obj))
}

/// Time since a moment, given as text.
pub(super) fn since(t: Option<&Value>, now: Timestamp) -> String {
    match t.and_then(Value::as_str).and_then(time::parse) {
        Some(t) => time::human_duration(now.as_second().saturating_sub(t.as_second())),
        None => UNKNOWN.to_owned(),
    }
}

pub(super) fn age(obj: &Value, now: Timestamp) -> Value {
    json!(since(at(obj, &["metadata", "creationTimestamp"]), now))
}

/// A number that defaults to zero.
pub(super) fn count(obj: &Value, path: &[&str]) -> i64 {
    at(obj, path).and_then(Value::as_i64).unwrap_or_default()
}

pub(super) fn string(obj: &Value, path: &[&str]) -> Value {
    json!(str_at(obj, path).unwrap_or_default())
}

pub(super) fn string_or(obj: &Value, path: &[&str], other: &str) -> Value {
    json!(str_at(obj, path).filter(|s| !s.is_empty()).unwrap_or(other))
}

/// A value as it reads, strings without quotes.
pub(super) fn plain(v: &Value) -> String {
    v.as_str().map_or_else(|| v.to_string(), str::to_owned)
}

pub(super) fn join(items: &[Value], key: &str, sep: &str) -> String {
    items.iter().map(|i| str_of(i, key)).collect::<Vec<_>>().join(sep)
}

pub(super) fn join_strings(items: &[Value], sep: &str) -> String {
    items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(sep)
}

/// `a=b,c=d`, sorted.
pub(super) fn labels(v: Option<&Value>) -> String {
    let Some(Value::Object(m)) = v else { return NONE.to_owned() };
    if m.is_empty() {
        return NONE.to_owned();
    }
    let mut pairs: Vec<String> = m.iter().map(|(k, v)| format!("{k}={}", plain(v))).collect();
    pairs.sort_unstable();
    pairs.join(",")
}

/// A label selector in the notation of `-l`.
pub(super) fn selector(v: Option<&Value>) -> String {
    let mut terms: Vec<(String, String)> = Vec::new();
    if let Some(Value::Object(m)) = v.and_then(|v| v.get("matchLabels")) {
        terms.extend(m.iter().map(|(k, v)| (k.clone(), format!("{k}={}", plain(v)))));
    }
    for e in v.map_or(&[][..], |v| list(v, "matchExpressions")) {
        let key = str_of(e, "key");
        let mut values: Vec<&str> = list(e, "values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match str_of(e, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => "<error>".to_owned(),
        };
        terms.push((key.to_owned(), term));
    }
    if terms.is_empty() {
        return NONE.to_owned();
    }
    terms.sort();
    terms.into_iter().map(|(_, t)| t).collect::<Vec<_>>().join(",")
}

/// Names, images and selector of a template: what `-o wide` adds to workloads.
pub(super) fn containers(pod_spec: Option<&Value>) -> (Value, Value) {
    let c = pod_spec.map_or(&[][..], |s| list(s, "containers"));
    (json!(join(c, "name", ",")), json!(join(c, "image", ",")))
}

/// `status` of a condition, empty when there is none.
pub(super) fn condition<'a>(obj: &'a Value, ty: &str) -> &'a str {
    at(obj, &["status"])
        .map_or(&[][..], |s| list(s, "conditions"))
        .iter()
        .find(|c| str_of(c, "type") == ty)
        .map_or("", |c| str_of(c, "status"))
}

pub(super) fn deleting(obj: &Value) -> bool {
    at(obj, &["metadata", "deletionTimestamp"]).is_some_and(|d| !d.is_null())
}

/// At most three, then how many more.
pub(super) fn some_of(all: &[String], empty: &str) -> String {
    match all {
        [] => empty.to_owned(),
        [a, b, c, rest @ ..] if !rest.is_empty() => format!("{a},{b},{c} + {} more...", rest.len()),
        all => all.join(","),
    }
}
