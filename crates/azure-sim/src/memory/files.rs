//! The files of a data directory: their names, their lock, what is secret.

use crate::memory::{Beside, MemoryError};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Meta {
    what: String,
    format: u32,
    seed: u64,
}

const WHAT: &str = "zaffre azure-sim";

/// Keys that outlive the process, PEM. Not printed.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Secrets {
    pub authority_key: String,
    pub authority_certificate: String,
    /// The newest first.
    pub signing_keys: Vec<String>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<redacted>")
    }
}

/// An open data directory; the lock is held until the last clone is gone.
#[derive(Clone)]
pub struct Files {
    dir: Arc<PathBuf>,
    _lock: Arc<File>,
    seed: u64,
    beside: Arc<Mutex<Beside>>,
}

/// Opens a file for writing that only its owner may read.
pub fn create(path: &Path, append: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true);
    if append {
        // What is in the way was torn before its first record.
        let _ = std::fs::remove_file(path);
        options.append(true);
    } else {
        options.write(true).truncate(true);
    }
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Replaces a file by way of another, so that it is old or new but never half.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), MemoryError> {
    let failed = |source| MemoryError::File { what: "write", path: path.to_owned(), source };
    let temporary = path.with_extension("tmp");
    let mut file = create(&temporary, false).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&temporary, path).map_err(failed)
}

impl Files {
    /// Opens or makes a data directory. An existing one keeps its seed.
    pub fn open(dir: &Path, seed: u64) -> Result<Files, MemoryError> {
        let file = |what, path: &Path| {
            let path = path.to_owned();
            move |source| MemoryError::File { what, path, source }
        };
        std::fs::create_dir_all(dir).map_err(file("make", dir))?;
        let meta_path = dir.join("meta.json");
        if !meta_path.exists() {
            let strange = std::fs::read_dir(dir)
                .map_err(file("list", dir))?
                .flatten()
                .map(|e| e.file_name().to_string_lossy().into_owned())
                .find(|n| n != "lock" && n != "meta.tmp");
            if let Some(name) = strange {
                let why = format!("it has no meta.json but holds '{name}'");
                return Err(MemoryError::Foreign { path: dir.to_owned(), why });
            }
        }
        let lock_path = dir.join("lock");
        let lock = create_lock(&lock_path).map_err(file("create", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(MemoryError::Locked(dir.to_owned())),
            Err(std::fs::TryLockError::Error(source)) => {
                return Err(MemoryError::File { what: "lock", path: lock_path, source });
            }
        }
        let seed = match std::fs::read(&meta_path) {
            Ok(bytes) => read_meta(dir, &bytes)?.seed,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let meta = Meta { what: WHAT.into(), format: FORMAT, seed };
                let text = serde_json::to_vec_pretty(&meta).unwrap_or_default();
                replace(&meta_path, &text)?;
                seed
            }
            Err(source) => return Err(file("read", &meta_path)(source)),
        };
        Ok(Files { dir: Arc::new(dir.to_owned()), _lock: Arc::new(lock), seed, beside: Arc::default() })
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// What is remembered beside the state.
    pub fn beside(&self) -> Beside {
        self.beside.lock().clone()
    }

    pub fn set_beside(&self, how: impl FnOnce(&mut Beside)) {
        how(&mut self.beside.lock());
    }

    /// Where contents of data planes are.
    pub fn contents(&self) -> PathBuf {
        self.dir.join("contents")
    }

    pub fn snapshot(&self, n: u64) -> PathBuf {
        self.dir.join(format!("snapshot-{n}"))
    }

    pub fn log(&self, n: u64) -> PathBuf {
        self.dir.join(format!("log-{n}"))
    }

    /// The numbers of snapshots and logs, in order.
    pub fn list(&self) -> Result<(Vec<u64>, Vec<u64>), MemoryError> {
        let failed = |source| MemoryError::File { what: "list", path: self.dir.to_path_buf(), source };
        let (mut snapshots, mut logs) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(&*self.dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            let number = |prefix: &str| name.strip_prefix(prefix).and_then(|n| n.parse::<u64>().ok());
            snapshots.extend(number("snapshot-"));
            logs.extend(number("log-"));
        }
        snapshots.sort_unstable();
        logs.sort_unstable();
        Ok((snapshots, logs))
    }

    /// Removes what a snapshot makes superfluous.
    pub fn remove_before(&self, n: u64) -> Result<(), MemoryError> {
        let (snapshots, logs) = self.list()?;
        let old = |l: Vec<u64>| l.into_iter().filter(move |x| *x < n);
        for path in
            old(snapshots).map(|x| self.snapshot(x)).chain(old(logs).map(|x| self.log(x))).collect::<Vec<_>>()
        {
            std::fs::remove_file(&path).map_err(|source| MemoryError::File {
                what: "remove",
                path,
                source,
            })?;
        }
        Ok(())
    }

    /// Makes names durable.
    pub fn sync(&self) -> Result<(), MemoryError> {
        File::open(&*self.dir).and_then(|d| d.sync_all()).map_err(|source| MemoryError::File {
            what: "sync",
            path: self.dir.to_path_buf(),
            source,
        })
    }

    pub fn secrets(&self) -> Result<Option<Secrets>, MemoryError> {
        let path = self.dir.join("secrets.json");
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|_| MemoryError::Foreign {
                path,
                why: "it does not hold the simulator's keys".into(),
            }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(MemoryError::File { what: "read", path, source }),
        }
    }

    pub fn keep_secrets(&self, secrets: &Secrets) -> Result<(), MemoryError> {
        let bytes = serde_json::to_vec_pretty(secrets).unwrap_or_default();
        replace(&self.dir.join("secrets.json"), &bytes)?;
        self.sync()
    }
}

fn create_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn read_meta(dir: &Path, bytes: &[u8]) -> Result<Meta, MemoryError> {
    let foreign = |why: String| MemoryError::Foreign { path: dir.to_owned(), why };
    let meta: Meta = serde_json::from_slice(bytes).map_err(|e| foreign(format!("meta.json: {e}")))?;
    if meta.what != WHAT {
        return Err(foreign(format!("meta.json says '{}'", meta.what)));
    }
    if meta.format != FORMAT {
        return Err(foreign(format!(
            "it has format {}, this version reads {FORMAT}: use the version that wrote it",
            meta.format
        )));
    }
    Ok(meta)
}
