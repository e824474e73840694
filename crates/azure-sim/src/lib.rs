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
mod planes;
mod profile;
mod provider;
mod rbac;
mod seed;
mod state;
mod target;
mod time;
mod trouble;
mod wire;
mod world;

pub use edge::{AzureSim, Config, Credentials, ProxiedProvider, StartError};
pub use entra::{FetchError, HttpsIssuers, Issuers};
pub use gateway::Limits;
pub use journal::Entry;
pub use machines::{
    Boot, BootError, Denied, Happening, Interface, Machine, MachineEvent, MachineEvents, capacity,
};
pub use memory::MemoryError;
pub use planes::contents::ContentError;
pub use planes::front_door::{Config as FrontDoor, FrontDoorError, Origin};
pub use planes::{Ask, Plane};
pub use profile::Profile;
pub use rbac::{Permission, Role};
pub use time::{Dial, MAX_SCALE, SHORTEST_TOKEN, ScaleError};
pub use trouble::{
    Answer as FaultAnswer, Due, Each, Match, PRESETS, Rule, RuleError, Stale, Then, TroubleError, When, Why,
    preset, read as read_faults,
};
pub use wire::{Call, Reply};
pub use world::{Setup, World, WorldError};

/// Fault rules as they are written in a file, with their names: what [`World::add_faults`] takes, or why not.
///
/// ```
/// let rules = azure_sim::faults! {
///     "lost" => {"match": {"method": "PUT", "nth": 1}, "then": {"drop": "after"}},
///     "slow" => {"then": {"delay": 10}},
/// }.unwrap();
/// assert_eq!(rules[1].name, "slow");
/// ```
#[macro_export]
macro_rules! faults {
    ($($name:literal => {$($rule:tt)*}),* $(,)?) => {
        $crate::read_faults(concat!("[", $crate::faults!(@list $($name {$($rule)*})*), "]").as_bytes())
    };
    (@list $name:literal {$($rule:tt)*}) => {
        concat!("{\"name\":\"", $name, "\",", stringify!($($rule)*), "}")
    };
    (@list $name:literal {$($rule:tt)*} $($more:tt)+) => {
        concat!($crate::faults!(@list $name {$($rule)*}), ",", $crate::faults!(@list $($more)+))
    };
}

/// The page's code must compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/azure-simulator.md")]
pub struct Page;
