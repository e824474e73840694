//! Nodes and pods as tests and clients see them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod external;
mod kit;
mod kubectl;
mod many;
mod nodes;
mod programs;
mod protocols;
mod simulated;
mod webhook;
