//! The issuer of the demo's service-account tokens: an HTTPS server on the loopback with a discovery document and one
//! RSA key, which is what Entra ID wants to see.

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

const KID: &str = "demo";

pub struct Issuer {
    pub url: String,
    /// The authority that vouches for its certificate (PEM).
    pub ca: String,
    key: EncodingKey,
    task: JoinHandle<()>,
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Issuer {
    pub async fn start() -> anyhow::Result<Issuer> {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
        let tls_key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let chain = vec![CertificateDer::from(made.cert.der().to_vec())];
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, tls_key)?;
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://localhost:{}/oidc", listener.local_addr()?.port());
        let pair = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048)?;
        let key = EncodingKey::from_rsa_pem(pair.serialize_pem().as_bytes())?;
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::RS256)?;
        jwk.common.key_id = Some(KID.to_owned());
        let discovery = json!({"issuer": url, "jwks_uri": format!("{url}/keys")}).to_string();
        let keys = json!({"keys": [jwk]}).to_string();
        let task = tokio::spawn(serve(listener, tls, discovery, keys));
        Ok(Issuer { url, ca: made.cert.pem(), key, task })
    }

    /// What a pod of this service account would find in its token file.
    pub fn token(&self, subject: &str, now: i64) -> anyhow::Result<String> {
        let claims = json!({"iss": self.url, "sub": subject, "aud": [landing_zone::identities::AUDIENCE],
            "iat": now, "nbf": now, "exp": now + 600});
        let header = Header { kid: Some(KID.to_owned()), ..Header::new(Algorithm::RS256) };
        Ok(jsonwebtoken::encode(&header, &claims, &self.key)?)
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, discovery: String, keys: String) {
    while let Ok((tcp, _)) = listener.accept().await {
        let (tls, discovery, keys) = (tls.clone(), discovery.clone(), keys.clone());
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(tcp).await else { return };
            let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let asked = request.uri().path().ends_with("/.well-known/openid-configuration");
                let body = if asked { discovery.clone() } else { keys.clone() };
                async move { Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(body)))) }
            });
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
