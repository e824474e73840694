//! What the operator says of HostedClusters and NodePools **before** they are stored, if an installation asks for it.
//!
//! ```text
//!  kubectl ──> API server ──AdmissionReview, TLS──> Service operator:443 ──> any replica, leading or not
//!                  ▲                                                            │
//!                  └── caBundle in configurations ◀── controller ◀── Secret manager-serving-cert
//! ```
//!
//! * [`fill`]: what is left out and can be known. A HostedCluster without a release gets the newest supported one, and one
//!   without an opinion on node ranges gets `allocateNodeCIDRs: Disabled`; a NodePool gets its cluster's release.
//! * [`judge`]: what the operator would refuse as `ValidConfiguration=False` is refused here, with the same words, as far
//!   as the object alone shows it. An object that was wrong before may stay so: who mends one thing need not mend all.
//! * [`certificate`]: one Secret for all replicas, and the authority in the webhook configurations.
//! * [`server`]: the port.
//!
//! Everything that is decided is decided by pure functions; the rest carries. It may touch the management cluster's API and
//! a [`Source`] of releases. Nothing depends on webhooks: definitions (CEL) hold without them, and the operator says the same
//! in conditions.
//!
//! Rejected: certificates from a mounted Secret, as upstream has them. Kubelets take a minute to bring a new one, and a new
//! installation would wait for its own operator; it is read through the API, at once.

#![forbid(unsafe_code)]

pub mod certificate;
pub mod fill;
pub mod judge;
pub mod review;
pub mod server;

pub use certificate::{Keeper, Setup, start};
pub use server::{Desk, serve};

use futures::future::BoxFuture;

/// The Service through which the API server comes.
pub const SERVICE: &str = "operator";
/// The Secret with the certificate.
pub const SECRET: &str = "manager-serving-cert";
/// What both configurations are called.
pub const CONFIGURATION: &str = "hypershift.openshift.io";
/// Where replicas listen.
pub const PORT: u16 = 9443;

/// Paths, as installations write them.
pub mod path {
    pub const FILL_CLUSTER: &str = "/mutate-hypershift-openshift-io-v1beta1-hostedcluster";
    pub const FILL_POOL: &str = "/mutate-hypershift-openshift-io-v1beta1-nodepool";
    pub const JUDGE_CLUSTER: &str = "/validate-hypershift-openshift-io-v1beta1-hostedcluster";
    pub const JUDGE_POOL: &str = "/validate-hypershift-openshift-io-v1beta1-nodepool";
}

/// Who knows the newest release.
pub trait Source: Send + Sync + 'static {
    /// Its image; or why nobody can say, for the user.
    fn newest(&self) -> BoxFuture<'_, Result<String, String>>;
}
