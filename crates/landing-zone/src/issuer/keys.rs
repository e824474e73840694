//! Keys that sign service-account tokens, and what the world is told about them.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use azure::Secret;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("it is not a PEM file with an RSA private key (RSA PRIVATE KEY or PRIVATE KEY)")]
    Pem,
    #[error("the RSA key is damaged, or shorter than 2048 bits")]
    Rejected(#[source] aws_lc_rs::error::KeyRejected),
    #[error("no RSA key could be made")]
    Generate(#[source] aws_lc_rs::error::Unspecified),
}

/// An RSA key pair. Its private half is never shown.
#[derive(Clone, Debug)]
pub struct SigningKey {
    /// PKCS#1, PEM.
    private: Secret,
    /// SubjectPublicKeyInfo.
    public: Vec<u8>,
    n: String,
    e: String,
}

/// One element of DER: tag, content, and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        n @ 0..=0x7f => (usize::from(*n), rest),
        n @ (0x81 | 0x82) => {
            let (bytes, rest) = rest.split_at_checked(usize::from(n & 0x7f))?;
            (bytes.iter().fold(0, |l, b| (l << 8) | usize::from(*b)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// The content of the element, which must have this tag, and what follows.
fn expect(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    element(der).filter(|(t, ..)| *t == tag).map(|(_, content, rest)| (content, rest))
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;

/// PKCS#8 is PKCS#1 in an envelope.
fn unwrapped(pkcs8: &[u8]) -> Option<&[u8]> {
    let (all, _) = expect(pkcs8, SEQUENCE)?;
    let (_, rest) = expect(all, INTEGER)?;
    let (_, rest) = expect(rest, SEQUENCE)?;
    expect(rest, OCTETS).map(|(key, _)| key)
}

/// Modulus and exponent, as JSON web keys write them.
fn numbers(public: &[u8]) -> Option<(String, String)> {
    let (all, _) = expect(public, SEQUENCE)?;
    let (n, rest) = expect(all, INTEGER)?;
    let (e, _) = expect(rest, INTEGER)?;
    let bare =
        |i: &[u8]| URL_SAFE_NO_PAD.encode(i.iter().position(|b| *b != 0).map_or(&[][..], |at| &i[at..]));
    Some((bare(n), bare(e)))
}

pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|l| std::str::from_utf8(l).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// What stands between the lines of the first block with this label.
fn block(text: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    STANDARD.decode(body.split_whitespace().collect::<String>()).ok()
}

impl SigningKey {
    /// A new key of 4096 bits.
    pub fn generate() -> Result<SigningKey, KeyError> {
        SigningKey::of(&KeyPair::generate(KeySize::Rsa4096).map_err(KeyError::Generate)?)
    }

    pub fn from_pem(text: &str) -> Result<SigningKey, KeyError> {
        let pair = if let Some(der) = block(text, "RSA PRIVATE KEY") {
            KeyPair::from_der(&der)
        } else if let Some(der) = block(text, "PRIVATE KEY") {
            KeyPair::from_pkcs8(&der)
        } else {
            return Err(KeyError::Pem);
        };
        SigningKey::of(&pair.map_err(KeyError::Rejected)?)
    }

    fn of(pair: &KeyPair) -> Result<SigningKey, KeyError> {
        let pkcs8 = AsDer::<Pkcs8V1Der<'_>>::as_der(pair).map_err(KeyError::Generate)?;
        let public = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).map_err(KeyError::Generate)?;
        let private = pem("RSA PRIVATE KEY", unwrapped(pkcs8.as_ref()).ok_or(KeyError::Pem)?);
        let (n, e) = numbers(pair.public_key().as_ref()).ok_or(KeyError::Pem)?;
        Ok(SigningKey { private: Secret::new(private), public: public.as_ref().to_vec(), n, e })
    }

    /// As kube-apiserver names keys: a hash of the public one.
    pub fn kid(&self) -> String {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &self.public);
        URL_SAFE_NO_PAD.encode(digest)
    }

    /// PKCS#1.
    pub fn private_pem(&self) -> &Secret {
        &self.private
    }

    pub fn public_pem(&self) -> String {
        pem("PUBLIC KEY", &self.public)
    }

    pub fn jwk(&self) -> Value {
        json!({"use": "sig", "kty": "RSA", "kid": self.kid(), "alg": "RS256", "n": self.n, "e": self.e})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let made = SigningKey::of(&KeyPair::generate(KeySize::Rsa2048).unwrap()).unwrap();
        let text = made.private_pem().expose();
        assert!(text.starts_with("-----BEGIN RSA PRIVATE KEY-----\n") && text.lines().all(|l| l.len() <= 64));
        let read = SigningKey::from_pem(text).unwrap();
        assert_eq!((read.jwk(), read.kid()), (made.jwk(), made.kid()));
        assert_eq!(read.kid().len(), 43, "32 bytes without padding");
        assert!(!format!("{made:?}").contains("BEGIN"), "{made:?}");
        assert_eq!(made.jwk()["e"], "AQAB");
        assert_eq!(made.jwk()["n"].as_str().unwrap().len(), 342, "256 bytes, without the zero in front");
    }

    /// Key, kid and modulus from OpenSSL and Python: `openssl pkey -pubout -outform DER | sha256`.
    #[test]
    fn ids_are_those_of_everybody() {
        let key = SigningKey::from_pem(include_str!("../../tests/data/signer.pem")).unwrap();
        let facts: Value = serde_json::from_str(include_str!("../../tests/data/signer.json")).unwrap();
        assert_eq!(key.kid(), facts["kid"].as_str().unwrap());
        assert_eq!(key.jwk()["n"], facts["n"]);
        assert_eq!(key.public_pem(), facts["public"].as_str().unwrap());
    }

    #[test]
    fn what_is_no_key() {
        for bad in [
            "",
            "x",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----",
        ] {
            assert!(SigningKey::from_pem(bad).is_err(), "{bad}");
        }
        assert!(
            element(&[0x30]).is_none()
                && element(&[0x30, 0x82, 0xff]).is_none()
                && element(&[0x30, 0x05, 0]).is_none()
        );
    }
}
