//! The one HTTPS client of the server: webhooks and issuers. One request, one connection, bounded.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::net::TcpStream;

/// No answer may be larger.
const MAX_ANSWER: usize = 8 << 20;

pub struct Target {
    pub host: String,
    pub port: u16,
    pub path: String,
    /// Where to connect, when that is not what the name resolves to.
    pub address: Option<SocketAddr>,
}

impl Target {
    pub fn parse(url: &str) -> Result<Target, String> {
        let u = url::Url::parse(url).map_err(|e| format!("url {url:?}: {e}"))?;
        if u.scheme() != "https" {
            return Err(format!("url {url}: the scheme must be https"));
        }
        let host = u.host_str().ok_or("the url has no host")?.trim_matches(['[', ']']).to_owned();
        let path = match u.query() {
            Some(q) => format!("{}?{q}", u.path()),
            None => u.path().to_owned(),
        };
        Ok(Target { host, port: u.port().unwrap_or(443), path, address: None })
    }
}

/// Trusts exactly the certificates of a PEM bundle.
pub fn trust(pem: &[u8]) -> Result<rustls::RootCertStore, String> {
    let mut roots = rustls::RootCertStore::empty();
    for cert in CertificateDer::pem_slice_iter(pem) {
        let cert = cert.map_err(|e| format!("certificate bundle: {e}"))?;
        roots.add(cert).map_err(|e| format!("certificate bundle: {e}"))?;
    }
    Ok(roots)
}

/// Sends one request; `body` makes it a POST of JSON.
pub async fn send(
    target: &Target,
    roots: rustls::RootCertStore,
    body: Option<String>,
) -> Result<Value, String> {
    let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let tcp = match target.address {
        Some(a) => TcpStream::connect(a).await,
        None => TcpStream::connect((target.host.as_str(), target.port)).await,
    }
    .map_err(|e| format!("dial tcp {}:{}: {e}", target.host, target.port))?;
    // The request must not wait until the end of the handshake is acknowledged, which takes 40 ms.
    let _ = tcp.set_nodelay(true);
    let name =
        ServerName::try_from(target.host.clone()).map_err(|e| format!("host {:?}: {e}", target.host))?;
    let tls = tokio_rustls::TlsConnector::from(Arc::new(tls))
        .connect(name, tcp)
        .await
        .map_err(|e| format!("tls: {e}"))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.map_err(|e| e.to_string())?;
    let driver = tokio::spawn(connection);
    let builder = match &body {
        Some(_) => Request::post(&target.path).header(header::CONTENT_TYPE, "application/json"),
        None => Request::get(&target.path),
    };
    let request = builder
        .header(header::HOST, &target.host)
        .header(header::ACCEPT, "application/json")
        .body(Full::new(Bytes::from(body.unwrap_or_default())))
        .map_err(|e| e.to_string())?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
        let code = response.status();
        let body =
            Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|e| e.to_string())?;
        if !code.is_success() {
            return Err(format!("{}{} answered {code}", target.host, target.path));
        }
        serde_json::from_slice(&body.to_bytes()).map_err(|e| format!("the answer is not JSON: {e}"))
    };
    let result = answer.await;
    driver.abort();
    result
}

/// Gets a JSON document, trusting `ca` (PEM).
pub async fn get_json(url: &str, ca: Option<&str>) -> Result<Value, String> {
    let target = Target::parse(url)?;
    let roots = trust(ca.unwrap_or_default().as_bytes())?;
    if roots.is_empty() {
        return Err(format!("{url}: set certificateAuthority, no other root is trusted"));
    }
    match tokio::time::timeout(Duration::from_secs(10), send(&target, roots, None)).await {
        Ok(r) => r,
        Err(_) => Err(format!("{url}: no answer within 10s")),
    }
}

/// Accepts any certificate: for probes and proxied requests, which go to a program of this machine over loopback and
/// have no authority to check it by. Signatures are still checked, so a broken peer is noticed.
#[derive(Debug)]
struct Anyone(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Connects to a loopback port; with TLS, whatever certificate is shown there.
pub async fn connect_loopback(address: SocketAddr, tls: bool) -> std::io::Result<Box<dyn Connection>> {
    static CONFIG: LazyLock<Arc<rustls::ClientConfig>> = LazyLock::new(|| {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        // Probes of hundreds of clusters are little else than handshakes; with SHA-256 those cost less.
        let light = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
        provider.cipher_suites.retain(|s| *s != light);
        provider.cipher_suites.insert(0, light);
        let provider = Arc::new(provider);
        let config = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(rustls::DEFAULT_VERSIONS)
            .map(|c| {
                c.dangerous()
                    .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
                    .with_no_client_auth()
            });
        Arc::new(config.unwrap_or_else(|e| unreachable!("the provider has suites of both versions: {e}")))
    });
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    if !tls {
        return Ok(Box::new(tcp));
    }
    let name = ServerName::IpAddress(address.ip().into());
    let stream = tokio_rustls::TlsConnector::from(CONFIG.clone()).connect(name, tcp).await?;
    Ok(Box::new(stream))
}

/// A connection, with TLS or without.
pub trait Connection: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}

impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Connection for T {}
