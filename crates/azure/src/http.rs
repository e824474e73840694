//! One HTTP client for everything: pooled, rustls on aws-lc-rs, through a proxy where one is set.
//!
//! It sends once and reads a bounded body. It does not retry, follow redirects (Resource Manager has none, and a
//! redirect would carry a token elsewhere) or know about tokens.
//!
//! Rejected: `reqwest`, which would bring a second configuration of the stack that kube already links, and hides
//! whether a request was ever sent, which is what retrying depends on.

use crate::{Env, Secret};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tower::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("cannot read the certificates in {path} (SSL_CERT_FILE)")]
    Roots { path: PathBuf, source: BoxError },
    #[error("no certificate authority is trusted: set SSL_CERT_FILE to a PEM bundle")]
    NoRoots,
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    #[error("'{0}' (HTTPS_PROXY) is not an http:// URL")]
    Proxy(String),
    #[error("cannot connect to {host}")]
    Connect { host: String, source: BoxError },
    #[error(
        "{host} has a certificate that is not trusted; if it should be, add its authority to SSL_CERT_FILE"
    )]
    Untrusted { host: String, source: BoxError },
    #[error("{host} did not answer within {after:?}")]
    Timeout { host: String, after: Duration },
    #[error("the connection to {host} broke before the answer was complete")]
    Lost { host: String, source: BoxError },
    #[error("the answer of {host} is larger than {limit} bytes")]
    TooLarge { host: String, limit: usize },
}

impl HttpError {
    /// Whether the server cannot have seen the request.
    pub fn never_sent(&self) -> bool {
        matches!(self, HttpError::Connect { .. } | HttpError::Untrusted { .. })
    }

    /// Whether asking again may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, HttpError::Connect { .. } | HttpError::Timeout { .. } | HttpError::Lost { .. })
    }
}

/// How to reach the network.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// A PEM bundle that replaces the machine's roots.
    pub roots_file: Option<PathBuf>,
    /// Further authorities (PEM).
    pub extra_roots: Vec<String>,
    /// May hold a password.
    pub https_proxy: Option<Secret>,
    pub no_proxy: Option<String>,
    pub connect_timeout: Duration,
    /// For a whole exchange.
    pub timeout: Duration,
    /// Largest answer that is read. Azure's own pages stay below it by far.
    pub max_body: usize,
}

impl Default for HttpOptions {
    fn default() -> HttpOptions {
        HttpOptions {
            roots_file: None,
            extra_roots: Vec::new(),
            https_proxy: None,
            no_proxy: None,
            connect_timeout: Duration::from_secs(15),
            timeout: Duration::from_secs(100),
            max_body: 32 << 20,
        }
    }
}

impl HttpOptions {
    /// Honours `HTTPS_PROXY`, `NO_PROXY` and `SSL_CERT_FILE`.
    pub fn from_env(env: &Env) -> HttpOptions {
        let text = |names: &[&str]| env.any(names).map(str::to_owned);
        HttpOptions {
            roots_file: env.get("SSL_CERT_FILE").map(PathBuf::from),
            https_proxy: text(&["HTTPS_PROXY", "https_proxy"]).map(Secret::new),
            no_proxy: text(&["NO_PROXY", "no_proxy"]),
            ..HttpOptions::default()
        }
    }
}

/// What came back.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }

    /// The body, if it is JSON; front doors also answer with HTML or nothing.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

#[derive(Clone)]
pub struct Http {
    client: Client<HttpsConnector<Route>, Full<Bytes>>,
    timeout: Duration,
    max_body: usize,
}

fn host(uri: &Uri) -> String {
    uri.host().unwrap_or_default().to_owned()
}

impl Http {
    pub fn new(options: &HttpOptions) -> Result<Http, HttpError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(HttpError::Tls)?
            .with_root_certificates(roots(options)?)
            .with_no_client_auth();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(options.connect_timeout));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .enable_http2()
            .wrap_connector(Route { tcp, proxy: proxy(options)? });
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .build(connector);
        Ok(Http { client, timeout: options.timeout, max_body: options.max_body })
    }

    /// The same connections with another time limit; probing for a metadata server must not take minutes.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Http {
        Http { timeout, ..self.clone() }
    }

    pub async fn send(&self, request: Request<Bytes>) -> Result<Answer, HttpError> {
        let at = host(request.uri());
        match tokio::time::timeout(self.timeout, self.exchange(request)).await {
            Ok(done) => done,
            Err(_) => Err(HttpError::Timeout { host: at, after: self.timeout }),
        }
    }

    /// Sends and returns as soon as the answer begins. The time limit is for the head, and then for each part.
    pub async fn open(&self, request: Request<Bytes>) -> Result<Arriving, HttpError> {
        let at = host(request.uri());
        let head = tokio::time::timeout(self.timeout, self.head(request)).await;
        let response = head.map_err(|_| HttpError::Timeout { host: at.clone(), after: self.timeout })??;
        let (head, body) = response.into_parts();
        Ok(Arriving { status: head.status, headers: head.headers, body, host: at, timeout: self.timeout })
    }

    async fn head(&self, request: Request<Bytes>) -> Result<http::Response<Incoming>, HttpError> {
        let at = host(request.uri());
        self.client.request(request.map(Full::new)).await.map_err(|e| {
            let (connect, untrusted) = (e.is_connect(), untrusted(&e));
            let (host, source) = (at, e.into());
            match (connect, untrusted) {
                (true, true) => HttpError::Untrusted { host, source },
                (true, false) => HttpError::Connect { host, source },
                (false, _) => HttpError::Lost { host, source },
            }
        })
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Answer, HttpError> {
        let at = host(request.uri());
        let (head, body) = self.head(request).await?.into_parts();
        let body = Limited::new(body, self.max_body).collect().await.map_err(|source| {
            if source.is::<LengthLimitError>() {
                return HttpError::TooLarge { host: at.clone(), limit: self.max_body };
            }
            HttpError::Lost { host: at.clone(), source }
        })?;
        Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
    }
}

/// An answer whose body is still under way.
#[derive(Debug)]
pub struct Arriving {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
    host: String,
    timeout: Duration,
}

impl Arriving {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }

    /// The next bytes; `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let frame = tokio::time::timeout(self.timeout, self.body.frame()).await;
            let frame =
                frame.map_err(|_| HttpError::Timeout { host: self.host.clone(), after: self.timeout })?;
            match frame {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(e)) => {
                    return Err(HttpError::Lost { host: self.host.clone(), source: e.into() });
                }
            }
        }
    }

    /// All of it, if it is not longer than the limit.
    pub async fn whole(mut self, limit: usize) -> Result<Bytes, HttpError> {
        let mut all = bytes::BytesMut::new();
        while let Some(part) = self.chunk().await? {
            if all.len() + part.len() > limit {
                return Err(HttpError::TooLarge { host: self.host, limit });
            }
            all.extend_from_slice(&part);
        }
        Ok(all.freeze())
    }
}

/// Whether a certificate was refused: it will be again, so nobody should wait for it.
fn untrusted(e: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(inner) = e.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
        return untrusted(inner);
    }
    matches!(e.downcast_ref::<rustls::Error>(), Some(rustls::Error::InvalidCertificate(_)))
        || e.source().is_some_and(untrusted)
}

fn roots(options: &HttpOptions) -> Result<RootCertStore, HttpError> {
    let mut store = RootCertStore::empty();
    match &options.roots_file {
        Some(path) => {
            let failed = |source: BoxError| HttpError::Roots { path: path.clone(), source };
            let text = std::fs::read(path).map_err(|e| failed(e.into()))?;
            for cert in CertificateDer::pem_slice_iter(&text) {
                let cert = cert.map_err(|e| failed(e.into()))?;
                store.add(cert).map_err(|e| failed(e.into()))?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            store.add_parsable_certificates(found.certs);
        }
    }
    for pem in &options.extra_roots {
        let certs = CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok);
        store.add_parsable_certificates(certs);
    }
    if store.is_empty() {
        return Err(HttpError::NoRoots);
    }
    Ok(store)
}

fn proxy(options: &HttpOptions) -> Result<Option<Arc<Matcher>>, HttpError> {
    let Some(url) = options.https_proxy.as_ref().map(Secret::expose) else { return Ok(None) };
    if !url.starts_with("http://") {
        // What precedes '@' is a password.
        return Err(HttpError::Proxy(url.rsplit('@').next().unwrap_or_default().to_owned()));
    }
    let no = options.no_proxy.clone().unwrap_or_default();
    Ok(Some(Arc::new(Matcher::builder().https(url.to_owned()).no(no).build())))
}

/// Opens connections: through the proxy for https if one is set, else directly. Plain http goes only to metadata
/// endpoints of this machine, which no proxy can reach.
#[derive(Clone)]
struct Route {
    tcp: HttpConnector,
    proxy: Option<Arc<Matcher>>,
}

impl Service<Uri> for Route {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        match self.proxy.as_ref().and_then(|p| p.intercept(&uri)) {
            Some(via) => {
                let mut tunnel = Tunnel::new(via.uri().clone(), self.tcp.clone());
                if let Some(auth) = via.basic_auth() {
                    tunnel = tunnel.with_auth(auth.clone());
                }
                Box::pin(async move { tunnel.call(uri).await.map_err(Into::into) })
            }
            None => {
                let connecting = self.tcp.call(uri);
                Box::pin(async move { connecting.await.map_err(Into::into) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_proxies_stay_hidden() {
        let env = |url: &str| HttpOptions::from_env(&Env::new([("HTTPS_PROXY", url)]));
        let options = env("http://me:hunter2@proxy:3128");
        assert!(!format!("{options:?}").contains("hunter2"));
        assert!(proxy(&options).unwrap().is_some());
        let wrong = proxy(&env("socks5://me:hunter2@proxy:1")).err().unwrap().to_string();
        assert!(wrong.contains("proxy:1") && !wrong.contains("hunter2"), "{wrong}");
    }

    #[test]
    fn roots_must_be_there_and_readable() {
        let missing = HttpOptions { roots_file: Some("/nowhere/ca.pem".into()), ..HttpOptions::default() };
        assert!(matches!(Http::new(&missing), Err(HttpError::Roots { .. })));
        let empty = tempfile::NamedTempFile::new().unwrap();
        let empty = HttpOptions { roots_file: Some(empty.path().to_owned()), ..HttpOptions::default() };
        assert!(matches!(Http::new(&empty), Err(HttpError::NoRoots)));
    }
}
