//! Conditions of a NodePool.
//!
//! Each says when it is True.

/// The autoscaler decides how many nodes there are.
pub const AUTOSCALING_ENABLED: &str = "AutoscalingEnabled";
/// The upgrade strategy makes sense.
pub const UPDATE_MANAGEMENT_ENABLED: &str = "UpdateManagementEnabled";
/// Broken nodes are replaced.
pub const AUTOREPAIR_ENABLED: &str = "AutorepairEnabled";
/// Not paused.
pub const RECONCILIATION_ACTIVE: &str = "ReconciliationActive";
/// The release can be read.
pub const VALID_RELEASE_IMAGE: &str = "ValidReleaseImage";
/// The payload has this architecture.
pub const VALID_ARCH_PLATFORM: &str = "ValidArchPlatform";
/// The machine configuration can be read.
pub const VALID_MACHINE_CONFIG: &str = "ValidMachineConfig";
/// The tuning can be read.
pub const VALID_TUNING_CONFIG: &str = "ValidTuningConfig";
/// An image was found.
pub const VALID_PLATFORM_IMAGE: &str = "ValidPlatformImage";
/// The platform accepts the settings.
pub const VALID_PLATFORM_CONFIG: &str = "ValidPlatformConfig";
/// The machine template makes sense.
pub const VALID_MACHINE_TEMPLATE: &str = "ValidMachineTemplate";
/// The ignition payload was made.
pub const VALID_GENERATED_PAYLOAD: &str = "ValidGeneratedPayload";
/// A node fetched ignition.
pub const REACHED_IGNITION_ENDPOINT: &str = "ReachedIgnitionEndpoint";
/// A version is being rolled out.
pub const UPDATING_VERSION: &str = "UpdatingVersion";
/// A configuration is being rolled out.
pub const UPDATING_CONFIG: &str = "UpdatingConfig";
/// A machine template is being rolled out.
pub const UPDATING_PLATFORM_MACHINE_TEMPLATE: &str = "UpdatingPlatformMachineTemplate";
/// The version fits the cluster's.
pub const SUPPORTED_VERSION_SKEW: &str = "SupportedVersionSkew";
/// The machines are as wanted.
pub const READY: &str = "Ready";
/// Every machine is ready.
pub const ALL_MACHINES_READY: &str = "AllMachinesReady";
/// Every node is healthy.
pub const ALL_NODES_HEALTHY: &str = "AllNodesHealthy";
/// Nodes can fetch ignition; present when they cannot.
pub const IGNITION_ENDPOINT_AVAILABLE: &str = "IgnitionEndpointAvailable";
/// A machine's address lies in the pod network; present when so.
pub const CLUSTER_NETWORK_CIDR_CONFLICT: &str = "ClusterNetworkCIDRConflict";
/// A performance profile is applied.
pub const PERFORMANCE_PROFILE_AVAILABLE: &str = "performance.operator.openshift.io/Available";
/// A performance profile is being applied.
pub const PERFORMANCE_PROFILE_PROGRESSING: &str = "performance.operator.openshift.io/Progressing";
/// A performance profile allows upgrades.
pub const PERFORMANCE_PROFILE_UPGRADEABLE: &str = "performance.operator.openshift.io/Upgradeable";
/// A performance profile failed.
pub const PERFORMANCE_PROFILE_DEGRADED: &str = "performance.operator.openshift.io/Degraded";
