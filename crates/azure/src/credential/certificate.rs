//! Certificates with their keys, and the assertions they sign.
//!
//! PEM or PKCS#12, as files or as Azure hands them out (base64 in JSON). An assertion is PS256 with the whole chain
//! in `x5c` and the SHA-256 thumbprint in `x5t#S256`: that suits applications which trust a subject and issuer as
//! well as those which know one certificate. Signing is aws-lc's through `jsonwebtoken`; no OpenSSL.

use crate::Secret;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use p12_keystore::Pkcs12Archive;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("the file is neither PEM nor PKCS#12, or its password is wrong")]
    Pkcs12(#[source] p12_keystore::error::Error),
    #[error("the PEM holds no private key: put certificate and key into one file")]
    NoKey,
    #[error("the file holds no certificate: put certificate and key into one file")]
    NoCertificate,
    #[error("the private key is not RSA, which is all that Entra ID accepts for assertions")]
    NotRsa(#[source] jsonwebtoken::errors::Error),
    #[error("none of the certificates belongs to the private key")]
    NoMatch,
    #[error("the key cannot sign an assertion")]
    Sign(#[source] jsonwebtoken::errors::Error),
}

/// A certificate chain, leaf first, and the leaf's key.
#[derive(Clone)]
pub struct Certificate {
    chain: Vec<Vec<u8>>,
    key: EncodingKey,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Certificate({})", self.thumbprint())
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

impl Certificate {
    /// Reads PEM or PKCS#12. The password is for PKCS#12; Azure's own files have none.
    pub fn read(bytes: &[u8], password: Option<&Secret>) -> Result<Certificate, CertificateError> {
        if bytes.windows(11).take(1 << 16).any(|w| w == b"-----BEGIN ") {
            return Certificate::from_pem(bytes);
        }
        Certificate::from_pkcs12(bytes, password.map_or("", Secret::expose))
    }

    /// What Azure writes into JSON: base64 of PKCS#12 or PEM, or PEM as it is.
    pub fn read_text(text: &str) -> Result<Certificate, CertificateError> {
        let squeezed: String = text.split_whitespace().collect();
        match STANDARD.decode(squeezed) {
            Ok(bytes) => Certificate::read(&bytes, None),
            Err(_) => Certificate::from_pem(text.as_bytes()),
        }
    }

    fn from_pem(bytes: &[u8]) -> Result<Certificate, CertificateError> {
        let chain: Vec<Vec<u8>> =
            CertificateDer::pem_slice_iter(bytes).filter_map(Result::ok).map(|c| c.to_vec()).collect();
        let key = PrivateKeyDer::from_pem_slice(bytes).map_err(|_| CertificateError::NoKey)?;
        let label = match &key {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        Certificate::new(chain, &pem(label, key.secret_der()))
    }

    fn from_pkcs12(bytes: &[u8], password: &str) -> Result<Certificate, CertificateError> {
        let archive = Pkcs12Archive::from_pkcs12(bytes, password).map_err(CertificateError::Pkcs12)?;
        let key = archive.keys.first().ok_or(CertificateError::NoKey)?;
        let chain = archive.certs.iter().map(|c| c.cert.as_der().to_vec()).collect();
        Certificate::new(chain, &pem("PRIVATE KEY", key.key.as_der()))
    }

    fn new(mut chain: Vec<Vec<u8>>, key_pem: &str) -> Result<Certificate, CertificateError> {
        if chain.is_empty() {
            return Err(CertificateError::NoCertificate);
        }
        let key = EncodingKey::from_rsa_pem(key_pem.as_bytes()).map_err(CertificateError::NotRsa)?;
        // PKCS#12 keeps no order: the leaf is the one whose key is ours, and it goes first.
        let leaf = chain.iter().position(|c| belongs(c, &key)).ok_or(CertificateError::NoMatch)?;
        chain[..=leaf].rotate_right(1);
        Ok(Certificate { chain, key })
    }

    /// `x5t#S256`.
    pub fn thumbprint(&self) -> String {
        let leaf = self.chain.first().map_or(&[][..], Vec::as_slice);
        URL_SAFE_NO_PAD.encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, leaf))
    }

    /// A signed statement that we are `client`, for the token endpoint `audience`, good for ten minutes.
    pub fn assertion(
        &self,
        client: &str,
        audience: &str,
        id: &str,
        now: Timestamp,
    ) -> Result<Secret, CertificateError> {
        let header = Header {
            x5t_s256: Some(self.thumbprint()),
            x5c: Some(self.chain.iter().map(|c| STANDARD.encode(c)).collect()),
            ..Header::new(Algorithm::PS256)
        };
        let t = now.as_second();
        let claims = json!({
            "aud": audience, "iss": client, "sub": client, "jti": id, "iat": t, "nbf": t - 60, "exp": t + 600,
        });
        jsonwebtoken::encode(&header, &claims, &self.key).map(Secret::new).map_err(CertificateError::Sign)
    }
}

/// Whether the public key in a certificate is that of the private key: the subject's RSA modulus occurs in it as it
/// is written in DER. A modulus of 256 bytes does not occur by chance.
fn belongs(cert: &[u8], key: &EncodingKey) -> bool {
    use aws_lc_rs::signature::KeyPair;
    let Ok(pair) = aws_lc_rs::signature::RsaKeyPair::from_der(key.as_bytes()) else { return false };
    let public = pair.public_key().as_ref();
    cert.windows(public.len()).any(|w| w == public)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junk_is_refused_with_words() {
        assert!(matches!(Certificate::read(b"junk", None), Err(CertificateError::Pkcs12(_))));
        assert!(matches!(
            Certificate::read(b"-----BEGIN CERTIFICATE-----\n", None),
            Err(CertificateError::NoKey)
        ));
        assert!(Certificate::read_text("%%%").is_err());
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
        let only_key = Certificate::read(key.serialize_pem().as_bytes(), None);
        assert!(matches!(only_key, Err(CertificateError::NoCertificate)));
        let cert = rcgen::CertificateParams::new(vec!["a".into()]).unwrap();
        let other =
            cert.self_signed(&rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap()).unwrap();
        let mixed = format!("{}{}", other.pem(), key.serialize_pem());
        assert!(matches!(Certificate::read(mixed.as_bytes(), None), Err(CertificateError::NoMatch)));
        let ec = rcgen::KeyPair::generate().unwrap();
        let ec = format!("{}{}", cert.self_signed(&ec).unwrap().pem(), ec.serialize_pem());
        assert!(matches!(Certificate::read(ec.as_bytes(), None), Err(CertificateError::NotRsa(_))));
    }

    #[test]
    fn the_leaf_goes_first_and_signs() {
        let params = |n: &str| rcgen::CertificateParams::new(vec![n.into()]).unwrap();
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
        let (leaf, ca) = (
            params("leaf").self_signed(&key).unwrap(),
            params("ca").self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap(),
        );
        let text = format!("{}{}{}", ca.pem(), leaf.pem(), key.serialize_pem());
        let cert = Certificate::read(text.as_bytes(), None).unwrap();
        assert_eq!(cert.chain[0], leaf.der().to_vec());
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        let token = cert.assertion("me", "https://login/t", "1", now).unwrap();
        let header = jsonwebtoken::decode_header(token.expose()).unwrap();
        assert_eq!((header.alg, header.x5c.unwrap().len()), (Algorithm::PS256, 2));
        assert_eq!(header.x5t_s256.unwrap(), cert.thumbprint());
        assert!(!format!("{cert:?}").contains("PRIVATE"));
    }
}
