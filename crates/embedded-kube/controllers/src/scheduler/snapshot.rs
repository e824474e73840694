//! The cluster as one round of scheduling sees it.

use crate::objects::{list, object_at, text};
use crate::placement::{Amounts, host_ports, requests};
use ek_meta::object;
use ek_meta::selector::LabelSelector;
use ek_server::parse;
use ek_store::{Entry, Objects};
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

    /// The namespaces that its wish to keep others away names; the empty name for a selector of them.
    fn names(&self) -> Vec<&str> {
        let of = |t: &Term| t.namespace_selector.is_some();
        let mut all: Vec<&str> =
            self.keeps_away.iter().flat_map(|t| &t.namespaces).map(String::as_str).collect();
        all.extend(self.keeps_away.iter().any(of).then_some(""));
        all.sort_unstable();
        all.dedup();
        all
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
            let labels = namespaces.get(pod.namespace.as_str());
            s.matches(|k| labels.and_then(|e| e.meta.label(k)))
        };
        (named || self.namespace_selector.as_ref().is_some_and(selected))
            && self.selector.matches(|k| pod.label(k))
    }
}

pub(super) type Namespaces = Objects;

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

impl Node {
    fn count(&mut self, pod: &Placed) {
        self.used.add(&pod.needs);
        self.pods += 1;
        self.ports.extend(pod.ports.iter().cloned());
        *self.by_owner.entry(pod.owner.clone()).or_default() += 1;
    }

    fn uncount(&mut self, pod: &Placed) {
        self.used.take(&pod.needs);
        self.pods -= 1;
        for port in &pod.ports {
            if let Some(i) = self.ports.iter().position(|p| p == port) {
                self.ports.swap_remove(i);
            }
        }
        if let Some(n) = self.by_owner.get_mut(&pod.owner) {
            *n -= 1;
            if *n <= 0 {
                self.by_owner.remove(&pod.owner);
            }
        }
    }
}

fn forget(all: &mut HashMap<String, Pods>, name: &str, key: &str) {
    if let Some(pods) = all.get_mut(name) {
        pods.remove(key);
        if pods.is_empty() {
            all.remove(name);
        }
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

type Pods = HashMap<Arc<str>, Arc<Placed>>;

/// Nodes and the pods on them. Kept from round to round: a change of one pod is a change of one pod here, too, however
/// many there are.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) nodes: Vec<Node>,
    pub(super) namespaces: Namespaces,
    by_name: HashMap<String, usize>,
    pods: Pods,
    by_namespace: HashMap<String, Pods>,
    /// Pods that keep others away, by the namespaces they name; under the empty name those that select namespaces.
    jealous: HashMap<String, Pods>,
}

impl Snapshot {
    /// Takes over the nodes as they are now.
    pub(super) fn set_nodes(&mut self, objects: Vec<Value>) {
        let read = |object: Value| {
            let resources =
                object.pointer("/status/allocatable").or_else(|| object.pointer("/status/capacity"));
            Node {
                name: object::name(&object).to_owned(),
                allocatable: Amounts::read(resources),
                object,
                used: Amounts::default(),
                pods: 0,
                ports: Vec::new(),
                by_owner: HashMap::new(),
            }
        };
        self.nodes = objects.into_iter().map(read).collect();
        self.by_name = self.nodes.iter().enumerate().map(|(i, n)| (n.name.clone(), i)).collect();
        for pod in self.pods.values() {
            if let Some(&i) = self.by_name.get(&pod.node) {
                self.nodes[i].count(pod);
            }
        }
    }

    /// Counts a pod on its node from now on.
    pub(super) fn place(&mut self, key: Arc<str>, pod: Arc<Placed>) {
        self.remove(&key);
        if pod.ended {
            return;
        }
        if let Some(&i) = self.by_name.get(&pod.node) {
            self.nodes[i].count(&pod);
        }
        for named in pod.names() {
            self.jealous.entry(named.to_owned()).or_default().insert(key.clone(), pod.clone());
        }
        self.by_namespace.entry(pod.namespace.clone()).or_default().insert(key.clone(), pod.clone());
        self.pods.insert(key, pod);
    }

    pub(super) fn remove(&mut self, key: &str) {
        let Some(pod) = self.pods.remove(key) else { return };
        if let Some(&i) = self.by_name.get(&pod.node) {
            self.nodes[i].uncount(&pod);
        }
        for named in pod.names() {
            forget(&mut self.jealous, named, key);
        }
        forget(&mut self.by_namespace, &pod.namespace, key);
    }

    /// Pods of a namespace.
    pub(super) fn within(&self, namespace: &str) -> impl Iterator<Item = &Arc<Placed>> {
        self.by_namespace.get(namespace).into_iter().flat_map(HashMap::values)
    }

    /// Pods that a term can mean.
    pub(super) fn meant<'a>(&'a self, term: &'a Term) -> Box<dyn Iterator<Item = &'a Arc<Placed>> + 'a> {
        match term.namespace_selector {
            Some(_) => Box::new(self.pods.values()),
            None => Box::new(term.namespaces.iter().flat_map(|n| self.within(n))),
        }
    }

    /// Pods that may want to keep away those of a namespace.
    pub(super) fn jealous(&self, of: &str) -> impl Iterator<Item = &Arc<Placed>> {
        let named = [of, ""].into_iter().filter_map(|n| self.jealous.get(n));
        let mut seen = std::collections::HashSet::new();
        named.flatten().filter(move |(key, _)| seen.insert((*key).clone())).map(|(_, p)| p)
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
