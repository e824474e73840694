//! The world, end to end. Modules by what is shown.
#![allow(clippy::unwrap_used, clippy::panic, clippy::large_futures, reason = "tests")]

mod authorities;
mod backups;
mod battered;
mod deletion;
mod external;
mod kit;
mod kms;
mod lasting;
mod life;
mod nodepools;
mod plane;
mod pools;
mod refused;
mod remains;
mod tools;
mod upgrades;
