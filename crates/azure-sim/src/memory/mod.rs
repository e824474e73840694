//! What is remembered over a restart: a snapshot, and a log of what changed since.
//!
//! A data directory holds `meta.json` (format and seed), `lock`, `secrets.json` (the authority and the signing
//! keys, readable by the owner only), `snapshot-N` and `log-N`. The state is that of the newest snapshot plus all
//! logs from its number on. One request is one log record, so a request is remembered whole or not at all.
//!
//! A change is in the operating system's hands before it is answered: what was acknowledged survives `kill -9`.
//! Files are synced to the disk when the last sync is more than a second ago, at compaction and at the end: a
//! power cut can take what was acknowledged since then. When a log outgrows its snapshot, a new log is begun and a thread
//! writes the next snapshot beside it, under a name that counts only once it is whole.
//!
//! Rejected: whole states per change (cost grows with what exists), a database (the state is already an index;
//! all that is needed is to read it back).

mod change;
mod files;
mod frame;

pub use change::{Beside, Change, ChangeError, Faults, between};
pub use files::Files;

/// A new file that only its owner may read.
pub fn create_file(path: &Path) -> io::Result<File> {
    files::create(path, false)
}
pub use frame::FrameError;

use crate::state::State;
use parking_lot::Mutex;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error("cannot {what} {path}")]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("another process uses {0}: stop it, or choose another data directory")]
    Locked(PathBuf),
    #[error("{path} is not a data directory of the Azure simulator: {why}")]
    Foreign { path: PathBuf, why: String },
    #[error("cannot read back what was remembered")]
    Frame(#[source] FrameError),
    #[error("cannot understand record {number} of {path}")]
    Record { path: PathBuf, number: usize, source: serde_json::Error },
    #[error("cannot put back record {number} of {path}")]
    Change { path: PathBuf, number: usize, source: ChangeError },
    #[error("the world was closed")]
    Closed,
    #[error("{path} is missing, but later files are there: restore it from a copy")]
    Gap { path: PathBuf },
}

const SNAPSHOT: &str = "zaffre azure-sim snapshot 1\n";
const LOG: &str = "zaffre azure-sim log 1\n";
/// A log this small is not worth compacting.
const SMALL: u64 = 1 << 20;
const SYNC: Duration = Duration::from_secs(1);

struct Log {
    file: File,
    number: u64,
    bytes: u64,
    snapshot_bytes: u64,
    synced: Instant,
    /// Writes the snapshot that makes the logs before this one superfluous; how large it became.
    compaction: Option<JoinHandle<Result<u64, MemoryError>>>,
    /// A write failed half way: nothing may follow what is torn.
    broken: bool,
}

/// The open log.
pub struct Memory {
    files: Files,
    log: Mutex<Log>,
}

impl Memory {
    /// Reads `files` into `state`, which is as seeded if there is nothing to read. Also returns what is
    /// remembered beside it.
    pub fn open(files: Files, fresh: State, empty: State) -> Result<(Memory, State, Beside), MemoryError> {
        let (snapshots, logs) = files.list()?;
        let Some(newest) = snapshots.last().copied() else {
            if let Some(n) = logs.first() {
                return Err(MemoryError::Gap { path: files.snapshot(*n) });
            }
            let snapshot_bytes = write_snapshot(&files, 1, &fresh, Beside::default())?;
            let log = begin(&files, 1, snapshot_bytes)?;
            return Ok((Memory { files, log: Mutex::new(log) }, fresh, Beside::default()));
        };
        let (mut state, mut beside) = (empty, Beside::default());
        let path = files.snapshot(newest);
        let snapshot = frame::read(&path, SNAPSHOT).map_err(MemoryError::Frame)?;
        if snapshot.torn {
            // It was renamed only after it was whole.
            let at = usize::try_from(snapshot.whole).unwrap_or(usize::MAX);
            return Err(MemoryError::Frame(FrameError::Damaged { path, at }));
        }
        replay(&path, &snapshot.frames, &mut state, &mut beside)?;
        let mut number = newest;
        let last = logs.last().copied().unwrap_or(newest).max(newest);
        let mut bytes = 0;
        for n in newest..=last {
            let path = files.log(n);
            if !path.exists() {
                // A crash between the first snapshot and its log leaves none; between two logs there is no gap.
                if n == last {
                    break;
                }
                return Err(MemoryError::Gap { path });
            }
            let content = frame::read(&path, LOG).map_err(MemoryError::Frame)?;
            if content.torn && n != last {
                let at = usize::try_from(content.whole).unwrap_or(usize::MAX);
                return Err(MemoryError::Frame(FrameError::Damaged { path, at }));
            }
            replay(&path, &content.frames, &mut state, &mut beside)?;
            (number, bytes) = (n, content.whole);
        }
        files.remove_before(newest)?;
        files.set_beside(|b| *b = beside.clone());
        let log = resume(&files, number, bytes, snapshot.whole)?;
        Ok((Memory { files, log: Mutex::new(log) }, state, beside))
    }

    /// Writes down what led from `old` to `new`. Nothing is written if nothing changed.
    pub fn note(&self, old: &State, new: &State) -> Result<(), MemoryError> {
        self.append(&between(old, new), new)
    }

    /// The clock was moved.
    pub fn note_ahead(&self, ms: i64, state: &State) -> Result<(), MemoryError> {
        self.files.set_beside(|b| b.ahead = ms);
        self.append(&[Change::Ahead(ms)], state)
    }

    /// The clock runs at another pace.
    pub fn note_scale(&self, scale: f64, state: &State) -> Result<(), MemoryError> {
        self.files.set_beside(|b| b.scale = Some(scale));
        self.append(&[Change::Scale(scale)], state)
    }

    /// Other things go wrong.
    pub fn note_faults(&self, faults: Faults, state: &State) -> Result<(), MemoryError> {
        self.files.set_beside(|b| b.faults = Some(faults.clone()));
        self.append(&[Change::Faults(faults)], state)
    }

    fn append(&self, changes: &[Change], state: &State) -> Result<(), MemoryError> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut log = self.log.lock();
        let path = self.files.log(log.number);
        let failed = |source| MemoryError::File { what: "write to", path: path.clone(), source };
        if log.broken {
            return Err(failed(io::Error::other("an earlier write failed")));
        }
        let payload = serde_json::to_vec(changes).map_err(|e| failed(e.into()))?;
        let mut framed = Vec::with_capacity(payload.len() + 16);
        let length = frame::write(&mut framed, &payload).map_err(failed)?;
        // One call, so that a process that dies leaves a whole record or a torn tail.
        let done = log.file.write_all(&framed);
        if done.is_err() {
            log.broken = log.file.set_len(log.bytes).is_err();
        }
        done.map_err(failed)?;
        log.bytes += length;
        if log.synced.elapsed() >= SYNC {
            log.file.sync_data().map_err(failed)?;
            log.synced = Instant::now();
        }
        if log.bytes > log.snapshot_bytes.max(SMALL) {
            self.compact(&mut log, state)?;
        }
        Ok(())
    }

    /// Begins a new log and has the snapshot written that makes the old one superfluous.
    fn compact(&self, log: &mut Log, state: &State) -> Result<(), MemoryError> {
        if let Some(running) = log.compaction.take() {
            if !running.is_finished() {
                log.compaction = Some(running);
                return Ok(());
            }
            if let Ok(Err(error)) = running.join() {
                tracing::warn!(%error, "cannot write a snapshot; the logs grow on");
            }
        }
        let path = self.files.log(log.number);
        log.file.sync_data().map_err(|source| MemoryError::File { what: "sync", path, source })?;
        let number = log.number + 1;
        let next = begin(&self.files, number, log.snapshot_bytes.max(log.bytes))?;
        *log = next;
        let (files, state) = (self.files.clone(), state.clone());
        let beside = self.files.beside();
        log.compaction = Some(std::thread::spawn(move || {
            let bytes = write_snapshot(&files, number, &state, beside)?;
            files.remove_before(number)?;
            Ok(bytes)
        }));
        Ok(())
    }

    /// Syncs, and waits for a snapshot under way.
    pub fn close(&self) {
        let mut log = self.log.lock();
        let _ = log.file.sync_data();
        if let Some(running) = log.compaction.take() {
            let _ = running.join();
        }
    }

    pub fn files(&self) -> &Files {
        &self.files
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.close();
    }
}

fn replay(
    path: &Path,
    frames: &[Vec<u8>],
    state: &mut State,
    beside: &mut Beside,
) -> Result<(), MemoryError> {
    for (number, frame) in frames.iter().enumerate() {
        let changes: Vec<Change> = serde_json::from_slice(frame).map_err(|source| MemoryError::Record {
            path: path.to_owned(),
            number,
            source,
        })?;
        for c in changes {
            change::apply(state, beside, c).map_err(|source| MemoryError::Change {
                path: path.to_owned(),
                number,
                source,
            })?;
        }
    }
    Ok(())
}

fn begin(files: &Files, number: u64, snapshot_bytes: u64) -> Result<Log, MemoryError> {
    let path = files.log(number);
    let failed = |source| MemoryError::File { what: "create", path: path.clone(), source };
    let mut file = files::create(&path, true).map_err(failed)?;
    file.write_all(LOG.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    files.sync()?;
    let bytes = LOG.len() as u64;
    let synced = Instant::now();
    Ok(Log { file, number, bytes, snapshot_bytes, synced, compaction: None, broken: false })
}

/// Goes on with a log, without what was torn.
fn resume(files: &Files, number: u64, whole: u64, snapshot_bytes: u64) -> Result<Log, MemoryError> {
    if whole < LOG.len() as u64 {
        return begin(files, number, snapshot_bytes);
    }
    let path = files.log(number);
    let failed = |source| MemoryError::File { what: "open", path: path.clone(), source };
    let file = File::options().append(true).open(&path).map_err(failed)?;
    file.set_len(whole).map_err(failed)?;
    let synced = Instant::now();
    Ok(Log { file, number, bytes: whole, snapshot_bytes, synced, compaction: None, broken: false })
}

/// Changes per record of a snapshot: enough to make framing cheap, few enough to be read in pieces.
const BATCH: usize = 256;

fn write_snapshot(files: &Files, number: u64, state: &State, beside: Beside) -> Result<u64, MemoryError> {
    let path = files.snapshot(number);
    let failed = |source| MemoryError::File { what: "write", path: path.clone(), source };
    let temporary = path.with_extension("tmp");
    let file = files::create(&temporary, false).map_err(failed)?;
    let mut out = BufWriter::new(file);
    let mut bytes = SNAPSHOT.len() as u64;
    out.write_all(SNAPSHOT.as_bytes()).map_err(failed)?;
    let empty = State::new(state.seed, state.tenant.clone());
    let mut changes = between(&empty, state);
    changes.extend(beside.changes());
    for batch in changes.chunks(BATCH) {
        let payload = serde_json::to_vec(batch).map_err(|e| failed(e.into()))?;
        bytes += frame::write(&mut out, &payload).map_err(failed)?;
    }
    let file = out.into_inner().map_err(|e| failed(e.into_error()))?;
    file.sync_all().map_err(failed)?;
    std::fs::rename(&temporary, &path).map_err(failed)?;
    files.sync()?;
    Ok(bytes)
}
