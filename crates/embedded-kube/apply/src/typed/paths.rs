//! Which paths a value sets.

use super::check::check;
use super::shape::{Keys, Shape, Type};
use crate::fieldset::{Element, Entry, Set};
use ek_meta::Node;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The paths `value` sets. Leaves are members; so are items of associative lists and sets, entries of maps
/// whose keys the schema does not declare, and nulls and empty containers. Other containers the schema
/// declares are not: who applies `spec.replicas` says nothing about `spec`.
pub fn to_fieldset(value: &Value, node: Option<Node<'_>>) -> Set {
    below(value, Type::root(node)).1
}

/// The paths of an applied configuration, or what is wrong with it. One walk: the reasons are only worked
/// out once something is known to be wrong.
pub(crate) fn read(value: &Value, node: Option<Node<'_>>) -> Result<Set, Vec<String>> {
    let mut suspect = false;
    let (_, set) = walk(value, Type::root(node), &mut suspect);
    let errors = if suspect { check(value, node) } else { Vec::new() };
    if errors.is_empty() { Ok(set) } else { Err(errors) }
}

/// Whether the place itself is set, and what is set inside it.
pub(crate) fn below(value: &Value, ty: Type<'_>) -> (bool, Set) {
    walk(value, ty, &mut false)
}

fn walk(value: &Value, ty: Type<'_>, suspect: &mut bool) -> (bool, Set) {
    *suspect |= !ty.fits(value);
    match (ty.shape(value), value) {
        (Shape::Map, Value::Object(m)) => (m.is_empty(), map(m, ty, suspect)),
        (shape @ (Shape::Keyed(_) | Shape::Set), Value::Array(items)) => {
            (items.is_empty(), list(items, ty, shape, suspect))
        }
        _ => (true, Set::new()),
    }
}

fn map(m: &Map<String, Value>, ty: Type<'_>, suspect: &mut bool) -> Set {
    let closed = ty.is_closed();
    let mut out = Vec::with_capacity(m.len());
    for (name, v) in m {
        let (field, declared) = ty.field(name);
        *suspect |= closed && !declared;
        let (leaf, children) = walk(v, field, suspect);
        out.push(Entry {
            element: Element::Field(Arc::from(name.as_str())),
            member: leaf || !declared,
            children,
        });
    }
    Set::from_entries(out)
}

fn list(items: &[Value], ty: Type<'_>, shape: Shape<'_>, suspect: &mut bool) -> Set {
    let item = ty.item();
    if let Shape::Keyed(keys) = shape {
        let keys = Keys::new(keys, item);
        *suspect |= items.iter().any(|v| v.as_object().is_none_or(|m| keys.missing(m).is_some()));
    }
    let index = ty.index(items, shape);
    let mut out = Vec::with_capacity(index.len());
    for same in index.chunk_by(|a, b| a.0 == b.0) {
        let Some((element, at)) = same.first() else { continue };
        // Fields of items that share a key cannot be told apart: only the key as a whole is set.
        *suspect |= same.len() > 1;
        let children = if same.len() == 1 { walk(&items[*at], item, suspect).1 } else { Set::new() };
        out.push(Entry { element: element.clone(), member: true, children });
    }
    Set::from_entries(out)
}

/// The set, plus every declared field that has members below it. Removing is decided on these: a struct
/// nobody sets anything in any more goes away with its last field.
pub(crate) fn with_named_fields(set: &Set, node: Option<Node<'_>>) -> Set {
    named(set, Type::root(node))
}

fn named(set: &Set, ty: Type<'_>) -> Set {
    let entries = set
        .entries()
        .iter()
        .map(|e| {
            let (below, declared) = match &e.element {
                Element::Field(name) => ty.field(name),
                _ => (ty.item(), false),
            };
            Entry {
                element: e.element.clone(),
                member: e.member || (declared && !e.children.is_empty()),
                children: named(&e.children, below),
            }
        })
        .collect();
    Set::from_entries(entries)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::defs;
    use super::*;
    use serde_json::json;

    fn fields(v: Value) -> Value {
        let d = defs();
        to_fieldset(&v, d.node("Deployment")).to_fields_v1()
    }

    #[test]
    fn table() {
        let cases = [
            (json!({"spec": {"replicas": 1}}), json!({"f:spec": {"f:replicas": {}}})),
            (json!({"metadata": {"labels": {"a": "b"}}}), json!({"f:metadata": {"f:labels": {"f:a": {}}}})),
            (json!({"metadata": {"labels": {}}}), json!({"f:metadata": {"f:labels": {}}})),
            (json!({"spec": {"replicas": null}}), json!({"f:spec": {"f:replicas": {}}})),
            (
                json!({"spec": {"template": {"spec": {"containers": []}}}}),
                json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {}}}}}),
            ),
            (
                json!({"metadata": {"finalizers": ["b", "a"]}}),
                json!({"f:metadata": {"f:finalizers": {"v:\"a\"": {}, "v:\"b\"": {}}}}),
            ),
            // An atomic map, an atomic list, and a list without a type.
            (
                json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}),
                json!({"f:spec": {"f:selector": {}}}),
            ),
            (json!({"spec": {"args": ["a", "a"]}}), json!({"f:spec": {"f:args": {}}})),
            (
                json!({"spec": {"template": {"spec": {"containers": [
                    {"name": "c", "image": "i", "command": ["x"], "ports": [{"containerPort": 80}]}]}}}}),
                json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
                    ".": {}, "f:command": {}, "f:image": {}, "f:name": {},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":
                        {".": {}, "f:containerPort": {}}}}}}}}}),
            ),
            // Owner references are atomic items of an associative list.
            (
                json!({"metadata": {"ownerReferences": [{"uid": "u", "name": "n"}]}}),
                json!({"f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"u\"}": {}}}}),
            ),
            // Duplicates: only the key.
            (
                json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "c"}]}}}}),
                json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {}}}}}}),
            ),
            // Unknown fields are deduced: maps granular, lists atomic, every key a member.
            (
                json!({"spec": {"raw": {"a": {"b": [1]}}}}),
                json!({"f:spec": {"f:raw": {"f:a": {".": {}, "f:b": {}}}}}),
            ),
        ];
        for (value, want) in cases {
            assert_eq!(fields(value.clone()).to_string(), want.to_string(), "{value}");
        }
    }

    #[test]
    fn untyped_objects_know_their_metadata() {
        let v = json!({"metadata": {"finalizers": ["x"]}, "spec": {"l": [1], "m": {"k": 1}}});
        assert_eq!(
            to_fieldset(&v, None).to_fields_v1(),
            json!({"f:metadata": {"f:finalizers": {"v:\"x\"": {}}},
                   "f:spec": {".": {}, "f:l": {}, "f:m": {".": {}, "f:k": {}}}})
        );
    }
}
