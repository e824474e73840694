//! What one value is at one place of the schema.

use crate::fieldset::Element;
use ek_meta::{Additional, Definitions, ListType, MapType, Node, SchemaType};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// A place in the schema. `object` marks the root of an API object, whose `metadata` has a known type even
/// where the schema (a CRD's) says nothing about it.
#[derive(Clone, Copy)]
pub(crate) struct Type<'a> {
    node: Option<Node<'a>>,
    object: bool,
}

/// How ownership is counted inside a value.
#[derive(Clone, Copy)]
pub(crate) enum Shape<'a> {
    /// One path: scalars, null, and atomic lists and maps.
    Leaf,
    /// A path per field.
    Map,
    /// A path per item, found by these key fields.
    Keyed(&'a [Box<str>]),
    /// A path per item, found by its value.
    Set,
}

/// The part of ObjectMeta whose structure matters to ownership.
static META: LazyLock<Definitions> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let defs = json!({"ObjectMeta": {"type": "object", "properties": {
        "name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text,
        "resourceVersion": text, "clusterName": text, "creationTimestamp": text, "deletionTimestamp": text,
        "generation": {"type": "integer"}, "deletionGracePeriodSeconds": {"type": "integer"},
        "labels": strings, "annotations": strings,
        "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "ownerReferences": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "items": {"type": "object", "x-kubernetes-map-type": "atomic",
                      "additionalProperties": true, "properties": {"uid": text}}},
        "managedFields": {"type": "array", "x-kubernetes-list-type": "atomic",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
    }}});
    defs.as_object().map(Definitions::parse).unwrap_or_default()
});

static EMPTY: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));

impl<'a> Type<'a> {
    pub(crate) fn root(node: Option<Node<'a>>) -> Type<'a> {
        Type { node, object: true }
    }

    const UNKNOWN: Type<'static> = Type { node: None, object: false };

    fn at(node: Option<Node<'a>>) -> Type<'a> {
        Type { node, object: node.is_some_and(|n| n.schema.embedded_resource || n.site.embedded_resource) }
    }

    pub(crate) fn node(&self) -> Option<Node<'a>> {
        self.node
    }

    /// Typed and not nullable: decoding turns null into absence here.
    pub(crate) fn refuses_null(&self) -> bool {
        self.node.is_some_and(|n| n.schema.ty.is_some() && !n.schema.nullable && !n.site.nullable)
    }

    /// Undeclared fields do not belong here.
    pub(crate) fn is_closed(&self) -> bool {
        self.node.is_some_and(|n| {
            let s = n.schema;
            !s.properties.is_empty() && !s.preserve_unknown && matches!(s.additional, Additional::None)
        })
    }

    /// A map where the schema wants a map, a list where it wants a list; null fits anywhere.
    pub(crate) fn fits(&self, v: &Value) -> bool {
        match self.node.filter(|n| !n.schema.preserve_unknown).and_then(|n| n.schema.ty) {
            Some(SchemaType::Object) => v.is_object() || v.is_null(),
            Some(SchemaType::Array) => v.is_array() || v.is_null(),
            _ => true,
        }
    }

    pub(crate) fn shape(&self, v: &Value) -> Shape<'a> {
        match v {
            Value::Array(_) => self.list_shape(),
            Value::Object(_) if self.is_granular() => Shape::Map,
            _ => Shape::Leaf,
        }
    }

    fn list_shape(&self) -> Shape<'a> {
        let Some(n) = self.node else { return Shape::Leaf };
        if n.schema.ty.is_some_and(|t| t != SchemaType::Array) {
            return Shape::Leaf;
        }
        match n.list_type() {
            ListType::Map if !n.list_map_keys().is_empty() => Shape::Keyed(n.list_map_keys()),
            ListType::Set => Shape::Set,
            _ => Shape::Leaf,
        }
    }

    fn is_granular(&self) -> bool {
        let Some(n) = self.node else { return true };
        if n.map_type() == MapType::Atomic {
            return false;
        }
        match n.schema.ty {
            Some(SchemaType::Object) => true,
            Some(_) => false,
            // Free-form JSON (no type at all) is one value unless the schema asks to keep unknown fields.
            None => {
                self.object
                    || n.schema.preserve_unknown
                    || !n.schema.properties.is_empty()
                    || !matches!(n.schema.additional, Additional::None)
            }
        }
    }

    /// The type of a field, and whether the schema declares that field by name.
    pub(crate) fn field(&self, name: &str) -> (Type<'a>, bool) {
        if self.object {
            match name {
                "apiVersion" | "kind" => return (Type::UNKNOWN, true),
                "metadata" => {
                    let own = self.node.and_then(|n| n.property("metadata"));
                    let typed = own.filter(|n| !n.schema.properties.is_empty());
                    return (Type::at(typed.or_else(|| META.node("ObjectMeta"))), true);
                }
                _ => {}
            }
        }
        let Some(n) = self.node else { return (Type::UNKNOWN, false) };
        match n.property(name) {
            Some(p) => (Type::at(Some(p)), true),
            None => (Type::at(n.field(name)), false),
        }
    }

    /// What an absent field of an existing object stands for. Typed servers hold objects as structs, in which
    /// embedded structs are present though empty and some lists are written even if null; so their first
    /// content does not make the container "added". The published schemas mark the former by an empty-object
    /// default and the latter by `required`.
    pub(crate) fn absent(&self, name: &str, field: &Type<'_>) -> Option<&'static Value> {
        let site = field.node?;
        if site.default().and_then(Value::as_object).is_some_and(Map::is_empty) {
            return Some(&EMPTY);
        }
        let required = || self.node.is_some_and(|n| n.schema.required.iter().any(|r| **r == *name));
        (site.schema.ty == Some(SchemaType::Array) && required()).then_some(&Value::Null)
    }

    pub(crate) fn item(&self) -> Type<'a> {
        Type::at(self.node.and_then(|n| n.items()))
    }

    /// The path element of each item, sorted, with the item's position. Duplicates end up side by side.
    pub(crate) fn index(&self, items: &[Value], shape: Shape<'_>) -> Vec<(Element, usize)> {
        let mut out: Vec<_> = match shape {
            Shape::Keyed(keys) => {
                let keys = Keys::new(keys, self.item());
                items.iter().enumerate().map(|(i, v)| (keys.element(v), i)).collect()
            }
            _ => items.iter().enumerate().map(|(i, v)| (Element::value(v), i)).collect(),
        };
        if !out.is_sorted() {
            out.sort();
        }
        out
    }
}

/// Key fields with the defaults that stand in for missing ones.
pub(crate) struct Keys<'a> {
    fields: Vec<(&'a str, Option<&'a Value>)>,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(keys: &'a [Box<str>], item: Type<'a>) -> Keys<'a> {
        let default = |k: &str| item.node.and_then(|n| n.property(k)).and_then(|n| n.default());
        let mut fields: Vec<_> = keys.iter().map(|k| (&**k, default(k))).collect();
        fields.sort_unstable_by_key(|f| f.0);
        Keys { fields }
    }

    /// The first key field that has neither value nor default.
    pub(crate) fn missing(&self, item: &Map<String, Value>) -> Option<&'a str> {
        self.fields.iter().find(|(k, d)| d.is_none() && !item.contains_key(*k)).map(|f| f.0)
    }

    /// Whether two items have the same key, without building it.
    pub(crate) fn agree(&self, a: &Value, b: &Value) -> bool {
        self.fields.iter().all(|(k, d)| a.get(*k).or(*d) == b.get(*k).or(*d))
    }

    /// Items that are no objects identify themselves by value, so that nothing is lost or confused.
    pub(crate) fn element(&self, item: &Value) -> Element {
        let Value::Object(m) = item else { return Element::value(item) };
        let of = |(k, d): &(&str, Option<&'a Value>)| m.get(*k).or(*d).map(|v| ((*k).into(), v.clone()));
        Element::Key(self.fields.iter().filter_map(of).collect())
    }
}
