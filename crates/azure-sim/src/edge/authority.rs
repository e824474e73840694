//! The instance's own certificate authority, good for Azure's names and the loopback only.

use crate::gateway::LOCATIONS;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, NameConstraints, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use time::OffsetDateTime;

/// Domains of Azure that are served.
const DOMAINS: [&str; 7] = [
    "localhost",
    "azure.com",
    "azure.net",
    "windows.net",
    "microsoftonline.com",
    "microsoft.com",
    "azurecr.io",
];

/// The hosts that the proxy leads to, and who answers there.
pub fn serves(host: &str) -> Option<Service> {
    let host = host.to_ascii_lowercase();
    match host.as_str() {
        "management.azure.com" | "management.core.windows.net" => Some(Service::Arm),
        "login.microsoftonline.com" | "login.windows.net" | "login.microsoft.com" | "sts.windows.net" => {
            Some(Service::Login)
        }
        "graph.microsoft.com" => Some(Service::Graph),
        "localhost" | "127.0.0.1" | "[::1]" => Some(Service::ByPath),
        // One per region; the regions bound how many certificates are made.
        other => {
            let region = other.strip_suffix(".authorization.azure.net")?;
            LOCATIONS.iter().any(|(name, _)| *name == region).then_some(Service::Access)
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Arm,
    /// The policy decision point.
    Access,
    Login,
    Graph,
    /// On the loopback one address serves all: paths tell them apart.
    ByPath,
}

#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("cannot {0}")]
    Certificate(&'static str, #[source] rcgen::Error),
    #[error("cannot use a certificate")]
    Tls(#[source] rustls::Error),
}

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    now: Timestamp,
    kept: Mutex<HashMap<String, Arc<CertifiedKey>>>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

fn at(t: Timestamp, plus: SignedDuration) -> OffsetDateTime {
    let t = t.checked_add(plus).unwrap_or(t);
    OffsetDateTime::from_unix_timestamp(t.as_second()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

impl Authority {
    pub fn generate(now: Timestamp) -> Result<Authority, AuthorityError> {
        let failed = |what| move |e| AuthorityError::Certificate(what, e);
        let key = KeyPair::generate().map_err(failed("generate a CA key"))?;
        let mut p = CertificateParams::default();
        p.distinguished_name.push(DnType::CommonName, "Zaffre Azure simulator");
        p.not_before = at(now, SignedDuration::from_hours(-24));
        p.not_after = at(now, SignedDuration::from_hours(24 * 3650));
        p.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        p.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let mut permitted: Vec<GeneralSubtree> =
            DOMAINS.iter().map(|d| GeneralSubtree::DnsName((*d).to_owned())).collect();
        permitted.push(GeneralSubtree::IpAddress(CidrSubnet::from_v4_prefix([127, 0, 0, 0], 8)));
        p.name_constraints =
            Some(NameConstraints { permitted_subtrees: permitted, excluded_subtrees: Vec::new() });
        let cert = p.self_signed(&key).map_err(failed("sign the CA certificate"))?;
        let pem = cert.pem();
        Ok(Authority { issuer: Issuer::new(p, key), pem, now, kept: Mutex::new(HashMap::new()) })
    }

    /// The authority of a former life, from its key and certificate.
    pub fn remembered(key: &str, pem: &str, now: Timestamp) -> Result<Authority, AuthorityError> {
        let failed = |what| move |e| AuthorityError::Certificate(what, e);
        let key = KeyPair::from_pem(key).map_err(failed("read the remembered CA key"))?;
        let issuer =
            Issuer::from_ca_cert_pem(pem, key).map_err(failed("read the remembered CA certificate"))?;
        Ok(Authority { issuer, pem: pem.to_owned(), now, kept: Mutex::new(HashMap::new()) })
    }

    /// The key, for remembering it.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }

    fn issue(&self, host: &str) -> Result<CertifiedKey, AuthorityError> {
        let failed = |what| move |e| AuthorityError::Certificate(what, e);
        let key = KeyPair::generate().map_err(failed("generate a key"))?;
        let mut p = CertificateParams::default();
        p.distinguished_name.push(DnType::CommonName, host);
        p.not_before = at(self.now, SignedDuration::from_hours(-24));
        p.not_after = at(self.now, SignedDuration::from_hours(24 * 365));
        p.use_authority_key_identifier_extension = true;
        p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        p.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let name = host.to_owned().try_into().map_err(failed("use a host name"))?;
        p.subject_alt_names.push(SanType::DnsName(name));
        if host == "localhost" {
            p.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        }
        let cert = p.signed_by(&key, &self.issuer).map_err(failed("sign a certificate"))?;
        let der = CertificateDer::from(cert.der().to_vec());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        CertifiedKey::from_der(vec![der], key, &provider).map_err(AuthorityError::Tls)
    }
}

impl ResolvesServerCert for Authority {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // Only names that are served get a certificate: their number bounds what is kept.
        let host = hello.server_name().unwrap_or("localhost").to_ascii_lowercase();
        serves(&host)?;
        let mut kept = self.kept.lock();
        if let Some(k) = kept.get(&host) {
            return Some(k.clone());
        }
        let key = Arc::new(
            self.issue(&host).inspect_err(|e| tracing::warn!(host, error = %e, "no certificate")).ok()?,
        );
        kept.insert(host, key.clone());
        Some(key)
    }
}
