//! The Azure prerequisites of a hosted cluster: groups, network, DNS, load balancer, identities and their roles.
//!
//! What is wanted is a pure function of flags and of a few facts that were looked up ([`iam::wanted`],
//! [`infra::wanted`]): a goal of `azure::plan`, which orders it, compares it with what is there, and does every step
//! as soon as what it needs is done. This crate adds what a landing zone needs around that: looking with few calls
//! ([`survey`]), patience with what Azure takes its time over ([`patience`]), rights checked before anything is
//! written ([`rights`]), and the way back ([`destroy`]).
//!
//! Nothing is recorded anywhere but in Azure: what takes tags carries the mark of [`names`], what does not has a name
//! that follows from the cluster's. A run that was killed is continued by running again, and any machine can destroy.
//!
//! Rejected: a state file (it is lost, and then everything is), deployments (ARM templates: they cannot be resumed),
//! undoing after a failure (what was made is what the next run keeps).

pub mod destroy;
pub mod doctor;
mod error;
pub mod extras;
pub mod iam;
pub mod identities;
pub mod infra;
pub mod issuer;
pub mod managed;
pub mod me;
pub mod names;
pub mod output;
pub mod patience;
pub mod picture;
pub mod rights;
pub mod roles;
pub mod run;
pub mod survey;
pub mod times;

pub use error::{Advice, Error, advice};
pub use names::{Cluster, MadeBy};
