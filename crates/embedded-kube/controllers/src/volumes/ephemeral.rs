//! Claims that live as long as a pod: made for it, owned by it, gone with it.

use crate::events::{self, Note};
use crate::objects::{controller_ref, find, is_deleting, list, text};
use crate::{MANAGER, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::Access;
use futures::future::BoxFuture;
use serde_json::{Value, json};

pub struct EphemeralVolumes;

impl Controller for EphemeralVolumes {
    fn name(&self) -> &'static str {
        "ephemeral-volume"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["/pods"]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        let Some(current) = &delta.current else { return };
        if !current.meta.deleting && find(&current.bytes(), b"\"volumeClaimTemplate\":").is_some() {
            keys.push(delta.key.clone());
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            let access = access.manager(MANAGER);
            let (namespace, name) = split(key);
            let Some(pod) = access.get(&tables::PODS, namespace, name) else { return Ok(Outcome::Done) };
            if is_deleting(&pod) {
                return Ok(Outcome::Done);
            }
            for volume in list(&pod, "/spec/volumes").iter().filter(|v| !v["ephemeral"].is_null()) {
                make(&access, &pod, volume).await?;
            }
            Ok(Outcome::Done)
        })
    }
}

async fn make(access: &Access, pod: &Value, volume: &Value) -> Result<(), Status> {
    let namespace = object::namespace(pod);
    let name = format!("{}-{}", object::name(pod), text(volume, "/name"));
    if let Some(there) = access.entry(&tables::CLAIMS, namespace, &name) {
        // Somebody's claim of that name must not be given to this pod.
        if !there.meta.owners.iter().any(|o| *o.uid == *object::uid(pod)) {
            let text = format!("ephemeral volume controller: PVC {name} was not created for the pod");
            events::tell(access, "ephemeral_volume", pod, &Note::warning("ConflictingClaim", text)).await;
        }
        return Ok(());
    }
    let template = &volume["ephemeral"]["volumeClaimTemplate"];
    let mut meta = json!({"name": name, "namespace": namespace, "ownerReferences": [controller_ref(pod)]});
    for field in ["labels", "annotations"] {
        if let Some(v) = template.pointer(&format!("/metadata/{field}")).filter(|v| v.is_object()) {
            meta[field] = v.clone();
        }
    }
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": template["spec"]});
    match access.create(&tables::CLAIMS, claim).await {
        Err(e) if e.code != 409 && e.code != 403 => Err(e),
        _ => Ok(()),
    }
}
