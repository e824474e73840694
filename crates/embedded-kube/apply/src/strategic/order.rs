//! The order of a merged list.
//!
//! Two orders are to be kept: that of the items the client knows (from `$setElementOrder`, or the patch
//! itself) and that of the items only the server knows. Items of the second kind are placed among the first
//! by where they stood before, as far as both orders allow.

use super::{StrategicError, go};
use serde_json::Value;
use std::collections::HashMap;

/// Where each item of a list is, by what identifies it: its merge key, or itself. Bodies may hold lists of
/// a hundred thousand items, so nothing here scans.
pub(super) struct Index<'k> {
    key: Option<&'k str>,
    places: HashMap<String, usize>,
}

impl<'k> Index<'k> {
    pub(super) fn new<'v>(list: impl IntoIterator<Item = &'v Value>, key: Option<&'k str>) -> Index<'k> {
        let mut index = Index { key, places: HashMap::new() };
        for (i, v) in list.into_iter().enumerate() {
            index.insert(v, i);
        }
        index
    }

    fn id(&self, v: &Value) -> Option<String> {
        self.key.map_or(Some(v), |k| v.get(k)).map(Value::to_string)
    }

    /// Returns whether the item is new; of equal ones the first counts.
    pub(super) fn insert(&mut self, v: &Value, at: usize) -> bool {
        match self.id(v) {
            Some(id) if !self.places.contains_key(&id) => self.places.insert(id, at).is_none(),
            _ => false,
        }
    }

    pub(super) fn get(&self, v: &Value) -> Option<usize> {
        self.id(v).and_then(|id| self.places.get(&id).copied())
    }
}

/// Sorts `items`: those in `known` follow it; the others keep their order, placed by `before`, the list as
/// the server had it (`items` itself if nothing was merged).
pub(super) fn sort(
    items: &mut Vec<Value>,
    before: Option<&[Value]>,
    known: &[Value],
    key: Option<&str>,
) -> Result<(), StrategicError> {
    if let (Some(k), Some(bad)) = (key, known.iter().find(|v| key.is_some_and(|k| v.get(k).is_none()))) {
        return Err(StrategicError::NoMergeKey(go(bad), k.to_owned()));
    }
    let before = Index::new(before.unwrap_or(items), key);
    let known = Index::new(known, key);
    let mut listed: Vec<(usize, Value)> = Vec::new();
    let mut others: Vec<Value> = Vec::new();
    for v in items.drain(..) {
        match known.get(&v) {
            Some(i) => listed.push((i, v)),
            None => others.push(v),
        }
    }
    listed.sort_by_key(|(i, _)| *i);
    let mut right = listed.into_iter().map(|(_, v)| v).peekable();
    for left in others {
        let was = before.get(&left);
        // It goes before the first item it used to stand before, if there still is one.
        while let Some(v) = right.next_if(|r| !matches!((was, before.get(r)), (Some(l), Some(r)) if l < r)) {
            items.push(v);
        }
        items.push(left);
    }
    items.extend(right);
    Ok(())
}

/// Refuses a patch whose items are not all in the order list, or in another order than there.
pub(super) fn check(patch: &[&Value], order: &[Value], key: Option<&str>) -> Result<(), StrategicError> {
    let index = Index::new(order, key);
    let mut last = 0;
    for v in patch {
        let at = index.get(v).filter(|at| *at >= last);
        let Some(at) = at else {
            let shown = Value::Array(patch.iter().map(|v| (*v).clone()).collect());
            return Err(StrategicError::OrderMismatch(go(&shown), go(&Value::Array(order.to_vec()))));
        };
        last = at;
    }
    Ok(())
}
