//! Get and list.

use super::Call;
use crate::convert::is_unchanged;
use crate::present::{self, IncludeObject};
use crate::registry::Resource;
use crate::select::Filter;
use crate::wire::negotiate::{Accepted, Encoding, Shape};
use crate::wire::respond::{self, Body, Reply};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use ek_meta::Status;
use ek_store::{Entry, HistoryError, View};
use serde_json::{Value, json};
use std::ops::Bound;
use std::sync::Arc;

pub async fn get(call: &Call) -> Result<Reply, Status> {
    let accepted = call.accepted(true)?;
    let entry = call.live()?;
    min_revision(call)?;
    call.object_reply(200, accepted, &entry).await
}

/// A read that names a revision from the future must not be answered from the past.
fn min_revision(call: &Call) -> Result<(), Status> {
    let Some(rv) = call.params.get("resourceVersion") else { return Ok(()) };
    // Here upstream hands the parser's error on as it is.
    let wanted = parse_revision(rv).map_err(|s| {
        let text = s.message.trim_start_matches("invalid resource version: ").to_owned();
        Status { reason: None, ..Status::failure(500, ek_meta::Reason::InternalError, text) }
    })?;
    let current = call.cluster.store.current(&call.cluster.id);
    if wanted > current { Err(too_large(wanted, current)) } else { Ok(()) }
}

pub fn parse_revision(rv: &str) -> Result<u64, Status> {
    rv.parse().map_err(|_| {
        Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {rv:?}: strconv.ParseUint: parsing {rv:?}: invalid syntax"
        ))
    })
}

pub fn too_large(wanted: u64, current: u64) -> Status {
    Status::timeout(format!("Too large resource version: {wanted}, current: {current}"), 1).with_cause(
        "ResourceVersionTooLarge",
        "Too large resource version",
        "",
    )
}

pub const EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// Where a list goes on: `start` is relative to the list's own prefix, as in etcd's tokens.
struct Continue {
    /// -1 asks for whatever is there now.
    revision: i64,
    start: String,
    /// When the list began, in seconds.
    born: i64,
}

/// How long a list may take, in seconds. The history would often reach further back, but it is not there for ever,
/// and clients that wait for the end of it (they know etcd, which forgets after five minutes) should see one.
const PATIENCE: i64 = 300;

impl Continue {
    fn encode(&self) -> String {
        let v = json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.start, "born": self.born});
        URL_SAFE_NO_PAD.encode(v.to_string())
    }

    fn decode(token: &str) -> Result<Continue, Status> {
        let bad = |why: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        if token.len() > 4096 {
            return Err(bad("too long"));
        }
        let bytes =
            URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|_| bad("incorrect encoding"))?;
        let v = crate::wire::body::read_json(&bytes).map_err(|e| bad(&e))?.value;
        if v["v"] != "meta.k8s.io/v1" {
            return Err(bad("server does not recognize this encoded version"));
        }
        let revision = v["rv"]
            .as_i64()
            .filter(|r| *r != 0 && *r >= -1)
            .ok_or_else(|| bad("incorrect encoded start resourceVersion"))?;
        let start = v["start"].as_str().unwrap_or_default().to_owned();
        if start.is_empty() || start.split('/').any(|p| p == "..") {
            return Err(bad("incorrect encoded start key"));
        }
        Ok(Continue { revision, start, born: v["born"].as_i64().unwrap_or(i64::MAX) })
    }
}

/// What a list found, before it is given a shape.
struct Page {
    revision: u64,
    entries: Vec<Arc<Entry>>,
    next: Option<String>,
    remaining: Option<usize>,
}

pub async fn list(call: &Call) -> Result<Reply, Status> {
    let accepted = call.accepted(true)?;
    let filter = Filter::parse(&call.res, &call.info.namespace, "", &call.params)?;
    let page = page(call, &filter)?;
    let mut meta = json!({"resourceVersion": page.revision.to_string()});
    if call.res.is_custom() && accepted.shape == Shape::Object {
        // Lists without a type show it even when there is nothing to go on with.
        meta["continue"] = json!("");
    }
    if let Some(next) = &page.next {
        meta["continue"] = json!(next);
        if let Some(n) = page.remaining {
            meta["remainingItemCount"] = json!(n);
        }
    }
    match accepted.shape {
        Shape::Object => whole(call, accepted, meta, page.entries).await,
        Shape::Table(v) => {
            let include = IncludeObject::parse(call.params.get("includeObject"))?;
            let now = call.cluster.now();
            let objs = call.cluster.read_all(&call.res, &page.entries).await?;
            let rows = objs.iter().map(|o| present::row(&call.res, o, v, include, now)).collect();
            let table = present::table(v, meta, Some(present::columns(&call.res)), rows);
            Ok(respond::value(200, accepted.encoding, &table))
        }
        Shape::Partial(v) => {
            let objs = call.cluster.read_all(&call.res, &page.entries).await?;
            let items: Vec<Value> = objs.iter().map(|o| present::partial(o, v)).collect();
            let list = json!({
                "kind": "PartialObjectMetadataList", "apiVersion": v.api_version(), "metadata": meta, "items": items
            });
            Ok(respond::value(200, accepted.encoding, &list))
        }
    }
}

/// Whether exactly the given version is asked for. Everything wrong with the question is said at once.
fn which_version(p: &crate::wire::params::Params) -> Result<bool, Status> {
    use ek_meta::{FieldError, FieldPath};
    let mut errors = Vec::new();
    if p.has("sendInitialEvents") {
        let path = FieldPath::new("sendInitialEvents");
        errors.push(FieldError::forbidden(&path, "sendInitialEvents is forbidden for list"));
    }
    let at = FieldPath::new("resourceVersionMatch");
    if let Some(m) = p.get("resourceVersionMatch") {
        let rv = p.get("resourceVersion");
        if p.get("continue").is_some() {
            let text = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(&at, text));
        }
        if rv.is_none() {
            let text = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(&at, text));
        }
        if !matches!(m, "Exact" | "NotOlderThan") {
            errors.push(FieldError::not_supported(&at, m, &["Exact", "NotOlderThan", ""]));
        } else if m == "Exact" && rv == Some("0") {
            let text = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(&at, text));
        }
    }
    match errors.as_slice() {
        [] => Ok(p.get("resourceVersionMatch") == Some("Exact")),
        errors => Err(Status::invalid("meta.k8s.io", "ListOptions", "", errors)),
    }
}

fn page(call: &Call, filter: &Filter) -> Result<Page, Status> {
    let p = &call.params;
    // A negative limit is none.
    let limit = p.int("limit")?.unwrap_or(0).max(0);
    let exact = which_version(p)?;
    let mut limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let rv = p.get("resourceVersion");
    let (cluster, table) = (&call.cluster, &call.res.table);
    let store = &cluster.store;
    let mut start = None;
    let mut born = cluster.now().as_second();
    let view = match p.get("continue") {
        Some(token) => {
            if rv.is_some_and(|rv| rv != "0") {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let c = Continue::decode(token)?;
            start = Some(c.start.clone());
            let expired = || {
                let mut s = Status::expired(EXPIRED);
                let now = Continue { revision: -1, start: c.start.clone(), born };
                s.metadata.continue_token = Some(now.encode());
                s
            };
            match u64::try_from(c.revision) {
                Ok(_) if born.saturating_sub(c.born) > PATIENCE => return Err(expired()),
                Ok(r) => {
                    let view = store.view_at(&cluster.id, table, r).map_err(|e| match e {
                        HistoryError::TooOld { .. } => expired(),
                        HistoryError::Future { requested, current } => too_large(requested, current),
                    })?;
                    born = born.min(c.born);
                    view
                }
                Err(_) => store.view(&cluster.id, table),
            }
        }
        None => match rv {
            None => store.view(&cluster.id, table),
            Some("0") => {
                limit = 0;
                store.view(&cluster.id, table)
            }
            Some(rv) => {
                let wanted = parse_revision(rv)?;
                if exact {
                    store.view_at(&cluster.id, table, wanted).map_err(|e| match e {
                        HistoryError::TooOld { requested, .. } => Status::expired(format!(
                            "The resourceVersion for the provided list is too old: {requested}"
                        )),
                        HistoryError::Future { requested, current } => too_large(requested, current),
                    })?
                } else {
                    let view = store.view(&cluster.id, table);
                    if wanted > view.revision {
                        return Err(too_large(wanted, view.revision));
                    }
                    view
                }
            }
        },
    };
    let page = cut(&view, filter, start.as_deref(), limit, born);
    all_readable(call, &view)?;
    Ok(page)
}

/// One object that cannot be read spoils the list: leaving it out would look like its deletion.
pub(super) fn all_readable(call: &Call, view: &View) -> Result<(), Status> {
    if !call.cluster.store.has_locked() {
        return Ok(());
    }
    let ns = &call.info.namespace;
    let asked = |key: &str| ns.is_empty() || key.split_once('/').is_some_and(|(n, _)| n == ns);
    match view.objects.iter().find_map(|(k, e)| Some((k, e.locked().filter(|_| asked(k))?))) {
        Some((key, why)) => {
            let path = format!("/kubernetes.io/{}/{key}", call.res.table.trim_start_matches('/'));
            Err(Status::internal(format!("unable to transform key {path:?}: {why}")))
        }
        None => Ok(()),
    }
}

/// The next `limit` selected objects (0: all) from `start` on.
fn cut(view: &View, filter: &Filter, start: Option<&str>, limit: usize, born: i64) -> Page {
    let prefix = filter.namespace.as_ref().map(|ns| format!("{ns}/")).unwrap_or_default();
    if let Some(name) = &filter.name
        && (filter.namespace.is_some() || !name.is_empty())
        && start.is_none()
    {
        // One object by its full key: no walk. Cluster-wide lists by name of namespaced kinds still walk.
        let key = format!("{prefix}{name}");
        if filter.namespace.is_some() || view.objects.contains_key(key.as_str()) {
            let hit = view.objects.get(key.as_str()).filter(|e| filter.matches(&key, e));
            return Page {
                revision: view.revision,
                entries: hit.cloned().into_iter().collect(),
                next: None,
                remaining: None,
            };
        }
    }
    let from = match start {
        Some(s) => format!("{prefix}{}", s.trim_end_matches('\0')),
        None => prefix.clone(),
    };
    let lower: Bound<&str> = if start.is_some_and(|s| s.ends_with('\0')) {
        Bound::Excluded(from.as_str())
    } else {
        Bound::Included(from.as_str())
    };
    let mut entries = Vec::new();
    let mut iter = view
        .objects
        .range::<_, str>((lower, Bound::Unbounded))
        .take_while(|(k, _)| k.starts_with(&prefix))
        .filter(|(k, e)| filter.matches(k, e));
    let mut last: Option<Arc<str>> = None;
    for (k, e) in iter.by_ref() {
        entries.push(e.clone());
        last = Some(k.clone());
        if limit > 0 && entries.len() == limit {
            break;
        }
    }
    let more = limit > 0 && entries.len() == limit && iter.next().is_some();
    let (mut next, mut remaining) = (None, None);
    if more && let Some(last) = last {
        let relative = last.strip_prefix(prefix.as_str()).unwrap_or(&last);
        let start = format!("{relative}\0");
        next = Some(Continue { revision: view.revision as i64, start, born }.encode());
        // Only a count of everything is cheap and exact. The iterator already took one.
        remaining = filter.selects_all().then(|| iter.count() + 1);
    }
    Page { revision: view.revision, entries, next, remaining }
}

/// The list as whole objects. Without conversion this concatenates stored bytes and parses nothing.
async fn whole(
    call: &Call,
    accepted: Accepted,
    meta: Value,
    entries: Vec<Arc<Entry>>,
) -> Result<Reply, Status> {
    let res = &call.res;
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{meta},\"items\":[",
        json!(res.list_kind),
        json!(res.api_version)
    );
    let fast = entries.iter().all(|e| is_unchanged(res, e));
    if fast && accepted.encoding == Encoding::Json && entries.len() > 64 && !call.params.flag("pretty") {
        return Ok(streamed(res.clone(), head, entries));
    }
    let mut out = Vec::with_capacity(head.len() + entries.iter().map(|e| e.len() + 1).sum::<usize>() + 2);
    out.extend_from_slice(head.as_bytes());
    if fast {
        for (i, e) in entries.iter().enumerate() {
            push_item(&mut out, res, &e.bytes(), i > 0);
        }
    } else {
        let objs = call.cluster.read_all(res, &entries).await?;
        for (i, o) in objs.iter().enumerate() {
            push_item(&mut out, res, &crate::convert::served_bytes(res, o), i > 0);
        }
    }
    out.extend_from_slice(b"]}\n");
    Ok(respond::bytes(200, accepted.encoding, out.into()))
}

/// Items of built-in kinds omit kind and apiVersion; custom ones carry them.
fn push_item(out: &mut Vec<u8>, res: &Resource, bytes: &[u8], comma: bool) {
    if comma {
        out.push(b',');
    }
    if res.is_custom() {
        out.extend_from_slice(bytes);
    } else {
        out.push(b'{');
        out.extend_from_slice(&bytes[res.head.len()..]);
    }
}

/// Long lists leave in chunks, so that memory is bounded by the socket and not by the list.
fn streamed(res: Arc<Resource>, head: String, entries: Vec<Arc<Entry>>) -> Reply {
    const CHUNK: usize = 64 << 10;
    let state = (entries, 0usize, Some(head));
    let chunks = futures::stream::unfold(state, move |(entries, mut at, head)| {
        let res = res.clone();
        async move {
            if at > entries.len() {
                return None;
            }
            let mut out = Vec::with_capacity(CHUNK + (8 << 10));
            if let Some(h) = head {
                out.extend_from_slice(h.as_bytes());
            }
            while at < entries.len() && out.len() < CHUNK {
                push_item(&mut out, &res, &entries[at].bytes(), at > 0);
                at += 1;
            }
            if at == entries.len() && out.len() < CHUNK {
                out.extend_from_slice(b"]}\n");
                at += 1;
            }
            Some((Bytes::from(out), (entries, at, None)))
        }
    });
    let mut r = respond::bytes(200, Encoding::Json, Bytes::new());
    *r.body_mut() = Body::stream(chunks);
    r
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_tokens_round_trip_and_forgeries_are_refused() {
        let t = Continue { revision: 7, start: "a/b\0".into(), born: 3 }.encode();
        let c = Continue::decode(&t).unwrap();
        assert_eq!((c.revision, c.start.as_str(), c.born), (7, "a/b\0", 3));
        let forge = |v: Value| URL_SAFE_NO_PAD.encode(v.to_string());
        for bad in [
            "!!!".to_owned(),
            "aGk".to_owned(),
            forge(json!({"v": "x", "rv": 1, "start": "a"})),
            forge(json!({"v": "meta.k8s.io/v1", "rv": 0, "start": "a"})),
            forge(json!({"v": "meta.k8s.io/v1", "rv": 1, "start": ""})),
            forge(json!({"v": "meta.k8s.io/v1", "rv": 1, "start": "../x"})),
            "a".repeat(5000),
        ] {
            assert_eq!(Continue::decode(&bad).err().map(|s| s.code), Some(400), "{bad}");
        }
    }
}
