//! Sockets: one TLS listener for all virtual hosts, a CONNECT proxy, an admin port.

mod admin;
mod authority;
mod body;
mod forks;
mod http_io;
mod imds;
mod proxy;
mod start;
mod trouble;

pub use imds::machine_of;
pub use start::{AzureSim, Config, Credentials, ProxiedProvider, StartError};
