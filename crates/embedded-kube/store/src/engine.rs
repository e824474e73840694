//! The store itself: reads from published state, writes through one writer.

use crate::body::{self, Fresh};
use crate::feed::{self, Delta, Feed, FeedHandle};
use crate::log::{Log, OpenError, Shared};
use crate::members::{Directory, Logs, MemberError};
use crate::seal::{self, Seal};
use crate::snapshot::{self, Frozen};
use crate::table::{Base, Cluster, Clusters, Entry, Staged, View, Window};
use crate::writer::{self, Durable, Writer};
use crate::{Batch, Change, ClusterId, CommitError, Cursor, Expect, HistoryError, TableName};
use clock::SharedClock;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::oneshot;

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
    /// Whether the writer is a thread of its own, for a store that is busy, or made when there is something to write,
    /// for one of many.
    pub own_thread: bool,
    /// Whether an answer means that what was written is on the disk, and not only with the kernel. Without it a store
    /// survives the end of its process but not that of its machine.
    pub sync: bool,
    /// The store holds one cluster and calls it so, whatever its log does.
    pub only: Option<ClusterId>,
    /// What many clusters have in common, across stores.
    pub shared: Shared,
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
            own_thread: true,
            sync: true,
            only: None,
            shared: Shared::default(),
        }
    }

    /// For one cluster among hundreds: little history, no thread.
    pub fn small(clock: SharedClock, only: ClusterId) -> Options {
        Options {
            min_events: 256,
            max_history_bytes: 8 << 20,
            max_total_history_bytes: 1 << 20,
            segment_bytes: 8 << 20,
            own_thread: false,
            only: Some(only),
            ..Options::new(clock)
        }
    }
}

/// A handle to the store; cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) clusters: RwLock<Clusters>,
    pub(crate) options: Options,
    pub(crate) writer: Writer,
    /// Readers of all clusters at once; those that are gone are forgotten at the next write.
    feeds: RwLock<Vec<std::sync::Weak<feed::Shared>>>,
    /// Bytes of all tables' histories.
    history: AtomicUsize,
    /// A sync failed; set by the writer, read by health checks.
    pub(crate) poisoned: std::sync::atomic::AtomicBool,
    seal: RwLock<Option<Arc<dyn Seal>>>,
    /// Whether some object cannot be read.
    locked: std::sync::atomic::AtomicBool,
}

pub(crate) enum Work {
    Commit(Batch),
    Found(ClusterId, Arc<Base>),
    DropCluster(ClusterId),
    Seal(Arc<dyn Seal>),
    Join(Box<Directory>, oneshot::Sender<Result<(), MemberError>>),
    /// Nothing but a reason to look whether somebody has left.
    Look,
}

pub(crate) struct Request {
    pub(crate) work: Work,
    pub(crate) reply: oneshot::Sender<Result<Vec<Arc<Entry>>, CommitError>>,
}

/// What a table keeps when memory is short, at least and at most, and for how long: enough for a watcher that
/// keeps up.
const FEW_EVENTS: usize = 32;
const MORE_EVENTS: usize = 256;
const FEW_SECONDS: i64 = 5;

impl Store {
    /// Nothing survives the process.
    pub fn memory(options: Options) -> Store {
        Store::made(Clusters::default(), options, Writer::Memory(Mutex::new(())))
    }

    /// Opens or creates a data directory, recovering what was acknowledged.
    pub fn open(dir: &Path, options: Options) -> Result<Store, OpenError> {
        let (log, clusters) = Log::open(dir, &options)?;
        Store::durable(Logs::one(log), clusters, options).map_err(|source| OpenError::Io {
            action: "start a writer for",
            path: dir.to_owned(),
            source,
        })
    }

    /// One store of several directories, `size` when all are there; `fresh` names the cluster if they begin one.
    /// Blocks. Directories that cannot be a store yet are given back.
    pub fn of_members(
        dirs: Vec<Directory>,
        size: usize,
        fresh: &str,
        options: Options,
    ) -> Result<Store, (Vec<Directory>, MemberError)> {
        let (logs, clusters) = Logs::form(dirs, size, fresh)?;
        Store::durable(logs, clusters, options).map_err(|source| {
            (Vec::new(), MemberError::Io { action: "start a writer for", member: "all".into(), source })
        })
    }

    fn made(clusters: Clusters, options: Options, writer: Writer) -> Store {
        Store(Arc::new(Inner {
            clusters: RwLock::new(clusters),
            options,
            writer,
            feeds: RwLock::default(),
            history: AtomicUsize::new(0),
            poisoned: false.into(),
            seal: RwLock::default(),
            locked: false.into(),
        }))
    }

    fn durable(logs: Logs, clusters: Clusters, options: Options) -> std::io::Result<Store> {
        let own_thread = options.own_thread;
        for cluster in clusters.values() {
            body::cool(cluster.read().tables.values().flat_map(|t| t.objects.values()).map(Fresh::read));
        }
        let store = Store::made(clusters, options, Writer::Durable(Box::new(Durable::new(logs))));
        if own_thread {
            writer::start(&store.0)?;
        }
        Ok(store)
    }

    /// A handle that does not keep the store.
    pub fn downgrade(&self) -> WeakStore {
        WeakStore(Arc::downgrade(&self.0))
    }

    /// Whether both are handles to the same store.
    pub fn is(&self, other: &Store) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
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

    /// Follows every change after `after`, in one namespace or all.
    pub fn watch(
        &self,
        id: &ClusterId,
        table: &TableName,
        within: Option<&str>,
        after: u64,
    ) -> Result<Cursor, HistoryError> {
        Cursor::at(self.cluster(id), table.clone(), within, after)
    }

    /// Whether a cursor is one of this cluster as it is now, and not of one that is gone or was never founded.
    pub fn is_followed_by(&self, id: &ClusterId, cursor: &Cursor) -> bool {
        self.0.clusters.read().get(id).is_some_and(|c| cursor.is_of(c))
    }

    /// The present, and every change after it, in one namespace or all.
    pub fn view_and_watch(
        &self,
        id: &ClusterId,
        table: &TableName,
        within: Option<&str>,
    ) -> (crate::View, Cursor) {
        Cursor::now(self.cluster(id), table.clone(), within)
    }

    /// Everything there is, and then everything that changes, in all clusters.
    pub fn feed(&self) -> Feed {
        let feed = Feed::default();
        self.feed_into(&feed.handle());
        feed
    }

    /// The same, for a feed that tells of several stores.
    pub fn feed_into(&self, feed: &FeedHandle) {
        let Some(shared) = feed.0.upgrade() else { return };
        {
            let mut feeds = self.0.feeds.write();
            if feeds.iter().any(|f| f.ptr_eq(&feed.0)) {
                return;
            }
            feeds.push(feed.0.clone());
        }
        for cluster in self.clusters() {
            let tables: Vec<_> = {
                let c = self.cluster(&cluster);
                let c = c.read();
                c.tables.iter().map(|(n, t)| (n.clone(), t.objects.clone())).collect()
            };
            for (table, objects) in tables {
                for (key, entry) in &objects {
                    shared.push_present(Delta {
                        cluster: cluster.clone(),
                        table: table.clone(),
                        key: key.clone(),
                        previous: None,
                        current: Some(entry.clone()),
                    });
                }
            }
        }
    }

    /// Ends all feeds from this store: its clusters are out of sight, not gone.
    pub fn end_feeds(&self) {
        let clusters = self.clusters();
        for feed in std::mem::take(&mut *self.0.feeds.write()) {
            if let Some(f) = feed.upgrade() {
                clusters.iter().for_each(|id| f.close_cluster(id));
            }
        }
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

    /// Seals what is written from now on, and opens what is there with the keys it brings. The writer does it, so
    /// nothing is written under the old one afterwards.
    pub async fn set_seal(&self, seal: Arc<dyn Seal>) -> Result<(), CommitError> {
        self.submit(Work::Seal(seal)).await.map(|_| ())
    }

    /// Whether an object lies on disk as it would be written now.
    pub fn is_current(&self, table: &TableName, entry: &Entry) -> bool {
        self.0.seal.read().as_ref().is_none_or(|s| s.is_current(table, &entry.stored()))
    }

    /// Whether some object is stored under a key that nobody has; see [`Entry::locked`].
    pub fn has_locked(&self) -> bool {
        self.0.locked.load(Ordering::Relaxed)
    }

    /// What is stored in another form than it is served in.
    pub fn sealed(&self, id: &ClusterId) -> Vec<bytes::Bytes> {
        let c = self.cluster(id);
        let c = c.read();
        c.tables.values().flat_map(|t| t.objects.values()).filter_map(|e| e.stored.clone()).collect()
    }

    /// Lets a member in, after bringing it up to date.
    pub async fn join(&self, dir: Directory) -> Result<(), MemberError> {
        let (tell, told) = oneshot::channel();
        self.submit(Work::Join(Box::new(dir), tell)).await.map_err(|_| MemberError::Closed)?;
        told.await.map_err(|_| MemberError::Closed)?
    }

    /// Lets go of a member's directory, soon; what is written from now on does not count it.
    pub fn leave(&self, member: &str) {
        if let Writer::Durable(d) = &self.0.writer {
            d.leave(&self.0, member);
        }
    }

    /// Returns when everything asked for before is done, members that were let go included.
    pub async fn settled(&self) -> Result<(), CommitError> {
        self.submit(Work::Look).await.map(|_| ())
    }

    /// How many members are up, and how many there should be.
    pub fn members(&self) -> (usize, usize) {
        match &self.0.writer {
            Writer::Memory(_) => (1, 1),
            Writer::Durable(d) => d.members(),
        }
    }

    /// Which cluster its members' directories say they are of.
    pub fn cluster_id(&self) -> Option<&str> {
        match &self.0.writer {
            Writer::Memory(_) => None,
            Writer::Durable(d) => d.cluster.as_deref(),
        }
    }

    pub(crate) fn freeze(&self) -> Vec<Frozen> {
        snapshot::freeze(&self.0.clusters.read())
    }

    async fn submit(&self, work: Work) -> Result<Vec<Arc<Entry>>, CommitError> {
        match &self.0.writer {
            Writer::Memory(lock) => {
                let _one = lock.lock();
                self.0.commit_in_memory(work)
            }
            Writer::Durable(d) => d.submit(&self.0, work).await,
        }
    }

    /// Whether writes are accepted.
    pub fn is_healthy(&self) -> bool {
        match &self.0.writer {
            Writer::Memory(_) => true,
            Writer::Durable(d) => {
                let (up, size) = d.members();
                !self.0.poisoned.load(Ordering::Relaxed) && d.is_open() && up > size / 2
            }
        }
    }

    /// Refuses new writes, finishes those accepted, and lets go of the disk. Blocks.
    pub fn close(&self) {
        if let Writer::Durable(d) = &self.0.writer {
            d.close(&self.0);
        }
    }
}

/// See [`Store::downgrade`].
#[derive(Clone, Default)]
pub struct WeakStore(std::sync::Weak<Inner>);

impl WeakStore {
    pub fn upgrade(&self) -> Option<Store> {
        self.0.upgrade().map(Store)
    }
}

/// Changes staged in the current group, not yet visible.
#[derive(Default)]
pub(crate) struct Overlay {
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
    pub(crate) fn stage(&self, batch: Batch, overlay: &mut Overlay) -> Result<Vec<Staged>, CommitError> {
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
        let seal = self.seal.read().clone();
        let mut revision = overlay.revisions.get(&batch.cluster).copied().unwrap_or(published.revision);
        let mut staged = Vec::with_capacity(batch.ops.len());
        for (op, key) in batch.ops.into_iter().zip(keys) {
            revision += 1;
            let (draft, deleted) = match op.change {
                Change::Put(d) => (d, false),
                Change::Delete(d) => (d, true),
            };
            let bytes = draft.fill(revision);
            let stored = match &seal {
                Some(seal) if !deleted => {
                    let sealed = seal.seal(&op.table, &key, &bytes);
                    let (table, name) = (&op.table, &key);
                    let failed = |why| CommitError::Sealed {
                        table: table.clone(),
                        key: name.as_ref().to_owned(),
                        why,
                    };
                    sealed.map_err(failed)?.map(bytes::Bytes::from)
                }
                _ => None,
            };
            let entry = Arc::new(Entry { stored, ..Entry::new(bytes, revision, draft.meta) });
            staged.push(Staged { table: op.table, key, entry, deleted });
        }
        overlay.revisions.insert(batch.cluster.clone(), revision);
        for s in &staged {
            let value = (!s.deleted).then(|| s.entry.clone());
            overlay.entries.insert((batch.cluster.clone(), s.table.clone(), s.key.clone()), value);
        }
        Ok(staged)
    }

    pub(crate) fn publish(&self, id: &ClusterId, staged: Vec<Staged>) {
        let cluster = self.cluster(id);
        let now = self.options.clock.now();
        let window = self.window();
        let mut c = cluster.write();
        let mut woken: Vec<tokio::sync::watch::Sender<u64>> = Vec::new();
        let fed = !self.feeds.read().is_empty();
        let mut deltas = Vec::new();
        let mut told = Vec::with_capacity(staged.len());
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
            let event = table.publish(s, now, window);
            // Wraps below zero and back: the sum is right.
            self.history.fetch_add(table.ring_bytes.wrapping_sub(held), Ordering::Relaxed);
            if let Some(d) = &mut delta {
                d.previous = event.previous.clone();
            }
            told.push(Fresh::told(&event));
            deltas.extend(delta);
            for wake in table.woken_by(&event.key) {
                if !woken.iter().any(|w| w.same_channel(wake)) {
                    woken.push(wake.clone());
                }
            }
        }
        let revision = c.revision;
        drop(c);
        body::cool(told);
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

    pub(crate) fn found_now(&self, id: &ClusterId, base: &Base) {
        let mut clusters = self.clusters.write();
        clusters.entry(id.clone()).or_insert_with(|| Arc::new(RwLock::new(Cluster::on(base))));
    }

    pub(crate) fn drop_now(&self, id: &ClusterId) {
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
            Work::Seal(seal) => {
                self.reseal(seal);
                Ok(Vec::new())
            }
            Work::Join(..) | Work::Look => Ok(Vec::new()),
        }
    }

    /// Opens what is there with other keys, and seals with them from now on.
    pub(crate) fn reseal(&self, seal: Arc<dyn Seal>) {
        let mut locked = false;
        for cluster in self.clusters.read().values() {
            let mut c = cluster.write();
            for (name, table) in &mut c.tables {
                let changed: Vec<_> = (table.objects.iter())
                    .filter_map(|(k, e)| Some((k.clone(), seal::reopened(&*seal, name, k, e)?)))
                    .collect();
                table.objects.extend(changed.into_iter().map(|(k, e)| (k, Arc::new(e))));
                locked |= table.objects.values().any(|e| e.locked.is_some());
            }
        }
        self.locked.store(locked, Ordering::Relaxed);
        *self.seal.write() = Some(seal);
    }
}
