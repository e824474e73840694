//! How data is packed in Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use std::io::{Read, Write};

/// What is unpacked has at most this many bytes: a Secret has a mebibyte, and text compresses well.
pub const LARGEST: u64 = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it is neither compressed nor base64 of something compressed")]
    Encoding,
    #[error("it cannot be decompressed")]
    Gzip(#[source] std::io::Error),
    #[error("it has more than {LARGEST} bytes")]
    Large,
    #[error("it is not text")]
    Text,
}

/// `base64(gzip(text))`, or `gzip(text)`.
pub fn unpack(packed: &[u8]) -> Result<String, Error> {
    let plain;
    let zipped = match packed.starts_with(&[0x1f, 0x8b]) {
        true => packed,
        false => {
            let words: Vec<u8> = packed.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
            plain = STANDARD.decode(words).map_err(|_| Error::Encoding)?;
            if !plain.starts_with(&[0x1f, 0x8b]) {
                return Err(Error::Encoding);
            }
            &plain
        }
    };
    let mut out = Vec::new();
    let read = GzDecoder::new(zipped).take(LARGEST + 1).read_to_end(&mut out).map_err(Error::Gzip)?;
    if u64::try_from(read).unwrap_or(u64::MAX) > LARGEST {
        return Err(Error::Large);
    }
    String::from_utf8(out).map_err(|_| Error::Text)
}

/// `base64(gzip(bytes))`.
pub fn pack(bytes: &[u8]) -> String {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    let zipped = out.write_all(bytes).and_then(|()| out.finish()).unwrap_or_default();
    STANDARD.encode(zipped)
}

/// The simple hash of text: FNV-1a, 32 bits, eight hexadecimal digits.
pub fn hash(text: &str) -> String {
    let fnv = |h: u32, b: u8| (h ^ u32::from(b)).wrapping_mul(0x0100_0193);
    format!("{:08x}", text.bytes().fold(0x811c_9dc5, fnv))
}

/// The simple hash of bytes, which are first written as Go prints them: `[123 34 …]`.
pub fn hash_bytes(bytes: &[u8]) -> String {
    let list: Vec<String> = bytes.iter().map(u8::to_string).collect();
    hash(&format!("[{}]", list.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_can_be_unpacked_and_bombs_cannot() {
        let text = "kind: MachineConfig\n".repeat(100);
        assert_eq!(unpack(pack(text.as_bytes()).as_bytes()).unwrap(), text);
        let raw = STANDARD.decode(pack(b"x")).unwrap();
        assert_eq!(unpack(&raw).unwrap(), "x");
        let bomb = pack(&vec![b'a'; usize::try_from(LARGEST).unwrap() + 2]);
        assert!(bomb.len() < 64 << 10 && matches!(unpack(bomb.as_bytes()), Err(Error::Large)));
        assert!(matches!(unpack(b"hello"), Err(Error::Encoding)));
        assert!(matches!(unpack(&[0x1f, 0x8b, 9, 9]), Err(Error::Gzip(_))));
    }

    #[test]
    fn hashes_are_those_of_the_operators_we_take_the_place_of() {
        // FNV-1a of "" and "a" are known; bytes are hashed as Go prints them.
        assert_eq!((hash("").as_str(), hash("a").as_str()), ("811c9dc5", "e40c292c"));
        assert_eq!(hash_bytes(b"{\""), hash("[123 34]"));
    }
}
