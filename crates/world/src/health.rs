//! Whether an API answers where it is published, asked as a client asks: TLS with the cluster's own authority.

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A whole question, handshake included.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connects to a published host.
pub trait Dial: Send + Sync + 'static {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<TcpStream>>;
}

/// Where names and addresses lead by themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl Dial for Direct {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<TcpStream>> {
        Box::pin(async move {
            let tcp = TcpStream::connect((host, port)).await?;
            tcp.set_nodelay(true)?;
            Ok(tcp)
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{host} is no name and no address")]
    Host { host: String },
    #[error("the cluster's root certificate cannot be read")]
    Authority,
    #[error("cannot connect to {host}:{port}")]
    Connect { host: String, port: u16, source: io::Error },
    #[error("cannot speak TLS with {host}:{port}")]
    Tls { host: String, port: u16, source: io::Error },
    #[error("{host}:{port} does not answer")]
    Http { host: String, port: u16, source: hyper::Error },
    #[error("{host}:{port} answers {code}: {text}")]
    Unhealthy { host: String, port: u16, code: u16, text: String },
    #[error("{host}:{port} did not answer within {PATIENCE:?}")]
    Slow { host: String, port: u16 },
}

/// Asks through a way to dial.
pub struct Health {
    dial: Arc<dyn Dial>,
}

impl Health {
    pub fn new(dial: Arc<dyn Dial>) -> Health {
        Health { dial }
    }

    /// Asks `/healthz`. `authority` is the bundle (PEM) that its certificate must come from.
    pub async fn ask(&self, host: &str, port: u16, authority: &str) -> Result<(), Error> {
        let asked = tokio::time::timeout(PATIENCE, self.once(host, port, authority)).await;
        asked.unwrap_or_else(|_| Err(Error::Slow { host: host.to_owned(), port }))
    }

    async fn once(&self, host: &str, port: u16, authority: &str) -> Result<(), Error> {
        let named = || host.to_owned();
        let name = ServerName::try_from(named()).map_err(|_| Error::Host { host: named() })?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()).flatten() {
            let _ = roots.add(certificate);
        }
        if roots.is_empty() {
            return Err(Error::Authority);
        }
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let tcp = self.dial.dial(host, port).await;
        let tcp = tcp.map_err(|source| Error::Connect { host: named(), port, source })?;
        let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
        let tls = tls.map_err(|source| Error::Tls { host: named(), port, source })?;
        let http = |source| Error::Http { host: named(), port, source };
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.map_err(http)?;
        let driver = tokio::spawn(connection);
        let mut request = http::Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = http::Uri::from_static("/healthz");
        if let Ok(value) = http::HeaderValue::from_str(host) {
            request.headers_mut().insert(http::header::HOST, value);
        }
        let answer = async {
            let answer = sender.send_request(request).await.map_err(http)?;
            let code = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), 4 << 10).collect().await;
            let text = body.map(|b| String::from_utf8_lossy(&b.to_bytes()).trim().to_owned());
            match code {
                200 => Ok(()),
                _ => Err(Error::Unhealthy { host: named(), port, code, text: text.unwrap_or_default() }),
            }
        }
        .await;
        driver.abort();
        answer
    }
}
