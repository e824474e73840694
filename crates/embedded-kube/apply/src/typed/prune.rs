//! Cutting paths out of a value, and keeping only some.

use super::shape::{Shape, Type};
use crate::fieldset::{Element, Entry, Set};
use ek_meta::Node;
use serde_json::{Map, Value};

/// Removes every member of `set` that `value` has, with whatever is below it.
pub fn remove_items(value: &mut Value, set: &Set, node: Option<Node<'_>>) {
    if !set.is_empty() {
        cut(Type::root(node), value, set);
    }
}

fn cut(ty: Type<'_>, value: &mut Value, set: &Set) {
    match (ty.shape(value), value) {
        (Shape::Map, Value::Object(m)) => {
            for e in set.entries() {
                let Element::Field(name) = &e.element else { continue };
                if e.member {
                    // Order is part of the stored bytes: close the gap instead of filling it with the last.
                    m.shift_remove(&**name);
                } else if let Some(inside) = m.get_mut(&**name) {
                    cut(ty.field(name).0, inside, &e.children);
                }
            }
        }
        (shape @ (Shape::Keyed(_) | Shape::Set), Value::Array(items)) => {
            let mut gone = vec![false; items.len()];
            for (element, i) in ty.index(items, shape) {
                match set.entry(&element) {
                    Some(Entry { member: true, .. }) => gone[i] = true,
                    Some(e) => cut(ty.item(), &mut items[i], &e.children),
                    None => {}
                }
            }
            let mut gone = gone.into_iter();
            items.retain(|_| !gone.next().unwrap_or(false));
        }
        _ => {}
    }
}

/// The part of `value` that `set` names: leaves that are members, the containers on the way, and the key
/// fields of list items on the way (without which they could not be told apart).
pub fn extract(value: &Value, set: &Set, node: Option<Node<'_>>) -> Value {
    keep(Type::root(node), value, set)
}

fn keep(ty: Type<'_>, value: &Value, set: &Set) -> Value {
    match (ty.shape(value), value) {
        (Shape::Map, Value::Object(m)) => {
            let mut out = Map::new();
            for (name, v) in m {
                if let Some(e) = set.field_entry(name) {
                    out.insert(name.clone(), keep(ty.field(name).0, v, &e.children));
                }
            }
            Value::Object(out)
        }
        (shape @ (Shape::Keyed(_) | Shape::Set), Value::Array(items)) => {
            let mut index = ty.index(items, shape);
            index.sort_by_key(|(_, i)| *i);
            let mut out = Vec::new();
            for (element, i) in index {
                let Some(e) = set.entry(&element) else { continue };
                let mut kept = keep(ty.item(), &items[i], &e.children);
                if let (Shape::Keyed(keys), Value::Object(k), Value::Object(m)) =
                    (shape, &mut kept, &items[i])
                {
                    for key in keys {
                        if let (false, Some(v)) = (k.contains_key(&**key), m.get(&**key)) {
                            k.insert(key.to_string(), v.clone());
                        }
                    }
                }
                out.push(kept);
            }
            Value::Array(out)
        }
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::defs;
    use super::*;
    use serde_json::json;

    #[test]
    fn removal_and_extraction() {
        let d = defs();
        let node = d.node("Deployment");
        let value = json!({
            "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y"]},
            "spec": {"replicas": 1, "selector": {"matchLabels": {}}, "template": {"spec": {"containers": [
                {"name": "a", "image": "i", "env": [{"name": "E", "value": "v"}]}, {"name": "b"}]}}}
        });
        let set = Set::from_fields_v1(&json!({
            "f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {"v:\"y\"": {}}},
            "f:spec": {"f:replicas": {}, "f:nope": {}, "f:template": {"f:spec": {"f:containers": {
                "k:{\"name\":\"a\"}": {"f:image": {}}, "k:{\"name\":\"b\"}": {}}}}}
        }))
        .unwrap();
        let mut rest = value.clone();
        remove_items(&mut rest, &set, node);
        assert_eq!(
            rest,
            json!({
                "metadata": {"labels": {"b": "2"}, "finalizers": ["x"]},
                "spec": {"selector": {"matchLabels": {}}, "template": {"spec": {"containers": [
                    {"name": "a", "env": [{"name": "E", "value": "v"}]}]}}}
            })
        );
        assert_eq!(
            extract(&value, &set, node),
            json!({
                "metadata": {"labels": {"a": "1"}, "finalizers": ["y"]},
                "spec": {"replicas": 1, "template": {"spec": {"containers": [
                    {"name": "a", "image": "i"}, {"name": "b"}]}}}
            })
        );
    }
}
