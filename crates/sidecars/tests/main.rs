//! The sidecars against an API server of our own, over real sockets, with a clock that moves when it is told to.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod minter;
mod prober;
mod support;
