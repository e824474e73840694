//! The key that signs service-account tokens: read from what the user gave, or made.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it holds no PEM block RSA PRIVATE KEY or PRIVATE KEY")]
    Pem,
    #[error("the RSA key is damaged, or shorter than 2048 bits")]
    Rejected(#[source] aws_lc_rs::error::KeyRejected),
    #[error("no RSA key could be made")]
    Crypto(#[source] aws_lc_rs::error::Unspecified),
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|l| std::str::from_utf8(l).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn block(text: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    STANDARD.decode(body.split_whitespace().collect::<String>()).ok()
}

fn public(pair: &KeyPair) -> Result<String, Error> {
    let der: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(Error::Crypto)?;
    Ok(pem("PUBLIC KEY", der.as_ref()))
}

/// Public halves by the SHA-256 of their private ones: a key is checked thoroughly when it is read, which takes
/// milliseconds, and each pass over a cluster asks twice. Keys that are bad are looked at again.
static KNOWN: LazyLock<Mutex<HashMap<[u8; 32], Arc<str>>>> = LazyLock::new(Mutex::default);
/// As many are kept; more clusters than that read some keys again.
const KEPT: usize = 4096;

/// The public half of a private key, both PEM.
pub fn public_of(private: &[u8]) -> Result<String, Error> {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest(&SHA256, private).as_ref());
    if let Some(known) = KNOWN.lock().get(&sum) {
        return Ok(known.to_string());
    }
    let public = read(private)?;
    let mut known = KNOWN.lock();
    if known.len() >= KEPT {
        known.clear();
    }
    known.insert(sum, public.as_str().into());
    Ok(public)
}

/// What tokens call the key by: as API servers make it, of the public half in PEM.
pub fn kid(public: &str) -> Option<String> {
    Some(URL_SAFE_NO_PAD.encode(digest(&SHA256, &block(public, "PUBLIC KEY")?)))
}

fn read(private: &[u8]) -> Result<String, Error> {
    let text = std::str::from_utf8(private).map_err(|_| Error::Pem)?;
    let pair = if let Some(der) = block(text, "RSA PRIVATE KEY") {
        KeyPair::from_der(&der)
    } else if let Some(der) = block(text, "PRIVATE KEY") {
        KeyPair::from_pkcs8(&der)
    } else {
        return Err(Error::Pem);
    };
    public(&pair.map_err(Error::Rejected)?)
}

/// A new key: private and public, both PEM.
pub fn generate() -> Result<(String, String), Error> {
    let pair = KeyPair::generate(KeySize::Rsa2048).map_err(Error::Crypto)?;
    let der: Pkcs8V1Der<'_> = pair.as_der().map_err(Error::Crypto)?;
    Ok((pem("PRIVATE KEY", der.as_ref()), public(&pair)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_can_be_read() {
        let (private, public) = generate().unwrap();
        for _ in 0..2 {
            assert_eq!(public_of(private.as_bytes()).unwrap(), public);
        }
        assert_eq!(kid(&public).unwrap().len(), 43);
        assert_eq!(kid(&private), None);
        assert!(matches!(public_of(b"ssh-rsa AAAA"), Err(Error::Pem)));
        let broken = private.replacen('M', "N", 3);
        assert!(public_of(broken.as_bytes()).is_err());
    }
}
