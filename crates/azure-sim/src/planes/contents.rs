//! Bytes that clients upload: found by their SHA-256, kept as files or in memory.
//!
//! The state holds only handles, so a copy of it costs nothing and a snapshot of it holds no blob. In a data
//! directory each content is one file `contents/SHA256`, written whole under another name first. It is there before
//! the log record that refers to it; if the request is refused after all, it goes with the last handle. What was
//! referred to once is removed when nobody in the process does any more: at the next start, or when much was written
//! since.

use aws_lc_rs::digest;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use md5::{Digest, Md5};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    #[error("the body is larger than {0} bytes")]
    TooLarge(u64),
    #[error("the client went away before the body was whole")]
    Cut,
    #[error("cannot store what was uploaded")]
    Store(#[source] io::Error),
}

/// In memory, one upload may not be larger than this; on disk, Azure's own limit for a block counts.
const MOST_IN_MEMORY: u64 = 256 << 20;
const MOST_ON_DISK: u64 = 4000 << 20;
/// So much is written between two sweeps.
const SWEEP: u64 = 256 << 20;

#[derive(Debug)]
enum Place {
    Memory(Bytes),
    File(PathBuf),
    /// Referred to by the log, but not there any more.
    Missing,
}

/// One stored content.
pub struct Content {
    sha256: [u8; 32],
    len: u64,
    place: Place,
    /// Whether the state refers to it, or did.
    kept: AtomicBool,
    store: Contents,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({}, {} bytes)", hex(&self.sha256), self.len)
    }
}

impl Content {
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn read(&self, from: u64, len: u64) -> io::Result<Bytes> {
        match &self.place {
            Place::Memory(bytes) => {
                let (from, end) = (at(from)?, at(from + len)?);
                if end > bytes.len() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(bytes.slice(from..end))
            }
            Place::File(path) => {
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(from))?;
                let mut out = BytesMut::zeroed(at(len)?);
                file.read_exact(&mut out)?;
                Ok(out.freeze())
            }
            Place::Missing => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }
}

fn at(n: u64) -> io::Result<usize> {
    usize::try_from(n).map_err(|_| io::ErrorKind::InvalidInput.into())
}

impl Drop for Content {
    fn drop(&mut self) {
        let Place::File(path) = &self.place else { return };
        if self.kept.load(Ordering::Relaxed) {
            return;
        }
        let mut live = self.store.0.live.lock();
        // Another upload of the same bytes may have taken the place meanwhile.
        if live.get(&self.sha256).is_some_and(|w| std::ptr::eq(w.as_ptr(), self)) {
            live.remove(&self.sha256);
            let _ = std::fs::remove_file(path);
        }
    }
}

struct Inner {
    dir: Option<PathBuf>,
    live: Mutex<HashMap<[u8; 32], Weak<Content>>>,
    named: AtomicU64,
    written: AtomicU64,
}

/// Where contents are.
#[derive(Clone)]
pub struct Contents(Arc<Inner>);

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Contents({:?})", self.0.dir)
    }
}

impl Default for Contents {
    fn default() -> Contents {
        Contents::new(None)
    }
}

/// A part of a stored body: remembered by its digest, found again in the store.
#[derive(Clone, Serialize, Deserialize)]
pub struct Chunk {
    #[serde(with = "hexed")]
    sha256: [u8; 32],
    len: u64,
    #[serde(skip)]
    content: Option<Arc<Content>>,
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk({} bytes)", self.len)
    }
}

impl Chunk {
    pub fn of(content: &Arc<Content>) -> Chunk {
        Chunk { sha256: content.sha256, len: content.len, content: Some(content.clone()) }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// Marks it as referred to by the state, and finds it if it was only remembered.
    pub fn attach(&mut self, store: &Contents) {
        let found = self.content.take().unwrap_or_else(|| store.find(self.sha256, self.len));
        found.keep();
        self.content = Some(found);
    }
}

/// A range of one content, to be sent.
#[derive(Clone, Debug)]
pub struct Slice {
    pub content: Arc<Content>,
    pub from: u64,
    pub len: u64,
}

pub fn total(chunks: &[Chunk]) -> u64 {
    chunks.iter().map(|c| c.len).sum()
}

/// The parts of `chunks` that make up a range.
pub fn slices(chunks: &[Chunk], mut from: u64, mut len: u64) -> Vec<Slice> {
    let mut out = Vec::new();
    for c in chunks {
        if len == 0 {
            break;
        }
        if from >= c.len {
            from -= c.len;
            continue;
        }
        let take = (c.len - from).min(len);
        if let Some(content) = &c.content {
            out.push(Slice { content: content.clone(), from, len: take });
        }
        (from, len) = (0, len - take);
    }
    out
}

/// All of it, if it is no more than `most`.
pub fn whole(chunks: &[Chunk], most: u64) -> io::Result<Bytes> {
    let length = total(chunks);
    if length > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    if let [one] = chunks {
        return one.content.as_ref().ok_or(io::ErrorKind::NotFound)?.read(0, one.len);
    }
    let mut out = BytesMut::with_capacity(at(length)?);
    for s in slices(chunks, 0, length) {
        out.extend_from_slice(&s.content.read(s.from, s.len)?);
    }
    Ok(out.freeze())
}

/// How much is read at once when it is sent or hashed.
pub const STEP: u64 = 256 << 10;

/// The SHA-256 of all of it.
pub fn sha256(chunks: &[Chunk]) -> io::Result<[u8; 32]> {
    if let [one] = chunks {
        return Ok(one.sha256);
    }
    let mut sum = digest::Context::new(&digest::SHA256);
    for mut s in slices(chunks, 0, total(chunks)) {
        while s.len > 0 {
            let step = s.len.min(STEP);
            sum.update(&s.content.read(s.from, step)?);
            (s.from, s.len) = (s.from + step, s.len - step);
        }
    }
    Ok(digest_bytes(&sum.finish()))
}

fn digest_bytes(d: &digest::Digest) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(d.as_ref());
    out
}

/// A body that arrived.
#[derive(Debug)]
pub struct Upload {
    pub content: Arc<Content>,
    pub md5: [u8; 16],
}

impl Upload {
    pub fn sha256(&self) -> [u8; 32] {
        self.content.sha256
    }

    pub fn len(&self) -> u64 {
        self.content.len
    }
}

enum Sink {
    Memory(BytesMut),
    File { file: File, path: Option<PathBuf> },
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Sink::File { path: Some(path), .. } = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A body on its way in.
pub struct Writer {
    store: Contents,
    sink: Sink,
    sha256: digest::Context,
    md5: Md5,
    len: u64,
    most: u64,
}

impl Writer {
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), ContentError> {
        self.len += bytes.len() as u64;
        if self.len > self.most {
            return Err(ContentError::TooLarge(self.most));
        }
        self.sha256.update(bytes);
        self.md5.update(bytes);
        match &mut self.sink {
            Sink::Memory(all) => all.extend_from_slice(bytes),
            Sink::File { file, .. } => file.write_all(bytes).map_err(ContentError::Store)?,
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<Upload, ContentError> {
        let sha256 = digest_bytes(&self.sha256.clone().finish());
        let md5: [u8; 16] = std::mem::take(&mut self.md5).finalize().into();
        let mut live = self.store.0.live.lock();
        if let Some(known) = live.get(&sha256).and_then(Weak::upgrade) {
            // Let go of the lock first: if this is the last handle, its end takes it.
            drop(live);
            return Ok(Upload { content: known, md5 });
        }
        let place = match &mut self.sink {
            Sink::Memory(all) => Place::Memory(std::mem::take(all).freeze()),
            Sink::File { path, .. } => {
                let whole = self.store.path(&sha256);
                if let Some(from) = path.take() {
                    std::fs::rename(&from, &whole).map_err(ContentError::Store)?;
                }
                Place::File(whole)
            }
        };
        let store = self.store.clone();
        let content = Arc::new(Content { sha256, len: self.len, place, kept: AtomicBool::new(false), store });
        live.insert(sha256, Arc::downgrade(&content));
        drop(live);
        let written = self.store.0.written.fetch_add(self.len, Ordering::Relaxed) + self.len;
        if written > SWEEP {
            self.store.0.written.store(0, Ordering::Relaxed);
            self.store.forget_dead();
        }
        Ok(Upload { content, md5 })
    }
}

impl Contents {
    fn new(dir: Option<PathBuf>) -> Contents {
        Contents(Arc::new(Inner {
            dir,
            live: Mutex::default(),
            named: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }))
    }

    /// In a directory, which is made when there is something to store.
    pub fn open(dir: &Path) -> Contents {
        Contents::new(Some(dir.to_owned()))
    }

    /// A new file in the directory, which only its owner may enter.
    fn create(dir: &Path, name: &str) -> io::Result<(File, PathBuf)> {
        let path = dir.join(name);
        match crate::memory::create_file(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => return other.map(|f| (f, path)),
        }
        std::fs::create_dir_all(dir)?;
        #[cfg(unix)]
        std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        crate::memory::create_file(&path).map(|f| (f, path))
    }

    fn path(&self, sha256: &[u8; 32]) -> PathBuf {
        self.0.dir.as_ref().map_or_else(PathBuf::new, |d| d.join(hex(sha256)))
    }

    fn find(&self, sha256: [u8; 32], len: u64) -> Arc<Content> {
        let mut live = self.0.live.lock();
        if let Some(known) = live.get(&sha256).and_then(Weak::upgrade) {
            return known;
        }
        let path = self.path(&sha256);
        let there = std::fs::metadata(&path).is_ok_and(|m| m.len() == len);
        let place = if there { Place::File(path) } else { Place::Missing };
        let content =
            Arc::new(Content { sha256, len, place, kept: AtomicBool::new(true), store: self.clone() });
        live.insert(sha256, Arc::downgrade(&content));
        content
    }

    pub fn writer(&self) -> Result<Writer, ContentError> {
        let (sink, most) = match &self.0.dir {
            None => (Sink::Memory(BytesMut::new()), MOST_IN_MEMORY),
            Some(dir) => {
                let n = self.0.named.fetch_add(1, Ordering::Relaxed);
                let (file, path) = Contents::create(dir, &format!("tmp-{n}")).map_err(ContentError::Store)?;
                (Sink::File { file, path: Some(path) }, MOST_ON_DISK)
            }
        };
        let (sha256, md5) = (digest::Context::new(&digest::SHA256), Md5::default());
        Ok(Writer { store: self.clone(), sink, sha256, md5, len: 0, most })
    }

    pub fn put(&self, bytes: &[u8]) -> Result<Upload, ContentError> {
        let mut w = self.writer()?;
        w.add(bytes)?;
        w.finish()
    }

    /// Stores a body as it arrives, so that no more of it is in memory than a frame.
    pub async fn receive<B>(&self, mut body: B) -> Result<Upload, ContentError>
    where
        B: hyper::body::Body<Data = Bytes> + Unpin,
    {
        let mut w = self.writer()?;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| ContentError::Cut)?;
            if let Ok(data) = frame.into_data() {
                w.add(&data)?;
            }
        }
        w.finish()
    }

    /// Removes the files of contents that nobody holds any more.
    fn forget_dead(&self) {
        let mut live = self.0.live.lock();
        let dead: Vec<[u8; 32]> =
            live.iter().filter(|(_, w)| w.strong_count() == 0).map(|(k, _)| *k).collect();
        for sha256 in dead {
            live.remove(&sha256);
            if self.0.dir.is_some() {
                let _ = std::fs::remove_file(self.path(&sha256));
            }
        }
    }

    /// Removes what the state that was read back does not refer to.
    pub fn sweep(&self) {
        let Some(dir) = &self.0.dir else { return };
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        let live = self.0.live.lock();
        let named: std::collections::HashSet<String> =
            live.iter().filter(|(_, w)| w.strong_count() > 0).map(|(k, _)| hex(k)).collect();
        for entry in entries.flatten() {
            if !named.contains(entry.file_name().to_string_lossy().as_ref()) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut s, b| {
        use fmt::Write as _;
        let _ = write!(s, "{b:02x}");
        s
    })
}

pub fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).ok()).collect()
}

mod hexed {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8; 32], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&super::hex(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(d)?;
        let bytes = super::unhex(&text).and_then(|b| b.try_into().ok());
        bytes.ok_or_else(|| serde::de::Error::custom("not a SHA-256"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &Path) -> usize {
        std::fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn what_nobody_refers_to_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let store = Contents::open(dir.path());
        let upload = store.put(b"refused").unwrap();
        assert_eq!(files(dir.path()), 1);
        drop(upload);
        assert_eq!(files(dir.path()), 0);
        // A body that never became whole.
        let mut w = store.writer().unwrap();
        w.add(b"half").unwrap();
        drop(w);
        assert_eq!(files(dir.path()), 0);
        let mut chunk = Chunk::of(&store.put(b"kept").unwrap().content);
        chunk.attach(&store);
        drop(chunk);
        assert_eq!(files(dir.path()), 1, "the log may still refer to it");
        store.sweep();
        assert_eq!(files(dir.path()), 0);
    }

    #[test]
    fn ranges_cross_chunks() {
        let store = Contents::default();
        let chunks: Vec<Chunk> = ["hello ", "", "wide ", "world"]
            .iter()
            .map(|t| Chunk::of(&store.put(t.as_bytes()).unwrap().content))
            .collect();
        let all = "hello wide world";
        assert_eq!(whole(&chunks, 100).unwrap(), all);
        for from in 0..all.len() {
            for end in from..=all.len() {
                let got: Vec<u8> = slices(&chunks, from as u64, (end - from) as u64)
                    .iter()
                    .flat_map(|s| s.content.read(s.from, s.len).unwrap().to_vec())
                    .collect();
                assert_eq!(got, all.as_bytes()[from..end], "{from}..{end}");
            }
        }
        let one = Chunk::of(&store.put(all.as_bytes()).unwrap().content);
        assert_eq!(sha256(&chunks).unwrap(), sha256(&[one]).unwrap());
    }

    #[test]
    fn the_same_bytes_are_stored_once_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let store = Contents::open(dir.path());
        let (a, b) = (store.put(b"x").unwrap(), store.put(b"x").unwrap());
        assert!(Arc::ptr_eq(&a.content, &b.content));
        assert_eq!(files(dir.path()), 1);
        let mut chunk = Chunk::of(&a.content);
        chunk.attach(&store);
        let text = serde_json::to_string(&chunk).unwrap();
        let again = Contents::open(dir.path());
        let mut read: Chunk = serde_json::from_str(&text).unwrap();
        read.attach(&again);
        assert_eq!(whole(&[read], 9).unwrap(), "x");
    }
}
