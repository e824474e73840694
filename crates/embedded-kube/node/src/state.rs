//! What is remembered of nodes and of pods that wait for something. All of it can be had again from the objects.

use crate::node::{self, Addresses, EMBEDDED};
use crate::pod::Memory;
use crate::run::Runtime;
use crate::{Options, kubelet, tables};
use ek_engine::ClusterId;
use ek_meta::object;
use ek_server::{Access, Host, parse};
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Times {
    pub(crate) beat: Option<Timestamp>,
    pub(crate) report: Option<Timestamp>,
    /// The Node's revision when it was last looked at.
    pub(crate) seen: u64,
}

/// One node of ours.
pub(crate) struct NodeState {
    pub(crate) address: String,
    pub(crate) network: Ipv4Addr,
    pub(crate) addresses: Mutex<Addresses>,
    pub(crate) times: Mutex<Times>,
    pub(crate) lost: AtomicBool,
    number: u32,
}

impl NodeState {
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Nodes and remembered pods of one cluster.
#[derive(Default)]
pub(crate) struct ClusterState {
    pub(crate) nodes: HashMap<String, Arc<NodeState>>,
    /// Of pods that wait for something: by key, with the uid it is about.
    pods: HashMap<Box<str>, (Box<str>, Memory)>,
    /// Which node a pod's address is of.
    homes: HashMap<Box<str>, (Box<str>, Arc<NodeState>)>,
}

pub(crate) struct Inner {
    pub(crate) host: Host,
    pub(crate) options: Options,
    pub(crate) runtime: Runtime,
    pub(crate) turn: AtomicUsize,
    /// Nodes are made one at a time: a number is looked up, then taken.
    pub(crate) adding: tokio::sync::Mutex<()>,
    pub(crate) clusters: RwLock<HashMap<ClusterId, ClusterState>>,
}

/// A node's number, if it is one of ours.
fn number(node: &Value) -> Option<u32> {
    node["metadata"]["annotations"][EMBEDDED].as_str()?.parse().ok()
}

/// Keys and uids of the pods on a node.
pub(crate) fn pods_on(access: &Access, node: &str) -> Vec<(Arc<str>, String)> {
    let view = access.table(&tables::PODS);
    (view.objects.iter())
        .filter(|(_, e)| kubelet::node_name(&e.bytes()).is_some_and(|n| n == node))
        .map(|(k, e)| (k.clone(), e.meta.uid.to_string()))
        .collect()
}

impl Inner {
    pub(crate) fn node(&self, cluster: &ClusterId, name: &str) -> Option<Arc<NodeState>> {
        self.clusters.read().get(cluster)?.nodes.get(name).cloned()
    }

    /// The first number no node of the cluster has; also not one that an earlier process made and that is not taken
    /// over yet.
    pub(crate) fn free_number(&self, access: &Access) -> u32 {
        let mut used: HashSet<u32> = HashSet::new();
        let clusters = self.clusters.read();
        let known = clusters.get(access.id());
        used.extend(known.iter().flat_map(|c| c.nodes.values().map(|n| n.number)));
        for (name, entry) in &access.table(&tables::NODES).objects {
            if known.is_none_or(|c| !c.nodes.contains_key(&**name)) {
                used.extend(parse(entry).and_then(|n| number(&n)));
            }
        }
        (0..).find(|n| !used.contains(n)).unwrap_or(0)
    }

    /// Takes over a node from its object; its pods keep their addresses.
    pub(crate) fn adopt(&self, access: &Access, object: &Value) -> Arc<NodeState> {
        let name = object::name(object);
        if let Some(known) = self.node(access.id(), name) {
            return known;
        }
        let network = object["spec"]["podCIDR"].as_str().and_then(|c| c.split('/').next()?.parse().ok());
        let number = number(object).unwrap_or_else(|| self.free_number(access));
        let network = network.unwrap_or_else(|| node::pod_network(number));
        let addresses = object["status"]["addresses"].as_array().into_iter().flatten();
        let address =
            addresses.into_iter().find(|a| a["type"] == "InternalIP").and_then(|a| a["address"].as_str());
        let mut taken = Addresses::default();
        let pods = pods_on(access, name);
        for (key, uid) in &pods {
            let (ns, pod) = ek_engine::split(key);
            let ip =
                access.get(&tables::PODS, ns, pod).and_then(|p| p["status"]["podIP"].as_str()?.parse().ok());
            if let Some(ip) = ip {
                taken.keep(network, uid, ip);
            }
        }
        let state = Arc::new(NodeState {
            address: address.unwrap_or("127.0.0.1").to_owned(),
            network,
            addresses: Mutex::new(taken),
            times: Mutex::default(),
            lost: AtomicBool::new(false),
            number,
        });
        self.clusters
            .write()
            .entry(access.id().clone())
            .or_default()
            .nodes
            .insert(name.to_owned(), state.clone());
        for (key, _) in pods {
            self.runtime.poke(access.id(), &key);
        }
        state
    }

    pub(crate) fn drop_node(&self, cluster: &ClusterId, name: &str) {
        let mut clusters = self.clusters.write();
        let Some(c) = clusters.get_mut(cluster) else { return };
        if c.nodes.remove(name).is_some() {
            drop(clusters);
            self.runtime.end_node(cluster, Some(name));
        }
    }

    /// A cluster is gone.
    pub(crate) fn forget(&self, cluster: &ClusterId) {
        if self.clusters.write().remove(cluster).is_some() {
            self.runtime.end_node(cluster, None);
            self.runtime.remove_claims(cluster, None);
        }
    }

    /// Uids of all pods there are.
    pub(crate) fn living(&self) -> HashSet<String> {
        let all = self.host.names();
        let clusters = all.iter().filter_map(|c| self.host.access(&ClusterId::new(c), kubelet::NAME));
        clusters
            .flat_map(|a| {
                a.table(&tables::PODS).objects.values().map(|e| e.meta.uid.to_string()).collect::<Vec<_>>()
            })
            .collect()
    }

    /// The pod's address on its node.
    pub(crate) fn address(
        &self,
        cluster: &ClusterId,
        key: &str,
        uid: &str,
        node: &Arc<NodeState>,
    ) -> Ipv4Addr {
        let ip = node.addresses.lock().of(node.network, uid);
        if let Some(c) = self.clusters.write().get_mut(cluster) {
            let old = c.homes.insert(key.into(), (uid.into(), node.clone()));
            if let Some((before, home)) = old.filter(|(u, _)| **u != *uid) {
                home.addresses.lock().free(&before);
            }
        }
        ip
    }

    pub(crate) fn memory(&self, cluster: &ClusterId, key: &str, uid: &str) -> Memory {
        let clusters = self.clusters.read();
        let known = clusters.get(cluster).and_then(|c| c.pods.get(key));
        known.filter(|(u, _)| **u == *uid).map(|(_, m)| m.clone()).unwrap_or_default()
    }

    pub(crate) fn remember(&self, cluster: &ClusterId, key: &str, uid: &str, memory: Memory) {
        let mut clusters = self.clusters.write();
        let Some(c) = clusters.get_mut(cluster) else { return };
        if memory.is_idle() {
            c.pods.remove(key);
        } else {
            c.pods.insert(key.into(), (uid.into(), memory));
        }
    }

    /// A pod is gone: its address is free, its programs end.
    pub(crate) fn forget_pod(&self, cluster: &ClusterId, key: &str) {
        if let Some(c) = self.clusters.write().get_mut(cluster) {
            c.pods.remove(key);
            if let Some((uid, home)) = c.homes.remove(key) {
                home.addresses.lock().free(&uid);
            }
        }
        self.runtime.end_key(cluster, key);
    }
}
