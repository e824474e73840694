//! Ownership through the scale subresource.
//!
//! `Scale` has one writable field, `.spec.replicas`, which is some other field of the parent. Its managed
//! fields are the parent's, narrowed to that field and renamed; after a write they are renamed back and
//! laid over the parent's.

use super::entries::{ManagedEntry, Managers, Operation};
use crate::fieldset::{Element, Set};
use serde_json::Value;

const SCALE: &str = "autoscaling/v1";

fn path(fields: &[&str]) -> Vec<Element> {
    fields.iter().map(|f| Element::field(f)).collect()
}

fn only(path: &[Element]) -> Set {
    let mut set = Set::new();
    set.insert(path);
    set
}

/// The managed fields of the Scale object, given the parent's and where the parent keeps its replicas.
pub fn parent_to_scale(parent: Option<&Value>, replicas: &[&str]) -> Option<Value> {
    let replicas = path(replicas);
    let entries = Managers::decode_or_empty(parent)
        .entries
        .into_iter()
        .filter(|e| e.fields.has(&replicas))
        .map(|e| ManagedEntry {
            api_version: SCALE.to_owned(),
            fields: only(&path(&["spec", "replicas"])),
            ..e
        })
        .collect();
    Managers { entries }.encode()
}

/// The parent's managed fields after a write of the Scale object by `api_version`, the parent's version.
///
/// A claim that went through a Scale comes back as an entry of its own and without a time, also for those who
/// made it elsewhere; only appliers, who have one entry each, keep theirs whole.
pub fn scale_to_parent(
    parent: Option<&Value>,
    scale: Option<&Value>,
    replicas: &[&str],
    api_version: &str,
) -> Option<Value> {
    let owned = only(&path(replicas));
    let in_scale = path(&["spec", "replicas"]);
    let mut claims: Vec<ManagedEntry> = Managers::decode_or_empty(scale)
        .entries
        .into_iter()
        .filter(|s| s.fields.has(&in_scale))
        .map(|s| ManagedEntry { api_version: api_version.to_owned(), time: None, fields: owned.clone(), ..s })
        .collect();
    let mut out = Managers::decode_or_empty(parent);
    for e in &mut out.entries {
        e.fields = e.fields.difference(&owned);
        let whole =
            |c: &ManagedEntry| c.same_manager(e) && (c.operation == Operation::Apply || c.time == e.time);
        if let Some(i) = claims.iter().position(whole) {
            claims.remove(i);
            e.fields = e.fields.union(&owned);
        }
    }
    out.entries.append(&mut claims);
    out.drop_empty();
    out.encode()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn replicas_move_between_the_two() {
        let entry = |m: &str, sub: &str, v: &str, f: Value| {
            let mut e = json!({"manager": m, "operation": "Update", "apiVersion": v, "fieldsType": "FieldsV1", "fieldsV1": f});
            if !sub.is_empty() {
                e["subresource"] = sub.into();
            }
            e
        };
        let parent =
            json!([entry("a", "", "apps/v1", json!({"f:spec": {"f:paused": {}, "f:replicas": {}}}))]);
        let scale = parent_to_scale(Some(&parent), &["spec", "replicas"]).unwrap();
        assert_eq!(scale, json!([entry("a", "", "autoscaling/v1", json!({"f:spec": {"f:replicas": {}}}))]));
        // Whoever updated elsewhere is entered once more, without a time.
        let mut timed = parent.clone();
        timed[0]["time"] = json!("2026-01-01T00:00:00Z");
        let split = scale_to_parent(Some(&timed), Some(&scale), &["spec", "replicas"], "apps/v1").unwrap();
        assert_eq!(split[0], entry("a", "", "apps/v1", json!({"f:spec": {"f:replicas": {}}})));
        assert_eq!(split[1]["fieldsV1"], json!({"f:spec": {"f:paused": {}}}));
        let same = scale_to_parent(Some(&parent), Some(&scale), &["spec", "replicas"], "apps/v1");
        assert_eq!(same.as_ref(), Some(&parent));
        let written = json!([entry("hpa", "scale", "autoscaling/v1", json!({"f:spec": {"f:replicas": {}}}))]);
        let after = scale_to_parent(Some(&parent), Some(&written), &["spec", "replicas"], "apps/v1").unwrap();
        assert_eq!(
            after,
            json!([
                entry("a", "", "apps/v1", json!({"f:spec": {"f:paused": {}}})),
                entry("hpa", "scale", "apps/v1", json!({"f:spec": {"f:replicas": {}}}))
            ])
        );
    }
}
