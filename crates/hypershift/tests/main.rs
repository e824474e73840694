//! HostedClusters in an embedded management cluster.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod azure;
mod begin;
mod explained;
mod hashes;
mod invalid;
mod measured;
mod objects;
mod pools;
mod pools_golden;
mod pools_killed;
mod pools_room;
mod pools_told;
mod pools_tuned;
mod remove;
mod rights;
mod samples;
mod settled;
mod shared_ingress;
mod sizes;
mod world;
