//! Nodes as their Machines want them: labels and taints, drains, and upgrades in place.
//!
//! ```text
//! management: Machine (labels, taints, nodeRef) ──> [`sync`] ──> Node          continuously, both ways: what was removed goes
//!             MachineSet (target version), token Secret (payload) ──> [`inplace`] ──> namespace, ConfigMap, pods, annotations
//!                                                     [`drain`] <──── Node (desiredDrain)
//! ```
//!
//! Nodes are followed by the watch that also tells whether they are ready; beside it there are two more, of Machines and
//! MachineSets. Where Cluster API is not served there is nothing to do.

pub mod drain;
pub mod facts;
pub mod inplace;
pub mod sync;

use crate::operate::MANAGER;
use apis::names::annotation as name;
use clock::SharedClock;
use facts::{MachineFact, NodeFact, SetFact};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use reconcile::{
    Backoff, Controller, Failure, Handle, Keys, Kind, Options, Outcome, Runtime, Sink, View, Watch, split,
};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

pub const MACHINE: Kind = Kind::new("cluster.x-k8s.io", "v1beta1", "Machine", "machines");
pub const MACHINE_SET: Kind = Kind::new("cluster.x-k8s.io", "v1beta1", "MachineSet", "machinesets");
/// Keys: `node/NAME`, `set/NAME`.
const NODE: &str = "node";
const SET: &str = "set";

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {what}")]
    Request { what: String, source: Box<kube::Error> },
    #[error("the payload of {0} cannot be read: {1}")]
    Payload(String, String),
}

pub(crate) fn asking(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
    let what = what.into();
    move |e| Error::Request { what, source: Box::new(e) }
}

pub(crate) struct Keeper {
    pub(crate) management: Client,
    pub(crate) guest: Client,
    pub(crate) namespace: String,
    pub(crate) clock: SharedClock,
    pub(crate) machines: Arc<View<MachineFact>>,
    pub(crate) sets: Arc<View<SetFact>>,
    pub(crate) nodes: Arc<View<NodeFact>>,
}

/// What the watches of others are to feed.
pub(crate) struct Feeds {
    /// For Nodes of the guest.
    pub nodes: Arc<dyn Sink>,
    pub on_nodes: Arc<dyn Sink>,
    /// For Secrets of the control plane's namespace.
    pub on_secrets: Arc<dyn Sink>,
}

/// Sets it up in a runtime.
pub(crate) fn set_up(
    runtime: &mut Runtime,
    management: &Client,
    guest: &Client,
    namespace: &str,
    clock: &SharedClock,
) -> Feeds {
    let (machines, sets, nodes) =
        (View::new(MachineFact::read), View::new(SetFact::read), View::new(NodeFact::read));
    let keeper = Arc::new(Keeper {
        management: management.clone(),
        guest: guest.clone(),
        namespace: namespace.to_owned(),
        clock: clock.clone(),
        machines: machines.clone(),
        sets: sets.clone(),
        nodes: nodes.clone(),
    });
    let backoff = Backoff { first: Duration::from_millis(250), last: Duration::from_secs(30) };
    let handle = runtime.controller(keeper, Options { workers: 4, backoff, ..Options::default() });
    let watch = Watch::whole(management, &MACHINE).namespace(namespace).optional();
    let of_machine = |o: &DynamicObject, keys: &mut Keys| {
        if let Some(node) = o.data["status"]["nodeRef"]["name"].as_str() {
            keys.object(NODE, node);
        }
        for owner in o.metadata.owner_references.iter().flatten().filter(|r| r.kind == "MachineSet") {
            keys.object(SET, &owner.name);
        }
    };
    runtime.watch(watch.into_sink(machines.clone()).wakes(handle.keys(of_machine)));
    let watch = Watch::whole(management, &MACHINE_SET).namespace(namespace).optional();
    let of_set = |o: &DynamicObject, keys: &mut Keys| {
        keys.object(SET, o.metadata.name.as_deref().unwrap_or_default());
    };
    runtime.watch(watch.into_sink(sets.clone()).wakes(handle.keys(of_set)));
    feeds(&handle, machines, sets, nodes)
}

fn feeds(
    handle: &Handle,
    machines: Arc<View<MachineFact>>,
    sets: Arc<View<SetFact>>,
    nodes: Arc<View<NodeFact>>,
) -> Feeds {
    let on_nodes = handle.keys(move |o, keys| {
        let name = o.metadata.name.as_deref().unwrap_or_default();
        keys.object(NODE, name);
        // Most nodes are never upgraded in place; those that are have sets.
        let of = machines.all().into_iter().find(|m| m.node.as_deref() == Some(name));
        if let Some(set) = of.and_then(|m| m.set.clone()) {
            keys.object(SET, &set);
        }
    });
    let on_secrets = handle.keys(move |o, keys| {
        if o.metadata.name.as_deref().is_some_and(|n| n.starts_with("token-")) {
            for set in sets.all().iter().filter(|s| s.upgrading()) {
                keys.object(SET, &set.name);
            }
        }
    });
    Feeds { nodes, on_nodes, on_secrets }
}

impl Controller for Keeper {
    fn name(&self) -> &'static str {
        "guest-nodes"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(async move {
            match split(key) {
                (NODE, node) => self.node(node).await,
                (SET, set) => inplace::run(self, set).await,
                _ => Ok(Outcome::Done),
            }
        })
    }
}

impl Keeper {
    async fn node(&self, node: &str) -> Result<Outcome, Failure> {
        let Some(fact) = self.nodes.get("", node) else { return Ok(Outcome::Done) };
        let machine = self.machines.all().into_iter().find(|m| m.node.as_deref() == Some(node));
        if let Some(machine) = machine
            && let Some(patch) = sync::plan(&machine, &fact)
        {
            if !self.patch_node(node, &patch).await? {
                // Somebody wrote to it in between.
                return Ok(Outcome::After(SignedDuration::from_millis(250)));
            }
            // What we wrote comes back by the watch, and then the drain is looked at.
            return Ok(Outcome::Done);
        }
        drain::run(self, &fact).await
    }

    /// False: it is no longer as it was seen.
    pub(crate) async fn patch_node(&self, node: &str, patch: &Value) -> Result<bool, Error> {
        let nodes: Api<Node> = Api::all(self.guest.clone());
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        match nodes.patch(node, &params, &Patch::Merge(patch)).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(s)) if s.code == 409 => Ok(false),
            Err(kube::Error::Api(s)) if s.code == 404 => Ok(true),
            Err(e) => Err(asking(format!("change node {node}"))(e)),
        }
    }
}

/// The pool that an annotation `<namespace>/<name>` names.
pub(crate) fn pool_of(o: &DynamicObject) -> Option<String> {
    let of = o.metadata.annotations.as_ref()?.get(name::NODE_POOL)?;
    of.rsplit('/').next().filter(|n| !n.is_empty()).map(str::to_owned)
}
