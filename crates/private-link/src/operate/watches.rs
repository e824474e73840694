//! Which kinds are watched, and whom they wake.

use super::planes::{Planes, slim};
use super::{Shared, endpoints, services};
use crate::around::{Clouds, Management};
use crate::kinds;
use clock::{Random, SharedClock};
use kube::Client;
use kube::core::DynamicObject;
use reconcile::{Applier, Handle, Keys, Kinds, Ledger, Metrics, Options, Runtime, Tenants, View, Watch};
use std::sync::Arc;

/// Our field managers, one for each side.
pub const MANAGER: &str = "hypershift-operator-private-link";
const GUEST_MANAGER: &str = "control-plane-operator-private-link";

/// Links at a time: a worker waits for Azure.
const WORKERS: usize = 20;

/// What the management side is set up with.
pub struct Services<'a> {
    pub clock: SharedClock,
    pub random: &'a Random,
    pub metrics: &'a Metrics,
    pub management: Management,
    pub options: Options,
}

/// What the guest's side is set up with.
pub struct Endpoints<'a> {
    pub clock: SharedClock,
    pub random: &'a Random,
    pub metrics: &'a Metrics,
    pub clouds: Arc<dyn Clouds>,
    /// Whose links are worked on, of those that are watched.
    pub tenants: Arc<Tenants>,
    /// Watches this namespace alone; all if there is none.
    pub namespace: Option<String>,
    pub options: Options,
}

fn applier(client: &Client, manager: &'static str, random: &Random, metrics: &Metrics) -> Applier {
    let known = Kinds::builtin().with([kinds::LINK, kinds::PLANE]);
    Applier::new(client.clone(), Arc::new(known), Ledger::new(manager, random)).with_metrics(metrics)
}

/// How links are worked on if nobody says otherwise.
pub fn options() -> Options {
    Options { workers: WORKERS, ..Options::default() }
}

/// The HyperShift operator's part.
pub fn start_services(runtime: &mut Runtime, client: &Client, setup: Services<'_>) -> Handle {
    let Services { clock, random, metrics, management, options } = setup;
    let links = View::whole();
    let shared = Shared::new(links.clone(), applier(client, MANAGER, random, metrics), clock);
    let handle = runtime.controller(Arc::new(services::Services { shared, management }), options);
    let watch = Watch::whole(client, &kinds::LINK).optional().into_sink(links);
    runtime.watch(watch.wakes(handle.keys(|o, keys| keys.itself(o))));
    handle
}

/// The control plane operator's part.
pub fn start_endpoints(runtime: &mut Runtime, client: &Client, setup: Endpoints<'_>) -> Handle {
    let Endpoints { clock, random, metrics, clouds, tenants, namespace, options } = setup;
    let namespace = namespace.unwrap_or_default();
    let (links, planes) = (View::whole(), View::new(slim));
    let applier = applier(client, GUEST_MANAGER, random, metrics);
    let controller = endpoints::Endpoints {
        shared: Shared::new(links.clone(), applier.clone(), clock.clone()),
        planes: planes.clone(),
        tenants: tenants.clone(),
        clouds,
    };
    let handle = runtime.controller(Arc::new(controller), options);
    let holder =
        Planes { planes: planes.clone(), links: links.clone(), applier, clock, tenants: tenants.clone() };
    let holder = runtime.controller(Arc::new(holder), options);
    let (woken, held, of_links, of_planes) = (handle.clone(), holder.clone(), links.clone(), planes.clone());
    tenants.attach(move |namespace| {
        Tenants::poke(namespace, &woken, &of_links);
        Tenants::poke(namespace, &held, &of_planes);
    });
    let of_links = links.clone();
    let watch = Watch::whole(client, &kinds::LINK).namespace(&*namespace).optional().into_sink(links);
    // The router's link gives up records that another one takes on: all of a namespace are looked at.
    let all = move |o: &DynamicObject, keys: &mut Keys| {
        keys.itself(o);
        let ns = o.metadata.namespace.as_deref().unwrap_or_default();
        of_links.within(ns).iter().for_each(|l| keys.itself(l));
    };
    let watch =
        watch.wakes(handle.keys(all)).wakes(holder.keys(|o, keys| keys.controller(o, "HostedControlPlane")));
    runtime.watch(watch);
    // Of a control plane nothing matters but that it goes.
    let going = |o: &DynamicObject, keys: &mut Keys| {
        if o.metadata.deletion_timestamp.is_some() {
            keys.itself(o);
        }
    };
    let watch = Watch::metadata(client, &kinds::PLANE).namespace(&*namespace).into_sink(planes);
    runtime.watch(watch.wakes(holder.keys(going)));
    handle
}
