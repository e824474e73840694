//! `x-kubernetes-list-type` and its keys.

use super::{flag, text};
use ek_meta::{FieldError, FieldPath};
use serde_json::{Map, Value};

const LIST_TYPE: &str = "x-kubernetes-list-type";
const KEYS: &str = "x-kubernetes-list-map-keys";

pub(super) fn check(m: &Map<String, Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let list_type = text(m, LIST_TYPE);
    let keys: Vec<&str> = m
        .get(KEYS)
        .and_then(Value::as_array)
        .map(|a| a.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    if !list_type.is_empty() {
        if !matches!(list_type, "atomic" | "set" | "map") {
            let at = path.child(LIST_TYPE);
            errors.push(FieldError::not_supported(&at, list_type, &["atomic", "map", "set"]));
        }
        if text(m, "type") != "array" {
            let detail = "must be array if x-kubernetes-list-type is specified";
            errors.push(FieldError::invalid(&path.child("type"), text(m, "type"), detail));
        }
    }
    if !keys.is_empty() && list_type != "map" {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        let at = path.child(LIST_TYPE);
        errors.push(match list_type {
            "" => FieldError::required(&at, detail),
            t => FieldError::invalid(&at, t, detail),
        });
    }
    let items = m.get("items").and_then(Value::as_object);
    match (list_type, items) {
        ("set", Some(items)) => set_items(items, &path.child("items"), errors),
        ("map", items) => map_items(&keys, items, path, errors),
        _ => {}
    }
}

/// Set elements are compared whole, so structures among them must be atomic.
fn set_items(items: &Map<String, Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if flag(items, "nullable") {
        let detail = "cannot be nullable when x-kubernetes-list-type is set";
        errors.push(FieldError::forbidden(&path.child("nullable"), detail));
    }
    let extension = match text(items, "type") {
        "object" => "x-kubernetes-map-type",
        "array" => "x-kubernetes-list-type",
        _ => return,
    };
    let unset_list = extension == LIST_TYPE && text(items, extension).is_empty();
    if text(items, extension) != "atomic" && !unset_list {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let shown = items.get(extension).cloned().unwrap_or_default();
        errors.push(FieldError::invalid(&path.child(extension), shown, detail));
    }
}

fn map_items(
    keys: &[&str],
    items: Option<&Map<String, Value>>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let at_keys = path.child(KEYS);
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&at_keys, detail));
    }
    if (1..keys.len()).any(|i| keys[..i].contains(&keys[i])) {
        errors.push(FieldError::invalid(&at_keys, keys.to_vec(), "must not contain duplicate entries"));
    }
    let at = path.child("items");
    let Some(items) = items else {
        errors.push(FieldError::required(&at, "must have a schema if x-kubernetes-list-type is map"));
        return;
    };
    if text(items, "type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(&at.child("type"), text(items, "type"), detail));
    }
    if flag(items, "nullable") {
        let detail = "cannot be nullable when x-kubernetes-list-type is map";
        errors.push(FieldError::forbidden(&at.child("nullable"), detail));
    }
    let required: Vec<&str> = items
        .get("required")
        .and_then(Value::as_array)
        .map(|a| a.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    for key in keys {
        let Some(p) = items.get("properties").and_then(|p| p.get(*key)).and_then(Value::as_object) else {
            let detail = "entries must all be names of item properties";
            errors.push(FieldError::invalid(&at_keys, keys.to_vec(), detail));
            continue;
        };
        let at = at.child("properties").key(key);
        if matches!(text(p, "type"), "object" | "array") {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errors.push(FieldError::invalid(&at.child("type"), text(p, "type"), detail));
        }
        if flag(p, "nullable") {
            let detail = "cannot be nullable when the property is in x-kubernetes-list-map-keys";
            errors.push(FieldError::forbidden(&at.child("nullable"), detail));
        }
        if !required.contains(key) && !p.contains_key("default") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(&at.child("default"), detail));
        }
    }
}
