//! A hosted cluster: flags and files become a HostedCluster, the secrets it names, and node pools.

mod args;
mod check;
mod objects;
mod spec;
mod values;

pub use args::{Access, Args, Availability, OAuth, Placement};
pub use spec::encryption_key_name;

use crate::infra::Infra;
use std::fmt;

/// What the files and the account that flags name say. Read by the caller.
#[derive(Clone)]
pub struct Inputs {
    pub infra: Infra,
    pub subscription: String,
    pub tenant: String,
    pub release_image: String,
    pub pull_secret: Vec<u8>,
    /// A public key, as `authorized_keys` has it.
    pub ssh_key: Option<Vec<u8>>,
    /// The private half, if it was made for this cluster.
    pub ssh_private_key: Option<Vec<u8>>,
    pub trust_bundle: Option<String>,
    /// A list of sources and their mirrors.
    pub image_content_sources: Option<serde_json::Value>,
    /// Key of the token issuer, PEM.
    pub signing_key: Option<Vec<u8>>,
    /// Of secrets at rest, when no vault keeps the key.
    pub encryption_key: [u8; 32],
}

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs").field("infra", &self.infra.infra_id).finish_non_exhaustive()
    }
}
