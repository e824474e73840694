//! Copies of a store, to keep elsewhere and to begin again from.
//!
//! A backup is one file: a line that says what it is, the state as the log would hold it, and a SHA-256 over both.
//! It is taken from the published state, so it is one moment of a running store and holds nothing that was not
//! acknowledged. Objects that are stored sealed are in it as they are stored.

use crate::log::{segment_path, snapshot_path, sync_dir};
use crate::record::{self, Record};
use crate::{Store, members, snapshot};
use aws_lc_rs::digest::{Context, SHA256};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

const HEAD: &[u8] = b"zaffre-etcd-snapshot-1\n";
const SUM: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("cannot {action} {path}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} is not a snapshot of an etcd of ours")]
    Foreign { path: PathBuf },
    #[error("{path} is damaged: {why}; take another snapshot, or use an older one")]
    Damaged { path: PathBuf, why: &'static str },
    #[error("{path} holds data already; a snapshot is restored into an empty directory")]
    NotEmpty { path: PathBuf },
}

fn io_err(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    move |source| BackupError::Io { action, path: path.to_owned(), source }
}

/// What is in a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    pub revision: u64,
    pub objects: u64,
    pub bytes: u64,
    /// SHA-256, in hex.
    pub sum: String,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Writes and sums.
struct Summing<W>(W, Context, u64);

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = self.0.write(buf)?;
        self.1.update(&buf[..n]);
        self.2 += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Store {
    /// Copies the present state to a file, which is there whole or not at all. Blocks.
    pub fn backup(&self, path: &Path) -> Result<Backup, BackupError> {
        let frozen = self.freeze();
        let tmp = path.with_extension("part");
        let write = || -> io::Result<(u64, Vec<u8>)> {
            let mut out = Summing(BufWriter::new(File::create(&tmp)?), Context::new(&SHA256), 0);
            out.write_all(HEAD)?;
            snapshot::frames(&frozen, &mut out)?;
            let Summing(mut file, sum, bytes) = out;
            let sum = sum.finish().as_ref().to_vec();
            file.write_all(&sum)?;
            file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            fs::rename(&tmp, path)?;
            path.parent().map_or(Ok(()), sync_dir)?;
            Ok((bytes + SUM as u64, sum))
        };
        let (bytes, sum) = write().map_err(io_err("write", path))?;
        let objects = frozen.iter().flat_map(|f| &f.tables).map(|(_, _, o)| o.len() as u64).sum();
        Ok(Backup { revision: frozen.iter().map(|f| f.revision).sum(), objects, bytes, sum: hex(&sum) })
    }
}

/// Reads a backup and checks every byte of it.
fn read(path: &Path) -> Result<(Vec<u8>, Backup), BackupError> {
    let data = fs::read(path).map_err(io_err("read", path))?;
    let damaged = |why| BackupError::Damaged { path: path.to_owned(), why };
    if !data.starts_with(HEAD) {
        return Err(BackupError::Foreign { path: path.to_owned() });
    }
    let body =
        data.len().checked_sub(SUM).filter(|n| *n > HEAD.len()).ok_or_else(|| damaged("it is cut short"))?;
    let sum = aws_lc_rs::digest::digest(&SHA256, &data[..body]);
    if sum.as_ref() != &data[body..] {
        return Err(damaged("its checksum does not fit"));
    }
    let frames = data[HEAD.len()..body].to_vec();
    let (mut at, mut objects, mut revision, mut end) = (0, 0, 0, None);
    while at < frames.len() {
        let (payload, n) =
            record::unframe(&frames[at..]).ok_or_else(|| damaged("a record cannot be read"))?;
        match record::decode(payload).ok_or_else(|| damaged("a record cannot be read"))? {
            Record::Commit { changes, .. } => objects += changes.len() as u64,
            Record::ClusterHead { revision: r, .. } => revision += r,
            Record::End { objects } => end = Some(objects),
            Record::DropCluster { .. } => {}
        }
        at += n;
    }
    if end != Some(objects) {
        return Err(damaged("it does not hold as many objects as it says"));
    }
    Ok((frames, Backup { revision, objects, bytes: data.len() as u64, sum: hex(sum.as_ref()) }))
}

/// What is in a backup, if it is whole.
pub fn verify(path: &Path) -> Result<Backup, BackupError> {
    read(path).map(|(_, b)| b)
}

/// Makes `dir` the directory of a member that begins with a backup. All members of a group are restored from the same
/// one: they then are of the same, new, cluster.
pub fn restore(path: &Path, dir: &Path) -> Result<Backup, BackupError> {
    let (frames, backup) = read(path)?;
    if fs::read_dir(dir).is_ok_and(|mut d| d.next().is_some()) {
        return Err(BackupError::NotEmpty { path: dir.to_owned() });
    }
    let mut staged = dir.as_os_str().to_owned();
    staged.push(".restoring");
    let staged = PathBuf::from(staged);
    let make = || -> io::Result<()> {
        let _ = fs::remove_dir_all(&staged);
        fs::create_dir_all(&staged)?;
        let mut snap = File::create(snapshot_path(&staged, 1))?;
        snap.write_all(&frames)?;
        snap.sync_all()?;
        File::create(segment_path(&staged, 1))?.sync_all()?;
        let cluster = format!("restored-{}", backup.sum.get(..16).unwrap_or_default());
        members::mark(&staged, &cluster, 1, true)?;
        if dir.exists() {
            fs::remove_dir(dir)?;
        }
        fs::rename(&staged, dir)?;
        dir.parent().map_or(Ok(()), sync_dir)
    };
    make().map_err(io_err("restore into", dir))?;
    Ok(backup)
}
