//! Block blobs.

use crate::planes::blob::access::{self, Who};
use crate::planes::blob::blocks::{block_list, commit, put_block};
use crate::planes::blob::service::{invalid_xml, xml_reply};
use crate::planes::blob::{
    Blob, Deed as AnyDeed, Desk, Properties, Refusal, blob_key, blocks_key, http_date, lease, metadata, place,
};
use crate::planes::contents::{Chunk, slices};
use crate::planes::xml::{self, Xml};
use crate::planes::{Ask, Cx, Datum, Plane, record_of};
use crate::wire::{Call, Reply};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Method, StatusCode};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Put,
    Get,
    Head,
    Delete,
    PutBlock,
    PutBlocks,
    GetBlocks,
    SetMetadata,
    SetProperties,
    GetTags,
    SetTags,
    SetTier,
    Lease,
}

pub fn deed(method: &str, comp: &str) -> Option<Deed> {
    Some(match (method, comp) {
        ("PUT", "") => Deed::Put,
        ("GET", "" | "metadata") => Deed::Get,
        ("HEAD", _) => Deed::Head,
        ("DELETE", "") => Deed::Delete,
        ("PUT", "block") => Deed::PutBlock,
        ("PUT", "blocklist") => Deed::PutBlocks,
        ("GET", "blocklist") => Deed::GetBlocks,
        ("PUT", "metadata") => Deed::SetMetadata,
        ("PUT", "properties") => Deed::SetProperties,
        ("GET", "tags") => Deed::GetTags,
        ("PUT", "tags") => Deed::SetTags,
        ("PUT", "tier") => Deed::SetTier,
        ("PUT", "lease") => Deed::Lease,
        _ => return None,
    })
}

pub fn answer(desk: &mut Desk<'_>, cx: &mut Cx<'_>, deed: Deed) -> Result<Reply, Refusal> {
    match deed {
        Deed::Get => get(desk, false),
        Deed::Head => get(desk, true),
        Deed::Put => match desk.ask.call.header("x-ms-copy-source") {
            Some(source) => copy(desk, cx, source.to_owned()),
            None => put(desk),
        },
        Deed::PutBlock => put_block(desk),
        Deed::PutBlocks => commit(desk),
        Deed::GetBlocks => block_list(desk),
        Deed::Delete => delete(desk),
        Deed::SetMetadata => {
            let metadata = metadata(desk.ask)?;
            change(desk, StatusCode::OK, |b| b.metadata = metadata)
        }
        Deed::SetProperties => {
            let mut p = properties(desk.ask);
            p.md5 = desk.ask.call.header("x-ms-blob-content-md5").map(str::to_owned);
            change(desk, StatusCode::OK, |b| b.properties = p)
        }
        Deed::SetTier => {
            let tier = desk.ask.call.header("x-ms-access-tier").unwrap_or_default().to_owned();
            if !matches!(tier.as_str(), "Hot" | "Cool" | "Cold" | "Archive") {
                return Err(bad_header());
            }
            let mut b = desk.need_blob()?.clone();
            b.tier = Some(tier);
            desk.put_blob(b);
            Ok(Reply::empty(StatusCode::OK))
        }
        Deed::GetTags => Ok(tags_shown(desk.need_blob()?)),
        Deed::SetTags => set_tags(desk),
        Deed::Lease => lease::answer(desk, (cx.random)()),
    }
}

fn bad_header() -> Refusal {
    Refusal::bad("InvalidHeaderValue", "The value for one of the HTTP headers is not in the correct format.")
}

/// `If-…` headers against what is there.
pub fn conditions(desk: &Desk<'_>, blob: Option<&Blob>, writes: bool) -> Result<(), Refusal> {
    let header = |name: &str| desk.ask.call.header(name);
    let failed = || {
        Refusal::new(
            StatusCode::PRECONDITION_FAILED,
            "ConditionNotMet",
            "The condition specified using HTTP conditional header(s) is not met.",
        )
    };
    let same = |given: &str, b: &Blob| {
        given
            .split(',')
            .any(|g| g.trim().trim_start_matches("W/").trim_matches('"') == b.etag.trim_matches('"'))
    };
    if let Some(m) = header("if-match") {
        let fits = blob.is_some_and(|b| m == "*" || same(m, b));
        if !fits {
            return Err(failed());
        }
    }
    if let (Some(m), Some(b)) = (header("if-none-match"), blob) {
        if m == "*" && writes {
            return Err(Refusal::new(
                StatusCode::CONFLICT,
                "BlobAlreadyExists",
                "The specified blob already exists.",
            ));
        }
        if m == "*" || same(m, b) {
            return Err(match writes {
                true => failed(),
                false => Refusal::new(StatusCode::NOT_MODIFIED, "ConditionNotMet", "")
                    .header("etag", b.etag.clone()),
            });
        }
    }
    let date =
        |name: &str| header(name).and_then(|t| jiff::fmt::rfc2822::parse(t).ok()).map(|z| z.timestamp());
    if let Some(b) = blob {
        let modified = b.modified.as_second();
        if let Some(t) = date("if-modified-since")
            && modified <= t.as_second()
        {
            return Err(match writes {
                true => failed(),
                false => Refusal::new(StatusCode::NOT_MODIFIED, "ConditionNotMet", ""),
            });
        }
        if date("if-unmodified-since").is_some_and(|t| modified > t.as_second()) {
            return Err(failed());
        }
    }
    Ok(())
}

pub fn with_metadata(mut reply: Reply, metadata: &BTreeMap<String, String>) -> Reply {
    for (k, v) in metadata {
        let name = http::HeaderName::from_bytes(format!("x-ms-meta-{k}").as_bytes());
        if let (Ok(name), Ok(value)) = (name, http::HeaderValue::from_str(v)) {
            reply.headers.insert(name, value);
        }
    }
    reply
}

/// What clients are told of a blob.
fn described(desk: &Desk<'_>, b: &Blob, mut reply: Reply) -> Reply {
    let p = &b.properties;
    let (status, state) = lease::words(b.lease.as_ref(), desk.now);
    reply = reply
        .with("etag", &b.etag)
        .with("last-modified", &http_date(b.modified))
        .with("x-ms-creation-time", &http_date(b.created))
        .with("x-ms-blob-type", "BlockBlob")
        .with("x-ms-lease-status", status)
        .with("x-ms-lease-state", state)
        .with("x-ms-server-encrypted", "true")
        .with("accept-ranges", "bytes")
        .with("x-ms-access-tier", b.tier.as_deref().unwrap_or("Hot"));
    if b.tier.is_none() {
        reply = reply.with("x-ms-access-tier-inferred", "true");
    }
    for (name, value) in [
        ("content-type", p.content_type.as_str()),
        ("content-encoding", &p.encoding),
        ("content-language", &p.language),
        ("content-disposition", &p.disposition),
        ("cache-control", &p.cache_control),
        ("x-ms-encryption-scope", b.scope.as_deref().unwrap_or_default()),
    ] {
        if !value.is_empty() {
            reply = reply.with(name, value);
        }
    }
    if !b.tags.is_empty() {
        reply = reply.with("x-ms-tag-count", &b.tags.len().to_string());
    }
    if let Some((id, source)) = &b.copy {
        reply = reply
            .with("x-ms-copy-id", id)
            .with("x-ms-copy-source", source)
            .with("x-ms-copy-status", "success")
            .with("x-ms-copy-progress", &format!("{0}/{0}", b.len()))
            .with("x-ms-copy-completion-time", &http_date(b.modified));
    }
    with_metadata(reply, &b.metadata)
}

/// `bytes=a-b` of a length; nothing if there is none that counts.
fn range(text: Option<&str>, len: u64) -> Result<Option<(u64, u64)>, Refusal> {
    let Some(spec) = text.and_then(|t| t.strip_prefix("bytes=")) else { return Ok(None) };
    let Some((from, to)) = spec.split_once('-') else { return Ok(None) };
    let Ok(from) = from.parse::<u64>() else { return Ok(None) };
    let to = if to.is_empty() { u64::MAX } else { to.parse().map_err(|_| bad_header())? };
    if to < from {
        return Ok(None);
    }
    if from >= len {
        return Err(Refusal::new(
            StatusCode::RANGE_NOT_SATISFIABLE,
            "InvalidRange",
            "The range specified is invalid for the current size of the resource.",
        )
        .header("content-range", format!("bytes */{len}")));
    }
    Ok(Some((from, to.min(len - 1))))
}

fn get(desk: &Desk<'_>, head: bool) -> Result<Reply, Refusal> {
    let b = desk.need_blob()?;
    conditions(desk, Some(b), false)?;
    let len = b.len();
    let asked = desk.ask.call.header("x-ms-range").or_else(|| desk.ask.call.header("range"));
    let range = if head { None } else { range(asked, len)? };
    let (from, size, status) = match range {
        Some((from, to)) => (from, to - from + 1, StatusCode::PARTIAL_CONTENT),
        None => (0, len, StatusCode::OK),
    };
    let mut reply = described(desk, b, Reply::empty(status));
    if let Some(md5) = &b.properties.md5 {
        reply = reply.with(if range.is_some() { "x-ms-blob-content-md5" } else { "content-md5" }, md5);
    }
    if let Some((from, to)) = range {
        reply = reply.with("content-range", &format!("bytes {from}-{to}/{len}"));
    }
    reply = reply.with("content-length", &size.to_string());
    // A signature may say how its answer is to be read.
    if matches!(desk.who, Who::Sas) {
        for (parameter, name) in [
            ("rsct", "content-type"),
            ("rscd", "content-disposition"),
            ("rsce", "content-encoding"),
            ("rscl", "content-language"),
            ("rscc", "cache-control"),
        ] {
            if let Some(v) = desk.ask.call.query(parameter) {
                reply = reply.with(name, v);
            }
        }
    }
    if !head {
        reply.parts = slices(&b.chunks, from, size);
        // Nothing to send is said so, too.
        reply.raw = reply.parts.is_empty().then(bytes::Bytes::new);
    }
    Ok(reply)
}

pub fn properties(ask: &Ask) -> Properties {
    let header = |name: &str| ask.call.header(name).unwrap_or_default().to_owned();
    Properties {
        content_type: header("x-ms-blob-content-type"),
        encoding: header("x-ms-blob-content-encoding"),
        language: header("x-ms-blob-content-language"),
        disposition: header("x-ms-blob-content-disposition"),
        cache_control: header("x-ms-blob-cache-control"),
        md5: None,
    }
}

/// The properties of an upload: said explicitly, or by the ordinary headers.
pub fn uploaded(ask: &Ask) -> Properties {
    let mut p = properties(ask);
    let header = |name: &str| ask.call.header(name).unwrap_or_default().to_owned();
    if p.content_type.is_empty() {
        p.content_type = header("content-type");
    }
    if p.content_type.is_empty() {
        p.content_type = "application/octet-stream".to_owned();
    }
    if p.encoding.is_empty() {
        p.encoding = header("content-encoding");
    }
    if p.language.is_empty() {
        p.language = header("content-language");
    }
    if p.cache_control.is_empty() {
        p.cache_control = header("cache-control");
    }
    p
}

pub fn tags_header(ask: &Ask) -> Result<BTreeMap<String, String>, Refusal> {
    let text = ask.call.header("x-ms-tags").unwrap_or_default();
    tags_ok(url::form_urlencoded::parse(text.as_bytes()).into_owned().collect())
}

fn tags_ok(tags: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Refusal> {
    let fits = tags.len() <= 10 && tags.iter().all(|(k, v)| (1..=128).contains(&k.len()) && v.len() <= 256);
    if fits {
        Ok(tags)
    } else {
        Err(Refusal::bad(
            "InvalidTag",
            "The tags specified are invalid. It contains characters that are not permitted.",
        ))
    }
}

pub fn check_md5(ask: &Ask, md5: &[u8; 16]) -> Result<(), Refusal> {
    match ask.call.header("content-md5") {
        Some(given) if given != STANDARD.encode(md5) => Err(Refusal::bad(
            "Md5Mismatch",
            "The MD5 value specified in the request did not match with the MD5 value calculated by the server.",
        )),
        _ => Ok(()),
    }
}

/// A blob to be written over what is there.
pub fn fresh(
    desk: &mut Desk<'_>,
    chunks: Vec<Chunk>,
    blocks: Vec<(String, u64)>,
    properties: Properties,
) -> Result<Blob, Refusal> {
    let (metadata, tags) = (metadata(desk.ask)?, tags_header(desk.ask)?);
    let old = desk.blob();
    let (created, lease) = (old.map_or(desk.now, |b| b.created), old.and_then(|b| b.lease.clone()));
    let header = |name: &str| desk.ask.call.header(name).map(str::to_owned);
    let (tier, scope) = (header("x-ms-access-tier"), header("x-ms-encryption-scope"));
    if let Some(s) = &scope
        && desk
            .state
            .data
            .get(&format!("fs/{}/encryptionscopes/{}", desk.account, s.to_lowercase()))
            .is_none()
    {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "EncryptionScopeNotFound",
            "The specified encryption scope does not exist.",
        ));
    }
    let key = blob_key(&desk.account, &desk.at.container, &desk.at.blob);
    let etag = desk.etag(&key);
    Ok(Blob {
        name: desk.at.blob.clone(),
        chunks,
        blocks,
        properties,
        metadata,
        tags,
        etag,
        created,
        modified: desk.now,
        tier,
        scope,
        lease,
        copy: None,
    })
}

pub fn written(b: &Blob) -> Reply {
    let mut reply = Reply::empty(StatusCode::CREATED)
        .with("etag", &b.etag)
        .with("last-modified", &http_date(b.modified))
        .with("x-ms-request-server-encrypted", "true");
    if let Some(scope) = &b.scope {
        reply = reply.with("x-ms-encryption-scope", scope);
    }
    reply
}

pub fn may_write(desk: &Desk<'_>) -> Result<(), Refusal> {
    desk.container()?;
    conditions(desk, desk.blob(), true)?;
    lease::check(desk, desk.blob())
}

fn put(desk: &mut Desk<'_>) -> Result<Reply, Refusal> {
    match desk.ask.call.header("x-ms-blob-type") {
        Some("BlockBlob") => {}
        Some("PageBlob" | "AppendBlob") => {
            return Err(Refusal::bad(
                "InvalidHeaderValue",
                "The value for one of the HTTP headers is not in the correct format: the simulator stores block blobs only.",
            ));
        }
        Some(_) => return Err(bad_header()),
        None => {
            return Err(Refusal::bad(
                "MissingRequiredHeader",
                "An HTTP header that's mandatory for this request is not specified.",
            ));
        }
    }
    may_write(desk)?;
    let upload = desk.ask.upload.as_ref().ok_or_else(|| {
        Refusal::new(
            StatusCode::LENGTH_REQUIRED,
            "MissingContentLengthHeader",
            "Content-Length HTTP header is missing",
        )
    })?;
    check_md5(desk.ask, &upload.md5)?;
    let mut p = uploaded(desk.ask);
    let md5 = STANDARD.encode(upload.md5);
    p.md5 = Some(desk.ask.call.header("x-ms-blob-content-md5").unwrap_or(&md5).to_owned());
    let chunks = if upload.len() == 0 { Vec::new() } else { vec![Chunk::of(&upload.content)] };
    let b = fresh(desk, chunks, Vec::new(), p)?;
    let reply = written(&b).with("content-md5", &md5);
    let waiting = blocks_key(&desk.account, &desk.at.container, &desk.at.blob);
    desk.state.data.remove(&waiting);
    desk.put_blob(b);
    Ok(reply)
}

fn delete(desk: &mut Desk<'_>) -> Result<Reply, Refusal> {
    let b = desk.need_blob()?;
    conditions(desk, Some(b), true)?;
    lease::check(desk, Some(b))?;
    for key in [blob_key, blocks_key].map(|k| k(&desk.account, &desk.at.container, &desk.at.blob)) {
        desk.state.data.remove(&key);
    }
    Ok(Reply::empty(StatusCode::ACCEPTED).with("x-ms-delete-type-permanent", "true"))
}

fn change(desk: &mut Desk<'_>, status: StatusCode, how: impl FnOnce(&mut Blob)) -> Result<Reply, Refusal> {
    let mut b = desk.need_blob()?.clone();
    conditions(desk, Some(&b), true)?;
    lease::check(desk, Some(&b))?;
    how(&mut b);
    let key = blob_key(&desk.account, &desk.at.container, &desk.at.blob);
    b.etag = desk.etag(&key);
    b.modified = desk.now;
    let reply = Reply::empty(status).with("etag", &b.etag).with("last-modified", &http_date(b.modified));
    desk.put_blob(b);
    Ok(reply)
}

fn tags_shown(b: &Blob) -> Reply {
    let mut x = Xml::document();
    x.open("Tags").open("TagSet");
    for (k, v) in &b.tags {
        x.open("Tag").leaf("Key", k).leaf("Value", v).close("Tag");
    }
    x.close("TagSet").close("Tags");
    xml_reply(x)
}

fn set_tags(desk: &mut Desk<'_>) -> Result<Reply, Refusal> {
    let doc = xml::read(&desk.ask.call.body).map_err(invalid_xml)?;
    let set = doc.child("TagSet").ok_or_else(|| invalid_xml(xml::XmlError::Malformed))?;
    let tags = set
        .children
        .iter()
        .map(|t| {
            (
                t.child_text("Key").unwrap_or_default().to_owned(),
                t.child_text("Value").unwrap_or_default().to_owned(),
            )
        })
        .collect();
    let mut b = desk.need_blob()?.clone();
    b.tags = tags_ok(tags)?;
    desk.put_blob(b);
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// Copies another blob of the simulator: one of the same account, or one that the URL itself gives the right to.
fn copy(desk: &mut Desk<'_>, cx: &mut Cx<'_>, source: String) -> Result<Reply, Refusal> {
    may_write(desk)?;
    let url = url::Url::parse(&source).ok().filter(|u| u.scheme() == "https").ok_or_else(bad_header)?;
    let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
    let failed = |why: &str| {
        Refusal::new(
            StatusCode::NOT_FOUND,
            "CannotVerifyCopySource",
            format!("{why} The simulator copies from its own accounts only."),
        )
    };
    if Plane::of(&host) != Some(Plane::Blob) {
        return Err(failed("The specified copy source is not reachable."));
    }
    let record = record_of(desk.state, &host)
        .cloned()
        .ok_or_else(|| failed("The specified resource does not exist."))?;
    let account = record.id.name().to_lowercase();
    let at = place(url.path())?;
    if !(account == desk.account && matches!(desk.who, Who::Key | Who::Bearer(_))) {
        let call = Call {
            method: Method::GET,
            path: url.path().to_owned(),
            query: url.query_pairs().into_owned().collect(),
            headers: http::HeaderMap::new(),
            body: bytes::Bytes::new(),
            base: String::new(),
        };
        let (raw_path, raw_query) = (url.path().to_owned(), url.query().unwrap_or_default().to_owned());
        let ask = Ask { plane: Plane::Blob, host, raw_path, raw_query, call, upload: None };
        let seen = cx.seen.clone();
        let judged = access::admit(desk.state, cx, &ask, &record, &account, &at, AnyDeed::Blob(Deed::Get));
        cx.seen = seen;
        judged.map_err(|_| {
            Refusal::new(
                StatusCode::FORBIDDEN,
                "CannotVerifyCopySource",
                "This request is not authorized to read the copy source.",
            )
        })?;
    }
    let Some(Datum::Blob(from)) = desk.state.data.get(&blob_key(&account, &at.container, &at.blob)) else {
        return Err(failed("The specified blob does not exist."));
    };
    let from = (**from).clone();
    let mut b = fresh(desk, from.chunks, from.blocks, from.properties)?;
    if b.metadata.is_empty() {
        b.metadata = from.metadata;
    }
    let id = (cx.random)();
    let bare = source.split('?').next().unwrap_or_default().to_owned();
    b.copy = Some((id.clone(), bare));
    let reply = Reply::empty(StatusCode::ACCEPTED)
        .with("etag", &b.etag)
        .with("last-modified", &http_date(b.modified))
        .with("x-ms-copy-id", &id)
        .with("x-ms-copy-status", "success");
    desk.put_blob(b);
    Ok(reply)
}
