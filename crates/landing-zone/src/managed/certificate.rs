//! Certificates of applications, and the form in which a control plane finds them in the vault: the JSON of the
//! credential service of managed identities.

use super::Encoding;
use azure::Secret;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use p12_keystore::{
    Certificate as Bag, EncryptionAlgorithm, KeyStore, KeyStoreEntry, MacAlgorithm, PrivateKey,
    PrivateKeyChain,
};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, RsaKeySize};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("the key or the certificate cannot be made")]
    Make(#[from] rcgen::Error),
    #[error("certificate and key cannot be packed")]
    Pack(#[from] p12_keystore::error::Error),
    #[error("its time is out of range")]
    Time,
}

/// A certificate with its key, as PKCS#12.
pub(crate) struct New {
    pub der: Vec<u8>,
    pub pfx: Secret,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

fn time(t: Timestamp) -> Result<OffsetDateTime, CertificateError> {
    OffsetDateTime::from_unix_timestamp(t.as_second()).map_err(|_| CertificateError::Time)
}

/// Clocks differ a little.
const EARLIER: SignedDuration = SignedDuration::from_mins(5);

/// A new key of an application: RSA is all that Entra ID takes.
pub fn new_key() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)
}

pub(crate) fn make(name: &str, key: &KeyPair, now: Timestamp, days: u16) -> Result<New, CertificateError> {
    let seconds = |t: Timestamp| Timestamp::from_second(t.as_second()).map_err(|_| CertificateError::Time);
    let not_before = seconds(now.checked_sub(EARLIER).map_err(|_| CertificateError::Time)?)?;
    let span = SignedDuration::from_hours(24 * i64::from(days));
    let not_after = seconds(now.checked_add(span).map_err(|_| CertificateError::Time)?)?;
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = time(not_before)?;
    params.not_after = time(not_after)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let der = params.self_signed(key)?.der().to_vec();
    let chain =
        PrivateKeyChain::new(vec![1_u8], PrivateKey::from_der(&key.serialize_der())?, [Bag::from_der(&der)?]);
    let mut store = KeyStore::new();
    store.add_entry(name, KeyStoreEntry::PrivateKeyChain(chain));
    // No password protects it, so strength is not the question; this is what Go's old reader understands.
    let packed = store
        .writer("")
        .encryption_algorithm(EncryptionAlgorithm::PbeWithShaAnd3KeyTripleDesCbc)
        .encryption_iterations(1)
        .mac_algorithm(MacAlgorithm::HmacSha1)
        .mac_iterations(1)
        .write()?;
    Ok(New { der, pfx: Secret::new(STANDARD.encode(packed)), not_before, not_after })
}

/// What identifies a certificate to Graph: its SHA-1, in base64.
pub(crate) fn thumbprint(der: &[u8]) -> String {
    STANDARD.encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, der))
}

/// The secret's content.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Credentials {
    pub authentication_endpoint: String,
    pub client_id: String,
    client_secret: String,
    pub tenant_id: String,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl Credentials {
    pub fn new(login: &str, client_id: &str, tenant: &str, new: &New) -> Credentials {
        Credentials {
            authentication_endpoint: format!("{login}/"),
            client_id: client_id.to_owned(),
            client_secret: new.pfx.expose().to_owned(),
            tenant_id: tenant.to_owned(),
            not_before: new.not_before,
            not_after: new.not_after,
        }
    }

    pub fn write(&self, encoding: Encoding) -> Secret {
        let text = serde_json::to_string(self).unwrap_or_default();
        Secret::new(match encoding {
            Encoding::Utf8 => text,
            Encoding::Base64 => STANDARD.encode(text),
            Encoding::Hex => text.bytes().map(|b| format!("{b:02x}")).collect(),
        })
    }

    pub fn read(secret: &Secret, encoding: Encoding) -> Option<Credentials> {
        let text = secret.expose();
        let bytes = match encoding {
            Encoding::Utf8 => text.as_bytes().to_vec(),
            Encoding::Base64 => STANDARD.decode(text).ok()?,
            Encoding::Hex => (0..text.len())
                .step_by(2)
                .map(|i| u8::from_str_radix(text.get(i..i + 2)?, 16).ok())
                .collect::<Option<_>>()?,
        };
        serde_json::from_slice(&bytes).ok()
    }

    /// The certificate in it.
    pub fn certificate(&self) -> Option<Vec<u8>> {
        let packed = STANDARD.decode(&self.client_secret).ok()?;
        let archive = p12_keystore::Pkcs12Archive::from_pkcs12(&packed, "").ok()?;
        archive.certs.first().map(|c| c.cert.as_der().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let new = make("demo-cpo", &new_key().unwrap(), now, 90).unwrap();
        assert_eq!(new.not_after.to_string(), "2026-04-02T03:04:05Z");
        let c = Credentials::new("https://login.test", "client", "tenant", &new);
        for encoding in [Encoding::Utf8, Encoding::Hex, Encoding::Base64] {
            let back = Credentials::read(&c.write(encoding), encoding).unwrap();
            assert_eq!(back.certificate().as_ref(), Some(&new.der));
            assert_eq!((back.client_id.as_str(), back.not_after), ("client", new.not_after));
        }
        let text = c.write(Encoding::Utf8).expose().to_owned();
        let v: serde_json::Value = serde_json::from_str(&text).unwrap();
        let keys: Vec<&String> = v.as_object().unwrap().keys().collect();
        assert_eq!(
            keys,
            ["authentication_endpoint", "client_id", "client_secret", "tenant_id", "not_before", "not_after"]
        );
        assert_eq!(v["authentication_endpoint"], "https://login.test/");
        assert_eq!(v["not_before"], "2026-01-02T02:59:05Z");
        for rubbish in ["", "{}", "zz", "7b"] {
            for encoding in [Encoding::Utf8, Encoding::Hex, Encoding::Base64] {
                assert!(Credentials::read(&Secret::new(rubbish), encoding).is_none());
            }
        }
    }
}
