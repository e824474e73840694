//! A pod's volumes on disk, laid out when somebody looks into them.
//!
//! Most volumes are mounted because a real container would read them, and few programs read all of what they are given.
//! So what a volume holds is noted when its pod starts, and becomes files with the first path that leads into it
//! ([`Shelf::open`]). From then on its files follow what they come from at once, as a reader may hold them open.

use super::env;
use super::files::{self, Payload};
use crate::stage::mix;
use ek_server::Access;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// What a volume holds.
pub(crate) enum Content {
    /// Nothing yet: a directory to write into.
    Empty,
    /// Keys of a Secret (or else ConfigMap), read when they are needed: they are in the store anyway.
    Keys {
        secret: bool,
        of: String,
        items: Value,
    },
    Files(Payload),
}

enum Slot {
    /// Nobody has looked yet. The number tells one content from another.
    Noted { content: Content, mode: u32, version: u64, stamp: u64 },
    /// On disk; the number is of what was written.
    Laid(u64),
}

pub(crate) struct Shelf {
    dir: PathBuf,
    access: Access,
    namespace: String,
    slots: Mutex<HashMap<String, Slot>>,
}

/// What became of a content.
pub(crate) enum Put {
    /// It is as it was.
    Same,
    /// It is noted.
    Noted,
    /// Somebody reads the volume: it has to be written.
    Write,
}

/// Tells payloads apart.
pub(crate) fn sum(payload: &Payload, mode: u32) -> u64 {
    payload.iter().fold(u64::from(mode), |hash, (k, v)| {
        mix(hash, &[k, &String::from_utf8_lossy(v)], i64::try_from(v.len()).unwrap_or(0))
    })
}

/// The chosen keys, or all of them; what is missing was said when the pod started.
pub(crate) fn chosen(data: Payload, items: &Value) -> Payload {
    let Some(items) = items.as_array() else { return data };
    let text = |item: &Value, f: &str| item[f].as_str().unwrap_or_default().to_owned();
    let pair = |item: &Value| Some((text(item, "path"), data.get(&text(item, "key"))?.clone()));
    items.iter().filter_map(pair).collect()
}

impl Shelf {
    pub(crate) fn new(dir: PathBuf, access: &Access, namespace: &str) -> Shelf {
        Shelf { dir, access: access.clone(), namespace: namespace.to_owned(), slots: Mutex::default() }
    }

    pub(crate) fn place(&self, volume: &str) -> PathBuf {
        self.dir.join(volume)
    }

    /// Notes what a volume holds now, unless it is laid out already.
    pub(crate) fn put(&self, volume: &str, content: Content, mode: u32, version: u64, stamp: u64) -> Put {
        let mut slots = self.slots.lock();
        match slots.get(volume) {
            Some(Slot::Laid(_)) => Put::Write,
            Some(Slot::Noted { stamp: known, .. }) if *known == stamp => Put::Same,
            _ => {
                slots.insert(volume.to_owned(), Slot::Noted { content, mode, version, stamp });
                Put::Noted
            }
        }
    }

    /// Whether exactly this lies there.
    pub(crate) fn holds(&self, volume: &str, sum: u64) -> bool {
        matches!(self.slots.lock().get(volume), Some(Slot::Laid(s)) if *s == sum)
    }

    pub(crate) fn laid(&self, volume: &str, sum: u64) {
        self.slots.lock().insert(volume.to_owned(), Slot::Laid(sum));
    }

    /// Makes files of what was noted. A volume that is laid out costs a look.
    pub(crate) fn open(&self, volume: &str) -> io::Result<()> {
        let mut slots = self.slots.lock();
        let Some(Slot::Noted { content, mode, version, .. }) = slots.get(volume) else { return Ok(()) };
        let dir = self.dir.join(volume);
        let lay = |dir: &Path, payload: &Payload| files::write(dir, payload, &version.to_string(), *mode);
        let sum = match content {
            Content::Empty => {
                std::fs::create_dir_all(dir)?;
                0
            }
            Content::Keys { secret, of, items } => {
                let data = env::data(&self.access, *secret, &self.namespace, of).unwrap_or_default();
                let payload = chosen(data, items);
                lay(&dir, &payload)?;
                sum(&payload, *mode)
            }
            Content::Files(payload) => {
                lay(&dir, payload)?;
                sum(payload, *mode)
            }
        };
        slots.insert(volume.to_owned(), Slot::Laid(sum));
        Ok(())
    }
}
