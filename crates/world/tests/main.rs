//! The world, end to end. Modules by what is shown.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod authorities;
mod backups;
mod kit;
mod kms;
mod life;
mod plane;
mod tools;
