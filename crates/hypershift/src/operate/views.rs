//! What the controller reads without asking.

use crate::inputs::{self, Sort};
use apis::hypershift::HostedCluster;
use apis::names::{annotation, label};
use control_plane::operate::Rollout;
use kube::core::{DynamicObject, ObjectMeta};
use reconcile::conditions::{Conditions, Status};
use reconcile::{Index, Keys, View};
use std::sync::Arc;

/// Secrets of a control plane that are read: what goes back to users, what machines mount, and the copy of what images are
/// read with.
pub const READ: [&str; 5] = [
    "admin-kubeconfig",
    "custom-admin-kubeconfig",
    "kubeadmin-password",
    "service-network-admin-kubeconfig",
    "pull-secret",
];

/// ConfigMaps and Secrets of a control plane that nodes are told of.
pub const BOOT: [&str; 3] = ["root-ca", "ignition-server-ca-cert", "azure-cloud-config"];

/// Deployments of a control plane that are looked at.
const LOOKED_AT: [&str; 4] = ["control-plane-operator", "cluster-api", "capi-provider", "ignition-server"];

/// What is kept of a NodePool.
#[derive(Clone, Debug)]
pub struct Pool {
    pub name: String,
    pub cluster: String,
    pub autoscales: bool,
    /// Nodes that it is to have, or has if it scales by itself.
    pub replicas: u32,
    pub deleting: Option<jiff::Timestamp>,
    pub finalizers: Vec<String>,
}

/// What is kept of an HCPEtcdBackup that is complete; in order of time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Snapshot {
    pub taken: jiff::Timestamp,
    pub url: String,
}

/// What is kept of a namespace.
#[derive(Clone, Debug)]
pub struct Space {
    pub uid: Option<i64>,
    /// `namespace/name` of its HostedCluster.
    pub cluster: Option<String>,
    pub deleting: Option<jiff::Timestamp>,
    /// What the namespace controller says is left in it.
    pub left: String,
}

/// What is kept of a Secret or ConfigMap: which version of it there is, not what it holds.
#[derive(Clone, Debug)]
pub struct Mark {
    pub name: String,
    pub version: String,
    /// Clusters that are marked on it.
    pub clusters: Vec<String>,
}

/// What is kept of a Deployment.
#[derive(Clone, Debug)]
pub struct Workload {
    pub object: DynamicObject,
    pub rollout: Rollout,
}

/// All views.
pub struct Views {
    pub clusters: Arc<View<DynamicObject>>,
    /// By what they name; see [`named`].
    pub clusters_by: Arc<Index>,
    pub planes: Arc<View<DynamicObject>>,
    pub pools: Arc<View<Pool>>,
    pub links: Arc<View<DynamicObject>>,
    pub snapshots: Arc<View<Snapshot>>,
    pub spaces: Arc<View<Space>>,
    pub secrets: Arc<View<Mark>>,
    pub config_maps: Arc<View<Mark>>,
    /// By the keys of the clusters that are marked on them.
    pub secrets_by: Arc<Index>,
    pub config_maps_by: Arc<Index>,
    pub deployments: Arc<View<Workload>>,
    pub capi: Arc<View<DynamicObject>>,
    pub azure: Arc<View<DynamicObject>>,
    pub machines: Arc<View<DynamicObject>>,
    /// Names under which ignition is served.
    pub ignition: Arc<View<String>>,
    /// How large clusters are called; at most one.
    pub sizing: Arc<View<crate::sizing::Configuration>>,
    /// Rights outside of namespaces that some control plane has.
    pub roles: Arc<View<()>>,
    /// What the controller of NodePools reads.
    pub np: crate::nodepool::operate::Views,
}

fn text(o: &ObjectMeta, key: &str) -> Option<String> {
    o.annotations.as_ref()?.get(key).cloned()
}

fn space(o: &DynamicObject) -> Option<Space> {
    let left = o.data["status"]["conditions"].as_array().into_iter().flatten();
    let left = left.filter(|c| c["status"] == "True" && c["type"] != "NamespaceDeletionDiscoveryFailure");
    let left: Vec<&str> = left.filter_map(|c| c["message"].as_str()).collect();
    Some(Space {
        uid: text(&o.metadata, crate::plan::namespace::UID).and_then(|u| u.parse().ok()),
        cluster: text(&o.metadata, annotation::HOSTED_CLUSTER),
        deleting: o.metadata.deletion_timestamp.as_ref().map(|t| t.0),
        left: left.join("; "),
    })
}

fn snapshot(o: &DynamicObject) -> Option<Snapshot> {
    let done = Conditions::of(&o.data["status"]);
    let done = done.get(control_plane::etcd::backup::COMPLETED).filter(|c| c.status == Status::True)?;
    let url = o.data["status"]["snapshotURL"].as_str()?.to_owned();
    Some(Snapshot { taken: done.last_transition_time, url })
}

fn pool(o: &DynamicObject) -> Option<Pool> {
    let autoscales = !o.data["spec"]["autoScaling"].is_null();
    let part = if autoscales { "status" } else { "spec" };
    Some(Pool {
        name: o.metadata.name.clone()?,
        cluster: o.data["spec"]["clusterName"].as_str()?.to_owned(),
        autoscales,
        replicas: o.data[part]["replicas"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        deleting: o.metadata.deletion_timestamp.as_ref().map(|t| t.0),
        finalizers: o.metadata.finalizers.clone().unwrap_or_default(),
    })
}

fn mark(o: &DynamicObject) -> Option<Mark> {
    let m = &o.metadata;
    let of_plane = m.labels.as_ref().is_some_and(|l| l.contains_key(label::HOSTED_CONTROL_PLANE));
    let name = m.name.as_deref()?;
    if of_plane && !READ.contains(&name) && !BOOT.contains(&name) {
        return None;
    }
    let prefix = inputs::mark("");
    let clusters = m.annotations.iter().flatten().filter_map(|(k, _)| k.strip_prefix(&prefix));
    let clusters = clusters.map(str::to_owned).collect();
    Some(Mark { name: m.name.clone()?, version: m.resource_version.clone().unwrap_or_default(), clusters })
}

fn workload(o: &DynamicObject) -> Option<Workload> {
    let name = o.metadata.name.as_deref()?;
    if !LOOKED_AT.contains(&name) {
        return None;
    }
    let m = &o.metadata;
    let rollout = Rollout::of("Deployment", m.generation.unwrap_or(0), m.annotations.as_ref(), &o.data);
    let mut object =
        DynamicObject { types: o.types.clone(), metadata: m.clone(), data: serde_json::Value::Null };
    object.metadata.managed_fields = None;
    Some(Workload { object, rollout })
}

/// The Route of the ignition server; the management cluster's router names one that asked for no name.
pub const IGNITION: &str = "ignition-server";

fn ignition(o: &DynamicObject) -> Option<String> {
    if o.metadata.name.as_deref() != Some(IGNITION) {
        return None;
    }
    let admitted = o.data["status"]["ingress"][0]["host"].as_str();
    o.data["spec"]["host"].as_str().or(admitted).filter(|h| !h.is_empty()).map(str::to_owned)
}

fn role(o: &DynamicObject) -> Option<()> {
    o.metadata.labels.as_ref()?.get(crate::plan::access::OWNER_LABEL).map(|_| ())
}

/// The word by which those are found who name a Secret or ConfigMap.
pub(super) fn named(sort: Sort, namespace: &str, name: &str) -> String {
    format!("{sort:?}/{namespace}/{name}")
}

/// What a cluster names.
fn inputs_of(o: &DynamicObject) -> Vec<String> {
    let Ok(hc) = serde_json::to_value(o).and_then(serde_json::from_value::<HostedCluster>) else {
        return Vec::new();
    };
    let home = crate::naming::home(&hc);
    inputs::of(&hc).into_iter().map(|i| named(i.sort, home, &i.name)).collect()
}

/// Keys of clusters that are marked on a Secret or ConfigMap.
fn marked(o: &DynamicObject) -> Vec<String> {
    let namespace = o.metadata.namespace.as_deref().unwrap_or_default();
    mark(o).into_iter().flat_map(|m| m.clusters).map(|c| format!("{namespace}/{c}")).collect()
}

impl Default for Views {
    fn default() -> Views {
        Views {
            clusters: View::whole(),
            clusters_by: Index::new(inputs_of),
            planes: View::whole(),
            pools: View::new(pool),
            links: View::whole(),
            snapshots: View::new(snapshot),
            spaces: View::new(space),
            secrets: View::new(mark),
            config_maps: View::new(mark),
            secrets_by: Index::new(marked),
            config_maps_by: Index::new(marked),
            deployments: View::new(workload),
            capi: View::whole(),
            azure: View::whole(),
            machines: View::whole(),
            ignition: View::new(ignition),
            sizing: View::new(crate::sizing::Configuration::keep),
            roles: View::new(role),
            np: Default::default(),
        }
    }
}

impl Views {
    /// Pools of a cluster.
    pub fn pools_of(&self, namespace: &str, cluster: &str) -> Vec<Arc<Pool>> {
        let places = self.np.of_cluster(namespace, cluster);
        let found = places.iter().filter_map(|(ns, name)| self.pools.get(ns, name));
        // It may have changed hands in between.
        found.filter(|p| p.cluster == cluster).collect()
    }

    pub fn mark(&self, sort: Sort, namespace: &str, name: &str) -> Option<Arc<Mark>> {
        match sort {
            Sort::Secret => self.secrets.get(namespace, name),
            Sort::ConfigMap => self.config_maps.get(namespace, name),
        }
    }

    /// Everything in a namespace that is marked as used by a cluster.
    pub fn marked(&self, namespace: &str, cluster: &str) -> Vec<(Sort, String)> {
        let key = format!("{namespace}/{cluster}");
        let of = |sort: Sort, index: &Index| index.get(&key).into_iter().map(move |(_, name)| (sort, name));
        of(Sort::Secret, &self.secrets_by).chain(of(Sort::ConfigMap, &self.config_maps_by)).collect()
    }

    pub fn rollout(&self, namespace: &str, name: &str) -> Rollout {
        self.deployments.get(namespace, name).map(|w| w.rollout.clone()).unwrap_or_default()
    }
}

/// The clusters that a Secret or ConfigMap concerns.
pub fn concerned(
    o: &DynamicObject,
    sort: Sort,
    clusters_by: &Index,
    planes: &View<DynamicObject>,
    keys: &mut Keys,
) {
    keys.annotated(o, annotation::HOSTED_CLUSTER);
    let m = &o.metadata;
    let (namespace, name) =
        (m.namespace.as_deref().unwrap_or_default(), m.name.as_deref().unwrap_or_default());
    if sort == Sort::Secret && READ.contains(&name) {
        for plane in planes.within(namespace) {
            keys.annotated(&plane, annotation::HOSTED_CLUSTER);
        }
    }
    for (namespace, cluster) in clusters_by.get(&named(sort, namespace, name)) {
        keys.object(&namespace, &cluster);
    }
}
