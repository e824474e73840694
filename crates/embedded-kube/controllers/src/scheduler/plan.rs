//! Where pods go. Pure: a snapshot and a pod in, a decision out; the snapshot then counts the pod as placed, so
//! that a round can decide many pods before the first is bound.

use super::snapshot::{ClaimState, Namespaces, Node, Pending, Placed, Snapshot, Term};
use crate::objects::{flag, int, list, selector, text};
use crate::placement::{any_term, term, tolerates, untolerated, wants_node};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Bind {
        node: String,
    },
    /// The claims must be provided for this node first.
    Provide {
        node: String,
        claims: Vec<String>,
    },
    /// Claims are on their way.
    Wait,
    Unschedulable {
        message: String,
    },
}

pub(super) fn decide(snapshot: &mut Snapshot, pod: &Pending) -> Decision {
    let mut fixed = None;
    let mut for_consumer = Vec::new();
    for claim in &pod.claims {
        match claim {
            ClaimState::Missing(name) => {
                return unschedulable(snapshot, &format!("persistentvolumeclaim {name:?} not found"));
            }
            ClaimState::Unbound => {
                return unschedulable(snapshot, "pod has unbound immediate PersistentVolumeClaims");
            }
            ClaimState::ForConsumer { name, selected } => {
                for_consumer.push(name.clone());
                fixed = fixed.or_else(|| selected.clone());
            }
            ClaimState::Bound(_) => {}
        }
    }
    // A node chosen for a claim stays chosen while it is there.
    if let Some(node) = fixed.filter(|n| snapshot.node(n).is_some()) {
        count(snapshot, pod, &node);
        return Decision::Wait;
    }
    let node = match pick(snapshot, pod) {
        Ok(node) => node,
        Err(reasons) => return unschedulable_on(snapshot, &reasons),
    };
    count(snapshot, pod, &node);
    if for_consumer.is_empty() {
        Decision::Bind { node }
    } else {
        Decision::Provide { node, claims: for_consumer }
    }
}

fn count(snapshot: &mut Snapshot, pod: &Pending, node: &str) {
    let placed = Placed { node: node.to_owned(), ..pod.placed.clone() };
    snapshot.place(pod.key.clone(), Arc::new(placed));
}

fn unschedulable(snapshot: &Snapshot, why: &str) -> Decision {
    let n = snapshot.nodes.len();
    Decision::Unschedulable {
        message: format!(
            "0/{n} nodes are available: {why}. preemption: 0/{n} nodes are available: {n} Preemption is not helpful for scheduling."
        ),
    }
}

fn unschedulable_on(snapshot: &Snapshot, reasons: &BTreeMap<String, usize>) -> Decision {
    if snapshot.nodes.is_empty() {
        return Decision::Unschedulable { message: "no nodes available to schedule pods".into() };
    }
    let mut all: Vec<String> = reasons.iter().map(|(why, n)| format!("{n} {why}")).collect();
    all.sort();
    unschedulable(snapshot, &all.join(", "))
}

/// The best of the nodes that fit, or why none does.
fn pick(snapshot: &Snapshot, pod: &Pending) -> Result<String, BTreeMap<String, usize>> {
    let near = Nearness::new(snapshot, pod);
    let spread = Spread::new(snapshot, pod);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut best: Option<(Score, &Node)> = None;
    for node in &snapshot.nodes {
        let why = misfits(pod, node, &near, &spread);
        if why.is_empty() {
            let score = score(pod, node, &near, &spread);
            // Of equals the first by name, so that the same cluster decides the same.
            if best.as_ref().is_none_or(|(s, n)| score > *s || (score == *s && node.name < n.name)) {
                best = Some((score, node));
            }
        }
        for w in why {
            *reasons.entry(w).or_default() += 1;
        }
    }
    best.map(|(_, n)| n.name.clone()).ok_or(reasons)
}

/// Why the pod cannot be on the node; empty when it can. The first check that fails speaks.
fn misfits(pod: &Pending, node: &Node, near: &Nearness, spread: &Spread) -> Vec<String> {
    let spec = &pod.object["spec"];
    let tolerations = list(spec, "/tolerations");
    let one = |s: &str| vec![s.to_owned()];
    let cordon = json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    if flag(&node.object, "/spec/unschedulable") && !tolerates(tolerations, &cordon) {
        return one("node(s) were unschedulable");
    }
    if let Some(t) = untolerated(tolerations, &node.object, &["NoSchedule", "NoExecute"]) {
        return vec![format!("node(s) had untolerated taint {{{}: {}}}", text(t, "/key"), text(t, "/value"))];
    }
    if !wants_node(spec, &node.object) {
        return one("node(s) didn't match Pod's node affinity/selector");
    }
    if pod.placed.ports.iter().any(|p| node.ports.contains(p)) {
        return one("node(s) didn't have free ports for the requested pod ports");
    }
    let short = shortages(pod, node);
    if !short.is_empty() {
        return short;
    }
    let reachable = |c: &ClaimState| match c {
        ClaimState::Bound(Some(terms)) => any_term(terms.as_array().map_or(&[], Vec::as_slice), &node.object),
        _ => true,
    };
    if !pod.claims.iter().all(reachable) {
        return one("node(s) had volume node affinity conflict");
    }
    if let Some(why) = spread.misfit(node) {
        return one(why);
    }
    near.misfit(node).map(one).unwrap_or_default()
}

fn shortages(pod: &Pending, node: &Node) -> Vec<String> {
    let mut out = Vec::new();
    let (need, have, used) = (&pod.placed.needs, &node.allocatable, &node.used);
    let limit = have.other("pods");
    if limit > 0 && node.pods >= limit {
        out.push("Too many pods".to_owned());
    }
    if need.cpu > 0 && used.cpu + need.cpu > have.cpu {
        out.push("Insufficient cpu".to_owned());
    }
    if need.memory > 0 && used.memory + need.memory > have.memory {
        out.push("Insufficient memory".to_owned());
    }
    for (name, amount) in need.others.iter().filter(|(_, a)| *a > 0) {
        if used.other(name) + amount > have.other(name) {
            out.push(format!("Insufficient {name}"));
        }
    }
    out
}

/// Better is greater: first wishes, then distance from kin, then room.
type Score = (i64, i64, i64, i64);

fn score(pod: &Pending, node: &Node, near: &Nearness, spread: &Spread) -> Score {
    let spec = &pod.object["spec"];
    let preferred = list(spec, "/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution");
    let by_node: i64 = preferred
        .iter()
        .filter(|p| p.get("preference").is_some_and(|t| term(t, &node.object)))
        .map(|p| int(p, "/weight").unwrap_or(0))
        .sum();
    let tolerations = list(spec, "/tolerations");
    let unwelcome = list(&node.object, "/spec/taints").iter();
    let unwelcome =
        unwelcome.filter(|t| text(t, "/effect") == "PreferNoSchedule" && !tolerates(tolerations, t));
    let unwelcome = unwelcome.count() as i64;
    let kin = node.by_owner.get(&pod.placed.owner).copied().unwrap_or(0);
    let kin = if pod.placed.owner.is_empty() { 0 } else { kin };
    let part = |used: i64, all: i64| if all > 0 { used * 1000 / all } else { 0 };
    let load = part(node.used.cpu, node.allocatable.cpu) + part(node.used.memory, node.allocatable.memory);
    (by_node + near.score(node) - 10 * unwelcome, -spread.crowd(node), -kin, -(load + node.pods))
}

/// Wishes of the pod, and of those placed already, about who is near.
struct Nearness {
    /// For each required term: the domains where somebody fits.
    wanted: Vec<(String, HashSet<String>)>,
    /// No pod fits a term but this one itself: it may be the first.
    first: bool,
    unwanted: Vec<(String, HashSet<String>)>,
    kept_away: Vec<(String, HashSet<String>)>,
    preferred: Vec<(String, HashMap<String, i64>)>,
}

impl Nearness {
    fn new(snapshot: &Snapshot, pod: &Pending) -> Nearness {
        let ns: &Namespaces = &snapshot.namespaces;
        let domain =
            |p: &Placed, key: &str| snapshot.node(&p.node).and_then(|n| n.label(key)).map(str::to_owned);
        let domains = |t: &Term| {
            let all = snapshot.meant(t).filter(|p| t.covers(ns, p));
            (t.topology.clone(), all.filter_map(|p| domain(p, &t.topology)).collect::<HashSet<_>>())
        };
        let terms = Term::all(&pod.object, "podAffinity");
        let wanted: Vec<_> = terms.iter().map(domains).collect();
        let first =
            wanted.iter().all(|(_, d)| d.is_empty()) && terms.iter().all(|t| t.covers(ns, &pod.placed));
        let mut kept_away = Vec::new();
        for p in snapshot.jealous(&pod.placed.namespace) {
            for t in p.keeps_away.iter().filter(|t| t.covers(ns, &pod.placed)) {
                kept_away.push((t.topology.clone(), domain(p, &t.topology).into_iter().collect()));
            }
        }
        let mut preferred = Vec::new();
        for (kind, sign) in [("podAffinity", 1), ("podAntiAffinity", -1)] {
            for t in Term::preferred(&pod.object, kind) {
                let mut counts: HashMap<String, i64> = HashMap::new();
                for p in snapshot.meant(&t).filter(|p| t.covers(ns, p)) {
                    if let Some(d) = domain(p, &t.topology) {
                        *counts.entry(d).or_default() += sign * t.weight;
                    }
                }
                preferred.push((t.topology.clone(), counts));
            }
        }
        let unwanted = pod.placed.keeps_away.iter().map(domains).collect();
        Nearness { wanted, first, unwanted, kept_away, preferred }
    }

    fn misfit(&self, node: &Node) -> Option<&'static str> {
        let at =
            |(key, domains): &(String, HashSet<String>)| node.label(key).is_some_and(|d| domains.contains(d));
        let met = self.wanted.iter().all(|t| if self.first { node.label(&t.0).is_some() } else { at(t) });
        if !met {
            return Some("node(s) didn't match pod affinity rules");
        }
        if self.unwanted.iter().any(at) {
            return Some("node(s) didn't match pod anti-affinity rules");
        }
        self.kept_away.iter().any(at).then_some("node(s) didn't satisfy existing pods anti-affinity rules")
    }

    fn score(&self, node: &Node) -> i64 {
        let at = |(key, counts): &(String, HashMap<String, i64>)| {
            node.label(key).and_then(|d| counts.get(d)).copied().unwrap_or(0)
        };
        self.preferred.iter().map(at).sum()
    }
}

/// How evenly the pod's like are to be spread.
struct Spread(Vec<Constraint>);

struct Constraint {
    key: String,
    max_skew: i64,
    hard: bool,
    counts: HashMap<String, i64>,
    least: i64,
    own: i64,
}

impl Spread {
    fn new(snapshot: &Snapshot, pod: &Pending) -> Spread {
        let read = |c: &Value| Constraint::new(snapshot, pod, c);
        Spread(list(&pod.object, "/spec/topologySpreadConstraints").iter().filter_map(read).collect())
    }

    fn misfit(&self, node: &Node) -> Option<&'static str> {
        for c in self.0.iter().filter(|c| c.hard) {
            let Some(domain) = node.label(&c.key) else {
                return Some("node(s) didn't match pod topology spread constraints (missing required label)");
            };
            if c.counts.get(domain).copied().unwrap_or(0) + c.own - c.least > c.max_skew {
                return Some("node(s) didn't match pod topology spread constraints");
            }
        }
        None
    }

    fn crowd(&self, node: &Node) -> i64 {
        let at = |c: &Constraint| node.label(&c.key).and_then(|d| c.counts.get(d)).copied().unwrap_or(0);
        self.0.iter().map(at).sum()
    }
}

impl Constraint {
    fn new(snapshot: &Snapshot, pod: &Pending, c: &Value) -> Option<Constraint> {
        let mut sel = selector(c.get("labelSelector").filter(|s| !s.is_null()))?;
        for key in list(c, "/matchLabelKeys").iter().filter_map(Value::as_str) {
            if let Some(v) = pod.placed.label(key) {
                let one = selector(Some(&json!({"matchLabels": {key: v}})))?;
                sel.requirements.extend(one.requirements);
            }
        }
        let key = text(c, "/topologyKey").to_owned();
        let spec = &pod.object["spec"];
        let honors_taints = text(c, "/nodeTaintsPolicy") == "Honor";
        let counts_node = |n: &Node| {
            (text(c, "/nodeAffinityPolicy") == "Ignore" || wants_node(spec, &n.object))
                && !(honors_taints
                    && untolerated(list(spec, "/tolerations"), &n.object, &["NoSchedule", "NoExecute"])
                        .is_some())
        };
        let mut counts: HashMap<String, i64> = HashMap::new();
        for n in snapshot.nodes.iter().filter(|n| counts_node(n)) {
            if let Some(d) = n.label(&key) {
                counts.entry(d.to_owned()).or_default();
            }
        }
        let like = |p: &&Arc<Placed>| !p.deleting && sel.matches(|k| p.label(k));
        for p in snapshot.within(&pod.placed.namespace).filter(like) {
            let node = snapshot.node(&p.node).filter(|n| counts_node(n));
            if let Some(n) = node.and_then(|n| n.label(&key)).and_then(|d| counts.get_mut(d)) {
                *n += 1;
            }
        }
        // With fewer domains than asked for, those to come are empty.
        let enough = counts.len() as i64 >= int(c, "/minDomains").unwrap_or(1);
        let least = if enough { counts.values().copied().min().unwrap_or(0) } else { 0 };
        let own = i64::from(sel.matches(|k| pod.placed.label(k)));
        let hard = text(c, "/whenUnsatisfiable") != "ScheduleAnyway";
        Some(Constraint { key, max_skew: int(c, "/maxSkew").unwrap_or(1), hard, counts, least, own })
    }
}
