//! Service-account tokens: ES256, one issuer per cluster, keys that can be rotated.
//!
//! ES256 rather than RS256: signing is cheap, keys are small, and the pure-Rust RSA crate has an open timing
//! advisory. Time is checked against the injected clock, not the JOSE crate's.

use crate::User;
use crate::pki::Secret;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use rcgen::KeyPair;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot generate a signing key")]
    Generate(#[source] rcgen::Error),
    #[error("cannot use a signing key")]
    Key(#[source] jsonwebtoken::errors::Error),
    #[error("cannot sign a token")]
    Sign(#[source] jsonwebtoken::errors::Error),
    #[error("the token is malformed or its signature does not verify")]
    Invalid(#[source] jsonwebtoken::errors::Error),
    #[error("the token was issued by {0:?}, not by this cluster")]
    Issuer(String),
    #[error("the token's key {0:?} is not one of this cluster's")]
    UnknownKey(String),
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYet,
    #[error("the token's audiences {got:?} include none of {wanted:?}")]
    Audience { got: Vec<String>, wanted: Vec<String> },
    #[error("the token does not name a service account")]
    NotServiceAccount,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// The `kubernetes.io` claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Private {
    pub namespace: String,
    pub serviceaccount: Reference,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub iss: String,
    pub sub: String,
    pub aud: Vec<String>,
    pub exp: i64,
    pub iat: i64,
    pub nbf: i64,
    pub jti: String,
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Private,
}

impl Claims {
    /// The caller a verified token stands for.
    pub fn user(&self) -> User {
        let k = &self.kubernetes;
        let mut u = User::service_account(&k.namespace, &k.serviceaccount.name);
        u.uid = k.serviceaccount.uid.clone();
        let mut extra = |key: &str, v: String| {
            u.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![v]);
        };
        extra("credential-id", format!("JTI={}", self.jti));
        for (kind, r) in [("pod", &k.pod), ("node", &k.node)] {
            if let Some(r) = r {
                extra(&format!("{kind}-name"), r.name.clone());
                if !r.uid.is_empty() {
                    extra(&format!("{kind}-uid"), r.uid.clone());
                }
            }
        }
        u
    }
}

struct SigningKey {
    kid: String,
    pem: Secret,
    encoding: EncodingKey,
    decoding: DecodingKey,
    jwk: Value,
}

/// Signs with the first key, verifies with all.
pub struct Issuer {
    url: String,
    keys: Vec<SigningKey>,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kids: Vec<&str> = self.keys.iter().map(|k| k.kid.as_str()).collect();
        f.debug_struct("Issuer").field("url", &self.url).field("keys", &kids).finish()
    }
}

fn load(pem: Secret) -> Result<SigningKey, Error> {
    let encoding = EncodingKey::from_ec_pem(pem.expose().as_bytes()).map_err(Error::Key)?;
    let mut jwk = Jwk::from_encoding_key(&encoding, Algorithm::ES256).map_err(Error::Key)?;
    let kid = jwk.thumbprint(ThumbprintHash::SHA256).map_err(Error::Key)?;
    jwk.common.key_id = Some(kid.clone());
    let decoding = DecodingKey::from_jwk(&jwk).map_err(Error::Key)?;
    let mut jwk = serde_json::to_value(&jwk).unwrap_or_default();
    jwk["use"] = json!("sig");
    jwk["alg"] = json!("ES256");
    Ok(SigningKey { kid, pem, encoding, decoding, jwk })
}

/// A new private key, PEM.
pub fn generate_key() -> Result<Secret, Error> {
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(Error::Generate)?;
    Ok(Secret::new(key.serialize_pem()))
}

impl Issuer {
    /// `keys`: the signing key first, then older ones that still verify.
    pub fn new(url: &str, keys: Vec<Secret>) -> Result<Issuer, Error> {
        let keys = keys.into_iter().map(load).collect::<Result<_, _>>()?;
        Ok(Issuer { url: url.to_owned(), keys })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// All keys, for keeping them.
    pub fn keys(&self) -> Vec<Secret> {
        self.keys.iter().map(|k| k.pem.clone()).collect()
    }

    /// Puts a new key first; older ones go on verifying until retired.
    pub fn rotate(&mut self) -> Result<(), Error> {
        self.keys.insert(0, load(generate_key()?)?);
        Ok(())
    }

    /// Forgets all keys but the signing one.
    pub fn retire_old(&mut self) {
        self.keys.truncate(1);
    }

    pub fn jwks(&self) -> Value {
        json!({"keys": self.keys.iter().map(|k| k.jwk.clone()).collect::<Vec<_>>()})
    }

    pub fn discovery(&self) -> Value {
        json!({
            "issuer": self.url,
            "jwks_uri": format!("{}/openid/v1/jwks", self.url.trim_end_matches('/')),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    pub fn sign(&self, claims: &Claims) -> Result<String, Error> {
        let key = self.keys.first().ok_or_else(|| Error::UnknownKey(String::new()))?;
        let header = Header { kid: Some(key.kid.clone()), ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, claims, &key.encoding).map_err(Error::Sign)
    }

    /// Checks signature, issuer, time and audience. Whether bound objects still exist is the caller's to ask.
    pub fn verify(&self, token: &str, audiences: &[String], now: i64) -> Result<Claims, Error> {
        let header = jsonwebtoken::decode_header(token).map_err(Error::Invalid)?;
        let kid = header.kid.unwrap_or_default();
        let key = self.keys.iter().find(|k| k.kid == kid).ok_or(Error::UnknownKey(kid))?;
        let mut v = Validation::new(Algorithm::ES256);
        v.validate_exp = false;
        v.validate_nbf = false;
        v.validate_aud = false;
        v.required_spec_claims.clear();
        let claims = jsonwebtoken::decode::<Claims>(token, &key.decoding, &v).map_err(Error::Invalid)?.claims;
        if claims.iss != self.url {
            return Err(Error::Issuer(claims.iss));
        }
        if claims.exp <= now {
            return Err(Error::Expired);
        }
        if claims.nbf > now + 60 {
            return Err(Error::NotYet);
        }
        if !claims.aud.iter().any(|a| audiences.contains(a)) {
            return Err(Error::Audience { got: claims.aud, wanted: audiences.to_vec() });
        }
        let k = &claims.kubernetes;
        if claims.sub != format!("system:serviceaccount:{}:{}", k.namespace, k.serviceaccount.name) {
            return Err(Error::NotServiceAccount);
        }
        Ok(claims)
    }
}

/// The unverified issuer of a token: which verifier to ask. Never more than a hint.
pub fn unverified_issuer(token: &str) -> Option<String> {
    let payload = token.split('.').nth(1)?;
    let bytes = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let v: Value = serde_json::from_slice(&bytes).ok()?;
    v["iss"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(exp: i64) -> Claims {
        Claims {
            iss: "https://x".into(),
            sub: "system:serviceaccount:ns:sa".into(),
            aud: vec!["api".into()],
            exp,
            iat: 0,
            nbf: 0,
            jti: "j".into(),
            kubernetes: Private {
                namespace: "ns".into(),
                serviceaccount: Reference { name: "sa".into(), uid: "u".into() },
                pod: Some(Reference { name: "p".into(), uid: "pu".into() }),
                ..Private::default()
            },
        }
    }

    #[test]
    fn tokens_verify_until_they_should_not() {
        let mut i = Issuer::new("https://x", vec![generate_key().unwrap()]).unwrap();
        let aud = ["api".to_owned()];
        let t = i.sign(&claims(100)).unwrap();
        let c = i.verify(&t, &aud, 50).unwrap();
        assert_eq!(c.user().name, "system:serviceaccount:ns:sa");
        assert_eq!(c.user().extra["authentication.kubernetes.io/pod-name"], ["p"]);
        assert!(matches!(i.verify(&t, &aud, 100), Err(Error::Expired)));
        assert!(matches!(i.verify(&t, &["other".into()], 50), Err(Error::Audience { .. })));
        assert!(matches!(i.verify("junk", &aud, 50), Err(Error::Invalid(_))));
        let mut forged = t.clone().into_bytes();
        let n = forged.len() - 2;
        forged[n] = if forged[n] == b'A' { b'B' } else { b'A' };
        assert!(i.verify(std::str::from_utf8(&forged).unwrap(), &aud, 50).is_err());
        i.rotate().unwrap();
        assert_eq!(i.jwks()["keys"].as_array().unwrap().len(), 2);
        i.verify(&t, &aud, 50).unwrap();
        i.retire_old();
        assert!(matches!(i.verify(&t, &aud, 50), Err(Error::UnknownKey(_))));
        let other = Issuer::new("https://y", i.keys()).unwrap();
        let t = i.sign(&claims(100)).unwrap();
        assert!(matches!(other.verify(&t, &aud, 50), Err(Error::Issuer(_))));
        assert_eq!(unverified_issuer(&t).as_deref(), Some("https://x"));
        assert!(!format!("{i:?}").contains("PRIVATE"));
    }
}
