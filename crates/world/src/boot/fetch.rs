//! Fetching a config, as Ignition does: TLS with the authorities of the stub, again after trouble.

use super::stub::Stub;
use crate::health::Dial;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsConnector;

/// A whole question.
const PATIENCE: Duration = Duration::from_secs(10);
/// No config is larger.
const LARGEST: usize = 32 << 20;

/// Why there is no config. The words go to the console: no secrets in them.
pub(super) enum Trouble {
    /// Ignition tries again.
    Again(String),
    /// Ignition gives up; the machine starts anew after a while.
    Refused(String),
}

pub(super) async fn fetch(dial: &dyn Dial, stub: &Stub) -> Result<Value, Trouble> {
    match tokio::time::timeout(PATIENCE, ask(dial, stub)).await {
        Ok(answer) => answer,
        Err(_) => Err(Trouble::Again(format!("GET {}: no answer within {PATIENCE:?}", stub.source))),
    }
}

async fn ask(dial: &dyn Dial, stub: &Stub) -> Result<Value, Trouble> {
    let said = |what: &str, why: &dyn std::fmt::Display| {
        Trouble::Again(format!("GET {}: {what}: {why}", stub.source))
    };
    let (host, port) = (stub.source.host().unwrap_or_default(), stub.source.port_u16().unwrap_or(443));
    let tcp = dial.dial(host, port).await.map_err(|e| said("cannot connect", &e))?;
    let mut roots = RootCertStore::empty();
    for c in CertificateDer::pem_slice_iter(stub.authorities.as_bytes()).flatten() {
        let _ = roots.add(c);
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(|e| said("host", &e))?;
    let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.map_err(|e| said("tls", &e))?;
    let made = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await;
    let (mut sender, connection) = made.map_err(|e| said("http", &e))?;
    let driver = tokio::spawn(connection);
    let answer = async {
        let path = stub.source.path_and_query().map_or("/", |p| p.as_str());
        let mut request = http::Request::get(path).header(http::header::HOST, host);
        if let Some(headers) = request.headers_mut() {
            headers.extend(stub.headers.clone());
            let kind = "application/vnd.coreos.ignition+json;version=3.2.0, */*;q=0.1";
            headers.insert(http::header::ACCEPT, http::HeaderValue::from_static(kind));
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|e| said("http", &e))?;
        let answer = sender.send_request(request).await.map_err(|e| said("http", &e))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LARGEST).collect().await;
        let body = body.map_err(|e| said("body", &e))?.to_bytes();
        match status.as_u16() {
            200..=299 => serde_json::from_slice(&body).map_err(|_| said("body", &"it is not JSON")),
            500.. => Err(said("GET result", &status)),
            _ => Err(Trouble::Refused(format!("GET {}: GET result: {status}", stub.source))),
        }
    }
    .await;
    driver.abort();
    answer
}
