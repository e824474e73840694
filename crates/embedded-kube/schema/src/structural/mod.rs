//! Which schemas a CustomResourceDefinition may have.
//!
//! A structural schema fixes the shape of the object (types, properties, items) outside of every combination,
//! so that pruning and defaulting are a walk and not a search. Value validation may be combined freely, but
//! may only speak of fields that the structure declares. On top come the keywords the API never supported,
//! the rules of list types and embedded resources, defaults that must satisfy their own schema, and CEL rules
//! that must compile. For v1 definitions each violation is a validation error of the definition; the
//! [`is_structural`] half alone decides the `NonStructuralSchema` condition.

mod defaults;
mod lists;
mod nested;

use crate::cel;
use crate::validate::{Rule, Scope};
use ek_meta::{Definitions, FieldError, FieldPath, Node, Schema};
use serde_json::{Map, Value};

/// Everything wrong with the schema; empty for one that may be used.
pub fn check(openapi_v3_schema: &Value, path: &FieldPath) -> Vec<FieldError> {
    // Each layer is looked at only when the one below it holds: keywords, then structure, defaults and rules.
    for look in [Look::Keywords, Look::Everything] {
        let mut c = Check { errors: Vec::new(), look };
        c.root(openapi_v3_schema, path);
        if !c.errors.is_empty() {
            return c.errors;
        }
    }
    Vec::new()
}

/// Only the structural violations: the message of the `NonStructuralSchema` condition.
pub fn structural_errors(openapi_v3_schema: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut c = Check { errors: Vec::new(), look: Look::Shape };
    c.root(openapi_v3_schema, path);
    c.errors
}

/// Whether pruning and defaulting can walk this schema.
pub fn is_structural(openapi_v3_schema: &Value) -> bool {
    structural_errors(openapi_v3_schema, &FieldPath::root()).is_empty()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Field,
    Item,
}

/// What a walk looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Words that may not be there, or not like this.
    Keywords,
    /// Whether the schema is structural.
    Shape,
    /// That, and defaults and rules.
    Everything,
}

struct Check {
    errors: Vec<FieldError>,
    look: Look,
}

/// The types a schema may name.
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Keywords of JSON schema that were never part of the API.
const UNSUPPORTED: [&str; 6] =
    ["$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id"];

pub(super) fn flag(m: &Map<String, Value>, k: &str) -> bool {
    m.get(k).and_then(Value::as_bool).unwrap_or(false)
}

pub(super) fn text<'m>(m: &'m Map<String, Value>, k: &str) -> &'m str {
    m.get(k).and_then(Value::as_str).unwrap_or("")
}

impl Check {
    fn root(&mut self, v: &Value, path: &FieldPath) {
        match v {
            Value::Object(m) => {
                self.node(m, path, Level::Root, Scope::Correlatable);
                if flag(m, "nullable") && self.look != Look::Keywords {
                    let at = path.child("nullable");
                    self.errors.push(FieldError::forbidden(&at, "nullable cannot be true at the root"));
                }
            }
            _ => self.errors.push(FieldError::required(path, "")),
        }
    }

    fn node(&mut self, m: &Map<String, Value>, path: &FieldPath, level: Level, scope: Scope) {
        if self.look == Look::Keywords {
            self.check_keywords(m, path);
            lists::check(m, path, &mut self.errors);
        } else {
            self.check_type(m, path, level);
            self.check_extensions(m, path, level);
            nested::check(m, path, &mut self.errors);
        }
        if self.look == Look::Everything {
            self.check_rules(m, path, scope);
            defaults::check(m, path, &mut self.errors);
        }
        if let Some(Value::Object(props)) = m.get("properties") {
            for (k, p) in props {
                if let Value::Object(p) = p {
                    self.node(p, &path.child("properties").key(k), Level::Field, scope);
                }
            }
        }
        if let Some(Value::Object(items)) = m.get("items") {
            let below =
                if text(m, "x-kubernetes-list-type") == "map" { scope } else { Scope::Uncorrelatable };
            self.node(items, &path.child("items"), Level::Item, below);
        }
        if let Some(Value::Object(a)) = m.get("additionalProperties") {
            self.node(a, &path.child("additionalProperties"), Level::Field, scope);
        }
    }

    fn check_type(&mut self, m: &Map<String, Value>, path: &FieldPath, level: Level) {
        let at = path.child("type");
        let ty = match m.get("type") {
            None => "",
            Some(Value::String(t)) => t.as_str(),
            Some(other) => {
                self.errors.push(FieldError::invalid(&at, other.clone(), "must be a single type"));
                return;
            }
        };
        let int_or_string = flag(m, "x-kubernetes-int-or-string");
        let embedded = flag(m, "x-kubernetes-embedded-resource");
        match ty {
            "" if embedded => {
                let detail = "must be object if x-kubernetes-embedded-resource is true";
                self.errors.push(FieldError::required(&at, detail));
            }
            "" if !int_or_string && !flag(m, "x-kubernetes-preserve-unknown-fields") => {
                let detail = match level {
                    Level::Root => "must not be empty at the root",
                    Level::Field => "must not be empty for specified object fields",
                    Level::Item => "must not be empty for specified array items",
                };
                self.errors.push(FieldError::required(&at, detail));
            }
            "" => {}
            "null" => {
                let detail = "type cannot be set to null, use nullable as an alternative";
                self.errors.push(FieldError::forbidden(&at, detail));
            }
            t if !TYPES.contains(&t) => self.errors.push(FieldError::not_supported(&at, t, &TYPES)),
            t => {
                if int_or_string {
                    let detail = "must be empty if x-kubernetes-int-or-string is specified";
                    self.errors.push(FieldError::forbidden(&at, detail));
                }
                if t != "object" && level == Level::Root {
                    self.errors.push(FieldError::invalid(&at, t, "must be object at the root"));
                } else if t != "object" && embedded {
                    let detail = "must be object if x-kubernetes-embedded-resource is true";
                    self.errors.push(FieldError::invalid(&at, t, detail));
                }
                if t == "array" && !m.contains_key("items") {
                    self.errors.push(FieldError::required(&path.child("items"), "must be specified"));
                }
            }
        }
    }

    fn check_extensions(&mut self, m: &Map<String, Value>, path: &FieldPath, level: Level) {
        let embedded = flag(m, "x-kubernetes-embedded-resource");
        let declared = m.get("properties").and_then(Value::as_object).is_some_and(|p| !p.is_empty());
        if declared && m.get("additionalProperties").is_some_and(|a| *a != false) {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.errors.push(FieldError::forbidden(&path.child("additionalProperties"), detail));
        }
        if m.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            let at = path.child("x-kubernetes-preserve-unknown-fields");
            self.errors.push(FieldError::invalid(&at, false, "must be true or undefined"));
        }
        if embedded {
            if m.contains_key("additionalProperties") {
                let detail = "must not be used if x-kubernetes-embedded-resource is set";
                self.errors.push(FieldError::forbidden(&path.child("additionalProperties"), detail));
            }
            let preserve = flag(m, "x-kubernetes-preserve-unknown-fields");
            if !preserve && m.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty) {
                let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
                self.errors.push(FieldError::required(&path.child("properties"), detail));
            }
        }
        if embedded || level == Level::Root {
            self.check_resource(m, &path.child("properties"));
        }
        let map_type = text(m, "x-kubernetes-map-type");
        if !map_type.is_empty() && self.look == Look::Everything {
            if !matches!(map_type, "atomic" | "granular") {
                let at = path.child("x-kubernetes-map-type");
                self.errors.push(FieldError::not_supported(&at, map_type, &["atomic", "granular"]));
            }
            if text(m, "type") != "object" {
                let detail = "must be object if x-kubernetes-map-type is specified";
                self.errors.push(FieldError::invalid(&path.child("type"), text(m, "type"), detail));
            }
        }
    }

    /// What a resource declares of itself: only strings, and of its metadata only the name.
    fn check_resource(&mut self, m: &Map<String, Value>, path: &FieldPath) {
        let property = |k: &str| m.get("properties").and_then(|p| p.get(k)).and_then(Value::as_object);
        for name in ["apiVersion", "kind"] {
            if let Some(p) = property(name)
                && !matches!(text(p, "type"), "" | "string")
            {
                let at = path.key(name).child("type");
                self.errors.push(FieldError::invalid(&at, text(p, "type"), "must be string"));
            }
        }
        let Some(meta) = property("metadata") else { return };
        let at = path.key("metadata");
        if !matches!(text(meta, "type"), "" | "object") {
            self.errors.push(FieldError::invalid(&at.child("type"), text(meta, "type"), "must be object"));
        }
        let only_names = meta.iter().all(|(k, v)| match k.as_str() {
            "type" | "description" | "title" | "required" => true,
            "properties" => {
                v.as_object().is_some_and(|p| p.keys().all(|k| matches!(k.as_str(), "name" | "generateName")))
            }
            _ => false,
        });
        if !only_names {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.errors.push(FieldError::forbidden(&at, detail));
        }
    }

    fn check_keywords(&mut self, m: &Map<String, Value>, path: &FieldPath) {
        for k in UNSUPPORTED.into_iter().filter(|k| m.contains_key(*k)) {
            self.errors.push(FieldError::forbidden(&path.child(k), format!("{k} is not supported")));
        }
        if flag(m, "uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.errors.push(FieldError::forbidden(&path.child("uniqueItems"), detail));
        }
        let additional = path.child("additionalProperties");
        match m.get("additionalProperties") {
            None => {}
            Some(Value::Bool(false)) if m.contains_key("properties") => {
                let detail = "additionalProperties cannot be set to false";
                self.errors.push(FieldError::forbidden(&additional, detail));
            }
            Some(Value::Bool(false)) => {}
            Some(_) => {}
        }
        if m.get("items").is_some_and(Value::is_array) {
            let detail = "items must be a schema object and not an array";
            self.errors.push(FieldError::forbidden(&path.child("items"), detail));
        }
        check_pattern(m, path, &mut self.errors);
        let rules = m.get("x-kubernetes-validations").and_then(Value::as_array);
        for (i, r) in rules.into_iter().flatten().enumerate() {
            if r.get("rule").and_then(Value::as_str).is_none_or(|r| r.trim().is_empty()) {
                let at = path.child("x-kubernetes-validations").index(i).child("rule");
                self.errors.push(FieldError::required(&at, "rule is not specified"));
            }
            let at = path.child("x-kubernetes-validations").index(i);
            self.errors.extend(crate::validate::check_choices(r, &at));
        }
    }

    fn check_rules(&mut self, m: &Map<String, Value>, path: &FieldPath, scope: Scope) {
        let Some(Value::Array(rules)) = m.get("x-kubernetes-validations") else { return };
        let at = path.child("x-kubernetes-validations");
        let schema = Schema::parse(&Value::Object(m.clone()), &|_| None);
        let node = Node::new(&schema, Definitions::empty());
        for (i, r) in rules.iter().enumerate() {
            if let Err(mut e) = Rule::parse(r, node, scope, &at.index(i)) {
                self.errors.append(&mut e);
            }
        }
    }
}

/// A pattern must compile, wherever it stands.
pub(super) fn check_pattern(m: &Map<String, Value>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if let Some(Value::String(p)) = m.get("pattern")
        && let Err(e) = cel::pattern(p)
    {
        let why = go_regexp_error(p, &e);
        let detail = format!("must be a valid regular expression, but isn't: error parsing regexp: {why}");
        errors.push(FieldError::invalid(&path.child("pattern"), p.as_str(), detail));
    }
}

/// What Go's parser says of a pattern; for rarer mistakes, what ours says.
fn go_regexp_error(pattern: &str, e: &regex::Error) -> String {
    let text = e.to_string();
    let says = |what: &str| text.contains(what);
    match () {
        () if says("unclosed group") => format!("missing closing ): `{pattern}`"),
        () if says("unopened group") => format!("unexpected ): `{pattern}`"),
        () if says("unclosed character class") => {
            format!("missing closing ]: `{}`", &pattern[pattern.rfind('[').unwrap_or(0)..])
        }
        () if says("repetition operator missing expression") => {
            let at = pattern.find(['*', '+', '?']).unwrap_or(0);
            format!("missing argument to repetition operator: `{}`", &pattern[at..=at.min(pattern.len() - 1)])
        }
        () => text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    }
}
