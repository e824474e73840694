//! HostedClusters in an embedded management cluster.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod begin;
mod remove;
mod samples;
mod world;
