//! Whether a node is alive, how it is marked, and which pods leave it when.

use crate::objects::{condition, flag, list, seconds_after, sooner, text, when};
use crate::placement::toleration_fits;
use jiff::Timestamp;
use serde_json::{Value, json};

/// A node that is silent for longer is not known to be well.
pub(super) const GRACE: i64 = 40;
/// One that never spoke has a little longer.
const STARTUP: i64 = 60;

/// When the node was last heard of.
fn heard(node: &Value, lease: Option<&Value>) -> Option<Timestamp> {
    let status = condition(node, "Ready").and_then(|c| when(c, "/lastHeartbeatTime"));
    let lease = lease.and_then(|l| when(l, "/spec/renewTime"));
    status.max(lease)
}

/// When it counts as lost unless it is heard of before.
pub(super) fn deadline(node: &Value, lease: Option<&Value>) -> Option<Timestamp> {
    match heard(node, lease) {
        Some(t) => Some(seconds_after(t, GRACE)),
        None => when(node, "/metadata/creationTimestamp").map(|t| seconds_after(t, STARTUP)),
    }
}

/// The conditions of a node that is silent: nothing is known. `None` when they say so already.
pub(super) fn unknown(node: &Value, stamp: &str) -> Option<Vec<Value>> {
    let mut all = list(node, "/status/conditions").to_vec();
    let mut changed = false;
    for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        match all.iter_mut().find(|c| c["type"] == kind) {
            Some(c) if c["status"] == "Unknown" => {}
            Some(c) => {
                c["status"] = json!("Unknown");
                c["reason"] = json!("NodeStatusUnknown");
                c["message"] = json!("Kubelet stopped posting node status.");
                c["lastTransitionTime"] = json!(stamp);
                changed = true;
            }
            None => {
                all.push(json!({"type": kind, "status": "Unknown", "reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status.",
                    "lastHeartbeatTime": node["metadata"]["creationTimestamp"], "lastTransitionTime": stamp}));
                changed = true;
            }
        }
    }
    changed.then_some(all)
}

const PREFIX: &str = "node.kubernetes.io/";

/// The taints a node should have; `None` when it has them.
pub(super) fn taints(node: &Value, stamp: &str) -> Option<Vec<Value>> {
    let status = |kind: &str| condition(node, kind).map_or("", |c| text(c, "/status"));
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    match status("Ready") {
        "True" => {}
        "Unknown" => wanted.extend([("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]),
        "False" => wanted.extend([("not-ready", "NoSchedule"), ("not-ready", "NoExecute")]),
        // Not heard of yet: nothing goes there, nothing leaves.
        _ => wanted.push(("not-ready", "NoSchedule")),
    }
    for (kind, taint) in [
        ("MemoryPressure", "memory-pressure"),
        ("DiskPressure", "disk-pressure"),
        ("PIDPressure", "pid-pressure"),
        ("NetworkUnavailable", "network-unavailable"),
    ] {
        if status(kind) == "True" {
            wanted.push((taint, "NoSchedule"));
        }
    }
    if flag(node, "/spec/unschedulable") {
        wanted.push(("unschedulable", "NoSchedule"));
    }
    const OURS: [&str; 7] = [
        "not-ready",
        "unreachable",
        "memory-pressure",
        "disk-pressure",
        "pid-pressure",
        "network-unavailable",
        "unschedulable",
    ];
    let have = list(node, "/spec/taints");
    let ours = |t: &Value| text(t, "/key").strip_prefix(PREFIX).is_some_and(|k| OURS.contains(&k));
    let same = |t: &Value, (key, effect): &(&str, &str)| {
        text(t, "/key").strip_prefix(PREFIX) == Some(*key) && text(t, "/effect") == *effect
    };
    let mut out: Vec<Value> =
        have.iter().filter(|t| !ours(t) || wanted.iter().any(|w| same(t, w))).cloned().collect();
    for w in wanted {
        if !out.iter().any(|t| same(t, &w)) {
            out.push(json!({"key": format!("{PREFIX}{}", w.0), "effect": w.1, "timeAdded": stamp}));
        }
    }
    (out != have).then_some(out)
}

/// When a pod must leave a node because of its taints; `None`: it may stay.
pub(super) fn leaves_at(node: &Value, pod: &Value, now: Timestamp) -> Option<Timestamp> {
    let mut at = None;
    for taint in list(node, "/spec/taints").iter().filter(|t| text(t, "/effect") == "NoExecute") {
        let fits: Vec<&Value> =
            list(pod, "/spec/tolerations").iter().filter(|t| toleration_fits(t, taint)).collect();
        if fits.is_empty() {
            return Some(now);
        }
        let patience = fits.iter().filter_map(|t| t["tolerationSeconds"].as_i64()).min();
        if let Some(seconds) = patience {
            let since = when(taint, "/timeAdded").unwrap_or(now);
            at = sooner(at, Some(seconds_after(since, seconds.max(0))));
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_follow_conditions_and_leave_others_alone() {
        let node = |ready: &str, taints: Value| json!({"spec": {"taints": taints}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        let mine = json!({"key": "own", "effect": "NoSchedule"});
        let t = taints(&node("Unknown", json!([mine])), "now").unwrap();
        assert_eq!(t.len(), 3);
        assert_eq!(t[0], mine);
        assert_eq!(
            (&t[2]["key"], &t[2]["effect"]),
            (&json!("node.kubernetes.io/unreachable"), &json!("NoExecute"))
        );
        assert_eq!(taints(&node("Unknown", json!(t)), "later"), None);
        assert_eq!(taints(&node("True", json!(t)), "later"), Some(vec![mine]));
    }

    #[test]
    fn patience_is_the_shortest() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let node = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]}});
        let pod = |t: Value| json!({"spec": {"tolerations": t}});
        assert_eq!(leaves_at(&node, &pod(json!([])), now), Some(now));
        assert_eq!(leaves_at(&node, &pod(json!([{"key": "k", "operator": "Exists"}])), now), None);
        let two = json!([{"key": "k", "operator": "Exists", "tolerationSeconds": 300}, {"operator": "Exists", "tolerationSeconds": 60}]);
        assert_eq!(leaves_at(&node, &pod(two), now), Some(seconds_after(now, 60)));
    }
}
