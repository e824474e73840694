//! Finalizers and owner references.

use super::error::request;
use super::status::TRIES;
use super::{Applier, Error};
use crate::kind::{Kind, ObjectRef};
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

impl Applier {
    /// Puts a finalizer on, before the first thing that would need cleaning up. Sends nothing if it is there.
    pub async fn add_finalizer(
        &self,
        at: &ObjectRef,
        seen: &DynamicObject,
        finalizer: &str,
    ) -> Result<Option<DynamicObject>, Error> {
        self.finalizers(at, seen, "add a finalizer to", |list| {
            let absent = !list.iter().any(|f| f == finalizer);
            if absent {
                list.push(finalizer.to_owned());
            }
            absent
        })
        .await
    }

    /// Takes a finalizer off, after the last thing was cleaned up; an object that is gone is a success.
    pub async fn remove_finalizer(
        &self,
        at: &ObjectRef,
        seen: &DynamicObject,
        finalizer: &str,
    ) -> Result<Option<DynamicObject>, Error> {
        self.finalizers(at, seen, "remove a finalizer from", |list| {
            let before = list.len();
            list.retain(|f| f != finalizer);
            list.len() != before
        })
        .await
    }

    /// The object as it was left, or nothing if there was nothing to do. The list is replaced as a whole, so the
    /// version it was read at goes with it.
    async fn finalizers(
        &self,
        at: &ObjectRef,
        seen: &DynamicObject,
        verb: &'static str,
        change: impl Fn(&mut Vec<String>) -> bool,
    ) -> Result<Option<DynamicObject>, Error> {
        let api = at.api(&self.client);
        let mut fresh: Option<DynamicObject> = None;
        for _ in 0..TRIES {
            let m = &fresh.as_ref().unwrap_or(seen).metadata;
            let mut list = m.finalizers.clone().unwrap_or_default();
            if !change(&mut list) {
                return Ok(None);
            }
            let patch = json!({"metadata": {"resourceVersion": m.resource_version, "uid": m.uid, "finalizers": list}});
            let params =
                PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
            match api.patch(&at.name, &params, &Patch::Merge(&patch)).await {
                Ok(live) => return Ok(Some(live)),
                Err(kube::Error::Api(s)) if s.code == 404 => return Ok(None),
                Err(kube::Error::Api(s)) if s.code == 409 => {}
                Err(e) => return Err(request(verb, at)(e)),
            }
            match api.get_opt(&at.name).await.map_err(request("read", at))? {
                Some(o) if o.metadata.uid == seen.metadata.uid => fresh = Some(o),
                _ => return Ok(None),
            }
        }
        Err(Error::Contended { verb, object: Box::new(at.clone()), tries: TRIES })
    }
}

/// The reference that makes `owner` own what it is put on, and be its controller.
pub(crate) fn reference(kind: &Kind, owner: &DynamicObject) -> Value {
    json!({"apiVersion": kind.api_version(), "kind": kind.kind, "name": owner.metadata.name, "uid": owner.metadata.uid,
        "controller": true, "blockOwnerDeletion": true})
}

/// Adds the reference to a manifest, in place of an older one to an owner of the same kind and name.
pub fn own(manifest: &mut Value, kind: &Kind, owner: &DynamicObject) {
    let new = reference(kind, owner);
    let references = &mut manifest["metadata"]["ownerReferences"];
    match references.as_array_mut() {
        Some(list) => {
            list.retain(|r| r["kind"] != new["kind"] || r["name"] != new["name"]);
            list.push(new);
        }
        None => *references = json!([new]),
    }
}
