//! Why a call did not do what it should.

use crate::credential::CredentialError;
use crate::xml::{self, XmlError};
use crate::{Answer, CloudError, HttpError};
use arm::{ErrorBody, ErrorDetail};
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot get a token for {method} {path}")]
    Token { method: String, path: String, source: CredentialError },
    #[error("cannot send {method} {path}, tried {attempts} times")]
    Send { method: String, path: String, attempts: u32, source: HttpError },
    #[error(transparent)]
    Refused(Box<Refused>),
    #[error("the answer to {method} {path} cannot be read")]
    Read { method: String, path: String, source: serde_json::Error },
    #[error("the answer to {method} {path} is not the XML it should be")]
    Xml { method: String, path: String, source: XmlError },
    #[error("the answer to {method} {path} lacks {what}")]
    Lacks { method: String, path: String, what: &'static str },
    #[error("'{name}' cannot be the name of {what}: {why}")]
    Name { what: &'static str, name: String, why: &'static str },
    #[error("{path} has {size} bytes, more than the {limit} that were allowed for")]
    TooLong { path: String, size: u64, limit: u64 },
    #[error("cannot read what is to be uploaded to {path}")]
    Source { path: String, source: std::io::Error },
    #[error("cannot write the body of {method} {path}")]
    Write { method: String, path: String, source: serde_json::Error },
    #[error(
        "'{url}' is not below {endpoint}: a service handed out a foreign address, and no token goes there"
    )]
    Foreign { url: String, endpoint: String },
    #[error("{0} is not a URL")]
    Url(String),
    #[error("operation on {path} failed: {}: {}", .detail.code, .detail.message)]
    Operation { path: String, detail: Box<ErrorDetail> },
    #[error("{path} answered 202 without saying where to ask about the operation")]
    NoPolling { path: String },
    #[error("operation on {path} is still running after {waited:?}; it can be resumed")]
    StillRunning { path: String, waited: Duration },
    #[error(
        "provider {namespace} is still '{state}' in subscription {subscription}; register it by hand: az provider register -n {namespace}"
    )]
    Registration { subscription: String, namespace: String, state: String },
    #[error("the pages of {path} lead back to themselves")]
    Pages { path: String },
    #[error("{id} is not a {kind}")]
    Kind { id: String, kind: &'static str },
    #[error(transparent)]
    Id(#[from] arm::IdError),
    #[error("the cloud cannot say where it is")]
    Host(#[from] CloudError),
}

/// A refusal of a service, with everything that support asks for.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{method} {path} was refused with {status} {}: {} (request {request_id}, correlation {correlation}, attempts {attempts})", .detail.code, .detail.message)]
pub struct Refused {
    pub status: u16,
    pub detail: ErrorDetail,
    pub method: String,
    pub path: String,
    pub request_id: String,
    pub correlation: String,
    pub retry_after: Option<Duration>,
    pub attempts: u32,
}

/// The most exact code there is: vaults say `Forbidden` and why in the inner error.
pub fn exact(detail: &ErrorDetail) -> &str {
    let inner = detail.other.get("innererror").and_then(|i| i.get("code")).and_then(|c| c.as_str());
    inner.filter(|_| detail.code == "Forbidden").unwrap_or(&detail.code)
}

/// What a body says went wrong. Front doors answer with HTML or nothing; that is said in words.
pub fn detail(answer: &Answer) -> ErrorDetail {
    if let Ok(body) = serde_json::from_slice::<ErrorBody>(&answer.body) {
        return body.error;
    }
    // Some providers leave the envelope off.
    if let Ok(bare) = serde_json::from_slice::<ErrorDetail>(&answer.body)
        && !bare.code.is_empty()
    {
        return bare;
    }
    let reason = answer.status.canonical_reason().unwrap_or("Unknown").replace(' ', "");
    if let Ok(said) = xml::read(&answer.body)
        && said.name == "Error"
    {
        let text = |name: &str| said.child_text(name).unwrap_or_default();
        // What follows the first line is the request's id and time, which are told elsewhere.
        return ErrorDetail::new(text("Code"), text("Message").lines().next().unwrap_or_default());
    }
    let text = String::from_utf8_lossy(&answer.body);
    let message = match text.trim() {
        "" => "the answer has no body".to_owned(),
        page if page.starts_with('<') => {
            "a page in place of an answer: the front door spoke, not the service".to_owned()
        }
        other => other.chars().take(300).collect(),
    };
    ErrorDetail::new(answer.header("x-ms-error-code").unwrap_or(&reason), message)
}

impl Error {
    pub fn refused(&self) -> Option<&Refused> {
        match self {
            Error::Refused(r) => Some(r),
            _ => None,
        }
    }

    pub fn status(&self) -> Option<u16> {
        self.refused().map(|r| r.status)
    }

    /// The most exact code: that of an inner error where a service says why there.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Error::Refused(r) => Some(exact(&r.detail)),
            _ => self.code(),
        }
    }

    /// The service's code, of a refusal or of a failed operation.
    pub fn code(&self) -> Option<&str> {
        match self {
            Error::Refused(r) => Some(&r.detail.code),
            Error::Operation { detail, .. } => Some(&detail.code),
            _ => None,
        }
    }

    pub fn has_code(&self, code: &str) -> bool {
        match self {
            Error::Refused(r) => r.detail.has_code(code),
            Error::Operation { detail, .. } => detail.has_code(code),
            _ => false,
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// The condition (`If-Match`, `If-None-Match`) did not hold: somebody else was there first.
    pub fn is_precondition(&self) -> bool {
        self.status() == Some(412)
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Token { source, .. } => source.is_transient(),
            Error::Send { source, .. } => source.is_transient(),
            Error::Refused(r) => matches!(r.status, 408 | 429 | 500 | 502 | 503 | 504),
            Error::StillRunning { .. } | Error::Registration { .. } => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn any_body_becomes_words() {
        let of = |status: u16, body: &'static str| {
            detail(&Answer {
                status: http::StatusCode::from_u16(status).unwrap(),
                body: Bytes::from_static(body.as_bytes()),
                ..Answer::default()
            })
        };
        assert_eq!(of(404, r#"{"error":{"code":"A","message":"m"}}"#).code, "A");
        assert_eq!(of(404, r#"{"code":"B","message":"m"}"#).code, "B");
        assert_eq!(of(503, "<html>oops</html>").code, "ServiceUnavailable");
        assert_eq!(of(503, "").message, "the answer has no body");
        assert_eq!(of(502, "{}").code, "BadGateway");
        let said = of(
            404,
            "\u{feff}<?xml version=\"1.0\"?><Error><Code>BlobNotFound</Code><Message>No.\nRequestId:1</Message></Error>",
        );
        assert_eq!((said.code.as_str(), said.message.as_str()), ("BlobNotFound", "No."));
        let vault = of(
            403,
            r#"{"error":{"code":"Forbidden","message":"m","innererror":{"code":"ForbiddenByRbac"}}}"#,
        );
        assert_eq!(exact(&vault), "ForbiddenByRbac");
    }
}
