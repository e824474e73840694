//! Why there is no token, in words that say what to do.

use crate::HttpError;
use crate::credential::CertificateError;
use serde::Deserialize;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error("cannot read {path}, which {what} should be in")]
    ReadFile { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{path} is not {what}")]
    ParseFile { what: &'static str, path: PathBuf, source: serde_json::Error },
    #[error("{path}: {field} is missing or wrong; {fix}")]
    Field { path: PathBuf, field: &'static str, fix: &'static str },
    #[error("cannot use the certificate of {of}")]
    Certificate { of: String, source: CertificateError },
    #[error("cannot ask {host} for a token")]
    Ask { host: String, source: HttpError },
    #[error("{host} answered {status} and not a token")]
    Answer { host: String, status: u16 },
    #[error("Entra ID refused a token")]
    Entra(#[source] Box<EntraError>),
    #[error("the managed identity endpoint refused a token: {code}: {message}")]
    Managed { code: String, message: String },
    #[error("{what} cannot be used: {why}")]
    Unavailable { what: &'static str, why: String },
    #[error("the Azure CLI gave no token: {0}; run 'az login'")]
    Cli(String),
    #[error("{0}")]
    Configuration(String),
    #[error("no credential worked: {}", .0.iter().map(|(what, why)| format!("{what} ({why})")).collect::<Vec<_>>().join("; "))]
    None(Vec<(String, String)>),
}

impl CredentialError {
    /// Whether the same question may be answered later.
    pub fn is_transient(&self) -> bool {
        match self {
            CredentialError::Ask { source, .. } => source.is_transient(),
            CredentialError::Answer { status, .. } => *status == 429 || *status >= 500,
            CredentialError::Entra(e) => e.is_transient(),
            _ => false,
        }
    }

    /// Whether it may be that a federated credential was made but has not arrived at the server that answered.
    pub fn is_unsettled(&self) -> bool {
        self.entra().is_some_and(|e| matches!(e.code, 70_021 | 700_211..=700_213))
    }

    /// The refusal of Entra ID, if it was one.
    pub fn entra(&self) -> Option<&EntraError> {
        match self {
            CredentialError::Entra(e) => Some(e),
            _ => None,
        }
    }
}

/// What an AADSTS code is about. Several codes share a fault when the fix is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntraFault {
    UnknownTenant,
    UnknownApplication,
    DisabledApplication,
    WrongSecret,
    ExpiredSecret,
    MissingCredential,
    UnknownCertificate,
    AssertionTime,
    AssertionAudience,
    FederationIssuer,
    FederationSubject,
    FederationAudience,
    IssuerUnreachable,
    UnknownResource,
    NoServicePrincipal,
    ConditionalAccess,
    BadRequest,
    Busy,
    Other,
}

struct Row(&'static [u32], EntraFault, &'static str, &'static str);

const ROWS: [Row; 18] = [
    Row(
        &[90002, 900_021, 900_023],
        EntraFault::UnknownTenant,
        "the tenant does not exist in this cloud",
        "check AZURE_TENANT_ID, and that AZURE_AUTHORITY_HOST is the right cloud",
    ),
    Row(
        &[700_016],
        EntraFault::UnknownApplication,
        "the application is not known in this tenant",
        "check AZURE_CLIENT_ID and AZURE_TENANT_ID; the application may live in another tenant or have been deleted",
    ),
    Row(
        &[7_000_112, 500_014],
        EntraFault::DisabledApplication,
        "the application or its service principal is disabled",
        "enable it in Entra ID (Enterprise applications, Properties)",
    ),
    Row(
        &[7_000_215],
        EntraFault::WrongSecret,
        "the client secret is wrong",
        "use the secret's value, not its id; make a new secret if the value is lost",
    ),
    Row(
        &[7_000_222],
        EntraFault::ExpiredSecret,
        "the client secret has expired",
        "make a new secret for the application and configure it",
    ),
    Row(
        &[7_000_218, 7_000_216],
        EntraFault::MissingCredential,
        "the request carries neither secret nor assertion",
        "configure a secret, a certificate or a federated token",
    ),
    Row(
        &[700_027, 7_000_272],
        EntraFault::UnknownCertificate,
        "the certificate that signed the assertion is not registered with the application, or the signature does not verify",
        "register the certificate with the application, or use the key that belongs to it; for a federated token, check that the issuer publishes the key it signs with",
    ),
    Row(
        &[700_024],
        EntraFault::AssertionTime,
        "the assertion is not valid at this time",
        "check the clocks of this machine and of the issuer; a federated token file that is not rotated expires",
    ),
    Row(
        &[700_023, 50_012],
        EntraFault::AssertionAudience,
        "the assertion is meant for another audience",
        "the assertion must name the token endpoint of the tenant",
    ),
    Row(
        &[700_211, 70_021],
        EntraFault::FederationIssuer,
        "no federated credential trusts the token's issuer",
        "make the issuer of the federated identity credential equal to the token's iss, including the trailing slash; new credentials take minutes to be seen",
    ),
    Row(
        &[700_213, 7_002_138],
        EntraFault::FederationSubject,
        "no federated credential trusts the token's subject",
        "make the subject equal to the token's sub, in the same case: system:serviceaccount:{namespace}:{name} for a service account",
    ),
    Row(
        &[700_212],
        EntraFault::FederationAudience,
        "no federated credential accepts the token's audience",
        "make the audience of the federated identity credential equal to the token's aud",
    ),
    Row(
        &[50_166, 5_002_710],
        EntraFault::IssuerUnreachable,
        "Entra ID cannot fetch the issuer's discovery document or keys",
        "publish {issuer}/.well-known/openid-configuration and the keys it names over public https",
    ),
    Row(
        &[500_011, 50_001],
        EntraFault::UnknownResource,
        "the service that the token is for is not known in this tenant",
        "check the audience; it differs between clouds",
    ),
    Row(
        &[7_000_229],
        EntraFault::NoServicePrincipal,
        "the application has no service principal in this tenant",
        "create one: az ad sp create --id {application}",
    ),
    Row(
        &[53_003, 530_003, 50_076, 50_079],
        EntraFault::ConditionalAccess,
        "a conditional access policy refuses the sign-in",
        "ask the tenant's administrator to admit this workload identity",
    ),
    Row(
        &[900_144, 70_003, 90_014, 70_011],
        EntraFault::BadRequest,
        "the token request is malformed",
        "this is a bug in Zaffre: report it with the trace id",
    ),
    Row(
        &[90_033, 90_055, 50_196, 90_006],
        EntraFault::Busy,
        "Entra ID is overloaded or limits this application",
        "it is asked again later",
    ),
];

/// A refusal of the token endpoint.
#[derive(Clone, Debug, thiserror::Error)]
#[error("AADSTS{code}: {cause}; to fix it, {fix} (Entra ID says: {message}; trace {trace})")]
pub struct EntraError {
    pub code: u32,
    pub fault: EntraFault,
    pub cause: &'static str,
    pub fix: &'static str,
    /// What Entra ID said, without the ids it appends.
    pub message: String,
    pub trace: String,
    pub status: u16,
}

#[derive(Deserialize)]
struct Body {
    error: String,
    #[serde(default)]
    error_description: String,
    #[serde(default)]
    error_codes: Vec<u32>,
    #[serde(default)]
    trace_id: String,
}

impl EntraError {
    /// Reads an error body; `None` if it is not one of Entra ID's.
    pub(crate) fn read(status: u16, body: &[u8]) -> Option<EntraError> {
        let body: Body = serde_json::from_slice(body).ok()?;
        let digits = |s: &str| -> Option<u32> {
            let rest = &s[s.find("AADSTS")? + 6..];
            rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
        };
        let code = body.error_codes.first().copied().or_else(|| digits(&body.error_description)).unwrap_or(0);
        let row = ROWS.iter().find(|r| r.0.contains(&code));
        let (fault, cause, fix) = match row {
            Some(r) => (r.1, r.2, r.3),
            None if body.error == "temporarily_unavailable" => {
                (EntraFault::Busy, "Entra ID is not available", "it is asked again later")
            }
            None => (
                EntraFault::Other,
                "Entra ID refused",
                "look the code up at https://login.microsoftonline.com/error",
            ),
        };
        let text = body.error_description.split(" Trace ID:").next().unwrap_or_default();
        let text = text.split_once(": ").filter(|(c, _)| c.starts_with("AADSTS")).map_or(text, |(_, t)| t);
        let message = text.lines().next().unwrap_or(&body.error).trim().chars().take(400).collect();
        Some(EntraError { code, fault, cause, fix, message, trace: body.trace_id, status })
    }

    pub fn is_transient(&self) -> bool {
        self.fault == EntraFault::Busy || self.status >= 500 || self.status == 429
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_words() {
        let body = br#"{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret provided. Trace ID: t Correlation ID: c Timestamp: x","error_codes":[7000215],"trace_id":"t"}"#;
        let e = EntraError::read(401, body).unwrap();
        assert_eq!(
            (e.code, e.fault, e.message.as_str(), e.trace.as_str()),
            (7_000_215, EntraFault::WrongSecret, "Invalid client secret provided.", "t")
        );
        assert!(!e.is_transient());
        let text = CredentialError::Entra(Box::new(e)).entra().unwrap().to_string();
        assert!(text.contains("not its id"), "{text}");
        let from_text = br#"{"error":"x","error_description":"AADSTS700016: Application"}"#;
        assert_eq!(EntraError::read(400, from_text).unwrap().fault, EntraFault::UnknownApplication);
        let unknown = br#"{"error":"x","error_description":"AADSTS42: ?"}"#;
        assert_eq!(EntraError::read(400, unknown).unwrap().fault, EntraFault::Other);
        assert!(EntraError::read(503, br#"{"error":"temporarily_unavailable"}"#).unwrap().is_transient());
        assert!(EntraError::read(503, b"<html>").is_none());
    }

    #[test]
    fn no_code_is_explained_twice() {
        let mut all: Vec<u32> = ROWS.iter().flat_map(|r| r.0.iter().copied()).collect();
        let n = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), n);
    }
}
