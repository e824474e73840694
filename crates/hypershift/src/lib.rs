//! HostedClusters: from one object to a control plane in a namespace of its own, and back again.
//!
//! ```text
//! HostedCluster ─┐                     ┌─> namespace, copies, credentials
//! what it names ─┼─ observe ─> plan ───┼─> HostedControlPlane, Cluster, AzureCluster
//! release ───────┤    (validate, gate) └─> control-plane-operator, cluster-api, capi-provider
//! Azure ─────────┘                              │
//!      status, one write <── conditions <───────┘ (what the control plane reports)
//! ```
//!
//! Everything is read from views, decided by pure functions and applied where it differs; a settled cluster costs no
//! request. A cluster that is not valid is not begun, and one that runs is not touched by what became invalid later:
//! the conditions say what is wrong, and what is wrong stops what would follow from it.
//!
//! * [`inputs`]: what users give besides the object. [`validate`]: what must hold. [`preflight`]: what Azure must say.
//! * [`plan`]: the objects. [`status`]: the conditions. [`delete`]: the way back, layer by layer, each with a deadline.
//! * [`nodepool`]: NodePools of those clusters, with a controller of their own over the same views.
//! * [`ingress`]: one front door for all public clusters of the managed flavour.
//! * [`sizing`]: small, medium or large, and what follows from it.
//! * [`explain`]: the same story for people: what is ready, what waits for what, since when, what to do.
//! * [`operate`]: the controller; only there, and in [`explain::read`], a client is known.
//!
//! Which flavour of Azure identities a cluster has is read from its own spec, never from the process.
//!
//! Rejected: an operator per flavour (two of everything), and taking the process's environment as a hint (clusters of both
//! kinds live side by side, and the two could disagree).

#![forbid(unsafe_code)]

pub mod around;
pub mod delete;
pub mod explain;
pub mod ingress;
pub mod inputs;
pub mod kinds;
pub mod metrics;
pub mod naming;
pub mod nodepool;
pub mod operate;
pub mod plan;
pub mod preflight;
pub mod signing;
pub mod sizing;
pub mod status;
pub mod supported;
pub mod validate;

pub use around::{BootImage, Machinery, Management, NoRelease, Payload, Surroundings};
