//! A cluster's certificate authority.

use crate::User;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use std::fmt;
use std::net::IpAddr;
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action}")]
    Certificate { action: &'static str, source: rcgen::Error },
    #[error("the signing request cannot be read: {0}")]
    Request(String),
    #[error("the signing request is not allowed for signer {signer}: {why}")]
    NotAllowed { signer: String, why: String },
}

fn failed(action: &'static str) -> impl FnOnce(rcgen::Error) -> Error {
    move |source| Error::Certificate { action, source }
}

/// A certificate and its private key, both PEM.
#[derive(Clone)]
pub struct Pair {
    pub cert_pem: String,
    pub key_pem: Secret,
}

/// Text that must not be printed.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub fn new(s: impl Into<String>) -> Secret {
        Secret(s.into())
    }

    /// The text itself, for writing it where it belongs.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("cert_pem", &self.cert_pem).field("key_pem", &self.key_pem).finish()
    }
}

/// Signs certificates.
#[derive(Clone, Debug)]
pub struct Authority {
    pair: Pair,
}

fn at(t: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(t.as_second()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Clocks differ a little; certificates start a little before now.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

fn params(cn: &str, now: Timestamp, valid: SignedDuration) -> CertificateParams {
    let mut p = CertificateParams::default();
    let mut dn = DistinguishedName::new();
    dn.push(DnType::CommonName, cn);
    p.distinguished_name = dn;
    p.not_before = at(now.checked_sub(SKEW).unwrap_or(now));
    p.not_after = at(now.checked_add(valid).unwrap_or(now));
    p
}

impl Authority {
    pub fn generate(cn: &str, now: Timestamp) -> Result<Authority, Error> {
        let key = KeyPair::generate().map_err(failed("generate a CA key"))?;
        let mut p = params(cn, now, SignedDuration::from_hours(24 * 3650));
        p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        p.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let cert = p.self_signed(&key).map_err(failed("sign the CA certificate"))?;
        Ok(Authority { pair: Pair { cert_pem: cert.pem(), key_pem: Secret(key.serialize_pem()) } })
    }

    /// An authority kept elsewhere.
    pub fn from_pair(pair: Pair) -> Result<Authority, Error> {
        let a = Authority { pair };
        a.issuer()?;
        Ok(a)
    }

    pub fn cert_pem(&self) -> &str {
        &self.pair.cert_pem
    }

    pub fn pair(&self) -> &Pair {
        &self.pair
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, Error> {
        let key = KeyPair::from_pem(self.pair.key_pem.expose()).map_err(failed("read the CA key"))?;
        Issuer::from_ca_cert_pem(&self.pair.cert_pem, key).map_err(failed("read the CA certificate"))
    }

    fn issue(&self, mut p: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Result<Pair, Error> {
        let key = KeyPair::generate().map_err(failed("generate a key"))?;
        p.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        p.extended_key_usages = vec![usage];
        let cert = p.signed_by(&key, &self.issuer()?).map_err(failed("sign a certificate"))?;
        Ok(Pair { cert_pem: cert.pem(), key_pem: Secret(key.serialize_pem()) })
    }

    /// A serving certificate for DNS names and addresses.
    pub fn issue_server(&self, names: &[String], ips: &[IpAddr], now: Timestamp) -> Result<Pair, Error> {
        let mut p = params("kube-apiserver", now, SignedDuration::from_hours(24 * 365));
        for n in names {
            let n = n.clone().try_into().map_err(failed("use a DNS name"))?;
            p.subject_alt_names.push(SanType::DnsName(n));
        }
        p.subject_alt_names.extend(ips.iter().map(|ip| SanType::IpAddress(*ip)));
        self.issue(p, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client certificate: the common name is the user, the organization its group. (One group: rcgen's
    /// subject holds each attribute once. Certificates with several, made elsewhere, are read in full.)
    pub fn issue_client(
        &self,
        user: &str,
        group: &str,
        now: Timestamp,
        valid: SignedDuration,
    ) -> Result<Pair, Error> {
        let mut p = params(user, now, valid);
        p.distinguished_name.push(DnType::OrganizationName, group);
        self.issue(p, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// Signs an approved request for one of the built-in signers.
    pub fn sign_request(
        &self,
        request_pem: &str,
        signer: &str,
        now: Timestamp,
        valid: SignedDuration,
    ) -> Result<String, Error> {
        let mut csr = CertificateSigningRequestParams::from_pem(request_pem)
            .map_err(|e| Error::Request(e.to_string()))?;
        let denied = |why: &str| Error::NotAllowed { signer: signer.to_owned(), why: why.to_owned() };
        let organizations: Vec<String> = csr
            .params
            .distinguished_name
            .iter()
            .filter(|(t, _)| **t == DnType::OrganizationName)
            .filter_map(|(_, v)| dn_text(v))
            .collect();
        let cn = csr.params.distinguished_name.get(&DnType::CommonName).and_then(dn_text).unwrap_or_default();
        let node = cn.starts_with("system:node:") && organizations == ["system:nodes"];
        let usage = match signer {
            "kubernetes.io/kube-apiserver-client" if organizations.iter().any(|o| o == crate::MASTERS) => {
                return Err(denied("organization system:masters is never signed"));
            }
            "kubernetes.io/kube-apiserver-client" => ExtendedKeyUsagePurpose::ClientAuth,
            "kubernetes.io/kube-apiserver-client-kubelet" if node => ExtendedKeyUsagePurpose::ClientAuth,
            "kubernetes.io/kubelet-serving" if node => ExtendedKeyUsagePurpose::ServerAuth,
            "kubernetes.io/kube-apiserver-client-kubelet" | "kubernetes.io/kubelet-serving" => {
                return Err(denied("the subject must be CN=system:node:<name>, O=system:nodes"));
            }
            _ => return Err(denied("not a built-in signer")),
        };
        csr.params.not_before = at(now.checked_sub(SKEW).unwrap_or(now));
        csr.params.not_after = at(now.checked_add(valid).unwrap_or(now));
        csr.params.is_ca = IsCa::NoCa;
        csr.params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        csr.params.extended_key_usages = vec![usage];
        let cert = csr.signed_by(&self.issuer()?).map_err(failed("sign the request"))?;
        Ok(cert.pem())
    }
}

fn dn_text(v: &rcgen::DnValue) -> Option<String> {
    Some(match v {
        rcgen::DnValue::Utf8String(s) => s.clone(),
        rcgen::DnValue::PrintableString(s) => s.as_str().to_owned(),
        rcgen::DnValue::Ia5String(s) => s.as_str().to_owned(),
        rcgen::DnValue::TeletexString(s) => s.as_str().to_owned(),
        _ => return None,
    })
}

/// The user a verified client certificate (DER) names.
pub fn user_of_certificate(der: &[u8]) -> Option<User> {
    let (_, cert) = X509Certificate::from_der(der).ok()?;
    let subject = cert.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    if name.is_empty() {
        return None;
    }
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
    Some(User { name, groups, ..User::default() }.authenticated())
}

/// The DNS names a certificate (DER) is for.
pub fn dns_names(der: &[u8]) -> Vec<String> {
    let Ok((_, cert)) = X509Certificate::from_der(der) else { return Vec::new() };
    let Ok(Some(san)) = cert.subject_alternative_name() else { return Vec::new() };
    let dns = |n: &GeneralName<'_>| match n {
        GeneralName::DNSName(d) => Some((*d).to_owned()),
        _ => None,
    };
    san.value.general_names.iter().filter_map(dns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-15T00:00:00Z".parse().unwrap()
    }

    fn der(pem: &str) -> Vec<u8> {
        x509_parser::pem::parse_x509_pem(pem.as_bytes()).unwrap().1.contents
    }

    #[test]
    fn client_certificates_name_user_and_groups() {
        let ca = Authority::generate("ca", now()).unwrap();
        let pair = ca.issue_client("alice", "dev", now(), SignedDuration::from_hours(1)).unwrap();
        let user = user_of_certificate(&der(&pair.cert_pem)).unwrap();
        assert_eq!(user, User::new("alice", &["dev", crate::AUTHENTICATED]));
        let again = Authority::from_pair(ca.pair().clone()).unwrap();
        again.issue_server(&["localhost".into()], &["127.0.0.1".parse().unwrap()], now()).unwrap();
    }

    #[test]
    fn keys_are_not_printed() {
        let ca = Authority::generate("ca", now()).unwrap();
        assert!(!format!("{ca:?}").contains("PRIVATE"));
    }

    #[test]
    fn signers_check_the_subject() {
        let ca = Authority::generate("ca", now()).unwrap();
        let request = |cn: &str, o: &str| {
            let key = KeyPair::generate().unwrap();
            let mut p = params(cn, now(), SignedDuration::from_hours(1));
            p.distinguished_name.push(DnType::OrganizationName, o);
            p.serialize_request(&key).unwrap().pem().unwrap()
        };
        let sign =
            |pem: &str, signer: &str| ca.sign_request(pem, signer, now(), SignedDuration::from_hours(1));
        let kubelet = "kubernetes.io/kube-apiserver-client-kubelet";
        let cert = sign(&request("system:node:n1", "system:nodes"), kubelet).unwrap();
        assert_eq!(user_of_certificate(&der(&cert)).unwrap().name, "system:node:n1");
        assert!(sign(&request("bob", "system:nodes"), kubelet).is_err());
        assert!(sign(&request("bob", "system:masters"), "kubernetes.io/kube-apiserver-client").is_err());
        assert!(sign(&request("bob", "x"), "kubernetes.io/kube-apiserver-client").is_ok());
        assert!(sign("junk", kubelet).is_err());
    }
}
