//! OpenShift's own kinds, as far as a hosted control plane reads or writes them.
//!
//! They live in guests of many releases, so the types are open: what is not named is carried (`other`), and words
//! that a release may add to are text, not enums.

pub mod cluster_version;
pub mod config;
pub mod config_specs;
pub mod route;

pub use cluster_version::{ClusterOperator, ClusterOperatorStatus, ClusterVersion, ClusterVersionSpec};
pub use config::{Build, DNS, ImageDigestMirrorSet, Infrastructure};
pub use config_specs::{
    APIServer, Authentication, FeatureGate, Image, Ingress, Network, OAuth, OperatorHub, Proxy, Scheduler,
};
pub use route::{Route, RouteSpec, RouteStatus};
