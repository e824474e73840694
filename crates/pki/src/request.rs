//! Signing requests: somebody makes a key, keeps it, and asks for a certificate.

use crate::authority::{Authority, at};
use crate::pair::{KeyKind, Private, unreadable};
use crate::{Error, failed};
use jiff::Timestamp;
use rcgen::{
    CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;

/// What a signing request (PKCS #10) says, and that whoever made it holds the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pem: String,
    pub common_name: String,
    pub organizations: Vec<String>,
    /// How many names it wants besides its subject.
    pub other_names: usize,
}

impl Request {
    /// Reads one in PEM; its signature must be that of the key in it.
    pub fn read(pem: &str) -> Result<Request, Error> {
        let bad = unreadable("a signing request");
        let (_, block) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(|e| bad(e.to_string()))?;
        let (_, parsed) =
            X509CertificationRequest::from_der(&block.contents).map_err(|e| bad(e.to_string()))?;
        CertificateSigningRequestParams::from_pem(pem).map_err(|e| bad(e.to_string()))?;
        let subject = &parsed.certification_request_info.subject;
        let text = |a: &x509_parser::x509::AttributeTypeAndValue<'_>| a.as_str().ok().map(str::to_owned);
        let extensions = parsed.requested_extensions().into_iter().flatten();
        let other_names = extensions.map(|e| match e {
            ParsedExtension::SubjectAlternativeName(names) => names.general_names.len(),
            _ => 0,
        });
        Ok(Request {
            pem: pem.to_owned(),
            common_name: subject.iter_common_name().find_map(text).unwrap_or_default(),
            organizations: subject.iter_organization().filter_map(text).collect(),
            other_names: other_names.sum(),
        })
    }

    /// A new key and a request for it, as a client makes them.
    pub fn make(common_name: &str, organization: &str, dns: &[&str]) -> Result<(String, Private), Error> {
        let key = KeyKind::P256.generate()?;
        let mut p = CertificateParams::new(dns.iter().map(|d| (*d).to_owned()).collect::<Vec<_>>())
            .map_err(failed("name a signing request"))?;
        p.distinguished_name = DistinguishedName::new();
        p.distinguished_name.push(DnType::CommonName, common_name);
        if !organization.is_empty() {
            p.distinguished_name.push(DnType::OrganizationName, organization);
        }
        let made = p.serialize_request(&key).map_err(failed("sign a request"))?;
        let pem = made.pem().map_err(failed("write a request"))?;
        Ok((pem, Private::new(key.serialize_pem())))
    }
}

impl Authority {
    /// A client certificate for whoever asks, with the subject asked for and nothing else of the request.
    pub fn certify(
        &self,
        request: &Request,
        not_before: Timestamp,
        not_after: Timestamp,
    ) -> Result<String, Error> {
        let mut csr = CertificateSigningRequestParams::from_pem(&request.pem)
            .map_err(failed("read a signing request"))?;
        csr.params.not_before = at(not_before);
        csr.params.not_after = at(not_after);
        csr.params.subject_alt_names = Vec::new();
        csr.params.is_ca = IsCa::NoCa;
        csr.params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        csr.params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        csr.params.use_authority_key_identifier_extension = true;
        let own =
            KeyPair::from_pem(self.pair().key.expose()).map_err(failed("read the key of an authority"))?;
        let issuer = Issuer::from_ca_cert_pem(self.cert(), own).map_err(failed("read an authority"))?;
        Ok(csr.signed_by(&issuer).map_err(failed("sign a certificate"))?.pem())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::Facts;
    use jiff::SignedDuration;

    #[test]
    fn a_request_is_read_as_it_was_made_and_certified_for_its_time() {
        let now: Timestamp = "2026-11-16T06:00:00Z".parse().unwrap();
        let (pem, key) = Request::make("system:x:me", "system:masters", &["api.example.com"]).unwrap();
        let request = Request::read(&pem).unwrap();
        assert_eq!((request.common_name.as_str(), request.other_names), ("system:x:me", 1));
        assert_eq!(request.organizations, ["system:masters"]);
        let ca = Authority::starting("ca", now, SignedDuration::from_hours(24)).unwrap();
        assert_eq!(ca.facts().unwrap().not_before, now, "to the second");
        let cert = ca.certify(&request, now, now + SignedDuration::from_hours(1)).unwrap();
        let facts = Facts::of(&cert).unwrap();
        assert!(ca.signed(&cert).unwrap() && facts.client && !facts.server && !facts.authority);
        assert!(facts.dns.is_empty(), "names that were asked for are not given");
        assert_eq!((facts.not_before, facts.not_after), (now, now + SignedDuration::from_hours(1)));
        assert!(crate::Pair { cert, key }.fits().unwrap());
    }

    #[test]
    fn a_request_that_was_touched_is_none() {
        let (pem, _) = Request::make("system:x:me", "system:masters", &[]).unwrap();
        let other = Request::make("system:x:you", "system:masters", &[]).unwrap().0;
        assert!(Request::read("hello").is_err());
        // The head of one and the signature of the other.
        let (a, b): (Vec<&str>, Vec<&str>) = (pem.lines().collect(), other.lines().collect());
        let mixed = [&a[..3], &b[3..]].concat().join("\n");
        assert!(Request::read(&mixed).is_err());
    }
}
