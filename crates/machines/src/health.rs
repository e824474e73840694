//! When a machine counts as broken, and whether so many may be replaced: pure.

use crate::text::{after, go_duration};
use crate::words;
use apis::capi::MachineHealthCheckSpec;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// How long a machine may take to become a node when nobody says.
const STARTUP: SignedDuration = SignedDuration::from_mins(10);

const GONE: &str = "NodeNotFound";

/// A condition of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCondition {
    pub kind: String,
    pub status: String,
    pub since: Timestamp,
}

/// A machine's node, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node<'a> {
    /// The guest cannot be asked.
    Unknown,
    /// The machine has none yet; it is waited for since then.
    Awaited(Timestamp),
    /// The machine had one, and it is gone.
    Gone,
    There(&'a [NodeCondition]),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is well; look again then, if nothing happens.
    Well(Option<Timestamp>),
    Sick {
        reason: &'static str,
        message: String,
    },
}

/// `failure` is what the machine says of itself, `asked` whether somebody marked it.
pub fn judge(
    spec: &MachineHealthCheckSpec,
    failure: Option<&str>,
    asked: bool,
    node: &Node<'_>,
    now: Timestamp,
) -> Verdict {
    let sick = |reason, message: String| Verdict::Sick { reason, message };
    if asked {
        return sick("HasRemediateMachineAnnotation", "marked by cluster.x-k8s.io/remediate-machine".into());
    }
    if let Some(why) = failure {
        return sick("MachineHasFailure", why.to_owned());
    }
    match node {
        Node::Unknown => Verdict::Well(None),
        Node::Gone => sick(GONE, "its node no longer exists".into()),
        Node::Awaited(since) => {
            let limit = spec.node_startup_timeout.as_deref().and_then(go_duration).unwrap_or(STARTUP);
            // Zero means: as long as it likes.
            if limit.is_zero() {
                return Verdict::Well(None);
            }
            let end = after(*since, limit);
            match now >= end {
                true => sick("NodeStartupTimeout", format!("no node joined within {limit:#}")),
                false => Verdict::Well(Some(end)),
            }
        }
        Node::There(conditions) => {
            let mut next: Option<Timestamp> = None;
            for u in spec.unhealthy_conditions.iter().flatten() {
                let Some(c) = conditions.iter().find(|c| c.kind == u.type_ && c.status == u.status) else {
                    continue;
                };
                let limit = go_duration(&u.timeout).unwrap_or(STARTUP);
                let end = after(c.since, limit);
                if now >= end {
                    let message =
                        format!("condition {} of its node is {} for more than {limit:#}", c.kind, c.status);
                    return sick("UnhealthyNode", message);
                }
                next = Some(next.map_or(end, |n| n.min(end)));
            }
            Verdict::Well(next)
        }
    }
}

/// Since when a machine's node is waited for: its creation, or when its infrastructure stood, whichever is later. Azure may
/// have kept it waiting for long (quota, allocation), and that is no fault of the machine.
pub fn awaited(created: Timestamp, status: &Value) -> Timestamp {
    let stands = words::find(status, "InfrastructureReady").filter(|c| c["status"] == "True");
    let since = stands.and_then(|c| c["lastTransitionTime"].as_str()?.parse().ok());
    since.map_or(created, |since: Timestamp| since.max(created))
}

/// Whether a machine that goes counts as broken: it does, until it is gone, if that is why it goes. Otherwise an outage
/// that takes one machine after the other would never be more than the limit.
pub fn counts(status: &Value, verdict: &Verdict) -> bool {
    let found = |kind| words::is(status, kind, "False");
    // The node of one that was well goes with it.
    found("OwnerRemediated")
        || found("HealthCheckSucceeded")
        || matches!(verdict, Verdict::Sick { reason, .. } if *reason != GONE)
}

/// How many may be replaced beyond `sick` that are broken; `None`: too many are broken, and none is replaced.
pub fn allowance(spec: &MachineHealthCheckSpec, total: u32, sick: u32) -> Option<u32> {
    if let Some((least, most)) = spec.unhealthy_range.as_deref().and_then(range) {
        return (least..=most).contains(&sick).then(|| most - sick);
    }
    let most = crate::text::count(spec.max_unhealthy.as_ref(), total, false, total);
    most.checked_sub(sick)
}

/// `[3-5]`.
fn range(text: &str) -> Option<(u32, u32)> {
    let (a, b) = text.strip_prefix('[')?.strip_suffix(']')?.split_once('-')?;
    Some((a.parse().ok()?, b.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(s: i64) -> Timestamp {
        Timestamp::from_second(s).unwrap()
    }

    fn spec(v: serde_json::Value) -> MachineHealthCheckSpec {
        let mut all = json!({"clusterName": "c", "selector": {"matchLabels": {"a": "b"}}});
        for (k, x) in v.as_object().unwrap() {
            all[k] = x.clone();
        }
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn machines_are_given_time_and_then_judged() {
        let s = spec(json!({"nodeStartupTimeout": "20m", "unhealthyConditions": [
            {"type": "Ready", "status": "False", "timeout": "8m"}, {"type": "Ready", "status": "Unknown", "timeout": "8m"}]}));
        let judge = |n: &Node<'_>, now| judge(&s, None, false, n, at(now));
        assert_eq!(judge(&Node::Awaited(at(0)), 10), Verdict::Well(Some(at(1200))));
        assert!(matches!(
            judge(&Node::Awaited(at(0)), 1200),
            Verdict::Sick { reason: "NodeStartupTimeout", .. }
        ));
        let ready =
            |status: &str| [NodeCondition { kind: "Ready".into(), status: status.into(), since: at(100) }];
        assert_eq!(judge(&Node::There(&ready("True")), 9999), Verdict::Well(None));
        assert_eq!(judge(&Node::There(&ready("Unknown")), 200), Verdict::Well(Some(at(580))));
        assert!(matches!(
            judge(&Node::There(&ready("False")), 580),
            Verdict::Sick { reason: "UnhealthyNode", .. }
        ));
        assert!(matches!(judge(&Node::Gone, 0), Verdict::Sick { reason: "NodeNotFound", .. }));
        assert_eq!(
            judge(&Node::Unknown, 9999),
            Verdict::Well(None),
            "not knowing is no reason to delete a machine"
        );
        let patient = spec(json!({"nodeStartupTimeout": "0"}));
        assert_eq!(
            super::judge(&patient, None, false, &Node::Awaited(at(0)), at(99999)),
            Verdict::Well(None)
        );
        assert!(matches!(
            super::judge(&patient, Some("x"), false, &Node::Unknown, at(0)),
            Verdict::Sick { .. }
        ));
    }

    #[test]
    fn a_machine_is_late_only_after_it_stood() {
        let infra = |status: &str| {
            json!({"conditions": [{"type": "InfrastructureReady", "status": status,
            "lastTransitionTime": "1970-01-01T00:10:00Z"}]})
        };
        assert_eq!(awaited(at(5), &infra("True")), at(600), "a quota had kept it waiting");
        assert_eq!(awaited(at(900), &infra("True")), at(900));
        assert_eq!(awaited(at(5), &infra("False")), at(5), "what never stands is late, too");
        assert_eq!(awaited(at(5), &json!({})), at(5));
    }

    #[test]
    fn machines_that_go_because_they_were_broken_count_until_they_are_gone() {
        let said = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status}]});
        let well = Verdict::Well(None);
        assert!(counts(&said("OwnerRemediated", "False"), &well));
        assert!(counts(&said("HealthCheckSucceeded", "False"), &well));
        assert!(!counts(&said("HealthCheckSucceeded", "True"), &well), "fewer are wanted, no more");
        let sick = |reason| Verdict::Sick { reason, message: String::new() };
        assert!(counts(&json!({}), &sick("UnhealthyNode")));
        assert!(!counts(&json!({}), &sick(GONE)), "its node went with it");
    }

    #[test]
    fn too_many_broken_ones_stop_it() {
        let two = spec(json!({"maxUnhealthy": 2}));
        assert_eq!([0, 1, 2, 3].map(|n| allowance(&two, 5, n)), [Some(2), Some(1), Some(0), None]);
        let part = spec(json!({"maxUnhealthy": "40%"}));
        assert_eq!((allowance(&part, 5, 2), allowance(&part, 5, 3)), (Some(0), None));
        assert_eq!(allowance(&spec(json!({})), 3, 3), Some(0), "all, when nobody says");
        let range = spec(json!({"unhealthyRange": "[2-3]"}));
        assert_eq!([1, 2, 3, 4].map(|n| allowance(&range, 9, n)), [None, Some(1), Some(0), None]);
    }
}
