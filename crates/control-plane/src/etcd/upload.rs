//! `zaffre serve etcd-backup`: puts a snapshot into a container of blobs, and ends.
//!
//! Who it is to Azure comes from the environment, as the official clients read it; the Job puts a Secret or the file of a
//! managed identity there.

use azure::blob::UploadOptions;
use azure::{ClientOptions, Env};
use std::path::Path;

/// What is to be put where.
#[derive(Clone, Debug, clap::Args)]
pub struct UploadArgs {
    /// The snapshot to upload
    #[arg(long, value_name = "FILE", default_value = super::backup::SNAPSHOT)]
    pub file: std::path::PathBuf,
    /// Storage account
    #[arg(long, value_name = "NAME")]
    pub storage_account: String,
    /// Container of the account; it must exist
    #[arg(long, value_name = "NAME")]
    pub container: String,
    /// Name of the blob
    #[arg(long, value_name = "NAME")]
    pub blob: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the snapshot {file}")]
    Read { file: String, source: std::io::Error },
    #[error("the snapshot {file} is empty: the step before took none")]
    Empty { file: String },
    #[error("cannot connect to Azure")]
    Connect(#[source] azure::ConnectError),
    #[error("cannot write blob {blob} of container {container} in storage account {account}")]
    Write { account: String, container: String, blob: String, source: azure::Error },
    #[error("the blob {blob} has {stored:?} bytes, the snapshot {length}: it was not stored whole")]
    Short { blob: String, stored: Option<u64>, length: u64 },
}

/// Uploads; returns where the snapshot is now. `file` is where `args.file` really lies.
pub async fn upload(env: &Env, args: &UploadArgs, file: &Path) -> Result<String, Error> {
    let shown = || args.file.display().to_string();
    let read = |source| Error::Read { file: shown(), source };
    let from = tokio::fs::File::open(file).await.map_err(read)?;
    let length = from.metadata().await.map_err(read)?.len();
    if length == 0 {
        return Err(Error::Empty { file: shown() });
    }
    let azure = azure::connect(env, ClientOptions::default()).await.map_err(Error::Connect)?;
    let failed = |source| Error::Write {
        account: args.storage_account.clone(),
        container: args.container.clone(),
        blob: args.blob.clone(),
        source,
    };
    let blobs = azure.client.blobs(&args.storage_account).map_err(failed)?;
    let container = blobs.container(&args.container).map_err(failed)?;
    container.upload(&args.blob, from, &UploadOptions::default()).await.map_err(failed)?;
    // A backup is one when it can be seen to be there.
    let stored = container.head(&args.blob).await.map_err(failed)?.map(|p| p.size);
    if stored != Some(length) {
        return Err(Error::Short { blob: args.blob.clone(), stored, length });
    }
    Ok(format!("{}/{}/{}", blobs.endpoint().trim_end_matches('/'), args.container, args.blob))
}
