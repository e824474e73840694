//! HostedClusters in an embedded management cluster.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod azure;
mod begin;
mod explained;
mod invalid;
mod objects;
mod pools;
mod remove;
mod rights;
mod samples;
mod settled;
mod world;
