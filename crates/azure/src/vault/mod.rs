//! Key Vault: secrets, keys and certificates, with bearer tokens.
//!
//! The three sorts share their life: versions, lists, a deletion that can be taken back, and one that cannot. [`Objects`] is
//! that life for any [`Sort`]; what a sort can do beside it is in its own file.
//!
//! Deleting and recovering are promises at first: the service answers before it is so. They are waited for here,
//! because whoever deletes mostly wants to use the name, or to purge it, next.
//!
//! Tokens are asked for by the cloud's audience. The challenge that a vault answers with is not followed: it would let a
//! host choose for whom a token is made out.

mod certificates;
mod keys;
mod objects;
mod secrets;

pub use certificates::{Certificate, CertificatePolicy, Certificates, Import, KeyKind, Pending};
pub use keys::{Algorithm, Jwk, Key, Keys, NewKey, Used};
pub use objects::{Attributes, DeletedObject, Item, Objects, Sort};
pub use secrets::{SecretVersion, Secrets, SetSecret};

use crate::pipeline::{Call, Client, Door, Error};
use http::Method;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use url::Url;

const VERSION: &str = "7.5";

/// One vault.
#[derive(Clone, Debug)]
pub struct Vault {
    client: Client,
    door: Arc<Door>,
}

fn vault_name(name: &str) -> bool {
    (3..=24).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !name.ends_with('-')
        && !name.contains("--")
}

impl Client {
    /// A vault of this cloud by its name.
    pub fn vault(&self, name: &str) -> Result<Vault, Error> {
        if !vault_name(name) {
            let why = "vaults have 3 to 24 letters, digits and single hyphens, beginning with a letter";
            return Err(Error::Name { what: "a vault", name: name.chars().take(80).collect(), why });
        }
        let door = Arc::new(self.cloud().vault(name)?);
        Ok(Vault { client: self.clone(), door })
    }

    /// A managed HSM of this cloud by its name: it has keys, as vaults have them, and nothing else.
    pub fn managed_hsm(&self, name: &str) -> Result<Vault, Error> {
        if !vault_name(name) {
            let why = "managed HSMs have 3 to 24 letters, digits and single hyphens, beginning with a letter";
            return Err(Error::Name { what: "a managed HSM", name: name.chars().take(80).collect(), why });
        }
        let door = Arc::new(self.cloud().managed_hsm(name)?);
        Ok(Vault { client: self.clone(), door })
    }

    /// A vault by the `vaultUri` of its resource, or by the id of anything in it. It must be one of this cloud's.
    pub fn vault_at(&self, uri: &str) -> Result<Vault, Error> {
        let suffix = format!(".{}", self.cloud().vault_suffix);
        let url = Url::parse(uri).map_err(|_| Error::Url(uri.chars().take(200).collect()))?;
        let name = url.host_str().and_then(|h| h.strip_suffix(&suffix));
        match name.filter(|_| url.scheme() == "https" && url.port().is_none()) {
            Some(name) => self.vault(name),
            None => {
                let url = format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default());
                Err(Error::Foreign { url, endpoint: format!("https://*{suffix}") })
            }
        }
    }
}

impl Vault {
    pub fn secrets(&self) -> Objects<Secrets> {
        Objects::new(self.clone())
    }

    pub fn keys(&self) -> Objects<Keys> {
        Objects::new(self.clone())
    }

    pub fn certificates(&self) -> Objects<Certificates> {
        Objects::new(self.clone())
    }

    pub fn endpoint(&self) -> &str {
        self.door.endpoint.as_str()
    }

    fn call(&self, method: Method, path: &str) -> Call {
        Call::new(method, format!("/{path}?api-version={VERSION}")).at(&self.door)
    }

    async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        let (method, path) = (call.method.to_string(), path_of(&call));
        let answer = self.client.send(call).await?;
        serde_json::from_slice(&answer.body).map_err(|source| Error::Read { method, path, source })
    }
}

fn path_of(call: &Call) -> String {
    call.target.split('?').next().unwrap_or_default().to_owned()
}

/// Bytes as keys and certificates write them.
mod base64url {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde::{Deserialize, Deserializer};

    pub fn encode(bytes: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    pub fn decode<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(d)?;
        URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(serde::de::Error::custom)
    }

    pub fn decode_some<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Vec<u8>>, D::Error> {
        let Some(text) = Option::<String>::deserialize(d)? else { return Ok(None) };
        URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map(Some).map_err(serde::de::Error::custom)
    }
}
