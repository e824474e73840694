//! Responses: one body type for whole answers and streams.

use super::negotiate::Encoding;
use bytes::Bytes;
use ek_meta::Status;
use futures::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use serde_json::Value;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

type Chunks = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// A response body: known bytes, or chunks as they come.
pub enum Body {
    Full(Option<Bytes>),
    Stream(Chunks),
}

impl Body {
    pub fn empty() -> Body {
        Body::Full(None)
    }

    pub fn full(b: impl Into<Bytes>) -> Body {
        Body::Full(Some(b.into()))
    }

    pub fn stream(s: impl Stream<Item = Bytes> + Send + 'static) -> Body {
        Body::Stream(Box::pin(s))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Body::Full(b) => Poll::Ready(b.take().filter(|b| !b.is_empty()).map(|b| Ok(Frame::data(b)))),
            Body::Stream(s) => s.as_mut().poll_next(cx).map(|c| c.map(|b| Ok(Frame::data(b)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(b) => SizeHint::with_exact(b.as_ref().map_or(0, |b| b.len() as u64)),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}

pub type Reply = Response<Body>;

fn with_type(code: u16, content_type: &'static str, body: Body) -> Reply {
    let mut r = Response::new(body);
    *r.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    r.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    r.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    r
}

/// JSON bytes, turned into what the client asked for.
pub fn bytes(code: u16, encoding: Encoding, json: Bytes) -> Reply {
    match encoding {
        Encoding::Json => with_type(code, "application/json", Body::full(json)),
        Encoding::Yaml => match serde_json::from_slice::<Value>(&json).ok().and_then(|v| to_yaml(&v)) {
            Some(y) => with_type(code, "application/yaml", Body::full(y)),
            None => with_type(code, "application/json", Body::full(json)),
        },
        Encoding::Protobuf => {
            let value = serde_json::from_slice::<Value>(&json).ok();
            match value.and_then(|v| ek_proto::encode(&v).ok()) {
                Some(p) => with_type(code, ek_proto::MEDIA_TYPE, Body::full(p)),
                None => with_type(code, "application/json", Body::full(json)),
            }
        }
    }
}

fn to_yaml(v: &Value) -> Option<String> {
    serde_saphyr::to_string(v).ok()
}

pub fn json(code: u16, v: &Value) -> Reply {
    with_type(code, "application/json", Body::full(v.to_string()))
}

pub fn value(code: u16, encoding: Encoding, v: &Value) -> Reply {
    bytes(code, encoding, Bytes::from(v.to_string()))
}

pub fn text(code: u16, body: impl Into<Bytes>) -> Reply {
    let mut r = with_type(code, "text/plain; charset=utf-8", Body::full(body));
    r.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    r
}

pub fn stream(content_type: &'static str, s: impl Stream<Item = Bytes> + Send + 'static) -> Reply {
    with_type(200, content_type, Body::stream(s))
}

pub fn status(s: &Status) -> Reply {
    let body = serde_json::to_vec(s).unwrap_or_default();
    let mut r = with_type(s.code, "application/json", Body::full(body));
    if let Some(n) = s.details.as_ref().and_then(|d| d.retry_after_seconds) {
        r.headers_mut().insert(RETRY_AFTER, HeaderValue::from(n));
    }
    if s.code == 401 {
        r.headers_mut().insert("www-authenticate", HeaderValue::from_static("Bearer realm=\"kubernetes\""));
    }
    r
}

/// Makes a whole JSON answer readable; streams and other formats stay as they are.
pub fn indent(r: &mut Reply) {
    let json = r.headers().get(CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"application/json"));
    if let Body::Full(Some(b)) = r.body_mut()
        && json
        && let Ok(v) = serde_json::from_slice::<Value>(b)
        && let Ok(text) = serde_json::to_vec_pretty(&v)
    {
        *b = text.into();
    }
}

/// Total size of warnings on one response; the rest is cut, as clients bound header size.
const MAX_WARNINGS: usize = 4 << 10;

/// Adds `Warning: 299 - "…"` headers.
pub fn add_warnings(r: &mut Reply, warnings: &[String]) {
    let mut size = 0;
    for w in warnings {
        let mut clean: String = w.chars().map(|c| if c.is_control() { ' ' } else { c }).take(1024).collect();
        clean = clean.replace('\\', "\\\\").replace('"', "\\\"");
        size += clean.len();
        if size > MAX_WARNINGS {
            break;
        }
        if let Ok(v) = HeaderValue::from_bytes(format!("299 - \"{clean}\"").as_bytes()) {
            r.headers_mut().append(WARNING, v);
        }
    }
}
