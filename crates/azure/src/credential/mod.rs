//! Who we are, to Azure.
//!
//! A [`TokenSource`] turns something one has (a secret, a certificate, a file, a metadata server, the Azure CLI)
//! into an access token. [`Credential`] is what the rest of the crate holds: a source behind a cache that refreshes
//! early, once for all waiting callers, and keeps a good token when a refresh fails.
//!
//! Files (federated tokens, MSI credentials, certificates) are read whenever a token is fetched, never kept: whoever
//! rotates them need not tell us, and there is no watcher to go wrong.
//!
//! Rejected: `azure_identity`. It does secrets, workload identity and managed identity well, but certificates only
//! with OpenSSL, knows no MSI credentials file, answers AADSTS refusals as text, and brings a second HTTP stack and
//! about 180 crates. All the flows here are one form POST and two GETs over the client we have anyway.

mod certificate;
mod chain;
mod cli;
mod entra;
mod error;
mod managed;

pub use certificate::{Certificate, CertificateError};
pub use chain::{CredsFile, FromEnv, from_env};
pub use cli::AzureCli;
pub use entra::{Confidential, Entra, Proof};
pub use error::{CredentialError, EntraError, EntraFault};
pub use managed::{IdentityId, ManagedIdentity};

use crate::{Secret, Timing};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// What a token is wanted for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenRequest {
    /// `{audience}/.default`.
    pub scope: String,
    /// Claims that a service demanded (continuous access evaluation), as JSON.
    pub claims: Option<String>,
}

impl TokenRequest {
    pub fn new(scope: impl Into<String>) -> TokenRequest {
        TokenRequest { scope: scope.into(), claims: None }
    }

    /// The v1 name of the scope, which metadata servers want.
    pub(crate) fn resource(&self) -> &str {
        self.scope.strip_suffix("/.default").unwrap_or(&self.scope)
    }
}

#[derive(Clone, Debug)]
pub struct AccessToken {
    pub secret: Secret,
    pub expires: Timestamp,
    /// When the issuer suggests to ask again, if it does.
    pub refresh: Option<Timestamp>,
}

/// Something that gets tokens, each time anew.
pub trait TokenSource: Send + Sync + 'static {
    fn token<'a>(&'a self, ask: &'a TokenRequest) -> BoxFuture<'a, Result<AccessToken, CredentialError>>;

    /// For people: which kind, which identity. No secrets.
    fn describe(&self) -> String;
}

impl TokenSource for Box<dyn TokenSource> {
    fn token<'a>(&'a self, ask: &'a TokenRequest) -> BoxFuture<'a, Result<AccessToken, CredentialError>> {
        (**self).token(ask)
    }

    fn describe(&self) -> String {
        (**self).describe()
    }
}

/// Tokens are renewed this long before they end, or after half their life if that is sooner.
const EARLY: SignedDuration = SignedDuration::from_mins(5);
/// After a failed refresh of a token that is still good.
const CALM: SignedDuration = SignedDuration::from_secs(30);

#[derive(Default)]
struct Slot {
    token: Option<AccessToken>,
    fetched: Timestamp,
    calm_until: Timestamp,
}

impl Slot {
    /// The token if it can be used, and whether it is time for a new one.
    fn look(&self, now: Timestamp) -> Option<(&AccessToken, bool)> {
        let t = self.token.as_ref().filter(|t| now < t.expires)?;
        let life = t.expires.duration_since(self.fetched);
        let early = EARLY.min(life / 2);
        let at = t.expires.checked_sub(early).unwrap_or(t.expires);
        let due = t.refresh.map_or(at, |r| r.min(at));
        Some((t, now >= due && now >= self.calm_until))
    }
}

type Slots = Mutex<HashMap<String, Arc<tokio::sync::Mutex<Slot>>>>;

/// A source with a cache. Clones share it.
#[derive(Clone)]
pub struct Credential {
    source: Arc<dyn TokenSource>,
    slots: Arc<Slots>,
    timing: Timing,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credential({})", self.source.describe())
    }
}

impl Credential {
    pub fn new(source: impl TokenSource, timing: Timing) -> Credential {
        Credential { source: Arc::new(source), slots: Arc::default(), timing }
    }

    pub fn describe(&self) -> String {
        self.source.describe()
    }

    fn slot(&self, scope: &str) -> Arc<tokio::sync::Mutex<Slot>> {
        self.slots.lock().entry(scope.to_owned()).or_default().clone()
    }

    /// A token that is good now. Callers that come while one is being fetched wait for that one.
    pub async fn token(&self, ask: &TokenRequest) -> Result<AccessToken, CredentialError> {
        let slot = self.slot(&ask.scope);
        let mut slot = slot.lock().await;
        let now = self.timing.clock.now();
        // New claims mean that the token in the cache was refused.
        let kept = match slot.look(now).filter(|_| ask.claims.is_none()) {
            Some((t, false)) => return Ok(t.clone()),
            Some((t, true)) => Some(t.clone()),
            None => None,
        };
        match (self.source.token(ask).await, kept) {
            (Ok(fresh), _) => {
                *slot = Slot { token: Some(fresh.clone()), fetched: now, calm_until: now };
                Ok(fresh)
            }
            (Err(error), Some(old)) => {
                tracing::warn!(source = %self.source.describe(), %error, "cannot refresh a token; the old one is still good");
                slot.calm_until = now.checked_add(CALM).unwrap_or(now);
                Ok(old)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Forgets a token that a service refused, unless it has been replaced meanwhile.
    pub async fn refused(&self, scope: &str, token: &AccessToken) {
        let slot = self.slot(scope);
        let mut slot = slot.lock().await;
        if slot.token.as_ref().is_some_and(|t| t.secret == token.secret) {
            slot.token = None;
        }
    }
}

#[cfg(test)]
mod tests;
