//! Landing zones on a simulated Azure: made, kept, changed, broken off, continued, taken away.

#![allow(clippy::unwrap_used, clippy::panic, clippy::large_futures, reason = "a test fails by panicking")]

mod adversarial;
mod bad_day;
mod bad_day_shared;
mod doctor;
mod golden;
mod issuer;
mod life;
mod managed;
mod oidc;
mod support;
mod working;
mod young_role;
