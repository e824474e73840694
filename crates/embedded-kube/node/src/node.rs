//! What a node says of itself.

use ek_meta::time;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// On Node objects that this process keeps alive; found again after a restart by it.
pub const EMBEDDED: &str = "zaffre.io/node";

/// Addresses in a /24 that are not the network, the gateway or broadcast.
const MAX_PODS: u32 = 250;

/// What a node is made with.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    pub cpus: u32,
    pub memory: String,
    pub storage: String,
    /// At most 250: each has an address of the node's own range.
    pub pods: u32,
    pub arch: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// As in `spec.taints`.
    pub taints: Vec<Value>,
    pub provider_id: Option<String>,
    /// Its address; by default one made from its number.
    pub address: Option<Ipv4Addr>,
    /// Further resources, such as `nvidia.com/gpu`.
    pub resources: BTreeMap<String, String>,
    pub os_image: String,
    /// Version of its kubelet, `v1.34.0`.
    pub kubelet: String,
}

impl Default for NodeSpec {
    fn default() -> NodeSpec {
        NodeSpec {
            cpus: 8,
            memory: "32Gi".into(),
            storage: "100Gi".into(),
            pods: 110,
            arch: "amd64".into(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            provider_id: None,
            address: None,
            resources: BTreeMap::new(),
            os_image: "Zaffre embedded node".into(),
            kubelet: "v1.34.0".into(),
        }
    }
}

/// The numbered node's range of pod addresses: a /24 below 10.128.0.0/9.
pub(crate) fn pod_network(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a80_0000 | ((number & 0x7fff) << 8))
}

fn host_address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0xac10_0000 | ((number + 10) & 0xf_ffff))
}

impl NodeSpec {
    pub(crate) fn address(&self, number: u32) -> Ipv4Addr {
        self.address.unwrap_or_else(|| host_address(number))
    }

    /// The Node object with everything but what changes with time.
    pub(crate) fn object(&self, name: &str, number: u32, now: Timestamp, id: &str) -> Value {
        let mut labels = json!({
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": self.arch,
            "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": self.arch,
        });
        for (k, v) in &self.labels {
            labels[k] = json!(v);
        }
        let mut annotations = json!({EMBEDDED: number.to_string(), "volumes.kubernetes.io/controller-managed-attach-detach": "true"});
        for (k, v) in &self.annotations {
            annotations[k] = json!(v);
        }
        let cidr = format!("{}/24", pod_network(number));
        let mut spec = json!({"podCIDR": cidr, "podCIDRs": [cidr]});
        if let Some(p) = &self.provider_id {
            spec["providerID"] = json!(p);
        }
        if !self.taints.is_empty() {
            spec["taints"] = json!(self.taints);
        }
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": spec, "status": self.status(name, number, now, id),
        })
    }

    fn status(&self, name: &str, number: u32, now: Timestamp, id: &str) -> Value {
        let mut capacity = json!({
            "cpu": self.cpus.to_string(), "memory": self.memory, "ephemeral-storage": self.storage,
            "pods": self.pods.min(MAX_PODS).to_string(), "hugepages-1Gi": "0", "hugepages-2Mi": "0",
        });
        for (k, v) in &self.resources {
            capacity[k] = json!(v);
        }
        let machine = id.replace('-', "");
        json!({
            "capacity": capacity, "allocatable": capacity,
            "addresses": [
                {"type": "InternalIP", "address": self.address(number).to_string()},
                {"type": "Hostname", "address": name},
            ],
            "conditions": conditions(now, &[]),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": self.arch, "operatingSystem": "linux", "osImage": self.os_image,
                "kernelVersion": "6.12.0-zaffre", "kubeletVersion": self.kubelet, "kubeProxyVersion": "",
                "containerRuntimeVersion": "zaffre://0.1.0",
                "machineID": machine, "systemUUID": id, "bootID": id,
            },
        })
    }
}

/// A healthy node's conditions; those that were so before keep their times.
pub(crate) fn conditions(now: Timestamp, old: &[Value]) -> Vec<Value> {
    let all = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    let at = time::rfc3339(now);
    let mut list: Vec<Value> = (all.iter())
        .map(|(kind, status, reason, message)| {
            let before = old.iter().find(|c| c["type"] == *kind && c["status"] == *status);
            let since = before.map_or_else(|| json!(at), |c| c["lastTransitionTime"].clone());
            json!({"type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": at, "lastTransitionTime": since})
        })
        .collect();
    list.extend(old.iter().filter(|c| !all.iter().any(|(k, ..)| c["type"] == *k)).cloned());
    list
}

/// The lease that says a node is there.
pub(crate) fn lease(name: &str, node_uid: &str, now: Timestamp) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": time::rfc3339_micro(now)},
    })
}

/// Addresses of one node's pods.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    taken: BTreeMap<u32, Box<str>>,
    next: u32,
}

impl Addresses {
    /// What this uid has, or the next free one.
    pub(crate) fn of(&mut self, network: Ipv4Addr, uid: &str) -> Ipv4Addr {
        let base = u32::from(network);
        if let Some((n, _)) = self.taken.iter().find(|(_, u)| ***u == *uid) {
            return Ipv4Addr::from(base | n);
        }
        for _ in 0..MAX_PODS {
            self.next = self.next % MAX_PODS + 1;
            let n = self.next + 1;
            if let std::collections::btree_map::Entry::Vacant(free) = self.taken.entry(n) {
                free.insert(uid.into());
                return Ipv4Addr::from(base | n);
            }
        }
        // More pods than the node allows: somebody bound them by hand. They share the last address.
        Ipv4Addr::from(base | 254)
    }

    /// An address given before this process began.
    pub(crate) fn keep(&mut self, network: Ipv4Addr, uid: &str, ip: Ipv4Addr) {
        if u32::from(ip) & 0xffff_ff00 == u32::from(network) {
            self.taken.insert(u32::from(ip) & 0xff, uid.into());
        }
    }

    pub(crate) fn free(&mut self, uid: &str) {
        self.taken.retain(|_, u| **u != *uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_kept_and_reused_late() {
        let net = pod_network(3);
        assert_eq!(net.to_string(), "10.128.3.0");
        let mut a = Addresses::default();
        a.keep(net, "old", "10.128.3.2".parse().unwrap());
        let first = a.of(net, "a");
        assert_eq!(first, a.of(net, "a"));
        assert_eq!(first.to_string(), "10.128.3.3");
        a.free("a");
        assert_eq!(a.of(net, "b").to_string(), "10.128.3.4");
        for i in 0..300 {
            a.of(net, &format!("p{i}"));
        }
        assert_eq!(a.taken.len(), 250);
    }
}
