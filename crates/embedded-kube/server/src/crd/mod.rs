//! Custom resource definitions: what a stored CRD turns into.
//!
//! Everything the server needs of a version is compiled once, when the registry is built: the validator with
//! its regular expressions and CEL programs, printer columns, selectable fields, scale paths. Unchanged CRDs
//! keep what they compiled to across rebuilds.

mod lifecycle;
mod rules;

pub use lifecycle::{ACCEPTED, ESTABLISHED, default as fill_defaults, prepare_create, prepare_update};
pub use rules::validate;

use crate::jsonpath::JsonPath;
use ek_meta::object::{at, str_at};
use ek_schema::Validator;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub ty: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    pub path: JsonPath,
}

#[derive(Clone, Debug)]
pub struct ScalePaths {
    pub spec_replicas: Vec<String>,
    pub status_replicas: Vec<String>,
    pub label_selector: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Conversion {
    None,
    /// `clientConfig` and the review versions.
    Webhook(Value),
}

/// One version of one custom resource, ready to serve.
pub struct CustomVersion {
    pub crd_name: String,
    pub group: String,
    pub version: String,
    pub storage_version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub has_status: bool,
    pub scale: Option<ScalePaths>,
    pub columns: Vec<Column>,
    /// Label in selectors (`spec.color`) and the fields it reads.
    pub selectable: Vec<(String, Vec<String>)>,
    pub schema: Option<Value>,
    pub validator: Option<Validator>,
    pub conversion: Conversion,
    /// Shown to clients of a deprecated version.
    pub deprecation: Option<String>,
    /// Identifies schema and storage version: stored bytes with this stamp need no re-reading.
    pub stamp: u64,
}

fn strings(v: Option<&Value>) -> Vec<String> {
    v.map(ek_meta::object::strings).unwrap_or_default()
}

/// `.spec.replicas` → `[spec, replicas]`.
pub fn simple_path(p: &str) -> Vec<String> {
    p.trim_start_matches('.').split('.').filter(|s| !s.is_empty()).map(str::to_owned).collect()
}

/// Whether a condition of the CRD is true.
/// What others must know of a stored definition: its group, and the names that are its own. Definitions are large, and
/// each is compared to all others.
pub fn names_of(bytes: &[u8]) -> Option<Value> {
    #[derive(serde::Deserialize)]
    struct Brief {
        metadata: Named,
        spec: Grouped,
        #[serde(default)]
        status: Accepted,
    }
    #[derive(serde::Deserialize)]
    struct Named {
        name: String,
    }
    #[derive(serde::Deserialize)]
    struct Grouped {
        group: String,
    }
    #[derive(Default, serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Accepted {
        #[serde(default)]
        accepted_names: Value,
    }
    let Brief { metadata, spec, status } = serde_json::from_slice(bytes).ok()?;
    Some(serde_json::json!({"metadata": {"name": metadata.name}, "spec": {"group": spec.group},
        "status": {"acceptedNames": status.accepted_names}}))
}

pub fn condition(crd: &Value, ty: &str) -> bool {
    at(crd, &["status", "conditions"])
        .and_then(Value::as_array)
        .is_some_and(|c| c.iter().any(|c| c["type"] == ty && c["status"] == "True"))
}

pub fn storage_version(crd: &Value) -> &str {
    at(crd, &["spec", "versions"])
        .and_then(Value::as_array)
        .and_then(|v| v.iter().find(|v| v["storage"] == true))
        .and_then(|v| v["name"].as_str())
        .unwrap_or_default()
}

/// Every served version of an accepted CRD. A version whose schema no longer compiles (written by another
/// release) is served without validation rather than not at all, and said so in the log.
type Compiled = HashMap<u128, Vec<Weak<CustomVersion>>>;

/// What has been compiled, by what it was compiled from, while some cluster serves it: guests all have the same kinds, and
/// what a schema becomes is larger than the schema.
static COMPILED: LazyLock<Mutex<Compiled>> = LazyLock::new(Mutex::default);

/// The versions of a definition, shared with all clusters that have the same.
pub fn compiled(crd: &Value) -> Vec<Arc<CustomVersion>> {
    let source = format!("{}\n{}", ek_meta::object::name(crd), crd["spec"]);
    let sum = xxhash_rust::xxh3::xxh3_128(source.as_bytes());
    let known: Option<Vec<_>> =
        COMPILED.lock().get(&sum).and_then(|versions| versions.iter().map(Weak::upgrade).collect());
    if let Some(known) = known {
        return known;
    }
    let made = compile(crd);
    let mut all = COMPILED.lock();
    if all.len().is_power_of_two() {
        all.retain(|_, versions| versions.iter().any(|v| v.strong_count() > 0));
    }
    all.insert(sum, made.iter().map(Arc::downgrade).collect());
    made
}

pub fn compile(crd: &Value) -> Vec<Arc<CustomVersion>> {
    let text = |p: &[&str]| str_at(crd, p).unwrap_or_default().to_owned();
    let storage = storage_version(crd).to_owned();
    let conversion = match at(crd, &["spec", "conversion"]) {
        Some(c) if c["strategy"] == "Webhook" => Conversion::Webhook(c["webhook"].clone()),
        _ => Conversion::None,
    };
    let kind = text(&["spec", "names", "kind"]);
    let Some(Value::Array(versions)) = at(crd, &["spec", "versions"]) else { return Vec::new() };
    let group = text(&["spec", "group"]);
    versions
        .iter()
        .filter(|v| v["served"] == true)
        .map(|v| {
            let version = v["name"].as_str().unwrap_or_default().to_owned();
            let schema = at(v, &["schema", "openAPIV3Schema"]).cloned();
            let validator = schema.as_ref().and_then(|s| match Validator::compile(s) {
                Ok(v) => Some(v),
                Err(errors) => {
                    let first = errors.first().map(ToString::to_string).unwrap_or_default();
                    tracing::warn!(
                        crd = ek_meta::object::name(crd),
                        version,
                        error = first,
                        "schema does not compile"
                    );
                    None
                }
            });
            let deprecation = (v["deprecated"] == true).then(|| {
                v["deprecationWarning"]
                    .as_str()
                    .map_or_else(|| format!("{group}/{version} {kind} is deprecated"), str::to_owned)
            });
            let stamp_text = format!(
                "{storage}\n{version}\n{}",
                schema.as_ref().map(Value::to_string).unwrap_or_default()
            );
            Arc::new(CustomVersion {
                crd_name: ek_meta::object::name(crd).to_owned(),
                group: group.clone(),
                storage_version: storage.clone(),
                kind: kind.clone(),
                list_kind: text(&["spec", "names", "listKind"]),
                plural: text(&["spec", "names", "plural"]),
                singular: text(&["spec", "names", "singular"]),
                short_names: strings(at(crd, &["spec", "names", "shortNames"])),
                categories: strings(at(crd, &["spec", "names", "categories"])),
                namespaced: text(&["spec", "scope"]) == "Namespaced",
                has_status: at(v, &["subresources", "status"]).is_some_and(Value::is_object),
                scale: at(v, &["subresources", "scale"]).filter(|s| s.is_object()).map(|s| ScalePaths {
                    spec_replicas: simple_path(s["specReplicasPath"].as_str().unwrap_or_default()),
                    status_replicas: simple_path(s["statusReplicasPath"].as_str().unwrap_or_default()),
                    label_selector: s["labelSelectorPath"]
                        .as_str()
                        .filter(|p| !p.is_empty())
                        .map(simple_path),
                }),
                columns: columns(v),
                selectable: v["selectableFields"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|f| f["jsonPath"].as_str())
                    .map(|p| (p.trim_start_matches('.').to_owned(), simple_path(p)))
                    .collect(),
                schema,
                validator,
                conversion: conversion.clone(),
                deprecation,
                stamp: xxhash_rust::xxh3::xxh3_64(stamp_text.as_bytes()) | 1,
                version,
            })
        })
        .collect()
}

fn columns(version: &Value) -> Vec<Column> {
    let text = |c: &Value, k: &str| c[k].as_str().unwrap_or_default().to_owned();
    let declared: Vec<Column> = version["additionalPrinterColumns"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|c| {
            Some(Column {
                name: text(c, "name"),
                ty: text(c, "type"),
                format: text(c, "format"),
                description: text(c, "description"),
                priority: c["priority"].as_i64().unwrap_or(0),
                path: JsonPath::parse(c["jsonPath"].as_str()?).ok()?,
            })
        })
        .collect();
    if !declared.is_empty() {
        return declared;
    }
    JsonPath::parse(".metadata.creationTimestamp")
        .map(|path| {
            vec![Column {
                name: "Age".into(),
                ty: "date".into(),
                format: String::new(),
                description: "CreationTimestamp is a timestamp representing the server time when this object was created.".into(),
                priority: 0,
                path,
            }]
        })
        .unwrap_or_default()
}
