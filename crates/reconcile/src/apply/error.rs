//! What can go wrong when objects are written, said with the object's name and the API's reason.

use crate::kind::{self, ObjectRef};
use crate::wait::bounded;
use std::fmt;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot tell which object a manifest is")]
    Manifest(#[source] kind::Error),
    #[error("cannot {verb} {object}")]
    Request { verb: &'static str, object: Box<ObjectRef>, source: Cause },
    #[error("cannot list {kind} objects with {selector}")]
    List { kind: String, selector: String, source: Cause },
    #[error("{object} changed under each of {tries} tries to {verb} it; will try again later")]
    Contended { verb: &'static str, object: Box<ObjectRef>, tries: usize },
    #[error(
        "will not prune with owner label {label:?}: a label and a value are needed to tell ours from others'"
    )]
    Unmarked { label: String },
    #[error(
        "will not prune everything of {owner}: nothing is desired, which is more often a mistake than a wish; say Prune::all"
    )]
    NothingDesired { owner: String },
    #[error(
        "will not prune {found} objects of {owner}, more than {most}: raise Prune::at_most if this is meant"
    )]
    TooMany { owner: String, found: usize, most: usize },
}

impl Error {
    /// The API's reason (`Conflict`, `Invalid`, …), if it gave one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Error::Request { source, .. } | Error::List { source, .. } => source.reason(),
            Error::Contended { .. } => Some("Conflict"),
            Error::Manifest(_)
            | Error::Unmarked { .. }
            | Error::NothingDesired { .. }
            | Error::TooMany { .. } => None,
        }
    }

    pub fn code(&self) -> Option<u16> {
        match self {
            Error::Request { source: Cause::Api { code, .. }, .. }
            | Error::List { source: Cause::Api { code, .. }, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the same request may succeed later without anybody changing anything: the server was busy, away or
    /// overtaken.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Contended { .. } => true,
            Error::Request { source, .. } | Error::List { source, .. } => match source {
                Cause::Transport(_) => true,
                Cause::Api { code, .. } => matches!(code, 409 | 429 | 500..=599),
            },
            _ => false,
        }
    }
}

/// What the server, or the way to it, had against a request.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    #[error("{reason} ({code}){}", colon(message))]
    Api {
        code: u16,
        reason: String,
        message: String,
        /// What exists cannot be changed into what is desired. The API says so at the end of a message that repeats the
        /// whole field first.
        immutable: bool,
    },
    #[error("no answer from the API server")]
    Transport(#[source] kube::Error),
}

fn colon(message: &str) -> impl fmt::Display + '_ {
    struct Colon<'a>(&'a str);
    impl fmt::Display for Colon<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
        }
    }
    Colon(message)
}

impl Cause {
    const LONGEST: usize = 1024;

    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Cause::Api { reason, .. } => Some(reason),
            Cause::Transport(_) => None,
        }
    }

    pub(crate) fn is_immutable(&self) -> bool {
        matches!(self, Cause::Api { immutable: true, .. })
    }
}

impl From<kube::Error> for Cause {
    fn from(e: kube::Error) -> Cause {
        match e {
            kube::Error::Api(s) => {
                let reason = if s.reason.is_empty() { "Unknown".to_owned() } else { s.reason };
                let immutable = s.code == 422 && s.message.contains("field is immutable");
                Cause::Api { code: s.code, reason, message: bounded(s.message, Cause::LONGEST), immutable }
            }
            other => Cause::Transport(other),
        }
    }
}

pub(crate) fn request(verb: &'static str, object: &ObjectRef) -> impl FnOnce(kube::Error) -> Error + use<> {
    let object = Box::new(object.clone());
    move |e| {
        let mut source = Cause::from(e);
        // Validation repeats the value it does not like.
        if object.kind.is("", "Secret")
            && let Cause::Api { message, .. } = &mut source
            && message.contains("nvalid value")
        {
            *message = "message withheld: it may quote the secret".to_owned();
        }
        Error::Request { verb, object, source }
    }
}
