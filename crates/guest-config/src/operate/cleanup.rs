//! Before a cluster goes, what it made in Azure goes: registry storage, load balancers, disks, snapshots.
//!
//! First nothing new may come (a policy), then each kind is deleted in the guest and waited for: the guest's own
//! controllers, which are still running, do the work in Azure. A guest that does not answer cannot be asked to do this;
//! after some tries we say so and step aside.

use super::{Operator, asking, is_deleting, seconds};
use crate::kinds::{INGRESS_CONTROLLER, REGISTRY, SNAPSHOT, SNAPSHOT_CONTENT};
use crate::plan::blocking;
use apis::conditions::{hosted_cluster as condition, reason};
use apis::hypershift::HostedControlPlane;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::DynamicObject;
use reconcile::conditions::Finding;
use reconcile::{Failure, Kind, Outcome, chain};
use serde_json::{Value, json};

const DESTROYED: &str = condition::CLOUD_RESOURCES_DESTROYED;
/// This many tries without an answer, and we step aside.
const PATIENCE: u32 = 5;

/// After this long the cluster goes without us, and what is left stays in Azure.
const DEADLINE: SignedDuration = SignedDuration::from_mins(10);

/// What is still there, in words.
type Left = Result<Option<String>, kube::Error>;

impl Operator {
    pub(super) async fn cleanup(&self, hcp: &HostedControlPlane) -> Result<Outcome, Failure> {
        let asked = hcp
            .metadata
            .annotations
            .as_ref()
            .and_then(|a| a.get(apis::names::annotation::CLEANUP_CLOUD_RESOURCES));
        if !is_deleting(hcp) || asked.is_none_or(|v| v != "true") {
            return Ok(Outcome::Done);
        }
        let say = |done: bool, reason: &str, message: String| {
            self.find(DESTROYED, Finding::new(DESTROYED, done, reason, message))
        };
        match self.remove_all().await {
            Ok(left) if left.is_empty() => {
                *self.unanswered.lock() = 0;
                say(true, reason::CLOUD_RESOURCES_DESTROYED, "nothing of the guest is left in Azure".into());
                Ok(Outcome::Done)
            }
            Ok(left) => {
                *self.unanswered.lock() = 0;
                let on = left
                    .iter()
                    .map(|l| self.waiting(l, "the guest's controllers remove it in Azure; see their logs"))
                    .collect();
                let since = hcp.metadata.deletion_timestamp.as_ref().map(|t| t.0);
                let late = since.is_some_and(|s| self.clock.now().duration_since(s) >= DEADLINE);
                let why = match late {
                    true => reason::CLOUD_RESOURCES_DELETION_TIMED_OUT,
                    false => reason::REMAINING_CLOUD_RESOURCES,
                };
                say(false, why, format!("still there: {}", left.join(", ")));
                Ok(Outcome::Waiting { on, again: Some(seconds(5)) })
            }
            Err(e) => {
                let tries = {
                    let mut unanswered = self.unanswered.lock();
                    *unanswered = if is_answer(&e) { 0 } else { unanswered.saturating_add(1) };
                    *unanswered
                };
                if tries >= PATIENCE {
                    let message = format!(
                        "the guest did not answer {tries} times in a row, so nothing it made in Azure could be removed; look for resources tagged kubernetes.io_cluster.{} ({})",
                        hcp.spec.infra_id,
                        chain(&*e)
                    );
                    say(false, reason::CLOUD_RESOURCES_CLEANUP_SKIPPED, message);
                    return Ok(Outcome::After(seconds(30)));
                }
                say(false, reason::ERROR_OCCURRED, format!("will try again: {}", chain(&*e)));
                Ok(Outcome::Waiting {
                    on: vec![self.waiting(
                        "an answer from the guest",
                        "see conditions EtcdAvailable and KubeAPIServerAvailable",
                    )],
                    again: Some(seconds(5)),
                })
            }
        }
    }

    async fn remove_all(&self) -> Result<Vec<String>, Failure> {
        for object in blocking() {
            self.applier.apply(&self.applier.desired(object)?).await?;
        }
        let mut left = Vec::new();
        for (what, one) in [
            ("the image registry's storage", self.registry().await),
            ("ingress controllers", self.every(&INGRESS_CONTROLLER, |_| true, "ingress controllers").await),
            (
                "load balancers",
                self.every(
                    &Kind::of::<Service>(),
                    |o| o.data["spec"]["type"] == "LoadBalancer",
                    "Services of type LoadBalancer",
                )
                .await,
            ),
            ("snapshots", self.snapshots().await),
            ("volumes", self.volumes().await),
        ] {
            left.extend(one.map_err(asking(format!("remove {what}")))?);
        }
        Ok(left)
    }

    /// The registry's operator removes the storage when the registry is to be removed.
    async fn registry(&self) -> Left {
        let api = REGISTRY.api(&self.guest, "");
        let Some(config) = found(api.get_opt("cluster").await)? else { return Ok(None) };
        if config.data["spec"]["managementState"] != "Removed" {
            let patch = json!({"spec": {"managementState": "Removed"}});
            api.patch("cluster", &PatchParams::apply(super::MANAGER), &Patch::Merge(&patch)).await?;
        }
        let conditions = config.data["status"]["conditions"].as_array();
        let exists =
            conditions.into_iter().flatten().any(|c| c["type"] == "StorageExists" && c["status"] == "True");
        Ok(exists.then(|| "the image registry's storage".to_owned()))
    }

    /// Deletes every object of a kind that counts, and says how many are still there.
    async fn every(&self, kind: &Kind, counts: fn(&DynamicObject) -> bool, what: &str) -> Left {
        let listed = found(kind.api(&self.guest, "").list(&ListParams::default()).await.map(Some))?;
        let mut left = 0;
        for o in listed.into_iter().flat_map(|l| l.items).filter(counts) {
            left += usize::from(!self.delete(kind, &o).await?);
        }
        Ok((left > 0).then(|| format!("{left} {what}")))
    }

    /// Says whether it is gone.
    async fn delete(&self, kind: &Kind, o: &DynamicObject) -> Result<bool, kube::Error> {
        let m = &o.metadata;
        let api = kind.api(&self.guest, m.namespace.as_deref().unwrap_or_default());
        let name = m.name.as_deref().unwrap_or_default();
        if m.deletion_timestamp.is_none() {
            match api.delete(name, &DeleteParams::background()).await {
                Ok(either) => return Ok(either.is_right()),
                Err(kube::Error::Api(s)) if s.code == 404 => return Ok(true),
                Err(e) => return Err(e),
            }
        }
        Ok(false)
    }

    async fn snapshots(&self) -> Left {
        let snapshots = self.every(&SNAPSHOT, |_| true, "volume snapshots").await?;
        let contents = self
            .every(&SNAPSHOT_CONTENT, |o| o.data["spec"]["deletionPolicy"] == "Delete", "snapshot contents")
            .await?;
        Ok(snapshots.or(contents))
    }

    /// Claims go, with the pods that hold them; volumes go with their claims. Those that are to be retained stay: that is
    /// what retaining means.
    async fn volumes(&self) -> Left {
        let is_doomed = |o: &DynamicObject| o.data["spec"]["persistentVolumeReclaimPolicy"] == "Delete";
        let volumes = Kind::of_cluster::<PersistentVolume>();
        let listed = volumes.api(&self.guest, "").list(&ListParams::default()).await?;
        let doomed: Vec<DynamicObject> = listed.items.into_iter().filter(is_doomed).collect();
        let claims = self.every(&Kind::of::<PersistentVolumeClaim>(), |_| true, "volume claims").await?;
        if claims.is_some() {
            self.every(&Kind::of::<Pod>(), uses_claims, "pods with volumes").await?;
        }
        let mut left = 0;
        for volume in &doomed {
            // One that was never claimed has nobody else to delete it.
            let is_free =
                volume.data["status"]["phase"] == "Available" || volume.data["spec"]["claimRef"].is_null();
            let gone = is_free && self.delete(&volumes, volume).await?;
            left += usize::from(!gone);
        }
        Ok(if left > 0 { Some(format!("{left} volumes")) } else { claims })
    }
}

fn uses_claims(o: &DynamicObject) -> bool {
    let volumes = o.data["spec"]["volumes"].as_array();
    volumes.into_iter().flatten().any(|v| !matches!(v["persistentVolumeClaim"], Value::Null))
}

/// A kind that is not served has no objects.
fn found<T>(r: Result<Option<T>, kube::Error>) -> Result<Option<T>, kube::Error> {
    match r {
        Err(kube::Error::Api(s)) if s.code == 404 => Ok(None),
        other => other,
    }
}

/// Whether the guest said no, in place of nothing at all.
fn is_answer(e: &Failure) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&**e);
    while let Some(e) = cause {
        if let Some(kube::Error::Api(s)) = e.downcast_ref::<kube::Error>() {
            return s.code < 500;
        }
        if let Some(reconcile::Cause::Api { code, .. }) = e.downcast_ref::<reconcile::Cause>() {
            return *code < 500;
        }
        cause = e.source();
    }
    false
}
