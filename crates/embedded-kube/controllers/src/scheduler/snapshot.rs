//! The cluster as one round of scheduling sees it.

use crate::objects::{list, object_at, text};
use crate::placement::{Amounts, host_ports, requests};
use ek_meta::object;
use ek_meta::selector::LabelSelector;
use ek_server::parse;
use ek_store::Entry;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// A pod as it weighs on its node and on others' wishes.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) namespace: String,
    pub(super) node: String,
    pub(super) labels: Vec<(String, String)>,
    pub(super) owner: Box<str>,
    pub(super) needs: Amounts,
    pub(super) ports: Vec<(String, i64)>,
    /// Nobody who matches may come near.
    pub(super) keeps_away: Vec<Term>,
    pub(super) deleting: bool,
    pub(super) ended: bool,
}

impl Placed {
    pub(super) fn read(entry: &Entry) -> Option<Placed> {
        Some(Placed::of(&parse(entry)?, entry))
    }

    pub(super) fn of(pod: &Value, entry: &Entry) -> Placed {
        let spec = &pod["spec"];
        Placed {
            namespace: object::namespace(pod).to_owned(),
            node: text(spec, "/nodeName").to_owned(),
            labels: entry.meta.labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            owner: entry.meta.owners.first().map(|o| o.uid.clone()).unwrap_or_default(),
            needs: requests(spec),
            ports: host_ports(spec),
            keeps_away: Term::all(pod, "podAntiAffinity"),
            deleting: entry.meta.deleting,
            ended: matches!(text(pod, "/status/phase"), "Succeeded" | "Failed"),
        }
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

/// Pods of some labels in some namespaces, and how near is near.
#[derive(Clone, Debug)]
pub(super) struct Term {
    selector: LabelSelector,
    namespaces: Vec<String>,
    namespace_selector: Option<LabelSelector>,
    pub(super) topology: String,
    pub(super) weight: i64,
}

impl Term {
    /// The required terms of `podAffinity` or `podAntiAffinity`.
    pub(super) fn all(pod: &Value, kind: &str) -> Vec<Term> {
        let path = format!("/spec/affinity/{kind}/requiredDuringSchedulingIgnoredDuringExecution");
        list(pod, &path).iter().filter_map(|t| Term::read(t, pod, 0)).collect()
    }

    pub(super) fn preferred(pod: &Value, kind: &str) -> Vec<Term> {
        let path = format!("/spec/affinity/{kind}/preferredDuringSchedulingIgnoredDuringExecution");
        let read = |t: &Value| Term::read(t.get("podAffinityTerm")?, pod, t["weight"].as_i64().unwrap_or(0));
        list(pod, &path).iter().filter_map(read).collect()
    }

    fn read(t: &Value, pod: &Value, weight: i64) -> Option<Term> {
        let mut namespaces: Vec<String> =
            list(t, "/namespaces").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let namespace_selector =
            crate::objects::selector(t.get("namespaceSelector").filter(|s| !s.is_null()));
        if namespaces.is_empty() && namespace_selector.is_none() {
            namespaces.push(object::namespace(pod).to_owned());
        }
        Some(Term {
            selector: crate::objects::selector(t.get("labelSelector").filter(|s| !s.is_null()))?,
            namespaces,
            namespace_selector,
            topology: text(t, "/topologyKey").to_owned(),
            weight,
        })
    }

    pub(super) fn covers(&self, namespaces: &Namespaces, pod: &Placed) -> bool {
        let named = self.namespaces.contains(&pod.namespace);
        let selected = |s: &LabelSelector| {
            let labels = namespaces.get(&pod.namespace);
            s.matches(|k| labels.and_then(|e| e.meta.label(k)))
        };
        (named || self.namespace_selector.as_ref().is_some_and(selected))
            && self.selector.matches(|k| pod.label(k))
    }
}

pub(super) type Namespaces = HashMap<String, Arc<Entry>>;

/// A node and what is on it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) object: Value,
    pub(super) name: String,
    pub(super) allocatable: Amounts,
    pub(super) used: Amounts,
    pub(super) pods: i64,
    pub(super) ports: Vec<(String, i64)>,
    pub(super) by_owner: HashMap<Box<str>, i64>,
}

impl Node {
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        crate::objects::label(&self.object, key)
    }
}

/// A volume claim of a pod that waits.
#[derive(Clone, Debug)]
pub(super) enum ClaimState {
    Missing(String),
    /// Bound; the volume's node affinity, if it has one.
    Bound(Option<Value>),
    /// Its class waits for a pod to choose the node; where that is, once chosen.
    ForConsumer {
        name: String,
        selected: Option<String>,
    },
    Unbound,
}

/// A pod that waits for a node.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) key: Arc<str>,
    pub(super) object: Value,
    pub(super) placed: Placed,
    pub(super) claims: Vec<ClaimState>,
}

#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) nodes: Vec<Node>,
    pub(super) placed: Vec<Arc<Placed>>,
    pub(super) namespaces: Namespaces,
    by_name: HashMap<String, usize>,
}

impl Snapshot {
    pub(super) fn new(nodes: Vec<Value>, placed: Vec<Arc<Placed>>, namespaces: Namespaces) -> Snapshot {
        let mut out = Snapshot { namespaces, ..Snapshot::default() };
        for object in nodes {
            let resources =
                object.pointer("/status/allocatable").or_else(|| object.pointer("/status/capacity"));
            let allocatable = Amounts::read(resources);
            let name = object::name(&object).to_owned();
            out.by_name.insert(name.clone(), out.nodes.len());
            out.nodes.push(Node {
                object,
                name,
                allocatable,
                used: Amounts::default(),
                pods: 0,
                ports: Vec::new(),
                by_owner: HashMap::new(),
            });
        }
        for p in placed {
            out.place(p);
        }
        out
    }

    /// Counts a pod on its node from now on.
    pub(super) fn place(&mut self, pod: Arc<Placed>) {
        if pod.ended {
            return;
        }
        if let Some(&i) = self.by_name.get(&pod.node) {
            let node = &mut self.nodes[i];
            node.used.add(&pod.needs);
            node.pods += 1;
            node.ports.extend(pod.ports.iter().cloned());
            *node.by_owner.entry(pod.owner.clone()).or_default() += 1;
        }
        self.placed.push(pod);
    }

    pub(super) fn node(&self, name: &str) -> Option<&Node> {
        self.by_name.get(name).map(|i| &self.nodes[*i])
    }
}

/// Sets the condition by which users learn that a pod has no node, and why. Says whether that is news.
pub(super) fn mark_unschedulable(pod: &mut Value, message: &str, now: &str) -> bool {
    let status = object_at(pod, "status");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Value::Array(all) = conditions else { return false };
    let c = json!({"type": "PodScheduled", "status": "False", "lastProbeTime": null, "reason": "Unschedulable", "message": message});
    crate::objects::set_condition(all, c, now)
}
