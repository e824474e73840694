//! From Rust types to structural schemas.
//!
//! schemars gives draft-2020 documents; Kubernetes wants "structural" OpenAPI without `null` types, references
//! or titles. [`definition`] builds the envelope with kube's derive and puts our own schema in it, so that
//! optional means *absent* (as upstream's types have it), never `nullable`, unless a field says so.
//!
//! Rules are written beside the field they protect, through `#[schemars(extend("x-kubernetes-validations" = …))]`
//! with the small constructors below, so that each says what is wrong **and what to do**.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps,
};
use kube_core::CustomResourceExt;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// One CEL rule.
pub(crate) fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

/// A rule that reports at a field below the node it is written on.
pub(crate) fn rule_at(path: &str, rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message, "fieldPath": path, "reason": "FieldValueInvalid"})
}

/// The rule of a field that keeps its first value; written on the field itself.
pub(crate) fn immutable(field: &str, fix: &str) -> Value {
    json!([fixed(field, fix)])
}

/// [`immutable`], to be combined with other rules.
pub(crate) fn fixed(field: &str, fix: &str) -> Value {
    rule("self == oldSelf", &format!("{field} is immutable: {fix}"))
}

/// A field that may be set once and then neither changed nor removed; written on its parent.
pub(crate) fn once(field: &str, fix: &str) -> Value {
    rule_at(
        &format!(".{field}"),
        &format!("!has(oldSelf.{field}) || (has(self.{field}) && self.{field} == oldSelf.{field})"),
        &format!("{field} is immutable once set: {fix}"),
    )
}

/// [`once`] for strings that start out empty.
pub(crate) fn once_from_empty(field: &str, fix: &str) -> Value {
    rule_at(
        &format!(".{field}"),
        &format!(
            "!has(oldSelf.{field}) || oldSelf.{field} == '' || (has(self.{field}) && self.{field} == oldSelf.{field})"
        ),
        &format!("{field} is immutable once set: {fix}"),
    )
}

/// A field that may neither appear nor disappear after creation; written on its parent.
pub(crate) fn settled(field: &str, fix: &str) -> Value {
    rule_at(
        &format!(".{field}"),
        &format!("has(self.{field}) == has(oldSelf.{field})"),
        &format!("{field} can neither be added nor removed after creation: {fix}"),
    )
}

/// A member of a union: present exactly when the discriminator says so; written on the union.
pub(crate) fn member(discriminator: &str, value: &str, field: &str) -> Value {
    rule_at(
        &format!(".{field}"),
        &format!("(self.{discriminator} == '{value}') == has(self.{field})"),
        &format!(
            "{field} is required when {discriminator} is {value}, and forbidden otherwise: set {field} or change {discriminator}"
        ),
    )
}

/// [`member`] that may be left out: forbidden under other discriminators, optional under its own.
pub(crate) fn optional_member(discriminator: &str, value: &str, field: &str) -> Value {
    rule_at(
        &format!(".{field}"),
        &format!("self.{discriminator} == '{value}' || !has(self.{field})"),
        &format!(
            "{field} is forbidden unless {discriminator} is {value}: remove {field} or change {discriminator}"
        ),
    )
}

/// The rules of a subnet id, one per part so that the message names the part.
pub(crate) fn subnet_id(field: &str, uuid_subscription: bool) -> Vec<Value> {
    let subscription = if uuid_subscription { UUID_TEXT } else { "[^/]+" };
    let shape = format!(
        "self.matches('^/subscriptions/{subscription}/resourceGroups/[^/]+/providers/Microsoft[.]Network/virtualNetworks/[^/]+/subnets/[^/]+$')"
    );
    let part = |index: usize, pattern: &str, what: &str| {
        rule(
            &format!("self.split('/').size() < 11 || self.split('/')[{index}].matches('{pattern}')"),
            &format!("{field}: {what}; copy the id from `az network vnet subnet show --query id`"),
        )
    };
    vec![
        rule(
            &shape,
            &format!(
                "{field} must be /subscriptions/{}/resourceGroups/<group>/providers/Microsoft.Network/virtualNetworks/<vnet>/subnets/<subnet> (case matters); copy it from `az network vnet subnet show --query id`",
                if uuid_subscription { "<uuid>" } else { "<subscription>" }
            ),
        ),
        part(
            4,
            "^[a-zA-Z0-9_()\\\\-.]{0,89}[a-zA-Z0-9_()\\\\-]$",
            "the resource group has 1 to 90 letters, digits or _()-. and does not end with a dot",
        ),
        part(
            8,
            "^[a-zA-Z0-9][a-zA-Z0-9_.\\\\-]{0,62}[a-zA-Z0-9_]$",
            "the virtual network name has 2 to 64 letters, digits or _.- and does not end with . or -",
        ),
        part(
            10,
            "^[a-zA-Z0-9]([a-zA-Z0-9_.\\\\-]{0,78}[a-zA-Z0-9_])?$",
            "the subnet name has 1 to 80 letters, digits or _.- and does not end with . or -",
        ),
    ]
}

/// A UUID inside a pattern.
const UUID_TEXT: &str = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";

/// The rule of a string that is a UUID.
pub(crate) fn uuid(field: &str) -> Value {
    rule(
        &format!("self.matches('^{UUID_TEXT}$')"),
        &format!("{field} must be a UUID such as 8c5a6f1e-0b7d-4a37-9a57-3f7a1c2b4d5e"),
    )
}

/// The definition of a kind, with a structural schema made from its Rust type.
pub(crate) fn definition<K: CustomResourceExt + JsonSchema>() -> CustomResourceDefinition {
    let mut crd = K::crd();
    let generator = SchemaSettings::draft2020_12()
        .with(|s| {
            s.inline_subschemas = true;
            s.meta_schema = None;
        })
        .into_generator();
    let mut schema = generator.into_root_schema_for::<K>().to_value();
    structural(&mut schema);
    root(&mut schema);
    #[allow(
        clippy::expect_used,
        reason = "a schema that is none is a fault of this crate, and every test builds them all"
    )]
    let props: JSONSchemaProps =
        serde_json::from_value(schema).expect("schemars makes JSON schema properties");
    for version in &mut crd.spec.versions {
        version.schema = Some(CustomResourceValidation { open_api_v3_schema: Some(props.clone()) });
    }
    crd
}

/// A definition with a rule of the whole object.
pub(crate) fn ruled(mut crd: CustomResourceDefinition, rule: Value) -> CustomResourceDefinition {
    let schemas = crd.spec.versions.iter_mut().filter_map(|v| v.schema.as_mut()?.open_api_v3_schema.as_mut());
    for schema in schemas {
        let rule = serde_json::from_value(rule.clone()).ok();
        schema.x_kubernetes_validations.get_or_insert_default().extend(rule);
    }
    crd
}

/// `spec` is not required where it says nothing, so that `kubectl create` of a bare object works.
fn root(schema: &mut Value) {
    let spec_needed = schema["properties"]["spec"].get("properties").is_some();
    let Some(object) = schema.as_object_mut() else { return };
    if !spec_needed {
        object.remove("required");
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        for (name, text) in
            [("apiVersion", "Version of the schema of this object."), ("kind", "Kind of this object.")]
        {
            properties.insert(name.into(), json!({"type": "string", "description": text}));
        }
        properties.insert("metadata".into(), json!({"type": "object"}));
    }
}

fn structural(schema: &mut Value) {
    match schema {
        Value::Bool(_) => *schema = json!({"x-kubernetes-preserve-unknown-fields": true}),
        Value::Object(object) => structural_object(object),
        _ => {}
    }
}

fn structural_object(object: &mut Map<String, Value>) {
    object.remove("title");
    object.remove("$schema");
    without_null(object);
    // A keyword that a type's attribute takes back (`format` of plain integers upstream) is null here.
    object.retain(|_, v| !v.is_null());
    // serde's flattened map of what we do not know.
    let open = object.get("additionalProperties").is_some_and(|a| a == &json!(true) || a == &json!({}));
    if open {
        object.remove("additionalProperties");
        object.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
    }
    if object.get("additionalProperties") == Some(&json!(false)) {
        object.remove("additionalProperties");
    }
    if object.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
        object.remove("type");
        object.remove("format");
        object.insert("anyOf".into(), json!([{"type": "integer"}, {"type": "string"}]));
        return;
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(structural);
    }
    for child in ["items", "additionalProperties"] {
        if let Some(child) = object.get_mut(child) {
            structural(child);
        }
    }
}

/// `Option<T>` is `[T, null]` or `anyOf: [T, null]` to schemars; to Kubernetes it is T that may be absent.
fn without_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get("type") {
        let kept: Vec<Value> = types.iter().filter(|t| *t != "null").cloned().collect();
        if let [only] = kept.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|v| !v.is_null());
    }
    let Some(Value::Array(branches)) = object.get("anyOf") else { return };
    let is_null =
        |b: &Value| b["type"] == "null" || b["enum"] == json!([null]) || b.get("const") == Some(&Value::Null);
    if !branches.iter().any(is_null) {
        return;
    }
    let kept: Vec<Value> = branches.iter().filter(|b| !is_null(b)).cloned().collect();
    if let [Value::Object(only)] = kept.as_slice() {
        object.remove("anyOf");
        for (k, v) in only.clone() {
            object.entry(k).or_insert(v);
        }
    }
}
