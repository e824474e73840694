//! `/healthz`, `/readyz` and `/metrics` for those who look on.

use anyhow::Context;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Connections at the same time: probes and one or two scrapers.
const CONNECTIONS: usize = 64;

/// What there is to see.
pub struct Seen {
    pub metrics: reconcile::Metrics,
    /// Numbers that are computed when somebody asks.
    pub page: Box<dyn Fn() -> String + Send + Sync>,
    pub ready: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Serves until stopped. Returns the address, which matters where the port was left open.
pub async fn serve(at: SocketAddr, seen: Arc<Seen>, stop: CancellationToken) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(at).await.with_context(|| format!("cannot listen on {at}"))?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let slots = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else { continue };
            let _ = stream.set_nodelay(true);
            let seen = seen.clone();
            tokio::spawn(async move {
                let answer = service_fn(|request| {
                    let answer = answer(&seen, &request);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(Duration::from_secs(10))
                    .serve_connection(TokioIo::new(stream), answer);
                if let Err(e) = connection.await {
                    tracing::debug!(error = %e, "somebody who looked on went away");
                }
                drop(slot);
            });
        }
    });
    Ok(address)
}

fn answer(seen: &Seen, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, text) = match request.uri().path() {
        "/metrics" => (StatusCode::OK, seen.metrics.text() + &(seen.page)()),
        "/healthz" => (StatusCode::OK, "ok".to_owned()),
        "/readyz" if (seen.ready)() => (StatusCode::OK, "ok".to_owned()),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "still reading what there is".to_owned()),
        _ => (StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    let plain = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    *response.status_mut() = status;
    response
}
