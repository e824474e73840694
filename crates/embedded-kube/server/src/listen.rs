//! The socket: TLS, HTTP/1.1 and HTTP/2, bounded patience, drained on the way out.

use crate::cluster::Cluster;
use crate::host::{Host, MAIN};
use crate::route::Connection;
use crate::serving;
use crate::wire::respond::Reply;
use ek_auth::pki;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// A client that does not finish its handshake or headers by then is not waited for.
pub(crate) const HANDSHAKE: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 10_000 });
/// Open connections; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 8192;
/// How long requests under way may take to finish when the server stops.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);

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

pub(crate) async fn listen(
    host: &Host,
    cluster: &Arc<Cluster>,
    address: SocketAddr,
    names: &[String],
) -> Result<Listening, Error> {
    let bind = |source| Error::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(bind)?;
    let address = listener.local_addr().map_err(bind)?;
    let acceptor = TlsAcceptor::from(Arc::new(serving::config(host, cluster, address, names)?));
    cluster.identity.set_address(address.to_string());
    let stop = CancellationToken::new();
    let socket = Arc::new(Socket { host: host.clone(), cluster: cluster.clone(), address, acceptor });
    let task = tokio::spawn(accept(socket, listener, stop.clone()));
    Ok(Listening { address, stop, task })
}

/// What all connections of a socket share.
struct Socket {
    host: Host,
    cluster: Arc<Cluster>,
    address: SocketAddr,
    acceptor: TlsAcceptor,
}

async fn accept(socket: Arc<Socket>, listener: TcpListener, stop: CancellationToken) {
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
        let socket = socket.clone();
        tokio::spawn(async move {
            let _slot = slot;
            connection(&socket, tcp, from, watcher).await;
        });
    }
    drop(listener);
    // Watches never finish by themselves.
    socket.end_watches();
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish in time and were cut off");
    }
}

impl Socket {
    /// The main cluster's socket leads to all clusters, another one's only to its own.
    fn end_watches(&self) {
        match self.cluster.id.as_str() {
            MAIN => self.host.shutdown().cancel(),
            _ => self.cluster.shutdown.cancel(),
        }
    }
}

async fn connection(
    socket: &Socket,
    tcp: TcpStream,
    from: SocketAddr,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let _ = tcp.set_nodelay(true);
    let tls = match tokio::time::timeout(HANDSHAKE, socket.acceptor.accept(tcp)).await {
        Ok(Ok(t)) => t,
        Ok(Err(e)) => {
            tracing::debug!(%from, error = %e, "TLS handshake failed");
            return;
        }
        Err(_) => return,
    };
    let session = tls.get_ref().1;
    let chain = session.peer_certificates().map(<[_]>::to_vec).unwrap_or_default();
    let named = session.server_name().and_then(|n| socket.host.by_server_name(n));
    let cluster = named.unwrap_or_else(|| socket.cluster.clone());
    let asked = Arc::new(Connection::new(socket.host.clone(), cluster, socket.address, from.ip(), chain));
    let service = hyper::service::service_fn(move |req| {
        let asked = asked.clone();
        async move { Ok::<_, Infallible>(asked.serve(req).await) }
    });
    http(tls, from, service, watcher).await;
}

/// HTTP on one connection, whichever version the client speaks.
pub(crate) async fn http<S, F>(
    tls: tokio_rustls::server::TlsStream<TcpStream>,
    from: SocketAddr,
    service: S,
    watcher: hyper_util::server::graceful::Watcher,
) where
    S: hyper::service::Service<
            http::Request<hyper::body::Incoming>,
            Response = Reply,
            Error = Infallible,
            Future = F,
        >,
    F: Future<Output = Result<Reply, Infallible>> + Send + 'static,
{
    // A client that holds small packets back until what it sent before is acknowledged would wait 40 ms for that here,
    // since nothing is sent back at the end of a handshake.
    #[cfg(target_os = "linux")]
    let _ = tls.get_ref().0.set_quickack(true);
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
