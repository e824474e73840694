//! Which kinds are watched, and whom they wake.

use super::objects::PLANE;
use super::{Operator, Surroundings, Views};
use clock::{Random, SharedClock};
use k8s_openapi::api as k8s;
use kube::Client;
use kube::core::DynamicObject;
use reconcile::{Applier, Handle, Keys, Kind, Kinds, Ledger, Metrics, Options, Runtime, Sink, Watch};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Kinds that are ours or that others define.
pub struct Known;
pub const KINDS: Known = Known;

impl Known {
    pub fn plane(&self) -> Kind {
        Kind::new("hypershift.openshift.io", "v1beta1", "HostedControlPlane", "hostedcontrolplanes")
    }

    pub fn component(&self) -> Kind {
        Kind::new("hypershift.openshift.io", "v1beta1", "ControlPlaneComponent", "controlplanecomponents")
    }

    /// Kinds a control plane has objects of, where they are served.
    fn others(&self) -> [Kind; 4] {
        [
            Kind::new("route.openshift.io", "v1", "Route", "routes"),
            Kind::new("secrets-store.csi.x-k8s.io", "v1", "SecretProviderClass", "secretproviderclasses"),
            Kind::new("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors"),
            Kind::new("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors"),
        ]
    }
}

/// The key of the control plane an object belongs to.
fn owner(o: &DynamicObject, keys: &mut Keys) {
    keys.controller(o, "HostedControlPlane");
    // What the HostedCluster's operator puts here (copies of pull secret, keys, bundles) names the cluster, whose control
    // plane has the same name.
    let cluster =
        o.metadata.annotations.as_ref().and_then(|a| a.get(apis::names::annotation::HOSTED_CLUSTER));
    if let Some((_, name)) = cluster.and_then(|c| c.split_once('/')) {
        keys.object(o.metadata.namespace.as_deref().unwrap_or_default(), name);
    }
}

/// Sets the operator up in a runtime: its controller, and everything it watches.
pub fn start(
    runtime: &mut Runtime,
    client: &Client,
    served: BTreeSet<String>,
    clock: SharedClock,
    random: &Random,
    around: Arc<dyn Surroundings>,
    metrics: &Metrics,
) -> Handle {
    let kinds = Kinds::builtin().with(KINDS.others()).with([KINDS.plane(), KINDS.component()]);
    let ledger = Ledger::new("control-plane-operator", random);
    let applier = Applier::new(client.clone(), Arc::new(kinds), ledger.clone()).with_metrics(metrics);
    let views = Views::new(served.clone(), random.clone());
    let sinks: Vec<(Kind, Option<Arc<dyn Sink>>)> = vec![
        (Kind::of::<k8s::core::v1::Secret>(), Some(views.secrets.clone())),
        (Kind::of::<k8s::core::v1::ConfigMap>(), Some(views.config_maps.clone())),
        (Kind::of::<k8s::apps::v1::Deployment>(), Some(views.deployments.clone())),
        (Kind::of::<k8s::apps::v1::StatefulSet>(), Some(views.stateful_sets.clone())),
        (Kind::of::<k8s::batch::v1::Job>(), Some(views.jobs.clone())),
        (Kind::of::<k8s::batch::v1::CronJob>(), Some(views.cron_jobs.clone())),
        (Kind::of::<k8s::core::v1::Service>(), Some(views.services.clone())),
        (Kind::of::<k8s::core::v1::ServiceAccount>(), None),
        (Kind::of::<k8s::rbac::v1::Role>(), None),
        (Kind::of::<k8s::rbac::v1::RoleBinding>(), None),
        (Kind::of::<k8s::policy::v1::PodDisruptionBudget>(), None),
        (Kind::of::<k8s::networking::v1::NetworkPolicy>(), None),
    ];
    let (planes, components) = (views.planes.clone(), views.components.clone());
    let operator = Operator { views, applier, clock, around };
    let handle = runtime.controller(Arc::new(operator), Options::default());
    runtime.watch(
        Watch::whole(client, &KINDS.plane()).into_sink(planes).wakes(handle.keys(|o, keys| keys.itself(o))),
    );
    let mut follow = |kind: &Kind, sink: Option<Arc<dyn Sink>>| {
        let selected = Watch::whole(client, kind).labels(kube::core::Expression::Exists(PLANE.to_owned()));
        let mut watch = selected.into_sink(ledger.clone());
        if let Some(sink) = sink {
            watch = watch.into_sink(sink);
        }
        runtime.watch(watch.wakes(handle.keys(owner)));
    };
    for (kind, sink) in sinks {
        follow(&kind, sink);
    }
    if served.contains("hypershift.openshift.io/ControlPlaneComponent") {
        follow(&KINDS.component(), Some(components));
    }
    for kind in KINDS.others() {
        if served.contains(&format!("{}/{}", kind.group, kind.kind)) {
            follow(&kind, None);
        }
    }
    handle
}
