//! A key pair, its issuer, an identity that trusts it: the exchange, and each way it must fail.

use crate::support::{call, lab_with};
use azure_sim::{FetchError, Issuers, Profile};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

const ISSUER: &str = "https://issuer.test/";

/// What an issuer publishes, by URL.
#[derive(Default)]
struct Published(Mutex<Option<Value>>);

impl Issuers for Published {
    fn get<'a>(
        &'a self,
        url: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Value, FetchError>> + Send + 'a>> {
        Box::pin(async move {
            let keys = self.0.lock().clone().ok_or_else(|| FetchError::Late(url.to_owned()))?;
            match url.ends_with("/keys") {
                true => Ok(keys),
                false => Ok(json!({"issuer": ISSUER, "jwks_uri": format!("{ISSUER}keys")})),
            }
        })
    }
}

fn key() -> (EncodingKey, Value) {
    let pair = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let key = EncodingKey::from_rsa_pem(pair.serialize_pem().as_bytes()).unwrap();
    let mut jwk = Jwk::from_encoding_key(&key, Algorithm::RS256).unwrap();
    jwk.common.key_id = Some("k".into());
    (key, json!({"keys": [jwk]}))
}

#[tokio::test]
async fn every_flaw_has_its_number() {
    let (signer, jwks) = key();
    let (stranger, _) = key();
    let issuers = Arc::new(Published::default());
    *issuers.0.lock() = Some(jwks.clone());
    let lab = lab_with(Profile::Instant, issuers.clone()).await;
    let g = lab.group("g");
    let at = format!("{g}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i");
    let made = lab.ask("PUT", &format!("{at}?api-version=2024-11-30"), Some(&json!({"location": "westus2"})));
    let client = made.body.unwrap()["properties"]["clientId"].as_str().unwrap().to_owned();
    let fic = json!({"properties": {"issuer": ISSUER, "subject": "sa:x", "audiences": ["openshift"]}});
    let made =
        lab.ask("PUT", &format!("{at}/federatedIdentityCredentials/fic?api-version=2024-11-30"), Some(&fic));
    assert_eq!(made.status, 201);

    let now = 1_700_000_000;
    let good = json!({"iss": ISSUER, "sub": "sa:x", "aud": ["openshift"], "exp": now + 600, "nbf": now});
    let sign = |claims: &Value, key: &EncodingKey| {
        let mut h = Header::new(Algorithm::RS256);
        h.kid = Some("k".into());
        jsonwebtoken::encode(&h, claims, key).unwrap()
    };
    let exchange = async |token: String| {
        let form: String = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "client_credentials")
            .append_pair("client_id", &client)
            .append_pair("scope", "https://management.core.windows.net//.default")
            .append_pair("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
            .append_pair("client_assertion", &token)
            .finish();
        let mut c = call("POST", &format!("/{}/oauth2/v2.0/token", lab.world.tenant()), "", None);
        c.body = form.into();
        lab.world.login(&c).await
    };
    let reply = exchange(sign(&good, &signer)).await;
    assert_eq!(reply.status, 200, "{:?}", reply.body);
    let token = reply.body.unwrap()["access_token"].as_str().unwrap().to_owned();
    let refused = lab.ask_as(&token, "GET", &format!("{at}?api-version=2024-11-30"), None);
    assert_eq!(refused.status, 403, "the token is good, the identity has no role");

    let flaws = [
        ("iss", json!("https://other.test/"), 700_211),
        ("aud", json!("elsewhere"), 700_212),
        ("sub", json!("sa:y"), 700_213),
        ("sub", json!("SA:X"), 7_002_138),
        ("exp", json!(now - 1000), 700_024),
    ];
    for (field, value, number) in flaws {
        let mut claims = good.clone();
        claims[field] = value;
        let reply = exchange(sign(&claims, &signer)).await;
        assert_eq!(reply.body.unwrap()["error_codes"][0], number, "{field}");
    }
    let numbers = |r: azure_sim::Reply| r.body.unwrap()["error_codes"][0].as_u64();
    assert_eq!(numbers(exchange(sign(&good, &stranger)).await), Some(700_027));
    assert_eq!(numbers(exchange("junk".into()).await), Some(700_027));
    *issuers.0.lock() = None;
    assert_eq!(numbers(exchange(sign(&good, &signer)).await), Some(50166));
}
