//! One status write per reconcile, and only when there is news.
//!
//! The status is computed by a pure function of the object. If it comes out as it is, nothing is sent. Otherwise the
//! difference is sent, bound to the version it was computed from; if somebody was quicker, the object is read again
//! and the function asked again, because its answer may depend on what they wrote.

use super::error::request;
use super::{Applier, Error};
use crate::kind::ObjectRef;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Map, Value, json};

/// How often somebody may be quicker.
pub(super) const TRIES: usize = 5;

/// What became of a status.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// It is so already; nothing was sent.
    Same,
    /// It was written; the object as it is now.
    Written(Box<DynamicObject>),
    /// The object is gone, and its status with it.
    Gone,
}

impl Applier {
    /// Writes what `compute` makes of the object, starting with `seen`, which may be from a cache.
    pub async fn status(
        &self,
        at: &ObjectRef,
        seen: &DynamicObject,
        compute: impl Fn(&DynamicObject) -> Value + Send,
    ) -> Result<Status, Error> {
        let api = at.api(&self.client);
        let mut fresh: Option<DynamicObject> = None;
        for _ in 0..TRIES {
            let object = fresh.as_ref().unwrap_or(seen);
            let wanted = compute(object);
            let Some(difference) = merge_patch(object.data.get("status").unwrap_or(&Value::Null), &wanted)
            else {
                return Ok(Status::Same);
            };
            let patch = json!({"metadata": {"resourceVersion": object.metadata.resource_version, "uid": object.metadata.uid},
                "status": difference});
            let params =
                PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
            match api.patch_status(&at.name, &params, &Patch::Merge(&patch)).await {
                Ok(live) => return Ok(Status::Written(Box::new(live))),
                Err(kube::Error::Api(s)) if s.code == 404 => return Ok(Status::Gone),
                Err(kube::Error::Api(s)) if s.code == 409 => {}
                Err(e) => return Err(request("write the status of", at)(e)),
            }
            match api.get_opt(&at.name).await.map_err(request("read", at))? {
                // Another object of this name has its own reconcile coming.
                Some(o) if o.metadata.uid != seen.metadata.uid => return Ok(Status::Gone),
                Some(o) => fresh = Some(o),
                None => return Ok(Status::Gone),
            }
        }
        Err(Error::Contended { verb: "write the status of", object: Box::new(at.clone()), tries: TRIES })
    }
}

/// The JSON merge patch that makes `from` into `to`; nothing if they are the same.
///
/// A merge patch cannot write null into a field, so null in `to` means absent, or the null that is there.
pub fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    match (from, to) {
        (Value::Object(a), Value::Object(b)) => {
            let mut patch = Map::new();
            for (k, new) in b.iter().filter(|(_, v)| !v.is_null()) {
                match a.get(k) {
                    Some(old) => {
                        if let Some(p) = merge_patch(old, new) {
                            patch.insert(k.clone(), p);
                        }
                    }
                    None => {
                        patch.insert(k.clone(), new.clone());
                    }
                }
            }
            // A null that was there stays: some fields must say that they know nothing.
            let goes = |k: &str, old: &Value| b.get(k).is_none_or(|new| new.is_null() && !old.is_null());
            for (k, _) in a.iter().filter(|(k, old)| goes(k, old)) {
                patch.insert(k.clone(), Value::Null);
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (a, b) if a == b => None,
        // An empty object where nothing was is no news either.
        (Value::Null, Value::Object(b)) if b.values().all(Value::is_null) => None,
        (_, b) => Some(b.clone()),
    }
}
