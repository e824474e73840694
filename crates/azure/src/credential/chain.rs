//! Which credential, when nobody says.
//!
//! What the environment states is taken at its word: a half-stated credential is an error that names the missing
//! variable, not a reason to try something else and fail far away. Only when nothing is stated are the machine's
//! identity and the Azure CLI tried, in this order, and the first that works is kept.

use crate::credential::entra::read_file;
use crate::credential::error::CredentialError;
use crate::credential::{
    AccessToken, AzureCli, Confidential, Entra, IdentityId, ManagedIdentity, Proof, TokenRequest, TokenSource,
};
use crate::{Env, Secret};
use futures::future::BoxFuture;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The file that installers write and read: `{subscriptionId, tenantId, clientId, clientSecret}`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CredsFile {
    pub subscription_id: String,
    pub tenant_id: String,
    pub client_id: String,
    pub client_secret: Secret,
}

impl CredsFile {
    pub async fn read(path: &Path) -> Result<CredsFile, CredentialError> {
        let bytes = read_file("credentials", path).await?;
        let what = "a credentials file with subscriptionId, tenantId, clientId and clientSecret";
        serde_json::from_slice(&bytes).map_err(|source| CredentialError::ParseFile {
            what,
            path: path.to_owned(),
            source,
        })
    }

    pub fn source(self, entra: Entra) -> Confidential {
        Confidential::new(entra, &self.tenant_id, &self.client_id, Proof::Secret(self.client_secret))
    }
}

/// What the environment led to.
pub struct FromEnv {
    pub source: Box<dyn TokenSource>,
    /// The subscription to work in, where the environment names one.
    pub subscription: Option<String>,
}

/// Reads, in this order: `AZURE_AUTH_LOCATION` (a credentials file), `ZAFFRE_AZURE_MSI_FILE` (MSI credentials),
/// `AZURE_CLIENT_ID` with `AZURE_TENANT_ID` and one of `AZURE_FEDERATED_TOKEN_FILE`,
/// `AZURE_CLIENT_CERTIFICATE_PATH`, `AZURE_CLIENT_SECRET`, then `IDENTITY_ENDPOINT`; else the machine, else `az`.
pub async fn from_env(env: &Env, entra: Entra) -> Result<FromEnv, CredentialError> {
    let mut subscription = env.get("AZURE_SUBSCRIPTION_ID").map(str::to_owned);
    let source: Box<dyn TokenSource> = if let Some(path) = env.get("AZURE_AUTH_LOCATION") {
        let file = CredsFile::read(Path::new(path)).await?;
        subscription.get_or_insert_with(|| file.subscription_id.clone());
        Box::new(file.source(entra))
    } else if let Some(path) = env.get("ZAFFRE_AZURE_MSI_FILE") {
        Box::new(Confidential::msi_file(entra, path))
    } else if let Some(proof) = proof(env) {
        let need = |name: &str| {
            let why =
                || CredentialError::Configuration(format!("{} is set but {name} is not: set it", proof.0));
            env.get(name).ok_or_else(why)
        };
        let (tenant, client) = (need("AZURE_TENANT_ID")?, need("AZURE_CLIENT_ID")?);
        Box::new(Confidential::new(entra, tenant, client, proof.1.clone()))
    } else {
        let identity =
            env.get("AZURE_CLIENT_ID").map_or(IdentityId::System, |c| IdentityId::Client(c.to_owned()));
        let managed = ManagedIdentity::from_env(&entra.http, entra.timing.clone(), identity, env);
        if env.get("IDENTITY_ENDPOINT").is_some() {
            Box::new(managed)
        } else {
            let cli = AzureCli::new(env, entra.timing);
            Box::new(Chain { sources: vec![Box::new(managed), Box::new(cli)], works: OnceLock::new() })
        }
    };
    Ok(FromEnv { source, subscription })
}

fn proof(env: &Env) -> Option<(&'static str, Proof)> {
    let file = |name: &'static str| env.get(name).map(|p| (name, PathBuf::from(p)));
    if let Some((name, path)) = file("AZURE_FEDERATED_TOKEN_FILE") {
        return Some((name, Proof::FederatedFile(path)));
    }
    if let Some((name, path)) = file("AZURE_CLIENT_CERTIFICATE_PATH") {
        let password = env.get("AZURE_CLIENT_CERTIFICATE_PASSWORD").map(Secret::new);
        return Some((name, Proof::CertificateFile { path, password }));
    }
    let name = "AZURE_CLIENT_SECRET";
    env.get(name).map(|s| (name, Proof::Secret(Secret::new(s))))
}

/// Tries each until one works, then stays with it.
struct Chain {
    sources: Vec<Box<dyn TokenSource>>,
    works: OnceLock<usize>,
}

impl Chain {
    async fn fetch(&self, ask: &TokenRequest) -> Result<AccessToken, CredentialError> {
        if let Some(source) = self.works.get().and_then(|i| self.sources.get(*i)) {
            return source.token(ask).await;
        }
        let mut tried = Vec::new();
        for (i, source) in self.sources.iter().enumerate() {
            match source.token(ask).await {
                Ok(token) => {
                    // Another caller may have been first; both found the same.
                    let _ = self.works.set(i);
                    return Ok(token);
                }
                Err(e) => tried.push((source.describe(), e.to_string())),
            }
        }
        let nothing = "AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET".to_owned();
        tried.push(("the environment".to_owned(), format!("it names no credential: set {nothing}")));
        Err(CredentialError::None(tried))
    }
}

impl TokenSource for Chain {
    fn token<'a>(&'a self, ask: &'a TokenRequest) -> BoxFuture<'a, Result<AccessToken, CredentialError>> {
        Box::pin(self.fetch(ask))
    }

    fn describe(&self) -> String {
        let all: Vec<String> = self.sources.iter().map(|s| s.describe()).collect();
        self.works.get().and_then(|i| all.get(*i).cloned()).unwrap_or_else(|| all.join(" or "))
    }
}
