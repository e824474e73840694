//! Programs that hold a place.
//!
//! **konnectivity** is a tunnel from the API server to networks it cannot reach. Here it can: nodes, Services and
//! webhooks of a guest are in this process, and the API server asks them directly. `proxy-server` therefore answers its
//! health checks and tunnels nothing; `proxy-agent` runs and says so. What does not show up because of that: an agent
//! that cannot connect, and traffic that ought to go through the tunnel and does not.

use crate::readyz::flag;
use bytes::Bytes;
use ek_node::{Program, ProgramContext};
use futures::future::BoxFuture;
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::time::Duration;
use tokio::net::TcpListener;

/// `proxy-server` and `proxy-agent`.
pub struct Konnectivity;

impl Program for Konnectivity {
    fn run(&self, ctx: ProgramContext) -> BoxFuture<'static, i32> {
        Box::pin(async move {
            ctx.log("a stand-in: the API server reaches nodes and Services of this process without a tunnel");
            let port = flag(&ctx, "--health-port").or_else(|| flag(&ctx, "--health-server-port"));
            let port = port.and_then(|p| p.parse().ok()).unwrap_or(2041);
            match ctx.listener(port).await {
                Ok(listener) => healthy(&ctx, listener).await,
                Err(e) => {
                    ctx.log(format!("cannot listen on port {port}: {e}"));
                    1
                }
            }
        })
    }
}

/// `etcd grpc-proxy start`, which shows metrics: there are none to show.
pub(crate) async fn metrics(ctx: ProgramContext) -> i32 {
    ctx.log("a stand-in: this etcd has no metrics of its own");
    ctx.stopping().cancelled().await;
    0
}

/// Answers every question with `ok`, one after the other.
pub async fn healthy(ctx: &ProgramContext, listener: TcpListener) -> i32 {
    loop {
        let accepted = tokio::select! {
            () = ctx.stopping().cancelled() => return 0,
            a = listener.accept() => a,
        };
        let Ok((tcp, _)) = accepted else { continue };
        let _ = tcp.set_nodelay(true);
        let ok = hyper::service::service_fn(|_: http::Request<hyper::body::Incoming>| async {
            Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from_static(b"ok"))))
        });
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tcp), ok);
        let _ = tokio::time::timeout(Duration::from_secs(5), connection).await;
    }
}
