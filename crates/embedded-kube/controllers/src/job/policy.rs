//! The rules a job may have: what a pod's failure means, and when enough has succeeded.

use super::indexes::Indexes;
use crate::objects::{int, list, text};
use ek_meta::object;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Count,
    Ignore,
    FailIndex,
    FailJob(String),
}

/// What the first rule that fits says of a failed pod.
pub(super) fn judge(job: &Value, pod: &Value) -> Verdict {
    for (i, rule) in list(job, "/spec/podFailurePolicy/rules").iter().enumerate() {
        let Some(what) = fits(rule, pod) else { continue };
        return match text(rule, "/action") {
            "Ignore" => Verdict::Ignore,
            "FailIndex" => Verdict::FailIndex,
            "FailJob" => Verdict::FailJob(format!("{what} matching FailJob rule at index {i}")),
            _ => Verdict::Count,
        };
    }
    Verdict::Count
}

fn fits(rule: &Value, pod: &Value) -> Option<String> {
    let who = || format!("pod {}/{}", object::namespace(pod), object::name(pod));
    if let Some(codes) = rule.get("onExitCodes").filter(|c| !c.is_null()) {
        let wanted = text(codes, "/containerName");
        let statuses =
            list(pod, "/status/initContainerStatuses").iter().chain(list(pod, "/status/containerStatuses"));
        for c in statuses.filter(|c| wanted.is_empty() || text(c, "/name") == wanted) {
            // Success is never a reason.
            let Some(code) = int(c, "/state/terminated/exitCode").filter(|c| *c != 0) else { continue };
            let is_in = list(codes, "/values").iter().any(|v| v.as_i64() == Some(code));
            if is_in == (text(codes, "/operator") == "In") {
                return Some(format!(
                    "Container {} for {} failed with exit code {code}",
                    text(c, "/name"),
                    who()
                ));
            }
        }
        return None;
    }
    for wanted in list(rule, "/onPodConditions") {
        let same = |c: &&Value| c["type"] == wanted["type"] && c["status"] == wanted["status"];
        if list(pod, "/status/conditions").iter().any(|c| same(&c)) {
            return Some(format!("Pod {} has condition {}", object::name(pod), text(wanted, "/type")));
        }
    }
    None
}

/// Whether one of the rules for success is met.
pub(super) fn succeeded(job: &Value, completed: &Indexes) -> bool {
    list(job, "/spec/successPolicy/rules").iter().any(|rule| {
        let wanted = rule.get("succeededIndexes").and_then(Value::as_str).map(Indexes::parse);
        let have = wanted.as_ref().map_or_else(|| completed.len(), |w| completed.among(w));
        let enough = int(rule, "/succeededCount").or_else(|| wanted.map(|w| w.len()));
        enough.is_some_and(|n| n > 0 && have >= n)
    })
}
