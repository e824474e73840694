//! Sets have no equal elements; map lists no equal keys.

use super::compiled::Compiled;
use super::correlate::{children, key_value};
use super::path::Path;
use ek_meta::{FieldError, ListType, Schema};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashSet;

pub(super) fn check(
    c: &Compiled,
    s: &Schema,
    new: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    out: &mut Vec<FieldError>,
) {
    if !c.lists_below || old == Some(new) {
        return;
    }
    if let Value::Array(items) = new {
        match s.list_type {
            ListType::Set => duplicates(items, identity, Value::clone, path, out),
            ListType::Map => duplicates(items, |i| identity_of_keys(s, i), |i| keys(s, i), path, out),
            ListType::Unset | ListType::Atomic => {}
        }
    }
    children(c, s, new, old, path, |ch| check(ch.compiled, ch.schema, ch.new, ch.old, &ch.path, out));
}

/// The keys of an item as an object; absent ones without a default are left out.
fn keys(s: &Schema, item: &Value) -> Value {
    let mut out = Map::new();
    for k in &s.list_map_keys {
        if let Some(v) = key_value(s, item, k) {
            out.insert(k.to_string(), v.clone());
        }
    }
    Value::Object(out)
}

/// What makes an item equal to another. Most are strings, which need no copy; the flag keeps the string `1`
/// from being the number.
type Identity<'v> = (bool, Cow<'v, str>);

fn identity(v: &Value) -> Identity<'_> {
    match v {
        Value::String(s) => (true, Cow::Borrowed(s)),
        other => (false, Cow::Owned(canonical(other))),
    }
}

fn identity_of_keys<'v>(s: &'v Schema, item: &'v Value) -> Identity<'v> {
    match s.list_map_keys.as_slice() {
        [one] => key_value(s, item, one).map_or((false, Cow::Borrowed("")), identity),
        _ => (false, Cow::Owned(canonical(&keys(s, item)))),
    }
}

fn duplicates<'v>(
    items: &'v [Value],
    identity: impl Fn(&'v Value) -> Identity<'v>,
    shown: impl Fn(&Value) -> Value,
    path: &Path<'_>,
    out: &mut Vec<FieldError>,
) {
    let mut seen = HashSet::with_capacity(items.len());
    for (i, v) in items.iter().enumerate() {
        if !seen.insert(identity(v)) {
            out.push(FieldError::duplicate(&path.index(i).to_field(), shown(v)));
        }
    }
}

/// Text that is equal for equal values: keys sorted, whole numbers without a fraction.
fn canonical(v: &Value) -> String {
    match v {
        Value::Object(o) => {
            let mut fields: Vec<String> = o.iter().map(|(k, v)| format!("{k:?}:{}", canonical(v))).collect();
            fields.sort();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(a) => format!("[{}]", a.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Value::Number(n) if n.is_f64() => format!("{}", n.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}
