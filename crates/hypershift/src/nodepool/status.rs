//! The status of a NodePool: one pure function, one write.

use super::machines::Refs;
use super::rollout::Rollout;
use super::room::{Room, Short};
use super::secrets;
use super::text::bounded;
use super::watched::{Check, Machine, Token, Word, Workload};
use crate::around::{NoRelease, Payload};
use crate::validate::{Problem, finding};
use apis::conditions::{node_pool as c, reason};
use apis::hypershift::NodePool;
use apis::names::annotation;
use jiff::Timestamp;
use kube::core::DynamicObject;
use reconcile::Pause;
use reconcile::conditions::{Conditions, Finding, Status};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How much of one machine's message, and of all together, is told.
const OF_ONE: usize = 1000;
const OF_ALL: usize = 3000;
const REASONS: usize = 1024;

/// What machines are to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub rollout: Rollout,
    pub refs: Refs,
    /// Of the kubelets.
    pub kubernetes: String,
}

/// Whether nodes can fetch what they boot with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    There,
    /// Reason and message.
    Missing(&'static str, String),
}

/// What a pass has found.
pub struct Seen<'a> {
    pub np: &'a NodePool,
    pub problems: &'a [Problem],
    pub pause: &'a Result<Pause, String>,
    pub release: Option<&'a Result<Payload, NoRelease>>,
    pub endpoint: &'a Endpoint,
    /// Why nodes of the wanted version do not fit; nothing: they do, or nobody can say.
    pub skew: Option<String>,
    /// Nothing: it cannot be said what machines are to be.
    pub target: Option<&'a Target>,
    pub token: Option<&'a Token>,
    pub machines: &'a [Arc<Machine>],
    pub workload: Option<&'a Workload>,
    pub check: Option<&'a Check>,
    /// Machines whose address lies in the pods' network, and that network.
    pub conflict: Option<String>,
    /// How the performance profile fares, by type of condition.
    pub profile: &'a [(String, Word)],
    /// Why an empty pool cannot grow by itself.
    pub unscalable: Option<&'a str>,
    /// What Azure has for it.
    pub room: &'a Room,
    /// What is waited for before there can be machines.
    pub waiting: Option<&'a str>,
    /// Why the pass failed.
    pub error: Option<&'a str>,
}

/// What machines are now, as the pool's annotations say.
pub fn current<'a>(np: &'a NodePool, key: &str) -> &'a str {
    np.metadata.annotations.as_ref().and_then(|a| a.get(key)).map_or("", String::as_str)
}

/// Whether all machines are what they are to be, and can be used.
pub fn done(in_place: bool, workload: &Workload, target: &Target) -> bool {
    let w = workload;
    let same = w.data_secret == target.refs.data_secret
        && w.template == target.refs.template
        && w.version == target.refs.version;
    let settled = w.observed >= w.generation && [w.total, w.available].iter().all(|n| *n == w.replicas);
    let agreed = w
        .second
        .is_none_or(|[updated, _, available]| available == w.replicas && (in_place || updated == w.replicas));
    let new = match in_place {
        // What is current may be wanted again while nodes are still on their way back to it.
        true => w.current == target.rollout.hash && w.busy.is_empty() && w.stuck.is_empty(),
        false => w.updated == w.replicas,
    };
    same && settled && agreed && new && !w.deleting
}

/// Annotations of a pool whose machines are all of the target, where they say something else.
pub fn advance(seen: &Seen<'_>) -> Option<Value> {
    let (workload, target) = (seen.workload?, seen.target?);
    if !done(super::machines::is_in_place(seen.np), workload, target) {
        return None;
    }
    let wanted = [
        (annotation::NODE_POOL_CURRENT_CONFIG, &target.rollout.config),
        (annotation::NODE_POOL_CURRENT_CONFIG_VERSION, &target.rollout.hash),
        (annotation::NODE_POOL_PLATFORM_MACHINE_TEMPLATE, &target.refs.template),
    ];
    let other = wanted.iter().any(|(k, v)| current(seen.np, k) != v.as_str());
    other.then(|| wanted.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect())
}

/// The whole status.
pub fn status(before: &DynamicObject, seen: &Seen<'_>, now: Timestamp) -> Value {
    let mut status = before.data.get("status").cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
    let generation = before.metadata.generation;
    let in_place = super::machines::is_in_place(seen.np);
    if let Some(w) = seen.workload {
        status["replicas"] = json!(w.available);
    } else if status["replicas"].is_null() {
        status["replicas"] = json!(0);
    }
    if let (Some(w), Some(t)) = (seen.workload, seen.target)
        && done(in_place, w, t)
    {
        status["version"] = json!(t.refs.version);
    }
    status["nodesInfo"] = nodes(seen, status["version"].as_str().unwrap_or_default());
    let mut all = Conditions::of(&status);
    for finding in findings(seen, status["version"].as_str().unwrap_or_default()) {
        // Nodes that stay do not fetch again: nobody need ever show the token of what they become.
        if in_place && finding.kind == c::REACHED_IGNITION_ENDPOINT && all.is_true(&finding.kind) {
            continue;
        }
        all.set(finding, generation, now);
    }
    for (kind, found) in
        [(c::IGNITION_ENDPOINT_AVAILABLE, endpoint(seen)), (c::CLUSTER_NETWORK_CIDR_CONFLICT, conflict(seen))]
    {
        match found {
            Some(f) => _ = all.set(f, generation, now),
            None => _ = all.remove(kind),
        }
    }
    for (kind, condition) in PROFILE {
        let word = seen.profile.iter().find(|(k, _)| k == kind).map(|(_, w)| w);
        match word {
            Some(w) => {
                let why = if w.reason.is_empty() { reason::AS_EXPECTED } else { &w.reason };
                let is = match w.status.as_str() {
                    "True" => Status::True,
                    "False" => Status::False,
                    _ => Status::Unknown,
                };
                all.set(Finding::new(condition, is, why, bounded(&w.message, OF_ONE)), generation, now);
            }
            None => _ = all.remove(condition),
        }
    }
    status["conditions"] = all.to_value();
    status
}

/// Conditions of a performance profile, and where they are told.
const PROFILE: [(&str, &str); 4] = [
    ("Available", c::PERFORMANCE_PROFILE_AVAILABLE),
    ("Progressing", c::PERFORMANCE_PROFILE_PROGRESSING),
    ("Upgradeable", c::PERFORMANCE_PROFILE_UPGRADEABLE),
    ("Degraded", c::PERFORMANCE_PROFILE_DEGRADED),
];

/// Nodes by version. In place a machine keeps the version it was made with; its kubelet tells.
fn nodes(seen: &Seen<'_>, version: &str) -> Value {
    let mut by: BTreeMap<(String, String), [i32; 2]> = BTreeMap::new();
    for m in seen.machines.iter().filter(|m| !m.kubelet.is_empty()) {
        let ocp = match seen.target {
            Some(t) if super::machines::is_in_place(seen.np) => {
                let new = m.kubelet.trim_start_matches('v') == t.kubernetes.trim_start_matches('v');
                if new || version.is_empty() { t.refs.version.as_str() } else { version }
            }
            _ => m.version.as_str(),
        };
        let ocp = if ocp.is_empty() { "unknown" } else { ocp };
        let counts = by.entry((ocp.to_owned(), m.kubelet.clone())).or_default();
        let well = m.healthy.as_ref().is_some_and(Word::is_true);
        counts[usize::from(!well)] += 1;
    }
    if by.is_empty() {
        return Value::Null;
    }
    let list: Vec<Value> = by
        .into_iter()
        .take(100)
        .map(|((ocp, kubelet), [ready, unready])| {
            json!({"ocpVersion": ocp, "kubeletVersion": kubelet, "readyNodeCount": ready, "unreadyNodeCount": unready})
        })
        .collect();
    json!({"nodeVersions": list})
}

fn good(kind: &str, message: impl Into<String>) -> Finding {
    Finding::new(kind, Status::True, reason::AS_EXPECTED, message)
}

fn off(kind: &str, message: impl Into<String>) -> Finding {
    Finding::new(kind, Status::False, reason::AS_EXPECTED, message)
}

fn findings(seen: &Seen<'_>, version: &str) -> Vec<Finding> {
    let np = seen.np;
    let bad = |kind: &str| seen.problems.iter().any(|p| p.condition == kind);
    let mut out = Vec::new();
    out.push(match (bad(c::AUTOSCALING_ENABLED), &np.spec.auto_scaling) {
        (true, _) => finding(c::AUTOSCALING_ENABLED, seen.problems, ""),
        (false, Some(b)) => {
            let but = seen.unscalable.map(|w| format!("; {w}")).unwrap_or_default();
            let most = seen.room.most.map(|n| format!("; Azure has room for {n}")).unwrap_or_default();
            good(c::AUTOSCALING_ENABLED, format!("between {} and {} nodes{but}{most}", b.min, b.max))
        }
        (false, None) => off(c::AUTOSCALING_ENABLED, "spec.replicas says how many"),
    });
    for (kind, fine) in [
        (c::UPDATE_MANAGEMENT_ENABLED, "the upgrade strategy makes sense"),
        (c::VALID_ARCH_PLATFORM, "the release has nodes of this architecture"),
        (c::VALID_MACHINE_CONFIG, "the configuration can be used"),
        (c::VALID_TUNING_CONFIG, "the tuning can be used"),
        (c::VALID_PLATFORM_CONFIG, "the platform's settings can be used"),
        (c::VALID_PLATFORM_IMAGE, "there is an image to boot from"),
        (c::VALID_MACHINE_TEMPLATE, "machines can be described"),
    ] {
        out.push(finding(kind, seen.problems, fine));
    }
    out.push(release(seen));
    out.push(active(seen.pause));
    out.push(match &seen.skew {
        None => good(c::SUPPORTED_VERSION_SKEW, "nodes and cluster go together"),
        Some(why) => {
            Finding::new(c::SUPPORTED_VERSION_SKEW, Status::False, reason::UNSUPPORTED_SKEW, why.as_str())
        }
    });
    out.extend(updating(seen, version));
    out.push(payload(seen));
    out.push(reached(seen));
    let machines = machines(seen);
    out.push(repair(seen));
    out.push(ready(seen, &machines));
    out.extend(machines);
    out
}

fn release(seen: &Seen<'_>) -> Finding {
    let kind = c::VALID_RELEASE_IMAGE;
    match seen.release {
        Some(Ok(p)) => finding(kind, seen.problems, &format!("release {}", p.release.version)),
        Some(Err(why)) => Finding::new(kind, Status::False, reason::VALIDATION_FAILED, why.to_string()),
        None => Finding::new(
            kind,
            Status::Unknown,
            reason::STATUS_UNKNOWN,
            seen.waiting.unwrap_or("it was not looked up yet"),
        ),
    }
}

/// `ReconciliationActive`.
pub fn active(pause: &Result<Pause, String>) -> Finding {
    let kind = c::RECONCILIATION_ACTIVE;
    match pause {
        Ok(Pause::No) => good(kind, "spec.pausedUntil is not set"),
        Err(why) => Finding::new(kind, Status::True, reason::INVALID_PAUSED_UNTIL_VALUE, why.as_str()),
        Ok(Pause::Forever) => Finding::new(
            kind,
            Status::False,
            reason::RECONCILIATION_PAUSED,
            "paused until spec.pausedUntil is changed",
        ),
        Ok(Pause::Until(t)) => {
            Finding::new(kind, Status::False, reason::RECONCILIATION_PAUSED, format!("paused until {t}"))
        }
    }
}

fn endpoint(seen: &Seen<'_>) -> Option<Finding> {
    match seen.endpoint {
        Endpoint::There => None,
        Endpoint::Missing(reason, why) => {
            Some(Finding::new(c::IGNITION_ENDPOINT_AVAILABLE, Status::False, reason, why.as_str()))
        }
    }
}

fn conflict(seen: &Seen<'_>) -> Option<Finding> {
    let why = seen.conflict.as_ref()?;
    Some(Finding::new(
        c::CLUSTER_NETWORK_CIDR_CONFLICT,
        Status::True,
        reason::INVALID_CONFIGURATION,
        why.as_str(),
    ))
}

/// What machines are and what they become; the same, or nothing, where nothing changes.
struct Course<'a> {
    version: (&'a str, &'a str),
    config: (&'a str, &'a str),
    template: (&'a str, &'a str),
}

/// With a target, it tells. A pool without one is held, and its machines go on becoming what they were last told.
fn course<'a>(seen: &Seen<'a>, version: &'a str) -> Course<'a> {
    let noted = |key: &str| current(seen.np, key);
    let template = noted(annotation::NODE_POOL_PLATFORM_MACHINE_TEMPLATE);
    match (seen.target, seen.workload) {
        (Some(t), _) => Course {
            version: (version, &t.refs.version),
            config: (noted(annotation::NODE_POOL_CURRENT_CONFIG), &t.rollout.config),
            template: (template, &t.refs.template),
        },
        (None, Some(w)) => {
            let before = noted(annotation::NODE_POOL_CURRENT_CONFIG_VERSION);
            let hash = secrets::hash_of(super::name(seen.np), &w.data_secret).unwrap_or_default();
            // The hash is of the version too: of both that changed it tells only together.
            let config = if w.version == version { (before, hash) } else { ("", "") };
            Course { version: (version, &w.version), config, template: (template, &w.template) }
        }
        (None, None) => Course { version: ("", ""), config: ("", ""), template: ("", "") },
    }
}

/// The three that say that something is being rolled out.
fn updating(seen: &Seen<'_>, version: &str) -> Vec<Finding> {
    let stuck = seen.workload.map(|w| w.stuck.as_str()).filter(|s| !s.is_empty());
    let busy = seen.workload.map(|w| w.busy.as_str()).filter(|b| !b.is_empty());
    let changes = |(from, to): (&str, &str)| !from.is_empty() && from != to;
    let said = |kind: &str, (from, to): (&str, &str), what: &str| -> Finding {
        if !changes((from, to)) {
            return off(kind, "");
        }
        if let Some(why) = stuck {
            return Finding::new(kind, Status::False, reason::INPLACE_UPGRADE_FAILED, why);
        }
        let how = seen.workload.map(|w| match busy {
            None => format!(", {} of {} machines are of it", w.updated, w.replicas),
            Some(busy) => format!(", {busy}"),
        });
        let text = format!("{what} is being rolled out: from {from} to {to}{}", how.unwrap_or_default());
        Finding::new(kind, Status::True, reason::AS_EXPECTED, text)
    };
    let course = course(seen, version);
    let mut of_version = said(c::UPDATING_VERSION, course.version, "another version");
    let wanted = seen.release.and_then(|r| r.as_ref().ok()).map_or("", |p| p.release.version.as_str());
    if let Some(why) = seen.skew.as_ref().filter(|_| changes((version, wanted)) && !changes(course.version)) {
        let why = format!("not begun: {why}");
        of_version = Finding::new(c::UPDATING_VERSION, Status::False, reason::UNSUPPORTED_SKEW, why);
    }
    let mut config = said(c::UPDATING_CONFIG, course.config, "another configuration");
    if let Some(how) = stuck.or(busy).filter(|_| !changes(course.version) && !changes(course.config)) {
        // Users went back half-way: nodes have to go back too, though nothing seems to differ.
        let (is, why) = match stuck {
            Some(_) => (Status::False, reason::INPLACE_UPGRADE_FAILED),
            None => (Status::True, reason::AS_EXPECTED),
        };
        config = Finding::new(c::UPDATING_CONFIG, is, why, how);
    }
    let template = said(c::UPDATING_PLATFORM_MACHINE_TEMPLATE, course.template, "another machine template");
    vec![of_version, config, template]
}

fn payload(seen: &Seen<'_>) -> Finding {
    let kind = c::VALID_GENERATED_PAYLOAD;
    let Some(token) = seen.token else {
        return Finding::new(
            kind,
            Status::False,
            reason::NOT_FOUND,
            "there is no token to make a payload for yet",
        );
    };
    match token.reason.as_str() {
        "" => Finding::new(
            kind,
            Status::Unknown,
            reason::STATUS_UNKNOWN,
            "the ignition server has not made it yet",
        ),
        reason::AS_EXPECTED => {
            good(kind, if token.message.is_empty() { "the payload was made" } else { &token.message })
        }
        other => Finding::new(kind, Status::False, other, token.message.as_str()),
    }
}

fn reached(seen: &Seen<'_>) -> Finding {
    let kind = c::REACHED_IGNITION_ENDPOINT;
    match seen.token {
        None => Finding::new(
            kind,
            Status::False,
            reason::NOT_FOUND,
            "there is no token to fetch ignition with yet",
        ),
        Some(t) if t.reached => good(kind, "a machine fetched ignition"),
        Some(_) => Finding::new(
            kind,
            Status::False,
            reason::IGNITION_NOT_REACHED,
            "no machine has fetched ignition with the current token yet; if machines run, see their serial console, DNS and network security groups",
        ),
    }
}

/// One condition of all machines: whatever is wrong with any of them, sorted and cut.
fn aggregate(
    kind: &str,
    seen: &Seen<'_>,
    of: impl Fn(&Machine) -> Option<&Word>,
    fine: &str,
    verb: &str,
) -> Finding {
    let wanted = seen.workload.map(|w| w.replicas);
    if seen.machines.is_empty() {
        return match wanted {
            Some(0) => off(kind, "the pool has no machines, as it should"),
            _ => Finding::new(
                kind,
                Status::False,
                reason::NOT_FOUND,
                seen.waiting.unwrap_or("there are no machines yet"),
            ),
        };
    }
    let (mut reasons, mut told) = (BTreeSet::new(), Vec::new());
    for m in seen.machines {
        let word = of(m);
        if word.is_some_and(Word::is_true) {
            continue;
        }
        let (why, message) = match word {
            Some(w) if !w.reason.is_empty() => (w.reason.as_str(), w.message.as_str()),
            Some(w) => ("Unknown", w.message.as_str()),
            None => (reason::STATUS_UNKNOWN, "nothing is said of it yet"),
        };
        reasons.insert(why.to_owned());
        let severe = word.is_some_and(|w| w.severe);
        told.push((!severe, format!("Machine {}: {why}: {}", m.name, bounded(message, OF_ONE))));
    }
    if told.is_empty() {
        return good(kind, fine);
    }
    // What somebody has to see to first: a hundred machines that only wait would hide it.
    told.sort();
    let told: Vec<String> = told.into_iter().map(|(_, text)| text).collect();
    let head = format!("{} of {} machines {verb}\n", told.len(), seen.machines.len());
    let reasons = reasons.into_iter().collect::<Vec<_>>().join(",");
    Finding::new(
        kind,
        Status::False,
        &bounded(&reasons, REASONS),
        bounded(&format!("{head}{}", told.join("\n")), OF_ALL),
    )
}

/// Machines that are not made, because Azure would not give them.
fn unmade<'a>(seen: &Seen<'a>) -> Option<&'a Short> {
    seen.room.short.as_ref().filter(|s| s.grows)
}

/// `AllMachinesReady`: those that are, and those that should be.
fn all_ready(seen: &Seen<'_>) -> Finding {
    let kind = c::ALL_MACHINES_READY;
    let made = aggregate(kind, seen, |m| m.ready.as_ref(), "all machines are ready", "are not ready");
    let Some(short) = unmade(seen) else { return made };
    let others = !seen.machines.is_empty() && made.status == Status::False;
    let reasons = match others {
        true => made.reason.split(',').chain([short.reason]).collect::<BTreeSet<_>>(),
        false => [short.reason].into(),
    };
    let reasons = reasons.into_iter().collect::<Vec<_>>().join(",");
    let more = if others { format!("\n{}", made.message) } else { String::new() };
    Finding::new(
        kind,
        Status::False,
        &bounded(&reasons, REASONS),
        bounded(&format!("{}{more}", short.message), OF_ALL),
    )
}

fn machines(seen: &Seen<'_>) -> Vec<Finding> {
    vec![
        all_ready(seen),
        aggregate(
            c::ALL_NODES_HEALTHY,
            seen,
            |m| m.healthy.as_ref(),
            "all nodes are healthy",
            "have no healthy node",
        ),
    ]
}

fn repair(seen: &Seen<'_>) -> Finding {
    let kind = c::AUTOREPAIR_ENABLED;
    match (seen.np.spec.management.auto_repair, seen.check) {
        (false, _) => off(kind, "spec.management.autoRepair is false"),
        (true, Some(_)) => good(kind, "broken machines are replaced"),
        (true, None) => Finding::new(
            kind,
            Status::False,
            reason::IGNITION_NOT_REACHED,
            "machines are not judged before the first of them has fetched ignition",
        ),
    }
}

fn ready(seen: &Seen<'_>, machines: &[Finding]) -> Finding {
    let kind = c::READY;
    let not = |why: &str, message: String| Finding::new(kind, Status::False, why, message);
    if let Some(why) = seen.error {
        return not(reason::RECONCILIATION_ERROR, why.to_owned());
    }
    let remediation = seen.check.and_then(|c| c.remediation.as_ref());
    if let Some(w) = remediation.filter(|w| w.status == "False") {
        return not(reason::TOO_MANY_UNHEALTHY, w.message.clone());
    }
    if let Some(short) = unmade(seen) {
        return not(short.reason, short.message.clone());
    }
    let Some(w) = seen.workload else {
        let blocked = seen.problems.iter().map(|p| p.message.as_str()).next();
        let why =
            seen.waiting.or(blocked).or(seen.skew.as_deref()).unwrap_or("its machines are not described yet");
        return not(reason::WAITING_FOR_DEPENDENCIES, why.to_owned());
    };
    if let Some(c) = w.condition.as_ref().filter(|c| !c.is_true()) {
        let why = if c.reason.is_empty() { reason::WAITING_FOR_AVAILABLE } else { &c.reason };
        let message = if c.message.is_empty() {
            format!("{} of {} machines are available", w.available, w.replicas)
        } else {
            c.message.clone()
        };
        return not(why, message);
    }
    if w.condition.is_none() || w.available < w.replicas {
        let all = machines.iter().find(|f| f.kind == c::ALL_MACHINES_READY && f.status == Status::False);
        let (why, more) =
            all.map_or((reason::WAITING_FOR_AVAILABLE, ""), |f| (f.reason.as_str(), f.message.as_str()));
        return not(
            why,
            format!("{} of {} machines are available. {more}", w.available, w.replicas).trim().to_owned(),
        );
    }
    good(kind, format!("{} of {} machines are available", w.available, w.replicas))
}

/// What a pool that is going waits for, by name.
pub fn leaving(machines: &[Arc<Machine>]) -> Finding {
    let mut told: Vec<String> = machines
        .iter()
        .map(|m| match (&m.deleting, &m.ready) {
            (None, _) => format!("Machine {}: its deletion was not asked for yet", m.name),
            (Some(since), Some(w)) => {
                format!("Machine {} (since {since}): {}: {}", m.name, w.reason, bounded(&w.message, OF_ONE))
            }
            (Some(since), None) => format!("Machine {} (since {since})", m.name),
        })
        .collect();
    told.sort();
    let head = format!("being deleted; waiting for {} machines\n", machines.len());
    Finding::new(c::READY, Status::False, "Deleting", bounded(&format!("{head}{}", told.join("\n")), OF_ALL))
}
