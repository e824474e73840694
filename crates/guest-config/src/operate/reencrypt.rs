//! After a change of key, everything that is encrypted is written once more.
//!
//! # Who does what
//!
//! The control-plane operator leads a rotation and says how far it is in
//! `HostedControlPlane.status.secretEncryption.history[0].state`. When that is `Migrating`, every API server writes with the
//! new key and reads with both, and it is our turn: each object of the encrypted resources is updated without changing
//! it, which makes the API server seal it again. When all are done we say so twice:
//!
//! * annotation [`DONE`] on the HostedControlPlane: the fingerprint (`to.fingerprint`) that everything is sealed with now.
//!   This is what the control-plane operator goes by: it cannot be about another rotation;
//! * condition `EtcdDataEncryptionUpToDate`, for people.
//!
//! Objects are read by metadata only: no secret travels. What changes or vanishes meanwhile is somebody else's write,
//! sealed with the new key.

use super::{Error, MANAGER, Operator, asking, seconds};
use crate::kinds;
use apis::conditions::{hosted_cluster as condition, reason};
use apis::hypershift::HostedControlPlane;
use apis::hypershift::encryption::{KeyProvider, KeyRotation, RotationState};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ListParams, Patch, PatchParams};
use reconcile::conditions::Finding;
use reconcile::{Failure, Kind, Outcome, chain};
use serde_json::json;
use std::time::Duration;

/// On the HostedControlPlane: fingerprint of the key that everything was last sealed with.
pub const DONE: &str = "hypershift.openshift.io/re-encrypted-with";

const UP_TO_DATE: &str = condition::ETCD_DATA_ENCRYPTION_UP_TO_DATE;
const PAGE: u32 = 500;
/// A run ends after this, so that it never meets its deadline; the next goes on where it ended.
const STRETCH: Duration = Duration::from_secs(60);

/// Where a migration is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    fingerprint: String,
    /// Resources that are done.
    resources: usize,
    next: Option<String>,
    pub written: usize,
}

/// What a rotation to this provider concerns.
fn resources(provider: KeyProvider) -> Vec<Kind> {
    let mut all = vec![Kind::of::<Secret>()];
    if provider != KeyProvider::AesCbc {
        all.push(Kind::of::<ConfigMap>());
        all.extend([kinds::ROUTE, kinds::ACCESS_TOKENS, kinds::AUTHORIZE_TOKENS]);
    }
    all
}

/// What the condition says of a rotation that is not ours to do; pure. `under_way` is whether there is a key that data moves
/// to.
pub fn standing(rotation: &KeyRotation, done: Option<&str>, under_way: bool) -> Option<Finding> {
    let no = |reason: &str, message: &str| Some(Finding::new(UP_TO_DATE, false, reason, message));
    match rotation.state {
        RotationState::ReadOnlyDeploy => no(
            reason::READ_ONLY_ROLLOUT_IN_PROGRESS,
            "API servers are being told the new key; they write with the old one",
        ),
        RotationState::WritePromote => {
            no(reason::WRITE_PROMOTION_IN_PROGRESS, "API servers are being told to write with the new key")
        }
        // Only what has written nothing is called off: everything is sealed as it was.
        RotationState::Interrupted if !under_way => {
            let (old, new) = (&rotation.from.fingerprint, &rotation.to.fingerprint);
            let message =
                format!("all data is encrypted with key {old}; the rotation to {new} was called off");
            Some(Finding::new(UP_TO_DATE, true, reason::RE_ENCRYPTION_COMPLETED, message))
        }
        RotationState::Interrupted => {
            no(reason::RE_ENCRYPTION_FAILED, "the rotation was interrupted; another has to follow")
        }
        RotationState::Migrating if done != Some(rotation.to.fingerprint.as_str()) => None,
        RotationState::Migrating | RotationState::Completed => {
            let message = format!("all data is encrypted with key {}", rotation.to.fingerprint);
            Some(Finding::new(UP_TO_DATE, true, reason::RE_ENCRYPTION_COMPLETED, message))
        }
    }
}

impl Operator {
    pub(super) async fn reencrypt(&self, hcp: &HostedControlPlane) -> Result<Outcome, Failure> {
        let encryption = hcp.status.as_ref().and_then(|s| s.secret_encryption.as_ref());
        let Some(rotation) = encryption.and_then(|e| e.history.as_ref()?.first()) else {
            *self.reencryption.lock() = None;
            return Ok(Outcome::Done);
        };
        let done = hcp.metadata.annotations.as_ref().and_then(|a| a.get(DONE)).map(String::as_str);
        let under_way = encryption.is_some_and(|e| e.target_key.is_some());
        if let Some(finding) = standing(rotation, done, under_way) {
            self.find(UP_TO_DATE, finding);
            return Ok(Outcome::Done);
        }
        match self.migrate(rotation).await {
            Ok(Some(written)) => {
                tracing::info!(
                    written,
                    key = rotation.to.fingerprint,
                    "everything is encrypted with the new key"
                );
                self.note_done(hcp, &rotation.to.fingerprint).await?;
                let message = format!(
                    "all data is encrypted with key {}; {written} objects were rewritten",
                    rotation.to.fingerprint
                );
                self.find(
                    UP_TO_DATE,
                    Finding::new(UP_TO_DATE, true, reason::RE_ENCRYPTION_COMPLETED, message),
                );
                Ok(Outcome::Done)
            }
            Ok(None) => {
                self.find(
                    UP_TO_DATE,
                    Finding::new(
                        UP_TO_DATE,
                        false,
                        reason::RE_ENCRYPTION_IN_PROGRESS,
                        "objects are being rewritten with the new key",
                    ),
                );
                Ok(Outcome::After(seconds(0)))
            }
            Err(e) => {
                self.find(
                    UP_TO_DATE,
                    Finding::new(
                        UP_TO_DATE,
                        false,
                        reason::RE_ENCRYPTION_FAILED,
                        format!("will try again: {}", chain(&e)),
                    ),
                );
                Err(e.into())
            }
        }
    }

    /// How many objects were rewritten, or nothing if there are more.
    async fn migrate(&self, rotation: &KeyRotation) -> Result<Option<usize>, Error> {
        let fresh = || Progress { fingerprint: rotation.to.fingerprint.clone(), ..Progress::default() };
        let mut at = self
            .reencryption
            .lock()
            .clone()
            .filter(|p| p.fingerprint == rotation.to.fingerprint)
            .unwrap_or_else(fresh);
        let until = tokio::time::Instant::now() + STRETCH;
        let kinds = resources(rotation.to.provider);
        while let Some(kind) = kinds.get(at.resources) {
            if tokio::time::Instant::now() >= until {
                return Ok(None);
            }
            let (written, next) = self.page(kind, at.next.take()).await?;
            at.written += written;
            at.next = next;
            if at.next.is_none() {
                at.resources += 1;
            }
            *self.reencryption.lock() = Some(at.clone());
        }
        Ok(Some(at.written))
    }

    async fn page(&self, kind: &Kind, next: Option<String>) -> Result<(usize, Option<String>), Error> {
        let mut params = ListParams::default().limit(PAGE);
        params.continue_token = next;
        let page = match kind.api(&self.guest, "").list_metadata(&params).await {
            Ok(page) => page,
            // Not served here: there are none.
            Err(kube::Error::Api(s)) if s.code == 404 => return Ok((0, None)),
            // The list took too long to go on with: from the beginning, where nothing is left to write.
            Err(kube::Error::Api(s)) if s.code == 410 && params.continue_token.is_some() => {
                return Ok((0, Some(String::new())));
            }
            Err(e) => return Err(asking(format!("list {}", kind.plural))(e)),
        };
        let next = page.metadata.continue_.clone().filter(|c| !c.is_empty());
        let mut writes = futures::stream::iter(page.items.into_iter().map(|o| {
            let api = kind.api(&self.guest, o.metadata.namespace.as_deref().unwrap_or_default());
            let name = o.metadata.name.unwrap_or_default();
            async move {
                let params =
                    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
                match api.patch_metadata(&name, &params, &Patch::Merge(&json!({}))).await {
                    Ok(_) => Ok(1),
                    Err(kube::Error::Api(s)) if s.code == 404 || s.code == 409 => Ok(0),
                    Err(e) => Err(asking(format!("rewrite {} {name}", kind.kind))(e)),
                }
            }
        }))
        .buffer_unordered(8);
        let mut written = 0;
        while let Some(one) = writes.next().await {
            written += one?;
        }
        Ok((written, next))
    }

    async fn note_done(&self, hcp: &HostedControlPlane, fingerprint: &str) -> Result<(), Error> {
        let ns = hcp.metadata.namespace.as_deref().unwrap_or_default();
        let name = hcp.metadata.name.as_deref().unwrap_or_default();
        let patch = json!({"metadata": {"annotations": {DONE: fingerprint}}});
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let written =
            kinds::PLANE.api(&self.management, ns).patch_metadata(name, &params, &Patch::Merge(&patch)).await;
        written.map(drop).map_err(asking("note on the HostedControlPlane that re-encryption is done"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apis::hypershift::encryption::KeyFingerprint;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use reconcile::conditions::Status;

    #[test]
    fn a_rotation_that_was_called_off_has_not_failed() {
        let key = |f: &str| KeyFingerprint { provider: KeyProvider::Azure, fingerprint: f.to_owned() };
        let off = KeyRotation {
            from: key("old"),
            to: key("new"),
            state: RotationState::Interrupted,
            started_time: Time(jiff::Timestamp::UNIX_EPOCH),
            completion_time: None,
        };
        let said = |under_way| standing(&off, None, under_way).map(|f| (f.status, f.reason));
        assert_eq!(said(false), Some((Status::True, reason::RE_ENCRYPTION_COMPLETED.to_owned())));
        assert_eq!(said(true), Some((Status::False, reason::RE_ENCRYPTION_FAILED.to_owned())));
    }
}
