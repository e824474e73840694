//! Lists that merge: by key if their items are maps, by value if they are scalars.

use super::{DIRECTIVE, Object, StrategicError, clean, clean_items, go, go_map, merge_map, order};
use ek_meta::Node;
use serde_json::Value;

/// What the schema says about merging a list.
pub(super) struct Strategy<'a> {
    pub(super) merge: bool,
    pub(super) key: Option<&'a str>,
}

impl<'a> Strategy<'a> {
    pub(super) fn of(node: Option<Node<'a>>) -> Strategy<'a> {
        let Some(n) = node else { return Strategy { merge: false, key: None } };
        Strategy {
            merge: n.site.patch_merge || n.schema.patch_merge,
            key: n.site.patch_merge_key.as_deref().or(n.schema.patch_merge_key.as_deref()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Maps,
    Scalars,
}

/// What a list holds; an empty one holds anything.
fn kind(lists: [&[Value]; 2]) -> Result<Option<Kind>, StrategicError> {
    let mut found = None;
    for v in lists.into_iter().flatten() {
        let this = match v {
            Value::Array(_) => return Err(StrategicError::ListOfLists),
            Value::Object(_) => Kind::Maps,
            _ => Kind::Scalars,
        };
        if found.is_some_and(|k| k != this) {
            return Err(StrategicError::MixedList(go(v)));
        }
        found = Some(this);
    }
    Ok(found)
}

/// Merges `patch` into `items`. `order` is `$setElementOrder`; without it the patch's own order counts.
pub(super) fn merge(
    items: &mut Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
    strategy: &Strategy<'_>,
    node: Option<Node<'_>>,
) -> Result<(), StrategicError> {
    let Some(kind) = kind([items, patch])? else { return Ok(()) };
    let before = items.clone();
    let key = match (kind, strategy.key) {
        (Kind::Scalars, _) => {
            let mut seen = order::Index::new([], None);
            items.extend_from_slice(patch);
            items.retain(|v| seen.insert(v, 0));
            None
        }
        (Kind::Maps, None) => {
            let first = patch.first().map(go).unwrap_or_default();
            return Err(StrategicError::NoMergeKey(first, String::new()));
        }
        (Kind::Maps, Some(key)) => {
            if merge_maps(items, patch, key, node)? {
                return Ok(());
            }
            Some(key)
        }
    };
    let stays: Vec<&Value> =
        patch.iter().filter(|v| v.get(DIRECTIVE).is_none_or(|d| d != "delete")).collect();
    match order {
        Some(order) => {
            order::check(&stays, order, key)?;
            order::sort(items, Some(&before), order, key)
        }
        None => {
            let own: Vec<Value> = stays.into_iter().cloned().collect();
            order::sort(items, Some(&before), &own, key)
        }
    }
}

/// Returns whether the patch replaced the whole list.
fn merge_maps(
    items: &mut Vec<Value>,
    patch: &[Value],
    key: &str,
    node: Option<Node<'_>>,
) -> Result<bool, StrategicError> {
    let mut replace = false;
    let mut gone = order::Index::new([], Some(key));
    for (v, p) in patch.iter().filter_map(|v| v.as_object().map(|p| (v, p))) {
        match p.get(DIRECTIVE) {
            None => {}
            Some(Value::String(d)) if d == "delete" => {
                id(p, key)?;
                gone.insert(v, 0);
            }
            Some(Value::String(d)) if d == "replace" => replace = true,
            Some(Value::String(d)) if d == "merge" => return Err(StrategicError::MergeDirectiveInList),
            Some(other) => return Err(StrategicError::Directive(go(other), go_map(p))),
        }
    }
    if replace {
        let kept: Vec<Value> = patch.iter().filter(|v| v.get(DIRECTIVE).is_none()).cloned().collect();
        *items = clean_items(&kept);
        return Ok(true);
    }
    items.retain(|v| gone.get(v).is_none());
    let item = node.and_then(|n| n.items());
    let mut index = order::Index::new(items.iter(), Some(key));
    for v in patch {
        let Some(p) = v.as_object().filter(|p| !p.contains_key(DIRECTIVE)) else { continue };
        id(p, key)?;
        match index.get(v).and_then(|i| items.get_mut(i)) {
            Some(Value::Object(found)) => merge_map(found, p, item)?,
            _ => {
                index.insert(v, items.len());
                items.push(clean(v));
            }
        }
    }
    Ok(false)
}

fn id<'a>(item: &'a Object, key: &str) -> Result<&'a Value, StrategicError> {
    item.get(key).ok_or_else(|| StrategicError::NoMergeKey(go_map(item), key.to_owned()))
}

/// `$deleteFromPrimitiveList/name`: takes values out of a list of scalars.
pub(super) fn delete_primitives(doc: &mut Object, name: &str, gone: &Value) -> Result<(), StrategicError> {
    let Value::Array(gone) = gone else { return Err(StrategicError::PrimitiveList) };
    if gone.iter().any(|v| v.is_object() || v.is_array()) {
        return Err(StrategicError::PrimitiveList);
    }
    if let Some(Value::Array(items)) = doc.get_mut(name) {
        let gone = order::Index::new(gone, None);
        items.retain(|v| gone.get(v).is_none());
    }
    Ok(())
}
