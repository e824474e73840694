//! A cluster that came back from a backup: whether it has found itself again.
//!
//! Annotation `restored-from-backup` says that it did come back. It has recovered when the guest's resources are as they should
//! be and what keeps data on nodes of its own, the monitoring, runs again: its volumes were not in the backup. Said once, that
//! stays; nothing is deleted here to get there.

use super::{Operator, is_deleting, seconds};
use apis::conditions::{hosted_cluster as condition, reason};
use apis::hypershift::HostedControlPlane;
use apis::names::annotation;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use kube::Api;
use reconcile::conditions::{Conditions, Finding, Status};
use reconcile::{Failure, Outcome, chain};

const KIND: &str = condition::HOSTED_CLUSTER_RESTORED_FROM_BACKUP;
const NAMESPACE: &str = "openshift-monitoring";
const PROMETHEUS: &str = "prometheus-k8s";

/// What is known of a restored guest. Pure. `monitoring`: nothing if there is none.
pub fn judge(resources: bool, monitoring: Result<Option<&StatefulSetStatus>, String>) -> Finding {
    let not_yet = |why: String| Finding::new(KIND, false, reason::RECOVERY_FINISHED, why);
    if !resources {
        return not_yet("the guest's resources are not all as they should be yet".into());
    }
    match monitoring {
        Err(why) => not_yet(format!("the guest cannot be asked for its monitoring: {why}")),
        Ok(Some(s)) if s.available_replicas.unwrap_or(0) < s.replicas => not_yet(format!(
            "{} of {} replicas of StatefulSet {NAMESPACE}/{PROMETHEUS} are available; its volumes are not in a backup: \
             if its pods wait for them, delete its PersistentVolumeClaims",
            s.available_replicas.unwrap_or(0),
            s.replicas
        )),
        Ok(_) => Finding::new(KIND, true, reason::RECOVERY_FINISHED, "the cluster is back from its backup"),
    }
}

impl Operator {
    pub(super) async fn recovery(
        &self,
        hcp: &HostedControlPlane,
        before: &Conditions,
    ) -> Result<Outcome, Failure> {
        let restored = hcp
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|a| a.contains_key(annotation::RESTORED_FROM_BACKUP));
        if !restored || is_deleting(hcp) || before.is_true(KIND) {
            return Ok(Outcome::Done);
        }
        let written = self.found.get(condition::CONFIG_OPERATOR_RECONCILIATION_SUCCEEDED);
        let sets: Api<StatefulSet> = Api::namespaced(self.guest.clone(), NAMESPACE);
        let set = sets.get_opt(PROMETHEUS).await.map_err(|e| chain(&e).to_string());
        let status = set.as_ref().map(|s| s.as_ref().and_then(|s| s.status.as_ref())).map_err(Clone::clone);
        let finding = judge(written.is_some_and(|f| f.status == Status::True), status);
        let done = finding.status == Status::True;
        self.find(KIND, finding);
        // Nobody watches one StatefulSet for a few minutes in the life of a cluster.
        Ok(if done { Outcome::Done } else { Outcome::After(seconds(5)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_ends_with_resources_and_monitoring() {
        let status = |available, replicas| StatefulSetStatus {
            available_replicas: Some(available),
            replicas,
            ..StatefulSetStatus::default()
        };
        let says = |f: Finding| (f.status, f.reason, f.message);
        for (resources, monitoring, is, words) in [
            (false, Ok(None), Status::False, "resources"),
            (true, Err("refused".to_owned()), Status::False, "refused"),
            (true, Ok(Some(status(1, 2))), Status::False, "1 of 2 replicas"),
            (true, Ok(Some(status(2, 2))), Status::True, "back"),
            (true, Ok(None), Status::True, "back"),
        ] {
            let (status, reason, message) =
                says(judge(resources, monitoring.as_ref().map(Option::as_ref).map_err(Clone::clone)));
            assert_eq!((status, reason.as_str()), (is, "RecoveryFinished"), "{message}");
            assert!(message.contains(words), "{message}");
        }
    }
}
