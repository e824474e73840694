//! Pruning: the schema is the list of what is stored.
//!
//! Everything undeclared is dropped and reported, because `fieldValidation` turns the report into warnings or
//! a refusal. Three things survive without being declared: `apiVersion`, `kind` and `metadata` of a resource
//! (the root, or an embedded one), whatever is in a preserve-unknown island, and anything under a node that
//! has no type at all.

use ek_meta::{Additional, Node, SchemaType};
use serde_json::{Map, Value};
use std::fmt::Write;

/// Reports beyond this many are noise, and each costs a string; pruning itself goes on.
pub const MAX_REPORTED: usize = 64;

/// Fields of `metadata` that exist without being declared.
const OBJECT_META: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Drops unknown fields from `value` and returns their paths (`spec.list[0].bar`), in the order of the document.
pub fn prune(value: &mut Value, node: Node<'_>, is_resource_root: bool) -> Vec<String> {
    let mut p = Pruner { path: String::new(), dropped: Vec::new() };
    p.value(value, node, is_resource_root);
    p.dropped
}

struct Pruner {
    path: String,
    dropped: Vec<String>,
}

impl Pruner {
    /// Runs `f` with one more step on the path.
    fn step(&mut self, step: Step<'_>, f: impl FnOnce(&mut Self)) {
        let len = self.path.len();
        match step {
            Step::Field(name) => {
                if len > 0 {
                    self.path.push('.');
                }
                self.path.push_str(name);
            }
            Step::Index(i) => {
                // Writing to a string cannot fail.
                let _ = write!(self.path, "[{i}]");
            }
        }
        f(self);
        self.path.truncate(len);
    }

    fn report(&mut self, name: &str) {
        if self.dropped.len() < MAX_REPORTED {
            let dot = if self.path.is_empty() { "" } else { "." };
            self.dropped.push(format!("{}{dot}{name}", self.path));
        }
    }

    fn value(&mut self, v: &mut Value, node: Node<'_>, root: bool) {
        match v {
            Value::Object(o) => self.object(o, node, root),
            Value::Array(items) => {
                if let Some(item) = node.items() {
                    for (i, v) in items.iter_mut().enumerate() {
                        if v.is_object() || v.is_array() {
                            self.step(Step::Index(i), |p| p.value(v, item, false));
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, o: &mut Map<String, Value>, node: Node<'_>, root: bool) {
        let resource = root || node.schema.embedded_resource;
        let keep = keeps_unknown(node);
        o.retain(|k, v| {
            if resource && matches!(k.as_str(), "apiVersion" | "kind") {
                return true;
            }
            if resource && k == "metadata" {
                self.step(Step::Field(k), |p| p.metadata(v));
                return true;
            }
            let field = node.field(k);
            if let Some(field) = field
                && (v.is_object() || v.is_array())
            {
                self.step(Step::Field(k), |p| p.value(v, field, false));
            }
            let known = field.is_some() || keep;
            if !known {
                self.report(k);
            }
            known
        });
    }

    fn metadata(&mut self, v: &mut Value) {
        let Value::Object(meta) = v else { return };
        meta.retain(|k, _| {
            let known = OBJECT_META.contains(&k.as_str());
            if !known {
                self.report(k);
            }
            known
        });
    }
}

enum Step<'s> {
    Field(&'s str),
    Index(usize),
}

fn keeps_unknown(node: Node<'_>) -> bool {
    let s = node.schema;
    if s.preserve_unknown || matches!(s.additional, Additional::Any) {
        return true;
    }
    // Without a type nothing is known to be wrong.
    if s.ty.is_none() && s.properties.is_empty() {
        return true;
    }
    // Among the built-in definitions an object without properties is raw JSON (RawExtension, FieldsV1); in
    // a CRD it is an object that has none.
    s.ty == Some(SchemaType::Object)
        && s.properties.is_empty()
        && matches!(s.additional, Additional::None)
        && !node.defs.is_empty()
}
