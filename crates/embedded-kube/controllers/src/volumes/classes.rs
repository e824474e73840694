//! The storage class every cluster starts with. Made once: an operator who removes it means it.

use super::plan::PROVISIONER;
use crate::objects::{annotate, annotation};
use crate::{MANAGER, tables};
use ek_engine::{Controller, Delta, Keys, Outcome};
use ek_meta::Status;
use ek_server::Access;
use futures::future::BoxFuture;
use serde_json::{Value, json};

const MADE: &str = "zaffre.io/default-storage-class";
const SYSTEM: &str = "kube-system";

pub struct DefaultClass;

impl Controller for DefaultClass {
    fn name(&self) -> &'static str {
        "default-storage-class"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["/namespaces"]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        if delta.previous.is_none() && &*delta.key == SYSTEM {
            keys.push("");
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, _: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            let access = access.manager(MANAGER);
            let Some(system) = access.get(&tables::NAMESPACES, "", SYSTEM) else { return Ok(Outcome::Done) };
            if annotation(&system, MADE).is_some() {
                return Ok(Outcome::Done);
            }
            if access.table(&tables::STORAGE_CLASSES).objects.is_empty() {
                let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                    "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer"});
                match access.create(&tables::STORAGE_CLASSES, class).await {
                    Err(e) if e.code != 409 => return Err(e),
                    _ => {}
                }
            }
            let note = |n: &mut Value| annotate(n, MADE, "made");
            access.update(&tables::NAMESPACES, "", SYSTEM, "", note).await?;
            Ok(Outcome::Done)
        })
    }
}
