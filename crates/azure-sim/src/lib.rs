//! Azure on one machine: Resource Manager, Entra ID and Graph that unmodified clients accept.
//!
//! What happens between the sockets is a function: a request value, a state value, the time. The state is made of
//! persistent maps, so a refused request leaves nothing behind and a fork costs nothing. Clock and randomness are
//! handed in; operations end when the clock says so, looked at whenever somebody asks, so nothing runs in the
//! background and the same seed gives the same journal.
//!
//! Rejected: a route per type (ids are parsed, types are rows of a table), accepting any token (signature,
//! audience, time and role assignments are really checked), timers per operation (they make tests sleep).

mod access;
mod cidr;
mod edge;
mod entra;
mod gateway;
mod graph;
mod journal;
mod kinds;
mod machines;
mod memory;
mod outbound;
mod profile;
mod provider;
mod rbac;
mod seed;
mod state;
mod target;
mod wire;
mod world;

pub use edge::{AzureSim, Config, Credentials, ProxiedProvider, StartError};
pub use entra::{FetchError, HttpsIssuers, Issuers};
pub use gateway::Limits;
pub use journal::Entry;
pub use machines::{Boot, BootError, Happening, Interface, Machine, MachineEvent, MachineEvents};
pub use memory::MemoryError;
pub use profile::Profile;
pub use rbac::{Permission, Role};
pub use wire::{Call, Reply};
pub use world::{Setup, World, WorldError};
