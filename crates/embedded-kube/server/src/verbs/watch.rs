//! Watch: every change once, in order, as the client asked to see it.
//!
//! A watcher is a cursor and a filter polled by its own connection; there is no task and no queue per
//! watcher. Frames are encoded once per event and shape and shared by all watchers.

use super::Call;
use super::read::parse_revision;
use crate::cluster::Cluster;
use crate::convert::{served_bytes, unchanged};
use crate::present::{self, IncludeObject};
use crate::registry::Resource;
use crate::select::Filter;
use crate::wire::negotiate::{Encoding, Shape};
use crate::wire::respond::{self, Reply};
use bytes::Bytes;
use ek_meta::{FieldError, FieldPath, Status};
use ek_store::{Cursor, Entry, Event, EventKind, HistoryError, Next};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, Sleep};

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// No watch is asked to last longer, in seconds: far times overflow clocks.
const LONGEST: u64 = 365 * 24 * 3600;
/// Events taken from the ring at once.
const BATCH: usize = 256;
/// Bytes put into one chunk before it is sent.
const CHUNK: usize = 64 << 10;

pub fn watch(call: &Call) -> Result<Reply, Status> {
    let accepted = call.accepted(true)?;
    let format = Format::of(accepted.encoding);
    let filter = Filter::parse(&call.res, &call.info.namespace, &call.info.name, &call.params)?;
    let include = IncludeObject::parse(call.params.get("includeObject"))?;
    let p = &call.params;
    let bookmarks = p.flag("allowWatchBookmarks");
    let initial = initial_events(call)?;
    let seconds = match p.int("timeoutSeconds")? {
        Some(s) if s > 0 => (s as u64).min(LONGEST),
        // Spread over half an hour, so that watchers started together do not come back together.
        _ => 1800 + call.cluster.random.below(1800) as u64,
    };
    let now = Instant::now();
    let mut w = Watcher {
        cluster: call.cluster.handle()?,
        res: call.res.clone(),
        filter,
        shape: accepted.shape,
        format,
        include,
        bookmarks,
        first_table: true,
        pending: VecDeque::new(),
        initial_end: None,
        cursor: None,
        deadline: now + Duration::from_secs(seconds),
        next_bookmark: now + BOOKMARK_EVERY,
        timer: Box::pin(tokio::time::sleep_until(now + Duration::from_secs(seconds))),
        shutdown: call.ending(),
        ended: false,
    };
    let store = &call.cluster.store;
    let (id, table) = (&call.cluster.id, &call.res.table);
    let within = w.filter.namespace.clone();
    let rv = p.get("resourceVersion").unwrap_or_default();
    match (initial, rv) {
        // State first, then changes.
        (Some(true), _) | (None, "" | "0") => {
            let (view, cursor) = store.view_and_watch(id, table, within.as_deref());
            if initial == Some(true) {
                let wanted = if rv.is_empty() { 0 } else { parse_revision(rv)? };
                if wanted > view.revision {
                    return Err(super::read::too_large(wanted, view.revision));
                }
                // The bookmark that ends it goes to those who take bookmarks.
                w.initial_end = bookmarks.then_some(view.revision);
            }
            super::read::all_readable(call, &view)?;
            w.pending = w.filter.among(&view).map(|(_, e)| e.clone()).collect();
            w.cursor = Some(cursor);
        }
        (Some(false), "" | "0") => w.cursor = Some(store.view_and_watch(id, table, within.as_deref()).1),
        (_, rv) => match store.watch(id, table, within.as_deref(), parse_revision(rv)?) {
            Ok(c) => w.cursor = Some(c),
            // The stream opens and says so: that is where informers look for it.
            Err(HistoryError::TooOld { requested, oldest }) => {
                w.pending.clear();
                let frame = format.error(&too_old(requested, oldest));
                let once = futures::stream::once(async move { frame });
                return Ok(respond::stream(format.content_type(), once));
            }
            Err(HistoryError::Future { requested, current }) => {
                return Err(super::read::too_large(requested, current));
            }
        },
    }
    let stream = futures::stream::unfold(w, |mut w| async move { w.next().await.map(|b| (b, w)) });
    Ok(respond::stream(format.content_type(), stream))
}

/// `sendInitialEvents`, checked against what must come with it.
fn initial_events(call: &Call) -> Result<Option<bool>, Status> {
    let p = &call.params;
    let send = p.get("sendInitialEvents").map(|v| !matches!(v, "false" | "0"));
    let rvm = p.get("resourceVersionMatch");
    let forbid = |field: &str, detail: &str| {
        let e = FieldError::forbidden(&FieldPath::new(field), detail);
        Err(Status::invalid("meta.k8s.io", "ListOptions", "", &[e]))
    };
    match (send, rvm) {
        (None, None) => Ok(None),
        (None, Some(_)) => forbid(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (Some(_), None) => forbid(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (Some(_), Some(m)) if m != "NotOlderThan" => {
            let at = FieldPath::new("resourceVersionMatch");
            let text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            let errors =
                [FieldError::forbidden(&at, text), FieldError::not_supported(&at, m, &["NotOlderThan"])];
            Err(Status::invalid("meta.k8s.io", "ListOptions", "", &errors))
        }
        (Some(s), _) => Ok(Some(s)),
    }
}

fn too_old(requested: u64, oldest: u64) -> Status {
    Status::expired(format!("too old resource version: {requested} ({oldest})"))
}

/// How frames are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    /// A line of JSON each.
    Lines,
    /// A length and a protobuf message each.
    Protobuf,
}

impl Format {
    fn of(encoding: Encoding) -> Format {
        if encoding == Encoding::Protobuf { Format::Protobuf } else { Format::Lines }
    }

    fn content_type(self) -> &'static str {
        match self {
            Format::Lines => "application/json",
            Format::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }

    /// One event with an object given as JSON.
    fn frame(self, kind: &str, object: &[u8]) -> Bytes {
        match self {
            Format::Lines => {
                let mut out = Vec::with_capacity(object.len() + 32);
                out.extend_from_slice(b"{\"type\":\"");
                out.extend_from_slice(kind.as_bytes());
                out.extend_from_slice(b"\",\"object\":");
                out.extend_from_slice(object);
                out.extend_from_slice(b"}\n");
                out.into()
            }
            Format::Protobuf => {
                let value: Value = serde_json::from_slice(object).unwrap_or_default();
                ek_proto::encode_watch_event(kind, &value)
                    .unwrap_or_else(|e| {
                        let s = Status::internal(format!("the object has no protobuf form: {e}"));
                        let s = serde_json::to_value(&s).unwrap_or_default();
                        ek_proto::encode_watch_event("ERROR", &s).unwrap_or_default()
                    })
                    .into()
            }
        }
    }

    fn error(self, s: &Status) -> Bytes {
        self.frame("ERROR", serde_json::to_string(s).unwrap_or_default().as_bytes())
    }
}

struct Watcher {
    cluster: Arc<Cluster>,
    res: Arc<Resource>,
    filter: Filter,
    shape: Shape,
    format: Format,
    include: IncludeObject,
    bookmarks: bool,
    /// Column definitions still to be sent.
    first_table: bool,
    /// Objects of the initial state not sent yet.
    pending: VecDeque<Arc<Entry>>,
    /// Revision for the bookmark that ends the initial state.
    initial_end: Option<u64>,
    cursor: Option<Cursor>,
    deadline: Instant,
    next_bookmark: Instant,
    /// Registered once and moved when its time changes: an entry per wait would cost more than the event.
    timer: Pin<Box<Sleep>>,
    shutdown: futures::future::BoxFuture<'static, ()>,
    ended: bool,
}

enum Wake {
    Events(Next),
    Bookmark,
    Deadline,
    Shutdown,
}

impl Watcher {
    /// The next chunk, or the end of the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        if !self.pending.is_empty() {
            return Some(self.initial().await);
        }
        if let Some(rv) = self.initial_end.take() {
            return Some(self.bookmark(rv, true));
        }
        loop {
            let cursor = self.cursor.as_mut()?;
            let until = if self.bookmarks { self.deadline.min(self.next_bookmark) } else { self.deadline };
            if self.timer.deadline() != until {
                self.timer.as_mut().reset(until);
            }
            let wake = tokio::select! {
                biased;
                next = cursor.next(BATCH) => Wake::Events(next),
                () = self.shutdown.as_mut() => Wake::Shutdown,
                () = self.timer.as_mut() => {
                    if Instant::now() >= self.deadline { Wake::Deadline } else { Wake::Bookmark }
                }
            };
            match wake {
                Wake::Events(Next::Events(events)) => {
                    let out = self.events(&events).await;
                    if !out.is_empty() {
                        return Some(out);
                    }
                }
                Wake::Events(Next::TooOld { oldest }) => {
                    self.ended = true;
                    return Some(self.format.error(&too_old(oldest, oldest)));
                }
                Wake::Events(Next::Closed) | Wake::Shutdown => {
                    self.ended = true;
                    return None;
                }
                Wake::Bookmark => {
                    self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                    if let Some(rv) = self.cursor.as_mut().and_then(Cursor::bookmark) {
                        return Some(self.bookmark(rv, false));
                    }
                }
                Wake::Deadline => {
                    self.ended = true;
                    let rv = self.cursor.as_mut().and_then(Cursor::bookmark).filter(|_| self.bookmarks);
                    return rv.map(|rv| self.bookmark(rv, false));
                }
            }
        }
    }

    async fn initial(&mut self) -> Bytes {
        let mut out = Vec::new();
        while out.len() < CHUNK
            && let Some(e) = self.pending.pop_front()
        {
            let f = self.encode("ADDED", &e).await;
            if self.pending.is_empty() && out.is_empty() {
                return f;
            }
            out.extend_from_slice(&f);
        }
        out.into()
    }

    async fn events(&mut self, events: &[Arc<Event>]) -> Bytes {
        let mut first: Option<Bytes> = None;
        let mut out: Vec<u8> = Vec::new();
        for e in events {
            let Some(f) = self.event(e).await else { continue };
            match (&first, out.is_empty()) {
                (None, true) => first = Some(f),
                (Some(one), true) => {
                    out.reserve(one.len() + f.len());
                    out.extend_from_slice(one);
                    out.extend_from_slice(&f);
                }
                _ => out.extend_from_slice(&f),
            }
        }
        // One event alone goes out without being copied.
        if out.is_empty() { first.unwrap_or_default() } else { out.into() }
    }

    /// The frame of one event for this watcher, if it is about what it selected.
    async fn event(&mut self, e: &Event) -> Option<Bytes> {
        let now = e.kind != EventKind::Deleted && self.filter.matches(&e.key, &e.entry);
        let before = e.previous.as_ref().is_some_and(|p| self.filter.matches(&e.key, p));
        let kind = match (before, now) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        // An object that left the selection is shown as it last was inside it, at the new revision. Which state
        // that is depends on the selection alone, so these frames are shared like all others, in slots of their own.
        let left;
        let (entry, leaving) = match &e.previous {
            Some(p) if kind == "DELETED" && e.kind != EventKind::Deleted => {
                left = at_revision(p, e.revision());
                (&left, true)
            }
            _ => (&*e.entry, false),
        };
        if let (Shape::Object, Some(bytes)) = (self.shape, unchanged(&self.res, entry)) {
            return Some(e.encoded(slot(kind, leaving, self.res.stamp(), self.variant(0)), || {
                self.format.frame(kind, &bytes)
            }));
        }
        if matches!(self.shape, Shape::Table(_)) && self.first_table {
            return Some(self.encode(kind, entry).await);
        }
        let shape = match self.shape {
            Shape::Object => 1,
            Shape::Partial(v) => 2 + v as u64,
            Shape::Table(v) => 4 + v as u64 + 8 * self.include as u64,
        };
        let version = xxhash_rust::xxh3::xxh3_64(self.res.head.as_bytes()) ^ self.res.stamp();
        let key = slot(kind, leaving, version, self.variant(shape));
        let mut made = None;
        if !e.has_encoding(key) {
            made = Some(self.encode(kind, entry).await);
        }
        Some(e.encoded(key, || made.unwrap_or_default()))
    }

    /// Frames of one shape differ by format.
    fn variant(&self, shape: u64) -> u64 {
        shape + 32 * u64::from(self.format == Format::Protobuf)
    }

    async fn encode(&mut self, kind: &str, entry: &Entry) -> Bytes {
        if let (Shape::Object, Some(bytes)) = (self.shape, unchanged(&self.res, entry)) {
            return self.format.frame(kind, &bytes);
        }
        let obj = match self.cluster.read(&self.res, entry).await {
            Ok(o) => o,
            Err(s) => return self.format.error(&s),
        };
        match self.shape {
            Shape::Object => self.format.frame(kind, &served_bytes(&self.res, &obj)),
            Shape::Partial(v) => self.format.frame(kind, present::partial(&obj, v).to_string().as_bytes()),
            Shape::Table(v) => {
                let columns = self.first_table.then(|| present::columns(&self.res));
                self.first_table = false;
                let row = present::row(&self.res, &obj, v, self.include, self.cluster.now());
                let meta = json!({"resourceVersion": entry.revision.to_string()});
                self.format.frame(kind, present::table(v, meta, columns, vec![row]).to_string().as_bytes())
            }
        }
    }

    fn bookmark(&mut self, rv: u64, initial_end: bool) -> Bytes {
        let mut meta = json!({"resourceVersion": rv.to_string()});
        if initial_end {
            meta["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object: Value = match self.shape {
            Shape::Object => {
                json!({"kind": self.res.kind, "apiVersion": self.res.api_version, "metadata": meta})
            }
            Shape::Partial(v) => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": v.api_version(), "metadata": meta})
            }
            Shape::Table(v) => {
                let columns = self.first_table.then(|| present::columns(&self.res));
                self.first_table = false;
                let inner =
                    json!({"kind": "PartialObjectMetadata", "apiVersion": v.api_version(), "metadata": meta});
                let row = json!({"cells": [], "object": inner});
                present::table(v, json!({"resourceVersion": rv.to_string()}), columns, vec![row])
            }
        };
        self.format.frame("BOOKMARK", object.to_string().as_bytes())
    }
}

/// An earlier state under a later revision. Stored bytes have one order, so the version is where it always is.
fn at_revision(entry: &Entry, revision: u64) -> Entry {
    let old = format!("\"resourceVersion\":\"{}\"", entry.revision);
    let text = entry.bytes();
    let found = text.windows(old.len()).position(|w| w == old.as_bytes());
    let bytes = match found {
        Some(at) => {
            let new = format!("\"resourceVersion\":\"{revision}\"");
            [&text[..at], new.as_bytes(), &text[at + old.len()..]].concat().into()
        }
        None => text,
    };
    Entry::new(bytes, revision, entry.meta.clone())
}

/// Names an encoding of an event.
fn slot(kind: &str, leaving: bool, variant: u64, shape: u64) -> u64 {
    let kind = match kind {
        "ADDED" => 0,
        "MODIFIED" => 1,
        _ if leaving => 3,
        _ => 2,
    };
    (variant << 8) ^ (shape << 2) ^ kind
}
