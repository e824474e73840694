//! Files that are read and written. Client ids are no secrets, but what names an installation's identities is nobody
//! else's business: mode 0600.

use anyhow::{Context, bail};
use landing_zone::identities::{ControlPlaneIdentities, DataPlaneIdentities, WorkloadIdentities};
use serde::de::DeserializeOwned;
use std::io::Write;
use std::path::Path;

/// More than this is not one of these files.
const MAX: u64 = 1 << 20;
/// Writes the files of both planes.
const MANAGED: &str = "zaffre create managed-identities azure";

/// `writer` is the command that writes such files.
fn read<T: DeserializeOwned>(flag: &str, writer: &str, path: &Path) -> anyhow::Result<T> {
    let shown = path.display();
    let size = std::fs::metadata(path).with_context(|| format!("cannot read {shown} ({flag})"))?.len();
    if size > MAX {
        bail!("{shown} ({flag}) is larger than {MAX} bytes: is it the right file?");
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown} ({flag})"))?;
    serde_json::from_str(&text).with_context(|| format!("{shown} ({flag}) is not what `{writer}` writes"))
}

pub fn workload_identities(path: &Path) -> anyhow::Result<WorkloadIdentities> {
    read("--workload-identities-file", "zaffre create iam azure", path)
}

pub fn control_plane(path: &Path) -> anyhow::Result<ControlPlaneIdentities> {
    read("--managed-identities-file", MANAGED, path)
}

pub fn data_plane(path: &Path) -> anyhow::Result<DataPlaneIdentities> {
    read("--data-plane-identities-file", MANAGED, path)
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// Whether a file can be written, asked before minutes of work.
pub fn writable(path: &Path) -> anyhow::Result<()> {
    tempfile::NamedTempFile::new_in(directory(path))
        .map(drop)
        .with_context(|| format!("cannot write {} (--output-file)", path.display()))
}

/// Writes all or nothing, readable by its owner only.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let say = || format!("cannot write {}", path.display());
    // Files of this kind are made with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(directory(path)).with_context(say)?;
    file.write_all(text.as_bytes()).with_context(say)?;
    file.as_file().sync_all().with_context(say)?;
    file.persist(path).with_context(say)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_something_else() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "{}").unwrap();
        let said = workload_identities(file.path()).unwrap_err().to_string();
        assert!(
            said.contains("(--workload-identities-file) is not what `zaffre create iam azure`"),
            "{said}"
        );
        let said = control_plane(file.path()).unwrap_err().to_string();
        assert!(said.contains("`zaffre create managed-identities azure`"), "{said}");
    }
}
