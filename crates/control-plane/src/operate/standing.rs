//! A control plane that is only looked at: one that is paused, and one that there are no facts of at present.
//!
//! Nothing is changed, and what runs runs on; so how it runs is told as ever. Facts may be missing because a registry is away
//! or because somebody wrote nonsense into the object. Neither takes away an API that serves, and an operator that was
//! started a moment ago has no right to say so.

use super::memo::Memo;
use super::progress::{Progress, progress};
use super::tell::Account;
use super::{ASK_AGAIN, Found, Held, Operator, RELEASE_AGAIN};
use crate::certificates::plan::Kind;
use apis::conditions::hosted_cluster::AVAILABLE;
use apis::conditions::reason;
use apis::hypershift::HostedControlPlane;
use apis::hypershift::etcd::EtcdManagementType;
use jiff::Timestamp;
use kube::core::DynamicObject;
use reconcile::conditions::Conditions;
use reconcile::{Failure, Outcome, Pause, Waiting};

impl Operator {
    /// What a pause makes of a run; nothing if there is none.
    pub(super) async fn paused(
        &self,
        seen: &DynamicObject,
        hcp: &HostedControlPlane,
        memo: &mut Memo,
        now: Timestamp,
    ) -> Result<Option<Outcome>, Failure> {
        let rest = match Pause::read(hcp.spec.paused_until.as_deref(), now) {
            Ok(Pause::Forever) => None,
            Ok(Pause::Until(t)) => Some(t.duration_since(now)),
            Ok(Pause::No) | Err(_) => return Ok(None),
        };
        // For where the API is. Whether there are facts is not news of a pause.
        let _ = self.scope(memo, hcp).await;
        let well = self.observe(seen, memo, &Found::default(), now).await?;
        let again = rest.into_iter().chain((!well).then_some(ASK_AGAIN)).min();
        Ok(Some(again.map_or(Outcome::Done, Outcome::After)))
    }

    /// There are no facts to go by. Only etcd is helped: that needs none.
    pub(super) async fn stands(
        &self,
        seen: &DynamicObject,
        hcp: &HostedControlPlane,
        memo: &mut Memo,
        held: Held,
        now: Timestamp,
    ) -> Result<Outcome, Failure> {
        let waiting = Waiting::new(held.message.clone(), "the condition says more", now);
        // A registry tells nobody when it is back.
        let release = (held.kind == "ValidReleaseInfo").then_some(RELEASE_AGAIN);
        let mut found = Found { held: Some(held), ..Found::default() };
        let helped = match hcp.spec.etcd.management_type {
            EtcdManagementType::Managed => {
                let there = self.standing(seen, memo);
                self.recover(seen, &there, memo, &mut found, now).await
            }
            EtcdManagementType::Unmanaged => Ok(()),
        };
        let well = self.observe(seen, memo, &found, now).await?;
        helped?;
        // One that never served is held up by what is said already.
        let away = (!well && seen.data["status"]["initialized"] == true).then_some(ASK_AGAIN);
        let again = release.into_iter().chain(away).min();
        Ok(Outcome::Waiting { on: vec![waiting], again })
    }

    /// How far it is, by the last facts or by what there is.
    fn standing(&self, seen: &DynamicObject, memo: &Memo) -> Progress {
        let namespace = seen.metadata.namespace.as_deref().unwrap_or_default();
        let rollout = |name: &str| self.views.rollout(namespace, name);
        match &memo.lately {
            Some(scope) => progress(scope, &rollout),
            None => Progress::seen(&rollout),
        }
    }

    /// Says how things are, and whether the API answers.
    async fn observe(
        &self,
        seen: &DynamicObject,
        memo: &mut Memo,
        found: &Found,
        now: Timestamp,
    ) -> Result<bool, Failure> {
        let namespace = seen.metadata.namespace.as_deref().unwrap_or_default();
        let progress = self.standing(seen, memo);
        let health = match memo.lately.clone() {
            Some(scope) => self.health(&scope, &progress, memo, now).await,
            None => last_word(seen),
        };
        let troubles = self.views.troubles(namespace);
        let kubeconfig = self.views.kept(namespace, &memo.pending).has(Kind::Secret, "admin-kubeconfig");
        let account = Account {
            progress: Some(&progress),
            troubles: &troubles,
            kubeconfig,
            ..Account::of(found, &health)
        };
        self.tell(seen, &account).await?;
        Ok(health.is_ok())
    }
}

/// Where the API is published is not known: whether it answers there was said before, and its pods are seen.
fn last_word(seen: &DynamicObject) -> Result<(), String> {
    let before = Conditions::of(&seen.data["status"]);
    match before.get(AVAILABLE).filter(|c| c.reason == reason::KAS_LOAD_BALANCER_NOT_REACHABLE) {
        Some(c) => Err(c.message.clone()),
        None => Ok(()),
    }
}
