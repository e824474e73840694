//! Encryption at rest: an EncryptionConfiguration, made into what seals and opens stored objects.
//!
//! Stored forms are those of kube-apiserver (`k8s:enc:aescbc:v1:<key>:…`, `k8s:enc:kms:v2:<provider>:…`), and so are
//! the rules: the first provider of a resource writes, all of them read, an object is read by the provider that its
//! prefix names, and what no provider knows is an error for its readers and not an absent object. Changing the
//! configuration changes nothing that is stored; an update, even one that changes nothing, writes with the first
//! provider, and that is how data moves to a new key.
//!
//! A KMS (version 2) encrypts keys, never objects: each configuration draws one key, has it encrypted once, and keeps
//! it in memory. That is why [`Sealer::prepare`] waits and everything after it does not.
//!
//! A plugin may need the very API server that needs it: the token with which it asks its vault is minted there. So an
//! API server serves before it has its keys ([`Sealer::shut`]): what is not encrypted is read and written, and whoever
//! asks for the rest is told what is missing. Keys that somebody has once got stay usable in memory while a vault is
//! away ([`Sealer::inherit`]).

mod cipher;
mod config;
#[cfg(test)]
mod tests;

pub use config::{ConfigError, EncryptionConfig, Resources};

use bytes::Bytes;
use cipher::{Aes, Envelope, Gcm};
use config::Provider;
use ek_store::{Seal, TableName};
use futures::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;

/// A key management service, version 2: a plugin beside the API server.
pub trait Kms: Send + Sync + 'static {
    /// Encrypts a key; returns it with the id of the key that did.
    fn encrypt<'a>(&'a self, plain: &'a [u8]) -> BoxFuture<'a, Result<(Vec<u8>, String), String>>;
    fn decrypt<'a>(&'a self, sealed: &'a [u8], key_id: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>>;
    /// The id of the key that encrypts now, if the service is well.
    fn key_id(&self) -> BoxFuture<'_, Result<String, String>>;
}

/// Finds the plugin at an endpoint, `unix:///…`.
pub trait KmsPlugins: Send + Sync {
    fn connect(&self, provider: &str, endpoint: &str) -> Option<Arc<dyn Kms>>;
}

/// There is no plugin anywhere.
pub struct NoKms;

impl KmsPlugins for NoKms {
    fn connect(&self, _: &str, _: &str) -> Option<Arc<dyn Kms>> {
        None
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("KMS provider {provider:?} is not well: {why}")]
    Unwell { provider: String, why: String },
    #[error("no plugin answers at {endpoint} for KMS provider {provider:?}")]
    NoPlugin { provider: String, endpoint: String },
    #[error("KMS provider {provider:?} cannot encrypt: {why}")]
    Encrypt { provider: String, why: String },
    #[error("key {key:?} of provider {provider} cannot be used")]
    Key { provider: &'static str, key: String },
}

const AESCBC: &str = "k8s:enc:aescbc:v1:";
const AESGCM: &str = "k8s:enc:aesgcm:v1:";
const KMS: &str = "k8s:enc:kms:v2:";

/// The words kube-apiserver has for data nobody can read.
const NO_PREFIX: &str = "no matching prefix found";
const NO_KEY: &str = "no matching key was found for the provided AES transformer";
const NOT_IDENTITY: &str = "identity transformer tried to read encrypted data";

enum Opener {
    Identity,
    Aes {
        prefix: &'static str,
        keys: Vec<(String, Aes)>,
    },
    Kms {
        prefix: String,
        active: Option<(Arc<Gcm>, Envelope)>,
        known: HashMap<Vec<u8>, Result<Arc<Gcm>, String>>,
    },
    /// A KMS that nobody has got keys of yet.
    Shut {
        prefix: String,
        why: String,
    },
}

struct Rule {
    resources: Resources,
    openers: Vec<Opener>,
}

/// A configuration with its keys in hand.
pub struct Sealer {
    rules: Vec<Rule>,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("rules", &self.rules.len()).finish_non_exhaustive()
    }
}

impl Sealer {
    /// Everything is stored as it is, and what is stored otherwise cannot be read.
    pub fn identity() -> Sealer {
        Sealer { rules: Vec::new() }
    }

    /// Gets the keys together: one of each KMS to write with, and those that `stored` data needs to be read.
    pub async fn prepare(
        config: &EncryptionConfig,
        plugins: &dyn KmsPlugins,
        stored: &[Bytes],
    ) -> Result<Sealer, SealError> {
        let mut rules = Vec::new();
        for block in &config.blocks {
            let mut openers = Vec::new();
            for (i, p) in block.providers.iter().enumerate() {
                openers.push(match p {
                    Provider::Kms { name, endpoint } => kms(name, endpoint, i == 0, plugins, stored).await?,
                    other => plain(other)?,
                });
            }
            rules.push(Rule { resources: block.resources.clone(), openers });
        }
        Ok(Sealer { rules })
    }

    /// The configuration without the keys of any KMS, which `why` says.
    pub fn shut(config: &EncryptionConfig, why: &str) -> Result<Sealer, SealError> {
        let mut rules = Vec::new();
        for block in &config.blocks {
            let openers = block.providers.iter().map(|p| match p {
                Provider::Kms { name, .. } => {
                    Ok(Opener::Shut { prefix: format!("{KMS}{name}:"), why: why.to_owned() })
                }
                other => plain(other),
            });
            let openers = openers.collect::<Result<_, SealError>>()?;
            rules.push(Rule { resources: block.resources.clone(), openers });
        }
        Ok(Sealer { rules })
    }

    /// Keeps what another had got from the same providers: between getting keys together and using them, others write.
    #[must_use]
    pub fn inherit(mut self, before: &Sealer) -> Sealer {
        for opener in self.rules.iter_mut().flat_map(|r| &mut r.openers) {
            let Opener::Kms { prefix, active, known } = opener else { continue };
            for old in before.rules.iter().flat_map(|r| &r.openers) {
                let Opener::Kms { prefix: same, active: was, known: were } = old else { continue };
                if same != prefix {
                    continue;
                }
                let used = was.iter().map(|(k, e)| (&e.sealed_key, k));
                let read = were.iter().filter_map(|(s, k)| Some((s, k.as_ref().ok()?)));
                for (sealed, key) in used.chain(read) {
                    let mine = active.as_ref().is_some_and(|(_, e)| e.sealed_key == *sealed);
                    if !mine && !matches!(known.get(sealed), Some(Ok(_))) {
                        known.insert(sealed.clone(), Ok(key.clone()));
                    }
                }
            }
        }
        self
    }

    fn openers(&self, table: &str) -> &[Opener] {
        let rule = self.rules.iter().find(|r| r.resources.cover(table));
        rule.map_or(&[Opener::Identity], |r| &r.openers)
    }
}

fn aes(
    prefix: &'static str,
    provider: &'static str,
    keys: &[(String, Vec<u8>)],
    make: impl Fn(&[u8]) -> Option<Aes>,
) -> Result<Opener, SealError> {
    let keys = keys.iter().map(|(name, secret)| {
        let made = make(secret).ok_or_else(|| SealError::Key { provider, key: name.clone() })?;
        Ok((name.clone(), made))
    });
    Ok(Opener::Aes { prefix, keys: keys.collect::<Result<_, SealError>>()? })
}

/// A provider that needs nobody.
fn plain(p: &Provider) -> Result<Opener, SealError> {
    match p {
        Provider::AesCbc(keys) => aes(AESCBC, "aescbc", keys, Aes::cbc),
        Provider::AesGcm(keys) => aes(AESGCM, "aesgcm", keys, Aes::gcm),
        Provider::Identity | Provider::Kms { .. } => Ok(Opener::Identity),
    }
}

async fn connect(name: &str, endpoint: &str, plugins: &dyn KmsPlugins) -> Result<Arc<dyn Kms>, SealError> {
    let missing = || SealError::NoPlugin { provider: name.to_owned(), endpoint: endpoint.to_owned() };
    let plugin = plugins.connect(name, endpoint).ok_or_else(missing)?;
    let unwell = |why| SealError::Unwell { provider: name.to_owned(), why };
    plugin.key_id().await.map_err(unwell)?;
    Ok(plugin)
}

async fn kms(
    name: &str,
    endpoint: &str,
    first: bool,
    plugins: &dyn KmsPlugins,
    stored: &[Bytes],
) -> Result<Opener, SealError> {
    let prefix = format!("{KMS}{name}:");
    let plugin = connect(name, endpoint, plugins).await?;
    let active = if first {
        let secret = cipher::random::<32>();
        let failed = |why| SealError::Encrypt { provider: name.to_owned(), why };
        let (sealed, key_id) = plugin.encrypt(&secret).await.map_err(failed)?;
        let key = Gcm::new(&secret).ok_or_else(|| failed("the drawn key cannot be used".into()))?;
        Some((Arc::new(key), Envelope { data: Vec::new(), key_id, sealed_key: sealed }))
    } else {
        None
    };
    let mut known = HashMap::new();
    for envelope in stored.iter().filter_map(|s| Envelope::decode(s.strip_prefix(prefix.as_bytes())?)) {
        if known.contains_key(&envelope.sealed_key) {
            continue;
        }
        let opened = match plugin.decrypt(&envelope.sealed_key, &envelope.key_id).await {
            Ok(secret) => {
                let made = Gcm::new(&secret).map(Arc::new);
                made.ok_or_else(|| "the decrypted key cannot be used".to_owned())
            }
            Err(why) => Err(format!("failed to decrypt DEK, error: {why}")),
        };
        known.insert(envelope.sealed_key, opened);
    }
    if let Some((_, e)) = &active {
        // What is written from now on is read with the same key.
        known.remove(&e.sealed_key);
    }
    Ok(Opener::Kms { prefix, active, known })
}

/// A configuration, and who finds its plugins.
#[derive(Clone)]
pub struct Encryption {
    pub config: Arc<EncryptionConfig>,
    pub plugins: Arc<dyn KmsPlugins>,
}

impl Encryption {
    /// Whether keys have to be asked for.
    pub fn needs_kms(&self) -> bool {
        self.kms().next().is_some()
    }

    fn kms(&self) -> impl Iterator<Item = (&str, &str)> {
        self.config.blocks.iter().flat_map(|b| &b.providers).filter_map(|p| match p {
            Provider::Kms { name, endpoint } => Some((name.as_str(), endpoint.as_str())),
            _ => None,
        })
    }

    /// Whether all plugins are well.
    pub async fn check(&self) -> Result<(), SealError> {
        for (name, endpoint) in self.kms() {
            connect(name, endpoint, &*self.plugins).await?;
        }
        Ok(())
    }
}

/// Where etcd would have the object; what it is sealed for, so that it cannot be put elsewhere.
fn path(table: &str, key: &str) -> String {
    format!("/kubernetes.io/{}/{key}", table.trim_start_matches('/'))
}

impl Opener {
    fn seal(&self, place: &str, plain: &[u8]) -> Result<Option<Vec<u8>>, String> {
        const FAILED: &str = "the object could not be encrypted";
        match self {
            Opener::Identity => Ok(None),
            Opener::Aes { prefix, keys } => {
                let (name, key) = keys.first().ok_or(FAILED)?;
                let mut out = format!("{prefix}{name}:").into_bytes();
                out.extend(key.seal(place, plain).ok_or(FAILED)?);
                Ok(Some(out))
            }
            Opener::Kms { prefix, active, .. } => {
                let (key, envelope) = active.as_ref().ok_or(FAILED)?;
                let data = key.seal(place.as_bytes(), plain).ok_or(FAILED)?;
                let mut out = prefix.clone().into_bytes();
                Envelope { data, ..envelope.clone() }.encode(&mut out);
                Ok(Some(out))
            }
            Opener::Shut { why, .. } => Err(format!("failed to encrypt: {why}")),
        }
    }

    /// `None` when the data is not this provider's.
    fn open(&self, place: &str, stored: &Bytes) -> Option<Result<Bytes, String>> {
        match self {
            Opener::Identity => (!stored.starts_with(b"k8s:enc:")).then(|| Ok(stored.clone())),
            Opener::Aes { prefix, keys } => {
                let rest = stored.strip_prefix(prefix.as_bytes())?;
                let of = |name: &str| rest.strip_prefix(name.as_bytes())?.strip_prefix(b":");
                let Some((data, key)) = keys.iter().find_map(|(n, k)| Some((of(n)?, k))) else {
                    return Some(Err(NO_KEY.into()));
                };
                let plain = key.open(place, data).map(Bytes::from);
                Some(
                    plain.ok_or_else(|| {
                        "the stored data was not encrypted with this key, or is damaged".into()
                    }),
                )
            }
            Opener::Kms { prefix, active, known } => {
                let rest = stored.strip_prefix(prefix.as_bytes())?;
                let Some(e) = Envelope::decode(rest) else {
                    return Some(Err("the stored data is damaged".into()));
                };
                let key = match active {
                    Some((key, mine)) if mine.sealed_key == e.sealed_key => Ok(key),
                    _ => match known.get(&e.sealed_key) {
                        Some(k) => k.as_ref().map_err(Clone::clone),
                        None => Err("failed to decrypt DEK, error: its key was never asked for".to_owned()),
                    },
                };
                let damaged = || "the stored data was not encrypted with this key, or is damaged".to_owned();
                Some(key.and_then(|k| k.open(place.as_bytes(), &e.data).map(Bytes::from).ok_or_else(damaged)))
            }
            Opener::Shut { prefix, why } => {
                let mine = stored.starts_with(prefix.as_bytes());
                mine.then(|| Err(format!("failed to decrypt DEK, error: {why}")))
            }
        }
    }

    /// Whether data is as this provider would write it.
    fn wrote(&self, stored: &[u8]) -> bool {
        match self {
            Opener::Identity => !stored.starts_with(b"k8s:enc:"),
            Opener::Aes { prefix, keys } => {
                keys.first().is_some_and(|(n, _)| stored.starts_with(format!("{prefix}{n}:").as_bytes()))
            }
            Opener::Kms { prefix, active, .. } => {
                let key_id = |e: Envelope| active.as_ref().is_some_and(|(_, mine)| mine.key_id == e.key_id);
                stored.strip_prefix(prefix.as_bytes()).and_then(Envelope::decode).is_some_and(key_id)
            }
            Opener::Shut { prefix, .. } => stored.starts_with(prefix.as_bytes()),
        }
    }
}

impl Seal for Sealer {
    fn seal(&self, table: &TableName, key: &str, plain: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.openers(table).first().map_or(Ok(None), |o| o.seal(&path(table, key), plain))
    }

    fn open(&self, table: &TableName, key: &str, stored: &Bytes) -> Result<Bytes, String> {
        let openers = self.openers(table);
        let place = path(table, key);
        match openers.iter().find_map(|o| o.open(&place, stored)) {
            Some(r) => r,
            None if matches!(openers, [Opener::Identity]) => Err(NOT_IDENTITY.into()),
            None => Err(NO_PREFIX.into()),
        }
    }

    fn is_current(&self, table: &TableName, stored: &[u8]) -> bool {
        self.openers(table).first().is_none_or(|o| o.wrote(stored))
    }
}
