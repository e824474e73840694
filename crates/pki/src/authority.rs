//! Authorities: what signs.

use crate::leaf::Leaf;
use crate::pair::{Facts, KeyKind, Pair, Private, unreadable, with_certificate};
use crate::{Error, failed};
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use time::OffsetDateTime;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Clocks differ a little; certificates start a little before now.
pub(crate) const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Signs certificates.
#[derive(Clone, Debug)]
pub struct Authority {
    pair: Pair,
}

pub(crate) fn at(t: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(t.as_second()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

fn params(now: Timestamp, life: SignedDuration) -> CertificateParams {
    let mut p = CertificateParams::default();
    p.distinguished_name = DistinguishedName::new();
    p.not_before = at(now.checked_sub(SKEW).unwrap_or(now));
    p.not_after = at(now.checked_add(life).unwrap_or(Timestamp::MAX));
    p
}

impl Authority {
    /// A new self-signed one. `unit` is how OpenShift's authorities are marked (`openshift`).
    pub fn generate(
        name: &str,
        unit: &str,
        kind: KeyKind,
        now: Timestamp,
        life: SignedDuration,
    ) -> Result<Authority, Error> {
        Authority::of(params(now, life), name, Some(unit), kind)
    }

    /// A new one that is good from a moment on and not before it, not even a little: those of before can be told by that.
    pub fn starting(name: &str, from: Timestamp, life: SignedDuration) -> Result<Authority, Error> {
        let mut p = params(from, life);
        p.not_before = at(from);
        Authority::of(p, name, None, KeyKind::P256)
    }

    fn of(
        mut p: CertificateParams,
        name: &str,
        unit: Option<&str>,
        kind: KeyKind,
    ) -> Result<Authority, Error> {
        let key = kind.generate()?;
        p.distinguished_name.push(DnType::CommonName, name);
        if let Some(unit) = unit {
            p.distinguished_name.push(DnType::OrganizationalUnitName, unit);
        }
        p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        p.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let cert = p.self_signed(&key).map_err(failed("sign an authority"))?;
        Ok(Authority { pair: Pair { cert: cert.pem(), key: Private::new(key.serialize_pem()) } })
    }

    /// One that is kept elsewhere; its key must be its own and it must be an authority.
    pub fn from_pair(pair: Pair) -> Result<Authority, Error> {
        let facts = pair.facts()?;
        let bad = unreadable("an authority");
        if !facts.authority {
            return Err(bad(format!("the certificate of {:?} may not sign others", facts.common_name)));
        }
        if !pair.fits()? {
            return Err(bad(format!("the key is not the one of certificate {:?}", facts.common_name)));
        }
        Ok(Authority { pair })
    }

    pub fn pair(&self) -> &Pair {
        &self.pair
    }

    pub fn cert(&self) -> &str {
        &self.pair.cert
    }

    pub fn facts(&self) -> Result<Facts, Error> {
        self.pair.facts()
    }

    /// Whether this authority signed a certificate, by the signature and not by the name.
    pub fn signed(&self, cert: &str) -> Result<bool, Error> {
        signed(cert, &self.pair.cert)
    }

    /// Issues what is wanted.
    pub fn issue(&self, leaf: &Leaf, now: Timestamp) -> Result<Pair, Error> {
        let key = leaf.key.generate()?;
        let mut p = params(now, leaf.life);
        p.distinguished_name.push(DnType::CommonName, leaf.common_name.as_str());
        if let Some(o) = &leaf.organization {
            p.distinguished_name.push(DnType::OrganizationName, o.as_str());
        }
        for name in &leaf.dns {
            let text = name.clone().try_into();
            let text = text.map_err(|source| Error::Name { name: name.clone(), source })?;
            p.subject_alt_names.push(SanType::DnsName(text));
        }
        p.subject_alt_names.extend(leaf.ips.iter().map(|ip| SanType::IpAddress(*ip)));
        p.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        if leaf.usage.server() {
            p.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        if leaf.usage.client() {
            p.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        p.use_authority_key_identifier_extension = true;
        let own =
            KeyPair::from_pem(self.pair.key.expose()).map_err(failed("read the key of an authority"))?;
        let issuer = Issuer::from_ca_cert_pem(&self.pair.cert, own).map_err(failed("read an authority"))?;
        let cert = p.signed_by(&key, &issuer).map_err(failed("sign a certificate"))?;
        Ok(Pair { cert: cert.pem(), key: Private::new(key.serialize_pem()) })
    }
}

/// Whether the holder of `issuer`'s key signed `cert`; both PEM.
pub fn signed(cert: &str, issuer: &str) -> Result<bool, Error> {
    let bad = unreadable("an authority");
    let block = Pem::iter_from_buffer(issuer.as_bytes()).next();
    let block = block.ok_or_else(|| bad("there is no PEM block".into()))?.map_err(|e| bad(e.to_string()))?;
    let (_, issuer) = X509Certificate::from_der(&block.contents).map_err(|e| bad(e.to_string()))?;
    with_certificate(cert, |c| Ok(c.verify_signature(Some(issuer.public_key())).is_ok()))
}
