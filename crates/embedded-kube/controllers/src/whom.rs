//! Whom a change concerns.

use crate::objects::controller_of;
use ek_engine::{Delta, Keys, split};
use ek_meta::selector::LabelSelector;
use ek_server::{Access, parse};
use ek_store::{ClusterId, TableName};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// A kind of owner: where it is stored and how references name it.
#[derive(Clone, Copy)]
pub struct Owners {
    pub kind: &'static str,
    pub group: &'static str,
    pub table: fn() -> &'static TableName,
    pub selector: fn(&Value) -> Option<LabelSelector>,
}

impl Owners {
    /// The object itself, or the owner of a dependent; for a dependent without one, everybody who wants it.
    pub fn of(&self, access: &Access, delta: &Delta, keys: &mut Keys) {
        if *delta.table == **(self.table)() {
            keys.push(delta.key.clone());
            return;
        }
        let (namespace, _) = split(&delta.key);
        for entry in [&delta.previous, &delta.current].into_iter().flatten() {
            if let Some(o) = controller_of(entry)
                && o.kind == self.kind
                && o.api_version.rsplit_once('/').map_or("", |(g, _)| g) == self.group
            {
                keys.object(namespace, &o.name);
            }
        }
        let Some(current) = &delta.current else { return };
        if current.meta.deleting || controller_of(current).is_some() {
            return;
        }
        for (key, entry) in access.in_namespace((self.table)(), namespace) {
            let Some(owner) = parse(&entry) else { continue };
            let wants = |s: LabelSelector| s.matches(|k| current.meta.label(k));
            if (self.selector)(&owner).is_some_and(wants) {
                keys.push(key);
            }
        }
    }
}

/// `spec.selector` as most kinds have it. An empty one is not allowed there, so it selects nothing.
pub fn selector_of(owner: &Value) -> Option<LabelSelector> {
    crate::objects::selector(owner.pointer("/spec/selector")).filter(|s| !s.is_everything())
}

/// Selectors of services, budgets and the like by key, so that a pod's change finds whom it concerns without
/// reading them all.
pub struct Selectors {
    read: fn(&Value) -> Option<LabelSelector>,
    known: Mutex<HashMap<ClusterId, BTreeMap<Arc<str>, LabelSelector>>>,
}

impl Selectors {
    pub fn new(read: fn(&Value) -> Option<LabelSelector>) -> Selectors {
        Selectors { read, known: Mutex::default() }
    }

    /// Takes in a change of one that selects.
    pub fn follow(&self, delta: &Delta) {
        let selector = delta.current.as_ref().and_then(|e| parse(e)).and_then(|o| (self.read)(&o));
        let mut known = self.known.lock();
        match selector {
            Some(s) => _ = known.entry(delta.cluster.clone()).or_default().insert(delta.key.clone(), s),
            None => {
                if let Some(all) = known.get_mut(&delta.cluster) {
                    all.remove(&delta.key);
                }
            }
        }
    }

    /// Those who select a pod, as it is or as it was.
    pub fn of(&self, delta: &Delta, keys: &mut Keys) {
        let known = self.known.lock();
        let Some(all) = known.get(&delta.cluster) else { return };
        let (namespace, _) = split(&delta.key);
        let prefix = format!("{namespace}/");
        let here = all.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        for (key, selector) in here.take_while(|(k, _)| k.starts_with(&prefix)) {
            let entries = [&delta.previous, &delta.current].into_iter().flatten();
            if entries.into_iter().any(|e| selector.matches(|k| e.meta.label(k))) {
                keys.push(key.clone());
            }
        }
    }

    pub fn forget(&self, cluster: &ClusterId) {
        self.known.lock().remove(cluster);
    }
}
