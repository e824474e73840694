//! Canonical bytes: `{"kind":…,"apiVersion":…,"metadata":{…},…}` in one fixed order.
//!
//! The fixed head is what lets lists drop kind and apiVersion, and a served version replace the stored one,
//! by slicing bytes instead of parsing them.

use ek_meta::object;
use ek_store::{Draft, Meta, Owner};
use serde_json::{Map, Value};

/// Order of metadata fields, as Go writes them. Anything else follows.
const METADATA: [&str; 14] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// The head shared by all objects of one kind and version.
pub fn head(kind: &str, api_version: &str) -> String {
    format!("{{\"kind\":{},\"apiVersion\":{},", quoted(kind), quoted(api_version))
}

fn quoted(s: &str) -> String {
    Value::String(s.to_owned()).to_string()
}

/// Writing JSON into memory cannot fail.
fn write(out: &mut Vec<u8>, v: &Value) {
    let _ = serde_json::to_writer(out, v);
}

fn write_key(out: &mut Vec<u8>, first: &mut bool, key: &str) {
    if !*first {
        out.push(b',');
    }
    *first = false;
    let _ = serde_json::to_writer(&mut *out, key);
    out.push(b':');
}

/// Canonical bytes with a hole for the resource version. `head` must fit the object's kind.
pub fn draft(obj: &Value, head: &str, schema_stamp: u64) -> Draft {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(b"\"metadata\":{");
    let empty = Map::new();
    let meta = obj.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let mut first = true;
    let mut revision_at = 0;
    for key in METADATA {
        if key == "resourceVersion" {
            write_key(&mut out, &mut first, key);
            out.extend_from_slice(b"\"\"");
            revision_at = out.len() - 1;
        } else if let Some(v) = meta.get(key).filter(|v| !is_empty(v)) {
            write_key(&mut out, &mut first, key);
            write(&mut out, v);
        }
    }
    for (key, v) in meta {
        if !METADATA.contains(&key.as_str()) && key != "selfLink" && !is_empty(v) {
            write_key(&mut out, &mut first, key);
            write(&mut out, v);
        }
    }
    out.push(b'}');
    for (key, v) in obj.as_object().unwrap_or(&empty) {
        if !matches!(key.as_str(), "kind" | "apiVersion" | "metadata") {
            let mut first = false;
            write_key(&mut out, &mut first, key);
            write(&mut out, v);
        }
    }
    out.push(b'}');
    Draft { bytes: out, revision_at, meta: side_record(meta, schema_stamp) }
}

/// An object that was written, as it would be read from its bytes.
pub fn as_read(mut obj: Value, revision: u64) -> Value {
    let meta = object::metadata_mut(&mut obj);
    meta.retain(|k, v| k != "selfLink" && !is_empty(v));
    meta.insert("resourceVersion".into(), revision.to_string().into());
    obj
}

/// Absent, null and empty are the same for metadata fields.
fn is_empty(v: &Value) -> bool {
    match v {
        Value::Null => true,
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(m) => m.is_empty(),
        _ => false,
    }
}

fn side_record(meta: &Map<String, Value>, schema_stamp: u64) -> Meta {
    let text = |k: &str| meta.get(k).and_then(Value::as_str).unwrap_or_default();
    let list = |k: &str| meta.get(k).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut labels: Vec<(Box<str>, Box<str>)> = (meta.get("labels").and_then(Value::as_object))
        .map(|m| m.iter().filter_map(|(k, v)| Some((k.as_str().into(), v.as_str()?.into()))).collect())
        .unwrap_or_default();
    labels.sort();
    Meta {
        uid: text("uid").into(),
        labels: labels.into(),
        owners: list("ownerReferences")
            .iter()
            .map(|o| Owner {
                uid: object::str_at(o, &["uid"]).unwrap_or_default().into(),
                block_deletion: o.get("blockOwnerDeletion").and_then(Value::as_bool).unwrap_or(false),
            })
            .collect(),
        has_finalizers: !list("finalizers").is_empty(),
        deleting: !text("deletionTimestamp").is_empty(),
        schema_stamp,
    }
}

/// The bytes as they would be stored at the present revision: what a dry run answers.
pub fn preview(obj: &Value, head: &str, revision: &str) -> Vec<u8> {
    let d = draft(obj, head, 0);
    if revision.is_empty() {
        // A dry-run create has no revision: cut the empty field out of the middle of metadata.
        let mut bytes = d.bytes;
        let field = b"\"resourceVersion\":\"\"";
        let start = d.revision_at + 1 - field.len();
        let mut end = d.revision_at + 1;
        let mut from = start;
        if bytes.get(end) == Some(&b',') {
            end += 1;
        } else if bytes.get(from.wrapping_sub(1)) == Some(&b',') {
            from -= 1;
        }
        bytes.drain(from..end);
        return bytes;
    }
    let mut out = d.bytes[..d.revision_at].to_vec();
    out.extend_from_slice(revision.as_bytes());
    out.extend_from_slice(&d.bytes[d.revision_at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_order_for_all() {
        let o = json!({"data": {"z": "1"}, "metadata": {"labels": {"b": "1", "a": "2"}, "name": "n",
            "annotations": {}, "uid": "u", "finalizers": ["x"]}, "apiVersion": "v1", "kind": "ConfigMap"});
        let h = head("ConfigMap", "v1");
        let d = draft(&o, &h, 7);
        assert_eq!(
            std::str::from_utf8(&d.bytes).unwrap(),
            "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"resourceVersion\":\"\",\"labels\":{\"b\":\"1\",\"a\":\"2\"},\"finalizers\":[\"x\"]},\"data\":{\"z\":\"1\"}}"
        );
        let stored: Value = serde_json::from_slice(&preview(&o, &h, "9")).unwrap();
        assert_eq!(as_read(o.clone(), 9), stored);
        assert_eq!(d.meta.label("a"), Some("2"));
        assert!(d.meta.has_finalizers);
        assert_eq!(d.meta, Meta { schema_stamp: 7, ..Meta::from_bytes(&d.bytes).unwrap() });
        let p = preview(&o, &h, "");
        assert!(!String::from_utf8(p.clone()).unwrap().contains("resourceVersion"));
        serde_json::from_slice::<Value>(&p).unwrap();
        let v: Value = serde_json::from_slice(&preview(&o, &h, "12")).unwrap();
        assert_eq!(v["metadata"]["resourceVersion"], "12");
    }
}
