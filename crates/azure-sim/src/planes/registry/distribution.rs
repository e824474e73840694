//! The OCI distribution protocol.

use crate::planes::contents::{self, Chunk, hex, slices, total};
use crate::planes::registry::tokens::{Scope, admit};
use crate::planes::registry::{
    Desk, Layer, Manifest, Refusal, Session, Tag, digest_ok, key, name_ok, repositories, tag_ok,
};
use crate::planes::{Cx, Datum};
use crate::state::State;
use crate::wire::Reply;
use http::{Method, StatusCode};
use serde_json::{Value, json};

type Done = Result<(Reply, bool), Refusal>;

const MAX_MANIFEST: usize = 4 << 20;

fn unsupported() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED", "The operation is unsupported.")
}

fn checked(name: &str) -> Result<(), Refusal> {
    match name_ok(name) {
        true => Ok(()),
        false => Err(Refusal::new(StatusCode::BAD_REQUEST, "NAME_INVALID", "invalid repository name")),
    }
}

fn digest(text: &str) -> Result<(), Refusal> {
    match digest_ok(text) {
        true => Ok(()),
        false => Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "DIGEST_INVALID",
            "provided digest is not a sha256 digest",
        )),
    }
}

pub fn serve(desk: &mut Desk<'_>, cx: &mut Cx<'_>, path: &str) -> Done {
    let method = desk.ask.call.method.clone();
    if path.is_empty() {
        admit(desk, cx, None)?;
        return Ok((Reply::ok(json!({})), false));
    }
    if path == "_catalog" {
        admit(desk, cx, Some(&Scope::catalog()))?;
        let all = repositories(desk.state, &desk.registry);
        return Ok((page(desk, "repositories", json!({}), all, "/v2/_catalog")?, false));
    }
    if let Some(name) = path.strip_suffix("/tags/list") {
        checked(name)?;
        admit(desk, cx, Some(&Scope::repository(name, "pull")))?;
        let all = tags(desk, name);
        if all.is_empty() && !repositories(desk.state, &desk.registry).iter().any(|r| r == name) {
            return Err(unknown_name(name));
        }
        let path = format!("/v2/{name}/tags/list");
        return Ok((page(desk, "tags", json!({"name": name}), all, &path)?, false));
    }
    if let Some((name, rest)) = path.rsplit_once("/blobs/uploads") {
        checked(name)?;
        admit(desk, cx, Some(&Scope::repository(name, "push")))?;
        return upload(desk, cx, name, rest.trim_matches('/'));
    }
    let words = ["/manifests/", "/blobs/", "/referrers/"];
    let found = words.iter().find_map(|w| path.rsplit_once(w).map(|(n, r)| (*w, n, r)));
    let Some((word, name, reference)) = found else {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "NAME_UNKNOWN",
            "repository name not known to registry",
        ));
    };
    checked(name)?;
    let action = match method {
        Method::GET | Method::HEAD => "pull",
        Method::PUT => "push",
        Method::DELETE => "delete",
        _ => return Err(unsupported()),
    };
    admit(desk, cx, Some(&Scope::repository(name, action)))?;
    match (word, action) {
        ("/manifests/", "pull") => get_manifest(desk, name, reference),
        ("/manifests/", "push") => put_manifest(desk, name, reference),
        ("/manifests/", _) => delete_manifest(desk, name, reference),
        ("/blobs/", "pull") => get_blob(desk, name, reference),
        ("/blobs/", "delete") => {
            digest(reference)?;
            let key = desk.key("rl", name, reference);
            desk.state.data.remove(&key).ok_or_else(|| unknown_blob(reference))?;
            Ok((Reply::empty(StatusCode::ACCEPTED), true))
        }
        ("/referrers/", "pull") => referrers(desk, name, reference),
        _ => Err(unsupported()),
    }
}

fn unknown_name(name: &str) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "NAME_UNKNOWN", format!("repository \"{name}\" is not found"))
}

fn unknown_blob(digest: &str) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "BLOB_UNKNOWN", format!("blob {digest} unknown to registry"))
}

fn unknown_manifest(reference: &str) -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "MANIFEST_UNKNOWN",
        format!("manifest tagged by \"{reference}\" is not found"),
    )
}

/// A list of names with `n` and `last`.
fn page(
    desk: &Desk<'_>,
    field: &str,
    mut body: Value,
    all: Vec<String>,
    path: &str,
) -> Result<Reply, Refusal> {
    let most = match desk.ask.call.query("n") {
        None => 100,
        Some(n) => n
            .parse::<usize>()
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| {
                Refusal::new(
                    StatusCode::BAD_REQUEST,
                    "PAGINATION_NUMBER_INVALID",
                    "invalid number of results requested",
                )
            })?
            .min(1000),
    };
    let last = desk.ask.call.query("last").unwrap_or_default();
    let mut rest = all.into_iter().filter(|n| n.as_str() > last);
    let shown: Vec<String> = rest.by_ref().take(most).collect();
    let more = rest.next().is_some();
    let mut reply = Reply::empty(StatusCode::OK);
    if let (true, Some(end)) = (more, shown.last()) {
        let end = percent_encoding::utf8_percent_encode(end, percent_encoding::NON_ALPHANUMERIC);
        reply = reply.with("link", &format!("<{path}?last={end}&n={most}>; rel=\"next\""));
    }
    body[field] = json!(shown);
    reply.body = Some(body);
    Ok(reply)
}

pub fn tags(desk: &Desk<'_>, name: &str) -> Vec<String> {
    let prefix = desk.key("rt", name, "");
    desk.state
        .data
        .range(&prefix, None)
        .filter_map(|(k, _)| k.strip_prefix(&prefix).map(str::to_owned))
        .collect()
}

fn session_key(desk: &Desk<'_>, id: &str) -> String {
    format!("ru/{}/{id}", desk.registry)
}

fn accepted(name: &str, id: &str, len: u64) -> Reply {
    Reply::empty(StatusCode::ACCEPTED)
        .with("location", &format!("/v2/{name}/blobs/uploads/{id}"))
        .with("docker-upload-uuid", id)
        .with("range", &format!("0-{}", len.saturating_sub(1)))
}

fn upload(desk: &mut Desk<'_>, cx: &mut Cx<'_>, name: &str, id: &str) -> Done {
    let method = desk.ask.call.method.clone();
    let query = |n: &str| desk.ask.call.query(n).map(str::to_owned);
    let sent: Vec<Chunk> =
        desk.ask.upload.as_ref().filter(|u| u.len() > 0).map(|u| Chunk::of(&u.content)).into_iter().collect();
    if id.is_empty() {
        if method != Method::POST {
            return Err(unsupported());
        }
        if let (Some(d), Some(from)) = (query("mount"), query("from")) {
            digest(&d)?;
            checked(&from)?;
            // Only what the caller may read can be taken along.
            let readable = admit(desk, cx, Some(&Scope::repository(&from, "pull"))).is_ok();
            let there = match desk.state.data.get(&desk.key("rl", &from, &d)) {
                Some(Datum::Layer(l)) if readable => Some((**l).clone()),
                _ => None,
            };
            if let Some(layer) = there {
                let key = desk.key("rl", name, &d);
                desk.state.data.put(&key, Datum::Layer(Box::new(layer)));
                return Ok((created(name, &d), true));
            }
        }
        if let Some(d) = query("digest") {
            return finish(desk, name, &d, sent);
        }
        // One id per request, also when it is worked on twice.
        let key: crate::state::Key = format!("ru/{}/{name}", desk.registry).into();
        desk.state.bump(&key);
        let id = desk.state.guid(&key, "upload");
        let session = Session { repository: name.to_owned(), chunks: sent };
        let len = total(&session.chunks);
        let key = session_key(desk, &id);
        desk.state.data.put(&key, Datum::Session(Box::new(session)));
        return Ok((accepted(name, &id, len), true));
    }
    let key = session_key(desk, id);
    let unknown =
        || Refusal::new(StatusCode::NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", "blob upload unknown to registry");
    let mut session = match desk.state.data.get(&key) {
        Some(Datum::Session(s)) if s.repository == name => (**s).clone(),
        _ => return Err(unknown()),
    };
    let len = total(&session.chunks);
    match method {
        Method::GET => {
            let mut reply = accepted(name, id, len);
            reply.status = StatusCode::NO_CONTENT;
            Ok((reply, false))
        }
        Method::DELETE => {
            desk.state.data.remove(&key);
            Ok((Reply::empty(StatusCode::NO_CONTENT), true))
        }
        Method::PATCH => {
            if let Some(range) = desk.ask.call.header("content-range") {
                let range = range.strip_prefix("bytes ").unwrap_or(range);
                let from = range.split(['-', '/']).next().and_then(|n| n.trim().parse::<u64>().ok());
                if from != Some(len) {
                    return Err(Refusal::new(
                        StatusCode::RANGE_NOT_SATISFIABLE,
                        "BLOB_UPLOAD_INVALID",
                        format!("the next byte is {len}"),
                    ));
                }
            }
            session.chunks.extend(sent);
            let len = total(&session.chunks);
            desk.state.data.put(&key, Datum::Session(Box::new(session)));
            Ok((accepted(name, id, len), true))
        }
        Method::PUT => {
            let d = query("digest").ok_or_else(|| {
                Refusal::new(StatusCode::BAD_REQUEST, "DIGEST_INVALID", "digest parameter missing")
            })?;
            session.chunks.extend(sent);
            let done = finish(desk, name, &d, session.chunks)?;
            desk.state.data.remove(&key);
            Ok(done)
        }
        _ => Err(unsupported()),
    }
}

fn created(name: &str, digest: &str) -> Reply {
    Reply::empty(StatusCode::CREATED)
        .with("location", &format!("/v2/{name}/blobs/{digest}"))
        .with("docker-content-digest", digest)
}

fn finish(desk: &mut Desk<'_>, name: &str, expected: &str, chunks: Vec<Chunk>) -> Done {
    digest(expected)?;
    let sum = contents::sha256(&chunks).map_err(|_| {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN", "the upload cannot be read")
    })?;
    if format!("sha256:{}", hex(&sum)) != expected {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "DIGEST_INVALID",
            "provided digest did not match uploaded content",
        ));
    }
    let key = desk.key("rl", name, expected);
    desk.state.data.put(&key, Datum::Layer(Box::new(Layer { chunks })));
    Ok((created(name, expected), true))
}

fn get_blob(desk: &Desk<'_>, name: &str, d: &str) -> Done {
    digest(d)?;
    let Some(Datum::Layer(layer)) = desk.state.data.get(&desk.key("rl", name, d)) else {
        return Err(unknown_blob(d));
    };
    let len = total(&layer.chunks);
    let mut reply = Reply::empty(StatusCode::OK)
        .with("docker-content-digest", d)
        .with("etag", &format!("\"{d}\""))
        .with("content-type", "application/octet-stream")
        .with("accept-ranges", "bytes");
    let asked =
        desk.ask.call.header("range").and_then(|r| r.strip_prefix("bytes=")).and_then(|r| r.split_once('-'));
    let (from, size) = match asked.map(|(a, b)| (a.parse::<u64>(), b.parse::<u64>().unwrap_or(u64::MAX))) {
        Some((Ok(a), b)) if a < len && b >= a => {
            reply.status = StatusCode::PARTIAL_CONTENT;
            let b = b.min(len - 1);
            reply = reply.with("content-range", &format!("bytes {a}-{b}/{len}"));
            (a, b - a + 1)
        }
        Some((Ok(_), _)) => {
            return Err(Refusal::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                "SIZE_INVALID",
                "the range lies outside of the blob",
            ));
        }
        _ => (0, len),
    };
    reply = reply.with("content-length", &size.to_string());
    if desk.ask.call.method == Method::GET {
        reply.parts = slices(&layer.chunks, from, size);
        reply.raw = reply.parts.is_empty().then(bytes::Bytes::new);
    }
    Ok((reply, false))
}

/// The digest that a tag or digest stands for.
pub fn resolve(state: &State, registry: &str, name: &str, reference: &str) -> Option<String> {
    if digest_ok(reference) {
        return Some(reference.to_owned());
    }
    match state.data.get(&key(registry, "rt", name, reference)) {
        Some(Datum::Tag(t)) => Some(t.digest.clone()),
        _ => None,
    }
}

pub fn manifest<'a>(state: &'a State, registry: &str, name: &str, digest: &str) -> Option<&'a Manifest> {
    match state.data.get(&key(registry, "rm", name, digest)) {
        Some(Datum::Manifest(m)) => Some(m),
        _ => None,
    }
}

fn get_manifest(desk: &Desk<'_>, name: &str, reference: &str) -> Done {
    let found = resolve(desk.state, &desk.registry, name, reference);
    let found = found.and_then(|d| manifest(desk.state, &desk.registry, name, &d).map(|m| (d, m)));
    let (d, m) = found.ok_or_else(|| unknown_manifest(reference))?;
    let mut reply = Reply::empty(StatusCode::OK)
        .with("docker-content-digest", &d)
        .with("etag", &format!("\"{d}\""))
        .with("content-type", &m.media)
        .with("content-length", &m.content.len().to_string());
    if desk.ask.call.method == Method::GET {
        reply.parts = slices(std::slice::from_ref(&m.content), 0, m.content.len());
    }
    Ok((reply, false))
}

const INDEXES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
const IMAGES: [&str; 2] =
    ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];

fn put_manifest(desk: &mut Desk<'_>, name: &str, reference: &str) -> Done {
    let invalid = |m: String| Refusal::new(StatusCode::BAD_REQUEST, "MANIFEST_INVALID", m);
    let body = desk.ask.call.body.clone();
    if body.len() > MAX_MANIFEST {
        return Err(Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "SIZE_INVALID",
            "a manifest has at most 4 MiB",
        ));
    }
    let by_tag = !reference.contains(':');
    match by_tag {
        true if !tag_ok(reference) => {
            return Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                "TAG_INVALID",
                "manifest tag did not match the rules of tags",
            ));
        }
        true => {}
        false => digest(reference)?,
    }
    let doc: Value =
        serde_json::from_slice(&body).map_err(|e| invalid(format!("the manifest is not JSON: {e}")))?;
    if !doc.is_object() || doc["schemaVersion"] != 2 {
        return Err(invalid("schemaVersion must be 2".to_owned()));
    }
    let said = desk
        .ask
        .call
        .header("content-type")
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned();
    let media = doc["mediaType"].as_str().map_or_else(|| said.clone(), str::to_owned);
    if !said.is_empty() && media != said {
        return Err(invalid(format!("mediaType '{media}' is not the content type '{said}'")));
    }
    if !INDEXES.contains(&media.as_str()) && !IMAGES.contains(&media.as_str()) {
        return Err(invalid(format!(
            "the media type '{}' is not one of images or indexes",
            media.chars().take(100).collect::<String>()
        )));
    }
    let d = format!("sha256:{}", hex(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &body).as_ref()));
    if !by_tag && d != reference {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "DIGEST_INVALID",
            "provided digest did not match uploaded content",
        ));
    }
    let about = described(desk, name, &doc, &media)?;
    let stored = desk.state.data.contents.put(&body).map_err(|_| {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN", "the manifest cannot be stored")
    })?;
    let (key, now) = (desk.key("rm", name, &d), desk.now);
    let created = manifest(desk.state, &desk.registry, name, &d).map_or(now, |m| m.created);
    let m = Manifest { content: Chunk::of(&stored.content), media, created, about };
    let subject = m.about["subject"].as_str().map(str::to_owned);
    desk.state.data.put(&key, Datum::Manifest(Box::new(m)));
    if by_tag {
        tag(desk.state, &desk.registry, name, reference, &d, now);
    }
    let mut reply = Reply::empty(StatusCode::CREATED)
        .with("location", &format!("/v2/{name}/manifests/{d}"))
        .with("docker-content-digest", &d);
    if let Some(s) = subject {
        reply = reply.with("oci-subject", &s);
    }
    Ok((reply, true))
}

fn tag(state: &mut State, registry: &str, name: &str, tag: &str, digest: &str, now: jiff::Timestamp) {
    let key = key(registry, "rt", name, tag);
    let created = match state.data.get(&key) {
        Some(Datum::Tag(t)) => t.created,
        _ => now,
    };
    let t = Tag { digest: digest.to_owned(), created, updated: now };
    state.data.put(&key, Datum::Tag(Box::new(t)));
}

/// Checks that what a manifest names is there, and notes what tools ask for.
fn described(desk: &Desk<'_>, name: &str, doc: &Value, media: &str) -> Result<Value, Refusal> {
    let invalid = |m: &str| Refusal::new(StatusCode::BAD_REQUEST, "MANIFEST_INVALID", m);
    let of = |v: &Value| -> Result<String, Refusal> {
        let d = v["digest"]
            .as_str()
            .filter(|d| digest_ok(d))
            .ok_or_else(|| invalid("a descriptor has no valid digest"))?;
        Ok(d.to_owned())
    };
    let mut size = 0;
    if INDEXES.contains(&media) {
        for m in doc["manifests"].as_array().ok_or_else(|| invalid("an index has a list of manifests"))? {
            let d = of(m)?;
            if manifest(desk.state, &desk.registry, name, &d).is_none() {
                return Err(Refusal::new(
                    StatusCode::BAD_REQUEST,
                    "MANIFEST_BLOB_UNKNOWN",
                    format!("manifest {d} is not in the repository"),
                ));
            }
            size += m["size"].as_u64().unwrap_or(0);
        }
    } else {
        let layers = doc["layers"].as_array().ok_or_else(|| invalid("an image has a list of layers"))?;
        for l in std::iter::once(&doc["config"]).chain(layers) {
            let d = of(l)?;
            let foreign = l["urls"].as_array().is_some_and(|u| !u.is_empty());
            if !foreign && desk.state.data.get(&desk.key("rl", name, &d)).is_none() {
                return Err(Refusal::new(
                    StatusCode::BAD_REQUEST,
                    "MANIFEST_BLOB_UNKNOWN",
                    format!("blob {d} is not in the repository"),
                ));
            }
            size += l["size"].as_u64().unwrap_or(0);
        }
    }
    let subject = match &doc["subject"] {
        Value::Null => Value::Null,
        s => of(s)?.into(),
    };
    Ok(json!({
        "imageSize": size, "configMediaType": doc["config"]["mediaType"], "subject": subject,
        "artifactType": doc.get("artifactType").filter(|v| !v.is_null()).unwrap_or_else(|| &doc["config"]["mediaType"]),
        "annotations": doc["annotations"],
    }))
}

fn delete_manifest(desk: &mut Desk<'_>, name: &str, reference: &str) -> Done {
    if !digest_ok(reference) {
        let key = desk.key("rt", name, reference);
        desk.state.data.remove(&key).ok_or_else(|| unknown_manifest(reference))?;
        return Ok((Reply::empty(StatusCode::ACCEPTED), true));
    }
    let key = desk.key("rm", name, reference);
    desk.state.data.remove(&key).ok_or_else(|| unknown_manifest(reference))?;
    for t in tags(desk, name) {
        if resolve(desk.state, &desk.registry, name, &t).as_deref() == Some(reference) {
            let key = desk.key("rt", name, &t);
            desk.state.data.remove(&key);
        }
    }
    Ok((Reply::empty(StatusCode::ACCEPTED), true))
}

fn referrers(desk: &Desk<'_>, name: &str, d: &str) -> Done {
    digest(d)?;
    let prefix = desk.key("rm", name, "");
    let wanted = desk.ask.call.query("artifactType");
    let list: Vec<Value> = desk
        .state
        .data
        .range(&prefix, None)
        .filter_map(|(k, x)| match x {
            Datum::Manifest(m) if m.about["subject"] == d => Some((k.strip_prefix(&prefix)?, m)),
            _ => None,
        })
        .filter(|(_, m)| wanted.is_none_or(|w| m.about["artifactType"] == w))
        .map(|(digest, m)| json!({"mediaType": m.media, "digest": digest, "size": m.content.len(), "artifactType": m.about["artifactType"], "annotations": m.about["annotations"]}))
        .collect();
    let mut reply = Reply::empty(StatusCode::OK).with("content-type", INDEXES[0]);
    if wanted.is_some() {
        reply = reply.with("oci-filters-applied", "artifactType");
    }
    let body = json!({"schemaVersion": 2, "mediaType": INDEXES[0], "manifests": list});
    reply.raw = Some(body.to_string().into());
    Ok((reply, false))
}

/// Takes an image with everything it consists of from one registry of the simulator into another.
pub fn import(
    state: &mut State,
    from: (&str, &str, &str),
    to: (&str, &str),
    tags: &[String],
    now: jiff::Timestamp,
) -> Result<(), Refusal> {
    let (source, repository, reference) = from;
    let (target, into) = to;
    checked(into)?;
    let top = resolve(state, source, repository, reference).ok_or_else(|| unknown_manifest(reference))?;
    let mut waiting = vec![top.clone()];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(d) = waiting.pop() {
        if !seen.insert(d.clone()) {
            continue;
        }
        let m = manifest(state, source, repository, &d).cloned().ok_or_else(|| unknown_manifest(&d))?;
        let bytes = contents::whole(std::slice::from_ref(&m.content), MAX_MANIFEST as u64);
        let doc: Value = bytes.ok().and_then(|b| serde_json::from_slice(&b).ok()).unwrap_or_default();
        let of = |v: &Value| v["digest"].as_str().map(str::to_owned);
        waiting.extend(doc["manifests"].as_array().into_iter().flatten().filter_map(of));
        let blobs = std::iter::once(&doc["config"]).chain(doc["layers"].as_array().into_iter().flatten());
        for b in blobs.filter_map(of).collect::<Vec<_>>() {
            if let Some(Datum::Layer(l)) = state.data.get(&key(source, "rl", repository, &b)) {
                let l = (**l).clone();
                state.data.put(&key(target, "rl", into, &b), Datum::Layer(Box::new(l)));
            }
        }
        state.data.put(&key(target, "rm", into, &d), Datum::Manifest(Box::new(m)));
    }
    for t in tags {
        if !tag_ok(t) {
            return Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                "TAG_INVALID",
                "manifest tag did not match the rules of tags",
            ));
        }
        tag(state, target, into, t, &top, now);
    }
    Ok(())
}
