//! Keys of annotations, labels and finalizers.

/// Annotations.
pub mod annotation {
    /// On children: `<namespace>/<name>` of the HostedCluster.
    pub const HOSTED_CLUSTER: &str = "hypershift.openshift.io/cluster";
    /// On children of a NodePool: `<namespace>/<name>` of it.
    pub const NODE_POOL: &str = "hypershift.openshift.io/nodePool";
    /// Prefix; `<prefix>/<cluster>: "true"` on what a user gave to a cluster.
    pub const REFERENCED_RESOURCE_PREFIX: &str = "referenced-resource.hypershift.openshift.io";
    /// SHA-256 of what we want an object to be; upstream's way to skip writes.
    pub const DESIRED_STATE_HASH: &str = "hypershift.openshift.io/desired-state-hash";
    /// Set to "true" at the first Available.
    pub const HAS_BEEN_AVAILABLE: &str = "hypershift.openshift.io/HasBeenAvailable";
    /// Which operator of several takes a cluster.
    pub const SCOPE: &str = "hypershift.openshift.io/scope";
    pub const SKIP_RELEASE_IMAGE_VALIDATION: &str = "hypershift.openshift.io/skip-release-image-validation";
    /// A release image that is rolled out in spite of the gates.
    pub const FORCE_UPGRADE_TO: &str = "hypershift.openshift.io/force-upgrade-to";
    pub const CONTROL_PLANE_OPERATOR_IMAGE: &str = "hypershift.openshift.io/control-plane-operator-image";
    pub const CONTROL_PLANE_OPERATOR_IMAGE_LABELS: &str =
        "hypershift.openshift.io/control-plane-operator-image-labels";
    /// `name=image` with commas between.
    pub const IMAGE_OVERRIDES: &str = "hypershift.openshift.io/image-overrides";
    pub const CAPI_PROVIDER_AZURE_IMAGE: &str = "hypershift.openshift.io/capi-provider-azure-image";
    pub const CAPI_MANAGER_IMAGE: &str = "hypershift.openshift.io/capi-manager-image";
    pub const CLUSTER_AUTOSCALER_IMAGE: &str = "hypershift.openshift.io/cluster-autoscaler-image";
    /// A new value restarts the control plane.
    pub const RESTART_DATE: &str = "hypershift.openshift.io/restart-date";
    /// "true": deletion removes what the guest made in Azure.
    pub const CLEANUP_CLOUD_RESOURCES: &str = "hypershift.openshift.io/cleanup-cloud-resources";
    /// How long a destroyed cluster stays, as a Go duration.
    pub const DESTROY_GRACE_PERIOD: &str = "hypershift.openshift.io/destroy-grace-period";
    pub const DISABLE_PKI_RECONCILIATION: &str = "hypershift.openshift.io/disable-pki-reconciliation";
    pub const DISABLE_PROFILING: &str = "hypershift.openshift.io/disable-profiling";
    pub const DISABLE_MACHINE_MANAGEMENT: &str = "hypershift.openshift.io/disable-machine-management";
    pub const DISABLE_IGNITION_SERVER: &str = "hypershift.openshift.io/disable-ignition-server";
    /// "true" when no node pool scales by itself.
    pub const DISABLE_CLUSTER_AUTOSCALER: &str = "hypershift.openshift.io/disable-cluster-autoscaler";
    pub const POD_SECURITY_ADMISSION_LABEL_OVERRIDE: &str =
        "hypershift.openshift.io/pod-security-admission-label-override";
    /// `dedicated-request-serving-components`.
    pub const TOPOLOGY: &str = "hypershift.openshift.io/topology";
    pub const SWIFT_POD_NETWORK_INSTANCE: &str = "hypershift.openshift.io/swift-pod-network-instance";
    /// `shared` or `servicenodeport`.
    pub const AZURE_LOAD_BALANCER_HEALTH_PROBE_MODE: &str =
        "hypershift.openshift.io/azure-load-balancer-health-probe-mode";
    pub const SHARED_LOAD_BALANCER_HEALTH_PROBE_PATH: &str =
        "hypershift.openshift.io/shared-load-balancer-health-probe-path";
    pub const SHARED_LOAD_BALANCER_HEALTH_PROBE_PORT: &str =
        "hypershift.openshift.io/shared-load-balancer-health-probe-port";
    pub const MACHINE_HEALTH_CHECK_TIMEOUT: &str = "hypershift.openshift.io/machine-health-check-timeout";
    pub const MACHINE_HEALTH_CHECK_NODE_STARTUP_TIMEOUT: &str =
        "hypershift.openshift.io/machine-health-check-node-startup-timeout";
    pub const MACHINE_HEALTH_CHECK_MAX_UNHEALTHY: &str =
        "hypershift.openshift.io/machine-health-check-max-unhealthy";
    pub const KUBE_APISERVER_GOGC: &str = "hypershift.openshift.io/kube-apiserver-gogc";
    pub const KUBE_APISERVER_GOMEMLIMIT: &str = "hypershift.openshift.io/kube-apiserver-gomemlimit";
    pub const KUBE_APISERVER_MAX_REQUESTS_INFLIGHT: &str =
        "hypershift.openshift.io/kube-apiserver-max-requests-inflight";
    pub const KUBE_APISERVER_MAX_MUTATING_REQUESTS_INFLIGHT: &str =
        "hypershift.openshift.io/kube-apiserver-max-mutating-requests-inflight";
    pub const KUBE_APISERVER_VERBOSITY_LEVEL: &str = "hypershift.openshift.io/kube-apiserver-verbosity-level";
    pub const KUBE_APISERVER_GOAWAY_CHANCE: &str = "hypershift.openshift.io/kube-apiserver-goaway-chance";
    pub const KUBE_APISERVER_SERVICE_ACCOUNT_TOKEN_MAX_EXPIRATION: &str =
        "hypershift.openshift.io/kube-apiserver-service-account-token-max-expiration";
    pub const CONTROL_PLANE_PRIORITY_CLASS: &str = "hypershift.openshift.io/control-plane-priority-class";
    pub const API_CRITICAL_PRIORITY_CLASS: &str = "hypershift.openshift.io/api-critical-priority-class";
    pub const ETCD_PRIORITY_CLASS: &str = "hypershift.openshift.io/etcd-priority-class";
    /// The size that a cluster is to have, whatever its number of nodes.
    pub const CLUSTER_SIZE_OVERRIDE: &str = "hypershift.openshift.io/cluster-size-override";
    /// "true" on a cluster that has what follows from its size.
    pub const CLUSTER_SCHEDULED: &str = "hypershift.openshift.io/cluster-scheduled";
    /// Ours: the annotations that a cluster has because of its size, with commas between; they go when the size does.
    pub const SIZE_EFFECTS: &str = "zaffre.io/size-effects";
    pub const SKIP_DELETE_CONTROL_PLANE_NAMESPACE: &str =
        "hypershift.openshift.io/skip-delete-hosted-controlplane-namespace";
    pub const SKIP_KAS_CONFLICT_SAN_VALIDATION: &str =
        "hypershift.openshift.io/skip-kas-conflict-san-validation";
    pub const RESTORED_FROM_BACKUP: &str = "hypershift.openshift.io/restored-from-backup";
    /// On an empty Secret that the managed service fills (ARO HCP).
    pub const HOSTED_CLUSTER_SOURCED: &str = "hypershift.openshift.io/hosted-cluster-sourced";
    /// The cluster's id in ARM; copied to its namespace.
    pub const AZURE_RESOURCE_ID: &str = "azure.microsoft.com/hcp-cluster-azure-resource-id";
    /// Prefix; overrides of identity providers.
    pub const IDP_OVERRIDES_PREFIX: &str = "idpoverrides.hypershift.openshift.io/";
    /// Prefix; `<deployment>.<container>` follows.
    pub const RESOURCE_REQUEST_OVERRIDE_PREFIX: &str = "resource-request-override.hypershift.openshift.io";
    /// Cluster API: stop.
    pub const CAPI_PAUSED: &str = "cluster.x-k8s.io/paused";
    /// Cluster API: somebody else keeps this infrastructure.
    pub const CAPI_MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
    pub const AUTOSCALER_MIN_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
    pub const AUTOSCALER_MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    /// On a NodePool and its machines: what they have now, and what they should have.
    pub const NODE_POOL_CURRENT_CONFIG: &str = "hypershift.openshift.io/nodePoolCurrentConfig";
    pub const NODE_POOL_CURRENT_CONFIG_VERSION: &str = "hypershift.openshift.io/nodePoolCurrentConfigVersion";
    pub const NODE_POOL_TARGET_CONFIG_VERSION: &str = "hypershift.openshift.io/nodePoolTargetConfigVersion";
    pub const NODE_POOL_PLATFORM_MACHINE_TEMPLATE: &str =
        "hypershift.openshift.io/nodePoolPlatformMachineTemplate";
    pub const NODE_POOL_MAX_UNAVAILABLE: &str = "hypershift.openshift.io/nodePoolMaxUnavailable";
    pub const NODE_POOL_TAINTS: &str = "hypershift.openshift.io/nodePoolTaints";
    /// On a MachineSet, by the guest's upgrader: what it does now, and why it cannot go on.
    pub const NODE_POOL_UPGRADE_IN_PROGRESS_TRUE: &str =
        "hypershift.openshift.io/nodePoolUpgradeInProgressTrue";
    pub const NODE_POOL_UPGRADE_IN_PROGRESS_FALSE: &str =
        "hypershift.openshift.io/nodePoolUpgradeInProgressFalse";
    /// "true" on token Secrets: the ignition server serves by them.
    pub const IGNITION_CONFIG: &str = "hypershift.openshift.io/ignition-config";
    /// On token Secrets: Replace or InPlace.
    pub const NODE_POOL_UPGRADE_TYPE: &str = "hypershift.openshift.io/node-pool-upgrade-type";
    /// On token Secrets: when the token was drawn (RFC 3339).
    pub const LAST_TOKEN_GENERATION_TIME: &str = "hypershift.openshift.io/last-token-generation-time";
    /// On token Secrets, by the ignition server: "True" once somebody fetched with it.
    pub const IGNITION_REACHED: &str = "hypershift.openshift.io/ignition-reached";
    /// On token Secrets: from when they are of no use (RFC 3339).
    pub const IGNITION_TOKEN_EXPIRATION: &str = "hypershift.openshift.io/ignition-token-expiration-timestamp";
}

/// Keys of the Secrets `token-<pool>-<hash>` and `user-data-<pool>-<hash>`: what the NodePool controller and the ignition
/// server tell each other.
pub mod token {
    /// What nodes show, and what they showed before it was drawn anew.
    pub const TOKEN: &str = "token";
    pub const OLD_TOKEN: &str = "old_token";
    /// Release image, and its version.
    pub const RELEASE: &str = "release";
    pub const RELEASE_VERSION: &str = "release-version";
    /// Manifests with `---` between, gzip, then base64.
    pub const CONFIG: &str = "config";
    pub const PULL_SECRET_HASH: &str = "pull-secret-hash";
    pub const ADDITIONAL_TRUST_BUNDLE_HASH: &str = "additional-trust-bundle-hash";
    pub const CONFIGURATION_HASH: &str = "hc-configuration-hash";
    pub const CLOUD_CONFIG_HASH: &str = "cloud-config-hash";
    pub const OS_STREAM: &str = "os-stream";
    /// By the ignition server: AsExpected, or why there is no payload.
    pub const REASON: &str = "reason";
    pub const MESSAGE: &str = "message";
    /// By the ignition server, for InPlace: the payload itself.
    pub const PAYLOAD: &str = "payload";
    /// Of `user-data-…`: what the machine boots with.
    pub const VALUE: &str = "value";
    pub const DISABLE_TEMPLATING: &str = "disableTemplating";
}

/// Labels.
pub mod label {
    /// On the namespace of a control plane.
    pub const HOSTED_CONTROL_PLANE: &str = "hypershift.openshift.io/hosted-control-plane";
    /// `private` on routes of the private router.
    pub const ROUTE_VISIBILITY: &str = "hypershift.openshift.io/route-visibility";
    /// On a HostedCluster: the size it has.
    pub const HOSTED_CLUSTER_SIZE: &str = "hypershift.openshift.io/hosted-cluster-size";
    pub const INFRA_ID: &str = "hypershift.openshift.io/infra-id";
    /// Ours: on an AzurePrivateLinkService, whose names in Azure follow from it.
    pub const CLUSTER_ID: &str = "hypershift.openshift.io/cluster-id";
    pub const NODE_POOL_NAME: &str = "hypershift.openshift.io/nodepool-name";
    /// `skip` on pods that a drain leaves where they are.
    pub const POD_DRAIN: &str = "cluster.x-k8s.io/drain";
    /// Of a NodePool: its name, on ConfigMaps that it and the node tuning operator share.
    pub const NODE_POOL: &str = "hypershift.openshift.io/nodePool";
    /// "true" on ConfigMaps with Tuned manifests, and with a PerformanceProfile: for the node tuning operator.
    pub const TUNED_CONFIG: &str = "hypershift.openshift.io/tuned-config";
    pub const PERFORMANCE_PROFILE_CONFIG: &str = "hypershift.openshift.io/performanceprofile-config";
    /// "true" on ConfigMaps with what the node tuning operator made of them: manifests, and how a profile fares.
    pub const NTO_GENERATED_CONFIG: &str = "hypershift.openshift.io/nto-generated-machine-config";
    pub const NTO_GENERATED_STATUS: &str = "hypershift.openshift.io/nto-generated-performance-profile-status";
    pub const AUTO_CREATED_FOR_INFRA: &str = "hypershift.openshift.io/auto-created-for-infra";
    pub const SAFE_TO_DELETE_WITH_CLUSTER: &str = "hypershift.openshift.io/safe-to-delete-with-cluster";
    /// Prefix; mirrored from the HostedCluster.
    pub const API_OPENSHIFT_PREFIX: &str = "api.openshift.com";
    pub const CAPI_CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// Prefix; labels that machines hand to their nodes.
    pub const MANAGED_NODE_LABEL_PREFIX: &str = "managed.hypershift.openshift.io.";
}

/// Finalizers.
pub mod finalizer {
    /// On HostedCluster, HostedControlPlane and NodePool.
    pub const HYPERSHIFT: &str = "hypershift.openshift.io/finalizer";
    /// On a HostedCluster, by the command line.
    pub const DESTROY_CLUSTER: &str = "openshift.io/destroy-cluster";
    /// On the Deployments `cluster-api` and `capi-provider`.
    pub const COMPONENT: &str = "hypershift.openshift.io/component-finalizer";
    /// On AzurePrivateLinkService, by the operator.
    pub const PRIVATE_LINK_SERVICE: &str = "hypershift.openshift.io/azure-pls-cleanup";
    /// On AzurePrivateLinkService, by the control-plane operator; goes first.
    pub const PRIVATE_ENDPOINT: &str = "hypershift.openshift.io/azure-private-link-service";
    /// On HostedControlPlane, while private endpoints exist.
    pub const PRIVATE_ENDPOINT_CLEANUP: &str = "hypershift.openshift.io/azure-pls-endpoint-cleanup";
}
