//! Certificates and keys as text, and what a certificate says.

use crate::{Error, failed};
use jiff::Timestamp;
use rcgen::{KeyPair, PKCS_RSA_SHA256, PublicKeyData, RsaKeySize};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Text that must not be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Private(String);

impl Private {
    pub fn new(text: impl Into<String>) -> Private {
        Private(text.into())
    }

    /// The text itself, for writing it where it belongs.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

/// Which kind of key to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyKind {
    #[default]
    P256,
    Rsa2048,
    Rsa4096,
}

impl KeyKind {
    /// A new key.
    pub fn generate(self) -> Result<KeyPair, Error> {
        let made = match self {
            KeyKind::P256 => KeyPair::generate(),
            KeyKind::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
            KeyKind::Rsa4096 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_4096),
        };
        made.map_err(failed("generate a key"))
    }
}

/// A certificate and its private key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub cert: String,
    pub key: Private,
}

impl Pair {
    pub fn new(cert: impl Into<String>, key: impl Into<String>) -> Pair {
        Pair { cert: cert.into(), key: Private::new(key) }
    }

    pub fn facts(&self) -> Result<Facts, Error> {
        Facts::of(&self.cert)
    }

    /// Whether the key is the certificate's.
    pub fn fits(&self) -> Result<bool, Error> {
        let key = KeyPair::from_pem(self.key.expose()).map_err(failed("read a private key"))?;
        Ok(key.subject_public_key_info() == self.facts()?.public_key)
    }
}

/// What a certificate says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub common_name: String,
    pub organizations: BTreeSet<String>,
    pub dns: BTreeSet<String>,
    pub ips: BTreeSet<IpAddr>,
    pub server: bool,
    pub client: bool,
    pub authority: bool,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// DER of the subject's public key, with its algorithm.
    pub public_key: Vec<u8>,
}

pub(crate) fn unreadable(what: &'static str) -> impl Fn(String) -> Error {
    move |why| Error::Read { what, why }
}

/// Hands the first certificate of a PEM text to `f`.
pub(crate) fn with_certificate<T>(
    pem: &str,
    f: impl FnOnce(&X509Certificate<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let bad = unreadable("a certificate");
    let block = Pem::iter_from_buffer(pem.as_bytes()).next();
    let block = block.ok_or_else(|| bad("there is no PEM block".into()))?.map_err(|e| bad(e.to_string()))?;
    let (_, cert) = X509Certificate::from_der(&block.contents).map_err(|e| bad(e.to_string()))?;
    f(&cert)
}

impl Facts {
    /// Of the first certificate in a PEM text.
    pub fn of(pem: &str) -> Result<Facts, Error> {
        with_certificate(pem, Facts::read)
    }

    fn read(cert: &X509Certificate<'_>) -> Result<Facts, Error> {
        let bad = unreadable("a certificate");
        let time = |seconds: i64| Timestamp::from_second(seconds).map_err(|e| bad(e.to_string()));
        let mut dns = BTreeSet::new();
        let mut ips = BTreeSet::new();
        let names = cert.subject_alternative_name().map_err(|e| bad(e.to_string()))?;
        for name in names.iter().flat_map(|n| &n.value.general_names) {
            match name {
                GeneralName::DNSName(n) => _ = dns.insert((*n).to_owned()),
                GeneralName::IPAddress(b) => ips.extend(address(b)),
                _ => {}
            }
        }
        let usage = cert.extended_key_usage().map_err(|e| bad(e.to_string()))?.map(|u| u.value);
        let text = |a: &x509_parser::x509::AttributeTypeAndValue<'_>| a.as_str().ok().map(str::to_owned);
        Ok(Facts {
            common_name: cert.subject().iter_common_name().find_map(text).unwrap_or_default(),
            organizations: cert.subject().iter_organization().filter_map(text).collect(),
            dns,
            ips,
            server: usage.is_some_and(|u| u.server_auth),
            client: usage.is_some_and(|u| u.client_auth),
            authority: cert.is_ca(),
            not_before: time(cert.validity().not_before.timestamp())?,
            not_after: time(cert.validity().not_after.timestamp())?,
            public_key: cert.public_key().raw.to_vec(),
        })
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Several certificates that are trusted together, each once, in the order they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle(Vec<String>);

impl Bundle {
    pub fn new() -> Bundle {
        Bundle::default()
    }

    /// Adds every certificate of a PEM text.
    pub fn add(&mut self, pem: &str) -> &mut Bundle {
        let end = "-----END CERTIFICATE-----";
        for part in pem.split_inclusive(end).filter(|p| p.contains(end)) {
            let begin = part.find("-----BEGIN CERTIFICATE-----").unwrap_or(0);
            let one = part[begin..].trim().to_owned();
            if !self.0.contains(&one) {
                self.0.push(one);
            }
        }
        self
    }

    pub fn with(mut self, pem: &str) -> Bundle {
        self.add(pem);
        self
    }

    pub fn contains(&self, pem: &str) -> bool {
        let other = Bundle::new().with(pem);
        !other.0.is_empty() && other.0.iter().all(|c| self.0.contains(c))
    }

    pub fn pem(&self) -> String {
        self.0.iter().map(|c| format!("{c}\n")).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
