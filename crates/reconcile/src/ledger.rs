//! What was applied, and whether it is still so: the reason why a settled cluster costs no request.
//!
//! For each object the ledger holds a few numbers: the hash of the desired state that was applied last, how the
//! object looked when it came back ([`fingerprint`](crate::fingerprint)), and how it looked when a watch last told of
//! it. If the desired state hashes the same and the object looks as we left it, there is nothing to say to the
//! server. Otherwise one server-side apply puts things right, and writes nothing if nothing is wrong. That makes
//! every doubt cheap, so doubt is resolved towards asking:
//!
//! * an object that no attached watch covers is applied each time: nobody would tell us of a change;
//! * after a list, what was not in it is forgotten;
//! * after a restart nothing is remembered, so each object is applied once.
//!
//! Answers and news race. News that is older than what we know (by resourceVersion, which the API lets clients
//! compare) is old hat; news that overtakes the answer to our own request is kept and counted against it. For this an
//! entry exists from before the request is sent.
//!
//! Rejected: keeping the objects (125,000 of them at 500 hosted clusters are gigabytes), writing the hash into an
//! annotation (says what was wished, not what is), reading before each write (a request to save a request).

use crate::fingerprint::{Look, Prints, Slot};
use crate::kind::ObjectRef;
use crate::watch::{Depth, News, Sink, Source};
use clock::Random;
use kube::core::{DynamicObject, ObjectMeta, Selector, SelectorExt};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What one field manager applied in one cluster. Attach it to the watches that cover that.
///
/// Two managers may apply parts of the same object; each then has its own idea of what is desired, and its own ledger.
pub struct Ledger {
    manager: &'static str,
    prints: Prints,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<Slot, Entry>,
    scopes: Vec<Scope>,
    /// What a list that is under way has shown, by scope.
    lists: HashMap<u32, HashSet<Slot>>,
    /// By owner: what was desired when everything else of theirs was last removed.
    pruned: HashMap<u64, u64>,
}

struct Scope {
    id: u32,
    group: String,
    kind: String,
    namespace: String,
    labels: Selector,
    name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Whole,
    Metadata,
    /// Deleted, while a request of ours was under way.
    Gone,
}

/// 48 bytes; with its slot and the map's own need about 90 per object.
#[derive(Clone, Copy, Debug)]
struct Entry {
    desired: u64,
    left: Look,
    seen: u64,
    /// The newest version we know of.
    version: u64,
    /// The watch that tells of changes; 0: none does.
    scope: u32,
    seen_as: Seen,
    /// Requests under way.
    flights: u8,
    /// How often somebody else's change was undone while we wished the same.
    corrections: u8,
}

/// An object and what was desired of it, as numbers. Whether it still stands can be asked without its manifest, so
/// whoever knows that nothing it was made from has changed need not make it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Print {
    slot: Slot,
    desired: u64,
}

/// What the ledger says about an object before it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// As desired, as far as anybody can know.
    Settled,
    /// Somebody changed it.
    Drifted { corrections: u8 },
    /// Something else is desired now, or it was never applied.
    Open,
}

impl Entry {
    const NEW: Entry = Entry {
        desired: 0,
        left: Look { content: 0, meta: 0 },
        seen: 0,
        version: 0,
        scope: 0,
        seen_as: Seen::Whole,
        flights: 0,
        corrections: 0,
    };

    fn is_as_left(&self) -> bool {
        match self.seen_as {
            Seen::Whole => self.seen == self.left.content,
            Seen::Metadata => self.seen == self.left.meta,
            Seen::Gone => false,
        }
    }
}

/// Versions that are not numbers count as unknown.
fn version(m: &ObjectMeta) -> u64 {
    m.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0)
}

impl Ledger {
    /// `manager` is our name in managedFields; one per component.
    pub fn new(manager: &'static str, random: &Random) -> Arc<Ledger> {
        let seed = u64::from_le_bytes(random.bytes());
        Arc::new(Ledger { manager, prints: Prints { seed }, inner: Mutex::default() })
    }

    pub fn manager(&self) -> &'static str {
        self.manager
    }

    pub(crate) fn prints(&self) -> Prints {
        self.prints
    }

    /// Objects remembered.
    pub fn len(&self) -> usize {
        self.inner.lock().entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held for them, counted.
    pub fn bytes(&self) -> usize {
        // The map has room for 7/8 of its buckets, each with a byte of control.
        self.inner.lock().entries.capacity() * 8 / 7 * (size_of::<(Slot, Entry)>() + 1)
    }

    pub(crate) fn standing(&self, at: &ObjectRef, desired: u64) -> Standing {
        self.inner.lock().standing(&self.prints.slot(at), desired)
    }

    pub(crate) fn print(&self, at: &ObjectRef, desired: u64) -> Print {
        Print { slot: self.prints.slot(at), desired }
    }

    /// Whether every one of them is as it was applied, as far as anybody can know.
    pub(crate) fn stand(&self, prints: &[Print]) -> bool {
        let inner = self.inner.lock();
        prints.iter().all(|p| inner.standing(&p.slot, p.desired) == Standing::Settled)
    }

    /// The newest resourceVersion known of an object that is there.
    pub(crate) fn version(&self, print: &Print) -> Option<u64> {
        let inner = self.inner.lock();
        let entry = inner.entries.get(&print.slot).filter(|e| e.seen_as != Seen::Gone);
        entry.map(|e| e.version)
    }

    /// Whether it was there when we last heard of it, and somebody would tell if it went away.
    pub(crate) fn exists(&self, at: &ObjectRef) -> bool {
        let inner = self.inner.lock();
        inner.entries.get(&self.prints.slot(at)).is_some_and(|e| e.scope != 0 && e.flights == 0)
    }

    /// A request about it is about to be sent. What is heard of it from now on is kept until the answer is in, or
    /// until the request is given up by dropping this.
    pub(crate) fn sending<'a>(&'a self, at: &'a ObjectRef) -> Flight<'a> {
        let slot = self.prints.slot(at);
        let mut inner = self.inner.lock();
        let e = inner.entries.entry(slot).or_insert(Entry::NEW);
        e.flights = e.flights.saturating_add(1);
        Flight { ledger: self, at, slot, landed: false }
    }

    /// It is gone, or nobody knows how it is.
    pub(crate) fn forget(&self, at: &ObjectRef) {
        self.inner.lock().forget(&self.prints.slot(at));
    }

    pub(crate) fn is_pruned(&self, owner: u64, desired: u64) -> bool {
        self.inner.lock().pruned.get(&owner) == Some(&desired)
    }

    pub(crate) fn pruned(&self, owner: u64, desired: Option<u64>) {
        let mut inner = self.inner.lock();
        match desired {
            Some(d) => inner.pruned.insert(owner, d),
            None => inner.pruned.remove(&owner),
        };
    }

    fn slot_of(&self, from: &Source, m: &ObjectMeta) -> Slot {
        let namespace = m.namespace.as_deref().unwrap_or_default();
        self.prints.slot_of(
            &from.kind.group,
            &from.kind.kind,
            namespace,
            m.name.as_deref().unwrap_or_default(),
        )
    }

    fn seen(&self, from: &Source, o: &DynamicObject, listed: bool) {
        let slot = self.slot_of(from, &o.metadata);
        let mut inner = self.inner.lock();
        if listed && let Some(list) = inner.lists.get_mut(&from.id) {
            list.insert(slot);
        }
        let Some(e) = inner.entries.get_mut(&slot) else { return };
        let version = version(&o.metadata);
        // A list counts whatever its version: after a restore from backup, versions start over.
        if version < e.version && !listed || version == e.version && version != 0 {
            return;
        }
        e.version = version;
        (e.seen, e.seen_as) = match from.depth {
            Depth::Whole => (self.prints.whole(o).content, Seen::Whole),
            Depth::Metadata => (self.prints.meta(&o.metadata), Seen::Metadata),
        };
    }

    fn gone(&self, from: &Source, o: &DynamicObject) {
        let slot = self.slot_of(from, &o.metadata);
        let mut inner = self.inner.lock();
        let Some(e) = inner.entries.get_mut(&slot) else { return };
        let version = version(&o.metadata);
        if version < e.version {
            return;
        }
        if e.flights > 0 {
            (e.version, e.seen_as) = (version, Seen::Gone);
        } else {
            inner.entries.remove(&slot);
        }
    }
}

/// A request under way.
pub(crate) struct Flight<'a> {
    ledger: &'a Ledger,
    at: &'a ObjectRef,
    slot: Slot,
    landed: bool,
}

impl Flight<'_> {
    /// The answer: `desired` was applied, and this is how the object is now.
    pub(crate) fn answered(mut self, desired: u64, live: &DynamicObject) {
        self.landed = true;
        let look = self.ledger.prints.whole(live);
        let answer = version(&live.metadata);
        let mut inner = self.ledger.inner.lock();
        let scope = inner.covering(self.at, &live.metadata);
        let e = inner.entries.entry(self.slot).or_insert(Entry::NEW);
        e.flights = e.flights.saturating_sub(1);
        if e.seen_as == Seen::Gone && e.version > answer {
            // Overtaken by the news of its end.
            if e.flights == 0 {
                inner.entries.remove(&self.slot);
            }
            return;
        }
        // Only the same wish, found undone, is a correction.
        let corrected = !e.is_as_left() && e.desired == desired && e.version != answer;
        e.corrections = if corrected { e.corrections.saturating_add(1) } else { 0 };
        (e.desired, e.left, e.scope) = (desired, look, scope);
        if e.version <= answer || answer == 0 {
            (e.version, e.seen, e.seen_as) = (answer, look.content, Seen::Whole);
        }
    }
}

impl Drop for Flight<'_> {
    /// No answer: it may have been carried out or not.
    fn drop(&mut self) {
        if self.landed {
            return;
        }
        let mut inner = self.ledger.inner.lock();
        if let Some(e) = inner.entries.get_mut(&self.slot) {
            e.flights = e.flights.saturating_sub(1);
        }
        inner.forget(&self.slot);
    }
}

impl Inner {
    fn standing(&self, slot: &Slot, desired: u64) -> Standing {
        match self.entries.get(slot) {
            Some(e) if e.desired != desired || e.flights > 0 => Standing::Open,
            Some(e) if !e.is_as_left() => Standing::Drifted { corrections: e.corrections },
            // A version that cannot be compared cannot vouch for anything.
            Some(e) if e.scope != 0 && e.version != 0 => Standing::Settled,
            _ => Standing::Open,
        }
    }

    fn forget(&mut self, slot: &Slot) {
        match self.entries.get_mut(slot) {
            // No answer that is still to come settles anything.
            Some(e) if e.flights > 0 => (e.version, e.seen_as) = (u64::MAX, Seen::Gone),
            _ => drop(self.entries.remove(slot)),
        }
    }

    fn covering(&self, at: &ObjectRef, m: &ObjectMeta) -> u32 {
        let none = std::collections::BTreeMap::new();
        let labels = m.labels.as_ref().unwrap_or(&none);
        let covers = |s: &&Scope| {
            at.kind.is(&s.group, &s.kind)
                && (s.namespace.is_empty() || s.namespace == at.namespace)
                && s.name.as_ref().is_none_or(|n| *n == at.name)
                && s.labels.matches(labels)
        };
        self.scopes.iter().find(covers).map_or(0, |s| s.id)
    }
}

impl Sink for Ledger {
    fn attached(&self, source: &Source) {
        self.inner.lock().scopes.push(Scope {
            id: source.id,
            group: source.kind.group.to_string(),
            kind: source.kind.kind.to_string(),
            namespace: source.namespace.clone(),
            labels: source.labels.clone(),
            name: source.name.clone(),
        });
    }

    fn hear(&self, from: &Source, news: News<'_>) {
        match news {
            News::Begin => {
                self.inner.lock().lists.insert(from.id, HashSet::new());
            }
            News::Listed(o) => self.seen(from, o, true),
            News::Changed(o) => self.seen(from, o, false),
            News::Gone(o) => self.gone(from, o),
            News::Complete => {
                let mut inner = self.inner.lock();
                let Some(list) = inner.lists.remove(&from.id) else { return };
                inner.entries.retain(|slot, e| e.scope != from.id || e.flights > 0 || list.contains(slot));
                // What is under way may have been made after the list, or deleted before it: no answer settles that.
                for e in inner
                    .entries
                    .iter_mut()
                    .filter(|(s, e)| e.flights > 0 && !list.contains(*s))
                    .map(|(_, e)| e)
                {
                    (e.version, e.seen_as) = (u64::MAX, Seen::Gone);
                }
                // Things may have come up that nobody told us of.
                inner.pruned.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests;
