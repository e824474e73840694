//! OpenAPI documents, built on demand: one v3 document per group-version, one v2 document for all.
//!
//! Nothing is kept: a document is asked for rarely and is large (2 MB for the core group), so the server
//! caches the bytes it wants and this module only knows how to make them. Custom resources go through the
//! same code as built-in ones; the difference is where their schema comes from.

mod operations;
mod params;
mod render;
mod schema;

pub use schema::publishable_v2;

use crate::resources::{GROUPS, RESOURCES, Resource};
use crate::tables::{definition_name, definition_name_of, definitions_with_descriptions};
use ek_meta::Gvk;
use operations::{Operation, meta, operations};
use render::{Dialect, paths};
use schema::{GoFields, definition_v2, definition_v3};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// A resource as its documentation needs it.
#[derive(Clone, Debug)]
pub struct ResourceDoc {
    pub gvk: Gvk,
    pub plural: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub subresources: Vec<SubresourceDoc>,
    /// The `openAPIV3Schema` of a custom resource, as in its CRD; null when it has none.
    pub schema: Value,
    model: String,
    list_model: String,
    list_kind: String,
    watch_paths: bool,
}

/// A subresource of a [`ResourceDoc`].
#[derive(Clone, Debug)]
pub struct SubresourceDoc {
    pub name: String,
    pub gvk: Gvk,
    pub verbs: Vec<String>,
    model: String,
    connect: bool,
}

impl ResourceDoc {
    /// A custom resource. `list_kind` is the CRD's `names.listKind`.
    pub fn custom(gvk: Gvk, plural: &str, list_kind: &str, namespaced: bool, schema: Value) -> Self {
        let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        let model = model_name(&gvk);
        let list_model = model_name(&Gvk { kind: list_kind.to_owned(), ..gvk.clone() });
        ResourceDoc {
            plural: plural.to_owned(),
            namespaced,
            verbs: all.map(String::from).to_vec(),
            subresources: Vec::new(),
            schema,
            model,
            list_model,
            list_kind: list_kind.to_owned(),
            watch_paths: false,
            gvk,
        }
    }

    /// Adds `status`, whose body is the object itself.
    pub fn with_status(mut self) -> Self {
        self.subresources.push(self.sub("status", self.gvk.clone(), self.model.clone()));
        self
    }

    /// Adds `scale`.
    pub fn with_scale(mut self) -> Self {
        let model = "io.k8s.api.autoscaling.v1.Scale".to_owned();
        self.subresources.push(self.sub("scale", Gvk::new("autoscaling", "v1", "Scale"), model));
        self
    }

    fn sub(&self, name: &str, gvk: Gvk, model: String) -> SubresourceDoc {
        let verbs = ["get", "patch", "update"].map(String::from).to_vec();
        SubresourceDoc { name: name.to_owned(), gvk, verbs, model, connect: false }
    }

    fn builtin(r: &Resource) -> Self {
        let owned = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let name = |gvk: &Gvk| definition_name(gvk).unwrap_or_default().to_owned();
        let subresources = r.subresources.iter().map(|s| {
            let gvk = s.gvk(r);
            let (name, model) = (s.name.to_owned(), name(&gvk));
            SubresourceDoc { name, gvk, verbs: owned(s.verbs), model, connect: s.is_connect() }
        });
        let list_kind = format!("{}List", r.kind);
        ResourceDoc {
            gvk: r.gvk(),
            plural: r.plural.to_owned(),
            namespaced: r.namespaced,
            verbs: owned(r.verbs),
            subresources: subresources.collect(),
            schema: Value::Null,
            model: name(&r.gvk()),
            list_model: definition_name_of(&r.api_version(), &list_kind).unwrap_or_default().to_owned(),
            list_kind,
            watch_paths: true,
        }
    }

    fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }
}

/// `com.example.stable.v1.CronTab`: the group backwards, then version and kind.
pub fn model_name(gvk: &Gvk) -> String {
    let group: Vec<&str> = gvk.group.rsplit('.').collect();
    format!("{}.{}.{}", group.join("."), gvk.version, gvk.kind)
}

fn builtin_docs(group: &str, version: &str) -> Vec<ResourceDoc> {
    let served = RESOURCES.iter().filter(|r| r.group == group && r.version == version);
    served.map(ResourceDoc::builtin).collect()
}

/// The v3 document of a built-in group-version; null if there is none.
pub fn openapi_v3(group: &str, version: &str) -> Value {
    let docs = builtin_docs(group, version);
    if docs.is_empty() {
        return Value::Null;
    }
    let ops = operations(group, version, &docs);
    let paths = paths(group, version, &ops, Dialect { v3: true, builtin: true });
    document_v3(paths, Map::new(), &kinds_of(group, version))
}

/// The v3 document of a group-version of custom resources.
pub fn openapi_v3_for(group: &str, version: &str, resources: &[ResourceDoc]) -> Value {
    let ops = operations(group, version, resources);
    let paths = paths(group, version, &ops, Dialect { v3: true, builtin: false });
    document_v3(paths, custom_models(resources, true), &BTreeSet::new())
}

fn document_v3(
    paths: Map<String, Value>,
    mut schemas: Map<String, Value>,
    extra: &BTreeSet<String>,
) -> Value {
    let defs = definitions_with_descriptions();
    let go = GoFields::load();
    let mut wanted = BTreeSet::new();
    paths.values().chain(schemas.values()).for_each(|v| references(v, &mut wanted));
    wanted.extend(extra.iter().cloned());
    let mut open: Vec<String> = wanted.into_iter().collect();
    while let Some(name) = open.pop() {
        let Some(def) = defs.get(&name).filter(|_| !schemas.contains_key(&name)) else { continue };
        let mut more = BTreeSet::new();
        references(def, &mut more);
        open.extend(more);
        schemas.insert(name.clone(), definition_v3(&name, def, &go));
    }
    schemas.sort_keys();
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": format!("v{}", crate::KUBERNETES_VERSION)},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"BearerToken": bearer()},
        },
    })
}

/// Definitions a built-in document carries although no path refers to them: none are needed by clients, but
/// explain looks kinds up by name.
fn kinds_of(group: &str, version: &str) -> BTreeSet<String> {
    builtin_docs(group, version).into_iter().flat_map(|d| [d.model, d.list_model]).collect()
}

fn bearer() -> Value {
    json!({"description": "Bearer Token authentication", "in": "header", "name": "authorization", "type": "apiKey"})
}

/// The v2 document of all built-in kinds. The server adds custom resources with [`openapi_v2_paths_for`] and
/// [`openapi_v2_definitions_for`].
pub fn openapi_v2() -> Value {
    let mut all = Map::new();
    for group in GROUPS {
        for (version, _) in group.versions {
            let ops: Vec<Operation> = operations(group.name, version, &builtin_docs(group.name, version));
            all.extend(paths(group.name, version, &ops, Dialect { v3: false, builtin: true }));
        }
    }
    all.sort_keys();
    let definitions: Map<String, Value> =
        definitions_with_descriptions().into_iter().map(|(k, v)| (k, definition_v2(&v))).collect();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": format!("v{}", crate::KUBERNETES_VERSION)},
        "paths": all,
        "definitions": definitions,
        "securityDefinitions": {"BearerToken": bearer()},
        "security": [{"BearerToken": []}],
    })
}

/// v2 paths of custom resources.
pub fn openapi_v2_paths_for(group: &str, version: &str, resources: &[ResourceDoc]) -> Map<String, Value> {
    let ops = operations(group, version, resources);
    paths(group, version, &ops, Dialect { v3: false, builtin: false })
}

/// v2 definitions of custom resources and their lists.
pub fn openapi_v2_definitions_for(resources: &[ResourceDoc]) -> Map<String, Value> {
    custom_models(resources, false)
}

/// The object and list schemas of custom resources.
fn custom_models(resources: &[ResourceDoc], v3: bool) -> Map<String, Value> {
    let place = if v3 { "components/schemas" } else { "definitions" };
    let reference = |name: &str, description: &str| {
        let target = json!({"$ref": format!("#/{place}/{name}")});
        if v3 {
            json!({"allOf": [target], "description": description})
        } else {
            json!({"$ref": target["$ref"], "description": description})
        }
    };
    let mut out = Map::new();
    for r in resources {
        let tag = |kind: &str| json!([{"group": r.gvk.group, "kind": kind, "version": r.gvk.version}]);
        let opaque = r.schema.is_null() || (!v3 && r.schema["x-kubernetes-preserve-unknown-fields"] == true);
        let mut object = match (opaque, v3) {
            // Nothing is said of it at all: clients then let everything pass.
            (true, _) => json!({"type": "object"}),
            (false, true) => r.schema.clone(),
            (false, false) => publishable_v2(&r.schema),
        };
        if !opaque || v3 {
            let mut properties = object["properties"].as_object().cloned().unwrap_or_default();
            properties
                .insert("metadata".into(), reference(&meta("ObjectMeta"), "Standard object's metadata."));
            type_meta(&mut properties);
            properties.sort_keys();
            object["properties"] = properties.into();
        }
        object["x-kubernetes-group-version-kind"] = tag(&r.gvk.kind);
        out.insert(r.model.clone(), object);

        let items = json!({"$ref": format!("#/{place}/{}", r.model)});
        let mut properties = Map::new();
        properties.insert(
            "items".into(),
            json!({"description": format!("List of {}.", r.plural), "type": "array", "items": items}),
        );
        properties.insert("metadata".into(), reference(&meta("ListMeta"), "Standard list metadata."));
        type_meta(&mut properties);
        properties.sort_keys();
        let list = json!({
            "description": format!("{} is a list of {}", r.list_kind, r.gvk.kind),
            "type": "object",
            "required": ["items"],
            "properties": properties,
            "x-kubernetes-group-version-kind": tag(&r.list_kind),
        });
        out.insert(r.list_model.clone(), list);
    }
    out
}

fn type_meta(properties: &mut Map<String, Value>) {
    properties.insert(
        "apiVersion".into(),
        json!({"type": "string", "description": "APIVersion defines the versioned schema of this representation of an object."}),
    );
    properties.insert(
        "kind".into(),
        json!({"type": "string", "description": "Kind names the REST resource this object represents, in CamelCase; it cannot be changed."}),
    );
}

/// Names of all definitions referred to.
fn references(v: &Value, out: &mut BTreeSet<String>) {
    match v {
        Value::Object(m) => {
            if let Some(r) = m.get("$ref").and_then(Value::as_str) {
                out.extend(r.rsplit('/').next().map(Into::into));
            }
            m.values().for_each(|v| references(v, out));
        }
        Value::Array(a) => a.iter().for_each(|v| references(v, out)),
        _ => {}
    }
}
