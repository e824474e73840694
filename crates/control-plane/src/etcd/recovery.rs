//! A member of etcd that does not come back.
//!
//! A member whose data is damaged, or older than the others remember, fails whenever it starts, and nobody but an operator
//! helps: its disk is given up and it joins again, empty; the others give it what they have. That is only safe while the
//! others are a quorum without it, and only sensible once: a member that fails again with an empty disk has another
//! trouble, and taking its disk again and again would hide that. Pure.

use apis::conditions::{hosted_cluster as condition, reason};
use jiff::{SignedDuration, Timestamp};
use kube::core::DynamicObject;
use reconcile::conditions::{Condition, Finding, Status};

/// So often a member may fail to start before its data is given up.
pub const TRIES: i64 = 3;
/// A member that fails again so soon after is not helped by this.
const AGAIN: SignedDuration = SignedDuration::from_mins(15);

/// A member's pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub pod: String,
    pub uid: String,
    pub ready: bool,
    /// Its etcd does not run, and this is how often it was started.
    pub failing: Option<i64>,
}

impl Member {
    /// From a pod of the StatefulSet.
    pub fn of(o: &DynamicObject) -> Option<Member> {
        if o.metadata.labels.as_ref()?.get("app")? != "etcd" || o.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let pod = o.metadata.name.clone()?;
        // Backups and the like are of etcd, too, but no members.
        let number = pod.strip_prefix("etcd-")?;
        number.parse::<u32>().ok()?;
        let list = o.data["status"]["containerStatuses"].as_array();
        let main = list.into_iter().flatten().find(|c| c["name"] == "etcd")?;
        let running = main["state"]["running"].is_object();
        let restarts = main["restartCount"].as_i64().unwrap_or(0);
        Some(Member {
            pod,
            uid: o.metadata.uid.clone().unwrap_or_default(),
            ready: main["ready"] == true,
            failing: (!running && restarts > 0).then_some(restarts),
        })
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing, and nothing to say.
    Rest,
    /// Its disk and pod are to go.
    Replace { pod: String, uid: String, finding: Finding },
    /// Only something to say.
    Say(Finding),
}

fn say(status: Status, reason: &str, message: String) -> Finding {
    Finding::new(condition::ETCD_RECOVERY_ACTIVE, status, reason, message)
}

/// What to do about the members there are; `before` is what was last said of this, `replaced` the uid of the pod that was
/// last taken away.
pub fn decide(
    members: &[Member],
    wanted: i64,
    replaced: Option<&str>,
    before: Option<&Condition>,
    now: Timestamp,
) -> Decision {
    let ready = i64::try_from(members.iter().filter(|m| m.ready).count()).unwrap_or(0);
    let active = before.is_some_and(|c| c.status == Status::True);
    let gave_up = before.is_some_and(|c| c.reason == reason::ETCD_RECOVERY_JOB_FAILED);
    if ready >= wanted {
        let healed = "all members of etcd are ready".to_owned();
        return match active || gave_up {
            true => Decision::Say(say(Status::False, reason::AS_EXPECTED, healed)),
            false => Decision::Rest,
        };
    }
    let lost: Vec<&Member> = members.iter().filter(|m| m.failing.is_some_and(|n| n >= TRIES)).collect();
    let [member] = lost.as_slice() else {
        // One of them may be the one that begins empty, and is not ready yet.
        let none = lost.is_empty() || lost.iter().any(|m| replaced == Some(m.uid.as_str()));
        return match none {
            true => Decision::Rest,
            false => Decision::Say(say(
                Status::False,
                reason::ETCD_RECOVERY_JOB_FAILED,
                "several members of etcd fail: restore a snapshot (spec.etcd.managed.storage.restoreSnapshotURL of a new cluster)".to_owned(),
            )),
        };
    };
    if replaced == Some(member.uid.as_str()) {
        // It is gone, and the watch has not told yet.
        return Decision::Rest;
    }
    let recent = before.is_some_and(|c| {
        (active || gave_up)
            && c.message.contains(&member.pod)
            && now.duration_since(c.last_transition_time) < AGAIN
    });
    if wanted < 3 || ready < wanted / 2 + 1 {
        let message = format!(
            "{} fails, and without it {ready} of {wanted} members are ready, which is no quorum: its data is kept; see its log",
            member.pod
        );
        return Decision::Say(say(Status::False, reason::ETCD_RECOVERY_JOB_FAILED, message));
    }
    if recent {
        let message = format!("{} fails again although it began empty: see its log", member.pod);
        return Decision::Say(say(Status::False, reason::ETCD_RECOVERY_JOB_FAILED, message));
    }
    let message = format!(
        "{} could not start {TRIES} times: it begins empty and is given the data by the others",
        member.pod
    );
    Decision::Replace {
        pod: member.pod.clone(),
        uid: member.uid.clone(),
        finding: say(Status::True, reason::AS_EXPECTED, message),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;
    use reconcile::conditions::Conditions;
    use serde_json::json;

    fn now() -> Timestamp {
        "2026-11-16T06:00:00Z".parse().unwrap()
    }

    fn members(failing: &[i64]) -> Vec<Member> {
        let member = |(i, n): (usize, &i64)| Member {
            pod: format!("etcd-{i}"),
            uid: format!("uid-{i}"),
            ready: *n == 0,
            failing: (*n > 0).then_some(*n),
        };
        failing.iter().enumerate().map(member).collect()
    }

    fn told(decision: &Decision) -> Conditions {
        let mut all = Conditions::of(&json!({}));
        match decision {
            Decision::Replace { finding, .. } | Decision::Say(finding) => {
                all.set(finding.clone(), None, now());
            }
            Decision::Rest => {}
        }
        all
    }

    #[test]
    fn one_lost_member_is_replaced_once() {
        assert_eq!(
            decide(&members(&[0, 0, 2]), 3, None, None, now()),
            Decision::Rest,
            "it may still come back"
        );
        let first = decide(&members(&[0, 0, 3]), 3, None, None, now());
        assert!(matches!(&first, Decision::Replace { pod, .. } if pod == "etcd-2"), "{first:?}");
        let said = told(&first);
        let before = said.get("EtcdRecoveryActive");
        let soon = now() + SignedDuration::from_mins(5);
        let again = decide(&members(&[0, 0, 3]), 3, None, before, soon);
        assert!(matches!(&again, Decision::Say(f) if f.reason == "EtcdRecoveryJobFailed"), "{again:?}");
        let healed = decide(&members(&[0, 0, 0]), 3, None, before, soon);
        assert!(matches!(&healed, Decision::Say(f) if f.status == Status::False && f.reason == "AsExpected"));
        let later = now() + SignedDuration::from_mins(60);
        assert!(matches!(decide(&members(&[0, 0, 3]), 3, None, before, later), Decision::Replace { .. }));
    }

    /// The pass after a replacement may still see the pod that was taken away: that is no second failure.
    #[test]
    fn a_member_that_was_just_replaced_has_not_failed_again() {
        let Decision::Replace { uid, finding, .. } = decide(&members(&[0, 0, 3]), 3, None, None, now())
        else {
            panic!("it is replaced");
        };
        let mut said = Conditions::of(&json!({}));
        said.set(finding, None, now());
        let before = said.get("EtcdRecoveryActive");
        let old = decide(&members(&[0, 0, 4]), 3, Some(&uid), before, now());
        assert_eq!(old, Decision::Rest);
        let mut new = members(&[0, 0, 3]);
        new[2].uid = "another".into();
        let again = decide(&new, 3, Some(&uid), before, now());
        assert!(matches!(&again, Decision::Say(f) if f.reason == "EtcdRecoveryJobFailed"), "{again:?}");
    }

    #[test]
    fn data_is_never_given_up_without_a_quorum() {
        for lost in [&[0, 3, 3][..], &[3, 3, 3], &[3]] {
            let wanted = i64::try_from(lost.len()).unwrap();
            let decision = decide(&members(lost), wanted, None, None, now());
            assert!(
                matches!(&decision, Decision::Say(f) if f.reason == "EtcdRecoveryJobFailed"),
                "{lost:?} {decision:?}"
            );
        }
        // One fails, one is only not ready: two of three are away.
        let mut two = members(&[0, 0, 3]);
        two[1].ready = false;
        assert!(matches!(decide(&two, 3, None, None, now()), Decision::Say(_)));
        assert_eq!(decide(&members(&[0, 0, 0]), 3, None, None, now()), Decision::Rest);
    }

    #[test]
    fn only_members_are_members() {
        let pod = |name: &str, status: serde_json::Value| -> DynamicObject {
            serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": "etcd"}},
                "status": {"containerStatuses": [status]}}))
            .unwrap()
        };
        let crashed = json!({"name": "etcd", "ready": false, "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        assert_eq!(Member::of(&pod("etcd-1", crashed.clone())).unwrap().failing, Some(4));
        assert_eq!(Member::of(&pod("etcd-backup-x", crashed)), None);
        let runs = json!({"name": "etcd", "ready": true, "restartCount": 4, "state": {"running": {}}});
        assert_eq!(Member::of(&pod("etcd-1", runs)).unwrap().failing, None);
    }
}
