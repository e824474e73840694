//! Bodies as objects: of the right kind, with the right types, unknown and duplicate fields treated as asked.

use super::Call;
use crate::wire::body::{self, Decoded, Oddities, type_name};
use crate::wire::negotiate::{self, BodyType};
use crate::wire::params::{FieldValidation, WriteOptions};
use ek_apply::managed::ApplyError;
use ek_meta::{FieldError, Status, object};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

impl Call {
    /// The body as an object of this resource's kind: decoded, its identity checked, unknown and duplicate
    /// fields treated as the client asked.
    pub fn decode_object(&self, options: &WriteOptions) -> Result<Value, Status> {
        let ty = negotiate::body_type(&self.headers, !self.res.is_custom())?;
        let decoded = match ty {
            BodyType::Json => body::read_json(&self.body).map_err(|e| {
                self.unrecognized(&format!("couldn't get version/kind; json parse error: {e}"))
            })?,
            BodyType::Yaml => body::read_yaml(&self.body).map_err(|e| self.unrecognized(&e))?,
            BodyType::Protobuf => body::decode(&self.body, ty)?,
        };
        if !decoded.value.is_object() {
            let found = type_name(&decoded.value);
            return Err(self.unrecognized(&format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
            )));
        }
        self.accept_object(decoded, options, Source::Document)
    }

    /// The body of a question, which is answered and not stored.
    pub fn decode_review(&self, ty: BodyType) -> Result<Value, Status> {
        match ty {
            BodyType::Json => body::read_json(&self.body)
                .map(|d| d.value)
                .map_err(|e| self.unrecognized(&format!("couldn't get version/kind; json parse error: {e}"))),
            ty => body::decode(&self.body, ty).map(|d| d.value),
        }
    }

    /// A body that is no object at all: the answer shows it.
    fn unrecognized(&self, why: &str) -> Status {
        let shown = match &self.body[..] {
            [] => "<empty>".to_owned(),
            [b'{', ..] => String::from_utf8_lossy(&self.body[..self.body.len().min(MAX_SHOWN)]).into_owned(),
            bytes => bytes.iter().take(MAX_SHOWN).map(|b| format!("{b:02x}")).collect(),
        };
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({shown})",
            self.res.kind
        ))
    }

    /// Checks a decoded object against what the endpoint takes.
    pub fn accept_object(
        &self,
        decoded: Decoded,
        options: &WriteOptions,
        source: Source,
    ) -> Result<Value, Status> {
        let Decoded { mut value, duplicates, oddities, sorted } = decoded;
        let (kind, api_version) = (&self.res.kind, &self.res.api_version);
        if let (true, Value::Object(m)) = (self.res.is_custom(), &value) {
            self.check_custom_kind(m, source)?;
        }
        if let (true, Some(m)) =
            (self.res.is_custom(), value.get_mut("metadata").and_then(Value::as_object_mut))
        {
            // Metadata passes through its type, which has no empty fields. An empty list of managers says something.
            m.retain(|k, v| k == "managedFields" || !is_empty(v));
        }
        identify(&mut value, kind, api_version)?;
        for f in ["labels", "annotations"] {
            for (_, v) in value["metadata"].get_mut(f).and_then(Value::as_object_mut).into_iter().flatten() {
                if v.is_null() {
                    // A map of strings has no nulls.
                    *v = Value::String(String::new());
                }
            }
        }
        // A typed reader meets unknown and duplicate fields in the order of the document.
        let together = source == Source::Document && !self.res.is_custom() && !duplicates.is_empty();
        let before = together.then(|| value.clone());
        let mut unknown = self.drop_unknown(&mut value)?;
        if options.field_validation == FieldValidation::Ignore {
            return Ok(value);
        }
        if self.res.is_custom() {
            unknown.sort_by_key(|path| (custom_rank(path), path.clone()));
        } else if sorted {
            unknown.sort();
        }
        let found = complaints(&unknown, &duplicates, before.as_ref());
        self.report(options.field_validation, &oddities, found)?;
        Ok(value)
    }

    /// Checks an applied configuration. Whoever applies owns every field, so one that nobody knows is an error
    /// however lenient the client is about others.
    pub fn accept_applied(&self, decoded: Decoded, options: &WriteOptions) -> Result<Value, Status> {
        let Decoded { mut value, oddities, .. } = decoded;
        match options.field_validation {
            FieldValidation::Strict if !oddities.each().is_empty() => {
                let why = oddities.refusals().join(", ");
                return Err(Status::bad_request(format!(
                    "error strict decoding YAML: error converting YAML to JSON: {why}"
                )));
            }
            FieldValidation::Warn => self.warn_all(oddities.each().to_vec()),
            _ => {}
        }
        let res = &self.res;
        let mut errors = ek_apply::typed::check(&value, res.node());
        if errors.is_empty() {
            identify(&mut value, &res.kind, &res.api_version)?;
            let unknown = self.drop_unknown(&mut value)?;
            errors.extend(unknown.iter().map(|p| format!(".{p}: field not declared in schema")));
        }
        if !errors.is_empty() {
            return Err(super::update::apply_status(ApplyError::Invalid {
                namespace: object::namespace(&value).to_owned(),
                name: self.info.name.clone(),
                api_version: ek_apply::managed::group_version(&res.api_version),
                kind: res.kind.clone(),
                errors,
            }));
        }
        Ok(value)
    }

    /// Values of built-in kinds must have their types; those of custom resources are validated later.
    fn check_types(&self, value: &Value) -> Result<(), Status> {
        let (Some(node), false) = (self.res.node(), self.res.is_custom()) else { return Ok(()) };
        ek_schema::check_types(value, node).map_err(|e| {
            Status::bad_request(format!(
                "{} in version {:?} cannot be handled as a {}: {e}",
                self.res.kind, self.res.version, self.res.kind
            ))
        })
    }

    /// Removes what the schema does not know; the paths removed.
    fn drop_unknown(&self, value: &mut Value) -> Result<Vec<String>, Status> {
        let Some(node) = self.res.node() else { return Ok(Vec::new()) };
        if self.res.is_custom() {
            return Ok(ek_schema::prune::prune(value, node, true));
        }
        self.check_types(value)?;
        Ok(ek_schema::prune::prune(value, node, false))
    }

    /// Treats what is odd about a body as the client asked.
    fn report(&self, how: FieldValidation, oddities: &Oddities, found: Vec<String>) -> Result<(), Status> {
        if how == FieldValidation::Warn {
            self.warn_all(oddities.each().to_vec());
            self.warn_all(found);
            return Ok(());
        }
        let all: Vec<String> = oddities.refusals().into_iter().chain(found).collect();
        if all.is_empty() {
            return Ok(());
        }
        let (kind, version) = (&self.res.kind, &self.res.version);
        Err(Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {}",
            all.join(", ")
        )))
    }

    /// A custom resource says its kind itself: there is no type to take it from.
    fn check_custom_kind(&self, m: &Map<String, Value>, source: Source) -> Result<(), Status> {
        let (kind, api_version) = (&self.res.kind, &self.res.api_version);
        let text = |f: &str| m.get(f).and_then(Value::as_str).unwrap_or_default();
        if text("kind").is_empty() {
            let shown = match source {
                Source::Document => String::from_utf8_lossy(&self.body).into_owned(),
                Source::Patch => Value::Object(m.clone()).to_string(),
            };
            return Err(Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in '{shown}' ({shown})"
            )));
        }
        if text("kind") != kind && text("apiVersion") == api_version {
            let path = ek_meta::FieldPath::new("kind");
            let e = FieldError::invalid(&path, text("kind"), format!("must be {kind}"));
            let name = m.get("metadata").and_then(|m| m["name"].as_str()).unwrap_or_default();
            return Err(Status::invalid(&self.res.group, text("kind"), name, &[e]));
        }
        if source == Source::Patch && text("apiVersion") != api_version {
            let path = ek_meta::FieldPath::new("apiVersion");
            let e = FieldError::invalid(&path, text("apiVersion"), format!("must be {api_version}"));
            let name = m.get("metadata").and_then(|m| m["name"].as_str()).unwrap_or_default();
            return Err(Status::invalid(&self.res.group, kind, name, &[e]));
        }
        Ok(())
    }
}

/// How much of a body an error shows.
const MAX_SHOWN: usize = 4096;

/// Where an object comes from: the body itself, or the object as a patch made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Document,
    Patch,
}

fn is_empty(v: &Value) -> bool {
    match v {
        Value::Null => true,
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(m) => m.is_empty(),
        _ => false,
    }
}

/// Unknown fields of a custom resource are found in three walks: its metadata, its schema, the metadata of
/// objects embedded in it.
fn custom_rank(path: &str) -> u8 {
    match path {
        p if p.starts_with("metadata.") => 0,
        p if p.contains(".metadata.") => 2,
        _ => 1,
    }
}

/// Unknown and duplicate fields as complaints: in the order of the document where one is given, else duplicates
/// first. What is unknown is not also a duplicate.
fn complaints(unknown: &[String], duplicates: &[String], document: Option<&Value>) -> Vec<String> {
    let beneath = |p: &String, u: &String| {
        p.strip_prefix(u.as_str()).is_some_and(|r| r.is_empty() || r.starts_with(['.', '[']))
    };
    let known = |p: &&String| !unknown.iter().any(|u| beneath(p, u));
    let mut all: Vec<(&String, String)> = (duplicates.iter().filter(known))
        .map(|p| (p, format!("duplicate field {p:?}")))
        .chain(unknown.iter().map(|p| (p, format!("unknown field {p:?}"))))
        .collect();
    if let Some(document) = document {
        let mut order = HashMap::new();
        positions(document, &mut String::new(), &mut order);
        all.sort_by_key(|(p, _)| order.get(p.as_str()).copied().unwrap_or(usize::MAX));
    }
    all.into_iter().map(|(_, text)| text).collect()
}

fn positions(v: &Value, path: &mut String, out: &mut HashMap<String, usize>) {
    use std::fmt::Write;
    let len = path.len();
    let mut each = |step: std::fmt::Arguments<'_>, v: &Value, path: &mut String| {
        let _ = path.write_fmt(step);
        out.insert(path.clone(), out.len());
        positions(v, path, out);
        path.truncate(len);
    };
    match v {
        Value::Object(m) => {
            let dot = if len > 0 { "." } else { "" };
            m.iter().for_each(|(k, v)| each(format_args!("{dot}{k}"), v, path));
        }
        Value::Array(a) => a.iter().enumerate().for_each(|(i, v)| each(format_args!("[{i}]"), v, path)),
        _ => {}
    }
}

/// Metadata of custom resources has no schema of its own; inner code relies on these types.
fn metadata_types(obj: &Value, kind: &str) -> Result<(), Status> {
    let meta = &obj["metadata"];
    let fail = |field: &str, v: &Value, want: &str| {
        Err(Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: json: cannot unmarshal {} into Go struct field ObjectMeta.metadata.{field} of type {want}",
            obj["apiVersion"].as_str().and_then(|v| v.rsplit('/').next()).unwrap_or_default(),
            type_name(v)
        )))
    };
    for f in ["name", "generateName", "namespace", "uid", "resourceVersion", "selfLink"] {
        match &meta[f] {
            Value::Null | Value::String(_) => {}
            v => return fail(f, v, "string"),
        }
    }
    for f in ["labels", "annotations"] {
        match &meta[f] {
            Value::Null => {}
            Value::Object(m) => {
                if let Some((_, v)) = m.iter().find(|(_, v)| !v.is_string() && !v.is_null()) {
                    return fail(f, v, "string");
                }
            }
            v => return fail(f, v, "map[string]string"),
        }
    }
    match &meta["finalizers"] {
        Value::Null => {}
        Value::Array(a) if a.iter().all(Value::is_string) => {}
        v => return fail("finalizers", v, "[]string"),
    }
    for f in ["ownerReferences", "managedFields"] {
        match &meta[f] {
            Value::Null => {}
            Value::Array(a) if a.iter().all(Value::is_object) => {}
            v => return fail(f, v, "[]v1.OwnerReference"),
        }
    }
    Ok(())
}

/// Completes and checks kind, version and the types of metadata.
fn identify(value: &mut Value, kind: &str, api_version: &str) -> Result<(), Status> {
    let Value::Object(m) = value else {
        return Err(Status::bad_request(format!(
            "couldn't get version/kind; json parse error: expected an object, got {}",
            type_name(value)
        )));
    };
    for (field, want) in [("apiVersion", api_version), ("kind", kind)] {
        match m.get(field).and_then(Value::as_str) {
            None | Some("") => {
                m.insert(field.into(), json!(want));
            }
            Some(got) if got == want => {}
            Some(_) => return Err(another_kind(m, kind, api_version)),
        }
    }
    match m.get("metadata") {
        None | Some(Value::Null) => {
            m.insert("metadata".into(), Value::Object(Map::new()));
        }
        Some(Value::Object(_)) => {}
        Some(other) => {
            return Err(Status::bad_request(format!(
                "{kind} in version {:?} cannot be handled as a {kind}: json: cannot unmarshal {} into Go struct field {kind}.metadata of type v1.ObjectMeta",
                api_version.rsplit('/').next().unwrap_or_default(),
                type_name(other)
            )));
        }
    }
    metadata_types(value, kind)
}

/// What is wrong with a body of another kind or version.
fn another_kind(m: &Map<String, Value>, kind: &str, api_version: &str) -> Status {
    let said = |f: &str| m.get(f).and_then(Value::as_str).unwrap_or_default();
    let got_version = if said("apiVersion").is_empty() { api_version } else { said("apiVersion") };
    let got = if said("kind").is_empty() { kind } else { said("kind") };
    let group = |v: &str| v.split_once('/').map_or("", |(g, _)| g).to_owned();
    let short = |v: &str| v.rsplit('/').next().unwrap_or_default().to_owned();
    let registered = ek_data::definition_name_of(got_version, got).is_some();
    if got == kind && group(got_version) == group(api_version) && registered {
        return Status::bad_request(format!(
            "the API version in the data ({got_version}) does not match the expected API version ({api_version})"
        ));
    }
    // Internal packages are called after the first word of their group.
    let package = match group(api_version).split('.').next() {
        None | Some("") => "core".to_owned(),
        Some(g) => g.to_owned(),
    };
    let why = match registered {
        true => {
            format!("converting ({}.{got}) to ({package}.{kind}): unknown conversion", short(got_version))
        }
        false => format!(
            "no kind {got:?} is registered for version {got_version:?} in scheme \"pkg/runtime/scheme.go:110\""
        ),
    };
    Status::bad_request(format!(
        "{got} in version {:?} cannot be handled as a {kind}: {why}",
        short(got_version)
    ))
}
