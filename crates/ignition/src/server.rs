//! The port that machines ask.

use crate::metrics;
use crate::operate::{Door, Given};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Whoever is slower than this is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Machines boot by the hundred; each asks once and goes.
const CONNECTIONS: usize = 512;
/// Before the next attempt to take a connection, after one that failed.
const OUT_OF_FILES: Duration = Duration::from_millis(50);
/// How often files are looked at, at most.
const LOOK: Duration = Duration::from_secs(10);
/// No file of a certificate is larger.
const LARGEST: u64 = 1 << 20;
/// Pools whose requests are counted by name; a header can say anything.
const NAMED: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path} ({flag})")]
    Read { path: PathBuf, flag: &'static str, source: io::Error },
    #[error("{path} holds no usable {what} ({flag})")]
    Content { path: PathBuf, flag: &'static str, what: &'static str },
    #[error("the certificate {path} cannot be served with (--cert-file, --key-file)")]
    Tls { path: PathBuf, source: rustls::Error },
}

/// A certificate that is read again when its files are replaced.
pub struct Certificate {
    cert: PathBuf,
    key: PathBuf,
    held: Mutex<Held>,
}

struct Held {
    config: Arc<ServerConfig>,
    stamp: Option<(SystemTime, SystemTime)>,
    looked: Instant,
}

fn file(path: &Path, flag: &'static str) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), flag, source };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > LARGEST {
        return Err(failed(io::Error::other(format!("it has {size} bytes, more than {LARGEST}"))));
    }
    std::fs::read(path).map_err(failed)
}

impl Certificate {
    pub fn load(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Certificate, Error> {
        let (cert, key) = (cert.into(), key.into());
        let config = Arc::new(Certificate::read(&cert, &key)?);
        let held = Held { config, stamp: stamp(&cert, &key), looked: Instant::now() };
        Ok(Certificate { cert, key, held: Mutex::new(held) })
    }

    fn read(cert: &Path, key: &Path) -> Result<ServerConfig, Error> {
        let pem = file(cert, "--cert-file")?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem).flatten().collect();
        if chain.is_empty() {
            return Err(Error::Content { path: cert.to_owned(), flag: "--cert-file", what: "certificate" });
        }
        let bad = |_| Error::Content { path: key.to_owned(), flag: "--key-file", what: "private key" };
        let secret = PrivateKeyDer::from_pem_slice(&file(key, "--key-file")?).map_err(bad)?;
        let failed = |source| Error::Tls { path: cert.to_owned(), source };
        let builder = ServerConfig::builder().with_no_client_auth();
        let mut config = builder.with_single_cert(chain, secret).map_err(failed)?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// Ends TLS with the certificate of today, for others who serve with the same.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.now())
    }

    /// The configuration of today. Files that are of no use leave the last good ones in place.
    fn now(&self) -> Arc<ServerConfig> {
        let mut held = self.held.lock();
        if held.looked.elapsed() >= LOOK {
            held.looked = Instant::now();
            let stamp = stamp(&self.cert, &self.key);
            if stamp != held.stamp {
                match Certificate::read(&self.cert, &self.key) {
                    Ok(new) => (held.config, held.stamp) = (Arc::new(new), stamp),
                    Err(e) => tracing::warn!(error = %reconcile::chain(&e), "keeping the old certificate"),
                }
            }
        }
        held.config.clone()
    }
}

fn stamp(cert: &Path, key: &Path) -> Option<(SystemTime, SystemTime)> {
    let at = |p: &Path| std::fs::metadata(p).and_then(|m| m.modified()).ok();
    Some((at(cert)?, at(key)?))
}

/// Serves machines until stopped.
pub async fn serve(
    listener: TcpListener,
    certificate: Arc<Certificate>,
    door: Arc<Door>,
    stop: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            a = listener.accept() => a,
        };
        let Ok((tcp, _)) = accepted else {
            // Out of files, most likely: somebody has to end first, and nobody tells who.
            tokio::time::sleep(OUT_OF_FILES).await;
            continue;
        };
        let _ = tcp.set_nodelay(true);
        let (acceptor, door, stop) = (certificate.acceptor(), door.clone(), stop.clone());
        tokio::spawn(async move {
            let _slot = slot;
            let hello = tokio::time::timeout(PATIENCE, acceptor.accept(tcp)).await;
            let Ok(Ok(tls)) = hello else { return };
            let service = hyper::service::service_fn(move |request| {
                let answer = answer(&door, &request);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(tls), service);
            tokio::select! {
                _ = connection => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

type Answer = Response<Full<Bytes>>;

fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut r = Response::new(Full::new(body.into()));
    *r.status_mut() = status;
    r
}

/// `^/ignition[^/ ]*$`.
pub fn is_ignition(path: &str) -> bool {
    path.strip_prefix("/ignition").is_some_and(|rest| !rest.contains(['/', ' ']))
}

/// The token of `Authorization: Bearer <base64>`.
fn bearer(headers: &HeaderMap) -> Option<Vec<u8>> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    let token = STANDARD.decode(encoded.trim()).ok()?;
    (scheme.eq_ignore_ascii_case("Bearer") && !token.is_empty()).then_some(token)
}

fn answer(door: &Door, request: &Request<Incoming>) -> Answer {
    let path = request.uri().path();
    if path == "/healthz" {
        return text(StatusCode::OK, "ok");
    }
    if !is_ignition(path) {
        return text(StatusCode::NOT_FOUND, "there are /ignition and /healthz");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "payloads are read with GET");
    }
    let answer = match bearer(request.headers()).map(|token| door.ask(&token)) {
        None => {
            text(StatusCode::UNAUTHORIZED, "show the token of the user data: Authorization: Bearer <base64>")
        }
        // Ignition tries again after 5xx and gives up after 4xx. A token that is not known may be so in a moment.
        Some(Given::Unknown) => {
            text(StatusCode::NETWORK_AUTHENTICATION_REQUIRED, "this token is not known (any more)")
        }
        Some(Given::NotYet) => {
            text(StatusCode::NETWORK_AUTHENTICATION_REQUIRED, "the payload is being made; try again")
        }
        Some(Given::Payload(bytes)) => {
            let mut r = text(StatusCode::OK, bytes);
            let json = header::HeaderValue::from_static("application/json");
            r.headers_mut().insert(header::CONTENT_TYPE, json);
            let never = header::HeaderValue::from_static("no-store");
            r.headers_mut().insert(header::CACHE_CONTROL, never);
            r
        }
    };
    let pool = request.headers().get("NodePool").and_then(|p| p.to_str().ok()).unwrap_or_default();
    count(door, pool, answer.status());
    answer
}

/// What whoever is not known calls itself is not counted by name.
fn count(door: &Door, pool: &str, status: StatusCode) {
    let fits = pool.len() <= 128 && pool.bytes().all(|b| b.is_ascii_alphanumeric() || b"-./".contains(&b));
    let known = status == StatusCode::OK && fits && door.name_pool(pool, NAMED);
    door.metrics.count(&metrics::REQUESTS, &[if known { pool } else { "" }, status.as_str()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_that_stubs_name() {
        for good in ["/ignition", "/ignition-2", "/ignition.json"] {
            assert!(is_ignition(good), "{good}");
        }
        for bad in ["/ignition/x", "/ignition x", "/", "/Ignition", "/x/ignition"] {
            assert!(!is_ignition(bad), "{bad}");
        }
    }

    #[test]
    fn a_bearer_is_base64_and_nothing_else() {
        let of = |v: &str| {
            let mut h = HeaderMap::new();
            h.insert(header::AUTHORIZATION, v.parse().unwrap());
            bearer(&h)
        };
        assert_eq!(of("Bearer dG9rZW4="), Some(b"token".to_vec()));
        for bad in ["dG9rZW4=", "Basic dG9rZW4=", "Bearer ???", "Bearer "] {
            assert_eq!(of(bad), None, "{bad}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
