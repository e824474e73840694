//! A socket of one guest, with certificates that somebody else made and that may change while it is open.
//!
//! A door is what one replica of an API server is to its clients. It opens before there is anything behind it: it
//! then answers health checks, says what it waits for, and refuses the rest. Several doors lead to the same cluster.
//! Replacing what a door shows ([`Door::reload`]) is felt by handshakes that begin afterwards; connections and the
//! watches on them stay. Whom it believes counts at once: the next request on an open connection is judged anew.

mod facing;

pub use facing::{Facing, FacingError, FrontProxy, FrontProxyConfig, Served};

use crate::api_server::ApiServer;
use crate::cluster::Cluster;
use crate::listen::{self, HANDSHAKE};
use crate::pipeline::{self, Peer};
use crate::wire::info::RequestInfo;
use crate::wire::params::Params;
use crate::wire::respond::{self, Reply};
use arc_swap::{ArcSwap, ArcSwapOption};
use clock::SharedClock;
use ek_meta::Status;
use facing::Shown;
use http::{Method, Request};
use hyper_util::server::graceful::GracefulShutdown;
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, WantsServerCert};
use rustls::{ConfigBuilder, ServerConfig};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Open connections of one door; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 4096;

enum Behind {
    Nothing(String),
    Cluster(Arc<Cluster>),
}

struct Inner {
    facing: Arc<ArcSwap<Facing>>,
    behind: ArcSwap<Behind>,
    /// What is wrong with the KMS that this replica asks.
    kms: ArcSwapOption<String>,
    clock: SharedClock,
    /// No more connections.
    stop: CancellationToken,
    /// Ends watches and other streams.
    streams: CancellationToken,
}

/// A handle to an open door.
pub struct Door {
    inner: Arc<Inner>,
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Door {
    /// Serves on `listener` from now on; `why` says what is missing behind it.
    pub fn open(
        listener: TcpListener,
        facing: Facing,
        clock: SharedClock,
        why: impl Into<String>,
    ) -> std::io::Result<Door> {
        let address = listener.local_addr()?;
        let inner = Arc::new(Inner {
            facing: Arc::new(ArcSwap::from_pointee(facing)),
            behind: ArcSwap::from_pointee(Behind::Nothing(why.into())),
            kms: ArcSwapOption::empty(),
            clock,
            stop: CancellationToken::new(),
            streams: CancellationToken::new(),
        });
        let task = tokio::spawn(accept(inner.clone(), listener));
        Ok(Door { inner, address, task })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it shows to those who knock from now on.
    pub fn reload(&self, facing: Facing) {
        self.inner.facing.store(Arc::new(facing));
    }

    pub fn lead_to(&self, server: &ApiServer) {
        self.inner.behind.store(Arc::new(Behind::Cluster(server.cluster().clone())));
    }

    /// Nothing is behind it any more. Watches end with the cluster they are on.
    pub fn lead_nowhere(&self, why: impl Into<String>) {
        self.inner.behind.store(Arc::new(Behind::Nothing(why.into())));
    }

    /// What is wrong with its KMS, if anything is: it serves, and is not ready. Those who restart what is not alive
    /// are told nothing of it, because a restart would only forget the keys that are still here.
    pub fn set_kms(&self, trouble: Option<String>) {
        self.inner.kms.store(trouble.map(Arc::new));
    }

    /// Lets nobody in any more, lets requests finish, and ends watches.
    pub async fn close(mut self) {
        self.inner.stop.cancel();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Door {
    /// Whoever forgets to close it must not leave it open.
    fn drop(&mut self) {
        self.inner.stop.cancel();
    }
}

fn tls(inner: &Inner) -> ServerConfig {
    let builder: ConfigBuilder<ServerConfig, WantsServerCert> = facing::builder();
    let mut config = builder.with_cert_resolver(Arc::new(Shown(inner.facing.clone())));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A session that is resumed would show the certificate of yesterday.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config
}

async fn accept(inner: Arc<Inner>, listener: TcpListener) {
    let acceptor = TlsAcceptor::from(Arc::new(tls(&inner)));
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { break };
        let accepted = tokio::select! {
            biased;
            () = inner.stop.cancelled() => break,
            a = listener.accept() => a,
        };
        let (tcp, from) = match accepted {
            Ok(x) => x,
            Err(e) => {
                tracing::warn!(error = %e, "cannot accept a connection");
                tokio::task::yield_now().await;
                continue;
            }
        };
        let (inner, acceptor, watcher) = (inner.clone(), acceptor.clone(), graceful.watcher());
        tokio::spawn(async move {
            let _slot = slot;
            connection(&inner, &acceptor, tcp, from, watcher).await;
        });
    }
    drop(listener);
    inner.streams.cancel();
    if tokio::time::timeout(listen::DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish in time and were cut off");
    }
}

async fn connection(
    inner: &Arc<Inner>,
    acceptor: &TlsAcceptor,
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
    let chain = tls.get_ref().1.peer_certificates().unwrap_or_default();
    let chain: Vec<CertificateDer<'static>> = chain.iter().map(|c| c.clone().into_owned()).collect();
    let inner = inner.clone();
    let judge = move |inner: &Inner| {
        let facing = inner.facing.load_full();
        let mut peer = facing.judge(&chain, inner.clock.now());
        peer.address = Some(from.ip());
        peer.stop = Some(inner.streams.clone());
        (facing, Arc::new(peer))
    };
    let judged = Mutex::new(judge(&inner));
    let service = hyper::service::service_fn(move |req| {
        // Whom the door believed when somebody came in it may not believe any more: an authority was revoked.
        let (facing, peer) = {
            let mut judged = judged.lock();
            if !Arc::ptr_eq(&judged.0, &inner.facing.load()) {
                *judged = judge(&inner);
            }
            judged.clone()
        };
        let inner = inner.clone();
        async move { Ok::<_, Infallible>(answer(&inner, &peer, &facing, req).await) }
    });
    listen::http(tls, from, service, watcher).await;
}

async fn answer(inner: &Inner, peer: &Peer, facing: &Facing, req: Request<hyper::body::Incoming>) -> Reply {
    let behind = inner.behind.load_full();
    let stopping = inner.stop.is_cancelled();
    let cluster = match &*behind {
        Behind::Cluster(c) if !(c.shutdown.is_cancelled() || stopping && req.uri().path() == "/readyz") => c,
        Behind::Cluster(_) => return nothing("shutdown", "the API server is stopping", &req),
        Behind::Nothing(why) => return nothing("etcd", why, &req),
    };
    if let Some(why) = &*inner.kms.load()
        && let Some(reply) = unready("kms-providers", why, &req)
    {
        return reply;
    }
    // Streams last; counting them would leave no room for anybody.
    let info = RequestInfo::parse(
        req.method(),
        req.uri().path(),
        req.uri().query().is_some_and(|q| q.contains("watch=")),
    );
    let streams = ["attach", "exec", "proxy", "log", "portforward"].contains(&info.subresource.as_str());
    let slots = match req.method() {
        _ if info.verb == "watch" || streams || !info.is_resource => None,
        &Method::GET | &Method::HEAD => facing.reading.as_ref(),
        _ => facing.writing.as_ref(),
    };
    let slot = match slots.map(Semaphore::try_acquire) {
        Some(Err(_)) => {
            let text = "Too many requests, please try again later.";
            return respond::status(&Status::too_many_requests(text, 1));
        }
        Some(Ok(slot)) => Some(slot),
        None => None,
    };
    let reply = pipeline::serve(cluster, peer, req).await;
    drop(slot);
    reply
}

/// What is said while there is nothing to ask. Everybody may know how we are; nobody is let in.
fn nothing<B>(check: &str, why: &str, req: &Request<B>) -> Reply {
    let path = req.uri().path().trim_matches('/');
    let which = path.split_once('/').map_or(path, |(which, _)| which);
    if !matches!(which, "livez" | "readyz" | "healthz") {
        return respond::status(&Status::unavailable(format!("{check}: {why}")).retry_after(1));
    }
    failing(check, why, req).unwrap_or_else(|| respond::text(200, "ok"))
}

/// The answer to those who ask whether we are ready, while one check fails.
fn unready<B>(check: &str, why: &str, req: &Request<B>) -> Option<Reply> {
    let path = req.uri().path().trim_matches('/');
    let which = path.split_once('/').map_or(path, |(which, _)| which);
    matches!(which, "readyz" | "healthz").then(|| failing(check, why, req)).flatten()
}

/// A failing check, unless somebody asks for others only.
fn failing<B>(check: &str, why: &str, req: &Request<B>) -> Option<Reply> {
    let path = req.uri().path().trim_matches('/');
    let (which, one) = path.split_once('/').unwrap_or((path, ""));
    let params = Params::parse(req.uri().query());
    let excluded = params.all("exclude").any(|e| e == check);
    if excluded || (!one.is_empty() && one != check) {
        return None;
    }
    Some(respond::text(
        500,
        format!("[+]ping ok\n[+]log ok\n[-]{check} failed: {why}\n{which} check failed\n"),
    ))
}
