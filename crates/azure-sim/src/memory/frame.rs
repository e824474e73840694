//! How records lie in a file: length, checksum, payload. A file starts with a line that says what it is.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A single request changes at most a few hundred records; a length beyond this is damage.
const MAX_FRAME: usize = 64 << 20;
const HEAD: usize = 12;

#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is not a file of the Azure simulator: it begins with '{found}', not with '{expected}'")]
    Foreign { path: PathBuf, found: String, expected: &'static str },
    #[error(
        "{path} is damaged at byte {at}: restore it from a copy, or remove the data directory to start anew"
    )]
    Damaged { path: PathBuf, at: usize },
}

pub fn write(out: &mut impl Write, payload: &[u8]) -> io::Result<u64> {
    let length = u32::try_from(payload.len()).map_err(|_| io::Error::other("a record of more than 4 GiB"))?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&xxhash_rust::xxh3::xxh3_64(payload).to_le_bytes())?;
    out.write_all(payload)?;
    Ok(HEAD as u64 + u64::from(length))
}

/// What a file holds, and how much of it is whole.
pub struct Content {
    pub frames: Vec<Vec<u8>>,
    pub whole: u64,
    pub torn: bool,
}

/// Reads a file. A record that the end of the file cuts off, or the last one with a wrong checksum, was being
/// written when the process died; a bad one with others after it is damage.
pub fn read(path: &Path, header: &'static str) -> Result<Content, FrameError> {
    let bytes = std::fs::read(path).map_err(|source| FrameError::Read { path: path.to_owned(), source })?;
    if !bytes.starts_with(header.as_bytes()) {
        // A file whose first line was cut off holds nothing yet.
        if header.as_bytes().starts_with(&bytes) {
            return Ok(Content { frames: Vec::new(), whole: 0, torn: true });
        }
        let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
        let found = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
        return Err(FrameError::Foreign { path: path.to_owned(), found, expected: header.trim_end() });
    }
    let mut at = header.len();
    let mut frames = Vec::new();
    let end = |frames, at: usize, torn| Ok(Content { frames, whole: at as u64, torn });
    while at < bytes.len() {
        let Some(head) = bytes.get(at..at + HEAD) else { return end(frames, at, true) };
        let length =
            usize::try_from(u32::from_le_bytes([head[0], head[1], head[2], head[3]])).unwrap_or(usize::MAX);
        let sum =
            u64::from_le_bytes([head[4], head[5], head[6], head[7], head[8], head[9], head[10], head[11]]);
        let from = at + HEAD;
        if length > MAX_FRAME {
            return Err(FrameError::Damaged { path: path.to_owned(), at });
        }
        let Some(payload) = bytes.get(from..from + length) else { return end(frames, at, true) };
        if xxhash_rust::xxh3::xxh3_64(payload) != sum {
            if from + length == bytes.len() {
                return end(frames, at, true);
            }
            return Err(FrameError::Damaged { path: path.to_owned(), at });
        }
        frames.push(payload.to_vec());
        at = from + length;
    }
    end(frames, at, false)
}
