//! Admission webhooks and policies.

use super::path::{Errors, Path};
use super::{selector, spec};
use crate::json::{int_of, list, str_of};
use ek_meta::names;
use serde_json::Value;

pub(super) fn configuration(e: &mut Errors, new: &Value, mutating: bool) {
    let (p, all) = (Path::ROOT.child("webhooks"), list(new, "webhooks"));
    for (i, w) in all.iter().enumerate() {
        let p = p.index(i);
        let name = str_of(w, "name");
        if all.iter().take(i).any(|o| str_of(o, "name") == name) {
            e.duplicate(&p.child("name"), name);
        }
        webhook(e, &p, w);
        if mutating {
            e.one_of(&p.child("reinvocationPolicy"), w.get("reinvocationPolicy"), &["IfNeeded", "Never"]);
        }
    }
}

fn webhook(e: &mut Errors, p: &Path<'_>, w: &Value) {
    let name = str_of(w, "name");
    if name.is_empty() {
        e.required(&p.child("name"), "");
    } else {
        e.named(&p.child("name"), name, names::dns_subdomain);
        if name.split('.').count() < 3 {
            e.invalid(
                &p.child("name"),
                name,
                "should be a domain with at least three segments separated by dots",
            );
        }
    }
    let rp = p.child("rules");
    for (i, r) in list(w, "rules").iter().enumerate() {
        rule(e, &rp.index(i), r);
    }
    e.one_of(&p.child("failurePolicy"), w.get("failurePolicy"), &["Fail", "Ignore"]);
    e.one_of(&p.child("matchPolicy"), w.get("matchPolicy"), &["Equivalent", "Exact"]);
    let effects = ["None", "NoneOnDryRun"];
    match str_of(w, "sideEffects") {
        "" => e.required(&p.child("sideEffects"), "must specify one of None, NoneOnDryRun"),
        s if !effects.contains(&s) => e.not_supported(&p.child("sideEffects"), s, &effects),
        _ => {}
    }
    if let Some(n) = int_of(w, "timeoutSeconds").filter(|n| !(1..=30).contains(n)) {
        e.invalid(&p.child("timeoutSeconds"), n, "the timeout value must be between 1 and 30 seconds");
    }
    for key in ["namespaceSelector", "objectSelector"] {
        if let Some(s) = w.get(key) {
            selector(e, &p.child(key), s);
        }
    }
    client(e, &p.child("clientConfig"), w.get("clientConfig").unwrap_or(&Value::Null));
    let versions = list(w, "admissionReviewVersions");
    let vp = p.child("admissionReviewVersions");
    if versions.is_empty() {
        e.required(&vp, "must specify one of v1, v1beta1");
    } else if !versions.iter().any(|v| v == "v1" || v == "v1beta1") {
        let v = w.get("admissionReviewVersions").cloned().unwrap_or_default();
        e.invalid(&vp, v, "must include at least one of v1, v1beta1");
    }
    conditions(e, &p.child("matchConditions"), list(w, "matchConditions"));
}

fn conditions(e: &mut Errors, p: &Path<'_>, all: &[Value]) {
    if all.len() > 64 {
        e.0.push(ek_meta::FieldError::too_many(&p.text(), all.len(), 64));
    }
    for (i, c) in all.iter().enumerate() {
        let p = p.index(i);
        if str_of(c, "expression").trim().is_empty() {
            e.required(&p.child("expression"), "");
        }
        let name = str_of(c, "name");
        if name.is_empty() {
            e.required(&p.child("name"), "");
        } else {
            e.named(&p.child("name"), name, names::qualified_name);
            if all.iter().take(i).any(|o| str_of(o, "name") == name) {
                e.duplicate(&p.child("name"), name);
            }
        }
    }
}

fn rule(e: &mut Errors, p: &Path<'_>, r: &Value) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    for key in ["operations", "apiGroups", "apiVersions", "resources"] {
        let (p, all) = (p.child(key), list(r, key));
        if all.is_empty() {
            e.required(&p, "");
        }
        if key != "resources" && all.len() > 1 && all.iter().any(|v| v == "*") {
            let v = r.get(key).cloned().unwrap_or_default();
            e.invalid(&p, v, format!("if '*' is present, must not specify other {}", words(key)));
        }
        for (i, v) in all.iter().enumerate() {
            match key {
                "operations" => e.one_of(&p.index(i), Some(v), &OPERATIONS),
                "apiVersions" | "resources" if v == "" => e.required(&p.index(i), ""),
                _ => {}
            }
        }
    }
    e.one_of(&p.child("scope"), r.get("scope"), &["*", "Cluster", "Namespaced"]);
}

fn words(key: &str) -> &str {
    match key {
        "apiGroups" => "API groups",
        "apiVersions" => "API versions",
        other => other,
    }
}

fn client(e: &mut Errors, p: &Path<'_>, c: &Value) {
    let url = c.get("url").and_then(Value::as_str);
    let service = c.get("service").filter(|s| s.is_object());
    match (url, service) {
        (Some(url), None) => {
            if !url.starts_with("https://") {
                let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
                e.invalid(
                    &p.child("url"),
                    scheme,
                    "'https' is the only allowed URL scheme; desired format: https://host[/path]",
                );
            }
            let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
            let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
            let host = rest.split_once("://").map_or(rest, |(_, r)| r).split('/').next().unwrap_or_default();
            let user = host.rsplit_once('@').map_or("", |(u, _)| u);
            for (part, what) in [
                (user, "user information is not permitted in the URL"),
                (fragment, "fragments are not permitted in the URL"),
                (query, "query parameters are not permitted in the URL"),
            ] {
                if !part.is_empty() {
                    e.invalid(&p.child("url"), part, what);
                }
            }
        }
        (None, Some(s)) => {
            let p = p.child("service");
            if str_of(s, "name").is_empty() {
                e.required(&p.child("name"), "service name is required");
            }
            if str_of(s, "namespace").is_empty() {
                e.required(&p.child("namespace"), "service namespace is required");
            }
            if let Some(path) = s.get("path").and_then(Value::as_str).filter(|x| !x.starts_with('/')) {
                e.invalid(&p.child("path"), path, "must start with a '/'");
                e.invalid(&p.child("path"), path, "segment[0] may not be empty");
            }
            if let Some(n) = int_of(s, "port").filter(|n| !(1..=65535).contains(n)) {
                e.invalid(&p.child("port"), n, "port is not valid: must be between 1 and 65535, inclusive");
            }
        }
        _ => e.required(p, "exactly one of url or service is required"),
    }
}

pub(super) fn policy(e: &mut Errors, new: &Value) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    if let Some(k) = s.get("paramKind").filter(|k| k.is_object()) {
        let p = p.child("paramKind");
        e.need(&p, k, "apiVersion");
        e.need(&p, k, "kind");
    }
    match s.get("matchConstraints").filter(|m| m.is_object()) {
        None => e.required(&p.child("matchConstraints"), ""),
        Some(m) => {
            let p = p.child("matchConstraints");
            if list(m, "resourceRules").is_empty() {
                e.required(&p.child("resourceRules"), "");
            }
            match_resources(e, &p, m);
        }
    }
    if list(s, "validations").is_empty() && list(s, "auditAnnotations").is_empty() {
        for key in ["validations", "auditAnnotations"] {
            e.required(&p.child(key), "validations or auditAnnotations must contain at least one item");
        }
    }
    let vp = p.child("validations");
    for (i, v) in list(s, "validations").iter().enumerate() {
        let p = vp.index(i);
        if str_of(v, "expression").trim().is_empty() {
            e.required(&p.child("expression"), "expression is not specified");
        }
        e.one_of(
            &p.child("reason"),
            v.get("reason"),
            &["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"],
        );
    }
    let vp = p.child("variables");
    for (i, v) in list(s, "variables").iter().enumerate() {
        let p = vp.index(i);
        e.need(&p, v, "name");
        if str_of(v, "expression").trim().is_empty() {
            e.required(&p.child("expression"), "expression is not specified");
        }
    }
    conditions(e, &p.child("matchConditions"), list(s, "matchConditions"));
    e.one_of(&p.child("failurePolicy"), s.get("failurePolicy"), &["Fail", "Ignore"]);
}

fn match_resources(e: &mut Errors, p: &Path<'_>, m: &Value) {
    for key in ["resourceRules", "excludeResourceRules"] {
        let p = p.child(key);
        for (i, r) in list(m, key).iter().enumerate() {
            rule(e, &p.index(i), r);
        }
    }
    for key in ["namespaceSelector", "objectSelector"] {
        if let Some(s) = m.get(key) {
            selector(e, &p.child(key), s);
        }
    }
    e.one_of(&p.child("matchPolicy"), m.get("matchPolicy"), &["Equivalent", "Exact"]);
}

pub(super) fn binding(e: &mut Errors, new: &Value) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    e.need(&p, s, "policyName");
    let (ap, actions) = (p.child("validationActions"), list(s, "validationActions"));
    if actions.is_empty() {
        e.required(&ap, "at least one validation action is required");
    }
    for (i, a) in actions.iter().enumerate() {
        e.one_of(&ap.index(i), Some(a), &["Audit", "Deny", "Warn"]);
        if actions.iter().take(i).any(|o| o == a) {
            e.duplicate(&ap.index(i), a.clone());
        }
    }
    let has = |w: &str| actions.iter().any(|a| a == w);
    if has("Deny") && has("Warn") {
        let v = s.get("validationActions").cloned().unwrap_or_default();
        e.invalid(&ap, v, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)");
    }
    if let Some(r) = s.get("paramRef").filter(|r| r.is_object()) {
        let p = p.child("paramRef");
        let (name, sel) = (str_of(r, "name"), r.get("selector").filter(|s| s.is_object()));
        match (name, sel) {
            ("", None) => e.required(&p, "one of name or selector must be specified"),
            (n, Some(_)) if !n.is_empty() => {
                e.forbidden(&p.child("name"), "name and selector are mutually exclusive");
            }
            _ => {}
        }
        if r.get("parameterNotFoundAction").is_none_or(Value::is_null) {
            e.required(&p.child("parameterNotFoundAction"), "");
        }
        e.one_of(&p.child("parameterNotFoundAction"), r.get("parameterNotFoundAction"), &["Allow", "Deny"]);
    }
    if let Some(m) = s.get("matchResources").filter(|m| m.is_object()) {
        match_resources(e, &p.child("matchResources"), m);
    }
}
