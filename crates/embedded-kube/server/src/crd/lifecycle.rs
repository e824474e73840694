//! The life of a CRD: names defaulted and accepted, conditions, stored versions.
//!
//! Conditions are computed in the write itself, so a CRD is stored `Established` or with the reason why not;
//! there is no moment in which a client sees it without knowing.

use super::storage_version;
use ek_meta::object::{at, str_at};
use serde_json::{Map, Value, json};

pub const ACCEPTED: &str = "NamesAccepted";
pub const ESTABLISHED: &str = "Established";

fn spec(crd: &mut Value) -> Option<&mut Map<String, Value>> {
    crd.get_mut("spec")?.as_object_mut()
}

/// Fills what v1 defaults: singular and list kind, conversion, scope of versions.
pub fn default(crd: &mut Value) {
    let Some(spec) = spec(crd) else { return };
    if let Some(Value::Object(names)) = spec.get_mut("names") {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let blank =
            |m: &Map<String, Value>, k: &str| m.get(k).and_then(Value::as_str).is_none_or(str::is_empty);
        if blank(names, "singular") && !kind.is_empty() {
            names.insert("singular".into(), json!(kind.to_lowercase()));
        }
        if blank(names, "listKind") && !kind.is_empty() {
            names.insert("listKind".into(), json!(format!("{kind}List")));
        }
    }
    let conversion = spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(Value::Object(service)) =
        conversion.pointer_mut("/webhook/clientConfig/service").filter(|s| s.is_object())
    {
        service.entry("port").or_insert(json!(443));
    }
}

/// The conditions and names of a CRD among `others` (all stored CRDs but this one).
fn set_status(crd: &mut Value, others: &[Value], now: &str) {
    let conflict = name_conflict(crd, others);
    let accepted = conflict.is_none();
    let old: Vec<Value> =
        at(crd, &["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let was_established = old.iter().any(|c| c["type"] == ESTABLISHED && c["status"] == "True");
    let mut conditions: Vec<Value> = old
        .iter()
        .filter(|c| {
            !matches!(
                c["type"].as_str(),
                Some(
                    ACCEPTED | ESTABLISHED | "NonStructuralSchema" | "KubernetesAPIApprovalPolicyConformant"
                )
            )
        })
        .cloned()
        .collect();
    let mut set = |ty: &str, yes: bool, reason: &str, message: &str| {
        let status = if yes { "True" } else { "False" };
        let since = (old.iter().find(|c| c["type"] == ty && c["status"] == status))
            .and_then(|c| c["lastTransitionTime"].as_str())
            .unwrap_or(now);
        conditions.push(json!({
            "lastTransitionTime": since, "message": message, "reason": reason, "status": status, "type": ty
        }));
    };
    match &conflict {
        None => set(ACCEPTED, true, "NoConflicts", "no conflicts found"),
        Some((reason, message)) => set(ACCEPTED, false, reason, message),
    }
    if accepted || was_established {
        set(ESTABLISHED, true, "InitialNamesAccepted", "the initial names have been accepted");
    } else {
        set(ESTABLISHED, false, "NotAccepted", "not all names are accepted");
    }
    let group = str_at(crd, &["spec", "group"]).unwrap_or_default();
    if group.ends_with(".k8s.io") || group.ends_with(".kubernetes.io") {
        let approval = at(crd, &["metadata", "annotations"])
            .and_then(|a| a.get("api-approved.kubernetes.io"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        if approval.starts_with("unapproved") {
            set(
                "KubernetesAPIApprovalPolicyConformant",
                false,
                "UnapprovedAPI",
                &format!("not approved: {approval:?}"),
            );
        } else {
            set(
                "KubernetesAPIApprovalPolicyConformant",
                true,
                "ApprovedAnnotation",
                &format!("approved in {approval}"),
            );
        }
    }
    let storage = storage_version(crd).to_owned();
    let mut stored = super::strings(at(crd, &["status", "storedVersions"]));
    if !storage.is_empty() && !stored.contains(&storage) {
        stored.push(storage);
    }
    let names = at(crd, &["spec", "names"]).cloned().unwrap_or_else(|| json!({}));
    let accepted_names = if accepted {
        names
    } else {
        at(crd, &["status", "acceptedNames"]).cloned().unwrap_or_else(|| json!({"plural": "", "kind": ""}))
    };
    if let Some(m) = crd.as_object_mut() {
        m.insert(
            "status".into(),
            json!({"conditions": conditions, "acceptedNames": accepted_names, "storedVersions": stored}),
        );
    }
}

/// The first of this CRD's names that another established CRD of the same group already has.
fn name_conflict(crd: &Value, others: &[Value]) -> Option<(&'static str, String)> {
    let group = str_at(crd, &["spec", "group"])?;
    let own = str_at(crd, &["metadata", "name"]);
    let mut resources: Vec<&str> = Vec::new();
    let mut kinds: Vec<&str> = Vec::new();
    let others = others
        .iter()
        .filter(|o| str_at(o, &["spec", "group"]) == Some(group) && str_at(o, &["metadata", "name"]) != own);
    for o in others {
        let Some(n) = at(o, &["status", "acceptedNames"]) else { continue };
        resources.extend(n["plural"].as_str());
        resources.extend(n["singular"].as_str());
        resources.extend(n["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str));
        kinds.extend(n["kind"].as_str());
        kinds.extend(n["listKind"].as_str());
    }
    let names = at(crd, &["spec", "names"])?;
    let taken = |n: &str| format!("{n:?} is already in use");
    for (field, reason) in [("plural", "PluralConflict"), ("singular", "SingularConflict")] {
        if let Some(n) = names[field].as_str().filter(|n| resources.contains(n)) {
            return Some((reason, taken(n)));
        }
    }
    let short = names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(n) = short.into_iter().find(|n| resources.contains(n)) {
        return Some(("ShortNamesConflict", taken(n)));
    }
    for (field, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
        if let Some(n) = names[field].as_str().filter(|n| kinds.contains(n)) {
            return Some((reason, taken(n)));
        }
    }
    None
}

pub fn prepare_create(crd: &mut Value, others: &[Value], now: &str) {
    default(crd);
    if let Some(m) = crd.as_object_mut() {
        m.remove("status");
    }
    set_status(crd, others, now);
}

pub fn prepare_update(crd: &mut Value, others: &[Value], now: &str) {
    default(crd);
    set_status(crd, others, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(kind: &str, plural: &str, short: &str) -> Value {
        json!({"metadata": {"name": format!("{plural}.x.io")}, "spec": {"group": "x.io",
            "names": {"kind": kind, "plural": plural, "shortNames": [short]},
            "versions": [{"name": "v1", "served": true, "storage": true}]}})
    }

    #[test]
    fn names_are_accepted_or_the_conflict_is_named() {
        let mut a = crd("Foo", "foos", "f");
        prepare_create(&mut a, &[], "2026-01-01T00:00:00Z");
        assert!(super::super::condition(&a, ESTABLISHED));
        assert_eq!(a["spec"]["names"]["singular"], "foo");
        assert_eq!(a["status"]["storedVersions"], json!(["v1"]));
        assert!(a["metadata"].get("finalizers").is_none(), "held only when it is deleted");
        let mut b = crd("Bar", "bars", "f");
        prepare_create(&mut b, &[a.clone()], "2026-01-01T00:00:00Z");
        assert!(!super::super::condition(&b, ESTABLISHED));
        assert_eq!(b["status"]["conditions"][0]["reason"], "ShortNamesConflict");
        // Once the other is gone, the next write accepts it.
        prepare_update(&mut b, &[], "2026-01-02T00:00:00Z");
        assert!(super::super::condition(&b, ESTABLISHED));
    }
}
