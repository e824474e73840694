//! Where Services really are: the loopback ports of programs behind them. Nothing ever dials a cluster IP.

use crate::run::probe::port_number;
use crate::run::{self, labels};
use crate::{Inner, Nodes, tables};
use ek_engine::ClusterId;
use ek_server::{Access, ServiceResolver, shared};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl ServiceResolver for Nodes {
    fn resolve(&self, cluster: &ClusterId, namespace: &str, name: &str, port: u16) -> Option<SocketAddr> {
        resolve(&self.0, cluster, namespace, name, port)
    }
}

/// The loopback address of one ready endpoint; they take turns.
pub(crate) fn resolve(
    inner: &Arc<Inner>,
    cluster: &ClusterId,
    ns: &str,
    name: &str,
    port: u16,
) -> Option<SocketAddr> {
    let targets = every(inner, cluster, ns, name, port)?;
    let turn = inner.turn.fetch_add(1, Ordering::Relaxed);
    targets.get(turn % targets.len().max(1)).copied()
}

/// The loopback addresses of all ready endpoints.
pub(crate) fn every(
    inner: &Arc<Inner>,
    cluster: &ClusterId,
    ns: &str,
    name: &str,
    port: u16,
) -> Option<Vec<SocketAddr>> {
    let access = inner.host.access(cluster, "kube-proxy")?;
    let service = access.look(&tables::SERVICES, ns, name)?;
    let ports = service["spec"]["ports"].as_array()?;
    let spec = ports.iter().find(|p| p["port"].as_u64() == Some(u64::from(port)))?;
    let mut pods = from_slices(&access, ns, name);
    if pods.is_empty() {
        pods = from_selector(&access, ns, &service["spec"]["selector"]);
    }
    let targets = pods.iter().filter_map(|pod| {
        let number = target_port(pod, spec)?;
        let key = format!("{ns}/{}", ek_meta::object::name(pod));
        inner.runtime.port(cluster, &key, number)
    });
    Some(targets.collect())
}

/// The Service that has this address.
pub(crate) fn named(inner: &Arc<Inner>, cluster: &ClusterId, address: &str) -> Option<(String, String)> {
    let access = inner.host.access(cluster, "kube-proxy")?;
    let key = access.service_at(address)?;
    key.split_once('/').map(|(ns, name)| (ns.to_owned(), name.to_owned()))
}

/// Ready pods as the endpoint controller knows them.
fn from_slices(access: &Access, ns: &str, service: &str) -> Vec<Arc<Value>> {
    let mut pods = Vec::new();
    for (_, entry) in access.in_namespace(&tables::SLICES, ns) {
        if entry.meta.label("kubernetes.io/service-name") != Some(service) {
            continue;
        }
        let Some(slice) = shared(&entry) else { continue };
        for e in slice["endpoints"].as_array().into_iter().flatten() {
            let ready = e["conditions"]["ready"].as_bool().unwrap_or(true);
            if let (true, Some("Pod"), Some(name)) =
                (ready, e["targetRef"]["kind"].as_str(), e["targetRef"]["name"].as_str())
            {
                pods.extend(run::pod(access, ns, name));
            }
        }
    }
    pods
}

/// Ready pods by the Service's own selector, for clusters without an endpoint controller.
fn from_selector(access: &Access, ns: &str, selector: &Value) -> Vec<Arc<Value>> {
    let Some(selector) = selector.as_object().filter(|s| !s.is_empty()) else { return Vec::new() };
    let fits = |e: &ek_store::Entry| selector.iter().all(|(k, v)| e.meta.label(k) == v.as_str());
    let all = access.in_namespace(&tables::PODS, ns).into_iter();
    let mut pods: Vec<Arc<Value>> =
        all.filter(|(_, e)| fits(e) && !e.meta.deleting).filter_map(|(_, e)| shared(&e)).collect();
    pods.retain(|p| {
        let conditions = p["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
        ready && !labels(p).is_empty()
    });
    pods
}

/// The container port behind a port of a Service.
fn target_port(pod: &Value, port: &Value) -> Option<u16> {
    let target = match &port["targetPort"] {
        Value::Null => &port["port"],
        t => t,
    };
    let sidecars = pod["spec"]["initContainers"].as_array().into_iter().flatten();
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    containers.chain(sidecars).find_map(|c| port_number(&c["ports"], target))
}
