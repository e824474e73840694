//! etcd as the operator looks after it: snapshots, members that are lost, and the one it began from.

use super::memo::Memo;
use super::objects;
use super::progress::Progress;
use super::{Found, KINDS, Operator, Pass};
use crate::etcd::{backup, recovery};
use crate::scope::Etcd;
use apis::conditions::hosted_cluster::control_plane::ETCD_SNAPSHOT_RESTORED;
use apis::conditions::reason;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::core::DynamicObject;
use reconcile::conditions::{Conditions, Finding, Status};
use reconcile::{Failure, Kind, Waiting};
use serde_json::{Value, json};

impl Operator {
    pub(super) async fn look_after_etcd(
        &self,
        pass: &Pass<'_>,
        memo: &mut Memo,
        found: &mut Found,
    ) -> Result<(), Failure> {
        let Etcd::Managed { restore, .. } = &pass.scope.etcd else { return Ok(()) };
        let done = pass.progress.rollout("etcd").is_some_and(|r| r.done(pass.progress.version()));
        if restore.is_some() && done {
            let message = "etcd began from the snapshot; it is not asked for again";
            found.said.push(Finding::new(ETCD_SNAPSHOT_RESTORED, Status::True, reason::AS_EXPECTED, message));
        }
        self.recover(pass.seen, pass.progress, memo, found, pass.now).await?;
        self.back_up(pass, found).await
    }

    /// Helps a member that does not come back. Needs no facts: also of a control plane that has none at present.
    pub(super) async fn recover(
        &self,
        seen: &DynamicObject,
        progress: &Progress,
        memo: &mut Memo,
        found: &mut Found,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let namespace = seen.metadata.namespace.as_deref().unwrap_or_default();
        let members: Vec<recovery::Member> =
            self.views.members.within(namespace).iter().map(|m| (**m).clone()).collect();
        let Some(etcd) = progress.rollout("etcd").filter(|r| r.there) else { return Ok(()) };
        let before = Conditions::of(seen.data.get("status").unwrap_or(&Value::Null));
        let before = before.get(apis::conditions::hosted_cluster::ETCD_RECOVERY_ACTIVE);
        match recovery::decide(&members, etcd.wanted, memo.replaced.as_deref(), before, now) {
            recovery::Decision::Rest => {}
            recovery::Decision::Say(finding) => found.said.push(finding),
            recovery::Decision::Replace { pod, uid, finding } => {
                found.said.push(finding);
                tracing::warn!(namespace, pod, "a member of etcd is lost: it begins empty and joins again");
                let claim = Kind::of::<PersistentVolumeClaim>().at(namespace, format!("data-{pod}"));
                self.applier.delete(&claim).await?;
                self.applier.delete(&Kind::of::<Pod>().at(namespace, pod)).await?;
                // Only now: what failed half way is done again.
                memo.replaced = Some(uid);
            }
        }
        Ok(())
    }

    async fn back_up(&self, pass: &Pass<'_>, found: &mut Found) -> Result<(), Failure> {
        let (scope, namespace) = (pass.scope, &*pass.scope.namespace);
        let objects = self.views.backups.within(namespace);
        if objects.is_empty() {
            return Ok(());
        }
        let asked: Vec<backup::Asked> = objects.iter().filter_map(|o| backup::Asked::of(o)).collect();
        found.said.extend(backup::summary(&asked));
        for name in backup::expired(&asked) {
            self.applier.delete(&KINDS.backup().at(namespace, name)).await?;
        }
        let ready = pass.progress.rollout("etcd").is_some_and(|r| r.ready > r.wanted / 2);
        let trouble = pass.troubles.iter().find(|t| t.component == "etcd-backup").map(|t| t.text.as_str());
        let job = |name: &str| self.views.jobs.get(namespace, name).map(|r| (*r).clone()).unwrap_or_default();
        for mut decision in backup::decide(scope, &asked, ready, &job, trouble) {
            let Some(this) = asked.iter().find(|a| a.name == decision.name) else { continue };
            if decision.start {
                match backup::job(scope, this) {
                    Ok(made) => {
                        for mut object in made {
                            objects::finish(&mut object, pass.seen);
                            self.applier.apply(&self.applier.desired(object)?).await?;
                        }
                    }
                    Err(e) => {
                        decision.finding =
                            Finding::new(backup::COMPLETED, Status::False, "BackupFailed", e.to_string());
                    }
                }
            }
            if decision.finding.reason == "BackupInProgress" {
                let what = format!("backup {}: {}", decision.name, decision.finding.message);
                found.waiting.push(Waiting::new(what, "nothing: a Job takes it", pass.now));
            }
            let seen = objects.iter().find(|o| o.metadata.name.as_ref() == Some(&decision.name));
            let Some(seen) = seen else { continue };
            let at = KINDS.backup().at(namespace, decision.name.clone());
            let compute = |o: &kube::core::DynamicObject| {
                let mut status =
                    o.data.get("status").cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
                let mut all = Conditions::of(&status);
                all.set(decision.finding.clone(), o.metadata.generation, pass.now);
                if let Some(url) = &decision.url {
                    status["snapshotURL"] = json!(url);
                }
                status["conditions"] = all.to_value();
                status
            };
            self.applier.status(&at, seen, compute).await?;
        }
        Ok(())
    }
}
