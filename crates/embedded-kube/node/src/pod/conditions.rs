//! A pod's conditions and phase, derived from its containers.

use super::container::{State, Unit};
use crate::stage::ContainerKind;
use ek_meta::time;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Whether a container that ended with this code is started again.
pub(crate) fn restarts(pod: &Value, kind: ContainerKind, code: i64) -> bool {
    match (kind, pod["spec"]["restartPolicy"].as_str().unwrap_or("Always")) {
        (ContainerKind::Sidecar, _) => true,
        (ContainerKind::Init, "Never") => false,
        (ContainerKind::Init, _) => code != 0,
        (_, "Always") => true,
        (_, "OnFailure") => code != 0,
        _ => false,
    }
}

/// The phase the containers amount to. When the pod is `ending`, none is started again.
pub(crate) fn phase(pod: &Value, units: &[Unit<'_>], ending: bool) -> &'static str {
    let over = |u: &Unit<'_>| match u.state() {
        State::Terminated { code } => ending || !restarts(pod, u.kind, code),
        _ => false,
    };
    let failed = |u: &Unit<'_>| matches!(u.state(), State::Terminated { code } if code != 0);
    if units.iter().any(|u| u.kind == ContainerKind::Init && over(u) && failed(u)) {
        return "Failed";
    }
    let main: Vec<&Unit<'_>> = units.iter().filter(|u| u.kind == ContainerKind::Main).collect();
    let sidecars_run = units.iter().any(|u| u.kind == ContainerKind::Sidecar && u.state() == State::Running);
    if !main.is_empty() && main.iter().all(|u| over(u)) && !sidecars_run {
        return if main.iter().any(|u| failed(u)) { "Failed" } else { "Succeeded" };
    }
    // Waiting to be started again is running; waiting for the first start is not.
    let begun = |u: &Unit<'_>| u.state() != State::Waiting || u.status["lastState"]["terminated"].is_object();
    if main.iter().any(|u| u.state() == State::Waiting && !begun(u)) || !main.iter().any(|u| begun(u)) {
        return "Pending";
    }
    "Running"
}

/// Whether every init container has done its part.
pub(crate) fn initialized(units: &[Unit<'_>]) -> bool {
    units.iter().all(|u| match u.kind {
        ContainerKind::Init => u.state() == State::Terminated { code: 0 },
        ContainerKind::Sidecar => u.is_started() || matches!(u.state(), State::Terminated { .. }),
        ContainerKind::Main => true,
    })
}

fn names<'a>(units: impl Iterator<Item = &'a Unit<'a>>) -> String {
    let names: Vec<&str> = units.map(|u| u.name).collect();
    format!("[{}]", names.join(" "))
}

/// Writes phase and conditions into `status`; a condition that stays as it is keeps its time.
pub(crate) fn summarize(pod: &Value, units: &[Unit<'_>], status: &mut Value, now: Timestamp, ending: bool) {
    let phase = match status["reason"] == "Evicted" {
        true => "Failed",
        false => phase(pod, units, ending),
    };
    status["phase"] = json!(phase);
    let done = phase == "Succeeded";
    let sandbox = !status["podIP"].is_null() && !matches!(phase, "Succeeded" | "Failed");
    let lasting = |u: &&Unit<'_>| u.kind != ContainerKind::Init;
    let unready: Vec<&Unit<'_>> = units.iter().filter(lasting).filter(|u| !u.is_ready()).collect();
    let all_ready = phase == "Running" && unready.is_empty();
    let gate = |name: &str| {
        let known = status["conditions"].as_array().into_iter().flatten();
        known.into_iter().any(|c| c["type"] == name && c["status"] == "True")
    };
    let shut: Vec<&str> = (pod["spec"]["readinessGates"].as_array().into_iter().flatten())
        .filter_map(|g| g["conditionType"].as_str())
        .filter(|g| !gate(g))
        .collect();
    let not_ready = match (done, phase) {
        (true, _) => Some(("PodCompleted", String::new())),
        (_, "Failed") => Some(("PodFailed", String::new())),
        _ if all_ready => None,
        _ => Some((
            "ContainersNotReady",
            format!("containers with unready status: {}", names(unready.iter().copied())),
        )),
    };
    let ready = match (&not_ready, shut.as_slice()) {
        (Some(why), _) => Some(why.clone()),
        (None, []) => None,
        (None, shut) => {
            let text: Vec<String> =
                shut.iter().map(|g| format!("corresponding condition of pod readiness gate {g:?} does not exist or is not \"True\".")).collect();
            Some(("ReadinessGatesNotReady", text.join(" ")))
        }
    };
    let not_initialized = (!initialized(units)).then(|| {
        let open = units.iter().filter(|u| match u.kind {
            ContainerKind::Init => u.state() != State::Terminated { code: 0 },
            ContainerKind::Sidecar => !u.is_started(),
            ContainerKind::Main => false,
        });
        ("ContainersNotInitialized", format!("containers with incomplete status: {}", names(open)))
    });
    let not_initialized = not_initialized.filter(|_| !done);
    let completed = done.then(|| ("PodCompleted", String::new()));
    let wanted = [
        ("PodReadyToStartContainers", sandbox, None),
        ("Initialized", not_initialized.is_none(), not_initialized.or(completed)),
        ("Ready", ready.is_none(), ready),
        ("ContainersReady", not_ready.is_none(), not_ready),
        ("PodScheduled", true, None),
    ];
    let generation = pod["metadata"]["generation"].clone();
    let old: Vec<Value> = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut conditions = Vec::with_capacity(old.len().max(5));
    for (kind, yes, why) in wanted {
        let before = old.iter().find(|c| c["type"] == kind);
        let value = if yes { "True" } else { "False" };
        let since = before.filter(|c| c["status"] == value).map(|c| c["lastTransitionTime"].clone());
        let mut c = json!({"type": kind, "status": value, "lastProbeTime": null,
            "lastTransitionTime": since.unwrap_or_else(|| json!(time::rfc3339(now)))});
        if generation.is_i64() || generation.is_u64() {
            c["observedGeneration"] = generation.clone();
        }
        if let Some((reason, message)) = why {
            c["reason"] = json!(reason);
            if !message.is_empty() {
                c["message"] = json!(message);
            }
        }
        conditions.push(c);
    }
    // Other people's conditions (gates, disruptions) are theirs.
    conditions.extend(old.into_iter().filter(|c| !wanted_kind(&c["type"])));
    status["conditions"] = Value::Array(conditions);
    if generation.is_i64() || generation.is_u64() {
        status["observedGeneration"] = generation;
    }
}

fn wanted_kind(kind: &Value) -> bool {
    matches!(
        kind.as_str(),
        Some("PodReadyToStartContainers" | "Initialized" | "Ready" | "ContainersReady" | "PodScheduled")
    )
}
