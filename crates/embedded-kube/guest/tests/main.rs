//! Hosted control planes, whole: pods, Services, volumes, TLS.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod certificates;
mod data;
mod encrypted;
mod kit;
mod many;
mod members;
mod pki;
mod routing;
mod signers;
