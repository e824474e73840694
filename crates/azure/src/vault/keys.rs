//! Keys: made in the vault, used in the vault.

use super::objects::{Attributes, Objects, Sort, part};
use super::{KeyKind, base64url};
use crate::pipeline::Error;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
pub enum Keys {}

impl Sort for Keys {
    const PATH: &'static str = "keys";
    const WHAT: &'static str = "a key";
    type Version = Key;
}

/// The public part of a key.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Jwk {
    pub kid: String,
    pub kty: String,
    pub key_ops: Vec<String>,
    #[serde(deserialize_with = "base64url::decode_some")]
    pub n: Option<Vec<u8>>,
    #[serde(deserialize_with = "base64url::decode_some")]
    pub e: Option<Vec<u8>>,
    pub crv: Option<String>,
    #[serde(deserialize_with = "base64url::decode_some")]
    pub x: Option<Vec<u8>>,
    #[serde(deserialize_with = "base64url::decode_some")]
    pub y: Option<Vec<u8>>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Key {
    pub key: Jwk,
    #[serde(default)]
    pub attributes: Attributes,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    #[serde(default)]
    pub managed: bool,
}

impl Key {
    pub fn version(&self) -> &str {
        part(&self.key.kid, 2).unwrap_or_default()
    }
}

/// What a new key is.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub kind: KeyKind,
    /// All that the kind can do, if empty.
    pub ops: Vec<String>,
    pub attributes: Attributes,
    pub tags: BTreeMap<String, String>,
}

impl NewKey {
    pub fn new(kind: KeyKind) -> NewKey {
        NewKey { kind, ops: Vec::new(), attributes: Attributes::default(), tags: BTreeMap::new() }
    }
}

/// How a key is used. Those that are broken (RSA1_5) are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    RsaOaep,
    RsaOaep256,
    Ps256,
    Rs256,
    Es256,
    Es384,
    Es512,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Algorithm::RsaOaep => "RSA-OAEP",
            Algorithm::RsaOaep256 => "RSA-OAEP-256",
            Algorithm::Ps256 => "PS256",
            Algorithm::Rs256 => "RS256",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::Es512 => "ES512",
        }
    }
}

/// What a use of a key gave, and which version was used: what it locked, that one unlocks.
#[derive(Clone, Debug, Deserialize)]
pub struct Used {
    pub kid: String,
    #[serde(deserialize_with = "base64url::decode")]
    pub value: Vec<u8>,
}

impl Used {
    pub fn version(&self) -> &str {
        part(&self.kid, 2).unwrap_or_default()
    }
}

impl Objects<Keys> {
    /// Makes a key, or a new version of one. Not repeated when its answer is lost: it would make another.
    pub async fn create(&self, name: &str, new: &NewKey) -> Result<Key, Error> {
        let mut body = json!({"attributes": new.attributes, "tags": new.tags});
        new.kind.describe(&mut body);
        if !new.ops.is_empty() {
            body["key_ops"] = json!(new.ops);
        }
        self.vault.ask(self.call(Method::POST, name, &["create"])?.body(body)).await
    }

    /// Makes a new version like the newest.
    pub async fn rotate(&self, name: &str) -> Result<Key, Error> {
        self.vault.ask(self.call(Method::POST, name, &["rotate"])?).await
    }

    /// Using a key changes nothing, so it may be asked for twice.
    async fn used(&self, name: &str, version: &str, verb: &str, body: Value) -> Result<Value, Error> {
        let call = match version {
            // The newest.
            "" => {
                let mut call = self.call(Method::POST, name, &[verb])?;
                call.target = call.target.replacen(&format!("/{verb}?"), &format!("//{verb}?"), 1);
                call
            }
            v => self.call(Method::POST, name, &[v, verb])?,
        };
        self.vault.ask(call.body(body).repeatable()).await
    }

    async fn turned(
        &self,
        key: (&str, &str),
        verb: &'static str,
        by: Algorithm,
        value: &[u8],
    ) -> Result<Used, Error> {
        let body = json!({"alg": by.name(), "value": base64url::encode(value)});
        let said = self.used(key.0, key.1, verb, body).await?;
        serde_json::from_value(said).map_err(|source| Error::Read {
            method: "POST".to_owned(),
            path: format!("/keys/{}/{verb}", key.0),
            source,
        })
    }

    /// An empty version is the newest; keep the one that the answer names.
    pub async fn encrypt(
        &self,
        name: &str,
        version: &str,
        by: Algorithm,
        value: &[u8],
    ) -> Result<Used, Error> {
        self.turned((name, version), "encrypt", by, value).await
    }

    pub async fn decrypt(
        &self,
        name: &str,
        version: &str,
        by: Algorithm,
        value: &[u8],
    ) -> Result<Used, Error> {
        self.turned((name, version), "decrypt", by, value).await
    }

    pub async fn wrap(&self, name: &str, version: &str, by: Algorithm, key: &[u8]) -> Result<Used, Error> {
        self.turned((name, version), "wrapkey", by, key).await
    }

    pub async fn unwrap_key(
        &self,
        name: &str,
        version: &str,
        by: Algorithm,
        key: &[u8],
    ) -> Result<Used, Error> {
        self.turned((name, version), "unwrapkey", by, key).await
    }

    /// Signs a digest that is as long as the algorithm's hash.
    pub async fn sign(&self, name: &str, version: &str, by: Algorithm, digest: &[u8]) -> Result<Used, Error> {
        self.turned((name, version), "sign", by, digest).await
    }

    pub async fn verify(
        &self,
        name: &str,
        version: &str,
        by: Algorithm,
        digest: &[u8],
        signature: &[u8],
    ) -> Result<bool, Error> {
        let (digest, value) = (base64url::encode(digest), base64url::encode(signature));
        let body = json!({"alg": by.name(), "digest": digest, "value": value});
        Ok(self.used(name, version, "verify", body).await?["value"].as_bool() == Some(true))
    }
}
