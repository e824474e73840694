//! Components' identities put to use: a simulated Azure, a management cluster with nodes, and a guest that really runs.
#![allow(clippy::unwrap_used, clippy::panic, clippy::large_futures, reason = "a test fails by panicking")]

mod approver;
mod aro;
mod encrypted;
mod federated;
mod stage;

// What others have built for their tests, as it is: a guest's control plane, Azure with a landing zone, and facts.
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../../control-plane/tests/world.rs"]
mod facts;
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../../embedded-kube/guest/tests/kit.rs"]
mod kit;
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../../embedded-kube/guest/tests/pki.rs"]
mod pki;
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../../landing-zone/tests/support.rs"]
mod support;
