//! Hashes and texts that others compare.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Write as _};

/// FNV-1a of 32 bits, as eight digits.
pub fn simple(text: &str) -> String {
    let hash = text.bytes().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}

/// The same of bytes as Go prints a slice of them: `[123 34 …]`. Ignition servers compare what was hashed so.
pub fn simple_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 4 + 2);
    text.push('[');
    for (i, b) in bytes.iter().enumerate() {
        let space = if i == 0 { "" } else { " " };
        let _ = write!(text, "{space}{b}");
    }
    text.push(']');
    simple(&text)
}

/// Enough of a SHA-256 to compare contents by.
pub fn fingerprint(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().take(16).fold(String::new(), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    })
}

/// JSON with sorted keys: the same document has one text, however it was written.
pub fn canonical(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let mut keys: Vec<&String> = map.keys().collect();
                keys.sort_unstable();
                Value::Object(keys.into_iter().map(|k| (k.clone(), sorted(&map[k]))).collect())
            }
            Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
            other => other.clone(),
        }
    }
    sorted(value).to_string()
}

/// Gzip, then base64; the same bytes for the same text.
pub fn packed(text: &str) -> io::Result<String> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(text.as_bytes())?;
    Ok(STANDARD.encode(gzip.finish()?))
}

/// A name of at most `most` characters: cut, and told apart by a hash of the whole.
pub fn cut(name: &str, most: usize) -> String {
    if name.len() <= most {
        return name.to_owned();
    }
    let kept: String = name.chars().take(most.saturating_sub(9)).collect();
    format!("{}-{}", kept.trim_end_matches(['-', '.']), simple(name))
}

/// At most `most` characters, and an ellipsis where there was more.
pub fn bounded(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => format!("{}…", text.chars().take(most.saturating_sub(1)).collect::<String>()),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hashes_are_those_of_go() {
        // FNV-1a of "", "a" and "foobar", as published.
        assert_eq!(simple(""), "811c9dc5");
        assert_eq!(simple("a"), "e40c292c");
        assert_eq!(simple("foobar"), "bf9cf968");
        assert_eq!(simple_bytes(b"{\""), simple("[123 34]"));
        assert_eq!(simple_bytes(b""), simple("[]"));
    }

    #[test]
    fn one_document_has_one_text() {
        let (a, b): (Value, Value) =
            (json!({"b": [{"y": 1, "x": 2}], "a": null}), json!({"a": null, "b": [{"x": 2, "y": 1}]}));
        assert_eq!(canonical(&a), canonical(&b));
        assert_ne!(canonical(&a), canonical(&json!({"b": [{"y": 1, "x": 2}]})));
    }

    #[test]
    fn long_names_are_cut_and_differ() {
        let long = "a".repeat(50);
        let (one, two) = (cut(&format!("{long}1"), 43), cut(&format!("{long}2"), 43));
        assert!(one.len() <= 43 && two.len() <= 43 && one != two);
        assert_eq!(cut("short", 43), "short");
        assert_eq!(bounded("abcdef", 4), "abc…");
        assert_eq!(bounded("abcd", 4), "abcd");
    }

    #[test]
    fn packing_is_repeatable() {
        let text = "kind: MachineConfig\n".repeat(100);
        let one = packed(&text).unwrap();
        assert_eq!(one, packed(&text).unwrap());
        let bytes = STANDARD.decode(one).unwrap();
        let mut back = String::new();
        io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut back).unwrap();
        assert_eq!(back, text);
    }
}
