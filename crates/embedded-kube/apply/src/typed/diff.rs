//! How two values differ, path by path.

use super::paths::below;
use super::shape::{Shape, Type};
use crate::fieldset::{Element, Entry, Set, compare_values};
use ek_meta::Node;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::sync::Arc;

/// Paths that are new, that hold another value, and that are gone. Unlike in a value's own field set, a
/// container that appears or goes counts as a path too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    pub added: Set,
    pub modified: Set,
    pub removed: Set,
}

impl Diff {
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Without what lies at or below `ignored`.
    pub(crate) fn without(mut self, ignored: &Set) -> Diff {
        for side in [&mut self.added, &mut self.modified, &mut self.removed] {
            side.subtract(ignored, true);
        }
        self
    }
}

pub fn compare(old: &Value, new: &Value, node: Option<Node<'_>>) -> Diff {
    let mut out = Builder::default();
    walk(Type::root(node), Some(old), Some(new), &mut out);
    out.finish()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Here {
    Same,
    Added,
    Modified,
    Removed,
}

/// Collects one level of the three sets.
#[derive(Default)]
struct Builder {
    added: Vec<Entry>,
    modified: Vec<Entry>,
    removed: Vec<Entry>,
}

impl Builder {
    fn finish(self) -> Diff {
        Diff {
            added: Set::from_entries(self.added),
            modified: Set::from_entries(self.modified),
            removed: Set::from_entries(self.removed),
        }
    }

    fn place(&mut self, here: Here, inner: Diff, element: impl Fn() -> Element) {
        let sides = [
            (&mut self.added, inner.added, here == Here::Added),
            (&mut self.modified, inner.modified, here == Here::Modified),
            (&mut self.removed, inner.removed, here == Here::Removed),
        ];
        for (side, children, member) in sides {
            if member || !children.is_empty() {
                side.push(Entry { element: element(), member, children });
            }
        }
    }
}

/// Compares one place. What changed inside goes to `out`; what happened to the place itself is returned.
fn walk(ty: Type<'_>, old: Option<&Value>, new: Option<&Value>, out: &mut Builder) -> Here {
    let here = match (old, new) {
        (None, None) => return Here::Same,
        (None, Some(_)) => Here::Added,
        (Some(_), None) => Here::Removed,
        (Some(_), Some(_)) => Here::Same,
    };
    // Null takes the form of the other side; between empty things only the value itself can differ.
    if is_void(old) && is_void(new) {
        return leaf(here, old, new);
    }
    let shape_of = |v: Option<&Value>| v.filter(|v| !v.is_null()).map(|v| ty.shape(v));
    match (shape_of(old), shape_of(new)) {
        (None | Some(Shape::Map), None | Some(Shape::Map)) => {
            maps(ty, old.and_then(Value::as_object), new.and_then(Value::as_object), out);
            here
        }
        (None, Some(shape @ (Shape::Keyed(_) | Shape::Set)))
        | (Some(shape @ (Shape::Keyed(_) | Shape::Set)), None | Some(Shape::Keyed(_) | Shape::Set)) => {
            // Most lists are as they were; telling so is cheaper than naming their items.
            if old == new {
                return here;
            }
            let items =
                |v: Option<&'_ Value>| v.and_then(Value::as_array).map_or(Vec::new(), |a| ty.index(a, shape));
            let (a, b) = (items(old), items(new));
            lists(ty, (old, &a), (new, &b), out);
            here
        }
        (Some(Shape::Leaf) | None, Some(Shape::Leaf) | None) => leaf(here, old, new),
        // One side has paths inside and the other is a whole: all paths inside come or go.
        _ => {
            let inner = Diff {
                added: new.map_or_else(Set::new, |v| below(v, ty).1),
                modified: Set::new(),
                removed: old.map_or_else(Set::new, |v| below(v, ty).1),
            };
            out.added.extend_from_slice(inner.added.entries());
            out.removed.extend_from_slice(inner.removed.entries());
            if here == Here::Same { Here::Modified } else { here }
        }
    }
}

fn is_void(v: Option<&Value>) -> bool {
    match v {
        None | Some(Value::Null) => true,
        Some(Value::Array(a)) => a.is_empty(),
        Some(Value::Object(m)) => m.is_empty(),
        Some(_) => false,
    }
}

fn leaf(here: Here, old: Option<&Value>, new: Option<&Value>) -> Here {
    match (old, new) {
        (Some(a), Some(b)) if !same(a, b) => Here::Modified,
        _ => here,
    }
}

/// Equal as a client sees it: `1` and `1.0` are one number.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    a == b || (a.is_number() && b.is_number() && compare_values(a, b) == Ordering::Equal)
}

fn maps(ty: Type<'_>, old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>, out: &mut Builder) {
    let mut visit = |name: &str, a: Option<&Value>, b: Option<&Value>| {
        let field = ty.field(name).0;
        let a = a.or_else(|| old.and_then(|_| ty.absent(name, &field)));
        let b = b.or_else(|| new.and_then(|_| ty.absent(name, &field)));
        let mut inner = Builder::default();
        let here = walk(field, a, b, &mut inner);
        out.place(here, inner.finish(), || Element::Field(Arc::from(name)));
    };
    for (name, b) in new.into_iter().flatten() {
        visit(name, old.and_then(|m| m.get(name)), Some(b));
    }
    for (name, a) in old.into_iter().flatten() {
        if new.is_none_or(|m| !m.contains_key(name)) {
            visit(name, Some(a), None);
        }
    }
}

type Side<'a> = (Option<&'a Value>, &'a [(Element, usize)]);

/// Two indices, both sorted by element, walked side by side.
fn lists(ty: Type<'_>, (old, a): Side<'_>, (new, b): Side<'_>, out: &mut Builder) {
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let element = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => (&x.0).min(&y.0),
            (Some(x), None) | (None, Some(x)) => &x.0,
            (None, None) => break,
        };
        let run = |s: &[(Element, usize)]| s.iter().take_while(|e| e.0 == *element).count();
        let (na, nb) = (run(&a[i..]), run(&b[j..]));
        let (ra, rb) = (&a[i..i + na], &b[j..j + nb]);
        let mut inner = Builder::default();
        let here = if na <= 1 && nb <= 1 {
            walk(ty.item(), pick(old, ra).next(), pick(new, rb).next(), &mut inner)
        } else {
            let (old, new): (Vec<_>, Vec<_>) = (pick(old, ra).collect(), pick(new, rb).collect());
            duplicates(ty, &old, &new, &mut inner)
        };
        out.place(here, inner.finish(), || element.clone());
        i += na;
        j += nb;
    }
}

fn pick<'a>(list: Option<&'a Value>, run: &'a [(Element, usize)]) -> impl Iterator<Item = &'a Value> {
    let items = list.and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
    run.iter().filter_map(|(_, i)| items.get(*i))
}

/// Items sharing a key have no paths inside; a lone item on one side does.
fn duplicates(ty: Type<'_>, old: &[&Value], new: &[&Value], out: &mut Builder) -> Here {
    let inside = |items: &[&Value]| match items {
        [only] => below(only, ty.item()).1.entries().to_vec(),
        _ => Vec::new(),
    };
    match (old.is_empty(), new.is_empty()) {
        (true, _) => Here::Added,
        (_, true) => Here::Removed,
        _ if old == new => Here::Same,
        _ => {
            out.removed = inside(old);
            out.added = inside(new);
            Here::Modified
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::defs;
    use super::*;
    use serde_json::json;

    #[test]
    fn table() {
        let pod = |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let in_pod = |v: Value| json!({"f:spec": {"f:template": {"f:spec": {"f:containers": v}}}});
        let none = json!({});
        let cases = [
            (
                json!({}),
                json!({"spec": {"replicas": 1}}),
                json!({"f:spec": {"f:replicas": {}}}),
                none.clone(),
                none.clone(),
            ),
            (
                json!({"spec": {}}),
                json!({"spec": {"replicas": 1}}),
                json!({"f:spec": {"f:replicas": {}}}),
                none.clone(),
                none.clone(),
            ),
            (
                json!({"spec": {"replicas": 1}}),
                json!({"spec": {"replicas": 1.0}}),
                none.clone(),
                none.clone(),
                none.clone(),
            ),
            (
                json!({"spec": {"replicas": 1}}),
                json!({"spec": {"replicas": 2}}),
                none.clone(),
                json!({"f:spec": {"f:replicas": {}}}),
                none.clone(),
            ),
            (
                json!({"spec": {"replicas": 1}}),
                json!({"spec": {}}),
                none.clone(),
                none.clone(),
                json!({"f:spec": {"f:replicas": {}}}),
            ),
            // Atomic things change as a whole.
            (
                json!({"spec": {"args": ["a"]}}),
                json!({"spec": {"args": ["a", "b"]}}),
                none.clone(),
                json!({"f:spec": {"f:args": {}}}),
                none.clone(),
            ),
            // Null is presence.
            (
                pod(json!(null)),
                pod(json!([{"name": "a"}])),
                in_pod(json!({"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}})),
                none.clone(),
                none.clone(),
            ),
            // Items pair by key, whatever their order.
            (
                pod(json!([{"name": "a", "image": "1"}, {"name": "b"}])),
                pod(json!([{"name": "c"}, {"name": "a", "image": "2"}])),
                in_pod(json!({"k:{\"name\":\"c\"}": {".": {}, "f:name": {}}})),
                in_pod(json!({"k:{\"name\":\"a\"}": {"f:image": {}}})),
                in_pod(json!({"k:{\"name\":\"b\"}": {".": {}, "f:name": {}}})),
            ),
            // Duplicates: the key as a whole.
            (
                pod(json!([{"name": "a", "image": "1"}])),
                pod(json!([{"name": "a"}, {"name": "a"}])),
                none.clone(),
                in_pod(json!({"k:{\"name\":\"a\"}": {}})),
                in_pod(json!({"k:{\"name\":\"a\"}": {"f:image": {}, "f:name": {}}})),
            ),
            // A map became a scalar.
            (
                json!({"spec": {"raw": {"a": {"b": 1}}}}),
                json!({"spec": {"raw": {"a": 1}}}),
                none.clone(),
                json!({"f:spec": {"f:raw": {"f:a": {}}}}),
                json!({"f:spec": {"f:raw": {"f:a": {"f:b": {}}}}}),
            ),
            (
                json!({"metadata": {"finalizers": ["a"]}}),
                json!({"metadata": {"finalizers": ["b"]}}),
                json!({"f:metadata": {"f:finalizers": {"v:\"b\"": {}}}}),
                none,
                json!({"f:metadata": {"f:finalizers": {"v:\"a\"": {}}}}),
            ),
        ];
        let d = defs();
        for (old, new, added, modified, removed) in cases {
            let diff = compare(&old, &new, d.node("Deployment"));
            let got = [&diff.added, &diff.modified, &diff.removed].map(Set::to_fields_v1);
            assert_eq!(got, [added, modified, removed], "{old} -> {new}");
        }
    }
}
