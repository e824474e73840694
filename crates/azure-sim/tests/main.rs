//! The simulator as its clients see it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod client;
mod data;
mod deployments;
mod deterministic;
mod edge;
mod faults;
mod federated;
mod gateway;
mod graph;
mod happenings;
mod imds;
mod issuer;
mod junk;
mod machines;
mod memory;
mod private_link;
mod provider;
mod recorded;
mod roles;
mod shapes;
mod support;
mod trouble;
