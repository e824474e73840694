//! Azure, as programs of a world reach it: the endpoints of its cloud, and clients as somebody.

use azure::credential::{Confidential, Entra, Proof};
use azure::{Client, ClientOptions, Cloud, Credential, CredentialError, Http, RetryPolicy};
use std::path::PathBuf;

/// The cloud of this world.
#[derive(Clone)]
pub struct Azure {
    pub cloud: Cloud,
    pub http: Http,
    pub options: ClientOptions,
}

/// What a program proves itself to Entra ID with.
#[derive(Clone, Debug)]
pub enum Identity {
    /// A minted token in a file.
    Federated { tenant: String, client: String, file: PathBuf },
    /// A vault's credential in a file.
    Mounted { file: PathBuf },
}

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It was refused and will be until somebody changes something.
    Refused(String),
    /// It may come.
    NotYet(String),
}

impl Trouble {
    pub fn text(&self) -> &str {
        match self {
            Trouble::Refused(t) | Trouble::NotYet(t) => t,
        }
    }

    pub fn about(self, what: &str) -> Trouble {
        match self {
            Trouble::Refused(t) => Trouble::Refused(format!("{what}: {t}")),
            Trouble::NotYet(t) => Trouble::NotYet(format!("{what}: {t}")),
        }
    }
}

impl Azure {
    /// For whoever asks again before long, and must not be silent until then.
    pub fn brief(mut self) -> Azure {
        self.options.retry = RetryPolicy::brief();
        self
    }

    /// A client as this identity, with no token in hand: each begins with an exchange.
    pub fn client(&self, who: &Identity) -> Client {
        self.client_with(Credential::new(self.source(who), self.options.timing.clone()))
    }

    /// Where its tokens come from.
    pub fn source(&self, who: &Identity) -> Confidential {
        let timing = self.options.timing.clone();
        let entra = Entra { http: self.http.clone(), login: self.cloud.login.clone(), timing };
        match who {
            Identity::Federated { tenant, client, file } => {
                Confidential::new(entra, tenant, client, Proof::FederatedFile(file.clone()))
            }
            Identity::Mounted { file } => Confidential::msi_file(entra, file),
        }
    }

    pub fn client_with(&self, credential: Credential) -> Client {
        let mut options = self.options.clone();
        // Components may not register providers.
        options.auto_register = false;
        Client::new(self.cloud.clone(), self.http.clone(), credential, options)
    }
}

impl From<azure::Error> for Trouble {
    fn from(e: azure::Error) -> Trouble {
        let text = sidecars::chain(&e);
        let later = match &e {
            azure::Error::Token { source, .. } => match source {
                // Whoever writes the file has not done it yet.
                CredentialError::ReadFile { .. } | CredentialError::Field { field: "the token", .. } => true,
                other => other.is_transient(),
            },
            azure::Error::Send { .. } | azure::Error::StillRunning { .. } => true,
            other => other.status().is_some_and(|s| s == 408 || s == 429 || s >= 500),
        };
        if later { Trouble::NotYet(text) } else { Trouble::Refused(text) }
    }
}
