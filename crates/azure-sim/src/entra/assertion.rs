//! Signed assertions instead of secrets: by a registered certificate, or by a foreign issuer.

use crate::entra::error::Refusal;
use crate::entra::fetch::Issuers;
use crate::entra::keys::{peek, unchecked};
use crate::state::{App, FederatedCredential, PrincipalKind, Record, State};
use jiff::Timestamp;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;

/// NumericDate, which some clients write with a fraction.
fn date(v: &Value) -> Option<i64> {
    v.as_i64().or_else(|| v.as_f64().map(|f| f as i64))
}

const SKEW: i64 = 300;

fn in_time(claims: &Value, now: Timestamp) -> Result<(), Refusal> {
    let now_s = now.as_second();
    let until = date(&claims["exp"]).ok_or_else(|| Refusal::window(now))?;
    let from = date(&claims["nbf"]).unwrap_or(i64::MIN + SKEW);
    if now_s >= until.saturating_add(SKEW) || now_s < from.saturating_sub(SKEW) {
        return Err(Refusal::window(now));
    }
    Ok(())
}

fn verifies(token: &str, key: &DecodingKey, algs: &[Algorithm]) -> bool {
    let Ok(header) = jsonwebtoken::decode_header(token) else { return false };
    algs.contains(&header.alg) && jsonwebtoken::decode::<Value>(token, key, &unchecked(header.alg)).is_ok()
}

/// The key of a certificate, and whether it is good now. It ends by the world's clock, which people move to see it end; it
/// begins by the one that is ahead, because it may have been made by the machine's.
fn certificate_key(der: &[u8], now: Timestamp, wall: Timestamp) -> Option<(DecodingKey, bool)> {
    let (_, cert) = X509Certificate::from_der(der).ok()?;
    let (from, until) = (cert.validity().not_before.timestamp(), cert.validity().not_after.timestamp());
    let good = now.as_second() <= until && now.max(wall).as_second() >= from.saturating_sub(SKEW);
    let key = match cert.public_key().parsed().ok()? {
        PublicKey::RSA(rsa) => {
            let strip = |b: &[u8]| b.iter().skip_while(|x| **x == 0).copied().collect::<Vec<u8>>();
            DecodingKey::from_rsa_raw_components(&strip(rsa.modulus), &strip(rsa.exponent))
        }
        _ => return None,
    };
    Some((key, good))
}

/// Whether the assertion claims to be the application's own, rather than a foreign issuer's.
pub fn is_own(claims: &Value, client: &str) -> bool {
    claims["iss"].as_str().is_some_and(|i| i.eq_ignore_ascii_case(client))
}

/// An assertion signed with one of the application's certificates.
pub fn by_certificate(
    token: &str,
    claims: &Value,
    app: &App,
    now: Timestamp,
    wall: Timestamp,
) -> Result<(), Refusal> {
    in_time(claims, wall)?;
    if claims["sub"].as_str().is_none_or(|s| !s.eq_ignore_ascii_case(&app.client_id)) {
        return Err(Refusal::assertion("the subject is not the application"));
    }
    let algs = [Algorithm::RS256, Algorithm::PS256];
    // The thumbprint in the header is a hint; few certificates are registered, so all are tried.
    let known = app.certificates.iter().filter_map(|c| certificate_key(&c.0, now, wall));
    let fitting: Vec<bool> = known.filter(|(k, _)| verifies(token, k, &algs)).map(|(_, good)| good).collect();
    match (fitting.is_empty(), fitting.contains(&true)) {
        (true, _) => Err(Refusal::assertion("no registered certificate verifies it")),
        (false, true) => Ok(()),
        (false, false) => Err(Refusal::expired_certificate(&app.client_id)),
    }
}

fn audiences(claims: &Value) -> Vec<&str> {
    match &claims["aud"] {
        Value::String(s) => vec![s.as_str()],
        Value::Array(l) => l.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// A federated credential, of a resource or of an application.
struct Trusted<'a> {
    issuer: &'a str,
    subject: &'a str,
    audiences: Vec<&'a str>,
}

impl<'a> Trusted<'a> {
    fn of_record(r: &'a Record) -> Trusted<'a> {
        let text = |f: &str| r.property(f).and_then(Value::as_str).unwrap_or_default();
        let audiences = r.property("audiences").and_then(Value::as_array);
        let audiences = audiences.into_iter().flatten().filter_map(Value::as_str).collect();
        Trusted { issuer: text("issuer"), subject: text("subject"), audiences }
    }

    fn of_application(c: &'a FederatedCredential) -> Trusted<'a> {
        let audiences = c.audiences.iter().map(String::as_str).collect();
        Trusted { issuer: &c.issuer, subject: &c.subject, audiences }
    }
}

/// Finds the federated credential that the assertion fits, or says which field does not.
pub fn matching(state: &State, app: &App, claims: &Value, now: Timestamp) -> Result<String, Refusal> {
    let text = |c: &str| claims[c].as_str().unwrap_or_default();
    let (issuer, subject) = (text("iss"), text("sub"));
    let principal = state.directory.by_client(&app.client_id);
    let known: Vec<Trusted<'_>> = match principal.map(|p| &p.kind) {
        Some(PrincipalKind::Identity(key, _)) => state
            .below(key)
            .filter(|r| r.kind.path.ends_with("federatedIdentityCredentials"))
            .filter(|r| state.lags.knows(state.seed, r.id.key(), r.changed, now))
            .map(|r| Trusted::of_record(r))
            .collect(),
        _ => app
            .federated
            .iter()
            .filter(|c| c.changed.is_none_or(|at| state.lags.knows(state.seed, &c.id, at, now)))
            .map(Trusted::of_application)
            .collect(),
    };
    let of_issuer: Vec<_> = known.into_iter().filter(|t| t.issuer == issuer).collect();
    if of_issuer.is_empty() {
        return Err(Refusal::issuer(issuer));
    }
    let of_subject: Vec<_> = of_issuer.iter().filter(|t| t.subject == subject).collect();
    if of_subject.is_empty() {
        let nearly = of_issuer.iter().any(|t| t.subject.eq_ignore_ascii_case(subject));
        return Err(if nearly { Refusal::subject_case(subject) } else { Refusal::subject(subject) });
    }
    let given = audiences(claims);
    let fits = of_subject.iter().any(|t| t.audiences.iter().any(|a| given.contains(a)));
    if !fits {
        return Err(Refusal::audience(given.first().copied().unwrap_or_default()));
    }
    Ok(issuer.to_owned())
}

/// Asks the issuer for its keys and verifies the assertion with them.
pub async fn by_issuer(
    token: &str,
    claims: &Value,
    issuer: &str,
    issuers: &dyn Issuers,
    now: Timestamp,
) -> Result<(), Refusal> {
    in_time(claims, now)?;
    let unreachable = || Refusal::unreachable(issuer);
    let base = issuer.strip_suffix('/').unwrap_or(issuer);
    let document = issuers.get(&format!("{base}/.well-known/openid-configuration")).await.map_err(|e| {
        tracing::debug!(issuer, error = %e, "cannot fetch a discovery document");
        unreachable()
    })?;
    if document["issuer"].as_str() != Some(issuer) {
        return Err(unreachable());
    }
    let uri = document["jwks_uri"].as_str().ok_or_else(unreachable)?;
    let keys = issuers.get(uri).await.map_err(|_| unreachable())?;
    let keys: JwkSet = serde_json::from_value(keys).map_err(|_| unreachable())?;
    let header = peek(token).map(|(h, _)| h).unwrap_or_default();
    let found = header["kid"].as_str().and_then(|kid| keys.find(kid));
    let key = found.and_then(|k| DecodingKey::from_jwk(k).ok());
    match key.is_some_and(|k| verifies(token, &k, &[Algorithm::RS256])) {
        true => Ok(()),
        false => Err(Refusal::assertion("no key of the issuer verifies it")),
    }
}
