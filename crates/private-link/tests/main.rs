//! Private links against a management cluster and an Azure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::large_futures, reason = "tests")]

mod killed;
mod life;
mod world;
