//! The world, end to end. Modules by what is shown.
#![allow(clippy::unwrap_used, clippy::panic, clippy::large_futures, reason = "tests")]

mod deletion;
mod kit;
mod life;
mod plane;
mod remains;
mod upgrades;
