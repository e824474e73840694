//! The scale subresource: one integer and a selector, read from and written to the parent.

use super::Call;
use super::update::{self, Next, patched};
use crate::wire::body;
use crate::wire::negotiate::{self, PatchType};
use crate::wire::params::WriteOptions;
use crate::wire::respond::{self, Reply};
use ek_meta::object;
use ek_meta::{FieldError, FieldPath, Status};
use serde_json::{Value, json};

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
    let meta = &parent["metadata"];
    let mut out = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"], "creationTimestamp": meta["creationTimestamp"]},
        "spec": {}, "status": {"replicas": dig(parent, &p.status).and_then(Value::as_i64).unwrap_or(0)},
    });
    if let Some(n) = dig(parent, &p.spec).and_then(Value::as_i64) {
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

pub async fn run(call: &Call) -> Result<Reply, Status> {
    let accepted = negotiate::accept(&call.headers, false)?;
    let entry = call.live()?;
    if call.info.verb == "get" {
        let parent = call.cluster.read(&call.res, &entry).await?;
        let path = paths(call).spec;
        if call.res.is_custom() && dig(&parent, &path).is_none() {
            let path = path.join(".");
            return Err(Status::internal(format!("the spec replicas field \".{path}\" does not exist")));
        }
        return Ok(respond::value(200, accepted.encoding, &scale_of(call, &parent)));
    }
    let kind = if call.info.verb == "update" { "UpdateOptions" } else { "PatchOptions" };
    let options = WriteOptions::parse(&call.params, kind)?;
    let (body, patch) = if call.info.verb == "update" {
        let ty = negotiate::body_type(&call.headers, true)?;
        (body::decode(&call.body, ty)?.value, None)
    } else {
        let ty = negotiate::patch_type(&call.headers, true)?;
        match ty {
            PatchType::Apply => (body::yaml(&call.body)?.value, Some(PatchType::Merge)),
            // A Scale has no lists, so strategic and merge patches are the same.
            PatchType::Strategic => (body::json(&call.body)?.value, Some(PatchType::Merge)),
            ty => (body::json(&call.body)?.value, Some(ty)),
        }
    };
    let spec = paths(call).spec;
    let transform = |parent: &Value| {
        let new = match patch {
            None => body.clone(),
            Some(ty) => patched(call, scale_of(call, parent), &body, ty)?,
        };
        let name = object::name(&new);
        if !name.is_empty() && name != call.info.name {
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                call.info.name
            )));
        }
        let replicas = new["spec"]["replicas"].as_i64().unwrap_or(0);
        if replicas < 0 || i32::try_from(replicas).is_err() {
            let e = FieldError::invalid(
                &FieldPath::new("spec.replicas"),
                replicas,
                "must be greater than or equal to 0",
            );
            return Err(Status::invalid("autoscaling", "Scale", &call.info.name, &[e]));
        }
        let mut out = parent.clone();
        set(&mut out, &spec, json!(replicas));
        let rv = object::resource_version(&new);
        if !rv.is_empty() {
            object::metadata_mut(&mut out).insert("resourceVersion".into(), json!(rv));
        }
        // What nobody owned, a scale does not claim either.
        let path: Vec<&str> = spec.iter().map(String::as_str).collect();
        let owned = parent["metadata"].get("managedFields");
        let untracked = ek_apply::managed::parent_to_scale(owned, &path).is_none();
        Ok(Next { object: out, applied: untracked })
    };
    // The parent is written as a whole; only the name under which the field is owned is the subresource's.
    let mut parent_call = call.clone();
    parent_call.info.subresource = "scale".into();
    let stored = update::run(&parent_call, &transform, &options, None).await?;
    let parent = call.cluster.read(&call.res, &stored).await?;
    Ok(respond::value(200, accepted.encoding, &scale_of(call, &parent)))
}

fn set(v: &mut Value, path: &[String], to: Value) {
    let Some((first, rest)) = path.split_first() else {
        *v = to;
        return;
    };
    if !v.is_object() {
        *v = json!({});
    }
    if let Some(m) = v.as_object_mut() {
        set(m.entry(first.clone()).or_insert(Value::Null), rest, to);
    }
}
