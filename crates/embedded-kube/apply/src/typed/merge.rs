//! Laying one value over another.
//!
//! Overlay wins wherever it says something; what it does not mention stays. Maps merge by field,
//! associative lists by key, everything else is replaced. Item order is a compromise that both sides can
//! recognise: items of the overlay keep their order, items only in the base keep theirs, and base-only items
//! stay before the shared item they preceded.

use super::diff::same;
use super::shape::{Keys, Shape, Type};
use crate::fieldset::Element;
use ek_meta::Node;
use serde_json::Value;

/// `overlay` laid over `base`. Duplicate keys in the overlay are the caller's to refuse (see
/// [`super::check`]).
pub fn merge(base: &Value, overlay: &Value, node: Option<Node<'_>>) -> Value {
    let mut out = base.clone();
    merge_into(&mut out, overlay, node);
    out
}

pub(crate) fn merge_into(base: &mut Value, overlay: &Value, node: Option<Node<'_>>) {
    lay(Type::root(node), base, overlay);
}

/// Whether laying `overlay` over `base` would change nothing. May say no where the answer is yes.
pub(crate) fn covers(base: &Value, overlay: &Value, node: Option<Node<'_>>) -> bool {
    covered(Type::root(node), base, overlay)
}

fn covered(ty: Type<'_>, base: &Value, overlay: &Value) -> bool {
    match (base, overlay, ty.shape(overlay)) {
        (Value::Object(b), Value::Object(o), Shape::Map) => {
            o.iter().all(|(name, v)| b.get(name).is_some_and(|inside| covered(ty.field(name).0, inside, v)))
        }
        // Same items in the same order. Elsewhere (items of others in between) the long way decides.
        (Value::Array(b), Value::Array(o), Shape::Keyed(keys)) => {
            let keys = Keys::new(keys, ty.item());
            b.len() == o.len() && b.iter().zip(o).all(|(x, y)| keys.agree(x, y) && covered(ty.item(), x, y))
        }
        (base, overlay, _) => same(base, overlay),
    }
}

fn lay(ty: Type<'_>, base: &mut Value, overlay: &Value) {
    // Null over a granular container says nothing about what is inside it.
    if overlay.is_null() && !is_empty(base) && !matches!(ty.shape(base), Shape::Leaf) {
        return;
    }
    match (base, overlay, ty.shape(overlay)) {
        (Value::Object(b), Value::Object(o), Shape::Map) => {
            for (name, v) in o {
                match b.get_mut(name) {
                    Some(inside) => lay(ty.field(name).0, inside, v),
                    // Null over nothing is nothing, unless the schema gives null a meaning of its own.
                    None if v.is_null() && ty.field(name).0.refuses_null() => {}
                    None => {
                        b.insert(name.clone(), v.clone());
                    }
                }
            }
        }
        (Value::Array(b), Value::Array(o), shape @ (Shape::Keyed(_) | Shape::Set)) => {
            // The same items in the same order, as nearly always: nothing to pair or place.
            if let Shape::Keyed(keys) = shape {
                let keys = Keys::new(keys, ty.item());
                if b.len() == o.len() && b.iter().zip(o).all(|(x, y)| keys.agree(x, y)) {
                    b.iter_mut().zip(o).for_each(|(x, y)| lay(ty.item(), x, y));
                    return;
                }
            }
            // An explicit empty list asks for nothing, so it removes nothing.
            if !o.is_empty() {
                let old = std::mem::take(b);
                *b = items(ty, old, o, shape);
            }
        }
        (base, overlay, _) => {
            if !same(base, overlay) {
                *base = overlay.clone();
            }
        }
    }
}

fn is_empty(v: &Value) -> bool {
    match v {
        Value::Array(a) => a.is_empty(),
        Value::Object(m) => m.is_empty(),
        _ => true,
    }
}

/// Where an item of the base went.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Partner {
    /// Nowhere: it stays as it is.
    None,
    /// It merges with this item of the overlay.
    Item(usize),
    /// A later duplicate of an item that merges: dropped, as the overlay names the key once.
    Dropped,
}

fn items(ty: Type<'_>, old: Vec<Value>, overlay: &[Value], shape: Shape<'_>) -> Vec<Value> {
    let (left, right) = (ty.index(&old, shape), ty.index(overlay, shape));
    let mut partner = vec![Partner::None; old.len()];
    // For each overlay item the base item it merges with; `None` in the outer layer drops a duplicate.
    let mut target: Vec<Option<Option<usize>>> = vec![None; overlay.len()];
    let mut l = left.chunk_by(|a, b| a.0 == b.0).peekable();
    for run in right.chunk_by(|a, b| a.0 == b.0) {
        let Some((element, at)) = run.first() else { continue };
        while l.next_if(|x| first(x) < Some(element)).is_some() {}
        let shared = l.next_if(|x| first(x) == Some(element));
        for (n, (_, i)) in shared.into_iter().flatten().enumerate() {
            partner[*i] = if n == 0 { Partner::Item(*at) } else { Partner::Dropped };
        }
        target[*at] = Some(shared.and_then(|x| x.first()).map(|(_, i)| *i));
    }

    let item = ty.item();
    let mut old: Vec<Option<Value>> = old.into_iter().map(Some).collect();
    let mut out = Vec::with_capacity(old.len() + overlay.len());
    // The next shared item, in overlay order, is the fence base-only items may not pass.
    let mut fences = vec![None; overlay.len()];
    let mut fence = None;
    for at in (0..overlay.len()).rev() {
        fence = target[at].flatten().or(fence);
        fences[at] = fence;
    }
    let mut next = 0;
    for (at, v) in overlay.iter().enumerate() {
        let Some(base) = target[at] else { continue };
        while next < old.len() && Some(next) != fences[at] {
            if partner[next] == Partner::None {
                out.extend(old[next].take());
            }
            next += 1;
        }
        let merged = match base.and_then(|i| old[i].take()) {
            Some(mut b) => {
                if matches!(shape, Shape::Keyed(_)) {
                    lay(item, &mut b, v);
                    b
                } else {
                    v.clone()
                }
            }
            None => v.clone(),
        };
        out.push(merged);
        if base == Some(next) {
            next += 1;
        }
    }
    for i in next..old.len() {
        if partner[i] == Partner::None {
            out.extend(old[i].take());
        }
    }
    out
}

fn first<'a>(run: &&'a [(Element, usize)]) -> Option<&'a Element> {
    run.first().map(|(e, _)| e)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::defs;
    use super::*;
    use serde_json::json;

    fn names(base: &[&str], overlay: &[&str]) -> Vec<String> {
        let pod = |names: &[&str]| {
            let items: Vec<Value> = names.iter().map(|n| json!({"name": n})).collect();
            json!({"spec": {"template": {"spec": {"containers": items}}}})
        };
        let d = defs();
        let merged = merge(&pod(base), &pod(overlay), d.node("Deployment"));
        let list = merged["spec"]["template"]["spec"]["containers"].as_array().unwrap().clone();
        list.iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn order() {
        let cases: [(&[&str], &[&str], &[&str]); 9] = [
            (&["a", "b"], &["x"], &["a", "b", "x"]),
            (&["a", "b", "c"], &["x", "b"], &["a", "x", "b", "c"]),
            (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
            (&["a", "b"], &["b", "a"], &["b", "a"]),
            (&[], &["b", "a"], &["b", "a"]),
            (&["a"], &[], &["a"]),
            (&["a", "b", "c", "d"], &["b", "x", "d"], &["a", "b", "c", "x", "d"]),
            (&["a", "s", "s"], &["s", "x"], &["a", "s", "x"]),
            (&["d", "d", "a"], &["a"], &["d", "d", "a"]),
        ];
        for (base, overlay, want) in cases {
            assert_eq!(names(base, overlay), want, "{base:?} + {overlay:?}");
        }
    }

    #[test]
    fn table() {
        let d = defs();
        let cases = [
            (
                json!({"spec": {"replicas": 1, "paused": true}}),
                json!({"spec": {"replicas": 2}}),
                json!({"spec": {"replicas": 2, "paused": true}}),
            ),
            // Atomic map and list are replaced.
            (
                json!({"spec": {"selector": {"matchLabels": {"a": "1"}}}}),
                json!({"spec": {"selector": {"matchLabels": {"b": "1"}}}}),
                json!({"spec": {"selector": {"matchLabels": {"b": "1"}}}}),
            ),
            (
                json!({"spec": {"args": ["a"]}}),
                json!({"spec": {"args": ["b"]}}),
                json!({"spec": {"args": ["b"]}}),
            ),
            // Sets unite.
            (
                json!({"metadata": {"finalizers": ["a"]}}),
                json!({"metadata": {"finalizers": ["b"]}}),
                json!({"metadata": {"finalizers": ["a", "b"]}}),
            ),
            // Null replaces a scalar and leaves a container alone.
            (
                json!({"spec": {"replicas": 1}}),
                json!({"spec": {"replicas": null}}),
                json!({"spec": {"replicas": null}}),
            ),
            (
                json!({"metadata": {"labels": {"a": "b"}}}),
                json!({"metadata": {"labels": null}}),
                json!({"metadata": {"labels": {"a": "b"}}}),
            ),
            (json!({"spec": null}), json!({"spec": {"replicas": 1}}), json!({"spec": {"replicas": 1}})),
            // A key absent on one side is its default.
            (
                json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "w"}]}]}}}}),
                json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8}]}]}}}}),
                json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "w", "hostPort": 8}]}]}}}}),
            ),
        ];
        for (base, overlay, want) in cases {
            assert_eq!(merge(&base, &overlay, d.node("Deployment")), want, "{base} + {overlay}");
        }
    }
}
