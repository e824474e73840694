//! The embedded Kubernetes API server.
//!
//! A library: [`ApiServer`] holds one cluster with its objects, derived state and identity, and answers
//! requests from a TLS socket ([`ApiServer::listen`]) or from the same process ([`ApiServer::client`]). Real
//! clients (kubectl, client-go, kube-rs) cannot tell it from kube-apiserver; what is not there yet is listed
//! in `docs/differences.md`.
//!
//! ```text
//! http (hyper) ─┐
//! in process ───┼─> pipeline: who → what → may it → verbs: decode → prepare → admission → store
//!               └─<─ wire: JSON | YAML | Table | PartialObjectMetadata ◄── object bytes
//! ```
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use ek_server::{ApiServer, Config};
//! use k8s_openapi::api::core::v1::Namespace;
//! use kube::api::{Api, ListParams};
//!
//! let server = ApiServer::start(Config::memory()).await?;
//! let namespaces: Api<Namespace> = Api::all(server.client());
//! assert_eq!(namespaces.list(&ListParams::default()).await?.items.len(), 4);
//! server.stop().await;
//! # Ok(()) }
//! ```
//!
//! * [`wire`] knows HTTP and bytes, `verbs` what requests do, [`registry`] what is served, `crd` how custom
//!   resources come to be served, `admission` what may be stored, `identity` and `rbac` who may ask.
//! * Everything about schemas, merging, protobuf, tokens and storage lives in the crates below this one and
//!   is pure; this crate is the IO around them.

mod access;
mod admin;
mod admission;
mod allocate;
mod api_server;
mod audit;
mod authorizers;
mod bootstrap;
mod client;
mod cluster;
mod convert;
mod crd;
mod discovery;
mod door;
mod encryption;
mod fetch;
mod given;
mod health;
mod host;
mod identity;
mod jsonpath;
mod keys;
mod lifecycle;
mod listen;
mod meta_rules;
mod metrics;
mod openapi;
mod pipeline;
mod pods;
mod present;
mod rbac;
pub mod registry;
mod route;
mod select;
mod serving;
mod verbs;
mod version;
pub mod wire;

pub use access::{Access, Deletion, parse, shared};
pub use admission::{NoServices, ServiceResolver};
pub use api_server::{ApiServer, Config, Error, Storage, write_private};
pub use client::LocalService;
pub use door::{Door, Facing, FacingError, FrontProxyConfig, Served};
pub use encryption::{
    ConfigError as EncryptionError, Encryption, EncryptionConfig, Kms, KmsPlugins, NoKms, SealError, Sealer,
};
pub use fetch::{Connection, connect_loopback};
pub use given::{Given, GivenError};
pub use host::{ClusterConfig, DOMAIN, Host, HostConfig, MAIN};
pub use identity::{HttpKeys, KeySource, NoKeys};
pub use listen::Listening;
pub use pods::{ContainerAt, Log, LogLine, NoPods, PodRuntime, Stdio};
