//! What Go makes of a document by reading and writing it.
//!
//! A typed server reads JSON into structs and writes the structs: fields that are never absent appear with their
//! zero value (`source: {}`, `rules: null`), and zeros of the others disappear (`paused: false`). Clients compare
//! documents, and field ownership is computed against the empty document of a kind, so both are reproduced here.

use crate::table::{Kind, Presence, Shape, Special, Table};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

struct Field {
    name: &'static str,
    kind: Kind,
    shape: Shape,
    presence: Presence,
}

/// The fields of a message with those of inlined messages, by name; and which of them are never absent.
struct Struct {
    fields: Vec<Field>,
    always: Vec<usize>,
}

static STRUCTS: LazyLock<Vec<Struct>> = LazyLock::new(|| {
    let table = Table::get();
    (0..table.len())
        .map(|i| {
            let mut fields = Vec::new();
            flatten(table, i, &mut fields);
            fields.sort_by_key(|f| f.name);
            let shown = |f: &Field| match (f.presence, f.kind, f.shape) {
                (Presence::Always | Presence::OrNull, _, _) => true,
                // Go never omits a struct, whatever its tag says.
                (Presence::DropZero, Kind::Message(_), Shape::One) => true,
                _ => false,
            };
            let always = fields.iter().enumerate().filter(|(_, f)| shown(f)).map(|(i, _)| i).collect();
            Struct { fields, always }
        })
        .collect()
});

fn flatten(table: &'static Table, message: u16, out: &mut Vec<Field>) {
    for f in &table.message(message).fields {
        match f.kind {
            Kind::Message(inner) if f.name.is_empty() => flatten(table, inner, out),
            _ => out.push(Field { name: f.name, kind: f.kind, shape: f.shape, presence: f.presence }),
        }
    }
}

/// Gives a built-in object the fields Go always writes, and takes those it never does. Unknown kinds stay.
pub fn normalize(api_version: &str, kind: &str, obj: &mut Value) {
    if let (Some(i), Value::Object(m)) = (Table::get().by_kind(api_version, kind), obj) {
        walk(i, m);
    }
}

/// The document of a new, empty object of a kind, but for its `apiVersion` and `kind`.
pub fn empty(api_version: &str, kind: &str) -> Value {
    let mut m = Map::new();
    if let Some(i) = Table::get().by_kind(api_version, kind) {
        walk(i, &mut m);
    }
    Value::Object(m)
}

fn walk(message: u16, m: &mut Map<String, Value>) {
    let Some(s) = STRUCTS.get(usize::from(message)) else { return };
    let mut vanish = false;
    for (k, v) in m.iter_mut() {
        let Ok(i) = s.fields.binary_search_by_key(&k.as_str(), |f| f.name) else { continue };
        let f = &s.fields[i];
        if let Kind::Message(inner) = f.kind {
            match (f.shape, &mut *v) {
                (Shape::One, Value::Object(m)) => walk(inner, m),
                (Shape::Repeated, Value::Array(a)) => {
                    a.iter_mut().filter_map(Value::as_object_mut).for_each(|m| walk(inner, m));
                }
                (Shape::Map, Value::Object(m)) => {
                    m.values_mut().filter_map(Value::as_object_mut).for_each(|m| walk(inner, m));
                }
                _ => {}
            }
        }
        if omitted(f, v) {
            *v = Value::Null;
            vanish = true;
        }
    }
    if vanish {
        m.retain(|k, v| {
            !v.is_null()
                || s.fields.binary_search_by_key(&k.as_str(), |f| f.name).is_ok_and(|i| s.always.contains(&i))
        });
    }
    for f in s.always.iter().map(|i| &s.fields[*i]) {
        if m.get(f.name).is_none_or(Value::is_null) {
            m.insert(f.name.to_owned(), zero(f));
        }
    }
}

/// Whether Go leaves a value out, or would have lost it in storage: empty lists and maps do not survive there.
fn omitted(f: &Field, v: &Value) -> bool {
    let empty = match v {
        Value::Null => return true,
        Value::Array(a) => a.is_empty(),
        Value::Object(m) => m.is_empty(),
        _ => false,
    };
    match (f.shape, f.presence) {
        (Shape::Repeated | Shape::Map, _) => empty,
        (Shape::One, Presence::DropZero) => match (f.kind, v) {
            (Kind::Text, Value::String(s)) => s.is_empty(),
            (Kind::Bool, v) => *v == Value::Bool(false),
            (Kind::Int32 | Kind::Int64, v) => v.as_i64() == Some(0),
            _ => false,
        },
        _ => false,
    }
}

fn zero(f: &Field) -> Value {
    match (f.shape, f.presence, f.kind) {
        (Shape::Repeated | Shape::Map, _, _) | (_, Presence::OrNull, _) => Value::Null,
        (_, _, Kind::Message(inner)) => {
            let mut m = Map::new();
            walk(inner, &mut m);
            Value::Object(m)
        }
        (_, _, Kind::Text) => json!(""),
        (_, _, Kind::Bool) => json!(false),
        (_, _, Kind::Int32 | Kind::Int64 | Kind::Double) => json!(0),
        (_, _, Kind::Special(Special::Quantity)) => json!("0"),
        (_, _, Kind::Special(Special::IntOrString)) => json!(0),
        (_, _, Kind::Bytes | Kind::Special(_)) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_object_is_what_go_prints() {
        let template = json!({"metadata": {}, "spec": {"containers": null}});
        assert_eq!(
            empty("apps/v1", "Deployment"),
            json!({"metadata": {}, "spec": {"selector": null, "template": template, "strategy": {}}, "status": {}})
        );
        assert_eq!(empty("example.com/v1", "Berth"), json!({}));
    }

    #[test]
    fn zeros_appear_where_go_has_no_absence_and_go_where_it_does() {
        let mut role = json!({"metadata": {"name": "r", "labels": {}}, "rules": []});
        normalize("rbac.authorization.k8s.io/v1", "Role", &mut role);
        assert_eq!(role, json!({"metadata": {"name": "r"}, "rules": null}));
        let mut d = json!({"spec": {"paused": false, "replicas": 0, "selector": {}}});
        normalize("apps/v1", "Deployment", &mut d);
        assert_eq!(d["spec"]["replicas"], 0);
        assert_eq!(d["spec"]["selector"], json!({}));
        assert!(d["spec"].get("paused").is_none());
        let once = d.clone();
        normalize("apps/v1", "Deployment", &mut d);
        assert_eq!(d, once);
    }
}
