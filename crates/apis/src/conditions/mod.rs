//! Condition types and reasons: the words in which controllers tell each other, and users, how things are.
//!
//! Programs compare these, so they are constants and spelled as upstream spells them, mistakes included. Messages
//! are free text and say what to do. Functions on lists of conditions are in
//! `reconcile::conditions`.

pub mod hosted_cluster;
pub mod node_pool;
pub mod reason;

/// Conditions of a ControlPlaneComponent.
pub mod component {
    /// It serves.
    pub const AVAILABLE: &str = "Available";
    /// All its replicas are of the wanted version.
    pub const ROLLOUT_COMPLETE: &str = "RolloutComplete";
}

/// Conditions of an AzurePrivateLinkService; the HostedCluster has them too.
pub mod private_link {
    pub const AVAILABLE: &str = "AzurePrivateLinkServiceAvailable";
    pub const PLS_CREATED: &str = "AzurePLSCreated";
    pub const INTERNAL_LOAD_BALANCER_AVAILABLE: &str = "AzureInternalLoadBalancerAvailable";
    pub const PRIVATE_ENDPOINT_AVAILABLE: &str = "AzurePrivateEndpointAvailable";
    pub const PRIVATE_DNS_AVAILABLE: &str = "AzurePrivateDNSAvailable";
    pub const ALL: &[&str] = &[
        AVAILABLE,
        PLS_CREATED,
        INTERNAL_LOAD_BALANCER_AVAILABLE,
        PRIVATE_ENDPOINT_AVAILABLE,
        PRIVATE_DNS_AVAILABLE,
    ];
}
