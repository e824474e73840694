//! Following objects of a kind, and telling those who want to know.
//!
//! A [`Watch`] says what to follow: a kind, perhaps in one namespace, perhaps with certain labels, whole or only its
//! metadata. What it sees goes to [`Sink`]s: first to those that remember ([`Ledger`](crate::Ledger),
//! [`View`](crate::View)), then to those that wake somebody, so that whoever wakes finds the news already written down.
//!
//! Connections break and servers forget; then the watch lists again, and says so: everything between
//! [`News::Begin`] and [`News::Complete`] is all there is, and what a sink knew of and did not hear of is gone. A sink that
//! ignores this keeps ghosts.

use crate::kind::Kind;
use crate::metrics::{Metrics, WATCH_RESTARTS};
use crate::wait::Backoff;
use futures::{FutureExt, Stream, StreamExt};
use kube::core::{DynamicObject, PartialObjectMeta, Selector};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::Value;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::watch::Sender;
use tokio_util::sync::CancellationToken;

/// How much of an object a watch carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    Whole,
    /// `metadata` alone: a fraction of the bytes, and no secret travels.
    Metadata,
}

/// Where news comes from.
#[derive(Debug)]
pub struct Source {
    /// Tells watches of this process apart.
    pub id: u32,
    pub kind: Kind,
    pub depth: Depth,
    /// Empty: all.
    pub namespace: String,
    pub labels: Selector,
    /// By name; such a watch is about one object.
    pub name: Option<String>,
    /// A selector of fields, besides.
    pub fields: String,
}

/// What happened. Objects of metadata-only watches have no data.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// A list begins.
    Begin,
    /// It is there.
    Listed(&'a DynamicObject),
    /// The list is complete.
    Complete,
    /// It was made or changed.
    Changed(&'a DynamicObject),
    /// It was deleted, and looked like this.
    Gone(&'a DynamicObject),
}

/// Who wants to know. Called in order, by one task per watch; must not block.
pub trait Sink: Send + Sync + 'static {
    fn hear(&self, from: &Source, news: News<'_>);

    /// Told once, before anything else, what the watch will cover.
    fn attached(&self, _: &Source) {}
}

/// What to follow and whom to tell.
pub struct Watch {
    client: Client,
    source: Source,
    remembers: Vec<Arc<dyn Sink>>,
    wakes: Vec<Arc<dyn Sink>>,
    optional: bool,
}

/// A watch that ended in an error waits this long before it goes on; no longer than the second.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), last: Duration::from_secs(20) };
/// How often a kind that is not served is asked for again.
const ABSENT: Duration = Duration::from_secs(30);

static IDS: AtomicU32 = AtomicU32::new(1);

impl Watch {
    /// Whole objects.
    pub fn whole(client: &Client, kind: &Kind) -> Watch {
        let source = Source {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            kind: kind.clone(),
            depth: Depth::Whole,
            namespace: String::new(),
            labels: Selector::default(),
            name: None,
            fields: String::new(),
        };
        Watch { client: client.clone(), source, remembers: Vec::new(), wakes: Vec::new(), optional: false }
    }

    /// Metadata only.
    pub fn metadata(client: &Client, kind: &Kind) -> Watch {
        let mut watch = Watch::whole(client, kind);
        watch.source.depth = Depth::Metadata;
        watch
    }

    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Watch {
        self.source.namespace = namespace.into();
        self
    }

    #[must_use]
    pub fn labels(mut self, labels: impl Into<Selector>) -> Watch {
        self.source.labels = labels.into();
        self
    }

    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Watch {
        self.source.name = Some(name.into());
        self
    }

    /// Only objects with these fields, as far as the kind can be selected by them (`type=Warning`). What such a watch
    /// covers cannot be known from an object, so it is not for a ledger.
    #[must_use]
    pub fn fields(mut self, fields: impl Into<String>) -> Watch {
        self.source.fields = fields.into();
        self
    }

    /// Not every cluster serves this kind (Route): until it does, there are none.
    #[must_use]
    pub fn optional(mut self) -> Watch {
        self.optional = true;
        self
    }

    /// Somebody who writes things down.
    #[must_use]
    pub fn into_sink(mut self, sink: Arc<dyn Sink>) -> Watch {
        sink.attached(&self.source);
        self.remembers.push(sink);
        self
    }

    /// Somebody who wakes somebody; hears of everything last. See [`Handle::keys`](crate::Handle::keys).
    #[must_use]
    pub fn wakes(mut self, sink: Arc<dyn Sink>) -> Watch {
        sink.attached(&self.source);
        self.wakes.push(sink);
        self
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Follows until stopped. `listed` becomes true when everything there is was told once.
    pub(crate) async fn run(&self, metrics: &Metrics, listed: &Sender<bool>, stop: &CancellationToken) {
        let mut failures = 0;
        while !stop.is_cancelled() {
            // A sink that panics has a bug, and the others still need their news.
            let follow = AssertUnwindSafe(self.follow(listed, &mut failures)).catch_unwind();
            let pause = tokio::select! {
                () = stop.cancelled() => return,
                ended = follow => match ended {
                    Ok(pause) => pause,
                    Err(_) => {
                        tracing::error!(kind = %self.source.kind.kind, "hearing of a change panicked; listing again");
                        BACKOFF.last
                    }
                },
            };
            metrics.count(&WATCH_RESTARTS, &[&self.source.kind.kind]);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Returns when it is best to begin anew, and after how long.
    async fn follow(&self, listed: &Sender<bool>, failures: &mut u32) -> Duration {
        let mut events = std::pin::pin!(self.events());
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(e) => {
                    *failures += 1;
                    if self.optional && is_code(&e, 404) {
                        self.tell(News::Begin);
                        self.tell(News::Complete);
                        listed.send_replace(true);
                        return ABSENT;
                    }
                    let (kind, failures) = (&*self.source.kind.kind, *failures);
                    if failures.is_power_of_two() && failures > 2 {
                        tracing::warn!(kind, failures, error = %e, "cannot follow");
                    } else {
                        tracing::debug!(kind, failures, error = %e, "will follow again");
                    }
                    // The version we wanted to go on from is forgotten: only a list helps.
                    if is_code(&e, 410) {
                        return if failures > 1 { BACKOFF.wait(failures) } else { Duration::ZERO };
                    }
                    tokio::time::sleep(BACKOFF.wait(failures)).await;
                    continue;
                }
            };
            *failures = 0;
            match &event {
                Event::Init => self.tell(News::Begin),
                Event::InitApply(o) => self.tell(News::Listed(o)),
                Event::Apply(o) => self.tell(News::Changed(o)),
                Event::Delete(o) => self.tell(News::Gone(o)),
                Event::InitDone => {
                    self.tell(News::Complete);
                    listed.send_replace(true);
                }
            }
        }
        BACKOFF.first
    }

    fn tell(&self, news: News<'_>) {
        for sink in self.remembers.iter().chain(&self.wakes) {
            sink.hear(&self.source, news);
        }
    }

    fn events(&self) -> impl Stream<Item = Result<Event<DynamicObject>, watcher::Error>> + Send + use<> {
        let s = &self.source;
        let mut config = watcher::Config::default();
        if !s.labels.selects_all() {
            config = config.labels_from(&s.labels);
        }
        if let Some(name) = &s.name {
            config = config.fields(&format!("metadata.name={name}"));
        } else if !s.fields.is_empty() {
            config = config.fields(&s.fields);
        }
        match s.depth {
            Depth::Whole => watcher::watcher(s.kind.api(&self.client, &s.namespace), config).left_stream(),
            Depth::Metadata => {
                let resource = s.kind.resource();
                let api: Api<PartialObjectMeta> = match s.kind.namespaced && !s.namespace.is_empty() {
                    true => Api::namespaced_with(self.client.clone(), &s.namespace, &resource),
                    false => Api::all_with(self.client.clone(), &resource),
                };
                watcher::watcher(api, config).map(|e| e.map(bare)).right_stream()
            }
        }
    }
}

/// The same event about an object without data.
fn bare(event: Event<PartialObjectMeta>) -> Event<DynamicObject> {
    let object =
        |o: PartialObjectMeta| DynamicObject { types: o.types, metadata: o.metadata, data: Value::Null };
    match event {
        Event::Apply(o) => Event::Apply(object(o)),
        Event::Delete(o) => Event::Delete(object(o)),
        Event::InitApply(o) => Event::InitApply(object(o)),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    }
}

fn is_code(e: &watcher::Error, code: u16) -> bool {
    use watcher::Error::*;
    match e {
        InitialListFailed(kube::Error::Api(s)) | WatchStartFailed(kube::Error::Api(s)) => s.code == code,
        // The watcher lists again by itself after this one.
        WatchError(_) | InitialListFailed(_) | WatchStartFailed(_) | WatchFailed(_) | NoResourceVersion => {
            false
        }
    }
}
