//! What makes clusters live: controllers and nodes, composed for the clusters of a host.

use crate::cli::Controllers;
use anyhow::Context;
use ek_controllers::Options;
use ek_engine::{Controller, Delta, Engine, Keys, Outcome, deferring};
use ek_meta::Status;
use ek_node::{NodeSpec, Nodes};
use ek_server::{Access, Host};
use futures::future::BoxFuture;
use std::path::Path;
use std::sync::Arc;

/// Controllers that belong to the API itself: without them, deletions do not end and namespaces are bare.
const SYSTEM: [&str; 7] = [
    "garbage-collector",
    "namespace-furniture",
    "nodelifecycle",
    "persistentvolume",
    "resourcequota",
    "certificates",
    "event-ttl",
];

/// What is to live.
pub struct Wanted {
    pub controllers: Controllers,
    /// In each cluster.
    pub nodes: usize,
}

pub struct Living {
    pub nodes: Nodes,
    task: tokio::task::JoinHandle<()>,
}

impl Living {
    /// Starts controllers and nodes for all clusters there are and will be.
    pub async fn start(host: &Host, wanted: Wanted, options: ek_node::Options) -> anyhow::Result<Living> {
        let nodes = Nodes::new(host, options);
        let mut all = nodes.controllers();
        all.push(Arc::new(Furnish { nodes: nodes.clone(), count: wanted.nodes }));
        all.extend(controllers(wanted.controllers, wanted.nodes));
        let engine = Engine::new(host, all);
        nodes.attach(&engine);
        let living = Living { task: tokio::spawn(engine.run()), nodes };
        // Those that are there are furnished before anybody is told that they are.
        for cluster in host.names() {
            living.add_nodes(&cluster, wanted.nodes).await?;
        }
        Ok(living)
    }

    pub async fn add_nodes(&self, cluster: &str, count: usize) -> anyhow::Result<()> {
        let added = add_nodes(&self.nodes, cluster, count).await;
        added.with_context(|| format!("cannot add {count} nodes to cluster {cluster}"))
    }

    /// Waits for what runs; it ends with the host.
    pub async fn end(self) {
        let _ = self.task.await;
    }
}

async fn add_nodes(nodes: &Nodes, cluster: &str, count: usize) -> Result<(), ek_node::Error> {
    for n in 1..=count {
        nodes.add_node(cluster, &format!("node-{n}"), NodeSpec::default()).await?;
    }
    Ok(())
}

/// Gives nodes to clusters that are made while we run. Every cluster begins with its system namespace, so that is
/// what stands for it; a node that somebody deletes later stays deleted.
struct Furnish {
    nodes: Nodes,
    count: usize,
}

impl Controller for Furnish {
    fn name(&self) -> &'static str {
        "node-furniture"
    }

    fn watches(&self) -> &'static [&'static str] {
        &["/namespaces"]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        if self.count > 0 && delta.previous.is_none() && &*delta.key == "kube-system" {
            keys.push("");
        }
    }

    fn reconcile<'a>(&'a self, access: &'a Access, _: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            let added = add_nodes(&self.nodes, access.id().as_str(), self.count).await;
            added.map(|()| Outcome::Done).map_err(|e| Status::internal(e.to_string()))
        })
    }
}

fn controllers(which: Controllers, nodes: usize) -> Vec<Arc<dyn Controller>> {
    let which = match which {
        // Without nodes nothing could run, and somebody else's controllers may be on their way.
        Controllers::Auto if nodes == 0 => Controllers::System,
        Controllers::Auto => Controllers::All,
        chosen => chosen,
    };
    if which == Controllers::None {
        return Vec::new();
    }
    let (system, rest): (Vec<_>, Vec<_>) =
        ek_controllers::all(Options::default()).into_iter().partition(|c| SYSTEM.contains(&c.name()));
    let (schedulers, workloads): (Vec<_>, Vec<_>) = rest.into_iter().partition(|c| c.name() == "scheduler");
    // Events expire by the API server's doing; everything else is a kube-controller-manager's, if there is one.
    let (mut chosen, system): (Vec<_>, Vec<_>) = system.into_iter().partition(|c| c.name() == "event-ttl");
    chosen.extend(deferring("kube-controller-manager", system));
    if which == Controllers::All {
        chosen.extend(deferring("kube-controller-manager", workloads));
        chosen.extend(deferring("kube-scheduler", schedulers));
    }
    chosen
}

/// Node options with their data below `dir`.
pub fn node_options(dir: &Path) -> ek_node::Options {
    ek_node::Options::new(dir.join("nodes"))
}
