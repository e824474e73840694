//! Roles and bindings.

use super::path::{Errors, Path};
use super::selector;
use crate::json::{list, str_of};
use serde_json::{Value, json};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn role(e: &mut Errors, new: &Value, namespaced: bool) {
    let p = Path::ROOT.child("rules");
    for (i, r) in list(new, "rules").iter().enumerate() {
        let p = p.index(i);
        if list(r, "verbs").is_empty() {
            e.required(&p.child("verbs"), "verbs must contain at least one value");
        }
        let urls = list(r, "nonResourceURLs");
        if !urls.is_empty() {
            let v = || r.get("nonResourceURLs").cloned().unwrap_or_default();
            let at = p.child("nonResourceURLs");
            if namespaced {
                e.invalid(&at, v(), "namespaced rules cannot apply to non-resource URLs");
            }
            if ["apiGroups", "resources", "resourceNames"].iter().any(|k| !list(r, k).is_empty()) {
                e.invalid(&at, v(), "rules cannot apply to both regular resources and non-resource URLs");
            }
            continue;
        }
        if list(r, "apiGroups").is_empty() {
            e.required(&p.child("apiGroups"), "resource rules must supply at least one api group");
        }
        if list(r, "resources").is_empty() {
            e.required(&p.child("resources"), "resource rules must supply at least one resource");
        }
    }
    if let Some(a) = new.get("aggregationRule").filter(|a| a.is_object()) {
        let p = Path::ROOT.child("aggregationRule");
        let p = p.child("clusterRoleSelectors");
        let all = list(a, "clusterRoleSelectors");
        if all.is_empty() {
            e.required(&p, "at least one clusterRoleSelector required if aggregationRule is non-nil");
        }
        for (i, s) in all.iter().enumerate() {
            selector(e, &p.index(i), s);
        }
    }
}

pub(super) fn binding(e: &mut Errors, new: &Value, old: Option<&Value>, namespaced: bool) {
    let (p, r) = (Path::ROOT.child("roleRef"), new.get("roleRef").unwrap_or(&Value::Null));
    if str_of(r, "apiGroup") != GROUP {
        e.not_supported(&p.child("apiGroup"), str_of(r, "apiGroup"), &[GROUP]);
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&str_of(r, "kind")) {
        e.not_supported(&p.child("kind"), str_of(r, "kind"), kinds);
    }
    let name = str_of(r, "name");
    if name.is_empty() {
        e.required(&p.child("name"), "");
    } else {
        e.named(&p.child("name"), name, ek_meta::names::path_segment);
    }
    let sp = Path::ROOT.child("subjects");
    for (i, s) in list(new, "subjects").iter().enumerate() {
        subject(e, &sp.index(i), s, namespaced);
    }
    if let Some(old) = old
        && new.get("roleRef") != old.get("roleRef")
    {
        let get = |k: &str| r.get(k).cloned().unwrap_or_default();
        let shown = json!({"APIGroup": get("apiGroup"), "Kind": get("kind"), "Name": get("name")});
        e.invalid(&p, shown, "cannot change roleRef");
    }
}

fn subject(e: &mut Errors, p: &Path<'_>, s: &Value, namespaced: bool) {
    let name = str_of(s, "name");
    if name.is_empty() {
        e.required(&p.child("name"), "");
    }
    let group = str_of(s, "apiGroup");
    match str_of(s, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                e.named(&p.child("name"), name, ek_meta::names::dns_subdomain);
            }
            if !group.is_empty() {
                e.not_supported(&p.child("apiGroup"), group, &[""]);
            }
            // In a namespace, its own is meant.
            if !namespaced && str_of(s, "namespace").is_empty() {
                e.required(&p.child("namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                e.not_supported(&p.child("apiGroup"), group, &[GROUP]);
            }
        }
        other => e.not_supported(&p.child("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}
