//! The ignition server: what a machine is, for those that have just booted.
//!
//! A node's VM carries a stub that says where to fetch the rest, and a token. The rest is the payload: an Ignition
//! config with everything that makes a machine a node of one hosted cluster. It holds credentials, so it is given to
//! whoever shows a token that lies in a Secret of the control plane's namespace, and to nobody else.
//!
//! ```text
//! NodePool controller ──> Secret token-<pool>-<hash> ──watch──> [`operate`] ──> payload ──> [`cache`]
//!                              ▲ token, old_token (rotation), reason, message,   │             │
//!                              └ payload (InPlace), ignition-reached ◄───────────┘             ▼
//! machine ── GET /ignition, Bearer base64(token) ──TLS──> [`server`] ── 401 │ 511 │ 200 Ignition config
//! ```
//!
//! * [`token`]: what a token Secret says, and what is to be done with it next; pure.
//! * [`checks`]: whether the cluster still is what the Secret was made for.
//! * [`provider`]: who makes payloads. [`render`] is ours; [`command`] runs somebody else's.
//! * [`operate`]: the controller; [`server`]: the port; [`args`]: flags.
//!
//! Nothing is polled: Secrets are followed by their metadata (no secret travels in that watch), and read when they
//! change. A token is held as its digest only. A payload lies in memory once per Secret, however many machines ask.
//!
//! It may touch the Secrets, ConfigMaps and HostedControlPlane of one namespace. It knows no Azure, and it does not run
//! what a release's images hold; what real RHCOS needs of those is in `docs/differences.md`.

#![forbid(unsafe_code)]

pub mod args;
pub mod cache;
pub mod checks;
pub mod command;
pub mod data;
pub mod metrics;
pub mod names;
pub mod operate;
pub mod provider;
pub mod render;
pub mod server;
pub mod token;

pub use args::Args;
pub use operate::{Setup, start};
pub use provider::{Ask, PayloadProvider, Refused, Release, Releases};
pub use server::{Certificate, serve};
