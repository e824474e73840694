//! The port that the API server asks.

use crate::review::{Answer, Request as Review};
use crate::{Source, fill, judge, path};
use apis::hypershift::HostedCluster;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hypershift::Management;
use kube::{Api, Client};
use parking_lot::Mutex;
use pki::Pair;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// API servers wait 15 s for an answer; whoever we ask must be quicker.
const PATIENCE: Duration = Duration::from_secs(10);
const CONNECTIONS: usize = 256;
/// An object and what it was before, each no larger than etcd takes.
const LARGEST: usize = 8 << 20;

/// Who answers.
pub struct Desk {
    client: Client,
    source: Arc<dyn Source>,
    management: Management,
    certificate: Mutex<Option<Arc<ServerConfig>>>,
    /// The API server has been told whom to trust.
    open: watch::Sender<bool>,
}

impl Desk {
    pub fn new(client: Client, source: Arc<dyn Source>, management: Management) -> Arc<Desk> {
        let (certificate, open) = (Mutex::default(), watch::Sender::new(false));
        Arc::new(Desk { client, source, management, certificate, open })
    }

    /// Serves with this from the next connection on.
    pub(crate) fn certify(&self, pair: &Pair) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(pair.cert.as_bytes()).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(pair.key.expose().as_bytes())?;
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
        *self.certificate.lock() = Some(Arc::new(config));
        Ok(())
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    /// Whether reviews can be answered.
    pub fn is_open(&self) -> bool {
        *self.open.borrow()
    }

    /// Waits until they can.
    pub async fn opened(&self) {
        // The sender is ours, so that it cannot be gone.
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }

    /// The cluster of a pool, if there is one.
    async fn cluster_of(&self, review: &Review) -> Result<Option<HostedCluster>, String> {
        let name = review.object["spec"]["clusterName"].as_str().unwrap_or_default();
        if name.is_empty() {
            return Ok(None);
        }
        let api: Api<HostedCluster> = Api::namespaced(self.client.clone(), &review.namespace);
        match tokio::time::timeout(PATIENCE, api.get_opt(name)).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(e)) => Err(format!("HostedCluster {}/{name} cannot be read: {e}", review.namespace)),
            Err(_) => Err(format!("HostedCluster {}/{name} cannot be read in time", review.namespace)),
        }
    }

    async fn fill_cluster(&self, review: &Review) -> Answer {
        if !fill::lacks_release(&review.object) {
            return Answer { patch: fill::cluster(&review.object, None), ..Answer::default() };
        }
        let newest = tokio::time::timeout(PATIENCE, self.source.newest()).await;
        match newest.unwrap_or_else(|_| Err("nobody answers in time".to_owned())) {
            Ok(image) => Answer { patch: fill::cluster(&review.object, Some(&image)), ..Answer::default() },
            Err(why) => Answer::refuse(format!(
                "spec.release.image is empty, and the newest release cannot be looked up: name one ({why})"
            )),
        }
    }

    async fn fill_pool(&self, review: &Review) -> Answer {
        if !fill::lacks_release(&review.object) {
            return Answer::default();
        }
        match self.cluster_of(review).await {
            Ok(Some(hc)) => Answer {
                patch: fill::pool(&review.object, Some(&hc.spec.release.image)),
                ..Answer::default()
            },
            Ok(None) => Answer::refuse(
                "spec.release.image is empty, and there is no HostedCluster spec.clusterName to take it from: name a release, or make the cluster first",
            ),
            Err(why) => Answer::refuse(format!("spec.release.image is empty: name a release ({why})")),
        }
    }

    async fn judge_pool(&self, review: &Review) -> Answer {
        // Whoever cannot be asked gives no warning.
        let found = !review.old.is_null() || !matches!(self.cluster_of(review).await, Ok(None));
        judge::pool(&review.object, &review.old, &review.namespace, found)
    }

    /// Answers a review; nothing if nobody answers at this path.
    async fn ask(&self, at: &str, review: &Review) -> Option<Answer> {
        Some(match at {
            path::FILL_CLUSTER => self.fill_cluster(review).await,
            path::FILL_POOL => self.fill_pool(review).await,
            path::JUDGE_CLUSTER => judge::cluster(&review.object, &review.old, &self.management),
            path::JUDGE_POOL => self.judge_pool(review).await,
            _ => return None,
        })
    }
}

type Reply = Response<Full<Bytes>>;

fn reply(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut r = Response::new(Full::new(body.into()));
    *r.status_mut() = status;
    r.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    r
}

fn said(status: StatusCode, why: impl Into<Bytes>) -> Reply {
    reply(status, "text/plain; charset=utf-8", why)
}

async fn answer(desk: &Desk, request: Request<Incoming>) -> Reply {
    if request.method() != Method::POST {
        return said(StatusCode::METHOD_NOT_ALLOWED, "reviews are sent with POST");
    }
    let at = request.uri().path().to_owned();
    let Ok(body) = Limited::new(request.into_body(), LARGEST).collect().await else {
        return said(StatusCode::PAYLOAD_TOO_LARGE, "the review is too large, or broke off");
    };
    let review = match Review::read(&body.to_bytes()) {
        Ok(r) => r,
        Err(e) => return said(StatusCode::BAD_REQUEST, e.to_string()),
    };
    match desk.ask(&at, &review).await {
        Some(answer) => {
            let document: Value = answer.write(&review.uid);
            reply(StatusCode::OK, "application/json", document.to_string())
        }
        None => said(StatusCode::NOT_FOUND, "no reviews are answered here"),
    }
}

/// One connection.
async fn converse(desk: Arc<Desk>, tcp: TcpStream) {
    let _ = tcp.set_nodelay(true);
    let Some(config) = desk.certificate.lock().clone() else { return };
    let hello = tokio::time::timeout(PATIENCE, TlsAcceptor::from(config).accept(tcp)).await;
    let Ok(Ok(tls)) = hello else { return };
    let service = service_fn(|request| {
        let desk = desk.clone();
        async move { Ok::<_, Infallible>(answer(&desk, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(tls), service);
    if let Err(e) = connection.await {
        tracing::debug!(error = %e, "a review broke off");
    }
}

/// Serves until stopped.
pub async fn serve(listener: TcpListener, desk: Arc<Desk>, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            a = listener.accept() => a,
        };
        let Ok((tcp, _)) = accepted else {
            // Out of files, most likely: somebody has to end first.
            tokio::task::yield_now().await;
            continue;
        };
        let (desk, stop) = (desk.clone(), stop.clone());
        tokio::spawn(async move {
            let _slot = slot;
            tokio::select! {
                () = converse(desk, tcp) => {}
                () = stop.cancelled() => {}
            }
        });
    }
}
