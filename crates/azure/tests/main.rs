//! The contract suite: what we expect of Azure, asked over real sockets.
//!
//! It runs against a simulator of its own unless told otherwise: `ZAFFRE_CONTRACT=azure` takes cloud, credential and
//! subscription from the environment as any program would (`docs/azure-client.md`), works in resource groups named
//! `zaffre-contract-…` in `ZAFFRE_CONTRACT_LOCATION` (default `westus2`), and deletes them. Tests that need to
//! break things (`faults`, most of `credentials`) always use servers of their own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "what was skipped is said")]

mod blobs;
mod credentials;
mod etags;
mod examples;
mod faults;
mod graph;
mod identities;
mod images;
mod machines;
mod operations;
mod planning;
mod recorded;
mod registries;
mod server;
mod support;
mod templates;
mod trouble;
mod trouble_data;
mod types;
mod vaults;
