//! The directory as one file.

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::path::{Path, PathBuf};

pub async fn write(dir: PathBuf, to: PathBuf) -> anyhow::Result<()> {
    let failed = format!("cannot write {}", to.display());
    tokio::task::spawn_blocking(move || pack(&dir, &to)).await?.context(failed)
}

/// Everything in the directory but the archive itself.
fn pack(dir: &Path, to: &Path) -> std::io::Result<()> {
    let mut names: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        names.push(entry?.path());
    }
    names.sort();
    // Finished before it has its name: half an archive is none.
    let part = to.with_extension("part");
    let mut tar = tar::Builder::new(GzEncoder::new(File::create(&part)?, Compression::default()));
    tar.follow_symlinks(false);
    for path in names.iter().filter(|p| **p != part && **p != to) {
        let name = path.file_name().unwrap_or_default();
        match path.is_dir() {
            true => tar.append_dir_all(name, path)?,
            false => tar.append_path_with_name(path, name)?,
        }
    }
    tar.into_inner()?.finish()?.sync_all()?;
    std::fs::rename(part, to)
}
