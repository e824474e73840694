//! HostedClusters in an embedded management cluster.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod azure;
mod begin;
mod explained;
mod hashes;
mod invalid;
mod objects;
mod pools;
mod pools_golden;
mod pools_killed;
mod remove;
mod rights;
mod samples;
mod settled;
mod world;
