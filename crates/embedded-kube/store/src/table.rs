//! The in-memory side: tables as persistent maps, each with a ring of recent events.

use crate::body::Body;
use crate::{ClusterId, HistoryError, Meta, TableName};
use bytes::Bytes;
use imbl::OrdMap;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::watch;

/// One version of one object.
#[derive(Debug)]
pub struct Entry {
    pub(crate) body: Body,
    pub revision: u64,
    pub meta: Meta,
    /// What lies on disk, where that is something else: see [`crate::Seal`].
    pub(crate) stored: Option<Bytes>,
    /// Why the object cannot be read; its bytes are then what is stored.
    pub(crate) locked: Option<Arc<str>>,
}

impl Entry {
    pub fn new(bytes: Bytes, revision: u64, meta: Meta) -> Entry {
        Entry { body: Body::new(bytes), revision, meta, stored: None, locked: None }
    }

    /// The object, as canonical JSON.
    pub fn bytes(&self) -> Bytes {
        self.body.bytes()
    }

    /// How long that is.
    #[allow(clippy::len_without_is_empty, reason = "no object is empty")]
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// Whether it begins so; cheaper than its bytes.
    pub fn starts_with(&self, head: &[u8]) -> bool {
        self.body.starts_with(head)
    }

    /// Keeps the object in less room, if that gains anything.
    pub(crate) fn pack(&self) {
        self.body.pack();
    }

    /// As it lies on disk.
    pub fn stored(&self) -> Bytes {
        self.stored.clone().unwrap_or_else(|| self.bytes())
    }

    /// Why the object cannot be read, if it cannot.
    pub fn locked(&self) -> Option<&str> {
        self.locked.as_deref()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// One committed change. Encodings are made once and shared by all watchers that want the same one.
#[derive(Debug)]
pub struct Event {
    pub kind: EventKind,
    pub key: Arc<str>,
    /// The new state; for a deletion the last one, carrying the deletion's revision.
    pub entry: Arc<Entry>,
    pub previous: Option<Arc<Entry>>,
    at: Timestamp,
    encodings: Mutex<Vec<(u64, Bytes)>>,
}

impl Event {
    pub fn revision(&self) -> u64 {
        self.entry.revision
    }

    pub fn has_encoding(&self, slot: u64) -> bool {
        self.encodings.lock().iter().any(|(s, _)| *s == slot)
    }

    pub(crate) fn forget_encodings(&self) {
        *self.encodings.lock() = Vec::new();
    }

    /// The encoding named `slot`, made by `make` the first time it is asked for.
    pub fn encoded(&self, slot: u64, make: impl FnOnce() -> Bytes) -> Bytes {
        if let Some((_, b)) = self.encodings.lock().iter().find(|(s, _)| *s == slot) {
            return b.clone();
        }
        // Encode outside the lock: two watchers may do it twice, none waits for the other.
        let made = make();
        let mut all = self.encodings.lock();
        if let Some((_, b)) = all.iter().find(|(s, _)| *s == slot) {
            return b.clone();
        }
        all.push((slot, made.clone()));
        made
    }
}

/// As many of a table's newest events keep their encodings, which are as large as the objects themselves.
const ENCODED: usize = 32;

/// A table's objects by key; a copy costs nothing.
pub type Objects = OrdMap<Arc<str>, Arc<Entry>>;

/// A consistent view of one table.
#[derive(Clone, Debug)]
pub struct View {
    /// The cluster's revision this view is exact for.
    pub revision: u64,
    pub objects: OrdMap<Arc<str>, Arc<Entry>>,
}

/// How much history a table keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) min_events: usize,
    pub(crate) max_events: usize,
    pub(crate) max_bytes: usize,
    pub(crate) seconds: i64,
}

pub(crate) struct Table {
    pub(crate) objects: Objects,
    pub(crate) ring: VecDeque<Arc<Event>>,
    /// Bytes of the states in the ring, which may be alive only because of it.
    pub(crate) ring_bytes: usize,
    /// Every change after this revision is in the ring.
    pub(crate) floor: u64,
    pub(crate) wake: watch::Sender<u64>,
    /// Namespaces that somebody follows alone.
    spaces: HashMap<Box<str>, Space>,
}

/// One namespace of a table, for those who follow no other: of a thousand namespaces most changes concern one, and only
/// its watchers are woken. They look at its events alone, too: those of all others since they last looked are many.
struct Space {
    wake: watch::Sender<u64>,
    /// Those of the ring that are of this namespace.
    ring: VecDeque<Arc<Event>>,
    /// Every change in it after this revision is in the ring.
    floor: u64,
}

/// Which namespace a key is in; none has no name.
pub(crate) fn namespace(key: &str) -> &str {
    key.split_once('/').map_or("", |(ns, _)| ns)
}

/// Index of the first event after `revision`.
fn first_after(ring: &VecDeque<Arc<Event>>, revision: u64) -> usize {
    // A watcher that keeps up misses the last few events at most; those are warm, the middle is not.
    const FEW: usize = 8;
    let few = ring.iter().rev().take(FEW).take_while(|e| e.revision() > revision).count();
    if few < FEW {
        return ring.len() - few;
    }
    ring.partition_point(|e| e.revision() <= revision)
}

impl Table {
    pub(crate) fn new(floor: u64) -> Table {
        Table {
            objects: Objects::new(),
            ring: VecDeque::new(),
            ring_bytes: 0,
            floor,
            wake: watch::Sender::new(floor),
            spaces: HashMap::new(),
        }
    }

    /// Every change in a namespace (or anywhere) after this revision is in the ring.
    pub(crate) fn floor_within(&self, namespace: Option<&str>) -> u64 {
        namespace.and_then(|ns| self.spaces.get(ns)).map_or(self.floor, |s| s.floor)
    }

    /// Woken by changes in a namespace, or anywhere.
    pub(crate) fn subscribe(&mut self, within: Option<&str>) -> watch::Receiver<u64> {
        let Some(ns) = within else { return self.wake.subscribe() };
        if let Some(space) = self.spaces.get(ns) {
            return space.wake.subscribe();
        }
        // Those that nobody follows any more, now and then.
        if self.spaces.len().is_power_of_two() {
            self.spaces.retain(|_, s| s.wake.receiver_count() > 0);
        }
        let wake = watch::Sender::new(self.floor);
        let woken = wake.subscribe();
        let ring = self.ring.iter().filter(|e| namespace(&e.key) == ns).cloned().collect();
        self.spaces.insert(ns.into(), Space { wake, ring, floor: self.floor });
        woken
    }

    /// Changes in a namespace (or anywhere) after a revision, oldest first.
    pub(crate) fn after<'a>(
        &'a self,
        within: Option<&'a str>,
        revision: u64,
    ) -> impl Iterator<Item = &'a Arc<Event>> {
        let space = within.and_then(|ns| self.spaces.get(ns));
        let ring = space.map_or(&self.ring, |s| &s.ring);
        let ours = move |e: &&Arc<Event>| space.is_some() || within.is_none_or(|ns| namespace(&e.key) == ns);
        ring.iter().skip(first_after(ring, revision)).filter(ours)
    }

    /// Who is to be woken by a change of `key`.
    pub(crate) fn woken_by(&self, key: &str) -> impl Iterator<Item = &watch::Sender<u64>> {
        std::iter::once(&self.wake).chain(self.spaces.get(namespace(key)).map(|s| &s.wake))
    }

    /// Makes a change visible; returns how it is told.
    pub(crate) fn publish(&mut self, change: Staged, now: Timestamp, window: Window) -> Arc<Event> {
        let Staged { key, entry, deleted, .. } = change;
        let previous =
            if deleted { self.objects.remove(&key) } else { self.objects.insert(key.clone(), entry.clone()) };
        let kind = match (deleted, &previous) {
            (true, _) => EventKind::Deleted,
            (false, None) => EventKind::Added,
            (false, Some(_)) => EventKind::Modified,
        };
        let event = Event { kind, key, entry, previous, at: now, encodings: Mutex::new(Vec::new()) };
        let event = Arc::new(event);
        self.ring_bytes += event.entry.len();
        self.ring.push_back(event.clone());
        if let Some(space) = self.spaces.get_mut(namespace(&event.key)) {
            space.ring.push_back(event.clone());
        }
        // Watchers that keep up have long sent it; one that comes late makes its own.
        if let Some(old) = self.ring.len().checked_sub(ENCODED + 1).and_then(|i| self.ring.get(i)) {
            old.forget_encodings();
        }
        self.trim(now, window);
        event
    }

    /// Forgets events beyond the window. Memory comes before age: large objects shorten history.
    pub(crate) fn trim(&mut self, now: Timestamp, window: Window) {
        while let Some(oldest) = self.ring.front().filter(|_| self.ring.len() > 1) {
            let young = now.as_second() - oldest.at.as_second() < window.seconds;
            let keep =
                self.ring.len() <= window.min_events || (young && self.ring.len() <= window.max_events);
            if keep && self.ring_bytes <= window.max_bytes {
                break;
            }
            self.floor = oldest.revision();
            if let Some(space) = self.spaces.get_mut(namespace(&oldest.key)) {
                space.floor = self.floor;
                space.ring.pop_front();
                if space.ring.is_empty() {
                    space.ring = VecDeque::new();
                }
            }
            self.ring_bytes -= oldest.entry.len();
            self.ring.pop_front();
        }
    }

    pub(crate) fn last_change(&self) -> u64 {
        self.ring.back().map_or(self.floor, |e| e.revision())
    }

    /// The objects as they were at `revision`: the present with later events undone.
    pub(crate) fn objects_at(&self, revision: u64) -> Result<Objects, HistoryError> {
        if revision < self.floor {
            return Err(HistoryError::TooOld { requested: revision, oldest: self.floor });
        }
        let mut objects = self.objects.clone();
        for event in self.ring.iter().skip(first_after(&self.ring, revision)).rev() {
            match &event.previous {
                Some(p) => {
                    objects.insert(event.key.clone(), p.clone());
                }
                None => {
                    objects.remove(&event.key);
                }
            }
        }
        Ok(objects)
    }
}

/// Objects that many clusters begin with. They are stored once: every cluster's maps share them, entries and
/// nodes, until it changes its own.
#[derive(Debug)]
pub struct Base {
    pub(crate) revision: u64,
    pub(crate) tables: HashMap<TableName, Objects>,
}

impl Base {
    /// Objects in the order of their revisions, which begin at 1.
    pub fn new(objects: Vec<(TableName, String, crate::Draft)>) -> Base {
        let mut base = Base { revision: 0, tables: HashMap::new() };
        for (table, key, draft) in objects {
            base.revision += 1;
            let entry = Entry::new(draft.fill(base.revision), base.revision, draft.meta);
            base.tables.entry(table).or_default().insert(Arc::from(key), Arc::new(entry));
        }
        base
    }

    /// As changes, in order, for the log.
    pub(crate) fn changes(&self) -> Vec<Staged> {
        let mut all: Vec<Staged> = (self.tables.iter())
            .flat_map(|(table, objects)| objects.iter().map(move |(key, entry)| (table, key, entry)))
            .map(|(table, key, entry)| Staged {
                table: table.clone(),
                key: key.clone(),
                entry: entry.clone(),
                deleted: false,
            })
            .collect();
        all.sort_by_key(|s| s.entry.revision);
        all
    }
}

/// A change that has its revision and final bytes but is not visible yet.
#[derive(Clone, Debug)]
pub(crate) struct Staged {
    pub(crate) table: TableName,
    pub(crate) key: Arc<str>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) deleted: bool,
}

/// All tables of one cluster, under one lock, so that a revision and a map belong together.
#[derive(Default)]
pub(crate) struct Cluster {
    pub(crate) revision: u64,
    pub(crate) tables: HashMap<TableName, Table>,
}

impl Cluster {
    /// A cluster that begins with `base`.
    pub(crate) fn on(base: &Base) -> Cluster {
        let tables = base.tables.iter().map(|(name, objects)| {
            let mut table = Table::new(base.revision);
            table.objects = objects.clone();
            (name.clone(), table)
        });
        Cluster { revision: base.revision, tables: tables.collect() }
    }

    pub(crate) fn table(&mut self, name: &TableName) -> &mut Table {
        // A table never touched has no history to miss: its floor is the beginning.
        self.tables.entry(name.clone()).or_insert_with(|| Table::new(0))
    }
}

pub(crate) type Clusters = HashMap<ClusterId, Arc<parking_lot::RwLock<Cluster>>>;
