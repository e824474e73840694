//! The world, end to end. Modules by what is shown.
#![allow(clippy::unwrap_used, clippy::panic, clippy::large_futures, reason = "tests")]

mod attacks;
mod authorities;
mod backups;
mod battered;
mod breakglass;
mod deletion;
mod external;
mod idle;
mod interrupted;
mod kit;
mod kms;
mod lasting;
mod life;
mod nodepools;
mod outages;
mod place;
mod plane;
mod pools;
mod private;
mod refused;
mod remains;
mod road;
mod room;
mod shared;
mod tools;
mod troubled;
mod upgrades;
mod upstream;
mod webhooks;
