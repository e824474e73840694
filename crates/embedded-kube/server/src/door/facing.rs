//! What a door shows to clients, and whose certificates it believes.

use crate::pipeline::Peer;
use crate::serving::HoldsKey;
use arc_swap::ArcSwap;
use ek_auth::User;
use ek_auth::pki::{self, Pair};
use http::HeaderMap;
use jiff::Timestamp;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

#[derive(Debug, thiserror::Error)]
pub enum FacingError {
    #[error("{what}: this is no PEM")]
    Pem { what: String, source: rustls::pki_types::pem::Error },
    #[error("{what}: certificate and key cannot be used together")]
    Key { what: String, source: rustls::Error },
    #[error("{what}: there is no certificate that can be trusted in it")]
    Roots { what: &'static str },
}

/// A serving certificate and the names it is shown for.
pub struct Served {
    /// What it is called in messages: its file.
    pub what: String,
    pub pair: Pair,
    /// `api.example.com`, `*.apps.example.com`; none: those in the certificate.
    pub names: Vec<String>,
}

/// A proxy that may speak for others.
pub struct FrontProxyConfig {
    pub ca_pem: String,
    /// Common names that may; none: every certificate of that authority.
    pub allowed_names: Vec<String>,
    pub username_headers: Vec<String>,
    pub group_headers: Vec<String>,
    pub extra_prefixes: Vec<String>,
}

/// See [`FrontProxyConfig`].
#[derive(Debug)]
pub struct FrontProxy {
    username_headers: Vec<String>,
    group_headers: Vec<String>,
    extra_prefixes: Vec<String>,
}

impl FrontProxy {
    /// Whom the proxy speaks for; nobody when it names none.
    pub(crate) fn user(&self, headers: &HeaderMap) -> Option<User> {
        let text = |name: &String| headers.get(name.as_str())?.to_str().ok().filter(|t| !t.is_empty());
        let name = self.username_headers.iter().find_map(text)?;
        let mut user = User { name: name.to_owned(), ..User::default() };
        for header in &self.group_headers {
            let all = headers.get_all(header.as_str()).iter().filter_map(|v| v.to_str().ok());
            user.groups.extend(all.map(str::to_owned));
        }
        for (header, value) in headers {
            let key = self.extra_prefixes.iter().find_map(|p| header.as_str().strip_prefix(p.as_str()));
            if let (Some(key), Ok(value)) = (key, value.to_str()) {
                let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned();
                user.extra.entry(key).or_default().push(value.to_owned());
            }
        }
        Some(user.authenticated())
    }
}

type Verifier = Arc<dyn ClientCertVerifier>;

/// What a door shows, and whom it believes.
pub struct Facing {
    default: Arc<CertifiedKey>,
    named: Vec<(Vec<String>, Arc<CertifiedKey>)>,
    clients: Verifier,
    front: Option<(Verifier, Vec<String>, Arc<FrontProxy>)>,
    /// How many requests may be under way, reading and changing.
    pub(super) reading: Option<Semaphore>,
    pub(super) writing: Option<Semaphore>,
}

impl std::fmt::Debug for Facing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Facing").field("named", &self.named.len()).finish_non_exhaustive()
    }
}

fn provider() -> Arc<CryptoProvider> {
    ServerConfig::builder().crypto_provider().clone()
}

pub(super) fn builder() -> rustls::ConfigBuilder<ServerConfig, rustls::server::WantsServerCert> {
    let builder = ServerConfig::builder();
    let provider = builder.crypto_provider().clone();
    builder.with_client_cert_verifier(Arc::new(HoldsKey(provider)))
}

fn key(served: &Served) -> Result<CertifiedKey, FacingError> {
    let pem = |source| FacingError::Pem { what: served.what.clone(), source };
    let certs: Vec<_> = CertificateDer::pem_slice_iter(served.pair.cert_pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(pem)?;
    let key = PrivateKeyDer::from_pem_slice(served.pair.key_pem.expose().as_bytes()).map_err(pem)?;
    CertifiedKey::from_der(certs, key, &provider())
        .map_err(|source| FacingError::Key { what: served.what.clone(), source })
}

/// Believes what a bundle of roots has signed; one bad certificate in it does not spoil the others.
fn verifier(what: &'static str, bundle: &str) -> Result<Verifier, FacingError> {
    let mut roots = rustls::RootCertStore::empty();
    for c in CertificateDer::pem_slice_iter(bundle.as_bytes()).flatten() {
        let _ = roots.add(c);
    }
    let built = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    built.map_err(|_| FacingError::Roots { what })
}

impl Facing {
    /// `client_ca` is a bundle: several authorities may sign for the same clients, during a rotation above all.
    pub fn new(
        default: &Served,
        named: &[Served],
        client_ca: &str,
        front: Option<FrontProxyConfig>,
    ) -> Result<Facing, FacingError> {
        let one = |s: &Served| {
            let key = key(s)?;
            let names = match s.names.is_empty() {
                true => key.end_entity_cert().map(|c| pki::dns_names(c)).unwrap_or_default(),
                false => s.names.clone(),
            };
            Ok((names, Arc::new(key)))
        };
        let front = match front {
            None => None,
            Some(f) => {
                let lower = |all: Vec<String>| all.iter().map(|h| h.to_ascii_lowercase()).collect();
                let proxy = FrontProxy {
                    username_headers: lower(f.username_headers),
                    group_headers: lower(f.group_headers),
                    extra_prefixes: lower(f.extra_prefixes),
                };
                Some((verifier("requestheader-client-ca-file", &f.ca_pem)?, f.allowed_names, Arc::new(proxy)))
            }
        };
        Ok(Facing {
            default: Arc::new(key(default)?),
            named: named.iter().map(one).collect::<Result<_, FacingError>>()?,
            clients: verifier("client-ca-file", client_ca)?,
            front,
            reading: None,
            writing: None,
        })
    }

    /// Bounds the requests under way; 0 is no bound.
    #[must_use]
    pub fn limited(mut self, reading: usize, writing: usize) -> Facing {
        let bound = |n: usize| (n > 0).then(|| Semaphore::new(n.min(Semaphore::MAX_PERMITS)));
        (self.reading, self.writing) = (bound(reading), bound(writing));
        self
    }

    /// What a client's certificates are worth.
    pub(super) fn judge(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> Peer {
        let Some((own, rest)) = chain.split_first() else { return Peer::default() };
        let now = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
        let trusted = |v: &Verifier| v.verify_client_cert(own, rest, UnixTime::since_unix_epoch(now)).is_ok();
        let named = pki::user_of_certificate(own);
        let allowed =
            |names: &[String]| names.is_empty() || named.as_ref().is_some_and(|u| names.contains(&u.name));
        let front = self.front.as_ref().filter(|(v, names, _)| allowed(names) && trusted(v));
        let front = front.map(|(_, _, proxy)| proxy.clone());
        let user = named.filter(|_| trusted(&self.clients));
        Peer { untrusted: user.is_none(), user, front, ..Peer::default() }
    }

    fn shown(&self, name: Option<&str>) -> Arc<CertifiedKey> {
        let fits = |pattern: &String, name: &str| match pattern.strip_prefix("*.") {
            Some(domain) => name.split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(domain)),
            None => pattern.eq_ignore_ascii_case(name),
        };
        let found = name.and_then(|n| self.named.iter().find(|(names, _)| names.iter().any(|p| fits(p, n))));
        found.map_or_else(|| self.default.clone(), |(_, key)| key.clone())
    }
}

/// Shows what the door shows at the moment.
pub(super) struct Shown(pub(super) Arc<ArcSwap<Facing>>);

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shown")
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load().shown(hello.server_name()))
    }
}
