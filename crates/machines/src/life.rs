//! What is said of a machine: its phase and conditions, from what was seen. Pure.

use crate::text::stamp;
use crate::words::{self, Word};
use jiff::Timestamp;
use reconcile::conditions::{self, Conditions, Finding, Status};
use serde_json::{Value, json};

/// The infrastructure's side.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "one at a time, on a stack")]
pub enum Infra {
    /// There is no such object.
    Absent,
    There {
        ready: bool,
        provider_id: Option<String>,
        addresses: Value,
        failure: Option<(String, String)>,
        /// Its `Ready` condition.
        said: Option<Value>,
    },
}

/// The node's side.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// The machine is not so far that it could have one.
    TooEarly,
    /// The guest cannot be asked, and why.
    Unreachable(String),
    Absent,
    There {
        name: String,
        uid: String,
        info: Value,
        /// Status of its `Ready` condition.
        ready: String,
    },
}

/// How far a machine is in going.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Going {
    pub reason: &'static str,
    pub message: String,
    pub drain_began: Option<Timestamp>,
    pub detach_began: Option<Timestamp>,
}

/// Everything that decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    pub generation: Option<i64>,
    /// What it boots with is named.
    pub bootstrap: bool,
    pub infra: Infra,
    pub node: Node,
    pub going: Option<Going>,
}

/// The status as it should be, given what it was. Conditions of others (the health check's) are kept.
pub fn status(before: &Value, facts: &Facts, now: Timestamp) -> Value {
    let mut status = if before.is_object() { before.clone() } else { json!({}) };
    let was_ready = before["infrastructureReady"] == true;
    let boot = match facts.bootstrap {
        true => Word::good("BootstrapReady"),
        false => Word::bad(
            "BootstrapReady",
            "Info",
            "WaitingForDataSecret",
            "spec.bootstrap.dataSecretName is not set yet",
        ),
    };
    let (infra, failure) = infrastructure(facts, was_ready);
    let node = node_word(facts, before);
    status["bootstrapReady"] = json!(facts.bootstrap);
    status["infrastructureReady"] =
        json!(infra.is_good() || (was_ready && matches!(facts.infra, Infra::There { .. })));
    if let Infra::There { addresses, .. } = &facts.infra
        && addresses.is_array()
    {
        status["addresses"] = addresses.clone();
    }
    match &failure {
        Some((reason, message)) => {
            (status["failureReason"], status["failureMessage"]) = (json!(reason), json!(message));
        }
        None => {
            status.as_object_mut().map(|s| (s.remove("failureReason"), s.remove("failureMessage")));
        }
    }
    if let Node::There { name, uid, info, .. } = &facts.node {
        status["nodeRef"] = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid});
        if info.is_object() {
            status["nodeInfo"] = info.clone();
        }
    }
    if let Some(going) = &facts.going {
        let mut deletion = before["deletion"].clone();
        if !deletion.is_object() {
            deletion = json!({});
        }
        for (field, at) in [
            ("nodeDrainStartTime", going.drain_began),
            ("waitForNodeVolumeDetachStartTime", going.detach_began),
        ] {
            if let Some(at) = at {
                deletion[field] = json!(stamp(at));
            }
        }
        if deletion.as_object().is_some_and(|d| !d.is_empty()) {
            status["deletion"] = deletion;
        }
    }
    status["observedGeneration"] = json!(facts.generation);
    let phase = phase(&status, facts, failure.is_some());
    if before["phase"] != phase {
        status["lastUpdated"] = json!(stamp(now));
    }
    status["phase"] = json!(phase);
    conditions_of(&mut status, before, facts, [boot, infra, node], now);
    status
}

fn phase(status: &Value, facts: &Facts, failed: bool) -> &'static str {
    if facts.going.is_some() {
        "Deleting"
    } else if failed {
        "Failed"
    } else if status["nodeRef"].is_object() && status["infrastructureReady"] == true {
        "Running"
    } else if status["infrastructureReady"] == true {
        "Provisioned"
    } else if facts.bootstrap {
        "Provisioning"
    } else {
        "Pending"
    }
}

/// The condition, and a failure that nobody comes back from.
fn infrastructure(facts: &Facts, was_ready: bool) -> (Word, Option<(String, String)>) {
    const KIND: &str = "InfrastructureReady";
    match &facts.infra {
        Infra::Absent if was_ready && facts.going.is_none() => {
            let why = "its AzureMachine was deleted after it had been ready";
            (Word::bad(KIND, "Error", "Deleted", why), Some(("InvalidConfiguration".into(), why.into())))
        }
        Infra::Absent => {
            (Word::bad(KIND, "Info", "WaitingForInfrastructure", "its AzureMachine is not there"), None)
        }
        Infra::There { ready: true, failure: None, .. } => (Word::good(KIND), None),
        Infra::There { failure, said, .. } => {
            let text = |k: &str| said.as_ref().and_then(|c| c[k].as_str()).unwrap_or_default().to_owned();
            let severity = match text("severity").as_str() {
                "Error" => "Error",
                "Warning" => "Warning",
                _ => "Info",
            };
            let reason = text("reason");
            let reason = if reason.is_empty() { "WaitingForInfrastructure".to_owned() } else { reason };
            let message = failure.as_ref().map_or_else(|| text("message"), |(_, m)| m.clone());
            (Word::bad(KIND, severity, &reason, message), failure.clone())
        }
    }
}

fn node_word(facts: &Facts, before: &Value) -> Word {
    const KIND: &str = "NodeHealthy";
    match &facts.node {
        Node::TooEarly => Word::bad(
            KIND,
            "Info",
            "WaitingForInfrastructure",
            "there is no machine yet that could be a node",
        ),
        Node::Unreachable(why) => Word {
            status: Status::Unknown,
            ..Word::bad(
                KIND,
                "Warning",
                "GuestUnreachable",
                format!("the cluster's API cannot be asked: {why}"),
            )
        },
        Node::Absent if before["nodeRef"].is_object() => {
            let gone = before["nodeRef"]["name"].as_str().unwrap_or_default();
            Word::bad(KIND, "Error", "NodeNotFound", format!("node {gone} no longer exists in the cluster"))
        }
        Node::Absent => Word::bad(
            KIND,
            "Info",
            "NodeProvisioning",
            "the machine runs and no node with its provider id has joined yet; if this lasts: does it reach the ignition and API endpoints (DNS, NSG), and is its token still good?",
        ),
        Node::There { ready, .. } if ready == "True" => Word::good(KIND),
        Node::There { name, ready, .. } => {
            let word = Word::bad(
                KIND,
                "Warning",
                "NodeConditionsFailed",
                format!("condition Ready of node {name} is {ready}"),
            );
            if ready == "Unknown" { Word { status: Status::Unknown, ..word } } else { word }
        }
    }
}

fn conditions_of(status: &mut Value, before: &Value, facts: &Facts, parts: [Word; 3], now: Timestamp) {
    let mut list = words::list(before);
    let healthy = words::find(before, "HealthCheckSucceeded").filter(|c| c["status"] == "False");
    let mut all = parts.to_vec();
    if let Some(c) = healthy {
        let message = c["message"].as_str().unwrap_or_default();
        all.push(Word::bad(
            "HealthCheckSucceeded",
            "Warning",
            c["reason"].as_str().unwrap_or("Unhealthy"),
            message,
        ));
    }
    if let Some(going) = &facts.going {
        all.insert(0, Word::bad(words::READY, "Info", going.reason, going.message.clone()));
    }
    let summary = match &facts.going {
        Some(going) => Word::bad(words::READY, "Info", going.reason, going.message.clone()),
        None => words::summary(&all),
    };
    for word in parts.iter().chain([&summary]) {
        words::set(&mut list, word, now);
    }
    status["conditions"] = json!(list);
    let mut v2 = Conditions::of(&before["v1beta2"]);
    let [boot, infra, node] = &parts;
    let said = |kind: &str, w: &Word| {
        let reason = if w.is_good() { conditions::AS_EXPECTED } else { &w.reason };
        Finding::new(kind, w.status, reason, w.message.clone())
    };
    let deleting = facts.going.as_ref().map_or_else(
        || Finding::new("Deleting", false, "NotDeleting", ""),
        |g| Finding::new("Deleting", true, g.reason, g.message.clone()),
    );
    for finding in [
        said("BootstrapConfigReady", boot),
        said("InfrastructureReady", infra),
        said("NodeHealthy", node),
        said("NodeReady", node),
        said("Ready", &summary),
        said("Available", &summary),
        deleting,
    ] {
        v2.set(finding, facts.generation, now);
    }
    status["v1beta2"] = json!({"conditions": v2.to_value()});
}

#[cfg(test)]
#[path = "life_tests.rs"]
mod tests;
