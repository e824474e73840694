//! Certificates at the socket: which one we show, and what a client's is worth.
//!
//! One socket serves many clusters, each with its own authority. The name a client asks for decides which
//! certificate it sees. Whose certificate the client shows cannot be checked during the handshake, because its
//! path may yet say which cluster it means; so the handshake proves only that the client holds the key, and the
//! cluster that is asked verifies the chain. A certificate it does not trust is refused there (401), as
//! kube-apiserver does, and never ends the connection.

use crate::cluster::Cluster;
use crate::host::Host;
use crate::listen::Error;
use ek_auth::User;
use ek_auth::pki;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Names every cluster's API goes by inside of it.
const INSIDE: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

fn certificate(
    cluster: &Cluster,
    provider: &CryptoProvider,
    names: impl IntoIterator<Item = String>,
    address: Option<IpAddr>,
) -> Result<CertifiedKey, Error> {
    let mut hosts: Vec<String> = INSIDE.map(str::to_owned).to_vec();
    hosts.extend(names);
    let mut ips: Vec<IpAddr> = vec![
        IpAddr::from([127, 0, 0, 1]),
        IpAddr::from([0u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        IpAddr::from([10, 96, 0, 1]),
    ];
    ips.extend(address.filter(|a| !ips.contains(a) && !a.is_unspecified()));
    let authority = &cluster.identity.authority;
    let pair = authority.issue_server(&hosts, &ips, cluster.now()).map_err(Error::Certificate)?;
    let certs: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pair.cert_pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(Error::Pem)?;
    let key = PrivateKeyDer::from_pem_slice(pair.key_pem.expose().as_bytes()).map_err(Error::Pem)?;
    CertifiedKey::from_der(certs, key, provider).map_err(Error::Tls)
}

/// Picks the certificate by the name the client asks for.
struct ByName {
    host: Host,
    provider: Arc<CryptoProvider>,
    /// Of the cluster that is meant when no other is named.
    default: Arc<CertifiedKey>,
}

impl std::fmt::Debug for ByName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ByName")
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|n| Some((n, self.host.by_server_name(n)?)));
        let Some((name, cluster)) = named else { return Some(self.default.clone()) };
        let mut kept = cluster.identity.serving.lock();
        if let Some((n, key)) = &*kept
            && n == name
        {
            return Some(key.clone());
        }
        match certificate(&cluster, &self.provider, [name.to_owned()], None) {
            Ok(key) => {
                let key = Arc::new(key);
                *kept = Some((name.to_owned(), key.clone()));
                Some(key)
            }
            Err(e) => {
                tracing::warn!(name, error = %e, "cannot issue a serving certificate");
                None
            }
        }
    }
}

/// Takes any certificate whose key the client holds; see the module's essay.
#[derive(Debug)]
pub(crate) struct HoldsKey(pub(crate) Arc<CryptoProvider>);

impl ClientCertVerifier for HoldsKey {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// TLS for a socket whose unnamed cluster is `cluster`.
pub fn config(
    host: &Host,
    cluster: &Cluster,
    address: SocketAddr,
    names: &[String],
) -> Result<rustls::ServerConfig, Error> {
    let builder = rustls::ServerConfig::builder();
    let provider = builder.crypto_provider().clone();
    let default = certificate(cluster, &provider, names.iter().cloned(), Some(address.ip()))?;
    let resolver = ByName { host: host.clone(), provider: provider.clone(), default: Arc::new(default) };
    let mut config = builder
        .with_client_cert_verifier(Arc::new(HoldsKey(provider)))
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// What a client's certificate is worth to a cluster.
#[derive(Clone, Debug)]
pub enum Presented {
    Nothing,
    Trusted(User),
    /// Not signed by this cluster's authority, or out of date.
    Untrusted,
}

impl Cluster {
    /// Verifies a chain, the client's own certificate first.
    pub(crate) fn presented(&self, chain: &[CertificateDer<'_>]) -> Presented {
        let Some((own, rest)) = chain.split_first() else { return Presented::Nothing };
        let Some(verifier) = self.identity.verifier.get_or_init(|| self.client_verifier()) else {
            return Presented::Untrusted;
        };
        let now = Duration::from_secs(u64::try_from(self.now().as_second()).unwrap_or(0));
        let trusted = verifier.verify_client_cert(own, rest, UnixTime::since_unix_epoch(now)).is_ok();
        let user = trusted.then(|| pki::user_of_certificate(own)).flatten();
        user.map_or(Presented::Untrusted, Presented::Trusted)
    }

    fn client_verifier(&self) -> Option<Arc<dyn ClientCertVerifier>> {
        let mut roots = rustls::RootCertStore::empty();
        for c in CertificateDer::pem_slice_iter(self.identity.authority.cert_pem().as_bytes()) {
            roots.add(c.ok()?).ok()?;
        }
        WebPkiClientVerifier::builder(Arc::new(roots)).build().ok()
    }
}
