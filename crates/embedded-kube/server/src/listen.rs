//! The socket: TLS, HTTP/1.1 and HTTP/2, bounded patience, drained on the way out.

use crate::cluster::Cluster;
use crate::pipeline::{self, Peer};
use ek_auth::pki;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// A client that does not finish its handshake or headers by then is not waited for.
const HANDSHAKE: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 10_000 });
/// Open connections; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 8192;
/// How long requests under way may take to finish when the server stops.
const DRAIN: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}")]
    Bind { address: SocketAddr, source: std::io::Error },
    #[error("cannot issue a serving certificate")]
    Certificate(#[source] pki::Error),
    #[error("cannot use the serving certificate")]
    Tls(#[source] rustls::Error),
    #[error("cannot read a certificate we made")]
    Pem(#[source] rustls::pki_types::pem::Error),
    #[error("cannot set up verification of client certificates")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}

/// A server that is listening.
pub struct Listening {
    pub address: SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Listening {
    /// Stops accepting, lets requests finish, ends watches.
    pub async fn drain(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

fn tls(cluster: &Cluster, address: SocketAddr, names: &[String]) -> Result<rustls::ServerConfig, Error> {
    let authority = &cluster.identity.authority;
    let mut hosts: Vec<String> = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ]
    .map(str::to_owned)
    .to_vec();
    hosts.extend(names.iter().cloned());
    let mut ips: Vec<IpAddr> = vec![
        IpAddr::from([127, 0, 0, 1]),
        IpAddr::from([0u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        IpAddr::from([10, 96, 0, 1]),
    ];
    if !ips.contains(&address.ip()) && !address.ip().is_unspecified() {
        ips.push(address.ip());
    }
    let pair = authority.issue_server(&hosts, &ips, cluster.now()).map_err(Error::Certificate)?;
    let certs: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pair.cert_pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(Error::Pem)?;
    let key = PrivateKeyDer::from_pem_slice(pair.key_pem.expose().as_bytes()).map_err(Error::Pem)?;
    let mut roots = rustls::RootCertStore::empty();
    for c in CertificateDer::pem_slice_iter(authority.cert_pem().as_bytes()) {
        roots.add(c.map_err(Error::Pem)?).map_err(Error::Tls)?;
    }
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
        .allow_unauthenticated()
        .build()
        .map_err(Error::Verifier)?;
    let mut config = rustls::ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(certs, key)
        .map_err(Error::Tls)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

pub(crate) async fn listen(
    cluster: Arc<Cluster>,
    address: SocketAddr,
    names: &[String],
) -> Result<Listening, Error> {
    let bind = |source| Error::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(bind)?;
    let address = listener.local_addr().map_err(bind)?;
    let acceptor = TlsAcceptor::from(Arc::new(tls(&cluster, address, names)?));
    cluster.identity.set_address(address.to_string());
    let stop = CancellationToken::new();
    let task = tokio::spawn(accept(cluster, listener, acceptor, stop.clone()));
    Ok(Listening { address, stop, task })
}

async fn accept(
    cluster: Arc<Cluster>,
    listener: TcpListener,
    acceptor: TlsAcceptor,
    stop: CancellationToken,
) {
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { break };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            a = listener.accept() => a,
        };
        let (tcp, from) = match accepted {
            Ok(x) => x,
            Err(e) => {
                // Out of file descriptors, or a client that left: neither ends the server.
                tracing::warn!(error = %e, "cannot accept a connection");
                tokio::task::yield_now().await;
                continue;
            }
        };
        let watcher = graceful.watcher();
        let (cluster, acceptor) = (cluster.clone(), acceptor.clone());
        tokio::spawn(async move {
            let _slot = slot;
            connection(cluster, acceptor, tcp, from, watcher).await;
        });
    }
    drop(listener);
    // Watches never finish by themselves.
    cluster.shutdown.cancel();
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish in time and were cut off");
    }
}

async fn connection(
    cluster: Arc<Cluster>,
    acceptor: TlsAcceptor,
    tcp: TcpStream,
    from: SocketAddr,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let _ = tcp.set_nodelay(true);
    let tls = match tokio::time::timeout(HANDSHAKE, acceptor.accept(tcp)).await {
        Ok(Ok(t)) => t,
        Ok(Err(e)) => {
            tracing::debug!(%from, error = %e, "TLS handshake failed");
            return;
        }
        Err(_) => return,
    };
    let user = (tls.get_ref().1.peer_certificates())
        .and_then(|c| c.first())
        .and_then(|c| pki::user_of_certificate(c));
    let peer = Arc::new(Peer { user, address: Some(from.ip()) });
    let service = hyper::service::service_fn(move |req| {
        let (cluster, peer) = (cluster.clone(), peer.clone());
        async move { Ok::<_, Infallible>(pipeline::serve(&cluster, &peer, req).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE).max_buf_size(64 << 10);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(250)
        .max_header_list_size(64 << 10)
        .keep_alive_interval(Some(Duration::from_secs(60)))
        .keep_alive_timeout(Duration::from_secs(30));
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(tls), service);
    if let Err(e) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%from, error = %e, "connection ended");
    }
}

#[cfg(test)]
mod tests;
