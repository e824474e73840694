//! From objects to keys.
//!
//! A watch tells of objects; a controller is woken for keys. Which keys an object concerns is a function of the object
//! (its name, an annotation, its owner). Objects change and vanish, so what the function last said is remembered: an
//! object that is re-labelled concerns both its old and its new key, and one that vanished while nobody watched still
//! concerns its key. Keys are shared, so that a thousand objects of one cluster hold one text.

use super::lane::Lane;
use crate::fingerprint::{Prints, Slot};
use crate::watch::{News, Sink, Source};
use kube::core::DynamicObject;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Where a mapping puts keys.
#[derive(Default)]
pub struct Keys(Vec<Arc<str>>);

impl Keys {
    pub fn push(&mut self, key: impl Into<Arc<str>>) {
        self.0.push(key.into());
    }

    /// `namespace/name`, or the name alone where there is no namespace.
    pub fn object(&mut self, namespace: &str, name: &str) {
        if namespace.is_empty() { self.push(name) } else { self.push(format!("{namespace}/{name}")) }
    }

    /// The object itself.
    pub fn itself(&mut self, o: &DynamicObject) {
        let m = &o.metadata;
        self.object(m.namespace.as_deref().unwrap_or_default(), m.name.as_deref().unwrap_or_default());
    }

    /// What an annotation of the object names, as it is.
    pub fn annotated(&mut self, o: &DynamicObject, annotation: &str) {
        if let Some(key) = o.metadata.annotations.as_ref().and_then(|a| a.get(annotation)) {
            self.push(&**key);
        }
    }

    /// Its controller, if that is of this kind.
    pub fn controller(&mut self, o: &DynamicObject, kind: &str) {
        let owners = o.metadata.owner_references.iter().flatten();
        for owner in owners.filter(|r| r.kind == kind && r.controller == Some(true)) {
            self.object(o.metadata.namespace.as_deref().unwrap_or_default(), &owner.name);
        }
    }
}

/// `namespace/name` taken apart; without a slash the namespace is empty.
pub fn split(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

pub(super) struct Concerns<F> {
    lane: Arc<Lane>,
    map: F,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    keys: HashMap<(u32, Slot), Box<[Arc<str>]>>,
    texts: HashSet<Arc<str>>,
    lists: HashMap<u32, HashSet<Slot>>,
}

impl<F: Fn(&DynamicObject, &mut Keys) + Send + Sync + 'static> Concerns<F> {
    pub(super) fn new(lane: Arc<Lane>, map: F) -> Concerns<F> {
        Concerns { lane, map, known: Mutex::default() }
    }

    fn keys(&self, o: &DynamicObject) -> Vec<Arc<str>> {
        let mut keys = Keys::default();
        (self.map)(o, &mut keys);
        keys.0.sort_unstable();
        keys.0.dedup();
        keys.0
    }
}

impl Known {
    /// The keys, each sharing its text with everybody who has the same.
    fn shared(&mut self, keys: &[Arc<str>]) -> Box<[Arc<str>]> {
        let share = |k: &Arc<str>| match self.texts.get(k) {
            Some(known) => known.clone(),
            None => {
                self.texts.insert(k.clone());
                k.clone()
            }
        };
        keys.iter().map(share).collect()
    }

    fn tidy(&mut self) {
        // One reference is the set's own.
        if self.texts.len() > 64 && self.texts.len() > 2 * self.keys.len() {
            self.texts.retain(|t| Arc::strong_count(t) > 1);
        }
    }
}

/// Slots of objects within one watch; nobody outside sees them.
fn slot(o: &DynamicObject) -> Slot {
    let m = &o.metadata;
    let (namespace, name) =
        (m.namespace.as_deref().unwrap_or_default(), m.name.as_deref().unwrap_or_default());
    Prints { seed: 0 }.slot_of("", "", namespace, name)
}

impl<F: Fn(&DynamicObject, &mut Keys) + Send + Sync + 'static> Sink for Concerns<F> {
    fn hear(&self, from: &Source, news: News<'_>) {
        let mut wake: Vec<Arc<str>> = Vec::new();
        match news {
            News::Begin => {
                self.known.lock().lists.insert(from.id, HashSet::new());
            }
            News::Listed(o) | News::Changed(o) => {
                let (slot, new) = (slot(o), self.keys(o));
                let mut known = self.known.lock();
                if let Some(list) = known.lists.get_mut(&from.id) {
                    list.insert(slot);
                }
                let kept = known.shared(&new);
                let old = match kept.is_empty() {
                    true => known.keys.remove(&(from.id, slot)),
                    false => known.keys.insert((from.id, slot), kept),
                };
                wake.extend(old.into_iter().flatten());
                wake.extend(new);
            }
            News::Gone(o) => {
                let mut known = self.known.lock();
                wake.extend(known.keys.remove(&(from.id, slot(o))).into_iter().flatten());
                wake.extend(self.keys(o));
                known.tidy();
            }
            News::Complete => {
                let mut known = self.known.lock();
                let Some(list) = known.lists.remove(&from.id) else { return };
                known.keys.retain(|(id, slot), keys| {
                    let there = *id != from.id || list.contains(slot);
                    if !there {
                        wake.extend(keys.iter().cloned());
                    }
                    there
                });
                known.tidy();
            }
        }
        wake.sort_unstable();
        wake.dedup();
        self.lane.add(&wake);
    }
}
