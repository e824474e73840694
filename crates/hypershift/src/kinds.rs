//! The kinds that are read and written.

use k8s_openapi::api as k8s;
use reconcile::Kind;

const GROUP: &str = "hypershift.openshift.io";
const MACHINES: &str = "cluster.x-k8s.io";
const AZURE_MACHINES: &str = "infrastructure.cluster.x-k8s.io";

pub const CLUSTER: Kind = Kind::new(GROUP, "v1beta1", "HostedCluster", "hostedclusters");
pub const PLANE: Kind = Kind::new(GROUP, "v1beta1", "HostedControlPlane", "hostedcontrolplanes");
pub const POOL: Kind = Kind::new(GROUP, "v1beta1", "NodePool", "nodepools");
pub const COMPONENT: Kind = Kind::new(GROUP, "v1beta1", "ControlPlaneComponent", "controlplanecomponents");
pub const LINK: Kind = Kind::new(GROUP, "v1beta1", "AzurePrivateLinkService", "azureprivatelinkservices");
pub const BACKUP: Kind = Kind::new(GROUP, "v1beta1", "HCPEtcdBackup", "hcpetcdbackups");
pub const SIZING: Kind = Kind::new(
    "scheduling.hypershift.openshift.io",
    "v1alpha1",
    "ClusterSizingConfiguration",
    "clustersizingconfigurations",
)
.cluster_wide();
pub const CAPI_CLUSTER: Kind = Kind::new(MACHINES, "v1beta1", "Cluster", "clusters");
pub const MACHINE: Kind = Kind::new(MACHINES, "v1beta1", "Machine", "machines");
pub const MACHINE_DEPLOYMENT: Kind =
    Kind::new(MACHINES, "v1beta1", "MachineDeployment", "machinedeployments");
pub const MACHINE_SET: Kind = Kind::new(MACHINES, "v1beta1", "MachineSet", "machinesets");
pub const MACHINE_CHECK: Kind = Kind::new(MACHINES, "v1beta1", "MachineHealthCheck", "machinehealthchecks");
pub const AZURE_TEMPLATE: Kind =
    Kind::new(AZURE_MACHINES, "v1beta1", "AzureMachineTemplate", "azuremachinetemplates");
pub const AZURE_CLUSTER: Kind = Kind::new(AZURE_MACHINES, "v1beta1", "AzureCluster", "azureclusters");
pub const AZURE_IDENTITY: Kind =
    Kind::new(AZURE_MACHINES, "v1beta1", "AzureClusterIdentity", "azureclusteridentities");
pub const AZURE_MACHINE: Kind = Kind::new(AZURE_MACHINES, "v1beta1", "AzureMachine", "azuremachines");
pub const PROVIDER_CLASS: Kind =
    Kind::new("secrets-store.csi.x-k8s.io", "v1", "SecretProviderClass", "secretproviderclasses");
pub const ROUTE: Kind = Kind::new("route.openshift.io", "v1", "Route", "routes");
pub const POD_MONITOR: Kind = Kind::new("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors");

pub const NAMESPACE: Kind = Kind::of_cluster::<k8s::core::v1::Namespace>();
pub const SECRET: Kind = Kind::of::<k8s::core::v1::Secret>();
pub const CONFIG_MAP: Kind = Kind::of::<k8s::core::v1::ConfigMap>();
pub const SERVICE: Kind = Kind::of::<k8s::core::v1::Service>();
pub const DEPLOYMENT: Kind = Kind::of::<k8s::apps::v1::Deployment>();
pub const CLUSTER_ROLE: Kind = Kind::of_cluster::<k8s::rbac::v1::ClusterRole>();
pub const CLUSTER_ROLE_BINDING: Kind = Kind::of_cluster::<k8s::rbac::v1::ClusterRoleBinding>();

/// What a component brings with it.
pub const ACCESS: [Kind; 3] = [
    Kind::of::<k8s::core::v1::ServiceAccount>(),
    Kind::of::<k8s::rbac::v1::Role>(),
    Kind::of::<k8s::rbac::v1::RoleBinding>(),
];

/// What the shared ingress has in its namespace, besides its configuration.
pub const INGRESS: [Kind; 4] = [
    SERVICE,
    DEPLOYMENT,
    Kind::of::<k8s::policy::v1::PodDisruptionBudget>(),
    Kind::of::<k8s::networking::v1::NetworkPolicy>(),
];

/// Kinds of others that are written where the management cluster serves them.
pub const SERVED: [Kind; 10] = [
    CAPI_CLUSTER,
    AZURE_CLUSTER,
    AZURE_IDENTITY,
    PROVIDER_CLASS,
    POD_MONITOR,
    PLANE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    MACHINE_CHECK,
    AZURE_TEMPLATE,
];
