//! The scale subresource: one integer and a selector, read from and written to the parent.

use super::Call;
use super::update::{self, Next, Step};
use crate::present::{self, IncludeObject};
use crate::registry;
use crate::wire::body::{self, Decoded};
use crate::wire::negotiate::{self, Accepted, PatchType, Shape};
use crate::wire::params::WriteOptions;
use crate::wire::respond::{self, Reply};
use ek_meta::object;
use ek_meta::{FieldError, FieldPath, Status};
use serde_json::{Map, Value, json};

/// Where the parent keeps what a Scale shows.
struct Paths {
    spec: Vec<String>,
    status: Vec<String>,
    selector: Option<Vec<String>>,
}

fn paths(call: &Call) -> Paths {
    match call.res.custom.as_ref().and_then(|c| c.scale.as_ref()) {
        Some(s) => Paths {
            spec: s.spec_replicas.clone(),
            status: s.status_replicas.clone(),
            selector: s.label_selector.clone(),
        },
        None => Paths {
            spec: vec!["spec".into(), "replicas".into()],
            status: vec!["status".into(), "replicas".into()],
            selector: Some(vec!["spec".into(), "selector".into()]),
        },
    }
}

fn dig<'a>(v: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(v, |v, k| v.get(k))
}

/// The Scale of a parent object.
fn scale_of(call: &Call, parent: &Value) -> Value {
    let p = paths(call);
    let mut meta = Map::new();
    for f in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(v) = parent["metadata"].get(f) {
            meta.insert(f.into(), v.clone());
        }
    }
    let mut out = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta,
        "spec": {}, "status": {"replicas": dig(parent, &p.status).and_then(Value::as_i64).unwrap_or(0)},
    });
    // Zero is what a Scale without the field means.
    if let Some(n) = dig(parent, &p.spec).and_then(Value::as_i64).filter(|n| *n != 0) {
        out["spec"]["replicas"] = json!(n);
    }
    let selector = p.selector.as_ref().and_then(|s| dig(parent, s)).map(|s| match s {
        Value::String(s) => s.clone(),
        // Replication controllers select by a plain map.
        v if call.res.plural == "replicationcontrollers" => {
            ek_meta::selector::LabelSelector::from_json(&json!({"matchLabels": v}))
                .map(|s| s.to_string())
                .unwrap_or_default()
        }
        v => ek_meta::selector::LabelSelector::from_json(v).map(|s| s.to_string()).unwrap_or_default(),
    });
    if let Some(s) = selector.filter(|s| !s.is_empty()) {
        out["status"]["selector"] = json!(s);
    }
    out
}

fn reply(call: &Call, accepted: Accepted, parent: &Value) -> Result<Reply, Status> {
    let scale = scale_of(call, parent);
    if accepted.shape == Shape::Object {
        return Ok(respond::value(200, accepted.encoding, &scale));
    }
    let include = IncludeObject::parse(call.params.get("includeObject"))?;
    let v = present::object(registry::scale(), scale, accepted.shape, include, call.cluster.now());
    Ok(respond::value(200, accepted.encoding, &v))
}

pub async fn run(call: &Call) -> Result<Reply, Status> {
    let accepted = call.accepted(true)?;
    let entry = call.live()?;
    if call.info.verb == "get" {
        let parent = call.cluster.read(&call.res, &entry).await?;
        let path = paths(call).spec;
        if call.res.is_custom() && dig(&parent, &path).is_none() {
            let path = path.join(".");
            return Err(Status::internal(format!("the spec replicas field \".{path}\" does not exist")));
        }
        return reply(call, accepted, &parent);
    }
    let kind = if call.info.verb == "update" { "UpdateOptions" } else { "PatchOptions" };
    let options = WriteOptions::parse(&call.params, kind)?;
    // The Scale is read, merged and owned as an object of its own kind, then laid over its parent.
    let mut own = call.clone();
    own.res = registry::scale().clone();
    let write = Write::read(&own, &options)?;
    let transform = |parent: &Value| write.next(call, &own, &options, parent);
    let stored = update::run_steps(call, &transform, &options, None).await?.0;
    let parent = call.cluster.read(&call.res, &stored).await?;
    reply(call, accepted, &parent)
}

/// What a request wants of the Scale.
enum Write {
    Put(Value),
    Patch(Decoded, PatchType),
    Apply { config: Value, manager: String },
}

impl Write {
    fn read(own: &Call, options: &WriteOptions) -> Result<Write, Status> {
        if own.info.verb == "update" {
            return own.decode_object(options).map(Write::Put);
        }
        match negotiate::patch_type(&own.headers, true)? {
            PatchType::Apply => {
                let (config, manager) = update::applied_configuration(own, options)?;
                Ok(Write::Apply { config, manager })
            }
            ty => Ok(Write::Patch(body::patch(&own.body, ty)?, ty)),
        }
    }

    /// The parent as this makes it.
    fn next(&self, call: &Call, own: &Call, options: &WriteOptions, parent: &Value) -> Result<Step, Status> {
        let replicas = paths(call).spec;
        let replicas: Vec<&str> = replicas.iter().map(String::as_str).collect();
        let books = parent["metadata"].get("managedFields");
        let mut live = scale_of(call, parent);
        if let Some(books) = ek_apply::managed::parent_to_scale(books, &replicas) {
            object::metadata_mut(&mut live).insert("managedFields".into(), books);
        }
        let now = call.cluster.timestamp();
        let types = ek_apply::SingleType(own.res.node());
        let none = ek_apply::Set::default();
        let updater = own.manager(options);
        let writer = |manager| own.writer(manager, "scale", "autoscaling/v1", &now);
        let new = match self {
            Write::Apply { config, manager } => {
                let out =
                    ek_apply::apply(&types, Some(&live), config, &writer(manager), options.force, &none)
                        .map_err(update::apply_status)?;
                if !out.changed {
                    return Ok(Step::Keep);
                }
                out.object.into_owned()
            }
            Write::Put(_) | Write::Patch(..) => {
                let mut new = match self {
                    Write::Patch(patch, ty) => update::accept_patch(own, &live, patch, *ty, options)?,
                    Write::Put(v) => v.clone(),
                    Write::Apply { .. } => return Err(Status::internal("an apply is no patch")),
                };
                ek_apply::update(&types, Some(&live), &mut new, &writer(&updater), &none);
                new
            }
        };
        check(call, &new, parent)?;
        let n = new["spec"]["replicas"].as_i64().unwrap_or(0);
        let mut out = parent.clone();
        set(&mut out, &replicas, json!(n));
        let meta = object::metadata_mut(&mut out);
        let rv = object::resource_version(&new);
        if !rv.is_empty() {
            meta.insert("resourceVersion".into(), json!(rv));
        }
        let claims = new["metadata"].get("managedFields");
        match ek_apply::managed::scale_to_parent(books, claims, &replicas, &call.res.api_version) {
            Some(books) => meta.insert("managedFields".into(), books),
            None => meta.shift_remove("managedFields"),
        };
        Ok(Step::Write(Next { object: out, applied: true }))
    }
}

/// What a custom resource says of its replicas must be readable and a number of things.
pub fn validate(obj: &Value, paths: [&Vec<String>; 2]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for path in paths {
        let name = format!(".{}", path.join("."));
        let at = FieldPath::new(name.clone());
        let mut v = obj;
        for key in path {
            let container = match v {
                Value::Object(m) => m,
                Value::Null => break,
                other => {
                    let ty = match other {
                        Value::Array(_) => "[]interface {}",
                        Value::String(_) => "string",
                        Value::Bool(_) => "bool",
                        _ => "int64",
                    };
                    let why = format!(
                        "{name} accessor error: {other} is of the type {ty}, expected map[string]interface{{}}"
                    );
                    errors.push(FieldError::invalid(&at, 0, why));
                    break;
                }
            };
            v = container.get(key).unwrap_or(&Value::Null);
        }
        match v.as_i64() {
            Some(n) if n < 0 => {
                errors.push(FieldError::invalid(&at, n, "should be a non-negative integer"));
            }
            Some(n) if n > i64::from(i32::MAX) => {
                let why = format!("should be less than or equal to {}", i32::MAX);
                errors.push(FieldError::invalid(&at, n, why));
            }
            _ => {}
        }
    }
    errors
}

/// The Scale must be of its parent, and sensible.
fn check(call: &Call, new: &Value, parent: &Value) -> Result<(), Status> {
    let (res, name) = (&call.res, object::name(new));
    if !name.is_empty() && name != call.info.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.info.name
        )));
    }
    let uid = object::uid(new);
    if !uid.is_empty() && uid != object::uid(parent) {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            object::uid(parent)
        );
        let of = format!("{}/scale", res.plural);
        return Err(Status::conflict(&res.group, &of, &call.info.name, &why));
    }
    let replicas = new["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let path = FieldPath::new("spec.replicas");
        let e = FieldError::invalid(&path, replicas, "must be greater than or equal to 0");
        return Err(Status::invalid("autoscaling", "Scale", &call.info.name, &[e]));
    }
    Ok(())
}

fn set(v: &mut Value, path: &[&str], to: Value) {
    let Some((first, rest)) = path.split_first() else {
        *v = to;
        return;
    };
    if !v.is_object() {
        *v = json!({});
    }
    if let Some(m) = v.as_object_mut() {
        set(m.entry((*first).to_owned()).or_insert(Value::Null), rest, to);
    }
}
