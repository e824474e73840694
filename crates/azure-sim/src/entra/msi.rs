//! The credential service of managed identities, as resource providers use it.
//!
//! A provider is told a URL with the request that gives a resource its identities. It asks there, is sent to log in,
//! and gets a certificate per identity that the token endpoint accepts. The URL is good for one resource: it carries
//! a number that only Resource Manager could have made.

use crate::entra::Caller;
use crate::kinds::compute_text as text;
use crate::state::{Certificate, Principal, PrincipalKind, State};
use crate::wire::{Call, Reply};
use arm::ResourceId;
use base64::Engine;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256, RsaKeySize,
};
use serde_json::{Value, json};
use time::OffsetDateTime;

/// Whom tokens for this service are for. The public service has a host per region.
pub fn is_audience(audience: &str) -> bool {
    let bare = audience.trim_end_matches('/');
    let known =
        ["https://identity.azure.net", "https://management.azure.com", "https://management.core.windows.net"];
    known.contains(&bare) || (bare.starts_with("https://") && bare.ends_with(".identity.azure.net"))
}

/// What a provider must be allowed to do in the subscription.
const PROVIDE: &str = "Microsoft.ManagedIdentity/identities/credentials/action";

const VALID: SignedDuration = SignedDuration::from_hours(24 * 90);
const RENEW: SignedDuration = SignedDuration::from_hours(24 * 45);
/// More certificates of one identity than this are not remembered: the oldest goes.
const MAX_CERTIFICATES: usize = 8;
const MAX_IDENTITIES: usize = 100;

fn fault(status: StatusCode, code: &str, message: &str) -> Reply {
    Reply::json(status, json!({"error": {"code": code, "message": message}}))
}

/// Keys for as many certificates as a request can need. They take long to make, so nobody is kept waiting for them.
pub fn keys_for(call: &Call) -> Vec<KeyPair> {
    let named = call.json().ok().flatten().and_then(|b| Some(b["identityIds"].as_array()?.len()));
    let count = match call.method.as_str() {
        "GET" => 1,
        "POST" => named.unwrap_or(0).min(MAX_IDENTITIES),
        _ => 0,
    };
    (0..count).filter_map(|_| KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).ok()).collect()
}

/// What a path asks about: the resource, and what is done.
fn parse(path: &str) -> Option<(ResourceId, bool)> {
    let rest = path.trim_end_matches('/').strip_prefix("/identity")?;
    let lower = rest.to_ascii_lowercase();
    for (suffix, moves) in
        [("/credentials/proxy/move", true), ("/credentials/moveidentity", true), ("/credentials", false)]
    {
        if let Some(n) = lower.strip_suffix(suffix) {
            return Some((ResourceId::parse(rest.get(..n.len())?).ok()?, moves));
        }
    }
    None
}

/// The number in the URL of a resource.
pub fn number(state: &State, id: &ResourceId) -> String {
    crate::state::guid(crate::state::hash(state.seed, &[id.key(), "identity"]))
}

/// Answers a provider that has logged in. Not logged in, it is told where to.
pub fn serve(
    state: &mut State,
    call: &Call,
    caller: Option<&Caller>,
    keys: &mut Vec<KeyPair>,
    now: Timestamp,
) -> Reply {
    let base = call.base.as_str();
    let Some((id, moves)) = parse(&call.path) else {
        return fault(StatusCode::NOT_FOUND, "NotFound", "There is no such identity.");
    };
    let Some(caller) = caller else {
        let header = format!(
            "Bearer authorization=\"{base}/{}\", resource=\"https://identity.azure.net\"",
            state.tenant
        );
        return fault(StatusCode::UNAUTHORIZED, "Unauthorized", "A token is required.")
            .with("www-authenticate", &header);
    };
    if call.query("api-version").is_none_or(str::is_empty) {
        return fault(
            StatusCode::BAD_REQUEST,
            "MissingApiVersionParameter",
            "The api-version query parameter is required.",
        );
    }
    if call.query("arpid").is_none_or(|n| n != number(state, &id)) {
        return fault(StatusCode::FORBIDDEN, "Forbidden", "The URL was not given out for this resource.");
    }
    // In Azure only the providers that Microsoft knows may ask. Here a provider is an application that was given the right,
    // never an identity: one could hand itself the certificates of others.
    let scope = format!("/subscriptions/{}", id.subscription().unwrap_or_default()).to_lowercase();
    let provider = state
        .directory
        .principal(&caller.object_id)
        .is_some_and(|p| !matches!(p.kind, PrincipalKind::Identity(..)));
    if !provider || state.assignments.allowed(&caller.object_id, PROVIDE, &scope, false).is_none() {
        return fault(
            StatusCode::FORBIDDEN,
            "Forbidden",
            &format!("The caller is no resource provider: it needs '{PROVIDE}' in the subscription."),
        );
    }
    match (call.method.as_str(), moves) {
        ("GET", false) => own(state, &id, base, keys, now),
        ("POST", false) => explicit(state, &id, call, keys, now),
        ("DELETE", false) => {
            forget(state, &id);
            Reply::empty(StatusCode::OK)
        }
        ("POST", true) => moved(state, call, base),
        _ => fault(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", "GET, POST or DELETE."),
    }
}

/// The resource's own identity, as a principal.
fn system(state: &State, id: &ResourceId) -> Option<Principal> {
    let recorded = state.get(id.key()).and_then(|r| r.doc.get("identity").cloned());
    let principal =
        recorded.as_ref().and_then(|i| text(i, &["principalId"])).and_then(|p| state.directory.principal(p));
    principal.map(|p| (**p).clone())
}

fn own(state: &mut State, id: &ResourceId, base: &str, keys: &mut Vec<KeyPair>, now: Timestamp) -> Reply {
    // Resources of providers elsewhere have a principal that is made when it is first asked for.
    let own = state.get(id.key()).and_then(|r| r.doc.get("identity")).and_then(|i| text(i, &["type"]));
    if !own.is_some_and(|t| t.to_lowercase().contains("systemassigned")) {
        return fault(StatusCode::NOT_FOUND, "NotFound", "The resource has no identity of its own.");
    }
    let object_id = crate::state::guid(crate::state::hash(state.seed, &[id.key(), "identity-principal"]));
    if system(state, id).is_none() && state.directory.principal(&object_id).is_none() {
        enrol(state, id, &object_id, now);
    }
    let Some(p) = system(state, id).or_else(|| state.directory.principal(&object_id).map(|p| (**p).clone()))
    else {
        return fault(StatusCode::NOT_FOUND, "NotFound", "The resource has no identity of its own.");
    };
    match credential(state, &p, id.as_str(), base, now, &Value::Null, keys.pop()) {
        Some(c) => Reply::ok(c),
        None => fault(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalServerError",
            "A certificate could not be made.",
        ),
    }
}

fn enrol(state: &mut State, id: &ResourceId, object_id: &str, now: Timestamp) {
    let client_id = crate::state::guid(crate::state::hash(state.seed, &[id.key(), "identity-client"]));
    state.enrol(id, client_id, object_id.to_owned(), now);
}

fn explicit(
    state: &mut State,
    id: &ResourceId,
    call: &Call,
    keys: &mut Vec<KeyPair>,
    now: Timestamp,
) -> Reply {
    let base = call.base.as_str();
    let body = match call.json() {
        Ok(Some(b)) => b,
        _ => {
            return fault(
                StatusCode::BAD_REQUEST,
                "BadRequest",
                "The body is a JSON object with identityIds.",
            );
        }
    };
    let wanted: Vec<String> = body["identityIds"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    if wanted.is_empty() || wanted.len() > MAX_IDENTITIES {
        return fault(StatusCode::BAD_REQUEST, "BadRequest", "identityIds names 1 to 100 identities.");
    }
    // What the resource has is known once its provider has answered; until then the URL is what counts.
    let has = state
        .get(id.key())
        .and_then(|r| r.doc.get("identity"))
        .and_then(|i| i.get("userAssignedIdentities"))
        .and_then(Value::as_object)
        .cloned();
    let mut out = Vec::new();
    for w in &wanted {
        if has.as_ref().is_some_and(|h| !h.keys().any(|k| k.eq_ignore_ascii_case(w))) {
            return fault(
                StatusCode::BAD_REQUEST,
                "BadRequest",
                &format!("The identity '{w}' is not assigned to the resource."),
            );
        }
        let record = state.get(&w.to_lowercase()).filter(|r| r.kind.path == "userAssignedIdentities");
        let principal = record
            .and_then(|r| r.property("principalId"))
            .and_then(Value::as_str)
            .and_then(|p| state.directory.principal(p))
            .cloned();
        let Some(p) = principal else {
            return fault(
                StatusCode::BAD_REQUEST,
                "BadRequest",
                &format!("The identity '{w}' was not found."),
            );
        };
        match credential(state, &p, w, base, now, &body["customClaims"], keys.pop()) {
            Some(c) => out.push(c),
            None => {
                return fault(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "InternalServerError",
                    "A certificate could not be made.",
                );
            }
        }
    }
    let mut answer = json!({"explicit_identities": out});
    if let Some(delegated) = body["delegatedResources"].as_array().filter(|d| !d.is_empty()) {
        answer["delegated_resources"] = delegated.clone().into();
    }
    Reply::ok(answer)
}

fn offset(t: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(t.as_second()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// A certificate for an identity, which the token endpoint accepts from now on.
fn credential(
    state: &mut State,
    p: &Principal,
    resource: &str,
    base: &str,
    now: Timestamp,
    claims: &Value,
    key: Option<KeyPair>,
) -> Option<Value> {
    let key = key?;
    let (from, until) = (now.checked_sub(SignedDuration::from_mins(10)).ok()?, now.checked_add(VALID).ok()?);
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("{}.identity.azure.net", p.client_id));
    params.not_before = offset(from);
    params.not_after = offset(until);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.self_signed(&key).ok()?;
    let app = state.directory.apps.get(&p.client_id.to_lowercase())?;
    let mut app = (**app).clone();
    app.certificates.push(Certificate(certificate.der().to_vec().into()));
    if app.certificates.len() > MAX_CERTIFICATES {
        app.certificates.remove(0);
    }
    state.directory.add_app(app);
    let pem = format!("{}{}", key.serialize_pem(), certificate.pem());
    let text = |t: Timestamp| t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut out = json!({
        "client_id": p.client_id, "client_secret": base64::engine::general_purpose::STANDARD.encode(pem),
        "client_secret_url": format!("{base}/identity{resource}/credentials"), "tenant_id": state.tenant, "object_id": p.object_id,
        "resource_id": resource, "authentication_endpoint": format!("{base}/"), "mtls_authentication_endpoint": format!("{base}/"),
        "not_before": text(from), "not_after": text(until), "renew_after": text(now.checked_add(RENEW).ok()?),
        "cannot_renew_after": text(until),
    });
    if !claims.is_null() {
        out["custom_claims"] = claims.clone();
    }
    Some(out)
}

/// Ends the credentials of a resource's own identity.
fn forget(state: &mut State, id: &ResourceId) {
    let Some(p) = system(state, id) else { return };
    if let Some(app) = state.directory.apps.get(&p.client_id.to_lowercase()) {
        let mut app = (**app).clone();
        app.certificates.clear();
        state.directory.add_app(app);
    }
}

/// A resource moved: where its identity is asked about from now on.
fn moved(state: &State, call: &Call, base: &str) -> Reply {
    let to = call.json().ok().flatten().and_then(|b| ResourceId::parse(b["targetResourceId"].as_str()?).ok());
    match to {
        Some(to) => Reply::ok(json!({"identityUrl": url(state, &to, base)})),
        None => {
            fault(StatusCode::BAD_REQUEST, "BadRequest", "targetResourceId names where the resource is now.")
        }
    }
}

/// The URL that a provider is told.
pub fn url(state: &State, id: &ResourceId, base: &str) -> String {
    format!("{base}/identity{id}/credentials?tid={}&arpid={}", state.tenant, number(state, id))
}
