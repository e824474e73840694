//! The few ways in which objects are written.
//!
//! Machines and sets are made once, under names that are new, and then changed by merge patches that hold only for the
//! version that was seen. Server-side apply would make an object anew that was deleted a moment ago; here that must
//! never happen, because a machine is money.

use kube::Client;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use reconcile::{Kind, ObjectRef, merge_patch};
use serde_json::{Map, Value, json};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {verb} {object}")]
    Request { verb: &'static str, object: Box<ObjectRef>, source: Box<kube::Error> },
    #[error("cannot write {0} as an object")]
    Shape(String),
}

/// Our name in managedFields.
pub const MANAGER: &str = "zaffre-machines";

#[derive(Clone)]
pub struct Writer(Client);

/// What is different, if anything was.
#[derive(Debug)]
pub enum Changed {
    /// It was so already.
    Same,
    Written(Box<DynamicObject>),
    /// Somebody was quicker, or it is gone: a watch will tell.
    Overtaken,
}

impl Writer {
    pub fn new(client: Client) -> Writer {
        Writer(client)
    }

    fn failed(
        verb: &'static str,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> impl FnOnce(kube::Error) -> Error {
        let object = Box::new(kind.at(namespace, name));
        move |e| Error::Request { verb, object, source: Box::new(e) }
    }

    /// Makes an object; `None` if there is one of this name.
    pub async fn create(&self, kind: &Kind, mut manifest: Value) -> Result<Option<DynamicObject>, Error> {
        (manifest["apiVersion"], manifest["kind"]) = (json!(kind.api_version()), json!(kind.kind));
        let text = |k: &str| manifest["metadata"][k].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let object: DynamicObject = serde_json::from_value(manifest)
            .map_err(|e| Error::Shape(format!("{} {name}: {e}", kind.kind)))?;
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match kind.api(&self.0, &namespace).create(&params, &object).await {
            Ok(o) => Ok(Some(o)),
            Err(kube::Error::Api(s)) if s.code == 409 => Ok(None),
            Err(e) => Err(Self::failed("create", kind, &namespace, &name)(e)),
        }
    }

    /// Labels, annotations, owners and spec, as `change` leaves them.
    pub async fn change(
        &self,
        kind: &Kind,
        seen: &DynamicObject,
        change: impl FnOnce(&mut Value),
    ) -> Result<Changed, Error> {
        let m = &seen.metadata;
        let before = json!({"metadata": {"labels": m.labels, "annotations": m.annotations, "ownerReferences": m.owner_references},
            "spec": seen.data.get("spec")});
        let mut after = before.clone();
        change(&mut after);
        let Some(mut patch) = merge_patch(&before, &after) else { return Ok(Changed::Same) };
        if !patch["metadata"].is_object() {
            patch["metadata"] = Value::Object(Map::new());
        }
        patch["metadata"]["resourceVersion"] = json!(m.resource_version);
        patch["metadata"]["uid"] = json!(m.uid);
        let (namespace, name) =
            (m.namespace.as_deref().unwrap_or_default(), m.name.as_deref().unwrap_or_default());
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        match kind.api(&self.0, namespace).patch(name, &params, &Patch::Merge(&patch)).await {
            Ok(o) => Ok(Changed::Written(Box::new(o))),
            Err(kube::Error::Api(s)) if matches!(s.code, 404 | 409) => Ok(Changed::Overtaken),
            Err(e) => Err(Self::failed("change", kind, namespace, name)(e)),
        }
    }

    /// Exactly this one. Gone is a success.
    pub async fn delete(&self, kind: &Kind, seen: &DynamicObject) -> Result<(), Error> {
        let m = &seen.metadata;
        let (namespace, name) =
            (m.namespace.as_deref().unwrap_or_default(), m.name.as_deref().unwrap_or_default());
        let exactly = Preconditions { uid: m.uid.clone(), resource_version: None };
        let params = DeleteParams::background().preconditions(exactly);
        match kind.api(&self.0, namespace).delete(name, &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(s)) if matches!(s.code, 404 | 409) => Ok(()),
            Err(e) => Err(Self::failed("delete", kind, namespace, name)(e)),
        }
    }
}
