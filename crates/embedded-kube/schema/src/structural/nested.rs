//! Value validation inside `allOf`, `anyOf`, `oneOf` and `not`: it constrains, it does not shape.

use super::{check_pattern, flag};
use ek_meta::{FieldError, FieldPath};
use serde_json::{Map, Value};

/// Checks the combinations of one structural node. Every field they mention must be declared by it.
pub(super) fn check(m: &Map<String, Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    combinations(m, m, path, path, errors);
}

/// `m` is where the combinations stand, `shape` the structural node they are about.
fn combinations(
    m: &Map<String, Value>,
    shape: &Map<String, Value>,
    path: &FieldPath,
    shape_path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    for name in ["allOf", "anyOf", "oneOf"] {
        let Some(Value::Array(list)) = m.get(name) else { continue };
        for (i, v) in list.iter().enumerate() {
            if let Value::Object(v) = v {
                let at = path.child(name).index(i);
                value_only(v, Some(shape), &at, shape_path, errors);
            }
        }
    }
    if let Some(Value::Object(not)) = m.get("not") {
        value_only(not, Some(shape), &path.child("not"), shape_path, errors);
    }
}

fn value_only(
    m: &Map<String, Value>,
    shape: Option<&Map<String, Value>>,
    path: &FieldPath,
    shape_path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let Some(shape) = shape else {
        errors.push(FieldError::required(shape_path, format!("because it is defined in {path}")));
        return;
    };
    // The one place for a type: spelling out what int-or-string means.
    let spelled_out = flag(shape, "x-kubernetes-int-or-string")
        && matches!(m.get("type").and_then(Value::as_str), Some("integer" | "string"));
    for (key, how) in [
        ("type", "empty"),
        ("title", "empty"),
        ("description", "empty"),
        ("default", "undefined"),
        ("additionalProperties", "undefined"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
    ] {
        let set = match m.get(key) {
            None | Some(Value::Null) | Some(Value::Bool(false)) => false,
            Some(Value::String(s)) => !s.is_empty(),
            Some(_) => true,
        };
        if set && !(key == "type" && spelled_out) {
            errors.push(FieldError::forbidden(&path.child(key), format!("must be {how} to be structural")));
        }
    }
    check_pattern(m, path, errors);
    combinations(m, shape, path, shape_path, errors);
    if let Some(Value::Object(props)) = m.get("properties") {
        for (k, v) in props {
            let Value::Object(v) = v else { continue };
            let declared = shape.get("properties").and_then(|p| p.get(k)).and_then(Value::as_object);
            let at = path.child("properties").key(k);
            value_only(v, declared, &at, &shape_path.child("properties").key(k), errors);
        }
    }
    if let Some(Value::Object(items)) = m.get("items") {
        let declared = shape.get("items").and_then(Value::as_object);
        value_only(items, declared, &path.child("items"), &shape_path.child("items"), errors);
    }
}
