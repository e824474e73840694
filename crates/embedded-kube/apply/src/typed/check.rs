//! What an applied configuration must not do.
//!
//! A configuration is read as a set of claims, so it has to be readable: every field declared, every list
//! item identified, no item twice, every scalar of its type. Live objects are exempt. Formats and quantities are
//! left to validation proper, which knows them.

use super::shape::{Keys, Shape, Type};
use crate::fieldset::{Element, Path};
use crate::strategic::go_format;
use ek_meta::{Node, SchemaType};
use serde_json::{Map, Value};

/// One line per violation, `path: what`.
pub fn check(value: &Value, node: Option<Node<'_>>) -> Vec<String> {
    let mut errors = Vec::new();
    visit(value, Type::root(node), &mut Vec::new(), &mut errors);
    errors
}

fn visit(v: &Value, ty: Type<'_>, path: &mut Vec<Element>, errors: &mut Vec<String>) {
    if !ty.fits(v) {
        let list = ty.node().is_some_and(|n| n.schema.ty == Some(SchemaType::Array));
        let expected = if list { "list" } else { "map" };
        report(errors, path, &format!("expected {expected}, got &{{{}}}", go_format(v)));
    }
    if let Some(what) = ty.node().and_then(|n| wrong_scalar(v, n.schema)) {
        report(errors, path, &what);
    }
    match (ty.shape(v), v) {
        (Shape::Map, Value::Object(m)) => map(m, ty, path, errors),
        (shape @ (Shape::Keyed(_) | Shape::Set), Value::Array(items)) => list(items, ty, shape, path, errors),
        _ => {}
    }
}

/// A value where the schema wants a scalar of another type; what has no type, or two, takes any.
fn wrong_scalar(v: &Value, s: &ek_meta::Schema) -> Option<String> {
    if v.is_null() || s.preserve_unknown || s.int_or_string {
        return None;
    }
    // Each in the words, and with the view of the value, of the library that defines this.
    Some(match s.ty? {
        SchemaType::Integer | SchemaType::Number if !v.is_number() => {
            let found = match v {
                Value::Bool(_) => "bool",
                Value::String(_) => "string",
                Value::Array(_) => "[]interface {}",
                _ => "map[string]interface {}",
            };
            format!("expected numeric (int or float), got {found}")
        }
        SchemaType::String if !v.is_string() => {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_format(v))
        }
        SchemaType::Boolean if !v.is_boolean() => format!("expected boolean, got &{{{}}}", go_format(v)),
        _ => return None,
    })
}

fn report(errors: &mut Vec<String>, path: &[Element], what: &str) {
    // A hostile body must not buy an error per byte.
    if errors.len() < 64 {
        errors.push(format!("{}: {what}", Path(path.to_vec())));
    }
}

fn map(m: &Map<String, Value>, ty: Type<'_>, path: &mut Vec<Element>, errors: &mut Vec<String>) {
    let closed = ty.is_closed();
    for (name, v) in m {
        let (field, declared) = ty.field(name);
        // Cheap unless something is wrong or nested: scalars of open maps need no path at all.
        if !(closed && !declared || v.is_object() || v.is_array() || field.node().is_some()) {
            continue;
        }
        path.push(Element::field(name));
        if closed && !declared {
            report(errors, path, "field not declared in schema");
        } else {
            visit(v, field, path, errors);
        }
        path.pop();
    }
}

fn list(items: &[Value], ty: Type<'_>, shape: Shape<'_>, path: &mut Vec<Element>, errors: &mut Vec<String>) {
    let item = ty.item();
    if let Shape::Keyed(keys) = shape {
        let keys = Keys::new(keys, item);
        for (i, v) in items.iter().enumerate() {
            match v {
                Value::Object(m) => {
                    if let Some(key) = keys.missing(m) {
                        let what = format!(
                            "element {i}: associative list with keys has an element that omits key field {key:?} (and doesn't have default value)"
                        );
                        report(errors, path, &what);
                    }
                }
                Value::Null => {
                    report(
                        errors,
                        path,
                        &format!("element {i}: associative list with keys may not have a null element"),
                    );
                }
                _ => report(
                    errors,
                    path,
                    &format!("element {i}: associative list with keys may not have non-map elements"),
                ),
            }
        }
    }
    let index = ty.index(items, shape);
    for same in index.chunk_by(|a, b| a.0 == b.0) {
        let Some((element, at)) = same.first() else { continue };
        path.push(element.clone());
        if same.len() > 1 {
            let what = format!("duplicate entries for key {}", Path(vec![element.clone()]));
            path.pop();
            report(errors, path, &what);
            continue;
        }
        visit(&items[*at], item, path, errors);
        path.pop();
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
        let cases: [(Value, &[&str]); 9] = [
            (
                json!({"apiVersion": "v1", "kind": "D", "metadata": {"name": "x"}, "spec": {"raw": {"any": [1]}}}),
                &[],
            ),
            (json!({"spec": {"replica": 1}}), &[".spec.replica: field not declared in schema"]),
            (json!({"metadata": {"nam": "x"}}), &[".metadata.nam: field not declared in schema"]),
            (json!({"spec": [1]}), &[".spec: expected map, got &{[1]}"]),
            (
                json!({"spec": {"replicas": "x"}}),
                &[".spec.replicas: expected numeric (int or float), got string"],
            ),
            (pod(json!({})), &[".spec.template.spec.containers: expected list, got &{map[]}"]),
            (
                pod(json!([{"name": "a"}, {"name": "a"}])),
                &[".spec.template.spec.containers: duplicate entries for key [name=\"a\"]"],
            ),
            (
                pod(json!([{"image": "a"}])),
                &[
                    ".spec.template.spec.containers: element 0: associative list with keys has an element that omits key field \"name\" (and doesn't have default value)",
                ],
            ),
            (
                json!({"metadata": {"finalizers": ["a", "a"]}}),
                &[".metadata.finalizers: duplicate entries for key [=\"a\"]"],
            ),
        ];
        let d = defs();
        for (value, want) in cases {
            assert_eq!(check(&value, d.node("Deployment")), want, "{value}");
        }
    }
}
