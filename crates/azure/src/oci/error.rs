//! Why an image could not be had.

use super::{Digest, DigestError};
use crate::HttpError;
use crate::credential::CredentialError;

#[derive(Debug, thiserror::Error)]
pub enum OciError {
    #[error("cannot send {method} {url}, tried {attempts} times")]
    Send { method: String, url: String, attempts: u32, source: HttpError },
    #[error("{method} {url} was refused with {status} {code}: {message}")]
    Refused { method: String, url: String, status: u16, code: String, message: String },
    #[error("{host} wants to know who asks, and refused {who}")]
    Unauthorized { host: String, who: String },
    #[error("{host} asks for a token in a way that is not known or not safe: {why}")]
    Challenge { host: String, why: &'static str },
    #[error("cannot get a token of Entra ID for {host}")]
    Credential { host: String, source: CredentialError },
    #[error("the answer of {url} cannot be read")]
    Read { url: String, source: serde_json::Error },
    #[error("{url} answered without {what}")]
    Lacks { url: String, what: &'static str },
    #[error("{url} leads to {to}, where nothing of ours may be sent")]
    Foreign { url: String, to: String },
    #[error("{url} is redirected more than {0} times", super::exchange::REDIRECTS)]
    Redirects { url: String },
    #[error("{what} has {size} bytes, more than the {limit} that were allowed for")]
    TooLong { what: String, size: u64, limit: u64 },
    #[error("{what} has {got} bytes; its descriptor says {want}")]
    Size { what: String, got: u64, want: u64 },
    #[error("{what} has the digest {got}; it should have {want}")]
    Corrupt { what: String, got: Digest, want: Digest },
    #[error(transparent)]
    Digest(#[from] DigestError),
    #[error("{what} is a {media}, which is neither an image nor an index of images")]
    Media { what: String, media: String },
    #[error("{what} has no image for {platform}; there is {have}")]
    Platform { what: String, platform: String, have: String },
    #[error("cannot write {what}")]
    Write { what: String, source: std::io::Error },
    #[error("cannot read what is to be pushed")]
    Source(#[source] std::io::Error),
    #[error("{0}")]
    Everywhere(Everywhere),
}

/// All places that were tried, with what each said.
#[derive(Debug)]
pub struct Everywhere {
    pub what: String,
    pub tried: Vec<(String, OciError)>,
}

impl std::fmt::Display for Everywhere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is nowhere to be had", self.what)?;
        for (place, e) in &self.tried {
            write!(f, "; {place}: {e}")?;
        }
        Ok(())
    }
}

impl OciError {
    pub fn status(&self) -> Option<u16> {
        match self {
            OciError::Refused { status, .. } => Some(*status),
            OciError::Unauthorized { .. } => Some(401),
            OciError::Everywhere(e) => e.tried.last().and_then(|(_, e)| e.status()),
            _ => None,
        }
    }

    /// The registry's code, such as `MANIFEST_UNKNOWN`.
    pub fn code(&self) -> Option<&str> {
        match self {
            OciError::Refused { code, .. } => Some(code),
            OciError::Everywhere(e) => e.tried.last().and_then(|(_, e)| e.code()),
            _ => None,
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Whether another place may do better. What was refused as wrong, or is corrupt there, may be right elsewhere.
    pub(super) fn elsewhere(&self) -> bool {
        !matches!(self, OciError::Write { .. } | OciError::Source(_) | OciError::TooLong { .. })
    }
}
