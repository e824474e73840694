//! Reading objects held as JSON, forgiving of shape, and the few edits every controller makes.

use ek_meta::selector::LabelSelector;
use ek_meta::time;
use ek_store::Entry;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Text at a JSON pointer; empty when there is none.
pub fn text<'a>(v: &'a Value, pointer: &str) -> &'a str {
    v.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub fn int(v: &Value, pointer: &str) -> Option<i64> {
    v.pointer(pointer).and_then(Value::as_i64)
}

pub fn flag(v: &Value, pointer: &str) -> bool {
    v.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

pub fn list<'a>(v: &'a Value, pointer: &str) -> &'a [Value] {
    v.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub fn members<'a>(v: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    v.pointer(pointer).and_then(Value::as_object).into_iter().flatten()
}

pub fn when(v: &Value, pointer: &str) -> Option<Timestamp> {
    v.pointer(pointer).and_then(Value::as_str).and_then(time::parse)
}

pub fn is_deleting(v: &Value) -> bool {
    v.pointer("/metadata/deletionTimestamp").is_some_and(|t| !t.is_null())
}

pub fn annotation<'a>(v: &'a Value, key: &str) -> Option<&'a str> {
    v.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

pub fn label<'a>(v: &'a Value, key: &str) -> Option<&'a str> {
    v.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// A member that is an object, made when it is none.
pub fn object_at<'a>(v: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    if !v.is_object() {
        *v = Value::Object(Map::new());
    }
    let Value::Object(m) = v else { unreachable!("just made an object") };
    let child = m.entry(key).or_insert_with(|| json!({}));
    if !child.is_object() {
        *child = json!({});
    }
    let Value::Object(m) = child else { unreachable!("just made an object") };
    m
}

/// Sets an annotation; says whether that changed anything.
pub fn annotate(obj: &mut Value, key: &str, value: &str) -> bool {
    if annotation(obj, key) == Some(value) {
        return false;
    }
    let meta = object_at(obj, "metadata");
    let all = meta.entry("annotations").or_insert_with(|| json!({}));
    if let Value::Object(m) = all {
        m.insert(key.to_owned(), value.into());
    }
    true
}

/// Removes a finalizer; says whether it was there.
pub fn remove_finalizer(obj: &mut Value, finalizer: &str) -> bool {
    let Some(Value::Array(all)) = obj.pointer_mut("/metadata/finalizers") else { return false };
    let before = all.len();
    all.retain(|f| f != finalizer);
    all.len() != before
}

pub fn has_finalizer(obj: &Value, finalizer: &str) -> bool {
    list(obj, "/metadata/finalizers").iter().any(|f| f == finalizer)
}

/// A selector that cannot be read selects nothing.
pub fn selector(v: Option<&Value>) -> Option<LabelSelector> {
    LabelSelector::from_json(v?).ok()
}

/// The older form: labels that must all be there. Without any it selects nothing.
pub fn simple_selector(v: Option<&Value>) -> Option<LabelSelector> {
    v.filter(|s| s.as_object().is_some_and(|m| !m.is_empty()))
        .and_then(|s| LabelSelector::from_json(&json!({"matchLabels": s})).ok())
}

/// A reference from a dependent to its owner.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OwnerRef {
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub uid: String,
    #[serde(default)]
    pub controller: Option<bool>,
}

/// Owners of a stored object. Only that part of the bytes is read: most changes concern most controllers not at
/// all, and whom they concern is said here.
pub fn owner_refs(entry: &Entry) -> Vec<OwnerRef> {
    // The quote before the name keeps managed fields ("f:ownerReferences") out; metadata comes before any template.
    const MARK: &[u8] = b"\"ownerReferences\":";
    if entry.meta.owners.is_empty() {
        return Vec::new();
    }
    let bytes = entry.bytes();
    let Some(at) = find(&bytes, MARK) else { return Vec::new() };
    let rest = &bytes[at + MARK.len()..];
    let mut stream = serde_json::Deserializer::from_slice(rest).into_iter::<Vec<OwnerRef>>();
    stream.next().and_then(Result::ok).unwrap_or_default()
}

/// The owner that manages the object, if any.
pub fn controller_of(entry: &Entry) -> Option<OwnerRef> {
    owner_refs(entry).into_iter().find(|o| o.controller == Some(true))
}

/// Where a key stands in stored bytes.
pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
}

/// Whether a stored pod has ended, without reading it.
pub fn has_ended(entry: &Entry) -> bool {
    const MARK: &[u8] = b"\"phase\":\"";
    let bytes = entry.bytes();
    find(&bytes, MARK).is_some_and(|at| {
        let rest = &bytes[at + MARK.len()..];
        rest.starts_with(b"Succeeded\"") || rest.starts_with(b"Failed\"")
    })
}

/// The node of a stored pod, if it has one, without reading the pod.
pub fn node_in(entry: &Entry) -> Option<String> {
    const MARK: &[u8] = b"\"nodeName\":\"";
    let bytes = entry.bytes();
    let at = find(&bytes, MARK)? + MARK.len();
    let rest = &bytes[at..];
    let len = rest.iter().position(|b| *b == b'"')?;
    std::str::from_utf8(&rest[..len]).ok().filter(|n| !n.is_empty()).map(str::to_owned)
}

pub fn has_node(entry: &Entry) -> bool {
    node_in(entry).is_some()
}

/// What a dependent says of the controller that made it.
pub fn controller_ref(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    })
}

pub fn condition<'a>(obj: &'a Value, kind: &str) -> Option<&'a Value> {
    list(obj, "/status/conditions").iter().find(|c| c["type"] == kind)
}

pub fn condition_is_true(obj: &Value, kind: &str) -> bool {
    condition(obj, kind).is_some_and(|c| c["status"] == "True")
}

/// Puts a condition in place. `lastTransitionTime` moves with the status only; nothing changes when nothing is new.
pub fn set_condition(conditions: &mut Vec<Value>, mut c: Value, now: &str) -> bool {
    match conditions.iter_mut().find(|o| o["type"] == c["type"]) {
        Some(old) => {
            let same = ["status", "reason", "message"].iter().all(|f| old[*f] == c[*f]);
            if same {
                return false;
            }
            let since =
                if old["status"] == c["status"] { old["lastTransitionTime"].clone() } else { json!(now) };
            c["lastTransitionTime"] = since;
            *old = c;
        }
        None => {
            c["lastTransitionTime"] = json!(now);
            conditions.push(c);
        }
    }
    true
}

/// A count, or a share of `total` as a percentage.
pub fn scaled(v: Option<&Value>, total: i64, round_up: bool) -> i64 {
    match v {
        Some(Value::Number(n)) => n.as_i64().unwrap_or(0),
        Some(Value::String(s)) => {
            let percent = s.trim_end_matches('%').parse::<i64>().unwrap_or(0);
            let whole = percent.saturating_mul(total);
            if round_up { (whole + 99).div_euclid(100) } else { whole.div_euclid(100) }
        }
        _ => 0,
    }
}

/// Writes a status whose zero counts are left out, as Go leaves them out, apart from those `always` written.
pub fn counts(always: &[(&str, i64)], others: &[(&str, i64)]) -> Map<String, Value> {
    let all = always.iter().chain(others.iter().filter(|(_, n)| *n != 0));
    all.map(|(k, n)| ((*k).to_owned(), json!(n))).collect()
}

/// Replaces the status if it differs.
pub fn put_status(obj: &mut Value, status: &Map<String, Value>) -> bool {
    if obj.get("status").and_then(Value::as_object) == Some(status) {
        return false;
    }
    obj["status"] = Value::Object(status.clone());
    true
}

/// How long from `now` until `then`, at least a moment.
pub fn until(now: Timestamp, then: Timestamp) -> SignedDuration {
    then.duration_since(now).max(SignedDuration::from_millis(1))
}

/// The sooner of two wishes.
pub fn sooner(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

pub fn seconds_after(t: Timestamp, seconds: i64) -> Timestamp {
    t.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// A short text that stands for a value: the same for the same content, whatever the order of members.
pub fn fingerprint(v: &Value, salt: i64) -> String {
    let mut text = String::new();
    canonical(v, &mut text);
    let mut hash = xxhash_rust::xxh3::xxh3_64_with_seed(text.as_bytes(), salt as u64);
    // No vowels and nothing that looks like another letter: these end up in names.
    const SAFE: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut out = String::new();
    for _ in 0..10 {
        out.push(SAFE[(hash % SAFE.len() as u64) as usize] as char);
        hash /= SAFE.len() as u64;
    }
    out
}

fn canonical(v: &Value, out: &mut String) {
    use std::fmt::Write;
    match v {
        Value::Object(m) => {
            let mut keys: Vec<&String> = m.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for k in keys {
                let _ = write!(out, "{k:?}:");
                canonical(&m[k], out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(a) => {
            out.push('[');
            for x in a {
                canonical(x, out);
                out.push(',');
            }
            out.push(']');
        }
        other => _ = write!(out, "{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_percentages() {
        assert_eq!(scaled(Some(&json!(3)), 10, true), 3);
        assert_eq!(scaled(Some(&json!("25%")), 10, true), 3);
        assert_eq!(scaled(Some(&json!("25%")), 10, false), 2);
        assert_eq!(scaled(None, 10, false), 0);
    }

    #[test]
    fn fingerprints_ignore_the_order_of_members() {
        let (a, b) = (json!({"a": 1, "b": [1, 2]}), json!({"b": [1, 2], "a": 1}));
        assert_eq!(fingerprint(&a, 0), fingerprint(&b, 0));
        assert_ne!(fingerprint(&a, 0), fingerprint(&a, 1));
        assert_ne!(fingerprint(&a, 0), fingerprint(&json!({"a": 1, "b": [2, 1]}), 0));
    }

    #[test]
    fn owners_are_found_without_reading_the_rest() {
        let doc = json!({"metadata": {"name": "x", "uid": "u", "annotations": {"n": "\"ownerReferences\":[1]"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "o", "controller": true}]}});
        let bytes = serde_json::to_vec(&doc).unwrap();
        let meta = ek_store::Meta::from_bytes(&bytes).unwrap();
        let entry = Entry::new(bytes.into(), 1, meta);
        let owner = controller_of(&entry).unwrap();
        assert_eq!((owner.kind.as_str(), owner.name.as_str(), owner.uid.as_str()), ("ReplicaSet", "r", "o"));
    }
}
