//! Controllers against a real API server in the same process, on a clock that the tests move.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod certificates;
mod daemons;
mod deployments;
mod garbage;
mod jobs;
mod leaks;
mod limits;
mod load;
mod model;
mod nodes;
mod restart;
mod scheduling;
mod services;
mod stateful;
mod volumes;
mod world;
