//! How each service says that something is wrong.

use crate::profile::Pace;
use crate::trouble::Answer;
use crate::wire::{Cause, Fault, Reply};
use arm::ErrorDetail;
use http::StatusCode;
use serde_json::json;

const PAGE: &str = "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Strict//EN\"><html><head><title>Service Unavailable</title></head>\
    <body><h2>Our services aren't available right now</h2><p>We're working to restore all services as soon as possible. \
    Please check back soon.</p></body></html>";

/// An answer in the service's place.
pub fn answer(service: &str, a: &Answer, pace: Pace) -> Reply {
    let status = StatusCode::from_u16(a.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut reply = if a.html {
        let mut reply = Reply::empty(status).with("content-type", "text/html");
        reply.raw = Some(PAGE.into());
        reply
    } else if let Some(body) = &a.body {
        Reply::json(status, body.clone())
    } else {
        let code = a
            .code
            .clone()
            .unwrap_or_else(|| status.canonical_reason().unwrap_or("InternalServerError").replace(' ', ""));
        let message = a.message.clone().unwrap_or_else(|| "The request could not be served.".to_owned());
        match (service, &a.detail) {
            ("arm", Some(inner)) => {
                let inner = ErrorDetail::new(inner, "The call can be retried later.");
                Fault::new(status, Cause::Unsaid, ErrorDetail::new(&code, message).with_detail(inner)).reply()
            }
            _ => refusal(service, status, &code, &message),
        }
    };
    if let Some((name, value)) = a.retry_after.and_then(|s| pace.retry_after(s)) {
        reply = reply.with(name, &value);
    }
    for (k, v) in &a.headers {
        if let (Ok(k), Ok(v)) = (k.parse::<http::HeaderName>(), v.parse()) {
            reply.headers.insert(k, v);
        }
    }
    reply
}

/// Too many requests, as each service says it.
pub fn throttled(service: &str, seconds: u32, kind: &str, pace: Pace) -> Reply {
    let message =
        format!("Number of requests exceeded the limit. Please try again after '{seconds}' seconds.");
    let (status, code) = match service {
        "arm" => return throttled_arm(seconds, kind, &message, pace),
        "vault" => (StatusCode::TOO_MANY_REQUESTS, "Throttled"),
        // Storage has no 429.
        "blob" | "web" => (StatusCode::SERVICE_UNAVAILABLE, "ServerBusy"),
        "registry" => (StatusCode::TOO_MANY_REQUESTS, "TOOMANYREQUESTS"),
        "login" => (StatusCode::TOO_MANY_REQUESTS, "temporarily_unavailable"),
        "imds" => (StatusCode::TOO_MANY_REQUESTS, "invalid_request"),
        _ => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
    };
    let reply = refusal(service, status, code, &message);
    match pace.retry_after(seconds.max(1)) {
        Some((name, value)) => reply.with(name, &value),
        None => reply,
    }
}

fn throttled_arm(seconds: u32, kind: &str, message: &str, pace: Pace) -> Reply {
    let msi = kind.to_lowercase().starts_with("microsoft.managedidentity/");
    let code = if msi { "429" } else { arm::code::THROTTLED };
    let fault = Fault::gateway(StatusCode::TOO_MANY_REQUESTS, code, message);
    match pace.retry_after(seconds.max(1)) {
        Some((name, value)) => fault.header(name, value).reply(),
        None => fault.reply(),
    }
}

/// A token that is no longer good; `None` where the service is better asked itself, which knows its challenge.
pub fn expired(service: &str, base: &str) -> Option<Reply> {
    let why = "The access token expiry time is before the current time.";
    let challenge =
        format!("Bearer authorization_uri=\"{base}\", error=\"invalid_token\", error_description=\"{why}\"");
    match service {
        "arm" => Some(
            Fault::gateway(StatusCode::UNAUTHORIZED, arm::code::EXPIRED_AUTHENTICATION_TOKEN, why)
                .header("www-authenticate", challenge)
                .reply(),
        ),
        "graph" | "access" => {
            let body = json!({"error": {"code": "InvalidAuthenticationToken", "message": why}});
            Some(Reply::json(StatusCode::UNAUTHORIZED, body).with("www-authenticate", &challenge))
        }
        _ => None,
    }
}

/// An error in the words of the service: a client reads only those.
pub fn refusal(service: &str, status: StatusCode, code: &str, message: &str) -> Reply {
    match service {
        "arm" => Fault::new(status, Cause::Unsaid, ErrorDetail::new(code, message)).reply(),
        "blob" | "web" => {
            let text = |t: &str| t.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let xml = format!(
                "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>{}</Code><Message>{}</Message></Error>",
                text(code),
                text(message)
            );
            let mut reply = Reply::empty(status).with("content-type", "application/xml");
            if code.parse::<http::HeaderValue>().is_ok() {
                reply = reply.with("x-ms-error-code", code);
            }
            reply.raw = Some(xml.into());
            reply
        }
        "registry" => Reply::json(status, json!({"errors": [{"code": code, "message": message}]})),
        "login" | "imds" => Reply::json(status, json!({"error": code, "error_description": message})),
        _ => Reply::json(status, json!({"error": {"code": code, "message": message}})),
    }
}
