//! The server's behaviour on the wire, asked as clients ask: requests by hand, exact codes, headers and
//! bodies. One binary, so that the server is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod admission;
mod api;
mod budgets;
mod clusters;
mod crds;
mod deletion;
mod discovery;
mod durability;
mod fields;
mod flow;
mod hostile;
mod identity;
mod lists;
mod negotiation;
mod objects;
mod patches;
mod policies;
mod rbac;
mod repeats;
mod subresources;
mod watches;
