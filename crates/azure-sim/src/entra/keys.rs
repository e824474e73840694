//! Signing keys, and what a bearer token is worth.

use crate::time::Dial;
use crate::wire::Fault;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use jiff::Timestamp;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Validation};
use parking_lot::{Mutex, MutexGuard};
use rcgen::{KeyPair, PKCS_RSA_SHA256, RsaKeySize, SigningKey};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub object_id: String,
    pub client_id: String,
    pub tenant: String,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot make or use a signing key")]
    Generate(#[source] rcgen::Error),
    #[error("cannot use a signing key")]
    Use(#[source] jsonwebtoken::errors::Error),
}

struct Key {
    kid: String,
    pem: String,
    pair: KeyPair,
    decoding: DecodingKey,
    jwk: Value,
}

/// Signs with the newest key, verifies with all.
///
/// Making an RSA key takes longer than everything else at the start, so the first is made by a thread; whoever needs
/// it first waits.
pub struct Keys {
    ring: Arc<Ring>,
    /// What tokens are dated by; see [`crate::time`]. Without one, by the time that is handed in.
    dial: Option<Arc<Dial>>,
}

/// The keys themselves; forks of a world share them.
struct Ring {
    keys: Mutex<Vec<Key>>,
    first: Mutex<Option<JoinHandle<Result<Key, KeyError>>>>,
    /// Tokens that verified: signature checks cost more than anything else a request does.
    verified: Mutex<HashMap<String, Arc<Value>>>,
}

/// How far the clock had been moved ahead when a token was issued, in milliseconds.
const JUMPED: &str = "xms_sim_jumped";

const MAX_VERIFIED: usize = 1024;
const MAX_TOKEN: usize = 16 << 10;

/// What Resource Manager accepts as audience.
const AUDIENCES: [&str; 4] = [
    "https://management.azure.com",
    "https://management.core.windows.net",
    "https://management.azure.com/",
    "https://management.core.windows.net/",
];

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

fn generate() -> Result<Key, KeyError> {
    let pair = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).map_err(KeyError::Generate)?;
    read(pair.serialize_pem())
}

fn read(pem: String) -> Result<Key, KeyError> {
    let pair = KeyPair::from_pem(&pem).map_err(KeyError::Generate)?;
    let encoding = EncodingKey::from_rsa_pem(pem.as_bytes()).map_err(KeyError::Use)?;
    let mut jwk = Jwk::from_encoding_key(&encoding, Algorithm::RS256).map_err(KeyError::Use)?;
    let kid = jwk.thumbprint(jsonwebtoken::jwk::ThumbprintHash::SHA256).map_err(KeyError::Use)?;
    jwk.common.key_id = Some(kid.clone());
    let decoding = DecodingKey::from_jwk(&jwk).map_err(KeyError::Use)?;
    let mut jwk = serde_json::to_value(&jwk).unwrap_or_default();
    jwk["use"] = json!("sig");
    jwk["x5t"] = json!(kid);
    if let Some(o) = jwk.as_object_mut() {
        o.remove("alg");
    }
    Ok(Key { kid, pem, pair, decoding, jwk })
}

impl Keys {
    /// Begins to make a key.
    pub fn generate() -> Keys {
        Keys::of(Ring {
            keys: Mutex::new(Vec::new()),
            first: Mutex::new(Some(std::thread::spawn(generate))),
            verified: Mutex::new(HashMap::new()),
        })
    }

    /// Keys of a former life, the newest first.
    pub fn remembered(pems: Vec<String>) -> Result<Keys, KeyError> {
        let keys: Vec<Key> = pems.into_iter().map(read).collect::<Result<_, _>>()?;
        let verified = Mutex::new(HashMap::new());
        Ok(Keys::of(Ring { keys: Mutex::new(keys), first: Mutex::new(None), verified }))
    }

    fn of(ring: Ring) -> Keys {
        Keys { ring: Arc::new(ring), dial: None }
    }

    /// The same keys in a world with this clock.
    pub fn by(&self, dial: Arc<Dial>) -> Keys {
        Keys { ring: self.ring.clone(), dial: Some(dial) }
    }

    /// The clock of those who look at tokens.
    pub fn wall(&self, now: Timestamp) -> Timestamp {
        self.dial.as_ref().map_or(now, |d| d.wall())
    }

    /// How long a token lives that lives `seconds` in Azure.
    pub fn life(&self, seconds: i64) -> i64 {
        self.dial.as_ref().map_or(seconds, |d| d.token_life(seconds))
    }

    /// Notes in a token how far the clock had been moved when it was issued.
    pub fn mark(&self, claims: &mut Value) {
        if let Some(jumped) = self.dial.as_ref().map(|d| d.jumped()).filter(|j| *j != 0) {
            claims[JUMPED] = jumped.into();
        }
    }

    /// The time by which a token's dates are judged, in seconds: the wall's, and what the clock was moved since.
    fn judged_at(&self, claims: &Value, now: Timestamp) -> i64 {
        let Some(dial) = &self.dial else { return now.as_second() };
        let since = dial.jumped().saturating_sub(claims[JUMPED].as_i64().unwrap_or(0));
        dial.wall().as_second().saturating_add(since / 1_000)
    }

    fn keys(&self) -> MutexGuard<'_, Vec<Key>> {
        let mut first = self.ring.first.lock();
        let mut keys = self.ring.keys.lock();
        if let Some(thread) = first.take() {
            match thread.join() {
                Ok(Ok(key)) => keys.push(key),
                Ok(Err(error)) => tracing::error!(%error, "cannot make a signing key"),
                Err(_) => tracing::error!("the thread that makes the signing key died"),
            }
        }
        keys
    }

    /// For remembering them.
    pub fn pems(&self) -> Vec<String> {
        self.keys().iter().map(|k| k.pem.clone()).collect()
    }

    /// A new key signs from now on; old ones still verify.
    pub fn rotate(&self) -> Result<(), KeyError> {
        let new = generate()?;
        self.keys().insert(0, new);
        Ok(())
    }

    /// Only the newest key counts any more.
    pub fn forget_old(&self) {
        self.keys().truncate(1);
        self.ring.verified.lock().clear();
    }

    pub fn jwks(&self) -> Value {
        json!({"keys": self.keys().iter().map(|k| k.jwk.clone()).collect::<Vec<_>>()})
    }

    pub fn sign(&self, claims: &Value) -> Result<String, KeyError> {
        let keys = self.keys();
        let Some(key) = keys.first() else { return Ok(String::new()) };
        let header = json!({"typ": "JWT", "alg": "RS256", "x5t": key.kid, "kid": key.kid});
        let [header, claims] = [&header, claims].map(|v| URL_SAFE_NO_PAD.encode(v.to_string()));
        let signed = format!("{header}.{claims}");
        // By the key that is at hand: jsonwebtoken reads and checks it anew for every signature.
        let signature = key.pair.sign(signed.as_bytes()).map_err(KeyError::Generate)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The claims of a token whose signature is ours.
    fn claims(&self, token: &str) -> Option<Arc<Value>> {
        if let Some(c) = self.ring.verified.lock().get(token) {
            return Some(c.clone());
        }
        let header = jsonwebtoken::decode_header(token).ok()?;
        if header.alg != Algorithm::RS256 {
            return None;
        }
        let kid = header.kid?;
        let keys = self.keys();
        let key = keys.iter().find(|k| k.kid == kid)?;
        let claims: Value =
            jsonwebtoken::decode(token, &key.decoding, &unchecked(Algorithm::RS256)).ok()?.claims;
        let claims = Arc::new(claims);
        let mut kept = self.ring.verified.lock();
        if kept.len() >= MAX_VERIFIED {
            kept.clear();
        }
        kept.insert(token.to_owned(), claims.clone());
        Some(claims)
    }

    /// The bearer of a token for some other service.
    pub fn authenticate_for(
        &self,
        header: Option<&str>,
        tenant: &str,
        audiences: &[&str],
        now: Timestamp,
    ) -> Option<Caller> {
        let token = header?.strip_prefix("Bearer ").filter(|t| t.len() <= MAX_TOKEN)?;
        let claims = self.claims(token)?;
        let text = |c: &str| claims[c].as_str().unwrap_or_default().to_owned();
        let audience = text("aud");
        let at = self.judged_at(&claims, now);
        let in_time =
            at < claims["exp"].as_i64()? && at.saturating_add(300) >= claims["nbf"].as_i64().unwrap_or(0);
        let fits = audiences.contains(&audience.trim_end_matches('/')) && in_time && text("tid") == tenant;
        fits.then(|| Caller { object_id: text("oid"), client_id: text("appid"), tenant: text("tid") })
    }

    /// The bearer of a token for Resource Manager.
    pub fn authenticate(
        &self,
        header: Option<&str>,
        tenant: &str,
        own: &str,
        now: Timestamp,
    ) -> Result<Caller, Fault> {
        let Some(header) = header else {
            return Err(refuse(
                arm::code::AUTHENTICATION_FAILED,
                "Authentication failed. The 'Authorization' header is missing.",
                own,
                tenant,
            ));
        };
        let invalid = |why: &str| refuse(arm::code::INVALID_AUTHENTICATION_TOKEN, why, own, tenant);
        let scheme = header.get(..7).filter(|s| s.eq_ignore_ascii_case("Bearer "));
        let token = scheme
            .and_then(|_| header.get(7..))
            .map(str::trim)
            .filter(|t| !t.is_empty() && t.len() <= MAX_TOKEN);
        let Some(token) = token else {
            return Err(refuse(
                arm::code::AUTHENTICATION_FAILED,
                "Authentication failed. The 'Authorization' header is provided in an invalid format.",
                own,
                tenant,
            ));
        };
        let Some(claims) = self.claims(token) else { return Err(invalid("The access token is invalid.")) };
        let audience = claims["aud"].as_str().unwrap_or_default();
        let known = AUDIENCES.contains(&audience) || audience.trim_end_matches('/') == own;
        if !known {
            return Err(invalid(&format!(
                "The access token has been obtained for wrong audience or resource '{audience}'. It should exactly match with one of the allowed audiences '{}'.",
                AUDIENCES.join("','")
            )));
        }
        let (from, until) = (claims["nbf"].as_i64().unwrap_or(0), claims["exp"].as_i64().unwrap_or(0));
        let at = self.judged_at(&claims, now);
        if at >= until {
            return Err(refuse(
                arm::code::EXPIRED_AUTHENTICATION_TOKEN,
                "The access token expiry time is before the current time.",
                own,
                tenant,
            ));
        }
        if at.saturating_add(300) < from {
            return Err(invalid("The access token is not yet valid."));
        }
        if claims["tid"].as_str() != Some(tenant) {
            return Err(refuse(
                arm::code::INVALID_AUTHENTICATION_TOKEN_TENANT,
                "The access token is from the wrong issuer. It must match the tenant associated with this subscription.",
                own,
                tenant,
            ));
        }
        let text = |c: &str| claims[c].as_str().unwrap_or_default().to_owned();
        Ok(Caller { object_id: text("oid"), client_id: text("appid"), tenant: text("tid") })
    }
}

fn refuse(code: &str, why: &str, own: &str, tenant: &str) -> Fault {
    let login = if own.contains("azure.com") { "https://login.microsoftonline.com" } else { own };
    let challenge = format!(
        "Bearer authorization_uri=\"{login}/{tenant}\", error=\"invalid_token\", error_description=\"{why}\""
    );
    Fault::gateway(StatusCode::UNAUTHORIZED, code, why).header("www-authenticate", challenge)
}

/// Only the signature; claims are checked by us, against our clock.
pub fn unchecked(alg: Algorithm) -> Validation {
    let mut v = Validation::new(alg);
    v.validate_exp = false;
    v.validate_aud = false;
    v.validate_nbf = false;
    v.required_spec_claims.clear();
    v
}

/// The claims and header of a token that nobody verified yet.
pub fn peek(token: &str) -> Option<(Value, Value)> {
    let mut parts = token.split('.');
    let mut read = || -> Option<Value> {
        let bytes = URL_SAFE_NO_PAD.decode(parts.next()?.trim_end_matches('=')).ok()?;
        serde_json::from_slice(&bytes).ok()
    };
    Some((read()?, read()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static KEYS: LazyLock<Keys> = LazyLock::new(Keys::generate);
    const NOW: i64 = 1_700_000_000;

    fn ask(claims: &Value) -> Result<Caller, String> {
        check(&format!("Bearer {}", KEYS.sign(claims).unwrap()))
    }

    fn check(header: &str) -> Result<Caller, String> {
        let now = Timestamp::from_second(NOW).unwrap();
        KEYS.authenticate(Some(header), "t", "https://localhost:1", now).map_err(|f| f.detail.code)
    }

    fn good() -> Value {
        json!({"aud": "https://management.azure.com/", "nbf": NOW - 5, "exp": NOW + 5, "tid": "t", "oid": "o", "appid": "a"})
    }

    #[test]
    fn each_flaw_has_its_code() {
        assert_eq!(ask(&good()).unwrap().object_id, "o");
        let with = |k: &str, v: Value| {
            let mut c = good();
            c[k] = v;
            ask(&c).unwrap_err()
        };
        assert_eq!(with("aud", json!("https://vault.azure.net")), "InvalidAuthenticationToken");
        assert_eq!(with("exp", json!(NOW)), "ExpiredAuthenticationToken");
        assert_eq!(with("nbf", json!(NOW + 1000)), "InvalidAuthenticationToken");
        assert_eq!(with("tid", json!("u")), "InvalidAuthenticationTokenTenant");
        let other = Keys::generate().sign(&good()).unwrap();
        assert_eq!(check(&format!("Bearer {other}")).unwrap_err(), "InvalidAuthenticationToken");
        let own = KEYS.sign(&good()).unwrap();
        let none = format!(
            "{}.{}.",
            URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#),
            own.split('.').nth(1).unwrap()
        );
        assert_eq!(check(&format!("Bearer {none}")).unwrap_err(), "InvalidAuthenticationToken");
        assert_eq!(check("Basic x").unwrap_err(), "AuthenticationFailed");
        let now = Timestamp::from_second(NOW).unwrap();
        assert_eq!(KEYS.authenticate(None, "t", "x", now).unwrap_err().status, 401);
    }

    #[test]
    fn old_keys_still_verify() {
        let keys = Keys::generate();
        let token = keys.sign(&good()).unwrap();
        keys.rotate().unwrap();
        let now = Timestamp::from_second(NOW).unwrap();
        assert!(keys.authenticate(Some(&format!("Bearer {token}")), "t", "x", now).is_ok());
        assert_eq!(keys.jwks()["keys"].as_array().unwrap().len(), 2);
    }

    static GOOD: LazyLock<String> = LazyLock::new(|| KEYS.sign(&good()).unwrap());

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// Whatever is changed in a good token, it is no longer one.
        #[test]
        fn a_changed_token_is_refused(at in any::<prop::sample::Index>(), with in "[A-Za-z0-9_.-]", cut in any::<prop::sample::Index>()) {
            let token = GOOD.as_str();
            let i = at.index(token.len());
            let mut changed = token.to_owned();
            changed.replace_range(i..=i, &with);
            // The last letter of a part holds bits that are not used: those may differ.
            let bits = |t: &str| t.split('.').map(|p| URL_SAFE_NO_PAD.decode(p).ok()).collect::<Vec<_>>();
            let same = bits(&changed) == bits(token);
            let lax = |t: &str| t.split('.').any(|p| URL_SAFE_NO_PAD.decode(p).is_err());
            if changed != token && !same && !lax(&changed) {
                let header = format!("Bearer {changed}");
                prop_assert!(check(&header).is_err());
            }
            let _ = check(&format!("Bearer {changed}"));
            let shorter = &token[..cut.index(token.len())];
            let header = format!("Bearer {shorter}");
            prop_assert!(check(&header).is_err());
        }
    }

    proptest! {
        #[test]
        fn junk_is_refused(s in "\\PC{0,80}") {
            prop_assert!(check(&s).is_err());
            let _ = peek(&s);
        }
    }
}
