//! The kinds that are read and written, and the words that Cluster API puts on them.

use k8s_openapi::api as k8s;
use reconcile::Kind;

const CORE: &str = "cluster.x-k8s.io";
const AZURE: &str = "infrastructure.cluster.x-k8s.io";

pub const CLUSTER: Kind = Kind::new(CORE, "v1beta1", "Cluster", "clusters");
pub const DEPLOYMENT: Kind = Kind::new(CORE, "v1beta1", "MachineDeployment", "machinedeployments");
pub const SET: Kind = Kind::new(CORE, "v1beta1", "MachineSet", "machinesets");
pub const MACHINE: Kind = Kind::new(CORE, "v1beta1", "Machine", "machines");
pub const CHECK: Kind = Kind::new(CORE, "v1beta1", "MachineHealthCheck", "machinehealthchecks");
pub const AZURE_CLUSTER: Kind = Kind::new(AZURE, "v1beta1", "AzureCluster", "azureclusters");
pub const AZURE_IDENTITY: Kind =
    Kind::new(AZURE, "v1beta1", "AzureClusterIdentity", "azureclusteridentities");
pub const AZURE_MACHINE: Kind = Kind::new(AZURE, "v1beta1", "AzureMachine", "azuremachines");
pub const AZURE_TEMPLATE: Kind = Kind::new(AZURE, "v1beta1", "AzureMachineTemplate", "azuremachinetemplates");

pub const SECRET: Kind = Kind::of::<k8s::core::v1::Secret>();
pub const NODE: Kind = Kind::of_cluster::<k8s::core::v1::Node>();
pub const POD: Kind = Kind::of::<k8s::core::v1::Pod>();

/// Ours, all of them.
pub const ALL: [Kind; 9] =
    [CLUSTER, DEPLOYMENT, SET, MACHINE, CHECK, AZURE_CLUSTER, AZURE_IDENTITY, AZURE_MACHINE, AZURE_TEMPLATE];

/// Finalizers, by Cluster API's names: objects can change hands between its controllers and ours.
pub mod finalizer {
    pub const CLUSTER: &str = "cluster.cluster.x-k8s.io";
    pub const DEPLOYMENT: &str = "cluster.x-k8s.io/machinedeployment";
    pub const SET: &str = "cluster.x-k8s.io/machineset";
    pub const MACHINE: &str = "machine.cluster.x-k8s.io";
    pub const AZURE_MACHINE: &str = "azuremachine.infrastructure.cluster.x-k8s.io";
}

pub mod label {
    pub const CLUSTER: &str = apis::names::label::CAPI_CLUSTER_NAME;
    pub const DEPLOYMENT: &str = "cluster.x-k8s.io/deployment-name";
    pub const SET: &str = "cluster.x-k8s.io/set-name";
    /// Tells the machines of one template from those of another.
    pub const TEMPLATE_HASH: &str = "machine-template-hash";
}

pub mod annotation {
    pub const PAUSED: &str = apis::names::annotation::CAPI_PAUSED;
    /// This one first, when there are too many.
    pub const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";
    /// This one is broken, whatever its conditions say.
    pub const REMEDIATE: &str = "cluster.x-k8s.io/remediate-machine";
    /// This one is not to be repaired.
    pub const SKIP_REMEDIATION: &str = "cluster.x-k8s.io/skip-remediation";
    pub const CLONED_FROM_NAME: &str = "cluster.x-k8s.io/cloned-from-name";
    pub const CLONED_FROM_KIND: &str = "cluster.x-k8s.io/cloned-from-groupkind";
    pub const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
    /// Ours: since when the Node of a machine that is gone is to be removed.
    pub const NODE_REMOVAL: &str = "machines.zaffre.io/node-removal-began";
    pub const EXCLUDE_DRAIN: &str = "machine.cluster.x-k8s.io/exclude-node-draining";
    pub const EXCLUDE_DETACH: &str = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach";
    /// Prefixes: as long as such an annotation is on a machine, its deletion waits.
    pub const PRE_DRAIN: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";
    pub const PRE_TERMINATE: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
    /// On nodes: whose they are.
    pub const NODE_CLUSTER: &str = "cluster.x-k8s.io/cluster-name";
    pub const NODE_NAMESPACE: &str = "cluster.x-k8s.io/cluster-namespace";
    pub const NODE_MACHINE: &str = "cluster.x-k8s.io/machine";
    pub const NODE_OWNER_KIND: &str = "cluster.x-k8s.io/owner-kind";
    pub const NODE_OWNER_NAME: &str = "cluster.x-k8s.io/owner-name";
}
