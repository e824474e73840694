//! What ails the pods of a component, in their own words.
//!
//! A program that cannot do its work says why: it ends with a message, or is not ready and its probe tells. "0 of 1
//! replicas" helps nobody; `AADSTS700016: application not found` does. Pods that are well leave nothing here.

use kube::core::DynamicObject;
use serde_json::Value;
use std::sync::Arc;

/// Longest text of one pod: a cause, not a log.
const LONGEST: usize = 400;
/// A container in one of these states is on its way.
const UNDER_WAY: [&str; 3] = ["ContainerCreating", "PodInitializing", ""];
/// Words that name the cause where a message has many lines.
const CAUSES: [&str; 5] = ["AADSTS", "AuthorizationFailed", "Forbidden", "error", "Error"];

/// A pod that is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unready {
    pub component: String,
    pub pod: String,
    /// What its containers say, if anything.
    pub says: Option<String>,
}

/// A warning about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub pod: String,
    pub message: String,
    /// RFC 3339, so it sorts by time.
    pub at: String,
}

/// A component and what one of its pods says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub component: String,
    pub text: String,
}

/// The line that names the cause; the last one otherwise.
fn cause(message: &str) -> String {
    let lines = || message.lines().map(str::trim).filter(|l| !l.is_empty());
    let named = CAUSES.iter().find_map(|word| lines().rev().find(|l| l.contains(word)));
    let line = named.or_else(|| lines().next_back()).unwrap_or_default();
    match line.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line.to_owned(),
    }
}

/// What a container says of itself.
fn container(status: &Value) -> Option<String> {
    let name = status["name"].as_str().unwrap_or_default();
    let (waiting, ended) = (&status["state"]["waiting"], &status["state"]["terminated"]);
    let before = &status["lastState"]["terminated"];
    let ending = |t: &Value| {
        let code = t["exitCode"].as_i64().filter(|c| *c != 0)?;
        let said = t["message"].as_str().map(cause).filter(|m| !m.is_empty());
        let reason = t["reason"].as_str().filter(|r| *r != "Error");
        let said = said.or_else(|| reason.map(str::to_owned));
        Some(format!("{name} ended with {code}{}", said.map(|s| format!(": {s}")).unwrap_or_default()))
    };
    let reason = waiting["reason"].as_str().unwrap_or_default();
    // How it ended says more than that it waits to be started again.
    ending(ended).or_else(|| ending(before)).or_else(|| {
        let said = waiting["message"].as_str().map(cause).unwrap_or_default();
        // On its way, unless it says what keeps it: a volume that cannot be mounted, say.
        let quiet = UNDER_WAY.contains(&reason) && said.is_empty();
        (!quiet).then(|| format!("{name} waits: {reason} {said}").trim_end().to_owned())
    })
}

impl Unready {
    /// Nothing for pods that are ready, done, or on their way out.
    pub fn of(o: &DynamicObject) -> Option<Unready> {
        let status = &o.data["status"];
        let list = |key: &str| status[key].as_array().cloned().unwrap_or_default();
        let ready = list("conditions").iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
        if ready || status["phase"] == "Succeeded" || o.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let labels = o.metadata.labels.as_ref()?;
        let component = labels.get("hypershift.openshift.io/control-plane-component")?.clone();
        let mut says = None;
        for key in ["initContainerStatuses", "containerStatuses"] {
            let troubled = list(key).iter().filter(|c| c["ready"] != true).find_map(container);
            says = says.or(troubled);
        }
        let placed = |c: &&Value| c["type"] == "PodScheduled" && c["status"] == "False";
        let unplaced = || {
            let conditions = list("conditions");
            let message = conditions.iter().find(placed)?["message"].as_str()?.to_owned();
            Some(format!("no node takes it: {}", cause(&message)))
        };
        Some(Unready {
            component,
            pod: o.metadata.name.clone().unwrap_or_default(),
            says: says.or_else(unplaced),
        })
    }
}

impl Warning {
    pub fn of(o: &DynamicObject) -> Option<Warning> {
        let d = &o.data;
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        if d["type"] != "Warning" || d["involvedObject"]["kind"] != "Pod" {
            return None;
        }
        let at = d["lastTimestamp"].as_str().or_else(|| d["eventTime"].as_str()).unwrap_or_default();
        let message = format!("{}: {}", text(&d["reason"]), cause(&text(&d["message"])));
        Some(Warning { pod: text(&d["involvedObject"]["name"]), message, at: at.to_owned() })
    }
}

/// What ails a namespace: one text for each component, the first pod's that has one.
pub fn troubles(unready: &[Arc<Unready>], warnings: &[Arc<Warning>]) -> Vec<Trouble> {
    let mut all: Vec<Trouble> = Vec::new();
    for pod in unready {
        if all.iter().any(|t| t.component == pod.component) {
            continue;
        }
        let last = || {
            let about = warnings.iter().filter(|w| w.pod == pod.pod);
            about.max_by(|a, b| a.at.cmp(&b.at)).map(|w| w.message.clone())
        };
        if let Some(says) = pod.says.clone().or_else(last) {
            all.push(Trouble { component: pod.component.clone(), text: format!("pod {}: {says}", pod.pod) });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    fn pod(status: Value) -> DynamicObject {
        serde_json::from_value(json!({"metadata": {"name": "ccm-1", "namespace": "n",
            "labels": {"hypershift.openshift.io/control-plane-component": "ccm"}}, "status": status}))
        .unwrap()
    }

    #[test]
    fn the_last_words_of_a_program_name_the_cause() {
        let log = "starting\nAADSTS700016: Application with identifier 'x' was not found\nexiting now";
        let status = json!({"containerStatuses": [{"name": "ccm", "ready": false,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": log}}}]});
        let said = Unready::of(&pod(status)).unwrap().says.unwrap();
        assert_eq!(said, "ccm ended with 1: AADSTS700016: Application with identifier 'x' was not found");
    }

    #[test]
    fn who_is_well_done_or_on_the_way_says_nothing() {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(Unready::of(&pod(ready)), None);
        assert_eq!(Unready::of(&pod(json!({"phase": "Succeeded"}))), None);
        let status = json!({"containerStatuses": [{"name": "ccm", "ready": false,
            "state": {"waiting": {"reason": "ContainerCreating"}}}]});
        assert_eq!(Unready::of(&pod(status)).unwrap().says, None);
    }

    #[test]
    fn who_is_kept_on_the_way_says_by_what() {
        let status = json!({"containerStatuses": [{"name": "ccm", "ready": false, "state": {"waiting": {
            "reason": "ContainerCreating", "message": "MountVolume.SetUp failed: vault v is away"}}}]});
        let said = Unready::of(&pod(status)).unwrap().says.unwrap();
        assert_eq!(said, "ccm waits: ContainerCreating MountVolume.SetUp failed: vault v is away");
    }

    #[test]
    fn a_probe_speaks_for_a_program_that_runs() {
        let running =
            json!({"containerStatuses": [{"name": "ccm", "ready": false, "state": {"running": {}}}]});
        let unready = vec![Arc::new(Unready::of(&pod(running)).unwrap())];
        let event = |message: &str, at: &str| {
            let e: DynamicObject = serde_json::from_value(json!({"metadata": {"name": at, "namespace": "n"},
                "type": "Warning", "reason": "Unhealthy", "message": message, "lastTimestamp": at,
                "involvedObject": {"kind": "Pod", "name": "ccm-1"}}))
            .unwrap();
            Arc::new(Warning::of(&e).unwrap())
        };
        let warnings = [
            event(
                "Readiness probe failed: AuthorizationFailed: no right to read loadBalancers",
                "2026-11-16T02:00:00Z",
            ),
            event("Readiness probe failed: still starting", "2026-11-16T01:00:00Z"),
        ];
        let said = troubles(&unready, &warnings);
        assert_eq!(said.len(), 1);
        assert!(
            said[0].text.ends_with("AuthorizationFailed: no right to read loadBalancers"),
            "{}",
            said[0].text
        );
        assert!(troubles(&unready, &[]).is_empty());
    }
}
