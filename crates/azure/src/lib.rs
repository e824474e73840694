//! A client for Azure Resource Manager, Entra ID and Graph, and for the data planes of Key Vault, Blob storage and registries.
//!
//! From the bottom: [`Http`] sends once; [`Credential`] has tokens; [`Client`] is the pipeline (budgets, retries,
//! registration, correlation); [`Lro`] is the pure state machine of long-running operations, and [`Operation`] drives
//! it; [`Arm`] are typed operations, a row of data per type; [`plan`] says what would change before it is changed.
//! [`vault`], [`blob`] and [`oci`] are what lies behind vaults, accounts and registries.
//!
//! Nothing here knows whether it talks to Azure or to a simulator. Clock, randomness, waiting and the environment are
//! handed in.
//!
//! Rejected: `azure_mgmt_*` (abandoned, a hundred thousand lines per service) and `azure_core`'s pollers (generic
//! closures without Resource Manager's rules, which cannot be stored and resumed). For credentials see
//! [`credential`].
//!
//! See `docs/azure-client.md` for how to use it.

pub mod blob;
pub mod cloud;
mod connect;
pub mod credential;
mod env;
pub mod graph;
mod http;
pub mod lro;
pub mod oci;
pub mod openid;
pub mod ops;
mod pipeline;
pub mod plan;
mod secret;
mod timing;
pub mod vault;
mod xml;

pub use cloud::{Cloud, CloudError};
pub use connect::{ConnectError, Connected, connect};
pub use credential::{Credential, CredentialError, EntraFault};
pub use env::Env;
pub use graph::Graph;
pub use http::{Answer, Arriving, Http, HttpError, HttpOptions};
pub use lro::{Lro, Operation};
pub use ops::{Arm, ArmType, Condition, Deleted};
pub use pipeline::{
    Budget, Budgets, Call, Class, Client, ClientOptions, Door, Error, Refused, RetryPolicy, Service,
};
pub use secret::Secret;
pub use timing::{Pause, Timing};

/// The guide's code must compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/azure-client.md")]
pub struct Guide;
