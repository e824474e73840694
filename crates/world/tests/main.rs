//! The world, end to end. Modules by what is shown.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod kit;
mod life;
mod plane;
