//! Schemas in their two published dialects.
//!
//! The stored definitions are swagger. OpenAPI v3 differs in where a reference may stand (alone, or in an
//! `allOf` beside other keywords), in how "integer or string" is said, and in that it publishes defaults. Most
//! defaults are Go's zero values of fields that are never absent, and those follow from the protobuf table.

use crate::tables::PROTOBUF;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// Go's view of fields: message to (JSON name, type, flag). Built for one document, then dropped.
pub(super) struct GoFields {
    messages: Vec<(&'static str, Vec<&'static str>)>,
    by_name: HashMap<&'static str, usize>,
}

impl GoFields {
    pub(super) fn load() -> Self {
        let messages: Vec<_> = PROTOBUF
            .lines()
            .map(|l| {
                let mut cells = l.split('\t');
                (cells.next().unwrap_or_default(), cells.collect())
            })
            .collect();
        let by_name = messages.iter().enumerate().map(|(i, m): (usize, &(&str, _))| (m.0, i)).collect();
        GoFields { messages, by_name }
    }

    /// The type and presence flag of a field, looking into inlined structs.
    fn find(&self, message: usize, field: &str) -> Option<(&'static str, char)> {
        let (_, cells) = self.messages.get(message)?;
        for cell in cells {
            let mut parts = cell.splitn(3, ':').skip(1);
            let (name, ty) = (parts.next()?, parts.next()?);
            let (ty, flag) = ty.split_at(ty.len() - 1);
            if name == field {
                return Some((ty, flag.chars().next()?));
            }
            if name.is_empty() {
                let inner = ty.strip_prefix('m').and_then(|i| i.parse().ok());
                if let Some(found) = inner.and_then(|i| self.find(i, field)) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// The default v3 documents publish for a field of a definition: the zero value, where Go always has one.
    fn default(&self, definition: &str, field: &str) -> Option<Value> {
        // Watch events have no envelope, so the table of messages does not list them.
        if field == "type" && definition.ends_with(".meta.v1.WatchEvent") {
            return Some(json!(""));
        }
        let (ty, flag) = self.find(*self.by_name.get(definition)?, field)?;
        match (ty, flag) {
            ("s", '+') => Some(json!("")),
            ("i" | "l", '+') => Some(json!(0)),
            ("b", '+') => Some(json!(false)),
            (t, '+' | '-') if t.starts_with('m') => Some(json!({})),
            _ => None,
        }
    }
}

/// A definition in the v3 dialect.
pub(super) fn definition_v3(name: &str, def: &Value, go: &GoFields) -> Value {
    let description = def.get("description").cloned();
    let mut out = match name {
        INT_OR_STRING => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        QUANTITY => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        _ => {
            let mut out = convert(def);
            if let Some(Value::Object(properties)) = out.get_mut("properties") {
                for (field, schema) in properties {
                    publish_default(schema, || go.default(name, field));
                }
            }
            return out;
        }
    };
    if let Some(d) = description {
        out["description"] = d;
    }
    out
}

fn publish_default(schema: &mut Value, default: impl FnOnce() -> Option<Value>) {
    let Some(m) = schema.as_object_mut() else { return };
    if m.contains_key("default") {
        return;
    }
    if let Some(d) = default() {
        m.insert("default".into(), d);
        wrap(m);
    }
}

/// A reference may not have neighbours in v3: it moves into an `allOf`.
fn wrap(m: &mut Map<String, Value>) {
    if m.len() > 1
        && let Some(r) = m.shift_remove("$ref")
    {
        m.insert("allOf".into(), json!([{"$ref": r}]));
    }
}

fn convert(schema: &Value) -> Value {
    let Some(source) = schema.as_object() else { return schema.clone() };
    let mut out = Map::new();
    for (key, v) in source {
        let v = match (key.as_str(), v) {
            ("$ref", Value::String(r)) => r.replace("#/definitions/", "#/components/schemas/").into(),
            ("properties", Value::Object(p)) => {
                p.iter().map(|(k, v)| (k.clone(), convert(v))).collect::<Map<_, _>>().into()
            }
            ("items" | "additionalProperties", v) => element(v),
            (_, v) => v.clone(),
        };
        out.insert(key.clone(), v);
    }
    wrap(&mut out);
    out.into()
}

/// Elements of lists and maps are never pointers, so they have Go's zero as default.
fn element(schema: &Value) -> Value {
    let mut out = convert(schema);
    let zero = match (out.get("type").and_then(Value::as_str), out.get("$ref").and_then(Value::as_str)) {
        (Some("string"), _) if out.get("format").is_none() => Some(json!("")),
        (Some("integer"), _) => Some(json!(0)),
        (_, Some(r)) if !has_own_form(r) => Some(json!({})),
        _ => None,
    };
    publish_default(&mut out, || zero);
    out
}

/// Types that describe themselves to OpenAPI: no zero value is published for them.
fn has_own_form(reference: &str) -> bool {
    const OWN: [&str; 10] = [
        INT_OR_STRING,
        QUANTITY,
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
        "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
        "io.k8s.apimachinery.pkg.runtime.RawExtension",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
    ];
    reference.rsplit('/').next().is_some_and(|name| OWN.contains(&name))
}

/// A stored definition as v2 publishes it: defaults are not part of it.
pub(super) fn definition_v2(def: &Value) -> Value {
    match def {
        Value::Object(m) => m
            .iter()
            .filter(|(k, _)| *k != "default")
            .map(|(k, v)| match (k.as_str(), v) {
                // A property may be called `default` (JSONSchemaProps has one).
                ("properties", Value::Object(p)) => (
                    k.clone(),
                    p.iter().map(|(k, v)| (k.clone(), definition_v2(v))).collect::<Map<_, _>>().into(),
                ),
                _ => (k.clone(), definition_v2(v)),
            })
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// A CRD's v3 schema as OpenAPI v2 can publish it, the way kube-apiserver does: junctors, `nullable` and
/// defaults go; nullable nodes lose their type, because v2 has no null; and below a node that keeps unknown
/// fields nothing is said, because kubectl would reject what is not listed.
pub fn publishable_v2(schema: &Value) -> Value {
    let Some(source) = schema.as_object() else { return schema.clone() };
    let flag = |m: &Map<String, Value>, k: &str| m.get(k).and_then(Value::as_bool).unwrap_or(false);
    let nullable = flag(source, "nullable");
    let preserve = flag(source, "x-kubernetes-preserve-unknown-fields");
    let mut out = Map::new();
    for (key, v) in source {
        match (key.as_str(), v) {
            (
                "allOf" | "anyOf" | "oneOf" | "not" | "nullable" | "default" | "example" | "externalDocs",
                _,
            ) => {}
            ("type", _) if nullable => {}
            ("items" | "properties", _) if nullable || preserve => {}
            ("properties", Value::Object(p)) => {
                let p: Map<_, _> = p.iter().map(|(k, v)| (k.clone(), publishable_v2(v))).collect();
                out.insert(key.clone(), p.into());
            }
            ("items" | "additionalProperties", v) => {
                out.insert(key.clone(), publishable_v2(v));
            }
            ("required", Value::Array(names)) => {
                let optional = |n: &Value| {
                    let property = n.as_str().and_then(|n| source.get("properties")?.get(n)?.as_object());
                    property.is_some_and(|p| flag(p, "nullable"))
                };
                let names: Vec<Value> = names.iter().filter(|n| !optional(n)).cloned().collect();
                if !names.is_empty() {
                    out.insert(key.clone(), names.into());
                }
            }
            _ => {
                out.insert(key.clone(), v.clone());
            }
        }
    }
    let ty = out.get("type").and_then(Value::as_str);
    if (ty == Some("array") && !out.contains_key("items")) || (ty == Some("object") && preserve) {
        out.shift_remove("type");
    }
    out.into()
}
