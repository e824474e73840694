//! What ClusterVersion and ClusterOperators should say, as a function of what is there.

use crate::Payload;
use crate::look::Look;
use crate::operators::{Part, parts};
use apis::openshift::cluster_version::known_capabilities;
use jiff::Timestamp;
use reconcile::conditions::{Condition, Conditions, Finding, Status};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Everything the plan knows.
pub struct Observed<'a> {
    pub payload: &'a Payload,
    /// ClusterVersion, without metadata.
    pub version: &'a Value,
    pub generation: i64,
    pub operators: &'a BTreeMap<String, Look>,
    pub ready_nodes: usize,
    pub now: Timestamp,
}

/// What is to be said.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Our part of the status of each ClusterOperator of the payload; those that are not there are to be made.
    pub operators: BTreeMap<&'static str, Value>,
    /// The whole status of ClusterVersion.
    pub version: Value,
    /// What has to happen before the version is complete.
    pub waiting: Vec<String>,
}

fn text<'a>(v: &'a Value, field: &str) -> Option<&'a str> {
    v[field].as_str().filter(|t| !t.is_empty())
}

/// Capabilities that are on.
fn enabled(spec: &Value, version: &str) -> BTreeSet<String> {
    let all = || known_capabilities(version).map(str::to_owned);
    let capabilities = &spec["capabilities"];
    let more = capabilities["additionalEnabledCapabilities"].as_array().into_iter().flatten();
    let more = more.filter_map(Value::as_str).map(str::to_owned);
    match text(capabilities, "baselineCapabilitySet") {
        Some("None") => more.collect(),
        _ => all().chain(more).collect(),
    }
}

/// ClusterOperators that an administrator took over.
fn overridden(spec: &Value) -> BTreeSet<String> {
    let list = spec["overrides"].as_array().into_iter().flatten();
    let taken = list.filter(|o| o["unmanaged"] == true && o["kind"] == "ClusterOperator");
    taken.filter_map(|o| text(o, "name")).map(str::to_owned).collect()
}

/// What one part should say, if nobody says it in our place.
fn findings(part: &Part, look: &Look, turn: bool, o: &Observed<'_>) -> (Vec<Finding>, Option<String>) {
    let target = &o.payload.version;
    let f =
        |kind: &str, status: bool, reason: &str, message: String| Finding::new(kind, status, reason, message);
    let fine = |version: &str| {
        vec![
            f("Available", true, "AsExpected", format!("{} {version} is available", part.name)),
            f("Progressing", false, "AsExpected", String::new()),
            f("Degraded", false, "AsExpected", String::new()),
            f("Upgradeable", true, "AsExpected", String::new()),
        ]
    };
    if part.on_nodes && o.ready_nodes == 0 {
        let message = format!(
            "{} runs on nodes, and none is ready; create a NodePool or wait for its nodes",
            part.name
        );
        let was = look.version.clone();
        let all = vec![
            f("Available", false, "NoReadyNodes", message.clone()),
            f("Progressing", look.version.as_ref() != Some(target), "WaitingForNodes", message),
            f("Degraded", false, "AsExpected", String::new()),
            f("Upgradeable", true, "AsExpected", String::new()),
        ];
        return (all, was);
    }
    match (turn, &look.version) {
        (true, _) => (fine(target), Some(target.clone())),
        (false, Some(old)) => (fine(old), Some(old.clone())),
        (false, None) => {
            let message = format!("waiting for parts that {} builds upon", part.name);
            let all = vec![
                f("Available", false, "WaitingForOthers", message.clone()),
                f("Progressing", true, "WaitingForOthers", message),
                f("Degraded", false, "AsExpected", String::new()),
            ];
            (all, None)
        }
    }
}

/// Our part of a ClusterOperator's status, and how the whole will look.
fn operator(part: &Part, look: &Look, turn: bool, o: &Observed<'_>) -> (Value, Look) {
    let (findings, version) = findings(part, look, turn, o);
    let mut after = look.clone();
    let mut ours = Conditions::default();
    for finding in findings.into_iter().filter(|f| !look.foreign.contains(&f.kind)) {
        after.conditions.set(finding.clone(), None, o.now);
        if let Some(c) = after.conditions.get(&finding.kind) {
            ours = ours.iter().chain([c]).cloned().collect();
        }
    }
    let mut status = Map::new();
    status.insert("conditions".into(), ours.to_value());
    if !look.version_is_foreign {
        after.version = version.clone();
        if let Some(v) = version {
            status.insert("versions".into(), json!([{"name": "operator", "version": v}]));
        }
    }
    (Value::Object(status), after)
}

/// What everything should say.
pub fn plan(o: &Observed<'_>) -> Plan {
    let spec = &o.version["spec"];
    let (enabled, overridden) = (enabled(spec, &o.payload.version), overridden(spec));
    let parts = parts(o.payload, &enabled);
    let mut operators = BTreeMap::new();
    let mut looks: BTreeMap<&'static str, Look> = BTreeMap::new();
    let mut levels: Vec<u8> = parts.iter().map(|p| p.level).collect();
    levels.sort_unstable();
    levels.dedup();
    let mut turn = true;
    for level in levels {
        let mut complete = true;
        for part in parts.iter().filter(|p| p.level == level) {
            let before = o.operators.get(part.name).cloned().unwrap_or_default();
            if overridden.contains(part.name) {
                continue;
            }
            let (status, after) = operator(part, &before, turn, o);
            complete &= after.is_at(&o.payload.version);
            operators.insert(part.name, status);
            looks.insert(part.name, after);
        }
        turn &= complete;
    }
    let waiting: Vec<String> = looks
        .iter()
        .filter(|(_, l)| !l.is_at(&o.payload.version))
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let version = version(o, &looks, &waiting, &enabled, !overridden.is_empty());
    Plan { operators, version, waiting }
}

fn seconds(t: Timestamp) -> String {
    t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Releases, newest first. One that is superseded before it was complete ends as partial.
fn history(o: &Observed<'_>, complete: bool) -> Vec<Value> {
    let mut list = o.version["status"]["history"].as_array().cloned().unwrap_or_default();
    let p = o.payload;
    if list.first().is_none_or(|e| e["image"] != p.image.as_str() || e["version"] != p.version.as_str()) {
        if let Some(first) = list.first_mut().filter(|e| e["completionTime"].is_null()) {
            first["completionTime"] = json!(seconds(o.now));
        }
        let entry = json!({"state": "Partial", "startedTime": seconds(o.now), "completionTime": null,
            "version": p.version, "image": p.image, "verified": false});
        list.insert(0, entry);
        list.truncate(100);
    }
    if let Some(first) = list.first_mut().filter(|e| complete && e["state"] != "Completed") {
        first["state"] = json!("Completed");
        first["completionTime"] = json!(seconds(o.now));
    }
    list
}

fn version(
    o: &Observed<'_>,
    looks: &BTreeMap<&'static str, Look>,
    waiting: &[String],
    enabled: &BTreeSet<String>,
    overridden: bool,
) -> Value {
    let p = o.payload;
    let known: Vec<&str> = known_capabilities(&p.version).collect();
    let history = history(o, waiting.is_empty());
    let is_complete = history.first().is_some_and(|e| e["state"] == "Completed");
    let done = history.iter().find(|e| e["state"] == "Completed").and_then(|e| e["version"].as_str());
    let mut all = Conditions::of(&o.version["status"]);
    let mut say = |kind: &str, status: Status, reason: &str, message: String| {
        all.set(Finding { kind: kind.into(), status, reason: reason.into(), message }, None, o.now);
    };
    match done {
        Some(v) => say("Available", Status::True, "", format!("Done applying {v}")),
        None => say("Available", Status::False, "", String::new()),
    }
    let (status, reason, message) = failing(looks, is_complete);
    say("Failing", status, reason, message);
    if is_complete {
        say("Progressing", Status::False, "", format!("Cluster version is {}", p.version));
    } else {
        let (total, done) = (looks.len(), looks.len() - waiting.len());
        let percent = done * 100 / total.max(1);
        let message = format!(
            "Working towards {}: {done} of {total} done ({percent}% complete), waiting on {}{}",
            p.version,
            waiting.join(", "),
            nodes(o, waiting)
        );
        say("Progressing", Status::True, "ClusterOperatorsUpdating", message);
    }
    let (status, reason, message) = accepted(o);
    say("ReleaseAccepted", status, reason, message);
    match text(&o.version["spec"], "channel") {
        None => say(
            "RetrievedUpdates",
            Status::False,
            "NoChannel",
            "The update channel has not been configured.".into(),
        ),
        Some(_) => say(
            "RetrievedUpdates",
            Status::Unknown,
            "NotAsked",
            "this version operator asks no update service".into(),
        ),
    }
    match objections(looks, overridden) {
        Some((reason, message)) => say("Upgradeable", Status::False, &reason, message),
        None => drop(all.remove("Upgradeable")),
    }
    let list: Vec<Value> = all.iter().map(written).collect();
    json!({
        "desired": {"version": p.version, "image": p.image},
        "history": history, "observedGeneration": o.generation, "versionHash": hash(&p.image),
        "conditions": list, "availableUpdates": null,
        "capabilities": {"enabledCapabilities": enabled, "knownCapabilities": known},
    })
}

/// Reasons may be absent here, as version operators leave them.
fn written(c: &Condition) -> Value {
    let mut v =
        json!({"type": c.kind, "status": c.status, "lastTransitionTime": seconds(c.last_transition_time)});
    for (field, text) in [("reason", &c.reason), ("message", &c.message)] {
        if !text.is_empty() {
            v[field] = json!(text);
        }
    }
    v
}

fn nodes(o: &Observed<'_>, waiting: &[String]) -> String {
    let on_nodes: Vec<&str> = crate::operators::PARTS.iter().filter(|p| p.on_nodes).map(|p| p.name).collect();
    match o.ready_nodes == 0 && waiting.iter().any(|w| on_nodes.contains(&w.as_str())) {
        true => "; no node is ready".to_owned(),
        false => String::new(),
    }
}

/// A part that complains, or that was there and is not.
fn failing(looks: &BTreeMap<&'static str, Look>, was_complete: bool) -> (Status, &'static str, String) {
    let told = |names: Vec<&str>, what: &str| {
        format!("Cluster operator{} {} {what}", if names.len() > 1 { "s" } else { "" }, names.join(", "))
    };
    let degraded: Vec<&str> = looks.iter().filter(|(_, l)| l.is("Degraded")).map(|(n, _)| *n).collect();
    if let Some(first) = degraded.first() {
        let why = looks[first].conditions.get("Degraded").map(|c| c.message.clone()).unwrap_or_default();
        return (Status::True, "ClusterOperatorDegraded", format!("{}: {why}", told(degraded, "degraded")));
    }
    let gone: Vec<&str> =
        looks.iter().filter(|(_, l)| was_complete && !l.is("Available")).map(|(n, _)| *n).collect();
    if let Some(first) = gone.first() {
        let why = looks[first].conditions.get("Available").map(|c| c.message.clone()).unwrap_or_default();
        return (
            Status::True,
            "ClusterOperatorNotAvailable",
            format!("{}: {why}", told(gone, "not available")),
        );
    }
    (Status::False, "", String::new())
}

/// Whether what is wanted is what we are. A hosted cluster's version is its control plane's.
fn accepted(o: &Observed<'_>) -> (Status, &'static str, String) {
    let (wanted, p) = (&o.version["spec"]["desiredUpdate"], o.payload);
    let other = text(wanted, "image").is_some_and(|i| i != p.image)
        || text(wanted, "version").is_some_and(|v| v != p.version);
    if other {
        let what = text(wanted, "version").or_else(|| text(wanted, "image")).unwrap_or_default();
        let message = format!(
            "{what} is wanted by spec.desiredUpdate, but the control plane is at {}: change spec.release of the HostedCluster instead",
            p.version
        );
        return (Status::False, "NotOfferedByControlPlane", message);
    }
    (Status::True, "PayloadLoaded", format!("Payload loaded version=\"{}\" image=\"{}\"", p.version, p.image))
}

fn objections(looks: &BTreeMap<&'static str, Look>, overridden: bool) -> Option<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    if overridden {
        let message = "Disabling ownership via cluster version overrides prevents upgrades. Please remove overrides before continuing.";
        all.push(("ClusterVersionOverridesSet".into(), message.into()));
    }
    for (name, (reason, message)) in looks.iter().filter_map(|(n, l)| Some((n, l.objection()?))) {
        all.push((
            reason,
            format!("Cluster operator {name} should not be upgraded between minor versions: {message}"),
        ));
    }
    match all.len() {
        0 | 1 => all.pop(),
        _ => Some(("MultipleReasons".into(), all.into_iter().map(|(_, m)| m).collect::<Vec<_>>().join("; "))),
    }
}

/// Names the payload, as consumers that compare it expect: the same for the same payload.
fn hash(image: &str) -> String {
    let fnv = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", image.bytes().fold(0xcbf2_9ce4_8422_2325, fnv))
}
