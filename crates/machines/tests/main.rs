//! Machines against an embedded cluster and a simulated Azure.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails in a test fails the test")]

mod adopt;
mod drain;
mod killed;
mod life;
mod repair;
mod settled;
mod trouble;
mod ways;
mod world;
