//! Reading an EncryptionConfiguration.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("kind must be EncryptionConfiguration of apiserver.config.k8s.io/v1, not {0}")]
    Kind(String),
    #[error("{field}: {why}")]
    Field { field: String, why: String },
}

/// Which resources a block is about: `secrets`, `routes.route.openshift.io`, `*.apps`, `*.*`.
#[derive(Clone, Debug)]
pub struct Resources(Vec<(String, String)>);

impl Resources {
    /// Whether a table, `group/plural`, is among them.
    pub(super) fn cover(&self, table: &str) -> bool {
        let (group, plural) = table.split_once('/').unwrap_or(("", table));
        self.0.iter().any(|(p, g)| (p == "*" || p == plural) && (g == "*" || g == group))
    }
}

pub(super) enum Provider {
    Identity,
    AesCbc(Vec<(String, Vec<u8>)>),
    AesGcm(Vec<(String, Vec<u8>)>),
    Kms { name: String, endpoint: String },
}

pub(super) struct Block {
    pub(super) resources: Resources,
    pub(super) providers: Vec<Provider>,
}

/// A configuration that has been read; its keys are not printed.
pub struct EncryptionConfig {
    pub(super) blocks: Vec<Block>,
}

impl std::fmt::Debug for EncryptionConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let blocks = self.blocks.iter().map(|b| &b.resources);
        f.debug_list().entries(blocks).finish()
    }
}

impl EncryptionConfig {
    pub fn parse(config: &Value) -> Result<EncryptionConfig, ConfigError> {
        let api = config["apiVersion"].as_str().unwrap_or_default();
        if config["kind"] != "EncryptionConfiguration" || !api.starts_with("apiserver.config.k8s.io/") {
            return Err(ConfigError::Kind(format!("{} of {api:?}", config["kind"])));
        }
        let blocks = config["resources"].as_array().into_iter().flatten().enumerate();
        let blocks: Vec<Block> = blocks.map(|(i, b)| block(i, b)).collect::<Result<_, _>>()?;
        if blocks.is_empty() {
            return Err(bad("resources", "at least one is required"));
        }
        Ok(EncryptionConfig { blocks })
    }
}

fn bad(field: impl Into<String>, why: impl Into<String>) -> ConfigError {
    ConfigError::Field { field: field.into(), why: why.into() }
}

fn block(i: usize, b: &Value) -> Result<Block, ConfigError> {
    let names = ek_meta::object::strings(&b["resources"]);
    if names.is_empty() {
        return Err(bad(format!("resources[{i}].resources"), "at least one resource is required"));
    }
    let split = |n: String| match n.split_once('.') {
        Some((plural, group)) => (plural.to_owned(), group.to_owned()),
        None => (n, String::new()),
    };
    let providers = b["providers"].as_array().into_iter().flatten().enumerate();
    let providers: Vec<Provider> = providers
        .map(|(n, p)| provider(&format!("resources[{i}].providers[{n}]"), p))
        .collect::<Result<_, _>>()?;
    if providers.is_empty() {
        return Err(bad(format!("resources[{i}].providers"), "at least one provider is required"));
    }
    Ok(Block { resources: Resources(names.into_iter().map(split).collect()), providers })
}

fn provider(at: &str, p: &Value) -> Result<Provider, ConfigError> {
    let (kind, body) = match p.as_object().map(|o| o.iter().collect::<Vec<_>>()).as_deref() {
        Some([(kind, body)]) => (kind.as_str(), *body),
        _ => return Err(bad(at, "exactly one provider is required")),
    };
    match kind {
        "identity" => Ok(Provider::Identity),
        "aescbc" => Ok(Provider::AesCbc(keys(at, body)?)),
        "aesgcm" => Ok(Provider::AesGcm(keys(at, body)?)),
        "kms" => {
            let text = |f: &str| body[f].as_str().filter(|t| !t.is_empty()).map(str::to_owned);
            if body["apiVersion"].as_str().is_some_and(|v| v != "v2") {
                return Err(bad(format!("{at}.kms.apiVersion"), "only v2 is supported"));
            }
            let name = text("name").filter(|n| !n.contains(':'));
            let name =
                name.ok_or_else(|| bad(format!("{at}.kms.name"), "a name without colons is required"))?;
            let endpoint = text("endpoint").filter(|e| e.starts_with("unix://"));
            let endpoint = endpoint
                .ok_or_else(|| bad(format!("{at}.kms.endpoint"), "must be unix:///path/of/the.socket"))?;
            Ok(Provider::Kms { name, endpoint })
        }
        other => Err(bad(format!("{at}.{other}"), "use aescbc, aesgcm, kms or identity")),
    }
}

fn keys(at: &str, body: &Value) -> Result<Vec<(String, Vec<u8>)>, ConfigError> {
    let keys = body["keys"].as_array().into_iter().flatten().enumerate();
    let keys: Vec<_> = keys
        .map(|(i, k)| {
            let at = format!("{at}.keys[{i}]");
            let name = k["name"].as_str().filter(|n| !n.is_empty() && !n.contains(':'));
            let name = name.ok_or_else(|| bad(format!("{at}.name"), "a name without colons is required"))?;
            let secret = STANDARD.decode(k["secret"].as_str().unwrap_or_default());
            let secret = secret.ok().filter(|s| matches!(s.len(), 16 | 32));
            let secret =
                secret.ok_or_else(|| bad(format!("{at}.secret"), "must be 16 or 32 bytes in base64"))?;
            Ok((name.to_owned(), secret))
        })
        .collect::<Result<_, ConfigError>>()?;
    if keys.is_empty() {
        return Err(bad(format!("{at}.keys"), "at least one key is required"));
    }
    Ok(keys)
}
