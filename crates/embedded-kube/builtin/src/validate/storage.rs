//! Volumes, claims and classes.

use super::path::{Errors, Path};
use super::{pod, quantities, quantity, spec};
use crate::json::{is_zero, list, str_of};
use ek_meta::names;
use serde_json::Value;

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

fn access_modes(e: &mut Errors, p: &Path<'_>, s: &Value, none: &str) {
    let (p, all) = (p.child("accessModes"), list(s, "accessModes"));
    if all.is_empty() {
        e.required(&p, none);
    }
    for m in all {
        e.one_of(&p, Some(m), &MODES);
    }
    if all.len() > 1 && all.iter().any(|m| m == "ReadWriteOncePod") {
        e.forbidden(&p, "may not use ReadWriteOncePod with other access modes");
    }
}

pub(super) fn claim(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    access_modes(e, &p, s, "at least 1 access mode is required");
    let rp = p.child("resources");
    let storage = s.get("resources").and_then(|r| r.get("requests")).and_then(|r| r.get("storage"));
    match storage {
        None => e.required(&rp.key("storage"), ""),
        Some(v) => match quantity(v) {
            Some(q) if q.sign() <= 0 => {
                e.invalid(&rp.key("storage"), v.clone(), "must be greater than zero");
            }
            Some(_) => {}
            None => quantities(e, &rp, s.get("resources").unwrap_or(&Value::Null), "requests"),
        },
    }
    e.one_of(&p.child("volumeMode"), s.get("volumeMode"), &["Block", "Filesystem"]);
    if let Some(class) = s.get("storageClassName").and_then(Value::as_str).filter(|c| !c.is_empty()) {
        e.named(&p.child("storageClassName"), class, names::dns_subdomain);
    }
    if let Some(old) = old {
        claim_update(e, &p, new, old, storage);
    }
}

fn claim_update(e: &mut Errors, p: &Path<'_>, new: &Value, old: &Value, storage: Option<&Value>) {
    let (s, o) = (spec(new), spec(old));
    let bound = ek_meta::object::str_at(old, &["status", "phase"]) == Some("Bound");
    let unset = |k: &str| o.get(k).is_none_or(is_zero);
    let free = |k: &str| match k {
        // The binder and the default class fill these in once.
        "volumeName" => unset(k),
        "storageClassName" => o.get(k).is_none_or(Value::is_null),
        "resources" | "volumeAttributesClassName" => bound,
        _ => false,
    };
    if !pod::differs_only(s, o, free) {
        e.forbidden(
            p,
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        );
        return;
    }
    let before = o.get("resources").and_then(|r| r.get("requests")).and_then(|r| r.get("storage"));
    let (size, before) = (storage.and_then(quantity), before.and_then(quantity));
    let have = ek_meta::object::at(old, &["status", "capacity", "storage"]).and_then(quantity);
    if size < before && size < have.or(before) {
        let rp = p.child("resources");
        let qp = rp.child("requests");
        e.forbidden(&qp.child("storage"), "field can not be less than status.capacity");
    }
}

/// Members of a volume's spec that are not where it is.
const NOT_SOURCE: [&str; 9] = [
    "capacity",
    "accessModes",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
];

pub(super) fn volume(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let (p, s) = (Path::ROOT.child("spec"), spec(new));
    access_modes(e, &p, s, "");
    if s.get("capacity").is_none_or(is_zero) {
        e.required(&p.child("capacity"), "");
    }
    if s.get("capacity").is_none_or(is_zero) {
        let at = p.child("capacity").text();
        e.0.push(ek_meta::FieldError::not_supported(&at, Value::Null, &["storage"]));
    } else if s.get("capacity").and_then(|c| c.get("storage")).is_none() {
        e.not_supported(&p.child("capacity"), "", &["storage"]);
    }
    quantities(e, &p, s, "capacity");
    e.one_of(
        &p.child("persistentVolumeReclaimPolicy"),
        s.get("persistentVolumeReclaimPolicy"),
        &["Delete", "Recycle", "Retain"],
    );
    let Some(m) = s.as_object() else { return };
    let mut sources = m.iter().filter(|(k, v)| v.is_object() && !NOT_SOURCE.contains(&k.as_str()));
    let source = sources.next();
    if source.is_none() {
        e.required(&p, "must specify a volume type");
    }
    for (extra, _) in sources {
        e.forbidden(&p.child(extra), "may not specify more than 1 volume type");
    }
    if let Some(old) = old {
        let o = spec(old);
        if !pod::differs_only(s, o, |k| NOT_SOURCE.contains(&k)) {
            e.forbidden(
                &p.child("persistentvolumesource"),
                "spec.persistentvolumesource is immutable after creation",
            );
        }
        e.fixed(&p, s, o, "volumeMode");
    }
}

pub(super) fn class(e: &mut Errors, new: &Value, old: Option<&Value>) {
    let provisioner = e.need(&Path::ROOT, new, "provisioner");
    if !provisioner.is_empty() {
        e.named(&Path::ROOT.child("provisioner"), &provisioner.to_lowercase(), names::qualified_name);
    }
    e.one_of(&Path::ROOT.child("reclaimPolicy"), new.get("reclaimPolicy"), &["Delete", "Retain"]);
    let modes = ["Immediate", "WaitForFirstConsumer"];
    if str_of(new, "volumeBindingMode").is_empty() {
        e.required(&Path::ROOT.child("volumeBindingMode"), "");
    }
    e.one_of(&Path::ROOT.child("volumeBindingMode"), new.get("volumeBindingMode"), &modes);
    if let Some(old) = old {
        for key in ["parameters", "provisioner", "reclaimPolicy"] {
            let (n, o) = (new.get(key).unwrap_or(&Value::Null), old.get(key).unwrap_or(&Value::Null));
            if n != o && !(is_zero(n) && is_zero(o)) {
                e.forbidden(&Path::ROOT.child(key), &format!("updates to {key} are forbidden."));
            }
        }
        e.fixed(&Path::ROOT, new, old, "volumeBindingMode");
    }
}
