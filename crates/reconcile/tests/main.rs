//! Controllers against a whole API server in process, with every request counted. One binary, so that the server is
//! linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod apply;
mod leases;
mod prune;
mod running;
mod status;
mod world;
