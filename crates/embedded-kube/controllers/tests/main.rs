//! Controllers against a real API server in the same process, on a clock that the tests move.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod deployments;
mod garbage;
mod jobs;
mod certificates;
mod nodes;
mod daemons;
mod scheduling;
mod services;
mod stateful;
mod limits;
mod volumes;
mod world;
