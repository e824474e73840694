//! The ignition server against an embedded API server and a real TLS client.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod commands;
mod stage;
mod tokens;
