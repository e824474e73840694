//! Which kinds are watched, and whom they wake.

use super::azure::{AzureMachines, Census, Offers};
use super::checks::Checks;
use super::clusters::Clusters;
use super::deployments::Deployments;
use super::guests::{Guests, Wakes};
use super::machines::Machines;
use super::secrets::Secrets;
use super::sets::Sets;
use super::views::{Views, cluster_of, namespace};
use super::write::Writer;
use super::{MANAGER, Shared};
use crate::around::{Clouds, Reach};
use crate::kinds;
use clock::{Random, SharedClock};
use jiff::SignedDuration;
use kube::Client;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use reconcile::{
    Applier, Handle, Keys, Kind, Kinds, Ledger, Metrics, Options, Runtime, Tenants, View, Watch,
};
use std::sync::Arc;

/// What the controllers are set up with.
pub struct Setup<'a> {
    pub clock: SharedClock,
    pub random: &'a Random,
    pub metrics: &'a Metrics,
    pub reach: Arc<dyn Reach>,
    pub clouds: Arc<dyn Clouds>,
    /// Whose machines are kept.
    pub tenants: Arc<Tenants>,
    /// The only namespace that is watched; all if not given.
    pub namespace: Option<String>,
    pub options: Options,
    /// How often machines that are ready are looked for in Azure: one list per resource group.
    pub look: SignedDuration,
}

/// The controllers from outside.
#[derive(Clone)]
pub struct Handles {
    pub clusters: Handle,
    pub deployments: Handle,
    pub sets: Handle,
    pub machines: Handle,
    pub checks: Handle,
    pub azure_machines: Handle,
}

/// Sets all controllers up in a runtime, and everything they watch.
pub fn start(runtime: &mut Runtime, client: &Client, setup: Setup<'_>) -> Handles {
    let Setup { clock, random, metrics, reach, clouds, tenants, namespace: only, options, look } = setup;
    let known = Kinds::builtin().with(kinds::ALL);
    // Nothing is applied: statuses and finalizers need no ledger, but an applier needs one.
    let applier =
        Applier::new(client.clone(), Arc::new(known), Ledger::new(MANAGER, random)).with_metrics(metrics);
    let views = Arc::new(Views::default());
    let shared = Arc::new(Shared {
        guests: Guests::new(reach, clock.clone(), metrics, views.clone()),
        views,
        writer: Writer::new(client.clone()),
        applier,
        clock,
        random: random.clone(),
        clouds,
        tenants,
        clients: Mutex::default(),
        offers: Offers::default(),
        census: Census::default(),
        operations: Mutex::default(),
        versions: Arc::default(),
        boots: Arc::default(),
        look,
    });
    // Machines wait for Azure, not for processors.
    let many = Options { workers: options.workers.max(48), ..options };
    let handles = Handles {
        clusters: runtime.controller(Arc::new(Clusters(shared.clone())), options),
        deployments: runtime.controller(Arc::new(Deployments(shared.clone())), options),
        sets: runtime.controller(Arc::new(Sets(shared.clone())), options),
        machines: runtime.controller(Arc::new(Machines(shared.clone())), many),
        checks: runtime.controller(Arc::new(Checks(shared.clone())), options),
        azure_machines: runtime.controller(Arc::new(AzureMachines(shared.clone())), many),
    };
    let (h, v) = (handles.clone(), shared.views.clone());
    shared.tenants.attach(move |namespace| {
        let all = [
            (&h.clusters, &v.clusters),
            (&h.deployments, &v.deployments),
            (&h.sets, &v.sets),
            (&h.machines, &v.machines),
            (&h.checks, &v.checks),
            (&h.azure_machines, &v.azure_machines),
        ];
        all.into_iter().for_each(|(handle, view)| Tenants::poke(namespace, handle, view));
    });
    let wakes = Wakes { machines: handles.machines.clone(), checks: handles.checks.clone() };
    let _ = shared.guests.wakes.set(wakes);
    let watching = Watching { client, only, shared: &shared, handles: &handles };
    watching.all(runtime);
    handles
}

struct Watching<'a> {
    client: &'a Client,
    only: Option<String>,
    shared: &'a Arc<Shared>,
    handles: &'a Handles,
}

impl Watching<'_> {
    fn whole(&self, kind: &Kind) -> Watch {
        let watch = Watch::whole(self.client, kind).into_sink(self.shared.versions.clone());
        match &self.only {
            Some(ns) => watch.namespace(ns.clone()),
            None => watch,
        }
    }

    fn all(&self, runtime: &mut Runtime) {
        let (v, h) = (&self.shared.views, self.handles);
        // A cluster that is paused, ready or going concerns everything of it.
        runtime.watch(
            self.whole(&kinds::CLUSTER)
                .into_sink(v.clusters.clone())
                .wakes(h.clusters.keys(|o, keys| keys.itself(o)))
                .wakes(h.deployments.keys(members(v.deployments.clone())))
                .wakes(h.sets.keys(members(v.sets.clone())))
                .wakes(h.machines.keys(members(v.machines.clone())))
                .wakes(h.checks.keys(members(v.checks.clone())))
                .wakes(h.azure_machines.keys(members(v.azure_machines.clone()))),
        );
        let owner = |o: &DynamicObject, keys: &mut Keys| keys.object(namespace(o), cluster_of(o));
        runtime.watch(
            self.whole(&kinds::DEPLOYMENT)
                .into_sink(v.deployments.clone())
                .wakes(h.deployments.keys(|o, keys| keys.itself(o)))
                .wakes(h.clusters.keys(owner)),
        );
        runtime.watch(
            self.whole(&kinds::SET)
                .into_sink(v.sets.clone())
                .into_sink(v.sets_by_owner.clone())
                .wakes(h.sets.keys(|o, keys| keys.itself(o)))
                .wakes(h.deployments.keys(|o, keys| keys.controller(o, "MachineDeployment")))
                .wakes(h.clusters.keys(owner)),
        );
        self.machines(runtime);
        runtime.watch(
            self.whole(&kinds::CHECK)
                .into_sink(v.checks.clone())
                .into_sink(v.selectors.clone())
                .wakes(h.checks.keys(|o, keys| keys.itself(o)))
                .wakes(h.clusters.keys(owner)),
        );
        self.azure(runtime);
        let secrets = Arc::new(Secrets::new(self.shared.clone()));
        let _ = secrets.azure_machines.set(h.azure_machines.clone());
        let watch = Watch::metadata(self.client, &kinds::SECRET);
        let watch = match &self.only {
            Some(ns) => watch.namespace(ns.clone()),
            None => watch,
        };
        runtime.watch(watch.wakes(secrets));
    }

    fn machines(&self, runtime: &mut Runtime) {
        let (v, h) = (&self.shared.views, self.handles);
        let (sets, checking) = (v.sets.clone(), v.clone());
        runtime.watch(
            self.whole(&kinds::MACHINE)
                .into_sink(v.machines.clone())
                .into_sink(v.machines_by.clone())
                .into_sink(v.expected.clone())
                .wakes(h.machines.keys(|o, keys| keys.itself(o)))
                .wakes(h.sets.keys(move |o, keys| match super::index::controller(o) {
                    Some(_) => keys.controller(o, "MachineSet"),
                    // Somebody may want to adopt it.
                    None => {
                        for set in sets.within(namespace(o)).iter().filter(|s| cluster_of(s) == cluster_of(o))
                        {
                            keys.itself(set);
                        }
                    }
                }))
                // A machine that begins to go makes room for another.
                .wakes(h.deployments.keys(|o, keys| {
                    let owner = o.metadata.labels.as_ref().and_then(|l| l.get(kinds::label::DEPLOYMENT));
                    if let Some(owner) = owner {
                        keys.object(namespace(o), owner);
                    }
                }))
                .wakes(h.checks.keys(move |o, keys| {
                    checking.checks_of(o).iter().for_each(|check| keys.object(namespace(o), check));
                }))
                .wakes(h.azure_machines.keys(|o, keys| {
                    keys.object(
                        namespace(o),
                        o.data["spec"]["infrastructureRef"]["name"].as_str().unwrap_or_default(),
                    );
                }))
                .wakes(h.clusters.keys(counted(v.clone()))),
        );
    }

    fn azure(&self, runtime: &mut Runtime) {
        let (v, h) = (&self.shared.views, self.handles);
        runtime.watch(
            self.whole(&kinds::AZURE_MACHINE)
                .into_sink(v.azure_machines.clone())
                .into_sink(self.shared.boots.clone())
                .wakes(h.azure_machines.keys(|o, keys| keys.itself(o)))
                .wakes(h.machines.keys(|o, keys| keys.controller(o, "Machine")))
                .wakes(h.clusters.keys(counted(v.clone()))),
        );
        let clusters = v.clusters.clone();
        let of_azure = move |o: &DynamicObject, keys: &mut Keys| {
            for c in clusters.within(namespace(o)) {
                let named = c.data["spec"]["infrastructureRef"]["name"].as_str();
                if named == o.metadata.name.as_deref() {
                    keys.itself(&c);
                }
            }
        };
        let machines = v.azure_machines.clone();
        runtime.watch(
            self.whole(&kinds::AZURE_CLUSTER)
                .into_sink(v.azure_clusters.clone())
                .wakes(h.clusters.keys(of_azure))
                .wakes(h.azure_machines.keys(move |o, keys| {
                    machines.within(namespace(o)).iter().for_each(|m| keys.itself(m));
                })),
        );
        let machines = v.azure_machines.clone();
        // An identity that was wrong and is right now: everybody who waited for it.
        runtime.watch(self.whole(&kinds::AZURE_IDENTITY).into_sink(v.identities.clone()).wakes(
            h.azure_machines.keys(move |o, keys| {
                machines.within(namespace(o)).iter().for_each(|m| keys.itself(m));
            }),
        ));
        let sets = v.sets.clone();
        runtime.watch(self.whole(&kinds::AZURE_TEMPLATE).into_sink(v.templates.clone()).wakes(h.sets.keys(
            move |o, keys| {
                for set in sets.within(namespace(o)) {
                    let named = set.data["spec"]["template"]["spec"]["infrastructureRef"]["name"].as_str();
                    if named == o.metadata.name.as_deref() {
                        keys.itself(&set);
                    }
                }
            },
        )));
    }
}

/// Only a cluster that is going counts its machines.
fn counted(views: Arc<Views>) -> impl Fn(&DynamicObject, &mut Keys) + Send + Sync + 'static {
    move |o, keys| {
        let cluster = views.clusters.get(namespace(o), cluster_of(o));
        if cluster.is_some_and(|c| c.metadata.deletion_timestamp.is_some()) {
            keys.object(namespace(o), cluster_of(o));
        }
    }
}

/// Everything of a view that says that it belongs to a cluster.
fn members(view: Arc<View<DynamicObject>>) -> impl Fn(&DynamicObject, &mut Keys) + Send + Sync + 'static {
    move |cluster, keys| {
        for o in view.within(namespace(cluster)) {
            if Some(cluster_of(&o)) == cluster.metadata.name.as_deref() {
                keys.itself(&o);
            }
        }
    }
}
