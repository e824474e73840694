//! Rules for metadata that hold for every kind.

use ek_meta::object::at;
use ek_meta::{FieldError, FieldPath, names};
use serde_json::Value;

/// Annotations of one object may not be larger in sum.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// How a kind's names are checked.
pub type NameRule = fn(&str) -> Vec<String>;

pub fn validate(obj: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = FieldPath::new("metadata");
    let meta = &obj["metadata"];
    let name = meta["name"].as_str().unwrap_or_default();
    if let Some(base) = meta["generateName"].as_str().filter(|b| !b.is_empty()) {
        // A prefix may end in what a whole name may not.
        let trimmed = format!("{}a", base.trim_end_matches('-'));
        for m in rule(&trimmed) {
            errors.push(FieldError::invalid(&path.child("generateName"), base, m));
        }
    }
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), "name or generateName is required"));
    } else {
        for m in rule(name) {
            errors.push(FieldError::invalid(&path.child("name"), name, m));
        }
    }
    let ns = meta["namespace"].as_str().unwrap_or_default();
    if namespaced {
        if ns.is_empty() {
            errors.push(FieldError::required(&path.child("namespace"), ""));
        } else {
            for m in names::dns_label(ns) {
                errors.push(FieldError::invalid(&path.child("namespace"), ns, m));
            }
        }
    } else if !ns.is_empty() {
        errors.push(FieldError::forbidden(&path.child("namespace"), "not allowed on this type"));
    }
    labels(&meta["labels"], &path.child("labels"), &mut errors);
    annotations(&meta["annotations"], &path.child("annotations"), &mut errors);
    owners(&meta["ownerReferences"], &path.child("ownerReferences"), &mut errors);
    finalizers(&meta["finalizers"], &path.child("finalizers"), &mut errors);
    errors
}

pub fn labels(v: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (k, v) in v.as_object().into_iter().flatten() {
        for m in names::qualified_name(k) {
            errors.push(FieldError::invalid(path, k.as_str(), m));
        }
        match v.as_str() {
            Some(s) => {
                for m in names::label_value(s) {
                    errors.push(FieldError::invalid(path, s, m));
                }
            }
            None => errors.push(FieldError::invalid(&path.key(k), v.clone(), "must be a string")),
        }
    }
}

fn annotations(v: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut total = 0;
    for (k, v) in v.as_object().into_iter().flatten() {
        for m in names::qualified_name(&k.to_lowercase()) {
            errors.push(FieldError::invalid(path, k.as_str(), m));
        }
        total += k.len() + v.as_str().map_or(0, str::len);
    }
    if total > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long(path, MAX_ANNOTATIONS));
    }
}

fn owners(v: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let text = |o: &Value, f: &str| o[f].as_str().unwrap_or_default().to_owned();
    let shown = |o: &Value| format!("{}/{}", text(o, "kind"), text(o, "name"));
    let mut controller: Option<&Value> = None;
    for (i, o) in v.as_array().into_iter().flatten().enumerate() {
        let p = path.index(i);
        // Which reference it is has never been said here.
        for (f, what) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if o[f].as_str().is_none_or(str::is_empty) {
                errors.push(FieldError::invalid(&path.child(f), o[f].as_str().unwrap_or_default(), what));
            }
        }
        if o["kind"] == "Event" && o["apiVersion"] == "v1" {
            errors.push(FieldError::invalid(&p, "v1, Kind=Event", "is disallowed from being an owner"));
        }
        if o["controller"] == true {
            if let Some(first) = controller {
                errors.push(FieldError::invalid(
                    path,
                    v.clone(),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                        shown(first),
                        shown(o)
                    ),
                ));
                break;
            }
            controller = Some(o);
        }
    }
}

/// Built-in kinds know their unqualified finalizers.
pub fn standard_finalizers(obj: &Value) -> Vec<FieldError> {
    let path = FieldPath::new("metadata.finalizers");
    let list = obj["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str);
    list.enumerate()
        .filter(|(_, f)| !f.contains('/') && !matches!(*f, "kubernetes" | "orphan" | "foregroundDeletion"))
        .map(|(i, f)| {
            let text = "name is neither a standard finalizer name nor is it fully qualified";
            FieldError::invalid(&path.index(i), f, text)
        })
        .collect()
}

fn finalizers(v: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let list: Vec<&str> = v.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (i, f) in list.iter().enumerate() {
        for m in names::qualified_name(f) {
            errors.push(FieldError::invalid(&path.index(i), *f, m));
        }
    }
    if list.contains(&"orphan") && list.contains(&"foregroundDeletion") {
        errors.push(FieldError::invalid(
            path,
            v.clone(),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

/// What an update may not change.
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = FieldPath::new("metadata");
    let fixed =
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];
    for f in fixed {
        let (a, b) = (&new["metadata"][f], &old["metadata"][f]);
        if a != b && !(a.is_null() && b == "") {
            errors.push(FieldError::invalid(&path.child(f), a.clone(), "field is immutable"));
        }
    }
    if !old["metadata"]["deletionTimestamp"].is_null() {
        let of = |v: &Value| -> Vec<String> {
            at(v, &["metadata", "finalizers"])
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        let before = of(old);
        let added: Vec<String> = of(new).into_iter().filter(|f| !before.contains(f)).collect();
        if !added.is_empty() {
            let list = added.iter().map(|f| format!("{f:?}")).collect::<Vec<_>>().join(", ");
            errors.push(FieldError::forbidden(
                &path.child("finalizers"),
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
                ),
            ));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(e: Vec<FieldError>) -> Vec<String> {
        e.iter().map(|e| e.field.clone()).collect()
    }

    #[test]
    fn metadata_rules() {
        let ok = json!({"metadata": {"name": "a", "namespace": "b", "labels": {"x/y": "z"}}});
        assert!(validate(&ok, true, names::dns_subdomain).is_empty());
        let bad = json!({"metadata": {"name": "A", "labels": {"-": "z"}, "annotations": {"a b": ""},
            "finalizers": ["orphan", "foregroundDeletion"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "n"}]}});
        assert_eq!(
            texts(validate(&bad, true, names::dns_subdomain)),
            [
                "metadata.name",
                "metadata.namespace",
                "metadata.labels",
                "metadata.annotations",
                "metadata.ownerReferences.uid",
                "metadata.finalizers"
            ]
        );
    }

    #[test]
    fn a_dying_object_takes_no_new_finalizers() {
        let old = json!({"metadata": {"name": "a", "deletionTimestamp": "x", "finalizers": ["a/b"]}});
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!(["a/b", "c/d"]);
        assert_eq!(texts(validate_update(&new, &old)), ["metadata.finalizers"]);
        new["metadata"]["finalizers"] = json!([]);
        assert!(validate_update(&new, &old).is_empty());
    }
}
