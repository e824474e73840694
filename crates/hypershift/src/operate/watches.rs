//! Which kinds are watched, and whom they wake.

use super::fetch::Fetch;
use super::views::{Views, concerned};
use super::{Operator, Shard, Uids};
use crate::around::Surroundings;
use crate::inputs::Sort;
use crate::kinds;
use crate::nodepool::operate as nodepool;
use crate::plan::copies::TRUSTED;
use apis::names::annotation;
use clock::{Random, SharedClock};
use control_plane::monitoring::OWN_SET;
use kube::Client;
use kube::core::{DynamicObject, Expression};
use reconcile::{Applier, Handle, Keys, Kind, Kinds, Ledger, Metrics, Options, Runtime, Sink, Watch};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Our name in managedFields.
pub const MANAGER: &str = "hypershift-operator";

/// The key of the cluster that an object says it belongs to.
fn owner(o: &DynamicObject, keys: &mut Keys) {
    keys.annotated(o, annotation::HOSTED_CLUSTER);
}

/// Sets the operator up in a runtime: its controller, and everything it watches. `served` are the kinds
/// (`group/Kind`) that the management cluster serves beyond the built-in ones.
pub fn start(
    runtime: &mut Runtime,
    client: &Client,
    served: BTreeSet<String>,
    clock: SharedClock,
    random: &Random,
    around: Arc<dyn Surroundings>,
    metrics: &Metrics,
) -> (Handle, Arc<Operator>) {
    let setup = Setup {
        served,
        clock,
        random,
        around,
        metrics,
        options: Options::default(),
        shard: Shard::Everything,
    };
    start_with(runtime, client, setup)
}

/// What an operator is set up with.
pub struct Setup<'a> {
    pub served: BTreeSet<String>,
    pub clock: SharedClock,
    pub random: &'a Random,
    pub around: Arc<dyn Surroundings>,
    pub metrics: &'a Metrics,
    pub options: Options,
    pub shard: Shard,
}

/// The same, with how often and how many at once.
pub fn start_with(runtime: &mut Runtime, client: &Client, setup: Setup<'_>) -> (Handle, Arc<Operator>) {
    let Setup { served, clock, random, around, metrics, options, shard } = setup;
    let known = Kinds::builtin().with(kinds::SERVED).with([kinds::CLUSTER, kinds::SIZING]);
    let ledger = Ledger::new(MANAGER, random);
    let applier = Applier::new(client.clone(), Arc::new(known), ledger.clone()).with_metrics(metrics);
    let views = Views::default();
    let sinks: Vec<(Kind, Option<Arc<dyn Sink>>)> = vec![
        (kinds::PLANE, Some(views.planes.clone())),
        (kinds::NAMESPACE, Some(views.spaces.clone())),
        (kinds::CAPI_CLUSTER, Some(views.capi.clone())),
        (kinds::AZURE_CLUSTER, Some(views.azure.clone())),
        (kinds::AZURE_IDENTITY, None),
        (kinds::PROVIDER_CLASS, None),
        (kinds::POD_MONITOR, None),
        (kinds::CLUSTER_ROLE, Some(views.roles.clone())),
        (kinds::CLUSTER_ROLE_BINDING, None),
    ];
    let operator = Arc::new(Operator {
        fetch: Fetch::new(client.clone()),
        views,
        applier,
        clock,
        random: random.clone(),
        around,
        served,
        uids: Uids::default(),
        releases: Default::default(),
        verdicts: Default::default(),
        groups: Default::default(),
        shard,
        grants: Default::default(),
        meanings: Default::default(),
        memos: Default::default(),
        metrics: metrics.clone(),
        pools: Default::default(),
        sizes: Default::default(),
        counted: Default::default(),
    });
    let views = &operator.views;
    let handle = runtime.controller(operator.clone(), options);
    let pooled = nodepool::attach(runtime, client, &operator, &ledger, options);
    let _ = operator.pools.set(pooled.clone());
    let itself = handle.keys(|o, keys| keys.itself(o));
    let clusters = Watch::whole(client, &kinds::CLUSTER).into_sink(views.clusters.clone());
    let of_pools = pooled.keys(nodepool::of_cluster(&views.np));
    let mut clusters = clusters.into_sink(views.clusters_by.clone()).wakes(itself).wakes(of_pools);
    let fronted = operator.around.shared_ingress().is_some();
    if fronted {
        operator.meanings.wake(&handle);
        clusters = clusters.into_sink(operator.meanings.fronts.clone());
    }
    runtime.watch(clusters);
    for (kind, sink) in sinks {
        let mut watch = Watch::whole(client, &kind).optional().into_sink(ledger.clone());
        if let Some(sink) = sink {
            watch = watch.into_sink(sink);
        }
        // The operator's own namespace matters to nobody but itself.
        let home = operator.around.home();
        let namespaces = kind == kinds::NAMESPACE;
        runtime.watch(watch.wakes(handle.keys(move |o, keys| {
            owner(o, keys);
            if namespaces && o.metadata.name.as_deref() == Some(home.as_str()) {
                keys.push(super::SUPPORTED);
            }
        })));
    }
    if operator.around.sizing() {
        let clusters = views.clusters.clone();
        let sizes =
            Watch::whole(client, &kinds::SIZING).into_sink(ledger.clone()).into_sink(views.sizing.clone());
        runtime.watch(sizes.wakes(handle.keys(move |_, keys| {
            keys.push(super::sizing::KEY);
            clusters.all().iter().for_each(|c| keys.itself(c));
        })));
        // Where there is none, no watch tells.
        handle.poke(super::sizing::KEY);
    }
    let of_ignition = views.planes.clone();
    let ours = Expression::Exists(apis::names::label::HOSTED_CONTROL_PLANE.to_owned());
    let mut routes =
        Watch::whole(client, &kinds::ROUTE).optional().labels(ours).into_sink(views.ignition.clone());
    if fronted {
        routes = routes.into_sink(operator.meanings.routes.clone());
        let ours = Expression::Exists(apis::names::label::HOSTED_CONTROL_PLANE.to_owned());
        let services = Watch::whole(client, &kinds::SERVICE).labels(ours);
        runtime.watch(services.into_sink(operator.meanings.services.clone()));
        for kind in kinds::INGRESS {
            let own =
                Watch::whole(client, &kind).namespace(crate::ingress::NAMESPACE).into_sink(ledger.clone());
            let own = match kind == kinds::DEPLOYMENT {
                true => own.into_sink(operator.meanings.router.clone()),
                false => own,
            };
            let clusters = views.clusters.clone();
            let rolls = kind == kinds::DEPLOYMENT;
            runtime.watch(own.wakes(handle.keys(move |_, keys| {
                keys.push(super::ingress::KEY);
                if rolls {
                    super::ingress::swift_keys(&clusters).into_iter().for_each(|key| keys.push(key));
                }
            })));
        }
    }
    runtime.watch(routes.wakes(handle.keys(move |o, keys| {
        if o.metadata.name.as_deref() == Some(super::views::IGNITION) {
            for plane in of_ignition.within(o.metadata.namespace.as_deref().unwrap_or_default()) {
                owner(&plane, keys);
            }
        }
    })));
    // Of pods' company only what is ours travels, and only what is said of it where that is enough.
    let ours = || Expression::Exists(apis::names::label::HOSTED_CONTROL_PLANE.to_owned());
    for (kind, sink) in [(kinds::DEPLOYMENT, Some(views.deployments.clone() as Arc<dyn Sink>))]
        .into_iter()
        .chain(kinds::ACCESS.map(|k| (k, None)))
    {
        let mut watch = Watch::whole(client, &kind).labels(ours()).into_sink(ledger.clone());
        let named = sink.is_some();
        if let Some(sink) = sink {
            watch = watch.into_sink(sink);
        }
        let planes = views.planes.clone();
        runtime.watch(watch.wakes(handle.keys(move |o, keys| {
            owner(o, keys);
            // The ignition server is the control plane's; who looks at it is the cluster.
            if named && o.metadata.name.as_deref() == Some("ignition-server") {
                for plane in planes.within(o.metadata.namespace.as_deref().unwrap_or_default()) {
                    owner(&plane, keys);
                }
            }
        })));
    }
    for (kind, sort) in [(kinds::SECRET, Sort::Secret), (kinds::CONFIG_MAP, Sort::ConfigMap)] {
        let (view, index) = match sort {
            Sort::Secret => (views.secrets.clone(), views.secrets_by.clone()),
            Sort::ConfigMap => (views.config_maps.clone(), views.config_maps_by.clone()),
        };
        let (clusters_by, planes) = (views.clusters_by.clone(), views.planes.clone());
        let (clusters, home) = (views.clusters.clone(), operator.around.home());
        let wakes = handle.keys(move |o, keys| {
            concerned(o, sort, &clusters_by, &planes, keys);
            // Everybody has a copy of it.
            let m = &o.metadata;
            let shared = m.name.as_deref().is_some_and(|n| [TRUSTED, OWN_SET].contains(&n));
            if shared && m.namespace.as_deref() == Some(home.as_str()) {
                clusters.all().iter().for_each(|c| keys.itself(c));
            }
            if fronted && m.namespace.as_deref() == Some(crate::ingress::NAMESPACE) {
                keys.push(super::ingress::KEY);
            }
            if sort == Sort::ConfigMap && o.metadata.name.as_deref() == Some(super::SUPPORTED) {
                keys.push(super::SUPPORTED);
            }
        });
        let of_pools = pooled.keys(nodepool::of_input(&operator, sort));
        let watch = Watch::metadata(client, &kind).into_sink(ledger.clone()).into_sink(view).into_sink(index);
        runtime.watch(watch.wakes(wakes).wakes(of_pools));
    }
    let pools = Watch::whole(client, &kinds::POOL).optional().into_sink(views.pools.clone());
    let pools = pools.into_sink(views.np.pools.clone()).into_sink(views.np.pools_by.clone());
    let pools = pools.wakes(pooled.keys(|o, keys| keys.itself(o)));
    runtime.watch(pools.wakes(handle.keys(|o, keys| {
        let cluster = o.data["spec"]["clusterName"].as_str().unwrap_or_default();
        keys.object(o.metadata.namespace.as_deref().unwrap_or_default(), cluster);
    })));
    let of_planes: [(Kind, Arc<dyn Sink>); 3] = [
        (kinds::LINK, views.links.clone()),
        (kinds::AZURE_MACHINE, views.machines.clone()),
        (kinds::BACKUP, views.snapshots.clone()),
    ];
    for (kind, sink) in of_planes {
        let planes = views.planes.clone();
        let wakes = handle.keys(move |o, keys| {
            for plane in planes.within(o.metadata.namespace.as_deref().unwrap_or_default()) {
                owner(&plane, keys);
            }
        });
        runtime.watch(Watch::whole(client, &kind).optional().into_sink(sink).wakes(wakes));
    }
    (handle, operator)
}
