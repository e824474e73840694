//! TLS of programs: from files of their mounts, replaced when the files are.

use arc_swap::ArcSwap;
use bytes::Bytes;
use ek_node::ProgramContext;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Whoever is slower than this is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may be silent between two requests: longer than probes that share one are apart.
const SILENCE: Duration = Duration::from_secs(30);
/// Connections of one port; health checks and API servers need few.
const CONNECTIONS: usize = 64;
/// No file of a program is larger.
const LARGEST: u64 = 8 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{0} is under no mount of this container")]
    NoMount(String),
    #[error("cannot read {path}")]
    Read { path: String, source: io::Error },
    #[error("{path} holds no usable {what}")]
    Content { path: String, what: &'static str },
    #[error("the certificate {path} cannot be used")]
    Tls { path: String, source: rustls::Error },
}

/// An error with what caused it, for a log.
pub(crate) fn chain(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut source = e.source();
    while let Some(s) = source {
        text.push_str(&format!(": {s}"));
        source = s.source();
    }
    text
}

fn real(ctx: &ProgramContext, path: &str) -> Result<PathBuf, FileError> {
    ctx.path(path).ok_or_else(|| FileError::NoMount(path.to_owned()))
}

/// A file of the container. Blocks for as long as a small file takes.
pub(crate) fn read(ctx: &ProgramContext, path: &str) -> Result<String, FileError> {
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    let real = real(ctx, path)?;
    let size = std::fs::metadata(&real).map_err(failed)?.len();
    if size > LARGEST {
        return Err(failed(io::Error::other(format!("it has {size} bytes, more than {LARGEST}"))));
    }
    std::fs::read_to_string(real).map_err(failed)
}

fn certificates(ctx: &ProgramContext, path: &str) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let pem = read(ctx, path)?;
    let certs: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes()).flatten().collect();
    match certs.is_empty() {
        true => Err(FileError::Content { path: path.to_owned(), what: "certificate" }),
        false => Ok(certs),
    }
}

fn key(ctx: &ProgramContext, path: &str) -> Result<PrivateKeyDer<'static>, FileError> {
    let pem = read(ctx, path)?;
    PrivateKeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|_| FileError::Content { path: path.to_owned(), what: "private key" })
}

fn roots(ctx: &ProgramContext, path: &str) -> Result<Arc<RootCertStore>, FileError> {
    let mut roots = RootCertStore::empty();
    for c in certificates(ctx, path)? {
        let _ = roots.add(c);
    }
    match roots.is_empty() {
        true => Err(FileError::Content { path: path.to_owned(), what: "authority" }),
        false => Ok(Arc::new(roots)),
    }
}

/// The files of a port.
#[derive(Clone, Debug)]
pub(crate) struct ServerFiles {
    pub cert: String,
    pub key: String,
    /// Clients must show a certificate of it.
    pub client_ca: Option<String>,
}

impl ServerFiles {
    fn load(&self, ctx: &ProgramContext) -> Result<ServerConfig, FileError> {
        let builder = match &self.client_ca {
            None => ServerConfig::builder().with_no_client_auth(),
            Some(path) => {
                let verifier = WebPkiClientVerifier::builder(roots(ctx, path)?).build();
                let verifier =
                    verifier.map_err(|_| FileError::Content { path: path.clone(), what: "authority" })?;
                ServerConfig::builder().with_client_cert_verifier(verifier)
            }
        };
        let certs = certificates(ctx, &self.cert)?;
        let mut config = builder
            .with_single_cert(certs, key(ctx, &self.key)?)
            .map_err(|source| FileError::Tls { path: self.cert.clone(), source })?;
        // Sessions are not resumed: there are few, and each handshake sees the files of today.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

/// The files of a client.
#[derive(Clone, Debug)]
pub(crate) struct ClientFiles {
    pub ca: String,
    pub cert: String,
    pub key: String,
}

impl ClientFiles {
    pub(crate) fn load(&self, ctx: &ProgramContext) -> Result<Arc<ClientConfig>, FileError> {
        let config = ClientConfig::builder()
            .with_root_certificates(roots(ctx, &self.ca)?)
            .with_client_auth_cert(certificates(ctx, &self.cert)?, key(ctx, &self.key)?)
            .map_err(|source| FileError::Tls { path: self.cert.clone(), source })?;
        Ok(Arc::new(config))
    }
}

pub(crate) type Answer = Response<Full<Bytes>>;

pub(crate) fn text(code: u16, body: impl Into<Bytes>) -> Answer {
    let mut r = Response::new(Full::new(body.into()));
    *r.status_mut() = StatusCode::from_u16(code).unwrap_or_default();
    r
}

/// Asks once, with a certificate. The name is checked against the server's.
pub(crate) async fn get(
    config: Arc<ClientConfig>,
    address: SocketAddr,
    name: &str,
    path: &str,
) -> Result<(u16, Bytes), String> {
    let ask = async {
        let tcp = TcpStream::connect(address).await.map_err(|e| format!("dial tcp: {e}"))?;
        // The request must not wait until the end of the handshake is acknowledged, which takes 40 ms.
        let _ = tcp.set_nodelay(true);
        let server = ServerName::try_from(name.to_owned()).map_err(|e| format!("host {name:?}: {e}"))?;
        let tls = TlsConnector::from(config).connect(server, tcp).await.map_err(|e| format!("tls: {e}"))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.map_err(|e| e.to_string())?;
        let driver = tokio::spawn(connection);
        let request = Request::get(path).header(http::header::HOST, name).body(Full::<Bytes>::default());
        let answer = async {
            let answer = sender.send_request(request.map_err(|e| e.to_string())?).await;
            let answer = answer.map_err(|e| e.to_string())?;
            let code = answer.status().as_u16();
            let body =
                Limited::new(answer.into_body(), 64 << 10).collect().await.map_err(|e| e.to_string())?;
            Ok((code, body.to_bytes()))
        }
        .await;
        driver.abort();
        answer
    };
    match tokio::time::timeout(PATIENCE, ask).await {
        Ok(r) => r,
        Err(_) => Err("no answer in time".into()),
    }
}

/// Serves one port over TLS until the program has to stop, with the files as they are at each handshake. Files that
/// cannot be used any more leave the last good ones in place, and a line in the log.
pub(crate) async fn serve<F, R>(
    ctx: ProgramContext,
    listener: TcpListener,
    files: ServerFiles,
    answer: F,
) -> Result<(), FileError>
where
    F: Fn(Request<Incoming>) -> R + Clone + Send + 'static,
    R: Future<Output = Answer> + Send + 'static,
{
    let config = Arc::new(ArcSwap::from_pointee(files.load(&ctx)?));
    let mut changed = ctx.files();
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            () = ctx.stopping().cancelled() => return Ok(()),
            Ok(()) = changed.changed() => {
                match files.load(&ctx) {
                    Ok(new) => config.store(Arc::new(new)),
                    Err(e) => ctx.log(format!("keeping the old certificate: {}", chain(&e))),
                }
                continue;
            }
            a = listener.accept() => a,
        };
        let Ok((tcp, _)) = accepted else {
            tokio::task::yield_now().await;
            continue;
        };
        // Beyond the bound the connection is closed: whoever needs an answer tries again.
        let Ok(slot) = slots.clone().try_acquire_owned() else { continue };
        let _ = tcp.set_nodelay(true);
        let (config, answer, stop) = (config.load_full(), answer.clone(), ctx.stopping().clone());
        tokio::spawn(async move {
            let _slot = slot;
            let Ok(Ok(tls)) = tokio::time::timeout(PATIENCE, TlsAcceptor::from(config).accept(tcp)).await
            else {
                return;
            };
            let service = hyper::service::service_fn(move |req| {
                let answer = answer.clone();
                async move { Ok::<_, Infallible>(answer(req).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(SILENCE)
                .serve_connection(TokioIo::new(tls), service);
            tokio::select! {
                _ = connection => {}
                () = stop.cancelled() => {}
            }
        });
    }
}
