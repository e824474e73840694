//! Images: any registry that speaks the OCI distribution protocol, Azure's among them.
//!
//! ```text
//! Images::new(http, timing)
//!     .logins(Logins::parse(pull_secret)?)      user names and passwords, by host and path
//!     .azure(credential, &cloud)                tokens of Entra ID, for Azure's registries only
//!     .mirrors(mirrors)                         where to look instead, or first
//! ```
//!
//! What is named by a digest is what has that digest: manifests and blobs are hashed as they arrive, and lengths are
//! bounded before they do. That is why mirrors need no trust, and why a redirect may lead anywhere (without our
//! authorization). A tag is only as good as the registry.
//!
//! A registry says with a challenge which token it wants. Passwords go to the token service that a registry names, over TLS
//! only; tokens of Entra ID are exchanged at the registry itself, and only if its host is one of the cloud's.
//!
//! Rejected: `oci-client`. It would do for pulling, but it brings a second HTTP stack (reqwest) with its own roots, proxy
//! and timeouts, knows neither Azure's exchange nor mirrors nor our retries and clock, and takes user name and password per
//! call where a pull secret has many. The protocol is six requests.

mod auth;
mod challenge;
mod digest;
mod error;
mod exchange;
mod logins;
mod manifest;
mod mirrors;
mod pull;
mod push;
mod reference;

pub use digest::{Digest, DigestError, Hasher};
pub use error::OciError;
pub use logins::{Login, Logins, LoginsError};
pub use manifest::{Descriptor, Image, Index, Manifest, Platform, Shape};
pub use mirrors::{Mirror, Mirrors};
pub use reference::{Reference, ReferenceError};

use crate::credential::Credential;
use crate::pipeline::RetryPolicy;
use crate::{Cloud, Http, Timing};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Access to registries. Clones share connections and tokens.
#[derive(Clone)]
pub struct Images {
    http: Http,
    timing: Timing,
    retry: RetryPolicy,
    logins: Arc<Logins>,
    azure: Option<Arc<auth::Azure>>,
    mirrors: Arc<Mirrors>,
    plain: Arc<BTreeSet<String>>,
    tokens: Arc<auth::Tokens>,
}

impl std::fmt::Debug for Images {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Images")
            .field("logins", &self.logins)
            .field("mirrors", &self.mirrors)
            .finish_non_exhaustive()
    }
}

impl Images {
    pub fn new(http: Http, timing: Timing) -> Images {
        Images {
            http,
            timing,
            retry: RetryPolicy::default(),
            logins: Arc::default(),
            azure: None,
            mirrors: Arc::default(),
            plain: Arc::default(),
            tokens: Arc::default(),
        }
    }

    #[must_use]
    pub fn logins(mut self, logins: Logins) -> Images {
        self.logins = Arc::new(logins);
        // Others may have other rights.
        self.tokens = Arc::default();
        self
    }

    /// Who we are to Azure's registries, where no login says otherwise.
    #[must_use]
    pub fn azure(mut self, credential: Credential, cloud: &Cloud) -> Images {
        self.azure = Some(Arc::new(auth::Azure { credential, suffix: cloud.registry_suffix.clone() }));
        self.tokens = Arc::default();
        self
    }

    #[must_use]
    pub fn mirrors(mut self, mirrors: Mirrors) -> Images {
        self.mirrors = Arc::new(mirrors);
        self
    }

    /// With further mirrors.
    #[must_use]
    pub fn mirrored(self, more: impl IntoIterator<Item = Mirror>) -> Images {
        let all = more.into_iter().fold((*self.mirrors).clone(), Mirrors::mirror);
        self.mirrors(all)
    }

    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Images {
        self.retry = retry;
        self
    }

    /// Hosts that are asked without TLS: registries on this machine, in tests and demonstrations.
    #[must_use]
    pub fn plain(mut self, hosts: impl IntoIterator<Item = String>) -> Images {
        self.plain = Arc::new(hosts.into_iter().collect());
        self
    }

    fn base(&self, host: &str) -> String {
        let scheme = if self.plain.contains(host) { "http" } else { "https" };
        // The one registry whose name is not its address.
        let at = if host == "docker.io" { "registry-1.docker.io" } else { host };
        format!("{scheme}://{at}")
    }
}
