//! Which old value a new one replaces.

use super::compiled::Compiled;
use super::path::Path;
use ek_meta::{Additional, ListType, Schema};
use serde_json::Value;

/// The old item with the same keys; only lists of type map have such a thing. The item at the same position
/// is tried first, which makes the usual case linear.
pub(super) fn old_item<'v>(s: &Schema, i: usize, item: &Value, old: Option<&'v Value>) -> Option<&'v Value> {
    if s.list_type != ListType::Map {
        return None;
    }
    let old = old?.as_array()?;
    old.get(i).filter(|o| same_keys(s, item, o)).or_else(|| old.iter().find(|o| same_keys(s, item, o)))
}

/// Whether two items of a map list have the same keys. An absent key equals its default.
pub(super) fn same_keys(s: &Schema, a: &Value, b: &Value) -> bool {
    s.list_map_keys.iter().all(|k| key_value(s, a, k) == key_value(s, b, k))
}

pub(super) fn key_value<'v>(s: &'v Schema, item: &'v Value, key: &str) -> Option<&'v Value> {
    item.get(key).or_else(|| s.items.as_ref()?.property(key)?.default.as_deref())
}

/// One child of a value: what every pass walks.
pub(super) struct Child<'c, 'p> {
    pub(super) compiled: &'c Compiled,
    pub(super) schema: &'c Schema,
    pub(super) new: &'c Value,
    pub(super) old: Option<&'c Value>,
    pub(super) path: Path<'p>,
}

/// Calls `f` for each child of `new` that has a schema.
pub(super) fn children<'c, 'p>(
    c: &'c Compiled,
    s: &'c Schema,
    new: &'c Value,
    old: Option<&'c Value>,
    path: &'p Path<'p>,
    mut f: impl FnMut(Child<'c, 'p>),
) where
    'c: 'p,
{
    match new {
        Value::Object(o) => {
            if c.properties.is_empty() && c.additional.is_none() {
                return;
            }
            for (k, v) in o {
                let old = old.and_then(|old| old.get(k));
                if let Ok(i) = s.properties.binary_search_by(|(name, _)| (**name).cmp(k.as_str())) {
                    let (compiled, schema) = (&c.properties[i], &s.properties[i].1);
                    f(Child { compiled, schema, new: v, old, path: path.field(k) });
                } else if let (Some(compiled), Additional::Schema(schema)) = (&c.additional, &s.additional) {
                    f(Child { compiled, schema, new: v, old, path: path.key(k) });
                }
            }
        }
        Value::Array(items) => {
            if let (Some(compiled), Some(schema)) = (&c.items, &s.items) {
                for (i, v) in items.iter().enumerate() {
                    let old = old_item(s, i, v, old);
                    f(Child { compiled, schema, new: v, old, path: path.index(i) });
                }
            }
        }
        _ => {}
    }
}
