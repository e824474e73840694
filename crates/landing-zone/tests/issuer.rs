//! A cluster's token issuer: an HTTPS server with a discovery document and a key.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

pub struct Issuer {
    pub url: String,
    /// Whom to trust to reach it.
    pub ca: String,
    key: EncodingKey,
}

impl Issuer {
    pub async fn start() -> Issuer {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let tls_key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let chain = vec![CertificateDer::from(made.cert.der().to_vec())];
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, tls_key).unwrap();
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/oidc", listener.local_addr().unwrap().port());
        let pair =
            rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
        let key = EncodingKey::from_rsa_pem(pair.serialize_pem().as_bytes()).unwrap();
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::RS256).unwrap();
        jwk.common.key_id = Some("k".to_owned());
        let discovery = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        let keys = json!({"keys": [jwk]});
        tokio::spawn(async move {
            loop {
                let Ok((tcp, _)) = listener.accept().await else { return };
                let (tls, discovery, keys) = (tls.clone(), discovery.clone(), keys.clone());
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(tcp).await else { return };
                    let service = service_fn(move |r: http::Request<hyper::body::Incoming>| {
                        let known = r.uri().path().ends_with("/openid-configuration");
                        let body = if known { discovery.to_string() } else { keys.to_string() };
                        async move { Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(body)))) }
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Issuer { url, ca: made.cert.pem(), key }
    }

    /// What a service account's pod finds in its token file.
    pub fn token(&self, subject: &str, now: i64) -> String {
        let claims: Value = json!({"iss": self.url, "sub": subject, "aud": ["openshift"],
            "iat": now, "nbf": now, "exp": now + 600});
        let mut header = Header::new(Algorithm::RS256);
        header.kid = Some("k".to_owned());
        jsonwebtoken::encode(&header, &claims, &self.key).unwrap()
    }
}
