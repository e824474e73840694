//! What Azure says of a control plane, asked with the control plane's own identity.
//!
//! In production the operator's pod mounts the credential from the vault. Here one operator serves all control planes, so
//! it reads each credential from its vault, as the nodes' identity, when it has something to ask.

use crate::Cloud;
use azure::Client;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_plane::azure_checks;
use control_plane::operate::Verdict;
use control_plane::scope::{Encryption, Identity, Scope, Who};
use operands::{Azure, NodeIdentity};
use reconcile::chain;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the cluster names no identity for this")]
    Nobody,
    #[error("{0}")]
    Reader(String),
    #[error("cannot read secret {name} of vault {vault}")]
    Vault { vault: String, name: String, source: Box<azure::Error> },
    #[error("secret {name} of vault {vault} is not encoded as {encoding}")]
    Encoding { vault: String, name: String, encoding: String },
    #[error("cannot keep the credential {name}")]
    Keep { name: String, source: io::Error },
}

pub(crate) struct Verdicts {
    azure: Azure,
    reader: Result<Client, String>,
    dir: PathBuf,
}

impl Verdicts {
    pub(crate) fn new(cloud: &Cloud, dir: &Path) -> Verdicts {
        let azure = cloud.azure().brief();
        let reader = cloud.node_identity().credential(&cloud.vault_reader);
        let reader = reader.map(|c| azure.client_with(c));
        Verdicts { azure, reader, dir: dir.join("operator-identities") }
    }

    pub(crate) async fn azure(&self, scope: &Scope) -> Verdict {
        match self.client(scope, Who::ControlPlaneOperator).await {
            Ok(client) => azure_checks::locations(&client, scope).await,
            Err(e) => Verdict::Unknown(chain(&e).to_string()),
        }
    }

    pub(crate) async fn kms(&self, scope: &Scope) -> Verdict {
        let Some(Encryption::Kms { active, .. }) = &scope.encryption else { return Verdict::Good };
        match self.client(scope, Who::Kms).await {
            Ok(client) => azure_checks::key(&client, active).await,
            Err(e) => Verdict::Unknown(chain(&e).to_string()),
        }
    }

    /// As one of a cluster's identities.
    async fn client(&self, scope: &Scope, who: Who) -> Result<Client, Error> {
        let Identity::Managed { vault, .. } = &scope.identity else { return Err(Error::Nobody) };
        let secret = scope.identity.secret(who).ok_or(Error::Nobody)?;
        let reader = self.reader.as_ref().map_err(|e| Error::Reader(e.clone()))?;
        let name = || secret.name.clone();
        let failed = |e| Error::Vault { vault: vault.clone(), name: name(), source: Box::new(e) };
        let found = reader.vault(vault).map_err(failed)?.secrets().get(&secret.name).await.map_err(failed)?;
        let text = found.value.map(|v| v.expose().to_owned()).unwrap_or_default();
        let bytes = match secret.encoding.as_str() {
            "base64" => STANDARD.decode(text.trim()).ok(),
            "" | "utf-8" => Some(text.into_bytes()),
            _ => None,
        };
        let bytes = bytes.ok_or_else(|| Error::Encoding {
            vault: vault.clone(),
            name: name(),
            encoding: secret.encoding.clone(),
        })?;
        let (dir, file) = (self.dir.join(vault), self.dir.join(vault).join(&secret.name));
        let at = file.clone();
        let kept = tokio::task::spawn_blocking(move || keep(&dir, &at, &bytes)).await;
        let kept = kept.unwrap_or_else(|e| Err(io::Error::other(e)));
        kept.map_err(|source| Error::Keep { name: name(), source })?;
        Ok(self.azure.client(&operands::Identity::Mounted { file }))
    }
}

/// A file that only we read; readers see all of the old or all of the new.
fn keep(dir: &Path, file: &Path, bytes: &[u8]) -> io::Result<()> {
    if std::fs::read(file).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    std::fs::create_dir_all(dir)?;
    let fresh = file.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    let mut open = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    io::Write::write_all(&mut open, bytes)?;
    std::fs::rename(fresh, file)
}
