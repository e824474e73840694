//! The namespace of a control plane.

use crate::naming;
use apis::hypershift::HostedCluster;
use apis::names::{annotation, label};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The user that pods run as where the management cluster does not choose one.
pub const UID: &str = "hypershift.openshift.io/default-security-context-uid";
/// Ten thousand control planes fit into one management cluster that is not OpenShift.
pub const UIDS: std::ops::RangeInclusive<i64> = 1001..=11000;

/// Pod security that the namespace enforces.
const LEVELS: [&str; 3] = ["restricted", "baseline", "privileged"];

/// A user id that nobody has. The search begins where the name says, so that clusters made at the same time rarely meet.
pub fn free_uid(namespace: &str, taken: &BTreeSet<i64>) -> Option<i64> {
    let span = UIDS.end() - UIDS.start() + 1;
    let hash = namespace
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let first = i64::try_from(hash % u64::try_from(span).ok()?).ok()?;
    (0..span).map(|i| UIDS.start() + (first + i) % span).find(|uid| !taken.contains(uid))
}

/// The namespace. `uid` where the management cluster is not OpenShift; `monitored` if the platform's Prometheus is to look
/// into it.
pub fn object(hc: &HostedCluster, uid: Option<i64>, monitored: bool) -> Value {
    let level = naming::annotation(hc, annotation::POD_SECURITY_ADMISSION_LABEL_OVERRIDE);
    let level = level.filter(|l| LEVELS.contains(l)).unwrap_or(LEVELS[0]);
    let mut annotations = json!({annotation::HOSTED_CLUSTER: naming::key(hc)});
    if let Some(uid) = uid {
        annotations[UID] = json!(uid.to_string());
    }
    if let Some(id) = naming::annotation(hc, annotation::AZURE_RESOURCE_ID) {
        annotations[annotation::AZURE_RESOURCE_ID] = json!(id);
    }
    let mut labels = json!({
        label::HOSTED_CONTROL_PLANE: "true",
        "pod-security.kubernetes.io/enforce": level,
        "pod-security.kubernetes.io/audit": level,
        "pod-security.kubernetes.io/warn": level,
        "security.openshift.io/scc.podSecurityLabelSync": "false",
    });
    if monitored {
        labels["openshift.io/cluster-monitoring"] = json!("true");
    }
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": naming::namespace(hc), "annotations": annotations, "labels": labels},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_ids_do_not_collide_and_run_out_in_the_end() {
        let mut taken = BTreeSet::new();
        for i in 0..10_000 {
            let uid = free_uid(&format!("clusters-{}", i % 7), &taken).unwrap();
            assert!(UIDS.contains(&uid) && taken.insert(uid), "{uid}");
        }
        assert_eq!(free_uid("clusters-one-more", &taken), None);
    }
}
