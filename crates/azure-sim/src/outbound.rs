//! Requests that leave the simulator: to issuers of federated tokens, and to resource providers. One connection per
//! request, every wait and every size bounded.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use url::Url;

#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error("'{0}' is not a URL that can be asked")]
    Url(String),
    #[error("cannot connect to {0}")]
    Connect(String, #[source] std::io::Error),
    #[error("the request to {0} failed")]
    Http(String, #[source] hyper::Error),
    #[error("the answer of {0} was cut off or is too large")]
    Body(String),
    #[error("{0} did not answer in time")]
    Late(String),
}

/// Trusts the given authorities and no others.
#[derive(Clone)]
pub struct Outbound {
    tls: tokio_rustls::TlsConnector,
}

impl Outbound {
    pub fn new(trusted_pem: &[String]) -> Outbound {
        let mut roots = rustls::RootCertStore::empty();
        for pem in trusted_pem {
            for cert in CertificateDer::pem_slice_iter(pem.as_bytes()).flatten() {
                let _ = roots.add(cert);
            }
        }
        let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Outbound { tls: tokio_rustls::TlsConnector::from(Arc::new(config)) }
    }

    /// Sends a request to an absolute `http` or `https` URL.
    pub async fn send(
        &self,
        url: &Url,
        request: http::request::Builder,
        body: Bytes,
        patience: Duration,
        most: usize,
    ) -> Result<Response<Bytes>, OutboundError> {
        let host = url.host_str().unwrap_or_default().to_owned();
        match tokio::time::timeout(patience, self.ask(url, request, body, most)).await {
            Ok(result) => result,
            Err(_) => Err(OutboundError::Late(host)),
        }
    }

    async fn ask(
        &self,
        url: &Url,
        request: http::request::Builder,
        body: Bytes,
        most: usize,
    ) -> Result<Response<Bytes>, OutboundError> {
        let not_url = || OutboundError::Url(url.as_str().chars().take(200).collect());
        let host = url.host_str().ok_or_else(not_url)?.to_owned();
        let port = url.port_or_known_default().ok_or_else(not_url)?;
        let path = url.query().map_or_else(|| url.path().to_owned(), |q| format!("{}?{q}", url.path()));
        let authority = url.port().map_or_else(|| host.clone(), |p| format!("{host}:{p}"));
        let request =
            request.uri(path).header("host", authority).body(Full::new(body)).map_err(|_| not_url())?;
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let failed = |e| OutboundError::Connect(host.clone(), e);
        let tcp = TcpStream::connect((bare.as_str(), port)).await.map_err(failed)?;
        let _ = tcp.set_nodelay(true);
        match url.scheme() {
            "http" => exchange(tcp, request, &host, most).await,
            "https" => {
                let name = ServerName::try_from(bare).map_err(|_| not_url())?;
                let tls = self.tls.connect(name, tcp).await.map_err(failed)?;
                exchange(tls, request, &host, most).await
            }
            _ => Err(not_url()),
        }
    }
}

async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    host: &str,
    most: usize,
) -> Result<Response<Bytes>, OutboundError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let http = |e| OutboundError::Http(host.to_owned(), e);
    let (mut send, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(http)?;
    let driver = tokio::spawn(connection);
    let response = send.send_request(request).await;
    let read = async {
        let (head, body) = response.map_err(http)?.into_parts();
        let body = Limited::new(body, most).collect().await;
        let body = body.map_err(|_| OutboundError::Body(host.to_owned()))?.to_bytes();
        Ok(Response::from_parts(head, body))
    };
    let result = read.await;
    driver.abort();
    result
}
