//! The config operator: what a hosted cluster has in itself because it is hosted, and what it says of itself outside.
//!
//! OpenShift in a hosted cluster finds no installer, no masters and no cloud of its own. Somebody has to write what
//! those would have: kinds, configuration (`config.openshift.io`), authorities, pull secrets, credentials, rights, the
//! agents on nodes, and policies that keep all this as the HostedCluster has it. And somebody has to carry back what
//! only the guest knows: its version, whether nodes are connected, what is left in the cloud.
//!
//! * [`facts`]: what the management cluster says; [`plan`]: what the guest should have, purely.
//! * [`operate`]: the controller between two clusters.
//! * [`nodes`]: nodes as their Machines want them, drains, upgrades in place.
//! * [`definitions`]: kinds, and the first rights; [`probe`]: who serves OpenShift's kinds.
//! * [`checker`]: the one program that runs in the guest; [`args`]: flags.
//!
//! One instance serves one guest, with a kubeconfig that is good for that guest only. What upstream's operator does and
//! this one does not is listed in `docs/differences.md`.

#![forbid(unsafe_code)]

pub mod args;
pub mod checker;
pub mod definitions;
pub mod facts;
pub mod kinds;
pub mod nodes;
pub mod operate;
pub mod plan;
pub mod probe;

pub use args::{Args, Means, run};
pub use definitions::bootstrap;
pub use facts::Told;
pub use operate::{Around, start};
