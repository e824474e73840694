//! Nodes for embedded clusters, and what runs on them.
//!
//! A node is a Node object, a lease that is renewed and a range of addresses. Its pods live in one of two ways:
//!
//! * **simulated**: a pod walks through [`stage`]s, which are data: in which state, for which pods, after how long,
//!   what happens. Failures are asked for by annotation. Such a pod says so: `zaffre.io/simulated: "true"`.
//! * **really**: a container whose image is registered in [`Programs`] is a future of this process, with its arguments,
//!   environment, files, log, probes and loopback ports ([`program`]).
//!
//! Both are one state machine (`pod::plan`), a pure function from (pod, what really runs, time) to (status, events,
//! what to start and stop). [`ExternalNode`] drives the same function through the API alone, for machines that come
//! from elsewhere.
//!
//! ```text
//! feed ─> engine ─> kubelet(key) ─> plan ─> one status write, events, start/stop
//!                      ▲                              │
//!                      └── poke: a program ended, a probe changed its mind ── run (tasks of real programs only)
//! ```
//!
//! There is no task per node or per simulated pod, and no loop that looks whether something has changed. This crate
//! may touch its data directory and the loopback interface.
//!
//! ```no_run
//! # async fn example(host: ek_server::Host) -> Result<(), Box<dyn std::error::Error>> {
//! use ek_node::{NodeSpec, Nodes, Options};
//! let nodes = Nodes::new(&host, Options::new("/var/lib/zaffre/nodes"));
//! let engine = ek_engine::Engine::new(&host, nodes.controllers());
//! nodes.attach(&engine);
//! nodes.add_node("main", "node-1", NodeSpec::default()).await?;
//! tokio::spawn(engine.run());
//! # Ok(()) }
//! ```
//!
//! Rejected: a task per pod (ten thousand pods are ten thousand timers and stacks), and a kubelet API on a socket per
//! node (nobody but our own API server would call it).

mod events;
mod external;
mod heartbeat;
mod kubelet;
mod node;
mod pod;
pub mod program;
mod programs;
mod run;
mod services;
pub mod stage;
mod state;
mod streams;

pub use events::Events;
pub use external::{ExternalNode, ExternalOptions, Identity, JoinError, ServingRequest};
pub use node::{EMBEDDED, NodeSpec};
pub use program::{ExecOutput, FnProgram, Program, ProgramContext, Programs};
pub use run::files::{Payload, write as write_files};
pub use run::volumes::{ACCOUNT, CsiDriver, CsiDrivers, CsiRequest};
pub use stage::{Delay, Select, Stage, StageSet};

use ek_engine::{ClusterId, Controller, Engine};
use ek_meta::{Status, object};
use ek_server::{Access, Deletion, Host};
use jiff::SignedDuration;
use parking_lot::RwLock;
use run::Runtime;
use serde_json::{Value, json};
use state::{ClusterState, Times, pods_on};
pub(crate) use state::{Inner, NodeState};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tables this crate reads and writes.
pub(crate) mod tables {
    use ek_server::registry::table_name;
    use ek_store::TableName;
    use std::sync::LazyLock;
    macro_rules! tables {
        ($($name:ident = $group:literal, $plural:literal;)*) => {
            $(pub static $name: LazyLock<TableName> = LazyLock::new(|| table_name($group, $plural));)*
        };
    }
    tables! {
        PODS = "", "pods";
        NODES = "", "nodes";
        EVENTS = "", "events";
        SECRETS = "", "secrets";
        CONFIG_MAPS = "", "configmaps";
        SERVICES = "", "services";
        CLAIMS = "", "persistentvolumeclaims";
        SLICES = "discovery.k8s.io", "endpointslices";
        LEASES = "coordination.k8s.io", "leases";
    }
}

/// What nodes are made with.
pub struct Options {
    /// Volumes and claims are directories below it.
    pub data_dir: PathBuf,
    /// Delays are drawn from it.
    pub seed: u64,
    pub stages: StageSet,
    pub programs: Programs,
    pub csi: CsiDrivers,
    /// Between two renewals of a node's lease.
    pub heartbeat: SignedDuration,
    pub events: Events,
}

impl Options {
    pub fn new(data_dir: impl Into<PathBuf>) -> Options {
        Options {
            data_dir: data_dir.into(),
            seed: 0,
            stages: StageSet::realistic(),
            programs: Programs::builtin(),
            csi: CsiDrivers::new(),
            heartbeat: SignedDuration::from_secs(10),
            events: Events::All,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no cluster {0:?}")]
    NoCluster(String),
    #[error("there is no node {0:?} of ours in that cluster")]
    NoNode(String),
    #[error("cannot {action} {what}")]
    Api { action: &'static str, what: String, source: Status },
}

/// All nodes of a host; cheap to clone.
#[derive(Clone)]
pub struct Nodes(pub(crate) Arc<Inner>);

impl Nodes {
    pub fn new(host: &Host, options: Options) -> Nodes {
        let runtime = Runtime::new(options.data_dir.clone(), host.clock().clone());
        Nodes(Arc::new(Inner {
            host: host.clone(),
            options,
            runtime,
            turn: AtomicUsize::new(0),
            adding: tokio::sync::Mutex::new(()),
            clusters: RwLock::new(HashMap::<_, ClusterState>::new()),
        }))
    }

    /// For the engine.
    pub fn controllers(&self) -> Vec<Arc<dyn Controller>> {
        let me = Arc::downgrade(&self.0);
        vec![Arc::new(heartbeat::Heartbeat(me.clone())), Arc::new(kubelet::Kubelet(me))]
    }

    /// Programs that end and probes that change their mind ask this engine for a run; Services and the streams of
    /// `kubectl logs`, `exec` and `port-forward` are answered from here on. The host keeps the nodes until it stops.
    pub fn attach(&self, engine: &Engine) {
        self.0.runtime.attach(engine);
        let living = self.0.living();
        self.0.runtime.sweep(|uid| living.contains(uid));
        self.0.host.set_services(self.clone());
        self.0.host.set_pods(self.clone());
    }

    fn access(&self, cluster: &str) -> Result<Access, Error> {
        let id = ClusterId::new(cluster);
        self.0.host.access(&id, kubelet::NAME).ok_or_else(|| Error::NoCluster(cluster.to_owned()))
    }

    /// Adds a node, or takes over one of that name.
    pub async fn add_node(&self, cluster: &str, name: &str, spec: NodeSpec) -> Result<(), Error> {
        let access = self.access(cluster)?;
        let failed = |source| Error::Api { action: "register node", what: name.to_owned(), source };
        let _one = self.0.adding.lock().await;
        let object = match access.get(&tables::NODES, "", name) {
            Some(there) => there,
            None => {
                let number = self.0.free_number(&access);
                let object = spec.object(name, number, access.now(), &access.random().uuid());
                let status = object["status"].clone();
                let created = access.create(&tables::NODES, object).await.map_err(failed)?;
                // Creation may not keep a status; a node without one is of no use to a scheduler.
                let fill = |n: &mut Value| {
                    let missing = n["status"]["capacity"].is_null();
                    if missing {
                        n["status"] = status.clone();
                    }
                    missing
                };
                access.update(&tables::NODES, "", name, "status", fill).await.map_err(failed)?;
                created
            }
        };
        self.0.adopt(&access, &object);
        self.0.runtime.poke_node(access.id(), name);
        Ok(())
    }

    /// Removes a node and, at once, what ran on it.
    pub async fn remove_node(&self, cluster: &str, name: &str) -> Result<(), Error> {
        let access = self.access(cluster)?;
        let failed = |source| Error::Api { action: "remove node", what: name.to_owned(), source };
        self.0.drop_node(access.id(), name);
        access.delete(&tables::NODES, "", name, Deletion::default()).await.map_err(failed)?;
        access.delete(&tables::LEASES, "kube-node-lease", name, Deletion::default()).await.map_err(failed)?;
        for (key, uid) in pods_on(&access, name) {
            let (ns, pod) = ek_engine::split(&key);
            let how = Deletion { uid: Some(&uid), grace_seconds: Some(0), propagation: None };
            access.delete(&tables::PODS, ns, pod, how).await.map_err(failed)?;
        }
        Ok(())
    }

    /// The machine is gone without a word: no more heartbeats, its programs end, its pods stay as they were.
    pub fn lose_node(&self, cluster: &str, name: &str) -> Result<(), Error> {
        let id = ClusterId::new(cluster);
        let node = self.0.node(&id, name).ok_or_else(|| Error::NoNode(name.to_owned()))?;
        node.lost.store(true, Ordering::Relaxed);
        self.0.runtime.end_node(&id, Some(name));
        Ok(())
    }

    /// It is back, and goes on.
    pub fn restore_node(&self, cluster: &str, name: &str) -> Result<(), Error> {
        let access = self.access(cluster)?;
        let node = self.0.node(access.id(), name).ok_or_else(|| Error::NoNode(name.to_owned()))?;
        node.lost.store(false, Ordering::Relaxed);
        *node.times.lock() = Times::default();
        self.0.runtime.poke_node(access.id(), name);
        for (key, _) in pods_on(&access, name) {
            self.0.runtime.poke(access.id(), &key);
        }
        Ok(())
    }

    /// Asks all programs to stop, for a process that ends; what their pods say is left as it is, and the next process
    /// starts them again.
    pub fn stop(&self) {
        self.0.runtime.stop_all();
    }

    /// Names of our nodes in a cluster, sorted.
    pub fn names(&self, cluster: &str) -> Vec<String> {
        let clusters = self.0.clusters.read();
        let nodes = clusters.get(&ClusterId::new(cluster)).map(|c| c.nodes.keys().cloned());
        let mut names: Vec<String> = nodes.into_iter().flatten().collect();
        names.sort();
        names
    }

    /// Asks for a failure of a pod (see [`stage::FAIL`]); `None` takes it back.
    pub async fn fail(&self, cluster: &str, ns: &str, pod: &str, failure: Option<&str>) -> Result<(), Error> {
        let access = self.access(cluster)?;
        let set = |p: &mut Value| {
            let annotations = object::metadata_mut(p).entry("annotations").or_insert_with(|| json!({}));
            let before = annotations.clone();
            match (failure, annotations.as_object_mut()) {
                (Some(f), Some(a)) => _ = a.insert(stage::FAIL.into(), json!(f)),
                (None, Some(a)) => _ = a.remove(stage::FAIL),
                _ => {}
            }
            before != *annotations
        };
        let failed = |source| Error::Api { action: "change pod", what: format!("{ns}/{pod}"), source };
        access.update(&tables::PODS, ns, pod, "", set).await.map_err(failed)?;
        Ok(())
    }

    /// In manual mode: lets a pod make this many transitions.
    pub fn step(&self, cluster: &str, ns: &str, pod: &str, transitions: u32) -> Result<(), Error> {
        let access = self.access(cluster)?;
        let key = ek_store::object_key(ns, pod);
        let entry = access.entry(&tables::PODS, ns, pod);
        let missing = || Status::not_found("", "pods", pod);
        let entry =
            entry.ok_or_else(|| Error::Api { action: "step pod", what: key.clone(), source: missing() })?;
        let mut memory = self.0.memory(access.id(), &key, &entry.meta.uid);
        memory.steps = memory.steps.saturating_add(transitions);
        self.0.remember(access.id(), &key, &entry.meta.uid, memory);
        self.0.runtime.poke(access.id(), &key);
        Ok(())
    }

    /// Executes a command in a running program's container, as a probe would; `None` if it does not run.
    pub async fn exec(
        &self,
        cluster: &str,
        ns: &str,
        pod: &str,
        container: &str,
        words: Vec<String>,
    ) -> Option<ExecOutput> {
        let entry = self.access(cluster).ok()?.entry(&tables::PODS, ns, pod)?;
        let (program, ctx) = self.0.runtime.inside(&entry.meta.uid, container)?;
        Some(run::command::run(Some(&program), Some(&ctx), words, Vec::new()).await)
    }

    /// Where a port of a running program really is.
    pub fn resolve_pod(&self, cluster: &str, ns: &str, pod: &str, port: u16) -> Option<SocketAddr> {
        self.0.runtime.port(&ClusterId::new(cluster), &ek_store::object_key(ns, pod), port)
    }
}
