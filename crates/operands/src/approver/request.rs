//! A signing request, read.

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use std::collections::BTreeSet;
use std::net::IpAddr;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

/// No request is larger.
const LARGEST: usize = 64 << 10;

/// What a request says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub name: String,
    pub signer: String,
    /// Who asks.
    pub username: String,
    pub groups: BTreeSet<String>,
    pub usages: BTreeSet<String>,
    pub common_name: String,
    pub organizations: Vec<String>,
    pub dns: Vec<String>,
    pub addresses: Vec<IpAddr>,
    /// E-mail addresses, URIs and the like, which no node has.
    pub other_names: bool,
    /// The public key that is to be certified.
    pub key: Vec<u8>,
    pub made: Timestamp,
}

impl Request {
    /// `None`: it holds no signing request.
    pub fn read(csr: &CertificateSigningRequest) -> Option<Request> {
        let spec = &csr.spec;
        let pem = Some(&spec.request.0).filter(|r| r.len() <= LARGEST)?;
        let (_, pem) = x509_parser::pem::parse_x509_pem(pem).ok()?;
        let (_, parsed) = X509CertificationRequest::from_der(&pem.contents).ok()?;
        let subject = &parsed.certification_request_info.subject;
        let text = |a: &x509_parser::x509::AttributeTypeAndValue<'_>| a.as_str().ok().map(str::to_owned);
        let mut request = Request {
            name: csr.metadata.name.clone().unwrap_or_default(),
            signer: spec.signer_name.clone(),
            username: spec.username.clone().unwrap_or_default(),
            groups: spec.groups.iter().flatten().cloned().collect(),
            usages: spec.usages.iter().flatten().cloned().collect(),
            common_name: subject.iter_common_name().next().and_then(text).unwrap_or_default(),
            organizations: subject.iter_organization().filter_map(text).collect(),
            key: parsed.certification_request_info.subject_pki.raw.to_vec(),
            made: csr.metadata.creation_timestamp.as_ref().map(|t| t.0).unwrap_or_default(),
            ..Request::default()
        };
        for extension in parsed.requested_extensions().into_iter().flatten() {
            let ParsedExtension::SubjectAlternativeName(names) = extension else { continue };
            for name in &names.general_names {
                match name {
                    GeneralName::DNSName(d) => request.dns.push(d.to_ascii_lowercase()),
                    GeneralName::IPAddress(bytes) => request.addresses.extend(address(bytes)),
                    _ => request.other_names = true,
                }
            }
        }
        Some(request)
    }

    /// The node it is for.
    pub fn node(&self) -> Option<&str> {
        self.common_name.strip_prefix("system:node:").filter(|n| !n.is_empty())
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}
