//! The whole federated chain through sockets: a key pair, an HTTPS issuer, an identity, the exchange, a call; and
//! each way it must fail.

use crate::client::ask;
use azure_sim::{AzureSim, Config};
use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use parking_lot::Mutex;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

struct Issuer {
    url: String,
    ca: String,
    keys: Arc<Mutex<Value>>,
    named: Arc<Mutex<Option<String>>>,
    task: tokio::task::JoinHandle<()>,
}

async fn issuer() -> Issuer {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let ca = made.cert.pem();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let chain = vec![CertificateDer::from(made.cert.der().to_vec())];
    let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let tls = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/oidc", listener.local_addr().unwrap().port());
    let keys = Arc::new(Mutex::new(json!({"keys": []})));
    let named = Arc::new(Mutex::new(None));
    let (k, n, own) = (keys.clone(), named.clone(), url.clone());
    let task = tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let (tls, k, n, own) = (tls.clone(), k.clone(), n.clone(), own.clone());
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(tcp).await else { return };
                let service = service_fn(move |req: http::Request<hyper::body::Incoming>| {
                    let body = match req.uri().path() {
                        "/oidc/.well-known/openid-configuration" => {
                            let issuer = n.lock().clone().unwrap_or_else(|| own.clone());
                            json!({"issuer": issuer, "jwks_uri": format!("{own}/keys")})
                        }
                        _ => k.lock().clone(),
                    };
                    async move {
                        Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(body.to_string()))))
                    }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    Issuer { url, ca, keys, named, task }
}

fn key(kid: &str) -> (EncodingKey, Value) {
    let pair = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let key = EncodingKey::from_rsa_pem(pair.serialize_pem().as_bytes()).unwrap();
    let mut jwk = Jwk::from_encoding_key(&key, Algorithm::RS256).unwrap();
    jwk.common.key_id = Some(kid.into());
    (key, json!({"keys": [jwk]}))
}

#[tokio::test]
async fn the_federated_chain_and_each_break_of_it() {
    let issuer = issuer().await;
    let sim = AzureSim::start(Config { trust: vec![issuer.ca.clone()], ..Config::local(4) }).await.unwrap();
    let (signer, jwks) = key("k1");
    *issuer.keys.lock() = jwks;
    let base = sim.arm_url();
    let owner = format!("Bearer {}", sim.world().owner_token().await);
    let arm = async |bearer: &str, method: &str, path: &str, body: Value| {
        ask(sim.ca_pem(), method, &format!("{base}{path}"), &[("authorization", bearer)], body.to_string())
            .await
    };
    let g = format!("/subscriptions/{}/resourceGroups/g", sim.creds().subscription_id);
    assert_eq!(
        arm(&owner, "PUT", &format!("{g}?api-version=2021-04-01"), json!({"location": "westus2"}))
            .await
            .status,
        201
    );
    let identity = format!("{g}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i");
    let made =
        arm(&owner, "PUT", &format!("{identity}?api-version=2024-11-30"), json!({"location": "westus2"}))
            .await
            .json();
    let (client, object) = (
        made["properties"]["clientId"].as_str().unwrap(),
        made["properties"]["principalId"].as_str().unwrap(),
    );
    let fic = json!({"properties": {"issuer": issuer.url, "subject": "system:serviceaccount:a:b", "audiences": ["openshift"]}});
    let url = format!("{identity}/federatedIdentityCredentials/fic?api-version=2024-11-30");
    assert_eq!(arm(&owner, "PUT", &url, fic).await.status, 201);
    let now = jiff_now(&sim);
    let good = json!({"iss": issuer.url, "sub": "system:serviceaccount:a:b", "aud": "openshift", "exp": now + 600, "iat": now, "nbf": now});
    let exchange = async |claims: &Value, key: &EncodingKey, kid: &str| {
        let mut h = Header::new(Algorithm::RS256);
        h.kid = Some(kid.into());
        let assertion = jsonwebtoken::encode(&h, claims, key).unwrap();
        let form = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "client_credentials")
            .append_pair("client_id", client)
            .append_pair("scope", "https://management.core.windows.net//.default")
            .append_pair("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
            .append_pair("client_assertion", &assertion)
            .finish();
        let at = format!("{base}/{}/oauth2/v2.0/token", sim.creds().tenant_id);
        ask(sim.ca_pem(), "POST", &at, &[("content-type", "application/x-www-form-urlencoded")], form)
            .await
            .json()
    };
    let token = exchange(&good, &signer, "k1").await;
    let bearer = format!("Bearer {}", token["access_token"].as_str().unwrap_or_else(|| panic!("{token}")));
    assert_eq!(arm(&bearer, "GET", &format!("{g}?api-version=2021-04-01"), json!({})).await.status, 403);
    sim.world().assign(object, "acdd72a7-3385-48ef-bd42-f606fba81ae7", &g);
    assert_eq!(arm(&bearer, "GET", &format!("{g}?api-version=2021-04-01"), json!({})).await.status, 200);

    let other = format!("{}/", issuer.url);
    let flaws = [
        ("iss", json!(other), 700_211),
        ("aud", json!("api://AzureADTokenExchange"), 700_212),
        ("sub", json!("system:serviceaccount:a:c"), 700_213),
        ("sub", json!("System:serviceaccount:a:b"), 7_002_138),
        ("exp", json!(now - 1000), 700_024),
        ("nbf", json!(now + 1000), 700_024),
    ];
    for (field, value, number) in flaws {
        let mut claims = good.clone();
        claims[field] = value;
        let refused = exchange(&claims, &signer, "k1").await;
        assert_eq!(refused["error_codes"][0], number, "{field}: {refused}");
        assert!(refused["error_description"].as_str().unwrap().starts_with(&format!("AADSTS{number}: ")));
    }
    // The issuer rotates: its old key is worth nothing, its new one is fetched.
    let (second, jwks) = key("k2");
    *issuer.keys.lock() = jwks;
    assert_eq!(exchange(&good, &signer, "k1").await["error_codes"][0], 700_027);
    assert_eq!(
        exchange(&good, &signer, "k2").await["error_codes"][0],
        700_027,
        "the name of a key is not the key"
    );
    assert!(exchange(&good, &second, "k2").await["access_token"].is_string());
    // An issuer that calls itself otherwise, then one that is gone.
    *issuer.named.lock() = Some("https://elsewhere.test".into());
    assert_eq!(exchange(&good, &second, "k2").await["error_codes"][0], 50166);
    issuer.task.abort();
    let _ = issuer.task.await;
    assert_eq!(exchange(&good, &second, "k2").await["error_codes"][0], 50166);
}

fn jiff_now(sim: &AzureSim) -> i64 {
    sim.world().now().as_second()
}
