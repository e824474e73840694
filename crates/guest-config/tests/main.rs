//! The config operator between a management cluster and a guest, both embedded.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cleanup;
mod commands;
mod golden;
mod keeping;
mod reencryption;
mod reporting;
mod world;
