//! What makes a CRD invalid.

use crate::jsonpath::JsonPath;
use ek_meta::object::{at, str_at};
use ek_meta::{FieldError, FieldPath, names};
use serde_json::{Value, json};

/// Everything wrong with a CRD; `old` is what it replaces.
pub fn validate(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let root = FieldPath::root();
    let spec = root.child("spec");
    let text = |p: &[&str]| str_at(crd, p).unwrap_or_default();
    let (name, group, plural) =
        (text(&["metadata", "name"]), text(&["spec", "group"]), text(&["spec", "names", "plural"]));
    if old.is_none() && name != format!("{plural}.{group}") {
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
            errors.push(FieldError::required(&path.child(f), ""));
            continue;
        }
        if matches!(f, "plural" | "singular") {
            for m in names::dns_1035_label(v) {
                errors.push(FieldError::invalid(&path.child(f), v, m));
            }
            continue;
        }
        for m in names::dns_1035_label(&v.to_lowercase()) {
            let m = format!("may have mixed case, but should otherwise match: {m}");
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
    // What all versions share is named as if it stood beside them, where it stood in the first version of this API.
    let spec = FieldPath::new("spec");
    let share = |k: &str| versions.iter().all(|o| o[k] == versions[0][k]);
    let beside = |p: &FieldPath, k: &str| if share(k) { spec.child(k) } else { p.child(k) };
    let mut seen: Vec<&str> = Vec::new();
    let mut twice = false;
    for (i, v) in versions.iter().enumerate() {
        let p = path.index(i);
        let name = v["name"].as_str().unwrap_or_default();
        for m in names::dns_1035_label(name) {
            errors.push(FieldError::invalid(&p.child("name"), name, m));
        }
        twice |= seen.contains(&name);
        seen.push(name);
        let shared = v["schema"].is_object() && share("schema");
        let schema_path = match shared {
            true => FieldPath::new("spec.validation.openAPIV3Schema"),
            false => p.child("schema").child("openAPIV3Schema"),
        };
        match at(v, &["schema", "openAPIV3Schema"]) {
            Some(_) if shared && i > 0 => {}
            Some(s) if s.is_object() => errors.extend(ek_schema::structural::check(s, &schema_path)),
            _ => errors.push(FieldError::required(&schema_path, "")),
        }
        let repeated = |k: &str| i > 0 && share(k);
        let columns =
            v["additionalPrinterColumns"].as_array().filter(|_| !repeated("additionalPrinterColumns"));
        for (j, c) in columns.into_iter().flatten().enumerate() {
            let cp = beside(&p, "additionalPrinterColumns").index(j);
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
            const FORMATS: [&str; 8] =
                ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
            let format = c["format"].as_str().unwrap_or_default();
            if !format.is_empty() && !FORMATS.contains(&format) {
                let detail = format!("must be one of {}", FORMATS.join(","));
                errors.push(FieldError::invalid(&cp.child("format"), format, detail));
            }
            if jp.is_empty() {
                errors.push(FieldError::required(&cp.child("JSONPath"), ""));
            } else if !jp.starts_with('.') && !jp.starts_with('{') {
                let detail = "must be a simple json path starting with .";
                errors.push(FieldError::invalid(&cp.child("JSONPath"), jp, detail));
            }
        }
        let warning = v["deprecationWarning"].as_str();
        if let Some(w) = warning.filter(|_| v["deprecated"] != true) {
            let detail = "can only be set for deprecated versions";
            errors.push(FieldError::invalid(&p.child("deprecationWarning"), w, detail));
        }
        let fields = v["selectableFields"].as_array().filter(|_| !repeated("selectableFields"));
        for (j, f) in fields.into_iter().flatten().enumerate() {
            let fp = beside(&p, "selectableFields").index(j).child("jsonPath");
            let jp = f["jsonPath"].as_str().unwrap_or_default();
            match JsonPath::parse(jp).ok().as_ref().and_then(JsonPath::plain_fields) {
                Some(fields) if !fields.is_empty() => selectable(v, &fields, jp, &fp, errors),
                _ => errors.push(FieldError::invalid(
                    &fp,
                    jp,
                    format!("is an invalid path: expected [ or . but got: {jp}"),
                )),
            }
        }
        if let Some(scale) = at(v, &["subresources", "scale"]).filter(|s| s.is_object()) {
            if repeated("subresources") {
                continue;
            }
            let sp = beside(&p, "subresources").child("scale");
            for (f, prefix, required) in [
                ("specReplicasPath", ".spec.", true),
                ("statusReplicasPath", ".status.", true),
                ("labelSelectorPath", ".", false),
            ] {
                let v = scale[f].as_str().unwrap_or_default();
                if v.is_empty() && required {
                    errors.push(FieldError::required(&sp.child(f), ""));
                } else if !v.is_empty() && !v.starts_with('.') {
                    let detail = "must be a simple json path starting with .";
                    errors.push(FieldError::invalid(&sp.child(f), v, detail));
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
    let storage: Vec<&Value> = versions.iter().filter(|v| v["storage"] == true).collect();
    let shown = || at(crd, &["spec", "versions"]).map(go_versions).unwrap_or_default();
    if twice {
        errors.push(FieldError::invalid(path, shown(), "must contain unique version names"));
    }
    if storage.len() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(path, shown(), detail));
    }
    let stored = super::strings(at(crd, &["status", "storedVersions"]));
    let sp = FieldPath::new("status.storedVersions");
    match storage.first().map(|v| v["name"].as_str().unwrap_or_default()) {
        _ if stored.is_empty() => {
            errors.push(FieldError::invalid(&sp, Value::Null, "must have at least one stored version"));
        }
        Some(name) if storage.len() > 1 || !stored.iter().any(|s| s == name) => {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(&sp, Value::from(stored), detail));
        }
        _ => {}
    }
}

/// The versions as the Go type prints them, without what is moved out of them.
fn go_versions(versions: &Value) -> Value {
    let flag = |v: &Value, k: &str| Value::Bool(v[k] == true);
    let each = |v: &Value| {
        json!({"Name": v["name"], "Served": flag(v, "served"), "Storage": flag(v, "storage"),
            "Deprecated": flag(v, "deprecated"), "DeprecationWarning": v["deprecationWarning"], "Schema": null,
            "Subresources": null, "AdditionalPrinterColumns": null, "SelectableFields": null})
    };
    versions.as_array().map(|a| a.iter().map(each).collect()).unwrap_or_default()
}

/// A selectable field must be a string, boolean or integer in the schema.
fn selectable(version: &Value, fields: &[&str], jp: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut s = at(version, &["schema", "openAPIV3Schema"]);
    for f in fields {
        s = s.and_then(|s| at(s, &["properties", f]));
    }
    match s.map(|s| s["type"].as_str().unwrap_or_default()) {
        None => errors.push(FieldError::invalid(path, jp, "is an invalid path: does not refer to a valid field")),
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
            // Named as in the first version of this API, where they stood one level higher.
            let cp = path.child("webhookClientConfig");
            if !cc.is_object() {
                errors.push(FieldError::required(&cp, "required when strategy is set to Webhook"));
            } else if cc["url"].is_string() == cc["service"].is_object() {
                errors.push(FieldError::required(&cp, "exactly one of url or service is required"));
            }
            let versions = w["conversionReviewVersions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let vp = path.child("conversionReviewVersions");
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
                format!("missing from spec.versions; {s} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {s} and removes {s} from status.storedVersions"),
            ));
        }
    }
}
