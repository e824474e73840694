//! The size of a cluster, and the one it is to have. Reasons are sizes here, and a time is that of the size, not of the
//! status that stays True while sizes change.

use crate::sizing::{Decision, Why};
use apis::conditions::{hosted_cluster as c, reason};
use apis::names::annotation;
use jiff::Timestamp;
use reconcile::conditions::{Conditions, Finding, Status};

pub fn write(all: &mut Conditions, decision: &Decision, generation: Option<i64>, now: Timestamp) {
    let at = match decision {
        Decision::Becomes { at, .. } => *at,
        _ => now,
    };
    for finding in findings(decision) {
        let sized = [c::CLUSTER_SIZE_COMPUTED, c::CLUSTER_SIZE_TRANSITION_REQUIRED];
        let before = all.get(&finding.kind);
        if sized.contains(&finding.kind.as_str()) && before.is_some_and(|b| b.reason != finding.reason) {
            all.remove(&finding.kind);
        }
        all.set(finding, generation, at);
    }
}

/// The conditions of a decision.
fn findings(decision: &Decision) -> Vec<Finding> {
    let settled = |size: &str| {
        vec![
            Finding::new(c::CLUSTER_SIZE_COMPUTED, true, size, format!("the cluster has size {size}")),
            Finding::new(
                c::CLUSTER_SIZE_TRANSITION_PENDING,
                false,
                "ClusterSizeTransitioned",
                format!("the cluster has size {size}"),
            ),
        ]
    };
    match decision {
        Decision::Undecided => Vec::new(),
        Decision::Stays { size, unknown: Some(unknown) } => {
            let mut out = settled(size);
            out.push(Finding::new(
                c::CLUSTER_SIZE_TRANSITION_REQUIRED,
                Status::Unknown,
                "UnknownSizeOverride",
                format!(
                    "annotation {} asks for {unknown:?}, which ClusterSizingConfiguration cluster does not have: the cluster keeps size {size}",
                    annotation::CLUSTER_SIZE_OVERRIDE
                ),
            ));
            out
        }
        Decision::Stays { size, unknown: None } | Decision::Becomes { size, .. } => {
            let mut out = settled(size);
            out.push(Finding::new(
                c::CLUSTER_SIZE_TRANSITION_REQUIRED,
                false,
                reason::AS_EXPECTED,
                format!("the cluster has size {size}"),
            ));
            out
        }
        Decision::Waits { size, wanted, why } => {
            let (reason, message) = match why {
                Why::Delay { increase, delay, .. } => (
                    "TransitionDelayNotElapsed",
                    format!(
                        "the cluster becomes {wanted} when it has had {} nodes for {delay:#}",
                        if *increase { "more" } else { "fewer" }
                    ),
                ),
                Why::Limit { limit, window, .. } => (
                    "ConcurrencyLimitReached",
                    format!(
                        "the cluster becomes {wanted} when fewer than {limit} clusters have changed their size in {window:#}"
                    ),
                ),
            };
            vec![
                Finding::new(c::CLUSTER_SIZE_COMPUTED, true, size, format!("the cluster has size {size}")),
                Finding::new(c::CLUSTER_SIZE_TRANSITION_PENDING, true, reason, message.clone()),
                Finding::new(c::CLUSTER_SIZE_TRANSITION_REQUIRED, true, wanted, message),
            ]
        }
    }
}
