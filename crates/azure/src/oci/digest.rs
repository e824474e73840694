//! Digests: what content is, rather than what it is called.

use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a digest: sha256: or sha512: and lower-case hex digits")]
pub struct DigestError(String);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    pub fn of(content: &[u8]) -> Digest {
        let mut hasher = Hasher::new();
        hasher.update(content);
        hasher.finish()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Something that finds the same kind of digest.
    pub fn hasher(&self) -> Hasher {
        if self.0.starts_with("sha512:") {
            Hasher::with("sha512", &aws_lc_rs::digest::SHA512)
        } else {
            Hasher::new()
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Digest, DigestError> {
        let hex = |h: &str, n: usize| {
            h.len() == n && h.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        match text.split_once(':') {
            Some(("sha256", h)) if hex(h, 64) => Ok(Digest(text.to_owned())),
            Some(("sha512", h)) if hex(h, 128) => Ok(Digest(text.to_owned())),
            _ => Err(DigestError(text.chars().take(150).collect())),
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Digest, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Finds a digest while content goes by.
pub struct Hasher {
    name: &'static str,
    context: aws_lc_rs::digest::Context,
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hasher").field(&self.name).finish()
    }
}

impl Default for Hasher {
    fn default() -> Hasher {
        Hasher::new()
    }
}

impl Hasher {
    pub fn new() -> Hasher {
        Hasher::with("sha256", &aws_lc_rs::digest::SHA256)
    }

    fn with(name: &'static str, algorithm: &'static aws_lc_rs::digest::Algorithm) -> Hasher {
        Hasher { name, context: aws_lc_rs::digest::Context::new(algorithm) }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
    }

    pub fn finish(self) -> Digest {
        let mut text = format!("{}:", self.name);
        for b in self.context.finish().as_ref() {
            text.push_str(&format!("{b:02x}"));
        }
        Digest(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_and_made() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").as_str(), empty);
        let long: Digest = format!("sha512:{}", "0a".repeat(64)).parse().unwrap();
        assert!(long.hasher().finish().as_str().starts_with("sha512:cf83e1357eefb8bd"));
        for bad in [
            "",
            "sha256:",
            "sha256:00",
            &empty.to_uppercase(),
            "md5:00",
            &format!("sha256:{}", "é".repeat(32)),
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
