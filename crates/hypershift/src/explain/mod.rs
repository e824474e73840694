//! Why a cluster is as it is: one tree, from what its objects say.
//!
//! The same conditions that `kubectl describe` shows, put in the order in which they depend on each other: what is ready,
//! what waits for what, since when, and what to do. [`explain`] is pure; [`read`] fetches what it needs from any management
//! cluster; [`text`] draws it. Programs take the tree itself.

mod hints;
pub mod read;
mod text;

pub use text::text;

use crate::delete::DELETION_BLOCKED;
use apis::conditions::hosted_cluster as c;
use jiff::Timestamp;
use reconcile::Waiting;
use reconcile::conditions::{Condition, Conditions, Status};
use serde::Serialize;
use serde_json::Value;

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Ready,
    /// Nobody has said yet, or nobody can.
    Unknown,
    /// It goes on by itself.
    Waiting,
    /// Somebody has to do something.
    Blocked,
}

/// One thing, and what it consists of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    pub name: String,
    pub state: State,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What this waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// What a person can do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hint: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Node>,
}

impl Node {
    fn new(name: impl Into<String>, state: State) -> Node {
        Node {
            name: name.into(),
            state,
            reason: String::new(),
            message: String::new(),
            since: None,
            waits_for: Vec::new(),
            hint: String::new(),
            parts: Vec::new(),
        }
    }

    /// A node that is as its parts are.
    fn of(name: impl Into<String>, parts: Vec<Node>) -> Node {
        let state = parts.iter().map(|p| p.state).max().unwrap_or(State::Unknown);
        Node { parts, ..Node::new(name, state) }
    }
}

/// What an explanation is made from: objects as the API has them.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub cluster: Value,
    pub plane: Option<Value>,
    pub components: Vec<Value>,
    pub pools: Vec<Value>,
    /// What controllers in this process wait for; empty from outside.
    pub waiting: Vec<Waiting>,
}

/// The condition of a control plane whose authorities are being replaced.
const ROTATING: &str = "CertificateAuthoritiesRotating";

/// Conditions that are good when False.
const NEGATIVE: [&str; 10] = [
    ROTATING,
    c::ETCD_RECOVERY_ACTIVE,
    c::control_plane::CLUSTER_VERSION_FAILING,
    c::DEGRADED,
    c::PROGRESSING,
    c::CLUSTER_VERSION_PROGRESSING,
    DELETION_BLOCKED,
    c::AUTO_NODE_ENABLED,
    c::CLUSTER_SIZE_TRANSITION_PENDING,
    c::CLUSTER_SIZE_TRANSITION_REQUIRED,
];

fn condition(found: &Condition) -> Node {
    let good = match NEGATIVE.contains(&found.kind.as_str()) {
        true => Status::False,
        false => Status::True,
    };
    let state = match found.status {
        _ if hints::exception(found).is_some() => hints::exception(found).unwrap_or(State::Unknown),
        s if s == good => State::Ready,
        Status::Unknown => State::Unknown,
        _ => hints::state(&found.kind, &found.reason),
    };
    Node {
        reason: found.reason.clone(),
        message: found.message.clone(),
        since: Some(found.last_transition_time.to_string()),
        hint: if state == State::Ready { String::new() } else { hints::hint(&found.kind, state).to_owned() },
        ..Node::new(&found.kind, state)
    }
}

/// The conditions that there are, of those listed.
fn group(name: &str, all: &Conditions, kinds: &[&str]) -> Node {
    Node::of(name, kinds.iter().filter_map(|k| all.get(k)).map(condition).collect())
}

/// The tree of a cluster. Pure.
pub fn explain(facts: &Facts) -> Node {
    let (meta, status) = (&facts.cluster["metadata"], &facts.cluster["status"]);
    let all = Conditions::of(status);
    let name = format!("HostedCluster {}/{}", word(&meta["namespace"]), word(&meta["name"]));
    let deleting = meta["deletionTimestamp"].as_str();
    let mut parts = Vec::new();
    if let Some(since) = deleting {
        let mut node =
            all.get(DELETION_BLOCKED).map_or_else(|| Node::new("deletion", State::Waiting), condition);
        node.name = "deletion".to_owned();
        node.since = Some(since.to_owned());
        if node.state == State::Ready {
            // It goes on: that is not being ready.
            node.state = State::Waiting;
        }
        parts.push(node);
        parts.extend(all.get(c::CLOUD_RESOURCES_DESTROYED).map(condition));
    }
    parts.push(group(
        "what was asked for",
        &all,
        &[
            c::RECONCILIATION_ACTIVE,
            c::SUPPORTED_HOSTED_CLUSTER,
            c::VALID_CONFIGURATION,
            c::VALID_RELEASE_IMAGE,
            c::VALID_PROXY_CONFIGURATION,
            c::UNMANAGED_ETCD_AVAILABLE,
            c::PLATFORM_CREDENTIALS_FOUND,
            c::RECONCILIATION_SUCCEEDED,
        ],
    ));
    parts.push(plane(facts, &all));
    parts.extend(guest(facts, &all));
    parts.push(further(facts, &all, &parts));
    // Of what nobody has said anything there is nothing to show.
    parts.retain(|p| !p.parts.is_empty() || !p.message.is_empty());
    if !facts.pools.is_empty() {
        parts.push(Node::of("node pools", facts.pools.iter().map(pool).collect()));
    }
    if !facts.waiting.is_empty() {
        parts.push(Node::of("operator", facts.waiting.iter().map(waiting).collect()));
    }
    let available = all.get(c::AVAILABLE);
    let mut root = available.map_or_else(|| Node::new("", State::Unknown), condition);
    root.name = name;
    root.state = match (deleting, available.map(|a| a.status)) {
        (Some(_), _) => parts.first().map_or(State::Waiting, |p| p.state),
        (None, Some(Status::True)) => State::Ready,
        _ => parts.iter().take(2).map(|p| p.state).max().unwrap_or(State::Unknown).max(State::Waiting),
    };
    root.hint = String::new();
    if deleting.is_some() {
        // Its first part says it.
        (root.reason, root.message, root.since) = (String::new(), String::new(), None);
    }
    root.parts = parts;
    root
}

/// Whatever else is wrong or under way: what has no place above is not left out, whoever says it.
fn further(facts: &Facts, all: &Conditions, parts: &[Node]) -> Node {
    fn names<'a>(nodes: &'a [Node], out: &mut Vec<&'a str>) {
        for n in nodes {
            out.push(&n.name);
            names(&n.parts, out);
        }
    }
    let mut shown = vec![c::AVAILABLE, DELETION_BLOCKED, c::control_plane::CLUSTER_VERSION_FAILING];
    names(parts, &mut shown);
    let deleting = !facts.cluster["metadata"]["deletionTimestamp"].is_null();
    let told = |kind: &str| match kind {
        // Said of a control plane, if there is one; and of the end only at the end, when nothing is said of the guest.
        c::IGNITION_ENDPOINT_AVAILABLE | c::PROGRESSING | c::DEGRADED => facts.plane.is_some(),
        c::CLOUD_RESOURCES_DESTROYED
        | c::HOSTED_CLUSTER_DESTROYED
        | c::control_plane::CVO_SCALED_DOWN
        | c::control_plane::ETCD_SNAPSHOT_RESTORED => false,
        kind => !deleting || !GUEST.contains(&kind),
    };
    let theirs = Conditions::of(facts.plane.as_ref().map_or(&Value::Null, |p| &p["status"]));
    let mut nodes: Vec<Node> = Vec::new();
    for found in all.iter().chain(theirs.iter()) {
        let node = condition(found);
        let new = !shown.contains(&found.kind.as_str()) && nodes.iter().all(|n| n.name != found.kind);
        if new && told(&found.kind) && matches!(node.state, State::Waiting | State::Blocked) {
            nodes.push(node);
        }
    }
    Node::of("what else there is to say", nodes)
}

fn word(v: &Value) -> &str {
    v.as_str().unwrap_or_default()
}

/// What is said of a guest.
const GUEST: [&str; 8] = [
    c::CONFIG_OPERATOR_RECONCILIATION_SUCCEEDED,
    c::CLUSTER_VERSION_AVAILABLE,
    c::CLUSTER_VERSION_RELEASE_ACCEPTED,
    c::CLUSTER_VERSION_SUCCEEDING,
    c::CLUSTER_VERSION_PROGRESSING,
    c::CLUSTER_VERSION_UPGRADEABLE,
    c::CONTROL_PLANE_CONNECTION_AVAILABLE,
    c::DATA_PLANE_CONNECTION_AVAILABLE,
];

/// The guest: one line until its API has answered, because nobody could say anything of it before, and nothing of a
/// cluster that is being deleted.
fn guest(facts: &Facts, all: &Conditions) -> Option<Node> {
    if !facts.cluster["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let known = GUEST.iter().filter_map(|k| all.get(k)).any(|f| f.status != Status::Unknown);
    if facts.plane.is_some() && known {
        return Some(group("guest", all, &GUEST));
    }
    let mut node = Node::new("guest", State::Waiting);
    node.message = "nothing is known of it before its API answers".to_owned();
    Some(node)
}

fn plane(facts: &Facts, all: &Conditions) -> Node {
    let Some(plane) = &facts.plane else {
        let mut node = Node::new("control plane", State::Waiting);
        let deleting = !facts.cluster["metadata"]["deletionTimestamp"].is_null();
        node.message = match deleting {
            true => "it is gone".to_owned(),
            false => "there is none yet: it is made when what was asked for is right".to_owned(),
        };
        return node;
    };
    let meta = &plane["metadata"];
    let theirs = Conditions::of(&plane["status"]);
    let kinds = [
        c::VALID_HOSTED_CONTROL_PLANE_CONFIGURATION,
        c::VALID_RELEASE_INFO,
        c::INFRASTRUCTURE_READY,
        c::ETCD_AVAILABLE,
        c::KUBE_API_SERVER_AVAILABLE,
        c::VALID_AZURE_KMS_CONFIG,
        c::AVAILABLE,
        c::DEGRADED,
    ];
    // Nothing is to be said of keys where none are used.
    let told = |k: &&&str| {
        ***k != *c::VALID_AZURE_KMS_CONFIG || plane["spec"]["secretEncryption"]["kms"].is_object()
    };
    let mut parts: Vec<Node> =
        kinds.iter().filter(told).filter_map(|k| theirs.get(k)).map(condition).collect();
    parts.extend(all.get(c::IGNITION_ENDPOINT_AVAILABLE).map(condition));
    parts.extend(all.get(c::PROGRESSING).map(condition));
    if !facts.components.is_empty() {
        parts.push(Node::of("components", facts.components.iter().map(component).collect()));
    }
    Node::of(format!("control plane {}/{}", word(&meta["namespace"]), word(&meta["name"])), parts)
}

fn component(o: &Value) -> Node {
    let all = Conditions::of(&o["status"]);
    let name = word(&o["metadata"]["name"]);
    let worst = ["Available", "RolloutComplete"]
        .into_iter()
        .filter_map(|k| all.get(k))
        .find(|f| f.status != Status::True);
    let Some(worst) = worst else {
        let state = if all.get("Available").is_some() { State::Ready } else { State::Unknown };
        let mut node = Node::new(name, state);
        node.since = all.get("Available").map(|f| f.last_transition_time.to_string());
        node.message = o["status"]["version"].as_str().map(|v| format!("at {v}")).unwrap_or_default();
        return node;
    };
    // Why it is not deployed is said by its rollout.
    let rollout = all.get("RolloutComplete").filter(|r| r.reason == "WaitingForDependencies");
    let worst = rollout.unwrap_or(worst);
    let mut node = condition(worst);
    node.name = name.to_owned();
    node.state = State::Waiting;
    let namespace = word(&o["metadata"]["namespace"]);
    node.hint = match worst.reason.as_str() {
        "WaitingForDependencies" => String::new(),
        _ => format!("see `kubectl -n {namespace} describe pods -l app={name}`"),
    };
    if worst.reason == "WaitingForDependencies"
        && let Some(row) = control_plane::table::find(name)
    {
        node.waits_for = row.dependencies().map(str::to_owned).collect();
    }
    node
}

fn pool(o: &Value) -> Node {
    let all = Conditions::of(&o["status"]);
    let kinds = [
        "ValidReleaseImage",
        "ValidPlatformConfig",
        "ReachedIgnitionEndpoint",
        "AllMachinesReady",
        "AllNodesHealthy",
        "Ready",
    ];
    let parts: Vec<Node> = kinds.iter().filter_map(|k| all.get(k)).map(condition).collect();
    Node::of(word(&o["metadata"]["name"]), parts)
}

fn waiting(w: &Waiting) -> Node {
    let mut node = Node::new(w.on.clone(), State::Waiting);
    node.hint = w.hint.clone();
    node.since = Some(whole(w.since).to_string());
    node
}

fn whole(t: Timestamp) -> Timestamp {
    Timestamp::from_second(t.as_second()).unwrap_or(t)
}
