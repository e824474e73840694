//! What a provider is told about a request, and what clients are told of its answer.

use crate::entra::Caller;
use crate::state::Record;
use crate::wire::Call;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Of one connection only, by RFC 9110; and what is set anew on the next.
const HOP: [&str; 12] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "host",
    "content-length",
    "expect",
];

/// Of all that Resource Manager vouches for, a client may say only these itself.
const CLIENTS_OWN: [&str; 3] =
    ["x-ms-client-request-id", "x-ms-return-client-request-id", "x-ms-effective-locale"];

fn passes(name: &str, dropped: &[String]) -> bool {
    if HOP.contains(&name) || dropped.iter().any(|d| d == name) {
        return false;
    }
    // The token was for Resource Manager; identity, referer and notification addresses are ours to say.
    let ours = name.starts_with("x-ms-") && !CLIENTS_OWN.contains(&name);
    let said = name.starts_with("x-forwarded-") || name.starts_with("azure-async");
    !ours && !said && !matches!(name, "authorization" | "cookie" | "referer" | "forwarded")
}

/// The headers that `connection` names are of the connection, too.
fn named(headers: &HeaderMap) -> Vec<String> {
    headers
        .get_all("connection")
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .map(|n| n.trim().to_ascii_lowercase())
        .collect()
}

/// Who made it and who changes it now.
pub fn system_data(caller: &Caller, old: Option<&Record>, now: Timestamp) -> Value {
    let (by, at) = old.map_or_else(
        || (caller.client_id.clone(), now),
        |o| (o.doc.get("createdBy").and_then(Value::as_str).unwrap_or(&o.created_by).to_owned(), o.created),
    );
    json!({
        "createdBy": by, "createdByType": "Application", "createdAt": at.to_string(),
        "lastModifiedBy": caller.client_id, "lastModifiedByType": "Application", "lastModifiedAt": now.to_string(),
    })
}

/// Whether a body, or what it replaces, has an identity; and whether that is the resource's own.
pub fn identity_of(body: Option<&Value>, old: Option<&Record>) -> Option<(bool, Value)> {
    let given = body.and_then(|b| b.get("identity")).or_else(|| old?.doc.get("identity"))?;
    let kind = given.get("type").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    (!kind.is_empty() && kind != "none").then(|| (kind.contains("systemassigned"), given.clone()))
}

/// The headers of a forwarded request, without what is only for writes.
pub fn request(call: &Call, caller: &Caller, url: &str, correlation: &str) -> HeaderMap {
    let dropped = named(&call.headers);
    let mut out = HeaderMap::new();
    for (name, value) in &call.headers {
        if passes(name.as_str(), &dropped) {
            out.append(name.clone(), value.clone());
        }
    }
    set(&mut out, "referer", url);
    set(&mut out, "x-ms-home-tenant-id", &caller.tenant);
    set(&mut out, "x-ms-client-tenant-id", &caller.tenant);
    set(&mut out, "x-ms-client-object-id", &caller.object_id);
    set(&mut out, "x-ms-client-principal-id", &caller.object_id);
    set(&mut out, "x-ms-client-principal-name", &caller.client_id);
    set(&mut out, "x-ms-client-app-id", &caller.client_id);
    set(&mut out, "x-ms-client-authorization-source", "RoleBased");
    set(&mut out, "x-ms-correlation-request-id", correlation);
    set(&mut out, "x-ms-arm-request-tracking-id", correlation);
    if !out.contains_key("x-ms-client-request-id") {
        set(&mut out, "x-ms-client-request-id", correlation);
    }
    out
}

pub fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(v) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), v);
    }
}

/// The headers of a provider's answer that a client sees; URLs lead through us.
pub fn response(theirs: &HeaderMap, provider: &str, base: &str) -> HeaderMap {
    let dropped = named(theirs);
    let mut out = HeaderMap::new();
    for (name, value) in theirs {
        let text = name.as_str();
        if HOP.contains(&text) || dropped.iter().any(|d| d == text) || text == "azure-asyncnotification" {
            continue;
        }
        let value = match (text, value.to_str()) {
            ("location" | "azure-asyncoperation" | "operation-location", Ok(url)) => {
                HeaderValue::from_str(&through(url, provider, base)).unwrap_or_else(|_| value.clone())
            }
            _ => value.clone(),
        };
        out.append(name.clone(), value);
    }
    out
}

/// A URL of the provider's as one of ours. Others, and ours, stay.
pub fn through(url: &str, provider: &str, base: &str) -> String {
    match url.strip_prefix(provider) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{base}{rest}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn a_client_cannot_say_who_it_is() {
        let mut headers = HeaderMap::new();
        for (k, v) in [
            ("authorization", "Bearer x"),
            ("x-ms-client-object-id", "other"),
            ("x-ms-home-tenant-id", "other"),
            ("x-ms-arm-resource-system-data", "{}"),
            ("x-ms-identity-url", "http://evil"),
            ("referer", "http://evil"),
            ("azure-asyncnotificationuri", "http://evil"),
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("x-ms-client-request-id", "mine"),
            ("accept", "application/json"),
        ] {
            headers.insert(k, v.parse().unwrap());
        }
        let call = Call {
            method: http::Method::PUT,
            path: "/".into(),
            query: Vec::new(),
            headers,
            body: Bytes::new(),
            base: "https://localhost".into(),
        };
        let caller = Caller { object_id: "o".into(), client_id: "c".into(), tenant: "t".into() };
        let out = request(&call, &caller, "https://localhost/x", "corr");
        let get = |n: &str| out.get(n).map(|v| v.to_str().unwrap());
        assert_eq!(get("x-ms-client-object-id"), Some("o"));
        assert_eq!(get("x-ms-home-tenant-id"), Some("t"));
        assert_eq!(get("referer"), Some("https://localhost/x"));
        assert_eq!(get("x-ms-client-request-id"), Some("mine"));
        assert_eq!(get("accept"), Some("application/json"));
        for gone in [
            "authorization",
            "x-ms-arm-resource-system-data",
            "x-ms-identity-url",
            "azure-asyncnotificationuri",
            "connection",
            "x-hop",
            "transfer-encoding",
        ] {
            assert_eq!(get(gone), None, "{gone}");
        }
    }

    #[test]
    fn only_the_providers_urls_lead_through_us() {
        let t = |u: &str| through(u, "http://rp:1", "https://arm");
        assert_eq!(t("http://rp:1/a?b"), "https://arm/a?b");
        assert_eq!(t("http://rp:12/a"), "http://rp:12/a");
        assert_eq!(t("https://arm/a"), "https://arm/a");
    }
}
