//! Certificates: self-signed ones, signing requests, PKCS#12 and PEM both ways.

use crate::planes::vault::crypto::{Curve, Material, Wanted};
use crate::planes::vault::objects::Issued;
use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use p12_keystore::{KeyStore, KeyStoreEntry, Pkcs12Archive, PrivateKey, PrivateKeyChain};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType, SignatureAlgorithm,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum X509Error {
    #[error("the {0} of the policy is invalid")]
    Policy(&'static str),
    #[error("the certificate cannot be made")]
    Make,
    #[error("the content is neither PKCS#12 nor PEM, or the password is wrong")]
    Unreadable,
    #[error("the content has no private key")]
    NoKey,
    #[error("the content has no certificate")]
    NoCertificate,
    #[error("the private key is of a type that is not supported")]
    KeyType,
    #[error("the private key does not belong to the certificate")]
    Mismatch,
}

fn signing(material: &Material) -> Result<KeyPair, X509Error> {
    let algorithm: &'static SignatureAlgorithm = match material.kind {
        Wanted::Rsa(_) => &rcgen::PKCS_RSA_SHA256,
        Wanted::Ec(Curve::P256) => &rcgen::PKCS_ECDSA_P256_SHA256,
        Wanted::Ec(Curve::P384) => &rcgen::PKCS_ECDSA_P384_SHA384,
        Wanted::Ec(Curve::P521) => &rcgen::PKCS_ECDSA_P521_SHA512,
        Wanted::Ec(Curve::P256K) => return Err(X509Error::KeyType),
    };
    let der = PrivatePkcs8KeyDer::from(material.pkcs8());
    KeyPair::from_pkcs8_der_and_sign_algo(&der, algorithm).map_err(|_| X509Error::Make)
}

/// `CN=a, O=b`: the parts that are used in practice.
fn distinguished(text: &str) -> Result<DistinguishedName, X509Error> {
    let bad = || X509Error::Policy("subject");
    let mut name = DistinguishedName::new();
    let mut any = false;
    let mut parts: Vec<String> = vec![String::new()];
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        match (c, quoted, escaped) {
            ('\\', _, false) => {
                escaped = true;
                continue;
            }
            ('"', _, false) => quoted = !quoted,
            (',', false, false) => parts.push(String::new()),
            _ => parts.last_mut().ok_or_else(bad)?.push(c),
        }
        escaped = false;
    }
    for part in parts {
        let (kind, value) = part.split_once('=').ok_or_else(bad)?;
        let kind = match kind.trim().to_ascii_uppercase().as_str() {
            "CN" => DnType::CommonName,
            "O" => DnType::OrganizationName,
            "OU" => DnType::OrganizationalUnitName,
            "C" => DnType::CountryName,
            "L" => DnType::LocalityName,
            "S" | "ST" => DnType::StateOrProvinceName,
            _ => return Err(bad()),
        };
        let value = value.trim();
        if value.is_empty() || value.len() > 256 {
            return Err(bad());
        }
        name.push(kind, value);
        any = true;
    }
    if any { Ok(name) } else { Err(bad()) }
}

fn texts<'a>(v: &'a Value, what: &'static str) -> Result<Vec<&'a str>, X509Error> {
    match v {
        Value::Null => Ok(Vec::new()),
        Value::Array(l) if l.len() <= 100 => {
            l.iter().map(|x| x.as_str().ok_or(X509Error::Policy(what))).collect()
        }
        _ => Err(X509Error::Policy(what)),
    }
}

fn params(policy: &Value, now: i64) -> Result<CertificateParams, X509Error> {
    let x = &policy["x509_props"];
    let mut p = CertificateParams::default();
    let subject = x["subject"].as_str().unwrap_or_default();
    p.distinguished_name = match subject {
        "" => DistinguishedName::new(),
        text => distinguished(text)?,
    };
    let dns = texts(&x["sans"]["dns_names"], "sans.dns_names")?;
    if subject.is_empty() && dns.is_empty() {
        return Err(X509Error::Policy("subject"));
    }
    for name in dns {
        let name = name.to_owned().try_into().map_err(|_| X509Error::Policy("sans.dns_names"))?;
        p.subject_alt_names.push(SanType::DnsName(name));
    }
    for mail in texts(&x["sans"]["emails"], "sans.emails")? {
        let mail = mail.to_owned().try_into().map_err(|_| X509Error::Policy("sans.emails"))?;
        p.subject_alt_names.push(SanType::Rfc822Name(mail));
    }
    let months = match &x["validity_months"] {
        Value::Null => 12,
        v => v.as_i64().filter(|m| (1..=120).contains(m)).ok_or(X509Error::Policy("validity_months"))?,
    };
    let at = |t: i64| OffsetDateTime::from_unix_timestamp(t).map_err(|_| X509Error::Make);
    p.not_before = at(now - 600)?;
    // A month is a twelfth of a year here; real vaults count calendar months.
    p.not_after = at(now + months * 2_629_800)?;
    p.is_ca = match x["basic_constraints"]["ca"].as_bool() {
        Some(true) => IsCa::Ca(BasicConstraints::Unconstrained),
        _ => IsCa::ExplicitNoCa,
    };
    let usages = texts(&x["key_usage"], "key_usage")?;
    let usages = if usages.is_empty() { vec!["digitalSignature", "keyEncipherment"] } else { usages };
    for u in usages {
        p.key_usages.push(match u {
            "digitalSignature" => KeyUsagePurpose::DigitalSignature,
            "nonRepudiation" => KeyUsagePurpose::ContentCommitment,
            "keyEncipherment" => KeyUsagePurpose::KeyEncipherment,
            "dataEncipherment" => KeyUsagePurpose::DataEncipherment,
            "keyAgreement" => KeyUsagePurpose::KeyAgreement,
            "keyCertSign" => KeyUsagePurpose::KeyCertSign,
            "cRLSign" | "crlSign" => KeyUsagePurpose::CrlSign,
            "encipherOnly" => KeyUsagePurpose::EncipherOnly,
            "decipherOnly" => KeyUsagePurpose::DecipherOnly,
            _ => return Err(X509Error::Policy("key_usage")),
        });
    }
    let ekus = texts(&x["ekus"], "ekus")?;
    let ekus = if ekus.is_empty() { vec!["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"] } else { ekus };
    for e in ekus {
        p.extended_key_usages.push(match e {
            "1.3.6.1.5.5.7.3.1" => ExtendedKeyUsagePurpose::ServerAuth,
            "1.3.6.1.5.5.7.3.2" => ExtendedKeyUsagePurpose::ClientAuth,
            "1.3.6.1.5.5.7.3.3" => ExtendedKeyUsagePurpose::CodeSigning,
            other => {
                let oid: Option<Vec<u64>> = other.split('.').map(|n| n.parse().ok()).collect();
                ExtendedKeyUsagePurpose::Other(
                    oid.filter(|o| (3..=20).contains(&o.len())).ok_or(X509Error::Policy("ekus"))?,
                )
            }
        });
    }
    Ok(p)
}

/// A certificate that its own key signs.
pub fn self_signed(material: &Material, policy: &Value, now: i64) -> Result<Issued, X509Error> {
    let key = signing(material)?;
    let cert = params(policy, now)?.self_signed(&key).map_err(|_| X509Error::Make)?;
    Ok(Issued { chain: vec![cert.der().to_vec()] })
}

/// What a certificate authority is asked with.
pub fn request(material: &Material, policy: &Value, now: i64) -> Result<Vec<u8>, X509Error> {
    let key = signing(material)?;
    let mut p = params(policy, now)?;
    // Not for a request to say.
    p.is_ca = IsCa::NoCa;
    let csr = p.serialize_request(&key).map_err(|_| X509Error::Make)?;
    Ok(csr.der().to_vec())
}

fn pem_block(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|c| std::str::from_utf8(c).unwrap_or_default()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// What the certificate's secret holds: key and certificate, or only the latter.
pub fn secret(issued: &Issued, material: Option<&Material>, content_type: &str) -> Result<String, X509Error> {
    if content_type == "application/x-pem-file" {
        let mut out = material.map_or_else(String::new, |m| pem_block("PRIVATE KEY", m.pkcs8()));
        for c in &issued.chain {
            out.push_str(&pem_block("CERTIFICATE", c));
        }
        return Ok(out);
    }
    let certs: Vec<p12_keystore::Certificate> = issued
        .chain
        .iter()
        .map(|c| p12_keystore::Certificate::from_der(c).map_err(|_| X509Error::Make))
        .collect::<Result<_, _>>()?;
    let mut store = KeyStore::new();
    match material {
        Some(m) => {
            let key = PrivateKey::from_der(m.pkcs8()).map_err(|_| X509Error::Make)?;
            let id = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &issued.chain[0]).as_ref().to_vec();
            let chain = PrivateKeyChain::new(id, key, certs);
            store.add_entry("vault", KeyStoreEntry::PrivateKeyChain(chain));
        }
        None => {
            for (i, c) in certs.into_iter().enumerate() {
                store.add_entry(&format!("c{i}"), KeyStoreEntry::Certificate(c));
            }
        }
    }
    let bytes = store.writer("").encryption_iterations(2048).mac_iterations(2048).write();
    bytes.map(|b| STANDARD.encode(b)).map_err(|_| X509Error::Make)
}

/// What a client imports: PKCS#12 in base64, or PEM. Also says which it was.
pub fn read(value: &str, password: &str) -> Result<(Material, Issued, &'static str), X509Error> {
    if value.contains("-----BEGIN ") {
        let chain: Vec<Vec<u8>> = CertificateDer::pem_slice_iter(value.as_bytes())
            .map(|c| c.map(|c| c.to_vec()))
            .collect::<Result<_, _>>()
            .map_err(|_| X509Error::Unreadable)?;
        let key = PrivateKeyDer::from_pem_slice(value.as_bytes()).map_err(|_| X509Error::NoKey)?;
        let PrivateKeyDer::Pkcs8(key) = key else { return Err(X509Error::KeyType) };
        return matched(key.secret_pkcs8_der(), chain).map(|(m, i)| (m, i, "application/x-pem-file"));
    }
    let squeezed: String = value.split_whitespace().collect();
    let bytes = STANDARD.decode(squeezed).map_err(|_| X509Error::Unreadable)?;
    let archive = Pkcs12Archive::from_pkcs12(&bytes, password).map_err(|_| X509Error::Unreadable)?;
    let key = archive.keys.first().ok_or(X509Error::NoKey)?;
    let chain = archive.certs.iter().map(|c| c.cert.as_der().to_vec()).collect();
    matched(key.key.as_der(), chain).map(|(m, i)| (m, i, "application/x-pkcs12"))
}

/// The chain with the certificate of the key first.
fn matched(key: &[u8], mut chain: Vec<Vec<u8>>) -> Result<(Material, Issued), X509Error> {
    if chain.is_empty() {
        return Err(X509Error::NoCertificate);
    }
    let material = Material::from_pkcs8(key).map_err(|_| X509Error::KeyType)?;
    let leaf = chain.iter().position(|c| belongs(c, &material)).ok_or(X509Error::Mismatch)?;
    chain[..=leaf].rotate_right(1);
    Ok((material, Issued { chain }))
}

/// Whether a certificate is for a key.
pub fn belongs(cert: &[u8], material: &Material) -> bool {
    let Ok(pair) = signing(material) else { return false };
    use rcgen::PublicKeyData;
    X509Certificate::from_der(cert).is_ok_and(|(_, c)| c.public_key().raw == pair.subject_public_key_info())
}

pub fn thumbprint(issued: &Issued) -> String {
    let leaf = issued.chain.first().map_or(&[][..], Vec::as_slice);
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, leaf))
}

pub fn subject(issued: &Issued) -> String {
    let leaf = issued.chain.first().map_or(&[][..], Vec::as_slice);
    X509Certificate::from_der(leaf).map_or_else(|_| String::new(), |(_, c)| c.subject().to_string())
}

/// From when until when it is good.
pub fn validity(issued: &Issued) -> (Option<i64>, Option<i64>) {
    let leaf = issued.chain.first().map_or(&[][..], Vec::as_slice);
    match X509Certificate::from_der(leaf) {
        Ok((_, c)) => (Some(c.validity().not_before.timestamp()), Some(c.validity().not_after.timestamp())),
        Err(_) => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn certificates_go_round() {
        let policy =
            json!({"x509_props": {"subject": "CN=a.test, O=\"Our, Co\"", "sans": {"dns_names": ["a.test"]}}});
        for kind in [Wanted::Rsa(2048), Wanted::Ec(Curve::P256)] {
            let m = Material::generate(kind).unwrap();
            let issued = self_signed(&m, &policy, 1_700_000_000).unwrap();
            assert!(subject(&issued).contains("O=Our, Co"), "{}", subject(&issued));
            for content in ["application/x-pkcs12", "application/x-pem-file"] {
                let text = secret(&issued, Some(&m), content).unwrap();
                let (again, chain, kind) = read(&text, "").unwrap();
                assert_eq!((again.jwk(), &chain.chain, kind), (m.jwk(), &issued.chain, content));
                assert_eq!(read(&text, "wrong").is_err(), content == "application/x-pkcs12");
                // Without the key it is no longer something to import.
                let bare = secret(&issued, None, content).unwrap();
                assert_eq!(read(&bare, "").unwrap_err(), X509Error::NoKey);
            }
            assert!(!request(&m, &policy, 1_700_000_000).unwrap().is_empty());
        }
        let (a, b) = (
            Material::generate(Wanted::Ec(Curve::P256)).unwrap(),
            Material::generate(Wanted::Ec(Curve::P256)).unwrap(),
        );
        let issued = self_signed(&a, &policy, 1_700_000_000).unwrap();
        let mixed = secret(&issued, Some(&b), "application/x-pem-file").unwrap();
        assert_eq!(read(&mixed, "").unwrap_err(), X509Error::Mismatch);
        for bad in [
            json!({}),
            json!({"x509_props": {"subject": "a"}}),
            json!({"x509_props": {"subject": "CN=a", "validity_months": 0}}),
            json!({"x509_props": {"subject": "CN=a", "key_usage": ["x"]}}),
        ] {
            assert!(self_signed(&a, &bad, 1_700_000_000).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn junk_is_refused(text in "([A-Za-z0-9+/=]|-----BEGIN CERTIFICATE-----|\n| ){0,80}", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read(&text, "").is_err());
            prop_assert!(read(&STANDARD.encode(&bytes), "").is_err());
        }
    }
}
