//! Clients of guests for programs that live long: whoever a kubeconfig names is looked up again for each connection.
//!
//! Pods of an API server come and go, and each has a loopback port of its own. In a cluster a Service's address stays;
//! here the name must be resolved whenever somebody dials.

use crate::health::Dial;
use bytes::Bytes;
use ek_node::ProgramContext;
use futures::future::BoxFuture;
use http::Uri;
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tower::{BoxError, Layer, Service, ServiceExt};

/// A connection is made within this long, handshake included. All requests wait for the same one, and whoever is about to
/// end may be dialled and never answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// A connection over which nothing has come for so long is asked whether it still leads anywhere, as Go's clients do.
const SILENCE: Duration = Duration::from_secs(20);
/// And given up if nobody says so: both together are less than the 40 s of a node's lease.
const ECHO: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} is under no mount of this container")]
    NoMount(String),
    #[error("cannot read {path}")]
    Read { path: String, source: io::Error },
    #[error("{path} is no kubeconfig")]
    Kubeconfig { path: String, source: Box<kube::config::KubeconfigError> },
    #[error("cannot make a client of {path}")]
    Client { path: String, source: Box<kube::Error> },
}

/// Dials names as somebody sees them.
#[derive(Clone)]
pub struct Names(Arc<dyn Fn(&str, u16) -> Option<SocketAddr> + Send + Sync>);

impl Names {
    pub fn by(resolve: impl Fn(&str, u16) -> Option<SocketAddr> + Send + Sync + 'static) -> Names {
        Names(Arc::new(resolve))
    }

    /// As a pod does.
    fn of(ctx: &ProgramContext) -> Names {
        let ctx = ctx.clone();
        Names::by(move |host, port| match host {
            "localhost" | "127.0.0.1" => ctx.local(port),
            _ => ctx.resolve(host, port),
        })
    }
}

impl Service<Uri> for Names {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<TokioIo<TcpStream>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let resolve = self.0.clone();
        Box::pin(async move {
            let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(443));
            let found = resolve(host, port);
            let nobody = || {
                io::Error::new(io::ErrorKind::HostUnreachable, format!("no ready endpoint of {host}:{port}"))
            };
            let tcp = TcpStream::connect(found.ok_or_else(nobody)?).await?;
            tcp.set_nodelay(true)?;
            Ok(TokioIo::new(tcp))
        })
    }
}

/// Dials as whoever is outside of the cluster does.
#[derive(Clone)]
struct Outside(Arc<dyn Dial>);

impl Service<Uri> for Outside {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<TokioIo<TcpStream>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let dial = self.0.clone();
        Box::pin(async move {
            let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
            let tcp = dial.dial(host, uri.port_u16().unwrap_or(443)).await?;
            tcp.set_nodelay(true)?;
            Ok(TokioIo::new(tcp))
        })
    }
}

/// A client by a kubeconfig, through a way to dial.
pub async fn over(file: Kubeconfig, dial: Arc<dyn Dial>) -> Result<kube::Client, Error> {
    let of = "the kubeconfig";
    let bad = |e| Error::Kubeconfig { path: of.to_owned(), source: Box::new(e) };
    let config =
        kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(bad)?;
    through(config, Outside(dial), of)
}

/// A client by a kubeconfig of the container's mounts, with the certificates that it has now.
pub async fn client(ctx: &ProgramContext, path: &str) -> Result<kube::Client, Error> {
    let real = ctx.path(path).ok_or_else(|| Error::NoMount(path.to_owned()))?;
    let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(real)).await;
    let text = read.unwrap_or_else(|e| Err(io::Error::other(e)));
    let text = text.map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let bad = |e| Error::Kubeconfig { path: path.to_owned(), source: Box::new(e) };
    let file = Kubeconfig::from_yaml(&text).map_err(bad)?;
    by_names(Names::of(ctx), file, path).await
}

/// A client by a kubeconfig, whose names somebody else resolves. `path` is where it came from, for people.
pub async fn by_names(names: Names, file: Kubeconfig, path: &str) -> Result<kube::Client, Error> {
    let bad = |e| Error::Kubeconfig { path: path.to_owned(), source: Box::new(e) };
    let config =
        kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(bad)?;
    through(config, names, path)
}

fn through<C>(config: kube::Config, connector: C, of: &str) -> Result<kube::Client, Error>
where
    C: Service<Uri, Response = TokioIo<TcpStream>, Error = io::Error> + Clone + Send + Sync + 'static,
    C::Future: Send + Unpin + 'static,
{
    let failed = |e| Error::Client { path: of.to_owned(), source: Box::new(e) };
    // One connection for all: an operator of a guest has some thirty watches. There is no session to go on with, so
    // nothing needs room for two hundred of them.
    let mut tls = config.rustls_client_config().map_err(failed)?;
    tls.resumption = rustls::client::Resumption::disabled();
    let https = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .enable_http2()
        .wrap_connector(connector);
    let prompt = tower::service_fn(move |uri: Uri| -> BoxFuture<'static, Result<_, BoxError>> {
        let made = https.clone().oneshot(uri);
        Box::pin(async move {
            let in_time = tokio::time::timeout(PATIENCE, made).await;
            in_time.map_err(|_| format!("no connection within {PATIENCE:?}"))?
        })
    });
    let pool: Pool<_, Body> = Pool::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_only(true)
        .http2_keep_alive_interval(SILENCE)
        .http2_keep_alive_timeout(ECHO)
        .build(prompt);
    let service = config.base_uri_layer().layer(pool);
    let service = service.map_response(|r: http::Response<hyper::body::Incoming>| {
        r.map(|b| b.map_frame(|f| f.map_data(Bytes::from)))
    });
    Ok(kube::Client::new(service, config.default_namespace))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// A socket that is there, of a program that is not: it is dialled, and says nothing.
    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever_for_who_does_not_answer() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap();
        let mut config = kube::Config::new("https://api.test:6443".parse().unwrap());
        config.accept_invalid_certs = true;
        let client = through(config, Names::by(move |_, _| Some(address)), "a test").unwrap();
        let begun = tokio::time::Instant::now();
        let asked = client.request_text(http::Request::get("/healthz").body(Vec::new()).unwrap());
        let asked = tokio::time::timeout(Duration::from_secs(60), asked).await;
        let why = asked.expect("it is given up").unwrap_err();
        assert!(reconcile::chain(&why).to_string().contains("no connection within 10s"), "{why:?}");
        assert!(begun.elapsed() >= PATIENCE);
    }
}
