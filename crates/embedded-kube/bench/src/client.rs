//! A client that costs little: HTTP/1.1 over TLS, one connection, prepared bodies.

use anyhow::Context;
use base64::Engine;
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;

/// How to reach a server as its administrator.
#[derive(Clone)]
pub struct Access {
    address: SocketAddr,
    tls: Arc<rustls::ClientConfig>,
}

impl Access {
    pub fn new(address: SocketAddr, ca: &str, cert: &str, key: &str) -> anyhow::Result<Access> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes())?)?;
        let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(
            vec![CertificateDer::from_pem_slice(cert.as_bytes())?],
            PrivateKeyDer::from_pem_slice(key.as_bytes())?,
        )?;
        Ok(Access { address, tls: Arc::new(tls) })
    }

    pub fn from_kubeconfig(path: &Path) -> anyhow::Result<Access> {
        let text = std::fs::read_to_string(path)?;
        let v: Value = serde_saphyr::from_str(&text)?;
        let decode = |p: &str| -> anyhow::Result<String> {
            let b =
                v.pointer(p).and_then(Value::as_str).with_context(|| format!("no {p} in the kubeconfig"))?;
            Ok(String::from_utf8(base64::engine::general_purpose::STANDARD.decode(b)?)?)
        };
        let url = v.pointer("/clusters/0/cluster/server").and_then(Value::as_str).context("no server")?;
        Access::new(
            url.trim_start_matches("https://").parse()?,
            &decode("/clusters/0/cluster/certificate-authority-data")?,
            &decode("/users/0/user/client-certificate-data")?,
            &decode("/users/0/user/client-key-data")?,
        )
    }

    pub async fn connect(&self) -> anyhow::Result<Client> {
        let tcp = TcpStream::connect(self.address).await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::from(self.address.ip());
        let tls = tokio_rustls::TlsConnector::from(self.tls.clone()).connect(name, tcp).await?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
        tokio::spawn(connection);
        Ok(Client { sender })
    }
}

pub struct Client {
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    pub async fn stream(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> anyhow::Result<(u16, Incoming)> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, content_type)
            .header(header::USER_AGENT, "kube-bench/1")
            .body(Full::new(body))?;
        self.sender.ready().await?;
        let r = self.sender.send_request(request).await?;
        Ok((r.status().as_u16(), r.into_body()))
    }

    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> anyhow::Result<(u16, Bytes)> {
        let (code, body) = self.stream(method, path, content_type, body).await?;
        Ok((code, body.collect().await?.to_bytes()))
    }

    pub async fn get(&mut self, path: &str) -> anyhow::Result<(u16, Bytes)> {
        self.send(Method::GET, path, "application/json", Bytes::new()).await
    }
}
