//! What makes a CRD invalid.

use crate::jsonpath::JsonPath;
use ek_meta::object::{at, str_at};
use ek_meta::{FieldError, FieldPath, names};
use serde_json::Value;

/// Everything wrong with a CRD; `old` is what it replaces.
pub fn validate(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let root = FieldPath::root();
    let spec = root.child("spec");
    let text = |p: &[&str]| str_at(crd, p).unwrap_or_default();
    let (name, group, plural) =
        (text(&["metadata", "name"]), text(&["spec", "group"]), text(&["spec", "names", "plural"]));
    if name != format!("{plural}.{group}") {
        errors.push(FieldError::invalid(
            &FieldPath::new("metadata.name"),
            name,
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    if group.is_empty() {
        errors.push(FieldError::required(&spec.child("group"), ""));
    } else {
        for m in names::dns_subdomain(group) {
            errors.push(FieldError::invalid(&spec.child("group"), group, m));
        }
        if !group.contains('.') {
            errors.push(FieldError::invalid(
                &spec.child("group"),
                group,
                "should be a domain with at least one dot",
            ));
        }
    }
    let protected = group.ends_with(".k8s.io") || group.ends_with(".kubernetes.io");
    let approved = at(crd, &["metadata", "annotations"]).and_then(|a| a.get("api-approved.kubernetes.io"));
    if protected && approved.is_none() {
        errors.push(FieldError::required(
            &FieldPath::new("metadata.annotations[api-approved.kubernetes.io]"),
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
        ));
    }
    match text(&["spec", "scope"]) {
        "Namespaced" | "Cluster" => {}
        "" => errors.push(FieldError::required(&spec.child("scope"), "")),
        other => {
            errors.push(FieldError::not_supported(&spec.child("scope"), other, &["Cluster", "Namespaced"]));
        }
    }
    if at(crd, &["spec", "preserveUnknownFields"]) == Some(&Value::Bool(true)) {
        errors.push(FieldError::invalid(
            &spec.child("preserveUnknownFields"),
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
    check_names(crd, &spec.child("names"), &mut errors);
    check_versions(crd, &spec.child("versions"), &mut errors);
    check_conversion(crd, &spec.child("conversion"), &mut errors);
    if let Some(old) = old {
        for (label, p) in [("group", &["spec", "group"][..]), ("scope", &["spec", "scope"])] {
            if at(crd, p) != at(old, p) {
                errors.push(FieldError::invalid(&spec.child(label), text(p), "field is immutable"));
            }
        }
        for f in ["plural", "kind"] {
            let p = ["spec", "names", f];
            if at(crd, &p) != at(old, &p) {
                errors.push(FieldError::invalid(
                    &spec.child("names").child(f),
                    text(&p),
                    "field is immutable",
                ));
            }
        }
        stored_versions_remain(crd, &mut errors);
    }
    errors
}

fn check_names(crd: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let text = |f: &str| str_at(crd, &["spec", "names", f]).unwrap_or_default();
    for f in ["plural", "singular", "kind", "listKind"] {
        let v = text(f);
        if v.is_empty() {
            if f == "plural" || f == "kind" {
                errors.push(FieldError::required(&path.child(f), ""));
            }
            continue;
        }
        for m in names::dns_1035_label(&v.to_lowercase()) {
            errors.push(FieldError::invalid(&path.child(f), v, m));
        }
    }
    if !text("kind").is_empty() && text("kind") == text("listKind") {
        errors.push(FieldError::invalid(
            &path.child("listKind"),
            text("listKind"),
            "kind and listKind may not be the same",
        ));
    }
    for list in ["shortNames", "categories"] {
        let items = at(crd, &["spec", "names", list]).and_then(Value::as_array);
        for (i, v) in items.into_iter().flatten().filter_map(Value::as_str).enumerate() {
            for m in names::dns_1035_label(v) {
                errors.push(FieldError::invalid(&path.child(list).index(i), v, m));
            }
        }
    }
}

fn check_versions(crd: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let versions =
        at(crd, &["spec", "versions"]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if versions.is_empty() {
        errors.push(FieldError::required(path, "must have at least one version"));
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for (i, v) in versions.iter().enumerate() {
        let p = path.index(i);
        let name = v["name"].as_str().unwrap_or_default();
        for m in names::dns_1035_label(name) {
            errors.push(FieldError::invalid(&p.child("name"), name, m));
        }
        if seen.contains(&name) {
            errors.push(FieldError::invalid(&p.child("name"), name, "must be unique"));
        }
        seen.push(name);
        // What all versions share is named as if it stood beside them, where it stood in the first version of
        // this API.
        let shared = v["schema"].is_object() && versions.iter().all(|o| o["schema"] == v["schema"]);
        let schema_path = match shared {
            true => FieldPath::new("spec.validation.openAPIV3Schema"),
            false => p.child("schema").child("openAPIV3Schema"),
        };
        match at(v, &["schema", "openAPIV3Schema"]) {
            Some(_) if shared && i > 0 => {}
            Some(s) if s.is_object() => errors.extend(ek_schema::structural::check(s, &schema_path)),
            _ => errors.push(FieldError::required(&schema_path, "schemas are required")),
        }
        for (j, c) in v["additionalPrinterColumns"].as_array().into_iter().flatten().enumerate() {
            let cp = p.child("additionalPrinterColumns").index(j);
            let jp = c["jsonPath"].as_str().unwrap_or_default();
            if c["name"].as_str().is_none_or(str::is_empty) {
                errors.push(FieldError::required(&cp.child("name"), ""));
            }
            let ty = c["type"].as_str().unwrap_or_default();
            const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
            if ty.is_empty() {
                errors.push(FieldError::required(
                    &cp.child("type"),
                    format!("must be one of {}", TYPES.join(",")),
                ));
            } else if !TYPES.contains(&ty) {
                errors.push(FieldError::invalid(
                    &cp.child("type"),
                    ty,
                    format!("must be one of {}", TYPES.join(",")),
                ));
            }
            if jp.is_empty() {
                errors.push(FieldError::required(&cp.child("jsonPath"), ""));
            } else if let Err(e) = JsonPath::parse(jp) {
                errors.push(FieldError::invalid(&cp.child("jsonPath"), jp, e.to_string()));
            }
        }
        for (j, f) in v["selectableFields"].as_array().into_iter().flatten().enumerate() {
            let fp = p.child("selectableFields").index(j).child("jsonPath");
            let jp = f["jsonPath"].as_str().unwrap_or_default();
            match JsonPath::parse(jp).ok().as_ref().and_then(JsonPath::plain_fields) {
                Some(fields) if !fields.is_empty() => selectable(v, &fields, jp, &fp, errors),
                _ => errors.push(FieldError::invalid(
                    &fp,
                    jp,
                    "is an invalid path: must be a simple field path",
                )),
            }
        }
        if let Some(scale) = at(v, &["subresources", "scale"]).filter(|s| s.is_object()) {
            let sp = p.child("subresources").child("scale");
            for (f, prefix, required) in [
                ("specReplicasPath", ".spec.", true),
                ("statusReplicasPath", ".status.", true),
                ("labelSelectorPath", ".", false),
            ] {
                let v = scale[f].as_str().unwrap_or_default();
                if v.is_empty() && required {
                    errors.push(FieldError::required(&sp.child(f), ""));
                } else if !v.is_empty() && !v.starts_with(prefix) {
                    errors.push(FieldError::invalid(
                        &sp.child(f),
                        v,
                        format!("should be a json path under {}", prefix.trim_end_matches('.')),
                    ));
                }
            }
        }
    }
    let storage = versions.iter().filter(|v| v["storage"] == true).count();
    if storage != 1 {
        errors.push(FieldError::invalid(
            path,
            Value::Array(versions.iter().map(|v| v["name"].clone()).collect()),
            "must have exactly one version marked as storage version",
        ));
    }
}

/// A selectable field must be a string, boolean or integer in the schema.
fn selectable(version: &Value, fields: &[&str], jp: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut s = at(version, &["schema", "openAPIV3Schema"]);
    for f in fields {
        s = s.and_then(|s| at(s, &["properties", f]));
    }
    match s.map(|s| s["type"].as_str().unwrap_or_default()) {
        None => errors.push(FieldError::invalid(path, jp, format!("does not refer to a valid field of the schema: no field {jp}"))),
        Some("string" | "boolean" | "integer") => {}
        Some(_) => errors.push(FieldError::invalid(
            path,
            jp,
            "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
        )),
    }
}

fn check_conversion(crd: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(c) = at(crd, &["spec", "conversion"]) else { return };
    match c["strategy"].as_str() {
        Some("None") => {
            if c.get("webhook").is_some_and(|w| !w.is_null()) {
                errors.push(FieldError::forbidden(
                    &path.child("webhook"),
                    "should not be set when strategy is not set to Webhook",
                ));
            }
        }
        Some("Webhook") => {
            let w = &c["webhook"];
            let cc = &w["clientConfig"];
            let cp = path.child("webhook").child("clientConfig");
            if cc["url"].is_string() == cc["service"].is_object() {
                errors.push(FieldError::required(&cp, "exactly one of url or service is required"));
            }
            let versions = w["conversionReviewVersions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let vp = path.child("webhook").child("conversionReviewVersions");
            if versions.is_empty() {
                errors.push(FieldError::required(&vp, ""));
            } else if !versions.iter().any(|v| v == "v1" || v == "v1beta1") {
                errors.push(FieldError::invalid(
                    &vp,
                    Value::Array(versions.to_vec()),
                    "must include at least one of v1, v1beta1",
                ));
            }
        }
        Some(other) => {
            errors.push(FieldError::not_supported(&path.child("strategy"), other, &["None", "Webhook"]))
        }
        None => errors.push(FieldError::required(&path.child("strategy"), "")),
    }
}

fn stored_versions_remain(crd: &Value, errors: &mut Vec<FieldError>) {
    let versions =
        at(crd, &["spec", "versions"]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (i, s) in super::strings(at(crd, &["status", "storedVersions"])).iter().enumerate() {
        if !versions.iter().any(|v| v["name"] == s.as_str()) {
            errors.push(FieldError::invalid(
                &FieldPath::new("status.storedVersions").index(i),
                s.as_str(),
                "missing from spec.versions; v1.CustomResourceDefinition.spec.versions must include all stored versions",
            ));
        }
    }
}
