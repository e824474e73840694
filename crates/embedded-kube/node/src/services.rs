//! Where Services really are: the loopback ports of programs behind them. Nothing ever dials a cluster IP.

use crate::run::labels;
use crate::run::probe::port_number;
use crate::{Inner, Nodes, tables};
use ek_engine::ClusterId;
use ek_server::{Access, ServiceResolver, shared};
use ek_store::Entry;
use parking_lot::Mutex;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl ServiceResolver for Nodes {
    fn resolve(&self, cluster: &ClusterId, namespace: &str, name: &str, port: u16) -> Option<SocketAddr> {
        resolve(&self.0, cluster, namespace, name, port)
    }
}

impl Nodes {
    /// Where a Route to a Service leads that says this of its port: the name of one of the Service's, or what pods listen
    /// on, or nothing at all, which is all of them.
    pub fn routed(&self, cluster: &ClusterId, ns: &str, name: &str, port: &Value) -> Option<SocketAddr> {
        let access = self.0.host.access(cluster, "kube-proxy")?;
        let service = shared(&access.entry(&tables::SERVICES, ns, name)?)?;
        let ports = service["spec"]["ports"].as_array()?.iter();
        let numbers = ports.filter(|p| port.is_null() || port.is_number() || p["name"] == *port);
        let numbers = numbers.filter_map(|p| u16::try_from(p["port"].as_u64()?).ok());
        let mut found = numbers.filter_map(|n| Found::find(&access, ns, name, n));
        let listens = |f: &Found| f.targets.iter().all(|(_, pod)| port.as_u64() == Some(u64::from(*pod)));
        let found = found.find(|f| !f.targets.is_empty() && (!port.is_number() || listens(f)))?;
        self.0.in_turn(&found.open(&self.0, cluster))
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
    inner.in_turn(&every(inner, cluster, ns, name, port)?)
}

impl Inner {
    /// The next of some addresses.
    fn in_turn(&self, targets: &[SocketAddr]) -> Option<SocketAddr> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        targets.get(turn % targets.len().max(1)).copied()
    }
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
    let found = Found::find(&access, ns, name, port)?;
    Some(found.open(inner, cluster))
}

/// The same for who asks for one Service again and again, and keeps what was found.
pub(crate) fn again(
    inner: &Arc<Inner>,
    cluster: &ClusterId,
    (ns, name, port): (&str, &str, u16),
    kept: &Mutex<Option<Found>>,
) -> Option<SocketAddr> {
    let access = inner.host.access(cluster, "kube-proxy")?;
    let mut kept = kept.lock();
    let known = kept.take().filter(|f| f.port == port && f.stands(&access, ns, name));
    let found = kept.insert(known.or_else(|| Found::find(&access, ns, name, port))?);
    inner.in_turn(&found.open(inner, cluster))
}

/// Ports of the ready pods behind a Service, and what they were read from: hundreds of pods that ask every few seconds
/// would have the same objects parsed each time.
pub(crate) struct Found {
    port: u16,
    service: Arc<Entry>,
    slices: Vec<Arc<Entry>>,
    /// Keys of pods, and the port of each.
    targets: Vec<(String, u16)>,
    pods: Vec<Arc<Entry>>,
}

impl Found {
    fn find(access: &Access, ns: &str, name: &str, port: u16) -> Option<Found> {
        let service = access.entry(&tables::SERVICES, ns, name)?;
        let said = shared(&service)?;
        let ports = said["spec"]["ports"].as_array()?;
        let spec = ports.iter().find(|p| p["port"].as_u64() == Some(u64::from(port)))?;
        let slices = slices(access, ns, name);
        let mut pods = in_slices(access, ns, &slices);
        if pods.is_empty() {
            pods = from_selector(access, ns, &said["spec"]["selector"]);
        }
        let target = |pod: &Arc<Entry>| {
            let pod = shared(pod)?;
            Some((format!("{ns}/{}", ek_meta::object::name(&pod)), target_port(&pod, spec)?))
        };
        let targets = pods.iter().filter_map(target).collect();
        Some(Found { port, service, slices, targets, pods })
    }

    /// Whether it is of this Service, and nothing that it was read from has been written since. Pods that no slice
    /// names are looked for each time.
    fn stands(&self, access: &Access, ns: &str, name: &str) -> bool {
        let same = |now: &[Arc<Entry>], then: &[Arc<Entry>]| {
            now.len() == then.len() && now.iter().zip(then).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        let service = access.entry(&tables::SERVICES, ns, name);
        let pods = self.targets.iter().filter_map(|(key, _)| {
            let (ns, name) = key.split_once('/')?;
            access.entry(&tables::PODS, ns, name)
        });
        !self.slices.is_empty()
            && !self.pods.is_empty()
            && service.is_some_and(|s| Arc::ptr_eq(&s, &self.service))
            && same(&slices(access, ns, name), &self.slices)
            && same(&pods.collect::<Vec<_>>(), &self.pods)
    }

    /// Those that a program has taken.
    fn open(&self, inner: &Inner, cluster: &ClusterId) -> Vec<SocketAddr> {
        self.targets.iter().filter_map(|(key, number)| inner.runtime.port(cluster, key, *number)).collect()
    }
}

/// The Service that has this address.
pub(crate) fn named(inner: &Arc<Inner>, cluster: &ClusterId, address: &str) -> Option<(String, String)> {
    let access = inner.host.access(cluster, "kube-proxy")?;
    let key = access.service_at(address)?;
    key.split_once('/').map(|(ns, name)| (ns.to_owned(), name.to_owned()))
}

/// What the endpoint controller knows of a Service.
fn slices(access: &Access, ns: &str, service: &str) -> Vec<Arc<Entry>> {
    let all = access.in_namespace(&tables::SLICES, ns).into_iter().map(|(_, e)| e);
    all.filter(|e| e.meta.label("kubernetes.io/service-name") == Some(service)).collect()
}

/// Ready pods that slices name.
fn in_slices(access: &Access, ns: &str, slices: &[Arc<Entry>]) -> Vec<Arc<Entry>> {
    let mut pods = Vec::new();
    for slice in slices.iter().filter_map(shared) {
        for e in slice["endpoints"].as_array().into_iter().flatten() {
            let ready = e["conditions"]["ready"].as_bool().unwrap_or(true);
            if let (true, Some("Pod"), Some(name)) =
                (ready, e["targetRef"]["kind"].as_str(), e["targetRef"]["name"].as_str())
            {
                pods.extend(access.entry(&tables::PODS, ns, name));
            }
        }
    }
    pods
}

/// Ready pods by the Service's own selector, for clusters without an endpoint controller.
fn from_selector(access: &Access, ns: &str, selector: &Value) -> Vec<Arc<Entry>> {
    let Some(selector) = selector.as_object().filter(|s| !s.is_empty()) else { return Vec::new() };
    let fits = |e: &Entry| selector.iter().all(|(k, v)| e.meta.label(k) == v.as_str());
    let all = access.in_namespace(&tables::PODS, ns).into_iter();
    let ready = |p: Arc<Value>| {
        let conditions = p["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
        ready && !labels(&p).is_empty()
    };
    let fitting = all.map(|(_, e)| e).filter(|e| fits(e) && !e.meta.deleting);
    fitting.filter(|e| shared(e).is_some_and(ready)).collect()
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
