//! Files that flags name.

use anyhow::{Context, bail};
use std::path::Path;

/// More than this is not one of these files.
const MAX: u64 = 4 << 20;

pub fn bytes(flag: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    let say = || format!("cannot read {shown} ({flag})");
    if std::fs::metadata(path).with_context(say)?.len() > MAX {
        bail!("{shown} ({flag}) is larger than {MAX} bytes: is it the right file?");
    }
    std::fs::read(path).with_context(say)
}

pub fn text(flag: &str, path: &Path) -> anyhow::Result<String> {
    String::from_utf8(bytes(flag, path)?).with_context(|| format!("{} ({flag}) is not text", path.display()))
}

pub fn maybe<T>(
    path: Option<&Path>,
    flag: &str,
    read: impl Fn(&str, &Path) -> anyhow::Result<T>,
) -> anyhow::Result<Option<T>> {
    path.map(|p| read(flag, p)).transpose()
}

/// Registries' credentials: what docker and podman write.
pub fn pull_secret(flag: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    let data = bytes(flag, path)?;
    let parsed: Option<serde_json::Value> = serde_json::from_slice(&data).ok();
    if !parsed.is_some_and(|v| v["auths"].is_object()) {
        bail!("{} ({flag}) is no pull secret: JSON with `auths` is wanted", path.display());
    }
    Ok(data)
}

/// Authorities.
pub fn bundle(flag: &str, path: &Path) -> anyhow::Result<String> {
    let pem = text(flag, path)?;
    if !pem.contains("-----BEGIN CERTIFICATE-----") {
        bail!("{} ({flag}) has no certificate: PEM is wanted", path.display());
    }
    Ok(pem)
}
