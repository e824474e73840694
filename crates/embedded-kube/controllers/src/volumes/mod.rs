//! Persistent volumes and claims: bound to each other, made on demand, kept while used, reclaimed when let go.
//!
//! Keys are `c|namespace/name` for claims and `v|name` for volumes.

mod classes;
mod ephemeral;
mod plan;

pub use classes::DefaultClass;
pub use ephemeral::EphemeralVolumes;

use crate::events::{self, Note};
use crate::objects::{annotate, annotation, find, has_finalizer, is_deleting, list, remove_finalizer, text};
use crate::{MANAGER, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::{Access, Deletion, parse};
use ek_store::Entry;
use futures::future::BoxFuture;
use plan::Step;
use serde_json::{Value, json};

const COMPONENT: &str = "persistentvolume-controller";
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

pub struct Volumes;

impl Controller for Volumes {
    fn name(&self) -> &'static str {
        "persistentvolume"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["/persistentvolumeclaims", "/persistentvolumes", "/pods", "storage.k8s.io/storageclasses"]
    }

    fn concerns(&self, access: &Access, delta: &Delta, keys: &mut Keys) {
        let unbound = |keys: &mut Keys| {
            for (key, e) in &access.table(&tables::CLAIMS).objects {
                if crate::objects::find(&e.bytes(), b"\"phase\":\"Bound\"").is_none() {
                    keys.push(format!("c|{key}"));
                }
            }
        };
        match &*delta.table {
            "/persistentvolumeclaims" => {
                keys.push(format!("c|{}", delta.key));
                // A claim that goes sets its volume free.
                if let (None, Some(c)) = (&delta.current, delta.previous.as_ref().and_then(|e| parse(e))) {
                    keys.push(format!("v|{}", text(&c, "/spec/volumeName")));
                }
            }
            "/persistentvolumes" => {
                keys.push(format!("v|{}", delta.key));
                let claim = delta.latest().and_then(|e| parse(e)).map(|v| v["spec"]["claimRef"].clone());
                match claim.filter(|c| !c.is_null()) {
                    Some(c) => keys.push(format!("c|{}/{}", text(&c, "/namespace"), text(&c, "/name"))),
                    None => unbound(keys),
                }
            }
            "/pods" => {
                // A pod that ends may have been the last to use a claim that is to go.
                let (namespace, _) = split(&delta.key);
                for (key, e) in access.in_namespace(&tables::CLAIMS, namespace) {
                    if e.meta.deleting {
                        keys.push(format!("c|{key}"));
                    }
                }
            }
            _ => unbound(keys),
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            let access = access.manager(MANAGER);
            match key.split_once('|') {
                Some(("c", key)) => claim(&access, key).await?,
                Some(("v", name)) => volume(&access, name).await?,
                _ => {}
            }
            Ok(Outcome::Done)
        })
    }
}

async fn claim(access: &Access, key: &str) -> Result<(), Status> {
    let (namespace, name) = split(key);
    let Some(claim) = access.get(&tables::CLAIMS, namespace, name) else { return Ok(()) };
    if is_deleting(&claim) {
        if has_finalizer(&claim, CLAIM_PROTECTION) && !in_use(access, namespace, name) {
            let go = |c: &mut Value| remove_finalizer(c, CLAIM_PROTECTION);
            access.update(&tables::CLAIMS, namespace, name, "", go).await?;
        }
        return Ok(());
    }
    if text(&claim, "/status/phase") == "Bound" {
        if access.entry(&tables::VOLUMES, "", text(&claim, "/spec/volumeName")).is_none() {
            phase(access, &claim, "Lost", None).await?;
            let text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
            events::tell(access, COMPONENT, &claim, &Note::warning("ClaimLost", text)).await;
        }
        return Ok(());
    }
    let class = access.get(&tables::STORAGE_CLASSES, "", text(&claim, "/spec/storageClassName"));
    let node = annotation(&claim, plan::SELECTED_NODE).and_then(|n| access.get(&tables::NODES, "", n));
    // What is bound to others is not looked at: of thousands of volumes few are free.
    let (uid, bound) = (object::uid(&claim).as_bytes(), b"\"phase\":\"Bound\"");
    let open = |e: &Entry| {
        let bytes = e.bytes();
        find(&bytes, bound).is_none() || find(&bytes, uid).is_some()
    };
    let volumes = access.table(&tables::VOLUMES);
    let volumes: Vec<Value> = volumes.objects.values().filter(|e| open(e)).filter_map(|e| parse(e)).collect();
    match plan::plan(&claim, &volumes, class.as_ref(), node.as_ref()) {
        Step::Bind(volume) => bind(access, &claim, &volume).await,
        Step::Provision(volume) => {
            let name = object::name(&volume).to_owned();
            match access.create(&tables::VOLUMES, volume).await {
                Err(e) if e.code != 409 => {
                    let note = Note::warning("ProvisioningFailed", e.message.clone());
                    events::tell(access, COMPONENT, &claim, &note).await;
                    return Err(e);
                }
                _ => {}
            }
            let note =
                Note::normal("ProvisioningSucceeded", format!("Successfully provisioned volume {name}"));
            events::tell(access, "zaffre.io/local", &claim, &note).await;
            bind(access, &claim, &name).await
        }
        Step::External(who) => {
            let ask = |c: &mut Value| {
                protect(c, CLAIM_PROTECTION)
                    | annotate(c, "volume.kubernetes.io/storage-provisioner", &who)
                    | annotate(c, "volume.beta.kubernetes.io/storage-provisioner", &who)
            };
            if access.update(&tables::CLAIMS, namespace, name, "", ask).await?.is_some() {
                let text = format!(
                    "Waiting for a volume to be created either by the external provisioner '{who}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
                );
                events::tell(access, COMPONENT, &claim, &Note::normal("ExternalProvisioning", text)).await;
            }
            Ok(())
        }
        Step::Wait { reason, message, warning } => {
            let hold = |c: &mut Value| protect(c, CLAIM_PROTECTION);
            access.update(&tables::CLAIMS, namespace, name, "", hold).await?;
            let note = if warning { Note::warning(reason, message) } else { Note::normal(reason, message) };
            events::tell_once(access, COMPONENT, &claim, &note).await;
            Ok(())
        }
    }
}

fn protect(obj: &mut Value, finalizer: &str) -> bool {
    if has_finalizer(obj, finalizer) || is_deleting(obj) {
        return false;
    }
    match obj.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
        Some(a) => a.push(json!(finalizer)),
        None => obj["metadata"]["finalizers"] = json!([finalizer]),
    }
    true
}

/// Both sides name each other; the volume first, since it may be wanted by two.
async fn bind(access: &Access, claim: &Value, volume: &str) -> Result<(), Status> {
    let (namespace, name) = (object::namespace(claim), object::name(claim));
    let mut ours = plan::reference(claim);
    if let Some(m) = ours.as_object_mut() {
        m.remove("resourceVersion");
    }
    let take = |v: &mut Value| {
        if v["spec"]["claimRef"]["uid"] == ours["uid"] {
            return protect(v, VOLUME_PROTECTION);
        }
        if !v["spec"]["claimRef"].is_null() && !plan::claimed_by(v, claim) {
            return false;
        }
        if v["spec"]["claimRef"].is_null() {
            annotate(v, "pv.kubernetes.io/bound-by-controller", "yes");
        }
        v["spec"]["claimRef"] = ours.clone();
        protect(v, VOLUME_PROTECTION);
        true
    };
    access.update(&tables::VOLUMES, "", volume, "", take).await?;
    let Some(v) = access.get(&tables::VOLUMES, "", volume).filter(|v| plan::claimed_by(v, claim)) else {
        return Ok(());
    };
    let set_phase = |v: &mut Value| {
        let changed = v["status"]["phase"] != "Bound";
        v["status"]["phase"] = json!("Bound");
        changed
    };
    access.update(&tables::VOLUMES, "", volume, "status", set_phase).await?;
    let ours = text(claim, "/spec/volumeName").is_empty();
    let name_it = |c: &mut Value| {
        let mut changed =
            annotate(c, "pv.kubernetes.io/bind-completed", "yes") | protect(c, CLAIM_PROTECTION);
        if ours {
            changed |= annotate(c, "pv.kubernetes.io/bound-by-controller", "yes");
        }
        if c["spec"]["volumeName"] != volume {
            c["spec"]["volumeName"] = json!(volume);
            changed = true;
        }
        changed
    };
    access.update(&tables::CLAIMS, namespace, name, "", name_it).await?;
    phase(access, claim, "Bound", Some(&v)).await
}

async fn phase(access: &Access, claim: &Value, phase: &str, volume: Option<&Value>) -> Result<(), Status> {
    let mut status = json!({"phase": phase});
    if let Some(v) = volume {
        status["accessModes"] = v["spec"]["accessModes"].clone();
        status["capacity"] = v["spec"]["capacity"].clone();
    }
    let put = |c: &mut Value| {
        let changed = c["status"] != status;
        c["status"] = status.clone();
        changed
    };
    let (ns, name) = (object::namespace(claim), object::name(claim));
    access.update(&tables::CLAIMS, ns, name, "status", put).await.map(|_| ())
}

/// Whether a pod that has not ended mounts the claim.
fn in_use(access: &Access, namespace: &str, claim: &str) -> bool {
    access.in_namespace(&tables::PODS, namespace).iter().filter_map(|(_, e)| parse(e)).any(|p| {
        let ended = matches!(text(&p, "/status/phase"), "Succeeded" | "Failed");
        !ended
            && list(&p, "/spec/volumes").iter().any(|v| {
                let own = !v["ephemeral"].is_null()
                    && format!("{}-{}", object::name(&p), text(v, "/name")) == claim;
                text(v, "/persistentVolumeClaim/claimName") == claim || own
            })
    })
}

async fn volume(access: &Access, name: &str) -> Result<(), Status> {
    let Some(v) = access.get(&tables::VOLUMES, "", name) else { return Ok(()) };
    let r = &v["spec"]["claimRef"];
    let claim = access.get(&tables::CLAIMS, text(r, "/namespace"), text(r, "/name"));
    let uid = text(r, "/uid");
    // One that is promised by name is available until the claim comes.
    let bound = claim.as_ref().is_some_and(|c| uid.is_empty() || object::uid(c) == uid);
    let phase = match (r.is_null(), bound) {
        (true, _) => "Available",
        (false, true) if text(claim.as_ref().unwrap_or(&Value::Null), "/spec/volumeName") == name => "Bound",
        (false, _) if uid.is_empty() => "Available",
        (false, true) => text(&v, "/status/phase"),
        (false, false) => "Released",
    };
    if is_deleting(&v) {
        if phase != "Bound" && has_finalizer(&v, VOLUME_PROTECTION) {
            let go = |v: &mut Value| remove_finalizer(v, VOLUME_PROTECTION);
            access.update(&tables::VOLUMES, "", name, "", go).await?;
        }
        return Ok(());
    }
    let hold = |v: &mut Value| protect(v, VOLUME_PROTECTION);
    access.update(&tables::VOLUMES, "", name, "", hold).await?;
    let put = |v: &mut Value| {
        let changed = v["status"]["phase"] != phase && !phase.is_empty();
        if changed {
            v["status"]["phase"] = json!(phase);
        }
        changed
    };
    access.update(&tables::VOLUMES, "", name, "status", put).await?;
    let mine = annotation(&v, plan::PROVISIONED_BY) == Some(plan::PROVISIONER);
    if phase == "Released" && mine && text(&v, "/spec/persistentVolumeReclaimPolicy") == "Delete" {
        access.delete(&tables::VOLUMES, "", name, Deletion::default()).await?;
    }
    Ok(())
}
