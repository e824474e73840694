//! Objects that lie on disk in another form than they are served in: encryption at rest.
//!
//! The store does not know ciphers. Whoever serves a cluster brings a [`Seal`]; from then on every write is sealed
//! before it reaches the log, and what an earlier process or an earlier key has sealed is opened once, in memory. The
//! sealed bytes are kept beside the object: a backup or a compaction must write down what is stored, under the key it
//! was stored with, and not quietly encrypt it anew. What cannot be opened stays where it is, locked, with the reason
//! that its readers are given.

use crate::table::Entry;
use crate::{Meta, TableName};
use bytes::Bytes;
use std::sync::Arc;

/// Turns objects into what is stored, and back. Called on the writer, so it must not wait for anything.
pub trait Seal: Send + Sync + 'static {
    /// What to store in place of these bytes; `None` stores them as they are. Stored forms never begin with `{`. What
    /// is to be sealed and cannot be, now, is an error and never stored as it is.
    fn seal(&self, table: &TableName, key: &str, plain: &[u8]) -> Result<Option<Vec<u8>>, String>;

    /// The object behind what is stored, which may be the object itself; or why there is no way to it.
    fn open(&self, table: &TableName, key: &str, stored: &Bytes) -> Result<Bytes, String>;

    /// Whether `seal` would use the same key today.
    fn is_current(&self, table: &TableName, stored: &[u8]) -> bool;
}

/// What a recovered object is before anybody has brought a key.
pub(crate) fn closed(stored: Bytes, revision: u64) -> Entry {
    let why = Some(Arc::from("the object is sealed and nobody has brought its key yet"));
    let sealed = Some(stored.clone());
    Entry { stored: sealed, locked: why, ..Entry::new(stored, revision, Meta::default()) }
}

/// The entry as this seal sees it; `None` when nothing changes.
pub(crate) fn reopened(seal: &dyn Seal, table: &TableName, key: &str, entry: &Entry) -> Option<Entry> {
    let stored = entry.stored();
    let lock = |why: String| {
        if entry.locked.as_deref() == Some(why.as_str()) {
            return None;
        }
        let stored = Some(stored.clone());
        let bytes = entry.stored();
        let meta = entry.meta.clone();
        Some(Entry { stored, locked: Some(why.into()), ..Entry::new(bytes, entry.revision, meta) })
    };
    match seal.open(table, key, &stored) {
        Err(why) => lock(why),
        Ok(_) if entry.locked.is_none() => None,
        Ok(plain) => match Meta::from_bytes(&plain) {
            Ok(meta) => {
                let stored = (plain != stored).then_some(stored);
                Some(Entry { stored, ..Entry::new(plain, entry.revision, meta) })
            }
            Err(e) => lock(format!("what was opened is no object: {e}")),
        },
    }
}
