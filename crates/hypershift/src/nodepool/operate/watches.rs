//! Which kinds are watched for pools, and which pools they wake. One watch over all namespaces for each.

use super::Pools;
use crate::inputs::Sort;
use crate::kinds;
use crate::nodepool::tuning::{self, Shared};
use crate::nodepool::watched::{self, Check, Machine, Template, Token, Workload};
use crate::operate::Operator;
use crate::operate::views_of_pools::Clusters;
use apis::names::{annotation, label};
use apis::naming::control_plane_namespace;
use kube::Client;
use kube::core::{DynamicObject, Expression};
use reconcile::{Handle, Index, Keys, Ledger, Options, Place, Runtime, Sink, View, Watch, split};
use std::sync::Arc;

/// What the controller of NodePools reads without asking.
pub struct Views {
    pub pools: Arc<View<DynamicObject>>,
    /// By their cluster, its control plane's namespace, and the ConfigMaps that they name.
    pub pools_by: Arc<Index>,
    pub tokens: Arc<View<Token>>,
    pub machines: Arc<View<Machine>>,
    pub deployments: Arc<View<Workload>>,
    pub sets: Arc<View<Workload>>,
    pub checks: Arc<View<Check>>,
    pub templates: Arc<View<Template>>,
    /// ConfigMaps that pools and the node tuning operator share.
    pub tunings: Arc<View<Shared>>,
}

impl Default for Views {
    fn default() -> Views {
        Views {
            pools: View::whole(),
            pools_by: Index::new(words),
            tokens: View::new(watched::token),
            machines: View::new(watched::machine),
            deployments: View::new(watched::workload),
            sets: View::new(watched::workload),
            checks: View::new(watched::check),
            templates: View::new(watched::template),
            tunings: View::new(tuning::read),
        }
    }
}

/// What a pool is found by.
fn words(pool: &DynamicObject) -> Vec<String> {
    let home = pool.metadata.namespace.as_deref().unwrap_or_default();
    let spec = &pool.data["spec"];
    let cluster = spec["clusterName"].as_str().unwrap_or_default();
    let mut words = vec![by_cluster(home, cluster), by_plane(&control_plane_namespace(home, cluster))];
    let named = ["config", "tuningConfig"].into_iter().filter_map(|field| spec[field].as_array()).flatten();
    words.extend(named.filter_map(|r| r["name"].as_str()).map(|name| by_config(home, name)));
    words
}

fn by_cluster(namespace: &str, cluster: &str) -> String {
    format!("cluster/{namespace}/{cluster}")
}

fn by_plane(namespace: &str) -> String {
    format!("plane/{namespace}")
}

fn by_config(namespace: &str, name: &str) -> String {
    format!("config/{namespace}/{name}")
}

impl Views {
    /// Where the pools of a cluster are.
    pub(crate) fn of_cluster(&self, namespace: &str, cluster: &str) -> Vec<Place> {
        self.pools_by.get(&by_cluster(namespace, cluster))
    }
}

fn wake(pools: &Index, word: &str, keys: &mut Keys) {
    pools.get(word).iter().for_each(|(namespace, name)| keys.object(namespace, name));
}

/// Wakes the pools of a cluster that changed.
pub(crate) fn of_cluster(views: &Views) -> impl Fn(&DynamicObject, &mut Keys) + Send + Sync + 'static {
    let pools = views.pools_by.clone();
    move |o, keys| {
        let (namespace, name) = reconcile::place(o);
        wake(&pools, &by_cluster(&namespace, &name), keys);
    }
}

/// Wakes the pools that a Secret or ConfigMap concerns: their own configuration, what their cluster names, and whom nodes
/// are to trust.
pub(crate) fn of_input(
    operator: &Operator,
    sort: Sort,
) -> impl Fn(&DynamicObject, &mut Keys) + Send + Sync + 'static {
    let views = &operator.views.np;
    let (pools, pools_by, clusters) =
        (views.pools.clone(), views.pools_by.clone(), Clusters::of(&operator.views));
    move |o, keys| {
        if pools.is_empty() {
            return;
        }
        let (namespace, name) = reconcile::place(o);
        if sort == Sort::ConfigMap {
            wake(&pools_by, &by_config(&namespace, &name), keys);
        }
        for cluster in clusters.concerned(sort, &namespace, &name) {
            let (namespace, name) = split(&cluster);
            wake(&pools_by, &by_cluster(namespace, name), keys);
        }
    }
}

/// Wakes the pool that a ConfigMap in its control plane's namespace is labelled with.
fn of_tuning(views: &Views) -> impl Fn(&DynamicObject, &mut Keys) + Send + Sync + 'static {
    let pools = views.pools_by.clone();
    move |o, keys| {
        let Some(named) = o.metadata.labels.as_ref().and_then(|l| l.get(label::NODE_POOL)) else { return };
        let plane = o.metadata.namespace.as_deref().unwrap_or_default();
        for (namespace, name) in pools.get(&by_plane(plane)).iter().filter(|(_, name)| name == named) {
            keys.object(namespace, name);
        }
    }
}

/// Sets the controller up beside that of clusters, with everything that only pools are interested in.
pub(crate) fn attach(
    runtime: &mut Runtime,
    client: &Client,
    operator: &Arc<Operator>,
    ledger: &Arc<Ledger>,
    options: Options,
) -> Handle {
    let views = &operator.views.np;
    let handle = runtime.controller(Pools::new(operator.clone()), options);
    let pool = |o: &DynamicObject, keys: &mut Keys| keys.annotated(o, annotation::NODE_POOL);
    let machines: [(_, Arc<dyn Sink>, bool); 5] = [
        (kinds::MACHINE, views.machines.clone(), false),
        (kinds::MACHINE_DEPLOYMENT, views.deployments.clone(), true),
        (kinds::MACHINE_SET, views.sets.clone(), true),
        (kinds::MACHINE_CHECK, views.checks.clone(), true),
        (kinds::AZURE_TEMPLATE, views.templates.clone(), true),
    ];
    for (kind, sink, written) in machines {
        let mut watch = Watch::whole(client, &kind).optional().into_sink(sink);
        if written {
            watch = watch.into_sink(ledger.clone());
        }
        runtime.watch(watch.wakes(handle.keys(pool)));
    }
    let ours = Expression::Exists(label::NODE_POOL_NAME.to_owned());
    let tokens = Watch::whole(client, &kinds::SECRET).labels(ours).into_sink(views.tokens.clone());
    runtime.watch(tokens.wakes(handle.keys(pool)));
    let ours = Expression::Exists(label::NODE_POOL.to_owned());
    let tunings = Watch::whole(client, &kinds::CONFIG_MAP).labels(ours).into_sink(views.tunings.clone());
    runtime.watch(tunings.wakes(handle.keys(of_tuning(views))));
    handle
}
