//! Connections that are opened and then left alone must not be kept.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::{ApiServer, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Far above the bound, far below anybody's patience.
const SOON: Duration = Duration::from_secs(5);

/// Waits until the server hangs up.
async fn closed(mut stream: impl AsyncRead + Unpin) {
    let mut rest = Vec::new();
    let end = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await;
    assert!(end.is_ok(), "the connection is still open, with {} bytes from the server", rest.len());
}

async fn serve() -> (ApiServer, super::Listening) {
    let server = ApiServer::start(Config::memory()).await.unwrap();
    let listening = server.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    (server, listening)
}

#[tokio::test]
async fn half_a_handshake_is_closed() {
    let (server, listening) = serve().await;
    let mut silent = TcpStream::connect(listening.address).await.unwrap();
    closed(&mut silent).await;
    let mut half = TcpStream::connect(listening.address).await.unwrap();
    // The start of a ClientHello: a record of 512 bytes of which none comes.
    half.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00]).await.unwrap();
    closed(&mut half).await;
    listening.drain().await;
    server.stop().await;
}

#[tokio::test]
async fn slow_headers_are_closed() {
    let (server, listening) = serve().await;
    let mut roots = rustls::RootCertStore::empty();
    let ca = server.ca_pem();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let tcp = TcpStream::connect(listening.address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let mut tls = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
    tls.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\nX-Slow").await.unwrap();
    tls.flush().await.unwrap();
    closed(&mut tls).await;
    listening.drain().await;
    server.stop().await;
}
