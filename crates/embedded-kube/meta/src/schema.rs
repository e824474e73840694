//! The schema node: the subset of OpenAPI that Kubernetes gives meaning to.
//!
//! Built-in kinds come as named definitions that refer to each other (and, for JSONSchemaProps, to
//! themselves); a CRD version is one tree without references. Both are walked through [`Node`], which pairs
//! a schema with the definitions its references point into, so that walkers never see a reference.

use serde::Deserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl SchemaType {
    pub fn parse(s: &str) -> Option<Self> {
        Some(match s {
            "object" => SchemaType::Object,
            "array" => SchemaType::Array,
            "string" => SchemaType::String,
            "integer" => SchemaType::Integer,
            "number" => SchemaType::Number,
            "boolean" => SchemaType::Boolean,
            _ => return None,
        })
    }

    pub fn as_str(self) -> &'static str {
        match self {
            SchemaType::Object => "object",
            SchemaType::Array => "array",
            SchemaType::String => "string",
            SchemaType::Integer => "integer",
            SchemaType::Number => "number",
            SchemaType::Boolean => "boolean",
        }
    }
}

/// `x-kubernetes-list-type`. Unset behaves as atomic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Unset,
    Atomic,
    Set,
    Map,
}

/// `x-kubernetes-map-type`. Unset behaves as granular.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapType {
    #[default]
    Unset,
    Granular,
    Atomic,
}

/// `additionalProperties`.
#[derive(Clone, Debug, Default)]
pub enum Additional {
    /// Absent or `false`: unknown properties are not part of the type.
    #[default]
    None,
    /// `true`: any value.
    Any,
    Schema(Box<Schema>),
}

/// One schema. What only validation needs sits in `rules`, behind one pointer, because most nodes have none.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Index of the definition this node stands for; all else is then ignored.
    pub reference: Option<u32>,
    pub ty: Option<SchemaType>,
    pub format: Option<Box<str>>,
    pub nullable: bool,
    pub int_or_string: bool,
    pub preserve_unknown: bool,
    pub embedded_resource: bool,
    pub list_type: ListType,
    pub map_type: MapType,
    pub list_map_keys: Vec<Box<str>>,
    /// `x-kubernetes-patch-strategy` contains `merge`.
    pub patch_merge: bool,
    /// `x-kubernetes-patch-strategy` contains `retainKeys`.
    pub patch_retain_keys: bool,
    pub patch_merge_key: Option<Box<str>>,
    pub default: Option<Box<Value>>,
    /// Sorted by name.
    pub properties: Vec<(Box<str>, Schema)>,
    pub additional: Additional,
    pub items: Option<Box<Schema>>,
    pub required: Vec<Box<str>>,
    /// Value validation, present only when the source schema has any.
    pub rules: Option<Box<Rules>>,
}

/// Value validation of one node: everything that does not decide structure.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub unique_items: bool,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub pattern: Option<Box<str>>,
    pub enumeration: Vec<Value>,
    pub all_of: Vec<Schema>,
    pub any_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    pub not: Option<Box<Schema>>,
    /// `x-kubernetes-validations`, in order, as written.
    pub validations: Vec<Value>,
}

impl Schema {
    /// Parses one OpenAPI v3 schema (or the v2 dialect of the built-in definitions). References are
    /// resolved to indices by `resolve`; a CRD passes a resolver that knows none.
    pub fn parse(v: &Value, resolve: &dyn Fn(&str) -> Option<u32>) -> Schema {
        let Some(m) = v.as_object() else { return Schema::default() };
        if let Some(r) = reference_of(m) {
            let name = r.rsplit('/').next().unwrap_or(r);
            // A property may carry list/patch extensions beside its `$ref`; a default too.
            let mut s = Schema { reference: resolve(name), ..Schema::default() };
            s.default = m.get("default").map(|d| Box::new(d.clone()));
            s.read_extensions(m);
            return s;
        }
        let str_of = |k: &str| m.get(k).and_then(Value::as_str);
        let flag = |k: &str| m.get(k).and_then(Value::as_bool).unwrap_or(false);
        let (ty, nullable_type) = match m.get("type") {
            Some(Value::String(t)) => (SchemaType::parse(t), false),
            Some(Value::Array(ts)) => (
                ts.iter().filter_map(Value::as_str).find_map(SchemaType::parse),
                ts.iter().any(|t| t == "null"),
            ),
            _ => (None, false),
        };
        let mut s = Schema {
            ty,
            format: str_of("format").map(Into::into),
            nullable: flag("nullable") || nullable_type,
            int_or_string: flag("x-kubernetes-int-or-string") || str_of("format") == Some("int-or-string"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            default: m.get("default").map(|d| Box::new(d.clone())),
            ..Schema::default()
        };
        s.read_extensions(m);
        if let Some(Value::Object(props)) = m.get("properties") {
            s.properties =
                props.iter().map(|(k, p)| (k.as_str().into(), Schema::parse(p, resolve))).collect();
            s.properties.sort_by(|a, b| a.0.cmp(&b.0));
        }
        s.additional = match m.get("additionalProperties") {
            Some(Value::Bool(true)) => Additional::Any,
            Some(o @ Value::Object(_)) => Additional::Schema(Box::new(Schema::parse(o, resolve))),
            _ => Additional::None,
        };
        s.items = m.get("items").filter(|i| i.is_object()).map(|i| Box::new(Schema::parse(i, resolve)));
        if let Some(Value::Array(req)) = m.get("required") {
            s.required = req.iter().filter_map(Value::as_str).map(Into::into).collect();
        }
        s.rules = Rules::parse(m, resolve).map(Box::new);
        s
    }

    fn read_extensions(&mut self, m: &Map<String, Value>) {
        let str_of = |k: &str| m.get(k).and_then(Value::as_str);
        self.list_type = match str_of("x-kubernetes-list-type") {
            Some("atomic") => ListType::Atomic,
            Some("set") => ListType::Set,
            Some("map") => ListType::Map,
            _ => ListType::Unset,
        };
        self.map_type = match str_of("x-kubernetes-map-type") {
            Some("atomic") => MapType::Atomic,
            Some("granular") => MapType::Granular,
            _ => MapType::Unset,
        };
        if let Some(Value::Array(keys)) = m.get("x-kubernetes-list-map-keys") {
            self.list_map_keys = keys.iter().filter_map(Value::as_str).map(Into::into).collect();
        }
        if let Some(strategy) = str_of("x-kubernetes-patch-strategy") {
            self.patch_merge = strategy.split(',').any(|s| s == "merge");
            self.patch_retain_keys = strategy.split(',').any(|s| s == "retainKeys");
        }
        self.patch_merge_key = str_of("x-kubernetes-patch-merge-key").map(Into::into);
    }

    pub fn property(&self, name: &str) -> Option<&Schema> {
        self.properties.binary_search_by(|(k, _)| (**k).cmp(name)).ok().map(|i| &self.properties[i].1)
    }

    /// No structure is known below this node: any value is as good as another.
    pub fn is_untyped(&self) -> bool {
        self.reference.is_none() && self.ty.is_none() && !self.int_or_string && self.properties.is_empty()
    }
}

/// `$ref`, also when wrapped as `allOf: [{$ref}]` beside a description or default (OpenAPI v3 habit).
fn reference_of(m: &Map<String, Value>) -> Option<&str> {
    if let Some(r) = m.get("$ref").and_then(Value::as_str) {
        return Some(r);
    }
    match m.get("allOf") {
        Some(Value::Array(a)) if a.len() == 1 && !m.contains_key("properties") => {
            a[0].get("$ref").and_then(Value::as_str)
        }
        _ => None,
    }
}

impl Rules {
    fn parse(m: &Map<String, Value>, resolve: &dyn Fn(&str) -> Option<u32>) -> Option<Rules> {
        const KEYS: [&str; 18] = [
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "uniqueItems",
            "minProperties",
            "maxProperties",
            "pattern",
            "enum",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
        ];
        if !m.contains_key("x-kubernetes-validations") && !KEYS.iter().any(|k| m.contains_key(*k)) {
            return None;
        }
        let num = |k: &str| m.get(k).and_then(Value::as_f64);
        let int = |k: &str| m.get(k).and_then(|v| v.as_u64().or_else(|| v.as_f64().map(|f| f as u64)));
        let flag = |k: &str| m.get(k).and_then(Value::as_bool).unwrap_or(false);
        let list = |k: &str| m.get(k).and_then(Value::as_array).cloned().unwrap_or_default();
        let schemas = |k: &str| list(k).iter().map(|s| Schema::parse(s, resolve)).collect();
        Some(Rules {
            minimum: num("minimum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            maximum: num("maximum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: num("multipleOf"),
            min_length: int("minLength"),
            max_length: int("maxLength"),
            min_items: int("minItems"),
            max_items: int("maxItems"),
            unique_items: flag("uniqueItems"),
            min_properties: int("minProperties"),
            max_properties: int("maxProperties"),
            pattern: m.get("pattern").and_then(Value::as_str).map(Into::into),
            enumeration: list("enum"),
            all_of: schemas("allOf"),
            any_of: schemas("anyOf"),
            one_of: schemas("oneOf"),
            not: m.get("not").map(|n| Box::new(Schema::parse(n, resolve))),
            validations: list("x-kubernetes-validations"),
        })
    }
}

/// Named schemas that may refer to each other by index.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    schemas: Vec<Schema>,
    by_name: HashMap<Arc<str>, u32>,
}

impl Definitions {
    /// Parses a `{name: schema}` map (the `definitions` of a swagger document).
    pub fn parse(defs: &Map<String, Value>) -> Definitions {
        let by_name: HashMap<Arc<str>, u32> =
            defs.keys().enumerate().map(|(i, k)| (Arc::from(k.as_str()), i as u32)).collect();
        let schemas = defs.values().map(|v| Schema::parse(v, &|n| by_name.get(n).copied())).collect();
        Definitions { schemas, by_name }
    }

    /// As [`Definitions::parse`], from text and one definition at a time: as values, all of them together take many
    /// times the room of the result. `correct` may change a definition before it is read.
    pub fn from_json(
        text: &[u8],
        correct: impl Fn(&str, &mut Map<String, Value>),
    ) -> serde_json::Result<Definitions> {
        let names: BTreeMap<String, IgnoredAny> = serde_json::from_slice(text)?;
        let by_name: HashMap<Arc<str>, u32> = names.keys().map(|n| Arc::from(n.as_str())).zip(0..).collect();
        let mut schemas = vec![Schema::default(); by_name.len()];
        let each = |name: &str, mut definition: Map<String, Value>| {
            correct(name, &mut definition);
            if let Some(i) = by_name.get(name) {
                schemas[*i as usize] =
                    Schema::parse(&Value::Object(definition), &|n| by_name.get(n).copied());
            }
        };
        serde_json::Deserializer::from_slice(text).deserialize_map(Each(each))?;
        Ok(Definitions { schemas, by_name })
    }

    pub fn empty() -> &'static Definitions {
        static EMPTY: std::sync::LazyLock<Definitions> = std::sync::LazyLock::new(Definitions::default);
        &EMPTY
    }

    pub fn node(&self, name: &str) -> Option<Node<'_>> {
        self.by_name.get(name).map(|i| Node::new(&self.schemas[*i as usize], self))
    }

    /// The name of a definition, for messages: found by search.
    pub fn name_of(&self, schema: &Schema) -> Option<&str> {
        self.by_name
            .iter()
            .find(|(_, i)| std::ptr::eq(&self.schemas[**i as usize], schema))
            .map(|(n, _)| &**n)
    }

    pub fn len(&self) -> usize {
        self.schemas.len()
    }

    pub fn is_empty(&self) -> bool {
        self.schemas.is_empty()
    }

    /// Replaces or adds a definition: corrections to what the published definitions leave out.
    pub fn set(&mut self, name: &str, schema: Schema) {
        match self.by_name.get(name) {
            Some(i) => self.schemas[*i as usize] = schema,
            None => {
                self.by_name.insert(Arc::from(name), self.schemas.len() as u32);
                self.schemas.push(schema);
            }
        }
    }
}

/// Hands over the members of an object one by one.
struct Each<F>(F);

impl<'de, F: FnMut(&str, Map<String, Value>)> Visitor<'de> for Each<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of definitions")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((name, definition)) = map.next_entry::<String, _>()? {
            (self.0)(&name, definition);
        }
        Ok(())
    }
}

/// A schema with its references followed. `site` keeps the node as written where it was used, because list
/// and patch extensions stand beside a `$ref`, not behind it.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    pub schema: &'a Schema,
    pub site: &'a Schema,
    pub defs: &'a Definitions,
}

impl<'a> Node<'a> {
    pub fn new(site: &'a Schema, defs: &'a Definitions) -> Node<'a> {
        let mut schema = site;
        // References to references occur in the published definitions; a cycle of them cannot.
        for _ in 0..8 {
            match schema.reference.and_then(|i| defs.schemas.get(i as usize)) {
                Some(next) => schema = next,
                None => break,
            }
        }
        Node { schema, site, defs }
    }

    /// The schema of a declared property only.
    pub fn property(&self, name: &str) -> Option<Node<'a>> {
        self.schema.property(name).map(|s| Node::new(s, self.defs))
    }

    /// The schema of field `name`: a declared property, else `additionalProperties` with a schema.
    pub fn field(&self, name: &str) -> Option<Node<'a>> {
        self.property(name).or_else(|| match &self.schema.additional {
            Additional::Schema(s) => Some(Node::new(s, self.defs)),
            _ => None,
        })
    }

    pub fn items(&self) -> Option<Node<'a>> {
        self.schema.items.as_deref().map(|s| Node::new(s, self.defs))
    }

    pub fn list_type(&self) -> ListType {
        if self.site.list_type != ListType::Unset { self.site.list_type } else { self.schema.list_type }
    }

    pub fn map_type(&self) -> MapType {
        if self.site.map_type != MapType::Unset { self.site.map_type } else { self.schema.map_type }
    }

    pub fn list_map_keys(&self) -> &'a [Box<str>] {
        if self.site.list_map_keys.is_empty() { &self.schema.list_map_keys } else { &self.site.list_map_keys }
    }

    pub fn default(&self) -> Option<&'a Value> {
        self.site.default.as_deref().or(self.schema.default.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_keep_what_stands_beside_them() {
        let defs = json!({
            "Port": {"type": "object", "properties": {"port": {"type": "integer"}}},
            "Spec": {"type": "object", "properties": {
                "ports": {"type": "array", "items": {"$ref": "#/definitions/Port"},
                          "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"]},
                "sel": {"$ref": "#/definitions/Port", "x-kubernetes-map-type": "atomic"},
                "self": {"$ref": "#/definitions/Spec"}}}
        });
        let defs = Definitions::parse(defs.as_object().unwrap());
        let spec = defs.node("Spec").unwrap();
        let ports = spec.property("ports").unwrap();
        assert_eq!(ports.list_type(), ListType::Map);
        assert_eq!(ports.items().unwrap().property("port").unwrap().schema.ty, Some(SchemaType::Integer));
        assert_eq!(spec.property("sel").unwrap().map_type(), MapType::Atomic);
        assert!(spec.property("self").unwrap().property("self").unwrap().property("ports").is_some());
    }
}
