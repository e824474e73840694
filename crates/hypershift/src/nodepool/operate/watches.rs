//! Which kinds are watched for pools, and which pools they wake. One watch over all namespaces for each.

use super::Pools;
use crate::inputs::Sort;
use crate::kinds;
use crate::nodepool::tuning::{self, Shared};
use crate::nodepool::watched::{self, Check, Machine, Template, Token, Workload};
use crate::operate::Operator;
use crate::operate::views_of_pools::Clusters;
use apis::names::{annotation, label};
use kube::Client;
use kube::core::{DynamicObject, Expression};
use reconcile::{Handle, Keys, Ledger, Options, Runtime, Sink, View, Watch, split};
use std::sync::Arc;

/// What the controller of NodePools reads without asking.
pub struct Views {
    pub pools: Arc<View<DynamicObject>>,
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

/// Pools of a cluster, by its key.
fn pools_of(pools: &View<DynamicObject>, cluster: &str, keys: &mut Keys) {
    let (namespace, name) = split(cluster);
    for p in pools.within(namespace) {
        if p.data["spec"]["clusterName"] == name {
            keys.itself(&p);
        }
    }
}

/// Wakes the pools of a cluster that changed.
pub(crate) fn of_cluster(views: &Views) -> impl Fn(&DynamicObject, &mut Keys) + Send + Sync + 'static {
    let pools = views.pools.clone();
    move |o, keys| {
        let m = &o.metadata;
        let (ns, n) = (m.namespace.as_deref().unwrap_or_default(), m.name.as_deref().unwrap_or_default());
        pools_of(&pools, &format!("{ns}/{n}"), keys);
    }
}

/// Wakes the pools that a Secret or ConfigMap concerns: their own configuration, what their cluster names, and whom nodes
/// are to trust.
pub(crate) fn of_input(
    operator: &Operator,
    sort: Sort,
) -> impl Fn(&DynamicObject, &mut Keys) + Send + Sync + 'static {
    let (pools, clusters) = (operator.views.np.pools.clone(), Clusters::of(&operator.views));
    move |o, keys| {
        let m = &o.metadata;
        let (ns, n) = (m.namespace.as_deref().unwrap_or_default(), m.name.as_deref().unwrap_or_default());
        if pools.is_empty() {
            return;
        }
        if sort == Sort::ConfigMap {
            let names = |p: &DynamicObject, field: &str| {
                p.data["spec"][field].as_array().is_some_and(|list| list.iter().any(|r| r["name"] == n))
            };
            for p in pools.within(ns).iter().filter(|p| names(p, "config") || names(p, "tuningConfig")) {
                keys.itself(p);
            }
        }
        for cluster in clusters.concerned(sort, ns, n) {
            pools_of(&pools, &cluster, keys);
        }
    }
}

/// Wakes the pool that a ConfigMap in its control plane's namespace is labelled with.
fn of_tuning(views: &Views) -> impl Fn(&DynamicObject, &mut Keys) + Send + Sync + 'static {
    let pools = views.pools.clone();
    move |o, keys| {
        let Some(name) = o.metadata.labels.as_ref().and_then(|l| l.get(label::NODE_POOL)) else { return };
        let plane = o.metadata.namespace.as_deref();
        for p in pools.all().iter().filter(|p| p.metadata.name.as_ref() == Some(name)) {
            let home = p.metadata.namespace.as_deref().unwrap_or_default();
            let cluster = p.data["spec"]["clusterName"].as_str().unwrap_or_default();
            if plane == Some(apis::naming::control_plane_namespace(home, cluster).as_str()) {
                keys.itself(p);
            }
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
