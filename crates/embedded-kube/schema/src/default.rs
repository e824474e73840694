//! Defaulting: absent declared properties get their default, wherever their parent exists.
//!
//! A `null` for a property that is not nullable counts as absent: it is replaced by the default, or removed
//! if there is none. A default is defaulted itself, so nested defaults fill an object that a default created.

use ek_meta::{Node, Schema};
use serde_json::{Map, Value};

/// Applies the defaults of `node` to `value`, in place.
pub fn default(value: &mut Value, node: Node<'_>) {
    match value {
        Value::Object(o) => object(o, node),
        Value::Array(items) => {
            if let Some(item) = node.items() {
                for v in items {
                    replace_null(v, item);
                    default(v, item);
                }
            }
        }
        _ => {}
    }
}

fn object(o: &mut Map<String, Value>, node: Node<'_>) {
    for (name, site) in &node.schema.properties {
        let property = Node::new(site, node.defs);
        let absent = match o.get(&**name) {
            None => true,
            Some(Value::Null) => !nullable(property),
            Some(_) => false,
        };
        if !absent {
            continue;
        }
        match property.default() {
            Some(d) => {
                o.insert(name.to_string(), d.clone());
            }
            None => {
                o.shift_remove(&**name);
            }
        }
    }
    for (k, v) in o.iter_mut() {
        if let Some(field) = node.field(k) {
            // Declared properties were handled above; this is for values of a map.
            replace_null(v, field);
            default(v, field);
        }
    }
}

/// List items and map values cannot be removed, so a null without a default stays for validation to refuse.
fn replace_null(v: &mut Value, node: Node<'_>) {
    if v.is_null()
        && !nullable(node)
        && let Some(d) = node.default()
    {
        *v = d.clone();
    }
}

fn nullable(node: Node<'_>) -> bool {
    let free = |s: &Schema| s.nullable || (s.ty.is_none() && s.preserve_unknown);
    free(node.schema) || node.site.nullable
}
