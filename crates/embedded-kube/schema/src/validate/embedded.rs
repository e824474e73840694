//! Embedded resources are objects of some kind: they must say which, and their metadata must be metadata.

use super::compiled::Compiled;
use super::correlate::children;
use super::path::Path;
use ek_meta::{FieldError, FieldPath, Schema, names};
use serde_json::{Map, Value};

pub(super) fn check(
    c: &Compiled,
    s: &Schema,
    new: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    out: &mut Vec<FieldError>,
) {
    if !c.embedded_below || old == Some(new) {
        return;
    }
    if s.embedded_resource
        && let Value::Object(o) = new
    {
        resource(o, &path.to_field(), out);
    }
    children(c, s, new, old, path, |ch| check(ch.compiled, ch.schema, ch.new, ch.old, &ch.path, out));
}

fn resource(o: &Map<String, Value>, path: &FieldPath, out: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let at = path.child(name);
        match o.get(name) {
            None => out.push(FieldError::required(&at, "")),
            Some(Value::String(s)) if s.is_empty() => {
                out.push(FieldError::required(&at, ""));
            }
            Some(Value::String(s)) if name == "apiVersion" => {
                if s.matches('/').count() > 1 {
                    let detail = format!("unexpected GroupVersion string: {s}");
                    out.push(FieldError::invalid(&at, s.as_str(), detail));
                }
            }
            Some(Value::String(s)) => {
                for msg in names::dns_1035_label(&s.to_lowercase()) {
                    let detail = format!("may have mixed case, but should otherwise match: {msg}");
                    out.push(FieldError::invalid(&at, s.as_str(), detail));
                }
            }
            Some(other) => out.push(FieldError::type_invalid(&at, other.clone(), "must be a string")),
        }
    }
    match o.get("metadata") {
        None => {}
        Some(Value::Object(m)) => metadata(m, &path.child("metadata"), out),
        Some(other) => {
            out.push(FieldError::type_invalid(&path.child("metadata"), other.clone(), "must be an object"));
        }
    }
}

fn metadata(m: &Map<String, Value>, path: &FieldPath, out: &mut Vec<FieldError>) {
    for name in ["name", "generateName", "namespace"] {
        match m.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::String(s)) if s.is_empty() => {}
            Some(Value::String(s)) => {
                let wrong = match name {
                    "name" => names::path_segment(s),
                    "namespace" => names::dns_label(s),
                    _ => Vec::new(),
                };
                out.extend(wrong.into_iter().map(|w| FieldError::invalid(&path.child(name), s.as_str(), w)));
            }
            Some(v) => {
                out.push(FieldError::type_invalid(&path.child(name), v.clone(), "must be a string"));
            }
        }
    }
    for (name, is_label) in [("labels", true), ("annotations", false)] {
        let at = path.child(name);
        match m.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => {
                for (k, v) in map {
                    let key = if is_label { k.clone() } else { k.to_lowercase() };
                    out.extend(
                        names::qualified_name(&key)
                            .into_iter()
                            .map(|w| FieldError::invalid(&at, k.as_str(), w)),
                    );
                    match v {
                        Value::String(s) if is_label => {
                            let wrong = names::label_value(s).into_iter();
                            out.extend(wrong.map(|w| FieldError::invalid(&at, s.as_str(), w)));
                        }
                        Value::String(_) => {}
                        v => out.push(FieldError::type_invalid(&at.key(k), v.clone(), "must be a string")),
                    }
                }
            }
            Some(v) => out.push(FieldError::type_invalid(&at, v.clone(), "must be an object")),
        }
    }
}
