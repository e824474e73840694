//! The static website of an account: what is in `$web`, for everybody, read only.

use crate::planes::blob::service::service;
use crate::planes::blob::{Blob, blob_key, http_date, place};
use crate::planes::contents::slices;
use crate::planes::{Ask, Datum};
use crate::state::{Record, State};
use crate::wire::Reply;
use http::{Method, StatusCode};
use std::sync::Arc;

/// Which number a region's websites have.
pub fn zone(location: &str) -> u32 {
    match location {
        "westus2" => 5,
        "eastus" => 13,
        "eastus2" => 20,
        "westus" => 22,
        "westeurope" => 6,
        "northeurope" => 16,
        "uksouth" => 33,
        other => 40 + other.bytes().map(u32::from).sum::<u32>() % 50,
    }
}

/// The account whose website answers at a host.
pub fn account_of_web<'a>(state: &'a State, host: &str) -> Option<&'a Arc<Record>> {
    let (name, rest) = host.split_once('.')?;
    let record = state.get(state.data.host(&format!("{name}.blob.core.windows.net"))?)?;
    let own = format!("z{}.web.core.windows.net", zone(record.location().unwrap_or_default()));
    (own == rest).then_some(record)
}

fn page(status: StatusCode, code: &str) -> Reply {
    let text = format!(
        "<!DOCTYPE html><html><head><title>{code}</title></head><body><h1>The requested content does not exist.</h1><p>{code}</p></body></html>"
    );
    let mut reply = Reply::empty(status).with("content-type", "text/html").with("x-ms-error-code", code);
    reply.raw = Some(text.into());
    reply
}

fn shown(b: &Blob, status: StatusCode, head: bool) -> Reply {
    let mut reply = Reply::empty(status)
        .with("content-type", &b.properties.content_type)
        .with("etag", &b.etag)
        .with("last-modified", &http_date(b.modified))
        .with("content-length", &b.len().to_string())
        .with("server", "Windows-Azure-Web/1.0 Microsoft-HTTPAPI/2.0");
    if !b.properties.cache_control.is_empty() {
        reply = reply.with("cache-control", &b.properties.cache_control);
    }
    if !head {
        reply.parts = slices(&b.chunks, 0, b.len());
        reply.raw = reply.parts.is_empty().then(bytes::Bytes::new);
    }
    reply
}

pub fn serve(state: &State, ask: &Ask) -> Reply {
    let Some(record) = account_of_web(state, &ask.host) else {
        return page(StatusCode::NOT_FOUND, "AccountNotFound");
    };
    let account = record.id.name().to_lowercase();
    site(state, &account, ask)
}

/// What an account's website answers to a path.
pub fn site(state: &State, account: &str, ask: &Ask) -> Reply {
    if !matches!(ask.call.method, Method::GET | Method::HEAD) {
        return page(StatusCode::METHOD_NOT_ALLOWED, "UnsupportedHttpVerb");
    }
    let s = service(state, account);
    if !s.website {
        return page(StatusCode::NOT_FOUND, "WebContentNotFound");
    }
    let head = ask.call.method == Method::HEAD;
    let Ok(at) = place(&format!("/$web{}", ask.raw_path)) else {
        return page(StatusCode::BAD_REQUEST, "InvalidUri");
    };
    let find = |name: &str| match state.data.get(&blob_key(account, "$web", name)) {
        Some(Datum::Blob(b)) => Some(&**b),
        _ => None,
    };
    let index = || {
        let folder = at.blob.trim_end_matches('/');
        let name = if folder.is_empty() { s.index.clone() } else { format!("{folder}/{}", s.index) };
        if s.index.is_empty() { None } else { find(&name) }
    };
    let found =
        if at.blob.is_empty() || at.blob.ends_with('/') { index() } else { find(&at.blob).or_else(index) };
    match (found, find(&s.error).filter(|_| !s.error.is_empty())) {
        (Some(b), _) => {
            let known = ask.call.header("if-none-match").is_some_and(|m| m == b.etag);
            if known {
                Reply::empty(StatusCode::NOT_MODIFIED).with("etag", &b.etag)
            } else {
                shown(b, StatusCode::OK, head)
            }
        }
        (None, Some(b)) => shown(b, StatusCode::NOT_FOUND, head),
        (None, None) => page(StatusCode::NOT_FOUND, "WebContentNotFound"),
    }
}
