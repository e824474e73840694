//! Asking a registry: authorized, repeated, led on.

use super::auth::Right;
use super::challenge::Challenge;
use super::{Images, OciError};
use crate::HttpError;
use crate::http::Arriving;
use crate::pipeline::{Trouble, retry_after};
use bytes::Bytes;
use http::{HeaderValue, Method, Request};
use serde::Deserialize;
use std::time::Duration;
use url::Url;

pub const REDIRECTS: usize = 5;
/// As much of a refusal as is read.
const MAX_REFUSAL: usize = 64 << 10;

/// One request to a registry.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    pub host: &'a str,
    pub repository: &'a str,
    pub right: Right,
    pub method: Method,
    /// A path below the host, or a URL that the registry handed out.
    pub target: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
    /// Whether it may be sent twice.
    pub repeatable: bool,
}

#[derive(Deserialize)]
struct Refusals {
    errors: Vec<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl Images {
    /// Where a target of a registry is. What it hands out must be its own: our token goes there.
    pub(super) fn place(&self, host: &str, target: &str) -> Result<Url, OciError> {
        let base = self.base(host);
        let foreign = |to: &str| OciError::Foreign { url: base.clone(), to: to.chars().take(200).collect() };
        let root = Url::parse(&base).map_err(|_| foreign(host))?;
        let url = root.join(target).map_err(|_| foreign(target))?;
        match url.origin() == root.origin() && url.username().is_empty() {
            true => Ok(url),
            false => Err(foreign(&format!("{}://{}", url.scheme(), url.authority()))),
        }
    }

    /// Sends until there is an answer that more sending would not change.
    pub(super) async fn answered(
        &self,
        url: &str,
        repeatable: bool,
        request: impl Fn() -> Result<Request<Bytes>, OciError>,
    ) -> Result<Arriving, OciError> {
        let (mut made, mut waited) = (0, Duration::ZERO);
        loop {
            made += 1;
            let request = request()?;
            let method = request.method().to_string();
            let (trouble, outcome) = match self.http.open(request).await {
                Ok(answer) => {
                    let status = answer.status.as_u16();
                    let said = retry_after(&answer.headers, self.timing.clock.now());
                    (Trouble::Answered { status, code: String::new(), said }, Ok(answer))
                }
                Err(source) => {
                    let trouble = match &source {
                        HttpError::Connect { .. } => Trouble::NeverSent,
                        e if e.is_transient() => Trouble::Lost,
                        _ => Trouble::Answered { status: 0, code: String::new(), said: None },
                    };
                    (
                        trouble,
                        Err(OciError::Send {
                            method: method.clone(),
                            url: url.to_owned(),
                            attempts: made,
                            source,
                        }),
                    )
                }
            };
            match self.retry.again(made, waited, repeatable, &trouble, self.timing.chance()) {
                Some(wait) => {
                    tracing::debug!(method, url, attempt = made, ?wait, ?trouble, "asking a registry again");
                    self.timing.pause.pause(wait).await;
                    waited += wait;
                }
                None => return outcome,
            }
        }
    }

    /// The answer, if it is a good one.
    pub(super) async fn good(&self, method: &str, url: &str, answer: Arriving) -> Result<Arriving, OciError> {
        if answer.status.is_success() {
            return Ok(answer);
        }
        let status = answer.status;
        let body = answer.whole(MAX_REFUSAL).await.unwrap_or_default();
        let said = serde_json::from_slice::<Refusals>(&body).ok().and_then(|r| r.errors.into_iter().next());
        let reason = || status.canonical_reason().unwrap_or("Unknown").to_owned();
        let (code, message) = match said {
            Some(r) => (r.code, r.message),
            None => (reason(), "the answer does not say why".to_owned()),
        };
        let (method, url) = (method.to_owned(), url.to_owned());
        Err(OciError::Refused { method, url, status: status.as_u16(), code, message })
    }

    /// Asks, answers a challenge once, and goes where a redirect leads.
    pub(super) async fn ask(&self, ask: &Ask<'_>) -> Result<Arriving, OciError> {
        let root = self.place(ask.host, &ask.target)?;
        let (mut url, mut challenged) = (root.clone(), false);
        let mut auth = self.known(ask.host, ask.repository, ask.right);
        for _ in 0..=REDIRECTS + 2 {
            // Elsewhere, nothing of ours is needed, and nobody there is to have it.
            let here = url.origin() == root.origin();
            let shown = url.as_str().split('?').next().unwrap_or_default().to_owned();
            let request = || build(ask, &url, auth.as_ref().filter(|_| here));
            let answer = self.answered(&shown, ask.repeatable, request).await?;
            match answer.status.as_u16() {
                // What was granted before is refused now: who asks without it is told what is wanted.
                401 if here && !challenged && auth.take().is_some() => {
                    self.forget(ask.host, ask.repository, ask.right);
                }
                401 if here && !challenged => {
                    challenged = true;
                    let challenge = Challenge::of(&answer.headers);
                    auth = Some(self.authorize(ask.host, ask.repository, ask.right, challenge).await?);
                }
                401 if here => return Err(self.refused(ask.host, ask.repository)),
                301 | 302 | 303 | 307 | 308 if matches!(ask.method, Method::GET | Method::HEAD) => {
                    let lacks = || OciError::Lacks { url: shown.clone(), what: "Location" };
                    let to = answer.header("location").and_then(|l| url.join(l).ok()).ok_or_else(lacks)?;
                    if to.scheme() != "https" && to.origin() != root.origin() {
                        return Err(OciError::Foreign { url: shown, to: to.origin().ascii_serialization() });
                    }
                    url = to;
                }
                _ => return self.good(ask.method.as_str(), &shown, answer).await,
            }
        }
        Err(OciError::Redirects { url: root.to_string() })
    }
}

fn build(ask: &Ask<'_>, url: &Url, auth: Option<&HeaderValue>) -> Result<Request<Bytes>, OciError> {
    let bad = || OciError::Foreign { url: ask.host.to_owned(), to: url.path().to_owned() };
    let mut builder =
        Request::builder().method(ask.method.clone()).uri(url.as_str()).header("user-agent", "zaffre");
    for (k, v) in &ask.headers {
        builder = builder.header(*k, v);
    }
    if ask.body.is_empty() && matches!(ask.method, Method::PUT | Method::POST | Method::PATCH) {
        builder = builder.header("content-length", "0");
    }
    let mut request = builder.body(ask.body.clone()).map_err(|_| bad())?;
    if let Some(a) = auth {
        request.headers_mut().insert("authorization", a.clone());
    }
    Ok(request)
}
