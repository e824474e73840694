//! The frame of a log record: `magic, length, checksum, payload`, and the payload of a commit.
//!
//! A frame is valid when its magic, length and checksum agree. Integers are little-endian.

use crate::table::{Entry, Staged};
use crate::{ClusterId, Meta};
use bytes::Bytes;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

pub(crate) const MAGIC: [u8; 4] = *b"zLg1";
pub(crate) const HEADER: usize = 16;
/// No honest record is larger: requests are bounded far below.
pub(crate) const MAX_PAYLOAD: usize = 64 << 20;

/// What one record says.
#[derive(Debug, Clone)]
pub(crate) enum Record {
    Commit {
        cluster: ClusterId,
        changes: Vec<Staged>,
    },
    DropCluster {
        cluster: ClusterId,
    },
    /// Snapshot only: the revision of a cluster, and the floor of each table.
    ClusterHead {
        cluster: ClusterId,
        revision: u64,
        floors: Vec<(Arc<str>, u64)>,
    },
    /// Snapshot only: the last record, with the number of objects before it.
    End {
        objects: u64,
    },
}

const COMMIT: u8 = 1;
const DROP: u8 = 2;
const HEAD: u8 = 3;
const END: u8 = 4;

pub(crate) fn frame(out: &mut Vec<u8>, record: &Record) {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[0; HEADER - 4]);
    encode(out, record);
    let payload_len = out.len() - start - HEADER;
    let sum = xxh3_64(&out[start + HEADER..]);
    out[start + 4..start + 8].copy_from_slice(&(payload_len as u32).to_le_bytes());
    out[start + 8..start + 16].copy_from_slice(&sum.to_le_bytes());
}

/// The payload of the valid frame at the start of `input`, and the frame's whole length.
pub(crate) fn unframe(input: &[u8]) -> Option<(&[u8], usize)> {
    let header = input.get(..HEADER)?;
    if header[..4] != MAGIC {
        return None;
    }
    let len = u32::from_le_bytes(header[4..8].try_into().ok()?) as usize;
    if len > MAX_PAYLOAD {
        return None;
    }
    let payload = input.get(HEADER..HEADER + len)?;
    let sum = u64::from_le_bytes(header[8..16].try_into().ok()?);
    (xxh3_64(payload) == sum).then_some((payload, HEADER + len))
}

fn put_str(out: &mut Vec<u8>, s: &[u8]) {
    out.extend_from_slice(&(s.len() as u32).to_le_bytes());
    out.extend_from_slice(s);
}

fn encode(out: &mut Vec<u8>, record: &Record) {
    match record {
        Record::Commit { cluster, changes } => {
            out.push(COMMIT);
            put_str(out, cluster.as_str().as_bytes());
            out.extend_from_slice(&(changes.len() as u32).to_le_bytes());
            for c in changes {
                out.push(u8::from(c.deleted));
                out.extend_from_slice(&c.entry.revision.to_le_bytes());
                put_str(out, c.table.as_bytes());
                put_str(out, c.key.as_bytes());
                // A deletion needs no last state: history does not survive a restart.
                match c.deleted {
                    true => put_str(out, b""),
                    false => put_str(out, &c.entry.stored()),
                }
            }
        }
        Record::DropCluster { cluster } => {
            out.push(DROP);
            put_str(out, cluster.as_str().as_bytes());
        }
        Record::ClusterHead { cluster, revision, floors } => {
            out.push(HEAD);
            put_str(out, cluster.as_str().as_bytes());
            out.extend_from_slice(&revision.to_le_bytes());
            out.extend_from_slice(&(floors.len() as u32).to_le_bytes());
            for (t, f) in floors {
                put_str(out, t.as_bytes());
                out.extend_from_slice(&f.to_le_bytes());
            }
        }
        Record::End { objects } => {
            out.push(END);
            out.extend_from_slice(&objects.to_le_bytes());
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }
    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }
    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.u32()? as usize;
        self.take(n)
    }
    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}

/// Decodes a payload whose checksum held. `None` means it was written by something else.
pub(crate) fn decode(payload: &[u8]) -> Option<Record> {
    let mut r = Reader(payload);
    let record = match r.u8()? {
        COMMIT => {
            let cluster = ClusterId::new(r.text()?);
            let n = r.u32()?;
            let mut changes = Vec::new();
            for _ in 0..n {
                let deleted = r.u8()? != 0;
                let revision = r.u64()?;
                let table = Arc::from(r.text()?);
                let key = Arc::from(r.text()?);
                let body = r.bytes()?;
                let bytes = Bytes::copy_from_slice(body);
                let entry = match body.first() {
                    _ if deleted => Entry::new(bytes, revision, Meta::default()),
                    // Objects are JSON; anything else was sealed by somebody who has yet to bring the keys.
                    Some(b'{') => {
                        let meta = Meta::from_bytes(body).ok()?;
                        Entry::new(bytes, revision, meta)
                    }
                    _ => crate::seal::closed(bytes, revision),
                };
                let entry = Arc::new(entry);
                changes.push(Staged { table, key, entry, deleted });
            }
            Record::Commit { cluster, changes }
        }
        DROP => Record::DropCluster { cluster: ClusterId::new(r.text()?) },
        HEAD => {
            let cluster = ClusterId::new(r.text()?);
            let revision = r.u64()?;
            let n = r.u32()?;
            let mut floors = Vec::new();
            for _ in 0..n {
                floors.push((Arc::from(r.text()?), r.u64()?));
            }
            Record::ClusterHead { cluster, revision, floors }
        }
        END => Record::End { objects: r.u64()? },
        _ => return None,
    };
    r.0.is_empty().then_some(record)
}
