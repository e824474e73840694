//! What Cluster API is told: how many machines of which kind, how they are replaced, and when one counts as broken.

use super::capacity::Capacity;
use super::text::cut;
use super::{belong, key, name};
use crate::naming;
use apis::hypershift::node_pool::{ReplaceStrategy, UpgradeType};
use apis::hypershift::{HostedCluster, NodePool};
use apis::names::{annotation, label};
use serde_json::{Value, json};

const CORE: &str = "cluster.x-k8s.io/v1beta1";

/// Machines are broken after this long without being Ready; nodes may take this long to appear; more broken ones at once,
/// and something else is wrong than machines.
pub const UNHEALTHY_AFTER: &str = "8m";
pub const STARTUP: &str = "20m";
pub const MOST_UNHEALTHY: u32 = 2;

/// What tells machines of one kind from those of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refs {
    /// Secret that they boot with.
    pub data_secret: String,
    /// AzureMachineTemplate.
    pub template: String,
    /// Of OpenShift.
    pub version: String,
}

/// What the autoscaler takes nodes of an empty pool to be labelled with.
pub const CARRIED_LABELS: &str = "capacity.cluster-autoscaler.kubernetes.io/labels";

/// What one machine of a pool has, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Has {
    /// The pool does not scale by itself, or there is no such size.
    #[default]
    Nothing,
    Of(Capacity),
    /// Nobody can be asked now; what was written down stays.
    Still(Before),
}

/// How many machines, and what each has.
#[derive(Clone, Copy, Debug)]
pub struct Fleet<'a> {
    pub size: u32,
    /// As many an autoscaler may make of it, if that is fewer than the pool says.
    pub most: Option<u32>,
    pub has: &'a Has,
}

/// What a MachineDeployment or MachineSet says that its machines have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    pub size: Vec<(&'static str, String)>,
    pub arch: Option<String>,
}

/// Key and value of the label by which machines of a pool are found.
pub fn selector(infra: &str, cluster: &str, pool: &str) -> String {
    cut(&format!("{infra}-{cluster}-{pool}"), 43)
}

fn infra(hc: &HostedCluster) -> &str {
    hc.spec.infra_id.as_deref().unwrap_or_default()
}

fn selector_of(hc: &HostedCluster, np: &NodePool) -> String {
    selector(infra(hc), naming::name(hc), name(np))
}

/// How many machines, given how many there are. The autoscaler decides within its bounds.
pub fn replicas(np: &NodePool, live: Option<u32>) -> u32 {
    let size = |n: i32| u32::try_from(n).unwrap_or(0);
    match &np.spec.auto_scaling {
        Some(bounds) => {
            live.unwrap_or_else(|| size(bounds.min)).clamp(size(bounds.min), size(bounds.max.max(bounds.min)))
        }
        None => np.spec.replicas.map_or(0, size),
    }
}

/// `managed.hypershift.openshift.io.<key>`: how the guest's side finds what nodes are to be labelled with.
pub fn managed_label(key: &str) -> String {
    format!("{}{key}", label::MANAGED_NODE_LABEL_PREFIX)
}

/// The machines to be. Labels, taints and timeouts reach machines that run; only [`Refs`] make them other machines.
fn machine(hc: &HostedCluster, np: &NodePool, refs: &Refs) -> Value {
    let selector = selector_of(hc, np);
    let namespace = naming::namespace(hc);
    let mut labels = json!({selector.as_str(): selector, label::CAPI_CLUSTER_NAME: infra(hc)});
    for (k, v) in np.spec.node_labels.iter().flatten() {
        labels[managed_label(k)] = json!(v);
    }
    let taints = json!(np.spec.taints.as_deref().unwrap_or_default()).to_string();
    let mut spec = json!({
        "clusterName": infra(hc),
        "bootstrap": {"dataSecretName": refs.data_secret},
        "infrastructureRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "AzureMachineTemplate",
            "name": refs.template, "namespace": namespace},
        "version": refs.version,
    });
    for (field, text) in [
        ("nodeDrainTimeout", &np.spec.node_drain_timeout),
        ("nodeVolumeDetachTimeout", &np.spec.node_volume_detach_timeout),
    ] {
        if let Some(text) = text {
            spec[field] = json!(text);
        }
    }
    json!({"metadata": {"labels": labels, "annotations": {
        annotation::NODE_POOL: key(np), annotation::NODE_POOL_TAINTS: taints}}, "spec": spec})
}

/// What the autoscaler reads; zeros mean that it is none of its business.
fn bounds(np: &NodePool, most: Option<u32>) -> [(&'static str, String); 2] {
    let most = most.and_then(|n| i32::try_from(n).ok()).unwrap_or(i32::MAX);
    let (min, max) = np.spec.auto_scaling.as_ref().map_or((0, 0), |b| (b.min.min(most), b.max.min(most)));
    [(annotation::AUTOSCALER_MIN_SIZE, min.to_string()), (annotation::AUTOSCALER_MAX_SIZE, max.to_string())]
}

/// What nodes of an empty pool would have and carry, for the autoscaler to judge by.
fn carried(np: &NodePool, has: &Has) -> Vec<(&'static str, String)> {
    if np.spec.auto_scaling.is_none() {
        return Vec::new();
    }
    let mut labels: Vec<String> =
        np.spec.node_labels.iter().flatten().map(|(k, v)| format!("{k}={v}")).collect();
    let mut size = Vec::new();
    match has {
        Has::Nothing => {}
        Has::Of(capacity) => {
            labels.push(format!("kubernetes.io/arch={}", capacity.arch));
            size.extend(capacity.annotations());
        }
        Has::Still(before) => {
            let arch = before.arch.iter().map(|a| format!("kubernetes.io/arch={a}"));
            labels.extend(arch);
            size.extend(before.size.iter().cloned());
        }
    }
    let taint = |t: &apis::hypershift::node_pool::Taint| {
        format!("{}={}:{}", t.key, t.value.as_deref().unwrap_or_default(), t.effect)
    };
    let taints: Vec<String> = np.spec.taints.iter().flatten().map(taint).collect();
    [(CARRIED_LABELS, labels), ("capacity.cluster-autoscaler.kubernetes.io/taints", taints)]
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(key, list)| (key, list.join(",")))
        .chain(size)
        .collect()
}

fn workload(hc: &HostedCluster, np: &NodePool, kind: &str, fleet: &Fleet<'_>, refs: &Refs) -> Value {
    let selector = selector_of(hc, np);
    // Upstream's controllers of MachineSets add the cluster where it is missing, and those of MachineDeployments take it
    // away again, for ever. Where its webhooks run, they see to it.
    let selected = json!({selector.as_str(): selector, label::CAPI_CLUSTER_NAME: infra(hc)});
    let mut annotations = json!({});
    for (k, v) in bounds(np, fleet.most).into_iter().chain(carried(np, fleet.has)) {
        annotations[k] = json!(v);
    }
    belong(
        hc,
        np,
        json!({"apiVersion": CORE, "kind": kind,
            "metadata": {"name": name(np), "labels": {label::CAPI_CLUSTER_NAME: infra(hc)}, "annotations": annotations},
            "spec": {"clusterName": infra(hc), "replicas": fleet.size, "selector": {"matchLabels": selected},
                "template": machine(hc, np, refs)}}),
    )
}

/// Replace: machines are made anew, in steps.
pub fn deployment(hc: &HostedCluster, np: &NodePool, fleet: &Fleet<'_>, refs: &Refs) -> Value {
    let mut o = workload(hc, np, "MachineDeployment", fleet, refs);
    let replace = np.spec.management.replace.clone().unwrap_or_default();
    o["spec"]["strategy"] = match replace.strategy.unwrap_or_default() {
        ReplaceStrategy::OnDelete => json!({"type": "OnDelete"}),
        ReplaceStrategy::RollingUpdate => {
            let steps = replace.rolling_update.unwrap_or_default();
            json!({"type": "RollingUpdate", "rollingUpdate": {
                "maxSurge": steps.max_surge.unwrap_or_else(|| 1.into()),
                "maxUnavailable": steps.max_unavailable.unwrap_or_else(|| 0.into())}})
        }
    };
    o["spec"]["minReadySeconds"] = json!(0);
    o
}

/// InPlace: machines stay, the guest's upgrader changes them. `target` is the hash of what they are to be.
pub fn set(hc: &HostedCluster, np: &NodePool, fleet: &Fleet<'_>, refs: &Refs, target: &str) -> Value {
    let mut o = workload(hc, np, "MachineSet", fleet, refs);
    let missing = np.spec.management.in_place.as_ref().and_then(|i| i.max_unavailable.clone());
    // Never none: nobody could be upgraded then.
    let missing = missing.and_then(|m| m.of(fleet.size, false)).unwrap_or(1).max(1);
    let annotations = &mut o["metadata"]["annotations"];
    annotations[annotation::NODE_POOL_TARGET_CONFIG_VERSION] = json!(target);
    annotations[annotation::NODE_POOL_MAX_UNAVAILABLE] = json!(missing.to_string());
    o
}

/// Stops whoever keeps machines.
pub fn paused(mut workload: Value) -> Value {
    workload["metadata"]["annotations"][annotation::CAPI_PAUSED] = json!("true");
    workload
}

pub fn is_in_place(np: &NodePool) -> bool {
    np.spec.management.upgrade_type == UpgradeType::InPlace
}

/// An annotation of the pool, else of its cluster. One that cannot be read is as good as none.
fn said<T>(hc: &HostedCluster, np: &NodePool, key: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    let own = np.metadata.annotations.as_ref().and_then(|a| a.get(key));
    own.and_then(|text| read(text)).or_else(|| naming::annotation(hc, key).and_then(&read))
}

/// How many broken machines there may be: a number, or so much of a hundred.
fn most_unhealthy(text: &str) -> Option<Value> {
    match text.strip_suffix('%') {
        Some(part) => part.parse::<u8>().ok().filter(|n| *n <= 100).map(|_| json!(text)),
        None => text.parse::<u32>().ok().map(|n| json!(n)),
    }
}

/// When a machine counts as broken.
pub fn check(hc: &HostedCluster, np: &NodePool) -> Value {
    let selector = selector_of(hc, np);
    let duration = |key: &str, otherwise: &str| {
        let read = |text: &str| apis::duration::go_duration(text).map(|_| text.to_owned());
        said(hc, np, key, read).unwrap_or_else(|| otherwise.to_owned())
    };
    let after = duration(annotation::MACHINE_HEALTH_CHECK_TIMEOUT, UNHEALTHY_AFTER);
    let startup = duration(annotation::MACHINE_HEALTH_CHECK_NODE_STARTUP_TIMEOUT, STARTUP);
    // What Cluster API cannot read is no limit to it.
    let most = said(hc, np, annotation::MACHINE_HEALTH_CHECK_MAX_UNHEALTHY, most_unhealthy)
        .unwrap_or_else(|| json!(MOST_UNHEALTHY));
    let broken = |status: &str| json!({"type": "Ready", "status": status, "timeout": after});
    belong(
        hc,
        np,
        json!({"apiVersion": CORE, "kind": "MachineHealthCheck",
            "metadata": {"name": name(np), "labels": {label::CAPI_CLUSTER_NAME: infra(hc)}},
            "spec": {"clusterName": infra(hc), "selector": {"matchLabels": {selector.as_str(): selector}},
                "unhealthyConditions": [broken("False"), broken("Unknown")],
                "maxUnhealthy": most, "nodeStartupTimeout": startup}}),
    )
}
