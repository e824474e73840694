//! Service-account tokens: ES256, one issuer per cluster, keys that can be rotated.
//!
//! Keys of our own are ES256 rather than RS256: signing is cheap and keys are small. Keys that are given to a cluster
//! ([`Issuer::given`]) may be RSA, as OpenShift's are, and are then named as Kubernetes names them: whoever publishes
//! their key set elsewhere must come to the same key ids. Time is checked against the injected clock, not the JOSE
//! crate's.

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
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot generate a signing key")]
    Generate(#[source] rcgen::Error),
    #[error("cannot use a signing key")]
    Key(#[source] jsonwebtoken::errors::Error),
    #[error("{what} is neither an RSA nor a P-256 key in PEM")]
    Kind { what: &'static str },
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

struct Key {
    kid: String,
    algorithm: Algorithm,
    /// What signs, and where it is kept; public keys only verify.
    private: Option<(Secret, EncodingKey)>,
    decoding: DecodingKey,
    jwk: Value,
}

/// Signs with the first key, verifies with all.
pub struct Issuer {
    url: String,
    keys: Vec<Key>,
    jwks_uri: Option<String>,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kids: Vec<&str> = self.keys.iter().map(|k| k.kid.as_str()).collect();
        f.debug_struct("Issuer").field("url", &self.url).field("keys", &kids).finish()
    }
}

fn load(pem: Secret) -> Result<Key, Error> {
    // Ours are elliptic. What is not was put in its place by somebody: RSA, which is all that Entra ID verifies.
    let Ok(encoding) = EncodingKey::from_ec_pem(pem.expose().as_bytes()) else {
        return given_private(&pem);
    };
    let jwk = Jwk::from_encoding_key(&encoding, Algorithm::ES256).map_err(Error::Key)?;
    let kid = jwk.thumbprint(ThumbprintHash::SHA256).map_err(Error::Key)?;
    key(kid, Algorithm::ES256, jwk, Some((pem, encoding)))
}

fn key(
    kid: String,
    algorithm: Algorithm,
    mut jwk: Jwk,
    private: Option<(Secret, EncodingKey)>,
) -> Result<Key, Error> {
    jwk.common.key_id = Some(kid.clone());
    let decoding = DecodingKey::from_jwk(&jwk).map_err(Error::Key)?;
    let mut jwk = serde_json::to_value(&jwk).unwrap_or_default();
    jwk["use"] = json!("sig");
    jwk["alg"] = json!(format!("{algorithm:?}"));
    Ok(Key { kid, algorithm, private, decoding, jwk })
}

/// A key that somebody else made, named by the digest of its public half as Kubernetes does.
fn given(encoding: Option<(Secret, EncodingKey)>, algorithm: Algorithm, jwk: Jwk) -> Result<Key, Error> {
    let public = spki(&jwk).ok_or(Error::Kind { what: "a key" })?;
    let sum = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &public);
    key(URL_SAFE_NO_PAD.encode(sum.as_ref()), algorithm, jwk, encoding)
}

fn given_private(pem: &Secret) -> Result<Key, Error> {
    let bytes = pem.expose().as_bytes();
    let (encoding, algorithm) = match EncodingKey::from_rsa_pem(bytes) {
        Ok(k) => (k, Algorithm::RS256),
        Err(_) => {
            let wrong = |_| Error::Kind { what: "the service account signing key" };
            (EncodingKey::from_ec_pem(bytes).map_err(wrong)?, Algorithm::ES256)
        }
    };
    let jwk = Jwk::from_encoding_key(&encoding, algorithm).map_err(Error::Key)?;
    given(Some((pem.clone(), encoding)), algorithm, jwk)
}

fn given_public(der: &[u8]) -> Result<Key, Error> {
    let wrong = Error::Kind { what: "a service account public key" };
    let Ok((_, info)) = SubjectPublicKeyInfo::from_der(der) else { return Err(wrong) };
    let b64 = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let (algorithm, jwk) = match info.parsed() {
        Ok(PublicKey::RSA(rsa)) => {
            let trim = |b: &[u8]| b64(&b[b.iter().take_while(|x| **x == 0).count()..]);
            (Algorithm::RS256, json!({"kty": "RSA", "n": trim(rsa.modulus), "e": trim(rsa.exponent)}))
        }
        Ok(PublicKey::EC(point)) if point.data().len() == 65 => {
            let (x, y) = point.data()[1..].split_at(32);
            (Algorithm::ES256, json!({"kty": "EC", "crv": "P-256", "x": b64(x), "y": b64(y)}))
        }
        _ => return Err(wrong),
    };
    let Ok(jwk) = serde_json::from_value(jwk) else { return Err(wrong) };
    given(None, algorithm, jwk)
}

/// DER of the public key: what Kubernetes digests.
fn spki(jwk: &Jwk) -> Option<Vec<u8>> {
    use jsonwebtoken::jwk::AlgorithmParameters;
    fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
        let n = content.len();
        let mut out = vec![tag];
        match n {
            0..=127 => out.push(n as u8),
            128..=255 => out.extend([0x81, n as u8]),
            _ => out.extend([0x82, (n >> 8) as u8, n as u8]),
        }
        out.extend(content);
        out
    }
    let decode = |t: &str| URL_SAFE_NO_PAD.decode(t).ok();
    let bits = |content: &[u8]| wrap(3, &[&[0], content].concat());
    match &jwk.algorithm {
        AlgorithmParameters::RSA(p) => {
            let integer = |t: &str| {
                let bytes = decode(t)?;
                // A number whose first bit is set would be read as negative.
                let sign: &[u8] = if bytes.first().is_some_and(|b| *b > 127) { &[0] } else { &[] };
                Some(wrap(2, &[sign, &bytes].concat()))
            };
            let key = wrap(0x30, &[integer(&p.n)?, integer(&p.e)?].concat());
            const RSA: &[u8] = &[0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 1, 1, 5, 0];
            Some(wrap(0x30, &[RSA.to_vec(), bits(&key)].concat()))
        }
        AlgorithmParameters::EllipticCurve(p) => {
            let point = [vec![4], decode(&p.x)?, decode(&p.y)?].concat();
            const P256: &[u8] = &[
                0x30, 19, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1,
                7,
            ];
            Some(wrap(0x30, &[P256.to_vec(), bits(&point)].concat()))
        }
        _ => None,
    }
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
        Ok(Issuer { url: url.to_owned(), keys, jwks_uri: None })
    }

    /// An issuer whose keys are somebody else's: one that signs, and PEM files of public keys that verify. The public
    /// half of the first is among them as often as not and counts once.
    pub fn given(
        url: &str,
        signing: &Secret,
        public: &[String],
        jwks_uri: Option<String>,
    ) -> Result<Issuer, Error> {
        let mut keys = vec![given_private(signing)?];
        for file in public {
            for pem in Pem::iter_from_buffer(file.as_bytes()) {
                let pem = pem.map_err(|_| Error::Kind { what: "a service account public key" })?;
                let key = given_public(&pem.contents)?;
                if keys.iter().all(|k| k.kid != key.kid) {
                    keys.push(key);
                }
            }
        }
        Ok(Issuer { url: url.to_owned(), keys, jwks_uri })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// All keys, for keeping them.
    pub fn keys(&self) -> Vec<Secret> {
        self.keys.iter().filter_map(|k| Some(k.private.as_ref()?.0.clone())).collect()
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
        let mut algorithms: Vec<String> = self.keys.iter().map(|k| format!("{:?}", k.algorithm)).collect();
        algorithms.dedup();
        json!({
            "issuer": self.url,
            "jwks_uri": self.jwks_uri.clone()
                .unwrap_or_else(|| format!("{}/openid/v1/jwks", self.url.trim_end_matches('/'))),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        })
    }

    pub fn sign(&self, claims: &Claims) -> Result<String, Error> {
        let key = self.keys.first().ok_or_else(|| Error::UnknownKey(String::new()))?;
        let (_, encoding) = key.private.as_ref().ok_or_else(|| Error::UnknownKey(key.kid.clone()))?;
        let header = Header { kid: Some(key.kid.clone()), ..Header::new(key.algorithm) };
        jsonwebtoken::encode(&header, claims, encoding).map_err(Error::Sign)
    }

    /// Checks signature, issuer, time and audience. Whether bound objects still exist is the caller's to ask.
    pub fn verify(&self, token: &str, audiences: &[String], now: i64) -> Result<Claims, Error> {
        let header = jsonwebtoken::decode_header(token).map_err(Error::Invalid)?;
        let kid = header.kid.unwrap_or_default();
        let key = self.keys.iter().find(|k| k.kid == kid).ok_or(Error::UnknownKey(kid))?;
        let mut v = Validation::new(key.algorithm);
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

    #[test]
    fn keys_of_others_sign_and_verify_under_the_names_kubernetes_gives_them() {
        let aud = ["api".to_owned()];
        let rsa = KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
        let put = Issuer::new("https://x", vec![Secret::new(rsa.serialize_pem())]).unwrap();
        assert_eq!(put.keys[0].algorithm, Algorithm::RS256, "a key that was put in the place of ours");
        assert!(Issuer::new("https://x", vec![Secret::new("junk".to_owned())]).is_err());
        let ec = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        for (new, old) in [(&rsa, &ec), (&ec, &rsa)] {
            let pems = format!("{}{}", new.public_key_pem(), old.public_key_pem());
            let signing = Secret::new(new.serialize_pem());
            let i = Issuer::given("https://x", &signing, &[pems], Some("https://k/jwks".into())).unwrap();
            let jwks = i.jwks();
            assert_eq!(jwks["keys"].as_array().unwrap().len(), 2, "its own public half counts once");
            let digest = |k: &KeyPair| {
                let der = rcgen::PublicKeyData::subject_public_key_info(k);
                let sum = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &der);
                URL_SAFE_NO_PAD.encode(sum.as_ref())
            };
            assert_eq!(jwks["keys"][0]["kid"], digest(new));
            assert_eq!(jwks["keys"][1]["kid"], digest(old));
            i.verify(&i.sign(&claims(100)).unwrap(), &aud, 50).unwrap();
            assert_eq!(i.discovery()["jwks_uri"], "https://k/jwks");
            // What the old key has signed is still good.
            let before = Issuer::given("https://x", &Secret::new(old.serialize_pem()), &[], None).unwrap();
            i.verify(&before.sign(&claims(100)).unwrap(), &aud, 50).unwrap();
            assert!(matches!(
                before.verify(&i.sign(&claims(100)).unwrap(), &aud, 50),
                Err(Error::UnknownKey(_))
            ));
        }
        assert!(Issuer::given("https://x", &Secret::new("junk"), &[], None).is_err());
    }
}
