//! Guests: their nodes are watched for as long as they have machines here.
//!
//! One watch per guest, whatever the number of its machines; nodes are found by provider id. A guest that cannot be
//! reached is not asked again by every machine: one asks, the others wait for what it finds.

use super::views::{Views, cluster_of, name, provider_word};
use crate::around::{Reach, Unreachable};
use crate::health::NodeCondition;
use crate::kinds::{self, annotation};
use clock::SharedClock;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;
use kube::Client;
use kube::core::DynamicObject;
use parking_lot::{Mutex, RwLock};
use reconcile::{Handle, Metrics, News, Runtime, Sink, Source, View, Watch, split};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio_util::sync::{CancellationToken, DropGuard};

/// What is kept of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFact {
    pub name: String,
    pub uid: String,
    pub provider_id: String,
    pub conditions: Vec<NodeCondition>,
    pub unschedulable: bool,
    pub machine: Option<String>,
    /// `status.nodeInfo`.
    pub info: Value,
    pub volumes: usize,
}

impl NodeFact {
    fn read(o: &DynamicObject) -> NodeFact {
        let status = &o.data["status"];
        let conditions = status["conditions"].as_array().into_iter().flatten().map(|c| {
            let text = |k: &str| c[k].as_str().unwrap_or_default().to_owned();
            NodeCondition {
                kind: text("type"),
                status: text("status"),
                since: text("lastTransitionTime").parse().unwrap_or_default(),
            }
        });
        let marks = o.metadata.annotations.as_ref();
        NodeFact {
            name: o.metadata.name.clone().unwrap_or_default(),
            uid: o.metadata.uid.clone().unwrap_or_default(),
            provider_id: o.data["spec"]["providerID"].as_str().unwrap_or_default().to_owned(),
            conditions: conditions.collect(),
            unschedulable: o.data["spec"]["unschedulable"] == true,
            machine: marks.and_then(|a| a.get(annotation::NODE_MACHINE)).cloned(),
            info: status["nodeInfo"].clone(),
            volumes: status["volumesAttached"].as_array().map_or(0, Vec::len),
        }
    }

    pub fn ready(&self) -> Option<&NodeCondition> {
        self.conditions.iter().find(|c| c.kind == "Ready")
    }

    /// Whether nobody has heard of its kubelet for a while.
    pub fn unreachable(&self) -> bool {
        self.ready().is_some_and(|c| c.status == "Unknown")
    }
}

/// A guest's nodes.
#[derive(Default)]
pub struct Nodes {
    by_name: RwLock<HashMap<String, Arc<NodeFact>>>,
    names: RwLock<HashMap<String, String>>,
    listing: Mutex<Option<Vec<String>>>,
    complete: AtomicBool,
}

impl Nodes {
    /// Whether all there are were listed once: before, absence proves nothing.
    pub fn complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    pub fn by_provider(&self, id: &str) -> Option<Arc<NodeFact>> {
        let name = self.names.read().get(&id.to_lowercase()).cloned()?;
        self.by_name.read().get(&name).cloned()
    }

    pub fn by_name(&self, name: &str) -> Option<Arc<NodeFact>> {
        self.by_name.read().get(name).cloned()
    }

    fn put(&self, o: &DynamicObject) {
        let fact = Arc::new(NodeFact::read(o));
        if let Some(list) = self.listing.lock().as_mut() {
            list.push(fact.name.clone());
        }
        if !fact.provider_id.is_empty() {
            self.names.write().insert(fact.provider_id.to_lowercase(), fact.name.clone());
        }
        self.by_name.write().insert(fact.name.clone(), fact);
    }

    fn drop(&self, name: &str) {
        if let Some(old) = self.by_name.write().remove(name) {
            self.names.write().remove(&old.provider_id.to_lowercase());
        }
    }
}

impl Sink for Nodes {
    fn hear(&self, _: &Source, news: News<'_>) {
        match news {
            News::Begin => *self.listing.lock() = Some(Vec::new()),
            News::Listed(o) | News::Changed(o) => self.put(o),
            News::Gone(o) => self.drop(o.metadata.name.as_deref().unwrap_or_default()),
            News::Complete => {
                let there = self.listing.lock().take().unwrap_or_default();
                let all: Vec<String> = self.by_name.read().keys().cloned().collect();
                for gone in all.iter().filter(|n| !there.contains(n)) {
                    self.drop(gone);
                }
                self.complete.store(true, Ordering::Release);
            }
        }
    }
}

/// Wakes one key whenever anything is heard.
struct Pokes(Handle, String);

impl Sink for Pokes {
    fn hear(&self, _: &Source, news: News<'_>) {
        if !matches!(news, News::Begin | News::Listed(_)) {
            self.0.poke(&self.1);
        }
    }
}

/// Wakes all machines of a cluster when its nodes were listed: until then, they know nothing.
struct Arrived {
    machines: Handle,
    views: Arc<Views>,
    at: Key,
}

impl Sink for Arrived {
    fn hear(&self, _: &Source, news: News<'_>) {
        if !matches!(news, News::Complete) {
            return;
        }
        for m in self.views.machines.within(&self.at.0).iter().filter(|m| cluster_of(m) == self.at.1) {
            self.machines.poke(&format!("{}/{}", self.at.0, name(m)));
        }
    }
}

/// A watch beside the main ones; it ends with this.
struct Aside(#[allow(dead_code, reason = "ends the watch when it is dropped")] DropGuard);

impl Aside {
    fn start(watch: Watch, clock: SharedClock, metrics: &Metrics) -> Aside {
        let stop = CancellationToken::new();
        let mut runtime = Runtime::new(clock, metrics);
        runtime.watch(watch);
        tokio::spawn(runtime.run(stop.clone()));
        Aside(stop.drop_guard())
    }
}

/// Pods of a node that is drained.
pub struct Pods {
    pub view: Arc<View<core::Pod>>,
    machine: String,
    complete: Arc<AtomicBool>,
    _watch: Aside,
}

impl Pods {
    pub fn complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }
}

struct Listed(Arc<AtomicBool>);

impl Sink for Listed {
    fn hear(&self, _: &Source, news: News<'_>) {
        if matches!(news, News::Complete) {
            self.0.store(true, Ordering::Release);
        }
    }
}

/// A guest that can be asked.
pub struct Guest {
    pub client: Client,
    pub nodes: Arc<Nodes>,
    drains: Mutex<HashMap<String, Arc<Pods>>>,
    _watch: Aside,
}

type Key = (String, String);

enum Entry {
    There(Arc<Guest>),
    Away(Unreachable, Timestamp),
}

/// Whom a change of a node wakes.
pub struct Wakes {
    pub machines: Handle,
    pub checks: Handle,
}

/// All guests.
pub struct Guests {
    reach: Arc<dyn Reach>,
    clock: SharedClock,
    metrics: Metrics,
    views: Arc<Views>,
    pub wakes: OnceLock<Wakes>,
    known: Mutex<HashMap<Key, Arc<tokio::sync::Mutex<Option<Entry>>>>>,
}

/// A guest that was away is asked again after this long.
pub const AWAY: SignedDuration = SignedDuration::from_secs(10);

impl Guests {
    pub fn new(reach: Arc<dyn Reach>, clock: SharedClock, metrics: &Metrics, views: Arc<Views>) -> Guests {
        Guests {
            reach,
            clock,
            metrics: metrics.clone(),
            views,
            wakes: OnceLock::new(),
            known: Mutex::default(),
        }
    }

    pub async fn get(&self, namespace: &str, cluster: &str) -> Result<Arc<Guest>, Unreachable> {
        let slot = self.known.lock().entry((namespace.to_owned(), cluster.to_owned())).or_default().clone();
        let mut slot = slot.lock().await;
        match &*slot {
            Some(Entry::There(guest)) => return Ok(guest.clone()),
            Some(Entry::Away(why, until)) if self.clock.now() < *until => return Err(why.clone()),
            _ => {}
        }
        match self.reach.guest(namespace, cluster).await {
            Ok(client) => {
                let guest = Arc::new(self.follow(namespace, cluster, client));
                *slot = Some(Entry::There(guest.clone()));
                Ok(guest)
            }
            Err(why) => {
                *slot = Some(Entry::Away(why.clone(), crate::text::after(self.clock.now(), AWAY)));
                Err(why)
            }
        }
    }

    /// What is known without asking anybody.
    pub fn known(&self, namespace: &str, cluster: &str) -> Option<Arc<Guest>> {
        let slot = self.known.lock().get(&(namespace.to_owned(), cluster.to_owned())).cloned()?;
        let slot = slot.try_lock().ok()?;
        match &*slot {
            Some(Entry::There(g)) => Some(g.clone()),
            _ => None,
        }
    }

    /// Its kubeconfig changed, or it is gone.
    pub fn forget(&self, namespace: &str, cluster: &str) {
        self.known.lock().remove(&(namespace.to_owned(), cluster.to_owned()));
    }

    fn follow(&self, namespace: &str, cluster: &str, client: Client) -> Guest {
        let nodes = Arc::new(Nodes::default());
        let mut watch = Watch::whole(&client, &kinds::NODE).into_sink(nodes.clone());
        if let Some(wakes) = self.wakes.get() {
            let machines = {
                let (views, namespace) = (self.views.clone(), namespace.to_owned());
                move |o: &DynamicObject| -> Vec<(String, String)> {
                    let id = o.data["spec"]["providerID"].as_str().unwrap_or_default();
                    let mut all = views.machines_by.get(&provider_word(id));
                    all.retain(|(ns, _)| *ns == namespace);
                    all
                }
            };
            watch = watch.wakes(Arc::new(Arrived {
                machines: wakes.machines.clone(),
                views: self.views.clone(),
                at: (namespace.to_owned(), cluster.to_owned()),
            }));
            let (of, views) = (machines.clone(), self.views.clone());
            watch = watch.wakes(wakes.machines.keys(move |o, keys| {
                of(o).iter().for_each(|(ns, name)| keys.object(ns, name));
            }));
            watch = watch.wakes(wakes.checks.keys(move |o, keys| {
                for (ns, name) in machines(o) {
                    let Some(machine) = views.machines.get(&ns, &name) else { continue };
                    views.checks_of(&machine).iter().for_each(|check| keys.object(&ns, check));
                }
            }));
        }
        let watch = Aside::start(watch, self.clock.clone(), &self.metrics);
        Guest { client, nodes, drains: Mutex::default(), _watch: watch }
    }

    /// The pods of a node, followed until the machine is done with.
    pub fn pods(&self, guest: &Guest, node: &str, machine: &str) -> Arc<Pods> {
        let mut drains = guest.drains.lock();
        if let Some(pods) = drains.get(node) {
            return pods.clone();
        }
        let view = View::new(|o| {
            serde_json::from_value::<core::Pod>(
                json!({"metadata": o.metadata, "spec": o.data["spec"], "status": o.data["status"]}),
            )
            .ok()
        });
        let complete = Arc::new(AtomicBool::new(false));
        let mut watch = Watch::whole(&guest.client, &kinds::POD)
            .fields(format!("spec.nodeName={node}"))
            .into_sink(view.clone())
            .into_sink(Arc::new(Listed(complete.clone())));
        if let Some(wakes) = self.wakes.get() {
            watch = watch.wakes(Arc::new(Pokes(wakes.machines.clone(), machine.to_owned())));
        }
        let watch = Aside::start(watch, self.clock.clone(), &self.metrics);
        let pods = Arc::new(Pods { view, machine: machine.to_owned(), complete, _watch: watch });
        drains.insert(node.to_owned(), pods.clone());
        pods
    }

    /// A machine's drain is over, or was cut short: nobody looks at its pods any more.
    pub fn drained(&self, machine: &str) {
        let (namespace, _) = split(machine);
        let slots: Vec<_> = {
            let known = self.known.lock();
            known.iter().filter(|((ns, _), _)| ns == namespace).map(|(_, slot)| slot.clone()).collect()
        };
        for slot in slots {
            if let Ok(slot) = slot.try_lock()
                && let Some(Entry::There(guest)) = &*slot
            {
                guest.drains.lock().retain(|_, pods| pods.machine != machine);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::{BoxFuture, pending};
    use kube::client::Body;

    struct Nowhere;

    impl Reach for Nowhere {
        fn guest<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Client, Unreachable>> {
            let never = |_: http::Request<Body>| pending::<Result<http::Response<Body>, tower::BoxError>>();
            Box::pin(async move { Ok(Client::new(tower::service_fn(never), "default")) })
        }
    }

    #[tokio::test]
    async fn pods_are_followed_no_longer_than_somebody_drains() {
        let guests = Guests::new(Arc::new(Nowhere), clock::system(), &Metrics::default(), Arc::default());
        let guest = guests.get("ns", "c").await.unwrap();
        guests.pods(&guest, "n", "ns/m");
        guests.pods(&guest, "o", "ns/other");
        guests.drained("ns/m");
        let left: Vec<String> = guest.drains.lock().keys().cloned().collect();
        assert_eq!(left, ["o"]);
    }
}
