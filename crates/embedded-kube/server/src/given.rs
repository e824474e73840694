//! An identity that somebody else made: the keys, names and rules a hosted cluster is served under.
//!
//! Two parts of it live in different places. What a connection sees (certificates, and whose certificates are
//! believed) belongs to the socket, because each replica of an API server has its own files: see [`crate::Facing`].
//! What a token or an object means belongs to the cluster, and is here.

use crate::api_server::Error;
use crate::cluster::Cluster;
use crate::encryption::{EncryptionConfig, KmsPlugins, SealError, Sealer};
use ek_auth::oidc::JwtAuthenticator;
use ek_auth::pki::Secret;
use ek_auth::token::{self, Issuer};
use ek_store::{ClusterId, Store};
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub enum GivenError {
    #[error("cannot prepare an authority")]
    Authority(#[source] ek_auth::pki::Error),
    #[error("the service account keys cannot be used")]
    Issuer(#[source] token::Error),
    #[error("the encryption configuration cannot be used")]
    Encryption(#[source] SealError),
}

/// What a cluster is given. See the module.
pub struct Given {
    /// PEM bundle that clients inside of the cluster trust.
    pub ca_pem: String,
    /// Issuer of service-account tokens.
    pub issuer_url: String,
    /// Where the issuer's keys are published, when not under its own address.
    pub jwks_uri: Option<String>,
    /// PEM of the key that signs tokens: RSA or P-256.
    pub signing_key: Secret,
    /// PEM files of public keys that verify them.
    pub public_keys: Vec<String>,
    /// Audiences that mean this API server.
    pub audiences: Vec<String>,
    pub authenticators: Vec<JwtAuthenticator>,
    /// How objects are stored; `None` stores them as they are.
    pub encryption: Option<(EncryptionConfig, Arc<dyn KmsPlugins>)>,
}

impl Given {
    pub(crate) fn issuer(&self) -> Result<Issuer, GivenError> {
        Issuer::given(&self.issuer_url, &self.signing_key, &self.public_keys, self.jwks_uri.clone())
            .map_err(GivenError::Issuer)
    }

    pub(crate) async fn sealer(&self, store: &Store, id: &ClusterId) -> Result<Sealer, GivenError> {
        let Some((config, plugins)) = &self.encryption else { return Ok(Sealer::identity()) };
        Sealer::prepare(config, &**plugins, &store.sealed(id)).await.map_err(GivenError::Encryption)
    }
}

impl Cluster {
    pub(crate) async fn take_on(&self, given: Given) -> Result<(), Error> {
        // All of it is tried before any of it is taken.
        given.issuer()?;
        let sealer = given.sealer(&self.store, &self.id).await?;
        self.store.set_seal(Arc::new(sealer)).await.map_err(Error::Bootstrap)?;
        self.identity.replace(given)?;
        Ok(())
    }
}
