//! The data directory: a lock, numbered log segments, and at most one complete snapshot.
//!
//! `snap-N` holds the state before segment `log-N`. Opening loads the newest complete snapshot and replays
//! the segments from its number on. Only the last segment can have been cut short by a crash; a bad frame
//! there with nothing valid behind it is a torn tail and is cut. A bad frame anywhere else means the disk
//! lost acknowledged data, and opening refuses rather than serve a history with a hole.

use crate::record::{self, Record};
use crate::table::{Cluster, Clusters, Entry, Staged, Table};
use crate::{ClusterId, Options};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot {action} {path}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "data directory {path} is in use by another server{}; stop it first or choose another --data-dir",
        .pid.as_ref().map(|p| format!(" (pid {p})")).unwrap_or_default()
    )]
    Locked { path: PathBuf, pid: Option<String> },
    #[error(
        "{path} is damaged at byte {offset} and valid records follow, so acknowledged writes would be lost; \
         restore the directory from a backup, or move this file away to start from the last snapshot"
    )]
    Damaged { path: PathBuf, offset: u64 },
    #[error("log segment {missing} is missing from {path}; restore the directory from a backup")]
    MissingSegment { path: PathBuf, missing: u64 },
}

pub(crate) fn io_err(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::Io { action, path: path.to_owned(), source }
}

/// An open data directory: the segment being appended to, and the lock that makes us its only writer.
pub(crate) struct Log {
    pub(crate) dir: PathBuf,
    _lock: File,
    file: File,
    pub(crate) segment: u64,
    /// Length of the current segment that is known to be whole.
    pub(crate) len: u64,
    pub(crate) sync: bool,
}

pub(crate) fn segment_path(dir: &Path, n: u64) -> PathBuf {
    dir.join(format!("log-{n:010}"))
}

pub(crate) fn snapshot_path(dir: &Path, n: u64) -> PathBuf {
    dir.join(format!("snap-{n:010}"))
}

/// Makes renames and new files in `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

impl Log {
    pub(crate) fn open(dir: &Path, options: &Options) -> Result<(Log, Clusters), OpenError> {
        fs::create_dir_all(dir).map_err(io_err("create", dir))?;
        let lock = lock(dir)?;
        let fresh =
            || Recovered { only: options.only.clone(), shared: options.shared.clone(), ..Default::default() };
        let mut clusters = fresh();
        let (segments, snapshots) = scan(dir)?;
        let mut first = 0;
        for n in snapshots.iter().rev() {
            let path = snapshot_path(dir, *n);
            if load_snapshot(&path, &mut clusters)? {
                first = *n;
                break;
            }
            // Incomplete: the rename came before a crash lost its data. Older state is still here.
            tracing::warn!(path = %path.display(), "ignoring an incomplete snapshot");
            clusters = fresh();
        }
        let live: Vec<u64> = segments.into_iter().filter(|n| *n >= first).collect();
        for (i, n) in live.iter().enumerate() {
            let expected = first + i as u64;
            if *n != expected {
                return Err(OpenError::MissingSegment { path: dir.to_owned(), missing: expected });
            }
        }
        let last = live.last().copied().unwrap_or(first);
        let mut len = 0;
        for n in &live {
            len = replay(&segment_path(dir, *n), *n == last, &mut clusters)?;
        }
        let path = segment_path(dir, last);
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(io_err("open", &path))?;
        file.seek(SeekFrom::Start(len)).map_err(io_err("seek in", &path))?;
        let sync = options.sync;
        if sync {
            sync_dir(dir).map_err(io_err("sync", dir))?;
        }
        Ok((Log { dir: dir.to_owned(), _lock: lock, file, segment: last, len, sync }, clusters.clusters))
    }

    /// Appends and syncs. On a failed write the segment is cut back and stays usable (`Ok(Err)`); a failed
    /// sync or cut leaves the disk's state unknown (`Err`).
    pub(crate) fn append(&mut self, frames: &[u8]) -> Result<Result<(), io::Error>, io::Error> {
        if let Err(e) = self.file.write_all(frames) {
            self.file.set_len(self.len)?;
            self.file.seek(SeekFrom::Start(self.len))?;
            return Ok(Err(e));
        }
        if self.sync {
            self.file.sync_data()?;
        }
        self.len += frames.len() as u64;
        Ok(Ok(()))
    }

    /// Starts the next segment; the caller snapshots the state that precedes it.
    pub(crate) fn rotate(&mut self) -> io::Result<u64> {
        let next = self.segment + 1;
        let file =
            OpenOptions::new().create(true).truncate(true).write(true).open(segment_path(&self.dir, next))?;
        sync_dir(&self.dir)?;
        self.file = file;
        self.segment = next;
        self.len = 0;
        Ok(next)
    }
}

fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join("LOCK");
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(io_err("open", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = (&mut file).take(20).read_to_string(&mut pid);
            let pid = Some(pid.trim().to_owned()).filter(|p| !p.is_empty());
            return Err(OpenError::Locked { path: dir.to_owned(), pid });
        }
        Err(TryLockError::Error(e)) => return Err(io_err("lock", &path)(e)),
    }
    // The pid is for the message only; the lock is what counts.
    file.set_len(0).map_err(io_err("truncate", &path))?;
    file.write_all(std::process::id().to_string().as_bytes()).map_err(io_err("write", &path))?;
    Ok(file)
}

/// Segment and snapshot numbers, ascending. Leftovers of unfinished snapshots are removed.
fn scan(dir: &Path) -> Result<(Vec<u64>, Vec<u64>), OpenError> {
    let (mut segments, mut snapshots) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(dir).map_err(io_err("list", dir))? {
        let entry = entry.map_err(io_err("list", dir))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Some(n) = name.strip_prefix("log-").and_then(|n| n.parse().ok()) {
            segments.push(n);
        } else if name.ends_with(".tmp") {
            fs::remove_file(entry.path()).map_err(io_err("remove", &entry.path()))?;
        } else if let Some(n) = name.strip_prefix("snap-").and_then(|n| n.parse().ok()) {
            snapshots.push(n);
        }
    }
    segments.sort_unstable();
    snapshots.sort_unstable();
    Ok((segments, snapshots))
}

/// Replays one segment; returns its whole length after cutting a torn tail.
fn replay(path: &Path, last: bool, clusters: &mut Recovered) -> Result<u64, OpenError> {
    let data = fs::read(path).map_err(io_err("read", path))?;
    let mut at = 0;
    while at < data.len() {
        let Some((payload, n)) = record::unframe(&data[at..]) else {
            if !last || valid_frame_after(&data, at + 1) {
                return Err(OpenError::Damaged { path: path.to_owned(), offset: at as u64 });
            }
            tracing::warn!(path = %path.display(), offset = at, bytes = data.len() - at, "cut a torn tail");
            let file = OpenOptions::new().write(true).open(path).map_err(io_err("open", path))?;
            file.set_len(at as u64).map_err(io_err("truncate", path))?;
            file.sync_all().map_err(io_err("sync", path))?;
            return Ok(at as u64);
        };
        let record = record::decode(payload)
            .ok_or_else(|| OpenError::Damaged { path: path.to_owned(), offset: at as u64 })?;
        apply(record, clusters);
        at += n;
    }
    Ok(at as u64)
}

/// Whether any frame starts at or after `from`: then the bad one before it is a hole, not a torn tail.
fn valid_frame_after(data: &[u8], from: usize) -> bool {
    let mut at = from;
    while let Some(i) = data[at..].windows(4).position(|w| w == record::MAGIC) {
        if record::unframe(&data[at + i..]).is_some() {
            return true;
        }
        at += i + 1;
    }
    false
}

fn load_snapshot(path: &Path, clusters: &mut Recovered) -> Result<bool, OpenError> {
    let data = fs::read(path).map_err(io_err("read", path))?;
    let (mut at, mut objects, mut complete) = (0, 0u64, false);
    while at < data.len() {
        let Some((payload, n)) = record::unframe(&data[at..]) else { return Ok(false) };
        match record::decode(payload) {
            Some(Record::End { objects: n }) => complete = n == objects,
            Some(record) => {
                if let Record::Commit { changes, .. } = &record {
                    objects += changes.len() as u64;
                }
                apply(record, clusters);
            }
            None => return Ok(false),
        }
        at += n;
    }
    Ok(complete)
}

/// The state so far.
#[derive(Default)]
struct Recovered {
    clusters: Clusters,
    shared: Shared,
    only: Option<ClusterId>,
}

/// What clusters were founded on, found again in several logs and kept once. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<HashMap<u64, Weak<Entry>>>>);

/// Founding objects have the first revisions of their cluster.
const FOUNDING: u64 = 512;

impl Recovered {
    fn share(&mut self, mut change: Staged) -> Staged {
        if change.deleted || change.entry.revision > FOUNDING {
            return change;
        }
        let sum = xxhash_rust::xxh3::xxh3_64(&change.entry.bytes());
        let mut shared = self.shared.0.lock();
        match shared.get(&sum).and_then(Weak::upgrade) {
            Some(known) if known.bytes() == change.entry.bytes() => change.entry = known,
            Some(_) => {}
            None => _ = shared.insert(sum, Arc::downgrade(&change.entry)),
        }
        change
    }
}

fn cluster(clusters: &mut Recovered, id: ClusterId) -> &Arc<RwLock<Cluster>> {
    let id = clusters.only.clone().unwrap_or(id);
    clusters.clusters.entry(id).or_default()
}

/// Applies a record without history: a restarted server has the state, and the floor of each table says
/// from which revision a watch may still resume.
fn apply(record: Record, clusters: &mut Recovered) {
    match record {
        Record::Commit { cluster: id, changes } => {
            let changes: Vec<_> = changes.into_iter().map(|c| clusters.share(c)).collect();
            let mut c = cluster(clusters, id).write();
            for change in changes {
                let revision = change.entry.revision;
                c.revision = c.revision.max(revision);
                let t = c.table(&change.table);
                t.floor = t.floor.max(revision);
                if change.deleted {
                    t.objects.remove(&change.key);
                } else {
                    t.objects.insert(change.key, change.entry);
                }
            }
        }
        Record::DropCluster { cluster } => {
            clusters.clusters.remove(clusters.only.as_ref().unwrap_or(&cluster));
        }
        Record::ClusterHead { cluster: id, revision, floors } => {
            let mut c = cluster(clusters, id).write();
            c.revision = c.revision.max(revision);
            for (name, floor) in floors {
                c.tables.entry(name).or_insert_with(|| Table::new(0)).floor = floor;
            }
        }
        Record::End { .. } => {}
    }
}
