//! Requests and answers as values, so that everything between the sockets is a function.

use arm::ErrorDetail;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::Value;

/// A request, its path decoded and its body read.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: Method,
    pub path: String,
    pub query: Vec<(String, String)>,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// `https://host[:port]` as the client wrote it: absolute URLs in answers start with it.
    pub base: String,
}

impl Call {
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(k, _)| k.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }

    /// The body as JSON; an absent one is `None`.
    pub fn json(&self) -> Result<Option<Value>, Fault> {
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        serde_json::from_slice(&self.body).map(Some).map_err(|e| {
            let why = format!("The request content was invalid and could not be deserialized: '{e}'.");
            Fault::gateway(StatusCode::BAD_REQUEST, arm::code::INVALID_REQUEST_CONTENT, why)
        })
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Option<Value>,
    /// A body of somebody else's, as it came.
    pub raw: Option<Bytes>,
}

impl Reply {
    pub fn empty(status: StatusCode) -> Reply {
        Reply { status, headers: HeaderMap::new(), body: None, raw: None }
    }

    pub fn json(status: StatusCode, body: Value) -> Reply {
        Reply { status, headers: HeaderMap::new(), body: Some(body), raw: None }
    }

    pub fn ok(body: Value) -> Reply {
        Reply::json(StatusCode::OK, body)
    }

    pub fn with(mut self, name: &'static str, value: &str) -> Reply {
        if let Ok(v) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), v);
        }
        self
    }
}

/// Who refused: real Azure says so in `x-ms-failure-cause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Gateway,
    Service,
    Unsaid,
}

/// A refusal.
#[derive(Clone, Debug)]
pub struct Fault {
    pub status: StatusCode,
    pub cause: Cause,
    pub detail: ErrorDetail,
    pub headers: Vec<(&'static str, String)>,
}

impl Fault {
    pub fn new(status: StatusCode, cause: Cause, detail: ErrorDetail) -> Fault {
        Fault { status, cause, detail, headers: Vec::new() }
    }

    pub fn gateway(status: StatusCode, code: &str, message: impl Into<String>) -> Fault {
        Fault::new(status, Cause::Gateway, ErrorDetail::new(code, message))
    }

    /// A refusal by the provider of the type.
    pub fn service(status: StatusCode, code: &str, message: impl Into<String>) -> Fault {
        let mut detail = ErrorDetail::new(code, message);
        detail.details = Some(Vec::new());
        Fault::new(status, Cause::Unsaid, detail)
    }

    /// A refusal by a provider that sends no empty `details`.
    pub fn plain(status: StatusCode, code: &str, message: impl Into<String>) -> Fault {
        Fault::new(status, Cause::Unsaid, ErrorDetail::new(code, message))
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Fault {
        self.headers.push((name, value.into()));
        self
    }

    pub fn reply(self) -> Reply {
        let body = serde_json::to_value(arm::ErrorBody { error: self.detail }).unwrap_or_default();
        let mut reply = Reply::json(self.status, body);
        match self.cause {
            Cause::Gateway => reply = reply.with("x-ms-failure-cause", "gateway"),
            Cause::Service => reply = reply.with("x-ms-failure-cause", "service"),
            Cause::Unsaid => {}
        }
        for (name, value) in self.headers {
            reply = reply.with(name, &value);
        }
        reply
    }
}
