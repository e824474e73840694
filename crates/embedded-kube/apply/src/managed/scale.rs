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
pub fn scale_to_parent(
    parent: Option<&Value>,
    scale: Option<&Value>,
    replicas: &[&str],
    api_version: &str,
) -> Option<Value> {
    let replicas = path(replicas);
    let owned = only(&replicas);
    let scale = Managers::decode_or_empty(scale);
    let mut out = Managers::decode_or_empty(parent);
    let named = |e: &ManagedEntry, o: &ManagedEntry| {
        e.manager == o.manager && e.operation == o.operation && e.subresource == o.subresource
    };
    for e in &mut out.entries {
        let still = scale.entries.iter().find(|s| named(s, e)).filter(|_| e.fields.has(&replicas));
        match still {
            Some(s) => e.time.clone_from(&s.time),
            None => e.fields = e.fields.difference(&owned),
        }
    }
    for s in scale.entries {
        let known = out.entries.iter().any(|e| named(e, &s) && e.fields.has(&replicas));
        if known || !s.fields.has(&path(&["spec", "replicas"])) {
            continue;
        }
        match out.position(&s.manager, s.operation, &s.subresource, api_version) {
            Some(i) => {
                let e = &mut out.entries[i];
                e.fields = e.fields.union(&owned);
                e.time = s.time;
            }
            None => out.entries.push(ManagedEntry {
                api_version: api_version.to_owned(),
                fields: owned.clone(),
                subresource: if s.operation == Operation::Update {
                    "scale".to_owned()
                } else {
                    s.subresource.clone()
                },
                ..s
            }),
        }
    }
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
