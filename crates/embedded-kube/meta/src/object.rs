//! Reading and shaping objects held as JSON values.

use serde_json::{Map, Value};

pub type Object = Map<String, Value>;

/// Follows object keys; no arrays.
pub fn at<'a>(v: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(v, |v, k| v.get(*k))
}

pub fn str_at<'a>(v: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(v, path).and_then(Value::as_str)
}

/// The strings of a list; anything else is none, and so is any other item.
pub fn strings(v: &Value) -> Vec<String> {
    v.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

pub fn name(v: &Value) -> &str {
    str_at(v, &["metadata", "name"]).unwrap_or_default()
}

pub fn namespace(v: &Value) -> &str {
    str_at(v, &["metadata", "namespace"]).unwrap_or_default()
}

pub fn uid(v: &Value) -> &str {
    str_at(v, &["metadata", "uid"]).unwrap_or_default()
}

pub fn resource_version(v: &Value) -> &str {
    str_at(v, &["metadata", "resourceVersion"]).unwrap_or_default()
}

/// `metadata`, created when absent. A non-object value is replaced: callers validate shape before.
pub fn metadata_mut(v: &mut Value) -> &mut Object {
    let root = match v {
        Value::Object(m) => m,
        other => {
            *other = Value::Object(Map::new());
            match other {
                Value::Object(m) => m,
                _ => unreachable!("just assigned an object"),
            }
        }
    };
    let meta = root.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !meta.is_object() {
        *meta = Value::Object(Map::new());
    }
    match meta {
        Value::Object(m) => m,
        _ => unreachable!("just assigned an object"),
    }
}

/// Nesting depth, bounded: stops counting beyond `limit`.
pub fn deeper_than(v: &Value, limit: usize) -> bool {
    match v {
        Value::Array(a) => limit == 0 || a.iter().any(|x| deeper_than(x, limit - 1)),
        Value::Object(m) => limit == 0 || m.values().any(|x| deeper_than(x, limit - 1)),
        _ => false,
    }
}
