//! A plain HTTPS client: what a test says is what is sent.

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use serde_json::Value;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }
}

fn connector(ca: &str) -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    for cert in CertificateDer::pem_slice_iter(ca.as_bytes()).flatten() {
        roots.add(cert).unwrap();
    }
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

async fn over<S>(
    stream: S,
    host: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> Option<Answer>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", host);
    for (k, v) in headers {
        request = request.header(*k, *v);
    }
    let answer = send.send_request(request.body(Full::new(body)).unwrap()).await.ok()?;
    let (head, body) = answer.into_parts();
    let body = body.collect().await.ok()?.to_bytes();
    Some(Answer { status: head.status.as_u16(), headers: head.headers, body })
}

/// `https` with the given authority, or `http`.
pub async fn ask(
    ca: &str,
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    try_ask(ca, method, url, headers, body).await.unwrap()
}

/// The same; `None` if the connection breaks.
pub async fn try_ask(
    ca: &str,
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Option<Answer> {
    let url = url::Url::parse(url).unwrap();
    let host = url.host_str().unwrap().to_owned();
    let port = url.port_or_known_default().unwrap();
    let tcp = TcpStream::connect((host.as_str(), port)).await.unwrap();
    let path = url.query().map_or_else(|| url.path().to_owned(), |q| format!("{}?{q}", url.path()));
    let authority = format!("{host}:{port}");
    if url.scheme() == "http" {
        return over(tcp, &authority, method, &path, headers, body.into()).await;
    }
    let tls = connector(ca).connect(ServerName::try_from(host).unwrap(), tcp).await.unwrap();
    over(tls, &authority, method, &path, headers, body.into()).await
}

/// Sends a CONNECT head as it is; the status, and the tunnel if there is one.
pub async fn connect(proxy: &str, head: &[u8]) -> (u16, TcpStream) {
    let address = proxy.trim_start_matches("http://");
    let mut tcp = TcpStream::connect(address).await.unwrap();
    tcp.write_all(head).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        match tcp.read_u8().await {
            Ok(b) => answer.push(b),
            Err(_) => break,
        }
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
    (status, tcp)
}

/// A request through the proxy to a name of Azure's.
pub async fn through(
    proxy: &str,
    ca: &str,
    host: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    try_through(proxy, ca, host, method, path, headers, body).await.unwrap()
}

/// The same; `None` if the connection breaks.
pub async fn try_through(
    proxy: &str,
    ca: &str,
    host: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Option<Answer> {
    let (status, tcp) =
        connect(proxy, format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n").as_bytes()).await;
    assert_eq!(status, 200);
    let tls = connector(ca).connect(ServerName::try_from(host.to_owned()).unwrap(), tcp).await.unwrap();
    over(tls, host, method, path, headers, body.into()).await
}
