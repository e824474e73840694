//! Fetching what an issuer publishes.

use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use serde_json::Value;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("'{0}' is not an https URL")]
    Url(String),
    #[error("cannot connect to {0}")]
    Connect(String, #[source] std::io::Error),
    #[error("the request to {0} failed")]
    Http(String, #[source] hyper::Error),
    #[error("{url} answered {status}")]
    Status { url: String, status: u16 },
    #[error("{0} did not answer with a small JSON document")]
    Body(String),
    #[error("{0} did not answer in time")]
    Late(String),
}

/// Where discovery documents and keys come from.
pub trait Issuers: Send + Sync {
    fn get<'a>(
        &'a self,
        url: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Value, FetchError>> + Send + 'a>>;
}

const PATIENCE: Duration = Duration::from_secs(5);
const MAX_BODY: usize = 256 << 10;

/// Over HTTPS, trusting the given authorities.
pub struct HttpsIssuers {
    tls: tokio_rustls::TlsConnector,
}

impl HttpsIssuers {
    pub fn new(trusted_pem: &[String]) -> HttpsIssuers {
        let mut roots = rustls::RootCertStore::empty();
        for pem in trusted_pem {
            for cert in CertificateDer::pem_slice_iter(pem.as_bytes()).flatten() {
                let _ = roots.add(cert);
            }
        }
        let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        HttpsIssuers { tls: tokio_rustls::TlsConnector::from(Arc::new(config)) }
    }

    async fn fetch(&self, text: &str) -> Result<Value, FetchError> {
        let not_url = || FetchError::Url(text.chars().take(200).collect());
        let url = url::Url::parse(text).map_err(|_| not_url())?;
        let host = url.host_str().filter(|_| url.scheme() == "https").ok_or_else(not_url)?.to_owned();
        let port = url.port_or_known_default().unwrap_or(443);
        let failed = |e| FetchError::Connect(host.clone(), e);
        let tcp = tokio::net::TcpStream::connect((host.as_str(), port)).await.map_err(failed)?;
        let name = ServerName::try_from(host.clone()).map_err(|_| not_url())?;
        let tls = self.tls.connect(name, tcp).await.map_err(failed)?;
        let http = |e| FetchError::Http(host.clone(), e);
        let (mut send, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.map_err(http)?;
        let driver = tokio::spawn(connection);
        let path = url.query().map_or_else(|| url.path().to_owned(), |q| format!("{}?{q}", url.path()));
        let authority = if port == 443 { host.clone() } else { format!("{host}:{port}") };
        let request = http::Request::get(path).header("host", authority).header("accept", "application/json");
        let request = request.body(Empty::<bytes::Bytes>::new()).map_err(|_| not_url())?;
        let response = send.send_request(request).await.map_err(http)?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(FetchError::Status { url: text.to_owned(), status });
        }
        let unusable = || FetchError::Body(text.to_owned());
        let body =
            Limited::new(response.into_body(), MAX_BODY).collect().await.map_err(|_| unusable())?.to_bytes();
        driver.abort();
        serde_json::from_slice(&body).map_err(|_| unusable())
    }
}

impl Issuers for HttpsIssuers {
    fn get<'a>(
        &'a self,
        url: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Value, FetchError>> + Send + 'a>> {
        Box::pin(async move {
            match tokio::time::timeout(PATIENCE, self.fetch(url)).await {
                Ok(r) => r,
                Err(_) => Err(FetchError::Late(url.to_owned())),
            }
        })
    }
}
