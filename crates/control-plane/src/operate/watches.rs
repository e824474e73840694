//! Which kinds are watched, and whom they wake.

use super::objects::PLANE;
use super::{Operator, Surroundings, Tenants, Views};
use crate::certificates::BREAK_GLASS;
use crate::facts;
use apis::hypershift::HostedControlPlane;
use clock::{Random, SharedClock};
use k8s_openapi::api as k8s;
use kube::Client;
use kube::core::DynamicObject;
use reconcile::{Applier, Handle, Keys, Kind, Kinds, Ledger, Metrics, Options, Runtime, Sink, View, Watch};
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

    pub fn backup(&self) -> Kind {
        Kind::new("hypershift.openshift.io", "v1beta1", "HCPEtcdBackup", "hcpetcdbackups")
    }

    pub fn link(&self) -> Kind {
        Kind::new("hypershift.openshift.io", "v1beta1", "AzurePrivateLinkService", "azureprivatelinkservices")
    }

    /// Kinds a control plane has objects of, where they are served.
    pub(super) fn others(&self) -> [Kind; 7] {
        [
            self.link(),
            Kind::new("route.openshift.io", "v1", "Route", "routes"),
            Kind::new("secrets-store.csi.x-k8s.io", "v1", "SecretProviderClass", "secretproviderclasses"),
            Kind::new("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors"),
            Kind::new("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors"),
            Kind::new("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules"),
            Kind::new("image.openshift.io", "v1", "ImageStream", "imagestreams"),
        ]
    }
}

/// What an operator is set up with.
pub struct Setup<'a> {
    /// `group/Kind` of what the management cluster serves beyond the built-in kinds.
    pub served: BTreeSet<String>,
    pub clock: SharedClock,
    pub random: &'a Random,
    pub around: Arc<dyn Surroundings>,
    pub metrics: &'a Metrics,
    /// Whom to serve, of those who are watched.
    pub tenants: Arc<Tenants>,
    /// Watches this namespace alone, with rights in it alone; all if there is none.
    pub namespace: Option<String>,
    pub only: Only,
}

/// Which control planes of those watched are ours to work on; all if nothing is said.
#[derive(Clone, Debug, Default)]
pub struct Only {
    pub name: Option<String>,
    /// During an upgrade the operator of the old release leaves the new one to its successor.
    pub release_image: Option<String>,
}

impl Only {
    pub(super) fn covers(&self, hcp: &HostedControlPlane) -> bool {
        let name = self.name.as_ref().is_none_or(|n| hcp.metadata.name.as_ref() == Some(n));
        name && self.release_image.as_ref().is_none_or(|i| facts::image(hcp) == i)
    }
}

/// Sets the operator up in a runtime: its controller, and everything it watches.
pub fn start(runtime: &mut Runtime, client: &Client, setup: Setup<'_>) -> Handle {
    let Setup { served, clock, random, around, metrics, tenants, namespace, only } = setup;
    let namespace = namespace.unwrap_or_default();
    let kinds =
        Kinds::builtin().with(KINDS.others()).with([KINDS.plane(), KINDS.component(), KINDS.backup()]);
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
    let (unready, warnings) = (views.unready.clone(), views.warnings.clone());
    let (members, backups) = (views.members.clone(), views.backups.clone());
    let (planes, components) = (views.planes.clone(), views.components.clone());
    let (routes, operands) = (views.routes.clone(), views.operands.clone());
    let break_glass = views.break_glass.clone();
    let operator = Operator::new(views, applier, clock, around, tenants.clone(), only);
    let handle = runtime.controller(Arc::new(operator), Options::default());
    let (woken, known) = (handle.clone(), planes.clone());
    tenants.attach(move |namespace| Tenants::poke(namespace, &woken, &known));
    let of_planes = Watch::whole(client, &KINDS.plane()).namespace(&*namespace).into_sink(planes.clone());
    runtime.watch(of_planes.wakes(handle.keys(|o, keys| keys.itself(o))));
    // Pods are not ours to apply; they and what is said of them are read.
    let of_planes = planes.clone();
    let about = handle.keys(move |o, keys| concerned(o, &of_planes, keys));
    let pods = Watch::whole(client, &Kind::of::<k8s::core::v1::Pod>()).namespace(&*namespace);
    let pods = pods.labels(kube::core::Expression::Exists(PLANE.to_owned()));
    runtime.watch(pods.into_sink(unready).into_sink(members).wakes(about.clone()));
    let events = Watch::whole(client, &Kind::of::<k8s::core::v1::Event>()).namespace(&*namespace);
    let events = events.fields("type=Warning,involvedObject.kind=Pod");
    runtime.watch(events.into_sink(warnings).wakes(about.clone()));
    let trusted = Watch::whole(client, &Kind::of::<k8s::core::v1::ConfigMap>()).namespace(&*namespace);
    runtime.watch(trusted.name(BREAK_GLASS.0).into_sink(break_glass).wakes(about.clone()));
    for (name, view) in operands {
        let watch = Watch::whole(client, &Kind::of::<k8s::apps::v1::Deployment>()).namespace(&*namespace);
        runtime.watch(watch.name(name).into_sink(view).wakes(about.clone()));
    }
    if served.contains("hypershift.openshift.io/HCPEtcdBackup") {
        let asked = Watch::whole(client, &KINDS.backup()).namespace(&*namespace).into_sink(backups);
        runtime.watch(asked.wakes(about));
    }
    let mut follow = |kind: &Kind, sink: Option<Arc<dyn Sink>>| {
        let selected = Watch::whole(client, kind)
            .namespace(&*namespace)
            .labels(kube::core::Expression::Exists(PLANE.to_owned()));
        let mut watch = selected.into_sink(ledger.clone());
        if let Some(sink) = sink {
            watch = watch.into_sink(sink);
        }
        let planes = planes.clone();
        runtime.watch(watch.wakes(handle.keys(move |o, keys| concerned(o, &planes, keys))));
    };
    for (kind, sink) in sinks {
        follow(&kind, sink);
    }
    if served.contains("hypershift.openshift.io/ControlPlaneComponent") {
        follow(&KINDS.component(), Some(components));
    }
    for kind in KINDS.others() {
        if served.contains(&format!("{}/{}", kind.group, kind.kind)) {
            let named = kind.kind == "Route";
            follow(&kind, named.then(|| routes.clone() as Arc<dyn Sink>));
        }
    }
    handle
}

/// The control plane an object belongs to: its owner, or, for what a user gave us, the one of its namespace.
fn concerned(o: &DynamicObject, planes: &View<DynamicObject>, keys: &mut Keys) {
    keys.controller(o, "HostedControlPlane");
    if o.metadata.owner_references.as_ref().is_some_and(|r| r.iter().any(|r| r.kind == "HostedControlPlane"))
    {
        return;
    }
    for plane in planes.within(o.metadata.namespace.as_deref().unwrap_or_default()) {
        keys.itself(&plane);
    }
}
