//! Blob storage at `{account}.blob.core.windows.net`, and its static website.
//!
//! Block blobs, containers, lists, service properties. A call is judged by what it brings: a bearer token (roles with
//! data actions), the account's key (HMAC over the request), a shared access signature (signature, times, permissions
//! and protocol are checked), or nothing (public containers). Shared Key is not checked for clock skew: clients sign
//! with the machine's time, the simulator's may be elsewhere.
//!
//! Absent: page and append blobs, snapshots, versions, immutability, queues, tables and file data.

mod access;
mod blobs;
mod blocks;
mod containers;
mod lease;
mod sas;
mod service;
mod web;

pub use sas::signature as sign;
pub use service::{Service, has_website};
pub use web::{account_of_web, serve as web, site, zone};

use crate::planes::contents::Chunk;
use crate::planes::xml::Xml;
use crate::planes::{Ask, Cx, Datum, record_of};
use crate::state::{Phase, Record, Secret, State};
use crate::wire::Reply;
use access::Who;
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The two keys of an account, base64.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AccountKeys {
    pub keys: [Secret; 2],
    pub made: [Timestamp; 2],
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Policy {
    pub id: String,
    pub start: String,
    pub expiry: String,
    pub permission: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Container {
    pub name: String,
    pub etag: String,
    pub modified: Timestamp,
    pub metadata: BTreeMap<String, String>,
    /// `container`, `blob` or nothing.
    pub public: Option<String>,
    pub policies: Vec<Policy>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Properties {
    pub content_type: String,
    pub encoding: String,
    pub language: String,
    pub disposition: String,
    pub cache_control: String,
    pub md5: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lease {
    pub id: String,
    /// Nothing for ever.
    pub until: Option<Timestamp>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Blob {
    pub name: String,
    pub chunks: Vec<Chunk>,
    /// Names and sizes of committed blocks.
    pub blocks: Vec<(String, u64)>,
    pub properties: Properties,
    pub metadata: BTreeMap<String, String>,
    pub tags: BTreeMap<String, String>,
    pub etag: String,
    pub created: Timestamp,
    pub modified: Timestamp,
    pub tier: Option<String>,
    pub scope: Option<String>,
    pub lease: Option<Lease>,
    /// Id and source of the copy that made it.
    pub copy: Option<(String, String)>,
}

impl Blob {
    pub fn len(&self) -> u64 {
        crate::planes::contents::total(&self.chunks)
    }
}

/// Blocks of a blob that wait to be committed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Blocks {
    pub waiting: Vec<(String, Chunk)>,
}

/// A refusal.
#[derive(Clone, Debug)]
pub struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    headers: Vec<(&'static str, String)>,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { status, code, message: message.into(), headers: Vec::new() }
    }

    pub fn bad(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub fn header(mut self, name: &'static str, value: String) -> Refusal {
        self.headers.push((name, value));
        self
    }

    fn reply(self, now: Timestamp, request: &str, head: bool) -> Reply {
        let mut reply = Reply::empty(self.status);
        if !head && self.status != StatusCode::NOT_MODIFIED {
            let mut x = Xml::document();
            let message = format!("{}\nRequestId:{request}\nTime:{now}", self.message);
            x.open("Error").leaf("Code", self.code).leaf("Message", &message).close("Error");
            reply = reply.with("content-type", "application/xml");
            reply.raw = Some(x.done().into());
        }
        reply = reply.with("x-ms-error-code", self.code);
        for (name, value) in self.headers {
            reply = reply.with(name, &value);
        }
        reply
    }
}

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub container: String,
    pub blob: String,
}

fn container_name_ok(name: &str) -> bool {
    if matches!(name, "$web" | "$root" | "$logs") {
        return true;
    }
    (3..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

/// Reads container and blob out of the path as it was sent. What no server may interpret is refused: steps upwards,
/// bytes that are not text, control characters.
pub fn place(raw_path: &str) -> Result<Place, Refusal> {
    let uri =
        || Refusal::bad("InvalidUri", "The requested URI does not represent any resource on the server.");
    let path = raw_path.strip_prefix('/').ok_or_else(uri)?;
    let decoded = percent_encoding::percent_decode_str(path).decode_utf8().map_err(|_| uri())?;
    if decoded.chars().any(|c| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}')) {
        return Err(uri());
    }
    if decoded.replace('\\', "/").split('/').any(|s| s == "." || s == "..") {
        return Err(uri());
    }
    // A percent sign that is not an escape.
    let bytes = path.as_bytes();
    let stray = bytes.iter().enumerate().any(|(i, b)| {
        *b == b'%' && !bytes.get(i + 1..i + 3).is_some_and(|h| h.iter().all(u8::is_ascii_hexdigit))
    });
    if stray {
        return Err(uri());
    }
    let (container, blob) = match decoded.split_once('/') {
        Some((c, b)) => (c, b),
        None => (&*decoded, ""),
    };
    if container.is_empty() && blob.is_empty() {
        return Ok(Place { container: String::new(), blob: String::new() });
    }
    let name = |m: &str| Refusal::bad("InvalidResourceName", m);
    if !container_name_ok(container) {
        if (3..=63).contains(&container.len()) {
            return Err(name("The specified resource name contains invalid characters."));
        }
        return Err(Refusal::bad(
            "OutOfRangeInput",
            "The specified resource name length is not within the permissible limits.",
        ));
    }
    if blob.chars().count() > 1024 || blob.split('/').count() > 254 {
        return Err(Refusal::bad(
            "OutOfRangeInput",
            "The specified resource name length is not within the permissible limits.",
        ));
    }
    Ok(Place { container: container.to_owned(), blob: blob.to_owned() })
}

pub fn container_key(account: &str, container: &str) -> String {
    format!("bc/{account}/{container}")
}

pub fn blob_key(account: &str, container: &str, blob: &str) -> String {
    format!("bb/{account}/{container}/{blob}")
}

fn blocks_key(account: &str, container: &str, blob: &str) -> String {
    format!("bu/{account}/{container}/{blob}")
}

/// A request with what it is about.
pub struct Desk<'a> {
    pub state: &'a mut State,
    pub ask: &'a Ask,
    pub account: String,
    pub record: Arc<Record>,
    pub at: Place,
    pub now: Timestamp,
    pub who: Who,
}

impl Desk<'_> {
    pub fn container(&self) -> Result<&Container, Refusal> {
        match self.state.data.get(&container_key(&self.account, &self.at.container)) {
            Some(Datum::Container(c)) => Ok(c),
            _ => Err(no_container()),
        }
    }

    pub fn blob(&self) -> Option<&Blob> {
        match self.state.data.get(&blob_key(&self.account, &self.at.container, &self.at.blob)) {
            Some(Datum::Blob(b)) => Some(b),
            _ => None,
        }
    }

    pub fn need_blob(&self) -> Result<&Blob, Refusal> {
        self.container()?;
        self.blob().ok_or_else(|| {
            Refusal::new(StatusCode::NOT_FOUND, "BlobNotFound", "The specified blob does not exist.")
        })
    }

    pub fn put_blob(&mut self, blob: Blob) {
        let key = blob_key(&self.account, &self.at.container, &self.at.blob);
        self.state.data.put(&key, Datum::Blob(Box::new(blob)));
    }

    pub fn put_container(&mut self, container: Container) {
        let key = container_key(&self.account, &container.name);
        self.state.data.put(&key, Datum::Container(Box::new(container)));
    }

    pub fn etag(&mut self, key: &str) -> String {
        etag(self.state, key)
    }
}

/// A new etag for what a key names.
pub fn etag(state: &mut State, key: &str) -> String {
    let key: crate::state::Key = key.into();
    state.bump(&key);
    format!("\"0x8D{:013X}\"", state.derive(&key, "etag") & 0xf_ffff_ffff_ffff)
}

pub fn no_container() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "ContainerNotFound", "The specified container does not exist.")
}

/// As headers write times.
pub fn http_date(t: Timestamp) -> String {
    t.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// Metadata of the request's headers.
pub fn metadata(ask: &Ask) -> Result<BTreeMap<String, String>, Refusal> {
    let mut out = BTreeMap::new();
    let mut size = 0;
    for (name, value) in &ask.call.headers {
        let Some(name) = name.as_str().strip_prefix("x-ms-meta-") else { continue };
        let value = value.to_str().map_err(|_| {
            Refusal::bad(
                "InvalidMetadata",
                "The metadata specified is invalid. It has characters that are not permitted.",
            )
        })?;
        if name.is_empty()
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            || name.starts_with(|c: char| c.is_ascii_digit())
        {
            return Err(Refusal::bad(
                "InvalidMetadata",
                "The metadata specified is invalid. It has characters that are not permitted.",
            ));
        }
        size += name.len() + value.len();
        out.insert(name.to_owned(), value.to_owned());
    }
    if size > 8192 {
        return Err(Refusal::bad(
            "MetadataTooLarge",
            "The metadata specified exceeds the maximum permissible limit (8KB).",
        ));
    }
    Ok(out)
}

pub fn serve(state: &mut State, cx: &mut Cx<'_>, ask: &Ask) -> (Reply, bool) {
    let head = ask.call.method == Method::HEAD;
    let (result, writes) = match run(state, cx, ask) {
        Ok((reply, writes)) => (reply, writes),
        Err(refusal) => (refusal.reply(cx.now, &(cx.random)(), head), false),
    };
    let version = ask.call.header("x-ms-version").unwrap_or("2026-06-06").to_owned();
    let mut reply = result
        .with("x-ms-version", &version)
        .with("x-ms-request-id", &(cx.random)())
        .with("server", "Windows-Azure-Blob/1.0 Microsoft-HTTPAPI/2.0");
    if let Some(id) = ask.call.header("x-ms-client-request-id") {
        reply = reply.with("x-ms-client-request-id", id);
    }
    (reply, writes)
}

/// What is done, and with which right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Account(service::Deed),
    Container(containers::Deed),
    Blob(blobs::Deed),
}

fn run(state: &mut State, cx: &mut Cx<'_>, ask: &Ask) -> Result<(Reply, bool), Refusal> {
    let record = record_of(state, &ask.host).cloned().ok_or_else(no_account)?;
    if record.phase == Phase::Deleting {
        return Err(no_account());
    }
    let at = place(&ask.raw_path)?;
    let account = record.id.name().to_lowercase();
    let deed = deed(ask, &at)?;
    let who = access::admit(state, cx, ask, &record, &account, &at, deed)?;
    let now = cx.now;
    let mut desk = Desk { state, ask, account, record, at, now, who };
    let reply = match deed {
        Deed::Account(d) => service::answer(&mut desk, cx, d)?,
        Deed::Container(d) => containers::answer(&mut desk, d)?,
        Deed::Blob(d) => blobs::answer(&mut desk, cx, d)?,
    };
    Ok((reply, !matches!(ask.call.method, Method::GET | Method::HEAD | Method::POST)))
}

fn no_account() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "ResourceNotFound", "The specified resource does not exist.")
}

fn deed(ask: &Ask, at: &Place) -> Result<Deed, Refusal> {
    let comp = ask.call.query("comp").unwrap_or_default().to_ascii_lowercase();
    let restype = ask.call.query("restype").unwrap_or_default().to_ascii_lowercase();
    let method = ask.call.method.as_str();
    let unknown = || {
        Refusal::bad(
            "InvalidQueryParameterValue",
            "Value for one of the query parameters specified in the request URI is invalid.",
        )
    };
    let unsupported = || {
        Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "UnsupportedHttpVerb",
            "The resource doesn't support specified Http Verb.",
        )
    };
    if at.container.is_empty() {
        return service::deed(method, &restype, &comp).map(Deed::Account).ok_or_else(unknown);
    }
    if at.blob.is_empty() && (restype == "container" || at.container != "$root") {
        if restype != "container" {
            // A blob in the root container; the simulator has none but answers as if it were empty.
            return match method {
                "GET" | "HEAD" => Err(Refusal::new(
                    StatusCode::NOT_FOUND,
                    "ResourceNotFound",
                    "The specified resource does not exist.",
                )),
                _ => Err(unsupported()),
            };
        }
        return containers::deed(method, &comp).map(Deed::Container).ok_or_else(unknown);
    }
    blobs::deed(method, &comp)
        .map(Deed::Blob)
        .ok_or_else(|| if comp.is_empty() { unsupported() } else { unknown() })
}

/// Gives an account its keys and its host.
pub fn created(state: &mut State, record: &Record, now: Timestamp) {
    let account = record.id.name().to_lowercase();
    let keys = [0, 1].map(|i| new_key(state, &account, i));
    state
        .data
        .put(&format!("bk/{account}"), Datum::AccountKeys(Box::new(AccountKeys { keys, made: [now; 2] })));
    state.data.set_host(&format!("{account}.blob.core.windows.net"), record.id.key());
}

pub fn new_key(state: &mut State, account: &str, index: usize) -> Secret {
    use base64::Engine;
    let name: crate::state::Key = format!("bk/{account}/{index}").into();
    state.bump(&name);
    let bytes: Vec<u8> = (0..4).flat_map(|i| state.derive(&name, &format!("key{i}")).to_be_bytes()).collect();
    Secret::new(&base64::engine::general_purpose::STANDARD.encode(bytes))
}

pub fn keys<'a>(state: &'a State, account: &str) -> Option<&'a AccountKeys> {
    match state.data.get(&format!("bk/{account}")) {
        Some(Datum::AccountKeys(k)) => Some(k),
        _ => None,
    }
}

/// Takes everything of an account away.
pub fn removed(state: &mut State, record: &Record) {
    let account = record.id.name().to_lowercase();
    for gone in [format!("bk/{account}"), format!("bs/{account}")] {
        state.data.remove(&gone);
    }
    for prefix in ["bc", "bb", "bu", "fs"] {
        state.data.remove_all(&format!("{prefix}/{account}/"));
    }
    state.data.remove_host(&format!("{account}.blob.core.windows.net"));
}

/// What an account holds, for the leak report.
pub fn holds(state: &State, account: &str) -> (usize, u64) {
    let blobs = state.data.range(&format!("bb/{}/", account.to_lowercase()), None);
    blobs.fold((0, 0), |(n, bytes), (_, d)| match d {
        Datum::Blob(b) => (n + 1, bytes + b.len()),
        _ => (n, bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn odd_paths_are_refused() {
        let ok = |p: &str| place(p).map(|x| (x.container, x.blob)).map_err(|e| e.code);
        assert_eq!(ok("/abc/d%20e/f"), Ok(("abc".into(), "d e/f".into())));
        assert_eq!(ok("/$web/.well-known/x"), Ok(("$web".into(), ".well-known/x".into())));
        assert_eq!(ok("/"), Ok((String::new(), String::new())));
        for (bad, code) in [
            ("/abc/../x", "InvalidUri"),
            ("/abc/%2e%2e/x", "InvalidUri"),
            ("/abc/a%5c..%5cx", "InvalidUri"),
            ("/abc/%ff", "InvalidUri"),
            ("/abc/%00", "InvalidUri"),
            ("/abc/%zz", "InvalidUri"),
            ("/abc/x%", "InvalidUri"),
            ("/ABC/x", "InvalidResourceName"),
            ("/a_c/x", "InvalidResourceName"),
            ("/a--c", "InvalidResourceName"),
            ("/ab", "OutOfRangeInput"),
        ] {
            assert_eq!(ok(bad), Err(code), "{bad}");
        }
        assert_eq!(ok(&format!("/abc/{}", "x".repeat(1025))), Err("OutOfRangeInput"));
    }

    proptest! {
        #[test]
        fn places_never_panic_and_never_climb(path in "(/|%2[eEfF]|%5[cC]|\\.|a|%|%C3%A9|\\\\|\\$web){0,40}") {
            if let Ok(p) = place(&path) {
                prop_assert!(!p.blob.split('/').any(|s| s == ".."));
                prop_assert!(!p.container.contains('/'));
            }
        }
    }
}
