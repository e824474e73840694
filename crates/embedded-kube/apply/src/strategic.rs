//! Strategic merge patch: a merge patch that knows lists.
//!
//! The schema says which lists merge and by which key; directives inside the patch say what a plain value
//! cannot (delete this item, replace that map, keep these keys only, in this order). Merge keys are those of
//! `x-kubernetes-patch-*`, which are older than, and not the same as, the keys of server-side apply.
//!
//! Where the schema is silent, maps merge and lists are replaced. A patch only ever states changes, so nulls
//! and directives never survive into the result.

mod list;
mod order;

use ek_meta::Node;
use serde_json::{Map, Value};
use std::fmt::Write as _;

pub(crate) const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum StrategicError {
    #[error("strategic merge patch must be an object")]
    NotAnObject,
    #[error("unknown patch type: {0} in map: {1}")]
    Directive(String, String),
    #[error("map: {0} does not contain declared merge key: {1}")]
    NoMergeKey(String, String),
    #[error("list with items of different types: {0}")]
    MixedList(String),
    #[error("lists of lists are not supported")]
    ListOfLists,
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirectiveInList,
    #[error("invalid patch format of primitive list")]
    PrimitiveList,
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    #[error("patch content doesn't match retainKeys list")]
    RetainKeysMismatch,
    #[error("invalid patch format of setElementOrder list")]
    ElementOrder,
    #[error("The order in patch list:\n{0}\n doesn't match {ELEMENT_ORDER} list:\n{1}\n")]
    OrderMismatch(String, String),
}

type Object = Map<String, Value>;

/// Applies `patch` to `original`.
pub fn merge(original: Value, patch: &Value, node: Option<Node<'_>>) -> Result<Value, StrategicError> {
    let Value::Object(patch) = patch else { return Err(StrategicError::NotAnObject) };
    let mut doc = match original {
        Value::Object(m) => m,
        _ => Map::new(),
    };
    merge_map(&mut doc, patch, node)?;
    Ok(Value::Object(doc))
}

fn merge_map(doc: &mut Object, patch: &Object, node: Option<Node<'_>>) -> Result<(), StrategicError> {
    match patch.get(DIRECTIVE) {
        None => {}
        Some(Value::String(s)) if s == "merge" => {}
        Some(Value::String(s)) if s == "delete" => {
            doc.clear();
            return Ok(());
        }
        Some(Value::String(s)) if s == "replace" => {
            *doc = clean_map(patch);
            return Ok(());
        }
        Some(other) => return Err(StrategicError::Directive(go(other), go_map(patch))),
    }
    retain_keys(doc, patch)?;
    for (key, value) in patch {
        if key == DIRECTIVE || key == RETAIN_KEYS {
            continue;
        }
        if let Some(list) = key.strip_prefix(DELETE_PRIMITIVES) {
            list::delete_primitives(doc, list, value)?;
        } else if key.strip_prefix(ELEMENT_ORDER).is_none() {
            merge_field(doc, key, value, patch, node)?;
        }
    }
    // Orders for lists the patch says nothing else about.
    for (key, order) in patch {
        if let Some(name) = key.strip_prefix(ELEMENT_ORDER) {
            let Value::Array(order) = order else { return Err(StrategicError::ElementOrder) };
            if let (false, Some(Value::Array(items))) = (patch.contains_key(name), doc.get_mut(name)) {
                let merge_key = list::Strategy::of(node.and_then(|n| n.field(name))).key;
                order::sort(items, None, order, merge_key)?;
            }
        }
    }
    Ok(())
}

fn merge_field(
    doc: &mut Object,
    key: &str,
    value: &Value,
    patch: &Object,
    node: Option<Node<'_>>,
) -> Result<(), StrategicError> {
    let field = node.and_then(|n| n.field(key));
    match (doc.get_mut(key), value) {
        (_, Value::Null) => {
            doc.shift_remove(key);
        }
        (Some(Value::Object(inside)), Value::Object(p)) => merge_map(inside, p, field)?,
        (Some(Value::Array(inside)), Value::Array(p)) => {
            let strategy = list::Strategy::of(field);
            if strategy.merge {
                let order = match patch.get(format!("{ELEMENT_ORDER}{key}").as_str()) {
                    None => None,
                    Some(Value::Array(order)) => Some(order.as_slice()),
                    Some(_) => return Err(StrategicError::ElementOrder),
                };
                list::merge(inside, p, order, &strategy, field)?;
            } else {
                *inside = clean_items(p);
            }
        }
        (_, fresh) => {
            doc.insert(key.to_owned(), clean(fresh));
        }
    }
    Ok(())
}

/// `$retainKeys`: what it does not list goes; what the patch sets must be listed.
fn retain_keys(doc: &mut Object, patch: &Object) -> Result<(), StrategicError> {
    let Some(keys) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = keys else { return Err(StrategicError::RetainKeys) };
    let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
    let sets = |k: &str, v: &Value| !v.is_null() && k != RETAIN_KEYS && k != DIRECTIVE && !is_parallel(k);
    if patch.iter().any(|(k, v)| sets(k, v) && !keys.contains(&k.as_str())) {
        return Err(StrategicError::RetainKeysMismatch);
    }
    doc.retain(|k, _| keys.contains(&k.as_str()));
    Ok(())
}

fn is_parallel(key: &str) -> bool {
    key.starts_with(DELETE_PRIMITIVES) || key.starts_with(ELEMENT_ORDER)
}

/// A value of the patch as it enters the document: without nulls and directives.
fn clean(v: &Value) -> Value {
    match v {
        Value::Object(m) => Value::Object(clean_map(m)),
        Value::Array(a) => Value::Array(clean_items(a)),
        other => other.clone(),
    }
}

fn clean_map(m: &Object) -> Object {
    // A map that asks to be deleted and was never there leaves nothing but itself.
    if m.get(DIRECTIVE).is_some_and(|d| d == "delete") {
        return Map::new();
    }
    let plain = |k: &str| k != DIRECTIVE && k != RETAIN_KEYS && !is_parallel(k);
    m.iter().filter(|(k, v)| plain(k) && !v.is_null()).map(|(k, v)| (k.clone(), clean(v))).collect()
}

fn clean_items(items: &[Value]) -> Vec<Value> {
    let is_order = |v: &Value| {
        v.get(DIRECTIVE)
            .is_some_and(|d| d == "delete" || (d == "replace" && v.as_object().is_some_and(|m| m.len() == 1)))
    };
    items.iter().filter(|v| !is_order(v)).map(clean).collect()
}

/// A value as Go's `%v` prints it: that is how these errors have always quoted values.
pub(crate) fn go(v: &Value) -> String {
    match v {
        Value::Null => "<nil>".to_owned(),
        Value::String(s) => s.clone(),
        Value::Array(a) => format!("[{}]", a.iter().map(go).collect::<Vec<_>>().join(" ")),
        Value::Object(m) => go_map(m),
        other => other.to_string(),
    }
}

/// A value as Go prints maps and slices.
pub fn go_format(v: &Value) -> String {
    go(v)
}

fn go_map(m: &Object) -> String {
    let mut keys: Vec<_> = m.iter().collect();
    keys.sort_unstable_by(|a, b| a.0.cmp(b.0));
    let mut out = String::from("map[");
    for (i, (k, v)) in keys.into_iter().enumerate() {
        let space = if i == 0 { "" } else { " " };
        // Writing to a String cannot fail.
        let _ = write!(out, "{space}{k}:{}", go(v));
    }
    out.push(']');
    out
}
