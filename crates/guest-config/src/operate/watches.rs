//! Which kinds are watched, and which part of the work they wake.

use super::apply::{Memo, watched};
use super::facts::{keep_config_map, keep_secret, map_matters, matters};
use super::{
    CLEANUP, CONNECTION, MANAGER, Node, Operator, RECOVERY, REENCRYPTION, REPORT, RESOURCES, WEBHOOKS,
    webhooks,
};
use crate::facts::Told;
use crate::kinds;
use crate::plan::LABEL;
use crate::probe::Backends;
use clock::{Random, SharedClock};
use k8s_openapi::api::core::v1::{ConfigMap, Node as NodeKind, Secret};
use kube::Client;
use kube::core::{DynamicObject, Expression};
use parking_lot::Mutex;
use reconcile::{Applier, Backoff, Handle, Keys, Kind, Ledger, Metrics, Options, Runtime, View, Watch};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What an instance is given.
pub struct Around {
    /// The cluster that hosts; only the control plane's namespace is looked at.
    pub management: Client,
    /// The hosted cluster, as [`crate::definitions::USER`].
    pub guest: Client,
    pub told: Told,
    /// Who can reach Services of the control plane.
    pub backends: Arc<dyn Backends>,
    pub clock: SharedClock,
    pub random: Random,
    pub metrics: Metrics,
}

fn ready(o: &DynamicObject) -> Option<Node> {
    let conditions = o.data["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
    Some(Node { ready })
}

/// Sets an instance up in a runtime: its controller, and everything it watches.
pub fn start(runtime: &mut Runtime, around: Around) -> Handle {
    let Around { management, guest, told, backends, clock, random, metrics } = around;
    let node_clock = clock.clone();
    let ledger = Ledger::new(MANAGER, &random);
    let applier = Applier::new(guest.clone(), kinds::shared(), ledger.clone()).with_metrics(&metrics);
    let (planes, versions) = (View::whole(), View::whole());
    let (secrets, config_maps) = (View::new(keep_secret), View::new(keep_config_map));
    let nodes = View::new(ready);
    let hooks =
        [true, false].map(|validating| View::new(move |o: &DynamicObject| webhooks::aims(o, validating)));
    let operator = Arc::new(Operator {
        told: told.clone(),
        management: management.clone(),
        guest: guest.clone(),
        applier,
        planes: planes.clone(),
        secrets: secrets.clone(),
        config_maps: config_maps.clone(),
        versions: versions.clone(),
        nodes: nodes.clone(),
        webhooks: hooks.clone(),
        backends,
        found: Default::default(),
        memo: Memo::default(),
        serving: Mutex::default(),
        silent: Mutex::default(),
        kubeadmin: Mutex::default(),
        reencryption: Mutex::default(),
        unanswered: Mutex::default(),
        clock,
        random,
        handle: OnceLock::new(),
    });
    let feeds = crate::nodes::set_up(runtime, &management, &guest, &told.namespace, &node_clock);
    let backoff = Backoff { first: Duration::from_millis(250), last: Duration::from_secs(10) };
    let handle = runtime.controller(operator.clone(), Options { workers: 6, backoff, ..Options::default() });
    let _ = operator.handle.set(handle.clone());
    let all = |_: &DynamicObject, keys: &mut Keys| {
        for key in [RESOURCES, REPORT, CONNECTION, REENCRYPTION, RECOVERY, CLEANUP] {
            keys.push(key);
        }
    };
    let plane = Watch::whole(&management, &kinds::PLANE).namespace(&told.namespace).name(&told.name);
    runtime.watch(plane.into_sink(planes.clone()).wakes(handle.keys(all)));
    let given = |o: &DynamicObject, keys: &mut Keys| {
        if matters(o) {
            keys.push(RESOURCES);
        }
    };
    let here = |kind: &Kind| Watch::whole(&management, kind).namespace(&told.namespace);
    let given_secrets = here(&Kind::of::<Secret>()).into_sink(secrets).wakes(handle.keys(given));
    runtime.watch(given_secrets.wakes(feeds.on_secrets));
    let at = (told.namespace.clone(), told.name.clone());
    let given_maps = move |o: &DynamicObject, keys: &mut Keys| {
        if map_matters(planes.get(&at.0, &at.1).as_deref(), o) {
            keys.push(RESOURCES);
        }
    };
    runtime.watch(here(&Kind::of::<ConfigMap>()).into_sink(config_maps).wakes(handle.keys(given_maps)));
    for kind in watched() {
        let ours =
            Watch::metadata(&guest, kind).labels(Expression::Equal(LABEL.0.to_owned(), LABEL.1.to_owned()));
        runtime.watch(ours.into_sink(ledger.clone()).wakes(handle.keys(|_, keys| keys.push(RESOURCES))));
    }
    let version = Watch::whole(&guest, &kinds::CLUSTER_VERSION).name("version").optional();
    runtime.watch(version.into_sink(versions).wakes(handle.keys(|_, keys| keys.push(REPORT))));
    let nodes_watch = Watch::whole(&guest, &Kind::of_cluster::<NodeKind>()).into_sink(nodes);
    let nodes_watch = nodes_watch.into_sink(feeds.nodes).wakes(feeds.on_nodes);
    runtime.watch(nodes_watch.wakes(handle.keys(|_, keys| {
        keys.push(CONNECTION);
        keys.push(REPORT);
    })));
    for (validating, hooks) in [true, false].into_iter().zip(hooks) {
        let watch = Watch::whole(&guest, &webhooks::kind(validating)).into_sink(hooks);
        runtime.watch(watch.wakes(handle.keys(|_, keys| keys.push(WEBHOOKS))));
    }
    handle
}
