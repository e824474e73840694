//! An identity that somebody else made: the keys, names and rules a hosted cluster is served under.
//!
//! Two parts of it live in different places. What a connection sees (certificates, and whose certificates are
//! believed) belongs to the socket, because each replica of an API server has its own files: see [`crate::Facing`].
//! What a token or an object means belongs to the cluster, and is here.

use crate::api_server::Error;
use crate::cluster::Cluster;
use crate::encryption::{Encryption, SealError, Sealer};
use arc_swap::ArcSwapOption;
use ek_auth::oidc::JwtAuthenticator;
use ek_auth::pki::Secret;
use ek_auth::token::{self, Issuer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    pub encryption: Option<Encryption>,
}

impl Given {
    pub(crate) fn issuer(&self) -> Result<Issuer, GivenError> {
        Issuer::given(&self.issuer_url, &self.signing_key, &self.public_keys, self.jwks_uri.clone())
            .map_err(GivenError::Issuer)
    }

    fn needs_kms(&self) -> bool {
        self.encryption.as_ref().is_some_and(Encryption::needs_kms)
    }
}

/// The keys that a cluster's objects are stored under, as far as they are here.
#[derive(Default)]
pub(crate) struct Keys {
    /// What is in use, once it is complete.
    sealer: ArcSwapOption<Sealer>,
    /// Whoever gets keys waits for nobody; whoever takes them into use does.
    taking: tokio::sync::Mutex<()>,
    /// Readers of everything have been told of the cluster. They are not while part of it cannot be read.
    pub(crate) told: AtomicBool,
}

impl Cluster {
    /// What a cluster begins with: everything, or, where keys are another's, all but those.
    pub(crate) async fn begin_sealed(&self, encryption: Option<&Encryption>) -> Result<(), Error> {
        match encryption.filter(|e| e.needs_kms()) {
            Some(e) => self.shut(e, "its keys have not been asked for yet").await,
            None => self.bring_keys(encryption).await,
        }
    }

    /// Takes on all that can be had at once; the keys of a KMS are brought by whoever asks it ([`Cluster::bring_keys`]).
    pub(crate) async fn take_on(&self, given: Given) -> Result<(), Error> {
        // All of it is tried before any of it is taken.
        given.issuer()?;
        if !given.needs_kms() {
            self.bring_keys(given.encryption.as_ref()).await?;
        }
        self.identity.replace(given)?;
        Ok(())
    }

    /// Takes on another identity, and other encryption with its keys.
    pub(crate) async fn take_all_on(&self, given: Given) -> Result<(), Error> {
        given.issuer()?;
        self.bring_keys(given.encryption.as_ref()).await?;
        self.identity.replace(given)?;
        Ok(())
    }

    async fn shut(&self, encryption: &Encryption, why: &str) -> Result<(), Error> {
        let shut = Sealer::shut(&encryption.config, why).map_err(GivenError::Encryption)?;
        self.store.set_seal(Arc::new(shut)).await.map_err(Error::Bootstrap)
    }

    /// Gets the keys of a configuration and uses them. If they cannot be had, those in use stay; where there are none,
    /// whoever needs one is told why.
    pub(crate) async fn bring_keys(&self, encryption: Option<&Encryption>) -> Result<(), Error> {
        let made = match encryption {
            None => Ok(Sealer::identity()),
            Some(e) => Sealer::prepare(&e.config, &*e.plugins, &self.store.sealed(&self.id)).await,
        };
        let _one = self.keys.taking.lock().await;
        match (made, encryption) {
            (Ok(sealer), _) => {
                let sealer = Arc::new(match &*self.keys.sealer.load() {
                    Some(before) => sealer.inherit(before),
                    None => sealer,
                });
                self.store.set_seal(sealer.clone()).await.map_err(Error::Bootstrap)?;
                self.keys.sealer.store(Some(sealer));
                Ok(())
            }
            (Err(e), Some(encryption)) if self.keys.sealer.load().is_none() => {
                self.shut(encryption, &e.to_string()).await?;
                Err(GivenError::Encryption(e).into())
            }
            (Err(e), _) => Err(GivenError::Encryption(e).into()),
        }
    }

    /// Whether everything that is stored can be read, as far as keys go.
    pub(crate) fn has_keys(&self) -> bool {
        self.keys.sealer.load().is_some()
    }

    pub(crate) fn is_told(&self) -> bool {
        self.keys.told.load(Ordering::Acquire)
    }
}
