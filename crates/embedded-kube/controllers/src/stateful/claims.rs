//! The volume claims of a stateful set: made before the pod that uses them, kept or let go with it.
//!
//! Who owns a claim says what takes it along: the set, if claims go when the set does; the pod, once it is to go
//! because the set shrank and claims go with that. The garbage collector does the rest.

use super::plan::{Shape, claims, ordinal};
use crate::events::Note;
use crate::objects::{list, members, text};
use crate::pods::Pod;
use crate::tables;
use ek_meta::{Status, object};
use ek_server::Access;
use serde_json::{Value, json};

fn policy<'a>(set: &'a Value, when: &str) -> &'a str {
    text(set, &format!("/spec/persistentVolumeClaimRetentionPolicy/{when}"))
}

fn reference(owner: &Value) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": object::name(owner), "uid": object::uid(owner), "controller": true})
}

/// Creates the claims of an ordinal that are missing.
pub(super) async fn create(access: &Access, set: &Value, ordinal: i64) -> Result<Vec<Note>, Status> {
    let namespace = object::namespace(set);
    let mut notes = Vec::new();
    for (template, (_, name)) in list(set, "/spec/volumeClaimTemplates").iter().zip(claims(set, ordinal)) {
        if let Some(there) = access.entry(&tables::CLAIMS, namespace, &name) {
            if there.meta.deleting {
                return Err(Status::conflict(
                    "",
                    "persistentvolumeclaims",
                    &name,
                    "the claim is being deleted",
                ));
            }
            continue;
        }
        let mut claim = template.clone();
        claim["apiVersion"] = json!("v1");
        claim["kind"] = json!("PersistentVolumeClaim");
        claim["metadata"]["name"] = json!(name);
        claim["metadata"]["namespace"] = json!(namespace);
        for (k, v) in members(set, "/spec/selector/matchLabels") {
            let labels = crate::objects::object_at(&mut claim, "metadata")
                .entry("labels")
                .or_insert_with(|| json!({}));
            labels[k.as_str()] = v.clone();
        }
        if policy(set, "whenDeleted") == "Delete" {
            claim["metadata"]["ownerReferences"] = json!([reference(set)]);
        }
        if let Some(m) = claim.as_object_mut() {
            m.remove("status");
        }
        match access.create(&tables::CLAIMS, claim).await {
            Err(e) if e.code != 409 => return Err(e),
            _ => {}
        }
        let text =
            format!("create Claim {name} Pod {0}-{ordinal} in StatefulSet {0} success", object::name(set));
        notes.push(Note::normal("SuccessfulCreate", text));
    }
    Ok(notes)
}

/// Makes the owners of existing claims what the retention policy says.
pub(super) async fn keep(access: &Access, set: &Value, shape: &Shape, pods: &[Pod]) -> Result<(), Status> {
    if list(set, "/spec/volumeClaimTemplates").is_empty() {
        return Ok(());
    }
    let namespace = object::namespace(set);
    for pod in pods {
        let Some(n) = ordinal(object::name(set), &pod.name) else { continue };
        let surplus = !shape.wants(n);
        for (_, claim) in claims(set, n) {
            let owners = |c: &mut Value| {
                let before = list(c, "/metadata/ownerReferences").to_vec();
                let mut after: Vec<Value> = before
                    .iter()
                    .filter(|o| o["uid"] != object::uid(set) && o["uid"] != pod.uid.as_str())
                    .cloned()
                    .collect();
                if surplus && policy(set, "whenScaled") == "Delete" {
                    after.push(json!({"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": true}));
                } else if policy(set, "whenDeleted") == "Delete" {
                    after.push(reference(set));
                }
                let changed = before != after;
                c["metadata"]["ownerReferences"] = json!(after);
                changed
            };
            match access.update(&tables::CLAIMS, namespace, &claim, "", owners).await {
                Err(e) if e.code != 404 => return Err(e),
                _ => {}
            }
        }
    }
    Ok(())
}
