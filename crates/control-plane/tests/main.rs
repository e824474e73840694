//! What is rendered, for whom, and that it is what OpenShift's images expect.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod certificates;
mod expected;
mod facts;
mod golden;
mod issuing;
mod keys;
mod links;
mod monitors;
mod rules;
mod running;
mod scripts;
mod world;
