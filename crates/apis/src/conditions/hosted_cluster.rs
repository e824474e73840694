//! Conditions of a HostedCluster, and those that only its HostedControlPlane has.
//!
//! Each says when it is True.

/// The API answers.
pub const AVAILABLE: &str = "Available";
/// A release is being rolled out.
pub const PROGRESSING: &str = "Progressing";
/// A component of the control plane lacks replicas.
pub const DEGRADED: &str = "Degraded";
/// The spec makes sense.
pub const VALID_CONFIGURATION: &str = "ValidConfiguration";
/// This management cluster can run it.
pub const SUPPORTED_HOSTED_CLUSTER: &str = "SupportedHostedCluster";
/// The release can be read.
pub const VALID_RELEASE_IMAGE: &str = "ValidReleaseImage";
/// The proxy's CA bundle can be read.
pub const VALID_PROXY_CONFIGURATION: &str = "ValidProxyConfiguration";
/// Not paused.
pub const RECONCILIATION_ACTIVE: &str = "ReconciliationActive";
/// The last pass had no error.
pub const RECONCILIATION_SUCCEEDED: &str = "ReconciliationSucceeded";
/// Azure identities are configured.
pub const PLATFORM_CREDENTIALS_FOUND: &str = "PlatformCredentialsFound";
/// Nodes can fetch ignition.
pub const IGNITION_ENDPOINT_AVAILABLE: &str = "IgnitionEndpointAvailable";
/// Etcd that somebody else runs answers.
pub const UNMANAGED_ETCD_AVAILABLE: &str = "UnmanagedEtcdAvailable";
/// Services of the control plane have addresses.
pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
/// Etcd has quorum.
pub const ETCD_AVAILABLE: &str = "EtcdAvailable";
/// Kube-apiserver serves.
pub const KUBE_API_SERVER_AVAILABLE: &str = "KubeAPIServerAvailable";
/// The public name resolves.
pub const EXTERNAL_DNS_REACHABLE: &str = "ExternalDNSReachable";
/// Networks and security groups fit.
pub const VALID_HOSTED_CONTROL_PLANE_CONFIGURATION: &str = "ValidHostedControlPlaneConfiguration";
/// The payload has all images.
pub const VALID_RELEASE_INFO: &str = "ValidReleaseInfo";
/// Identity providers make sense.
pub const VALID_IDP_CONFIGURATION: &str = "ValidIDPConfiguration";
/// The key can be used.
pub const VALID_AZURE_KMS_CONFIG: &str = "ValidAzureKMSConfig";
/// All data is encrypted with the active key.
pub const ETCD_DATA_ENCRYPTION_UP_TO_DATE: &str = "EtcdDataEncryptionUpToDate";
/// The guest has its resources.
pub const CONFIG_OPERATOR_RECONCILIATION_SUCCEEDED: &str = "ConfigOperatorReconciliationSucceeded";
/// The control plane reaches the nodes.
pub const DATA_PLANE_CONNECTION_AVAILABLE: &str = "DataPlaneConnectionAvailable";
/// The nodes reach the control plane.
pub const CONTROL_PLANE_CONNECTION_AVAILABLE: &str = "ControlPlaneConnectionAvailable";
/// The version operator does not fail.
pub const CLUSTER_VERSION_SUCCEEDING: &str = "ClusterVersionSucceeding";
/// The guest is changing its version.
pub const CLUSTER_VERSION_PROGRESSING: &str = "ClusterVersionProgressing";
/// The release passed its checks.
pub const CLUSTER_VERSION_RELEASE_ACCEPTED: &str = "ClusterVersionReleaseAccepted";
/// A minor upgrade is safe.
pub const CLUSTER_VERSION_UPGRADEABLE: &str = "ClusterVersionUpgradeable";
/// The guest serves its release.
pub const CLUSTER_VERSION_AVAILABLE: &str = "ClusterVersionAvailable";
/// Updates could be looked up.
pub const CLUSTER_VERSION_RETRIEVED_UPDATES: &str = "ClusterVersionRetrievedUpdates";
/// A restore is complete.
pub const HOSTED_CLUSTER_RESTORED_FROM_BACKUP: &str = "HostedClusterRestoredFromBackup";
/// The last backup worked.
pub const ETCD_BACKUP_SUCCEEDED: &str = "EtcdBackupSucceeded";
/// A lost etcd member is being replaced.
pub const ETCD_RECOVERY_ACTIVE: &str = "EtcdRecoveryActive";
/// Nodes are provisioned automatically.
pub const AUTO_NODE_ENABLED: &str = "AutoNodeEnabled";
/// Shared ingress serves the API.
pub const PUBLIC_ENDPOINT_EXPOSED: &str = "PublicEndpointExposed";
/// The guest left nothing in Azure.
pub const CLOUD_RESOURCES_DESTROYED: &str = "CloudResourcesDestroyed";
/// Only the grace period is left.
pub const HOSTED_CLUSTER_DESTROYED: &str = "HostedClusterDestroyed";
/// A size was found.
pub const CLUSTER_SIZE_COMPUTED: &str = "ClusterSizeComputed";
/// A size change waits.
pub const CLUSTER_SIZE_TRANSITION_PENDING: &str = "ClusterSizeTransitionPending";
/// A size change is due.
pub const CLUSTER_SIZE_TRANSITION_REQUIRED: &str = "ClusterSizeTransitionRequired";

/// Only on the HostedControlPlane.
pub mod control_plane {
    /// The snapshot was restored.
    pub const ETCD_SNAPSHOT_RESTORED: &str = "EtcdSnapshotRestored";
    /// The version operator stopped for deletion.
    pub const CVO_SCALED_DOWN: &str = "CVOScaledDown";
    /// The version operator fails.
    pub const CLUSTER_VERSION_FAILING: &str = "ClusterVersionFailing";
}

/// Copied from the HostedControlPlane; Unknown/StatusUnknown while it has none.
pub const MIRRORED: &[&str] = &[
    DEGRADED,
    INFRASTRUCTURE_READY,
    ETCD_AVAILABLE,
    KUBE_API_SERVER_AVAILABLE,
    EXTERNAL_DNS_REACHABLE,
    VALID_HOSTED_CONTROL_PLANE_CONFIGURATION,
    VALID_RELEASE_INFO,
    VALID_IDP_CONFIGURATION,
    CONFIG_OPERATOR_RECONCILIATION_SUCCEEDED,
    DATA_PLANE_CONNECTION_AVAILABLE,
    CONTROL_PLANE_CONNECTION_AVAILABLE,
];

/// Copied from the HostedControlPlane only when it has them.
pub const MIRRORED_IF_PRESENT: &[&str] = &[
    VALID_AZURE_KMS_CONFIG,
    ETCD_DATA_ENCRYPTION_UP_TO_DATE,
    HOSTED_CLUSTER_RESTORED_FROM_BACKUP,
    ETCD_BACKUP_SUCCEEDED,
];
