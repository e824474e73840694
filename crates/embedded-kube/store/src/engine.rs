//! The store itself: reads from published state, writes through one writer.

use crate::feed::{self, Delta, Feed};
use crate::log::{Log, OpenError};
use crate::record::{self, Record};
use crate::snapshot::{self, Frozen};
use crate::table::{Base, Cluster, Clusters, Entry, Staged, View, Window};
use crate::{Batch, Change, ClusterId, CommitError, Cursor, Expect, HistoryError, TableName};
use clock::SharedClock;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// Knobs with defaults that suit a server.
#[derive(Clone)]
pub struct Options {
    pub clock: SharedClock,
    /// History kept per table at least, and at most.
    pub min_events: usize,
    pub max_events: usize,
    /// History of one table may keep this many bytes alive.
    pub max_history_bytes: usize,
    /// History of all clusters together; beyond it tables keep only [`FEW_EVENTS`], and those only shortly.
    pub max_total_history_bytes: usize,
    /// Events younger than this stay, up to `max_events`.
    pub history_seconds: i64,
    /// A segment longer than this starts a new one behind a snapshot.
    pub segment_bytes: u64,
}

impl Options {
    pub fn new(clock: SharedClock) -> Options {
        Options {
            clock,
            min_events: 1_000,
            max_events: 50_000,
            max_history_bytes: 64 << 20,
            max_total_history_bytes: 96 << 20,
            history_seconds: 75,
            segment_bytes: 64 << 20,
        }
    }
}

/// A handle to the store; cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    clusters: RwLock<Clusters>,
    options: Options,
    writer: Writer,
    /// Readers of all clusters at once; those that are gone are forgotten at the next write.
    feeds: RwLock<Vec<std::sync::Weak<feed::Shared>>>,
    /// Bytes of all tables' histories.
    history: AtomicUsize,
    /// A sync failed; set by the writer, read by health checks.
    poisoned: std::sync::atomic::AtomicBool,
}

enum Writer {
    /// No disk: a commit is a critical section.
    Memory(Mutex<()>),
    Durable {
        queue: Mutex<Option<mpsc::Sender<Request>>>,
        thread: Mutex<Option<JoinHandle<()>>>,
    },
}

enum Work {
    Commit(Batch),
    Found(ClusterId, Arc<Base>),
    DropCluster(ClusterId),
}

struct Request {
    work: Work,
    reply: oneshot::Sender<Result<Vec<Arc<Entry>>, CommitError>>,
}

/// What a table keeps when memory is short, at least and at most, and for how long: enough for a watcher that
/// keeps up.
const FEW_EVENTS: usize = 32;
const MORE_EVENTS: usize = 256;
const FEW_SECONDS: i64 = 5;

/// Waiting requests beyond this make callers wait: overload is felt, not hidden.
const QUEUE: usize = 1024;
/// One sync serves at most this many commits, so that the first of a burst is not kept waiting.
const GROUP: usize = 256;

impl Store {
    /// Nothing survives the process.
    pub fn memory(options: Options) -> Store {
        Store(Arc::new(Inner {
            clusters: RwLock::default(),
            options,
            writer: Writer::Memory(Mutex::new(())),
            feeds: RwLock::default(),
            history: AtomicUsize::new(0),
            poisoned: false.into(),
        }))
    }

    /// Opens or creates a data directory, recovering what was acknowledged.
    pub fn open(dir: &Path, options: Options) -> Result<Store, OpenError> {
        let (log, clusters) = Log::open(dir)?;
        let (tx, rx) = mpsc::channel(QUEUE);
        let store = Store(Arc::new(Inner {
            clusters: RwLock::new(clusters),
            options,
            writer: Writer::Durable { queue: Mutex::new(Some(tx)), thread: Mutex::new(None) },
            feeds: RwLock::default(),
            history: AtomicUsize::new(0),
            poisoned: false.into(),
        }));
        let weak = Arc::downgrade(&store.0);
        let handle = std::thread::Builder::new()
            .name("ek-store-writer".into())
            .spawn(move || {
                let mut log = log;
                let mut rx = rx;
                let mut state = WriterState::default();
                while let Some(first) = rx.blocking_recv() {
                    let Some(inner) = weak.upgrade() else { return };
                    let mut group = vec![first];
                    while group.len() < GROUP
                        && let Ok(r) = rx.try_recv()
                    {
                        group.push(r);
                    }
                    inner.run_group(&mut log, &mut state, group);
                }
                if let Some(t) = state.snapshotting.take() {
                    let _ = t.join();
                }
            })
            .map_err(|source| OpenError::Io { action: "start a writer for", path: dir.to_owned(), source })?;
        if let Writer::Durable { thread, .. } = &store.0.writer {
            *thread.lock() = Some(handle);
        }
        Ok(store)
    }

    fn cluster(&self, id: &ClusterId) -> Arc<RwLock<Cluster>> {
        self.0.cluster(id)
    }

    pub fn clusters(&self) -> Vec<ClusterId> {
        self.0.clusters.read().keys().cloned().collect()
    }

    pub fn current(&self, id: &ClusterId) -> u64 {
        self.cluster(id).read().revision
    }

    pub fn get(&self, id: &ClusterId, table: &TableName, key: &str) -> Option<Arc<Entry>> {
        self.cluster(id).read().tables.get(table)?.objects.get(key).cloned()
    }

    /// The revisions of the latest change to each table: what derived state compares to know it is stale.
    pub fn last_changes<const N: usize>(&self, id: &ClusterId, tables: [&TableName; N]) -> [u64; N] {
        let cluster = self.cluster(id);
        let c = cluster.read();
        tables.map(|t| c.tables.get(t).map_or(0, crate::table::Table::last_change))
    }

    /// The table now, with the revision it is exact for.
    pub fn view(&self, id: &ClusterId, table: &TableName) -> View {
        let c = self.cluster(id);
        let c = c.read();
        let objects = c.tables.get(table).map(|t| t.objects.clone()).unwrap_or_default();
        View { revision: c.revision, objects }
    }

    /// The table as it was at `revision`.
    pub fn view_at(&self, id: &ClusterId, table: &TableName, revision: u64) -> Result<View, HistoryError> {
        let c = self.cluster(id);
        let c = c.read();
        if revision > c.revision {
            return Err(HistoryError::Future { requested: revision, current: c.revision });
        }
        let objects = match c.tables.get(table) {
            Some(t) => t.objects_at(revision)?,
            None => Default::default(),
        };
        Ok(View { revision, objects })
    }

    /// Follows every change after `after`.
    pub fn watch(&self, id: &ClusterId, table: &TableName, after: u64) -> Result<Cursor, HistoryError> {
        Cursor::at(self.cluster(id), table.clone(), after)
    }

    /// The present, and every change after it.
    pub fn view_and_watch(&self, id: &ClusterId, table: &TableName) -> (crate::View, Cursor) {
        Cursor::now(self.cluster(id), table.clone())
    }

    /// Everything there is, and then everything that changes, in all clusters.
    pub fn feed(&self) -> Feed {
        let (feed, weak) = Feed::new();
        self.0.feeds.write().push(weak);
        for cluster in self.clusters() {
            let tables: Vec<_> = {
                let c = self.cluster(&cluster);
                let c = c.read();
                c.tables.iter().map(|(n, t)| (n.clone(), t.objects.clone())).collect()
            };
            for (table, objects) in tables {
                for (key, entry) in &objects {
                    feed.shared().push_present(Delta {
                        cluster: cluster.clone(),
                        table: table.clone(),
                        key: key.clone(),
                        previous: None,
                        current: Some(entry.clone()),
                    });
                }
            }
        }
        feed
    }

    /// Number of objects in each table of a cluster.
    pub fn table_sizes(&self, id: &ClusterId) -> Vec<(TableName, usize)> {
        self.cluster(id).read().tables.iter().map(|(n, t)| (n.clone(), t.objects.len())).collect()
    }

    /// Applies a batch; returns the new entries in the order of its operations. Durable when it returns.
    pub async fn commit(&self, batch: Batch) -> Result<Vec<Arc<Entry>>, CommitError> {
        self.submit(Work::Commit(batch)).await
    }

    /// Begins a cluster with the objects of `base`; one that is there already is left as it is.
    pub async fn found(&self, id: &ClusterId, base: &Arc<Base>) -> Result<(), CommitError> {
        self.submit(Work::Found(id.clone(), base.clone())).await.map(|_| ())
    }

    /// Forgets a cluster and everything in it.
    pub async fn drop_cluster(&self, id: &ClusterId) -> Result<(), CommitError> {
        self.submit(Work::DropCluster(id.clone())).await.map(|_| ())
    }

    async fn submit(&self, work: Work) -> Result<Vec<Arc<Entry>>, CommitError> {
        match &self.0.writer {
            Writer::Memory(lock) => {
                let _one = lock.lock();
                self.0.commit_in_memory(work)
            }
            Writer::Durable { queue, .. } => {
                let queue = queue.lock().clone().ok_or(CommitError::Closed)?;
                let (reply, answer) = oneshot::channel();
                queue.send(Request { work, reply }).await.map_err(|_| CommitError::Closed)?;
                answer.await.map_err(|_| CommitError::Closed)?
            }
        }
    }

    /// Whether writes are accepted.
    pub fn is_healthy(&self) -> bool {
        match &self.0.writer {
            Writer::Memory(_) => true,
            Writer::Durable { queue, .. } => {
                !self.0.poisoned.load(Ordering::Relaxed) && queue.lock().is_some()
            }
        }
    }

    /// Refuses new writes, finishes those accepted, and waits for the writer to end. Blocks.
    pub fn close(&self) {
        if let Writer::Durable { queue, thread } = &self.0.writer {
            queue.lock().take();
            let handle = thread.lock().take();
            if let Some(h) = handle {
                let _ = h.join();
            }
        }
    }
}

/// What the writer thread remembers between groups.
#[derive(Default)]
struct WriterState {
    poisoned: bool,
    snapshotting: Option<JoinHandle<()>>,
    frames: Vec<u8>,
}

/// Changes staged in the current group, not yet visible.
#[derive(Default)]
struct Overlay {
    revisions: HashMap<ClusterId, u64>,
    entries: HashMap<(ClusterId, TableName, Arc<str>), Option<Arc<Entry>>>,
}

impl Inner {
    /// One that nobody founded, or that is gone, is empty: reading it must not bring it about.
    fn cluster(&self, id: &ClusterId) -> Arc<RwLock<Cluster>> {
        self.clusters.read().get(id).cloned().unwrap_or_default()
    }

    fn window(&self) -> Window {
        let o = &self.options;
        let short = self.history.load(Ordering::Relaxed) > o.max_total_history_bytes;
        Window {
            min_events: if short { FEW_EVENTS.min(o.min_events) } else { o.min_events },
            max_events: if short { MORE_EVENTS.min(o.max_events) } else { o.max_events },
            max_bytes: o.max_history_bytes,
            seconds: if short { FEW_SECONDS.min(o.history_seconds) } else { o.history_seconds },
        }
    }

    /// Checks expectations and gives each operation its revision. On error the overlay is unchanged.
    fn stage(&self, batch: Batch, overlay: &mut Overlay) -> Result<Vec<Staged>, CommitError> {
        let cluster = self.clusters.read().get(&batch.cluster).cloned();
        let cluster = cluster.ok_or_else(|| CommitError::NoCluster(batch.cluster.clone()))?;
        let published = cluster.read();
        let current = |o: &Overlay, table: &TableName, key: &Arc<str>| {
            // Hashing three strings only pays when something is staged.
            if !o.entries.is_empty()
                && let Some(e) = o.entries.get(&(batch.cluster.clone(), table.clone(), key.clone()))
            {
                return e.clone();
            }
            published.tables.get(table).and_then(|t| t.objects.get(key)).cloned()
        };
        let keys: Vec<Arc<str>> = batch.ops.iter().map(|op| Arc::from(op.key.as_str())).collect();
        for (index, op) in batch.ops.iter().enumerate() {
            let now = current(overlay, &op.table, &keys[index]);
            let fine = match (op.expect, &now) {
                (Expect::Any, _) | (Expect::Absent, None) => true,
                (Expect::Revision(r), Some(e)) => e.revision == r,
                _ => false,
            };
            if !fine {
                let (table, key) = (op.table.clone(), op.key.clone());
                return Err(CommitError::Conflict { index, table, key, current: now });
            }
        }
        let mut revision = overlay.revisions.get(&batch.cluster).copied().unwrap_or(published.revision);
        let mut staged = Vec::with_capacity(batch.ops.len());
        for (op, key) in batch.ops.into_iter().zip(keys) {
            revision += 1;
            let (draft, deleted) = match op.change {
                Change::Put(d) => (d, false),
                Change::Delete(d) => (d, true),
            };
            let bytes = draft.fill(revision);
            let entry = Arc::new(Entry { bytes, revision, meta: draft.meta });
            staged.push(Staged { table: op.table, key, entry, deleted });
        }
        overlay.revisions.insert(batch.cluster.clone(), revision);
        for s in &staged {
            let value = (!s.deleted).then(|| s.entry.clone());
            overlay.entries.insert((batch.cluster.clone(), s.table.clone(), s.key.clone()), value);
        }
        Ok(staged)
    }

    fn publish(&self, id: &ClusterId, staged: Vec<Staged>) {
        let cluster = self.cluster(id);
        let now = self.options.clock.now();
        let window = self.window();
        let mut c = cluster.write();
        let mut woken: Vec<tokio::sync::watch::Sender<u64>> = Vec::new();
        let fed = !self.feeds.read().is_empty();
        let mut deltas = Vec::new();
        for s in staged {
            let revision = s.entry.revision;
            c.revision = revision;
            let table = c.table(&s.table);
            let mut delta = fed.then(|| Delta {
                cluster: id.clone(),
                table: s.table.clone(),
                key: s.key.clone(),
                previous: None,
                current: (!s.deleted).then(|| s.entry.clone()),
            });
            let held = table.ring_bytes;
            let before = table.publish(s, now, window);
            // Wraps below zero and back: the sum is right.
            self.history.fetch_add(table.ring_bytes.wrapping_sub(held), Ordering::Relaxed);
            if let Some(d) = &mut delta {
                d.previous = before;
            }
            deltas.extend(delta);
            if !woken.iter().any(|w| w.same_channel(&table.wake)) {
                woken.push(table.wake.clone());
            }
        }
        let revision = c.revision;
        drop(c);
        for w in woken {
            w.send_replace(revision);
        }
        for delta in deltas {
            self.tell_feeds(|f| f.push(delta.clone()));
        }
    }

    fn tell_feeds(&self, tell: impl Fn(&feed::Shared)) {
        let mut gone = false;
        for f in self.feeds.read().iter() {
            match f.upgrade() {
                Some(f) => tell(&f),
                None => gone = true,
            }
        }
        if gone {
            self.feeds.write().retain(|f| f.strong_count() > 0);
        }
    }

    fn found_now(&self, id: &ClusterId, base: &Base) {
        let mut clusters = self.clusters.write();
        clusters.entry(id.clone()).or_insert_with(|| Arc::new(RwLock::new(Cluster::on(base))));
    }

    fn drop_now(&self, id: &ClusterId) {
        // Watchers hold the cluster's Arc: emptying it closes their channels.
        if let Some(c) = self.clusters.write().remove(id) {
            let tables = std::mem::take(&mut c.write().tables);
            let held = tables.values().map(|t| t.ring_bytes).sum();
            self.history.fetch_sub(held, Ordering::Relaxed);
        }
        self.tell_feeds(|f| f.drop_cluster(id));
    }

    fn commit_in_memory(&self, work: Work) -> Result<Vec<Arc<Entry>>, CommitError> {
        match work {
            Work::Commit(batch) => {
                let id = batch.cluster.clone();
                let staged = self.stage(batch, &mut Overlay::default())?;
                let entries = staged.iter().map(|s| s.entry.clone()).collect();
                self.publish(&id, staged);
                Ok(entries)
            }
            Work::Found(id, base) => {
                self.found_now(&id, &base);
                Ok(Vec::new())
            }
            Work::DropCluster(id) => {
                self.drop_now(&id);
                Ok(Vec::new())
            }
        }
    }

    /// One group: stage all, write once, sync once, publish all, answer all.
    fn run_group(&self, log: &mut Log, state: &mut WriterState, group: Vec<Request>) {
        let mut overlay = Overlay::default();
        let mut accepted = Vec::with_capacity(group.len());
        state.frames.clear();
        for Request { work, reply } in group {
            if state.poisoned {
                let _ = reply.send(Err(CommitError::Poisoned));
                continue;
            }
            let mut founded = None;
            let record = match work {
                Work::Found(cluster, base) => {
                    // Nobody writes to a cluster before it is founded, so it may be visible before it is durable.
                    if self.clusters.read().contains_key(&cluster) {
                        let _ = reply.send(Ok(Vec::new()));
                        continue;
                    }
                    self.found_now(&cluster, &base);
                    founded = Some(cluster.clone());
                    Record::Commit { cluster, changes: base.changes() }
                }
                Work::Commit(batch) => {
                    let cluster = batch.cluster.clone();
                    match self.stage(batch, &mut overlay) {
                        Ok(changes) => Record::Commit { cluster, changes },
                        Err(e) => {
                            let _ = reply.send(Err(e));
                            continue;
                        }
                    }
                }
                Work::DropCluster(cluster) => Record::DropCluster { cluster },
            };
            record::frame(&mut state.frames, &record);
            accepted.push((record, founded, reply));
        }
        if accepted.is_empty() {
            return;
        }
        let failure = match log.append(&state.frames) {
            Ok(Ok(())) => None,
            Ok(Err(e)) => Some(e),
            Err(e) => {
                state.poisoned = true;
                self.poisoned.store(true, Ordering::Relaxed);
                tracing::error!(error = %e, "the log could not be synced; refusing writes until restart");
                Some(e)
            }
        };
        if let Some(e) = failure {
            let e = Arc::new(e);
            for (_, founded, reply) in accepted {
                if let Some(id) = founded {
                    self.drop_now(&id);
                }
                let _ = reply.send(Err(CommitError::Log(e.clone())));
            }
            return;
        }
        for (record, founded, reply) in accepted {
            let entries = match record {
                _ if founded.is_some() => Vec::new(),
                Record::Commit { cluster, changes } => {
                    let entries = changes.iter().map(|s| s.entry.clone()).collect();
                    self.publish(&cluster, changes);
                    entries
                }
                Record::DropCluster { cluster } => {
                    self.drop_now(&cluster);
                    Vec::new()
                }
                Record::ClusterHead { .. } | Record::End { .. } => Vec::new(),
            };
            let _ = reply.send(Ok(entries));
        }
        if state.frames.capacity() > 8 << 20 {
            state.frames = Vec::new();
        }
        self.snapshot_if_due(log, state);
    }

    fn snapshot_if_due(&self, log: &mut Log, state: &mut WriterState) {
        let busy = state.snapshotting.as_ref().is_some_and(|t| !t.is_finished());
        if log.len < self.options.segment_bytes || busy {
            return;
        }
        let n = match log.rotate() {
            Ok(n) => n,
            Err(e) => {
                // The old segment is still open and good; try again after the next group.
                tracing::warn!(error = %e, "cannot start a new log segment");
                return;
            }
        };
        let frozen: Vec<Frozen> = self
            .clusters
            .read()
            .iter()
            .map(|(id, c)| {
                let c = c.read();
                // A restarted server has no ring, so each table's floor is its last change.
                let tables =
                    (c.tables.iter()).map(|(n, t)| (n.clone(), t.last_change(), t.objects.clone())).collect();
                Frozen { cluster: id.clone(), revision: c.revision, tables }
            })
            .collect();
        let dir = log.dir.clone();
        let spawned = std::thread::Builder::new().name("ek-store-snapshot".into()).spawn(move || {
            if let Err(e) = snapshot::write(&dir, n, &frozen) {
                // Nothing is lost: the older snapshot and all segments are still there.
                tracing::warn!(error = %e, "cannot write a snapshot");
            }
        });
        state.snapshotting = spawned.ok();
    }
}
