//! A guest goes through releases.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod planning;
mod releases;
