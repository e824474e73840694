//! Who depends on whom, by uid.

use ek_engine::{Delta, Keys};
use ek_store::TableName;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Where an object is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) table: TableName,
    pub(super) key: Arc<str>,
}

impl Place {
    pub(super) fn of(delta: &Delta) -> Place {
        Place { table: delta.table.clone(), key: delta.key.clone() }
    }

    pub(super) fn to_key(&self) -> String {
        format!("{}|{}", self.table, self.key)
    }

    pub(super) fn from_key(key: &str) -> Option<Place> {
        let (table, key) = key.split_once('|')?;
        Some(Place { table: table.into(), key: key.into() })
    }
}

#[derive(Default)]
pub(super) struct Graph {
    dependents: HashMap<Box<str>, BTreeSet<Place>>,
    /// Owners whose deletion waits, so that the last dependent can say it is gone.
    waiting: HashMap<Box<str>, Place>,
    /// Owners seen to go, while something still refers to them.
    gone: HashSet<Box<str>>,
}

impl Graph {
    pub(super) fn dependents(&self, uid: &str) -> Vec<Place> {
        self.dependents.get(uid).map(|d| d.iter().cloned().collect()).unwrap_or_default()
    }

    pub(super) fn is_gone(&self, uid: &str) -> bool {
        self.gone.contains(uid)
    }

    pub(super) fn wait(&mut self, uid: &str, place: &Place) {
        self.waiting.insert(uid.into(), place.clone());
    }

    /// Takes a change in and says what is to be looked at because of it.
    pub(super) fn follow(&mut self, delta: &Delta, keys: &mut Keys) {
        let place = Place::of(delta);
        let before = delta.previous.as_ref().map(|e| &e.meta);
        let now = delta.current.as_ref().map(|e| &e.meta);
        // Another object of the same name is another object.
        let replaced = before.zip(now).is_some_and(|(b, n)| b.uid != n.uid);
        let owners_of = |m: Option<&ek_store::Meta>| -> HashSet<Box<str>> {
            m.map(|m| m.owners.iter().map(|o| o.uid.clone()).collect()).unwrap_or_default()
        };
        let (had, has) = (owners_of(before), owners_of(now));
        for owner in had.difference(&has) {
            self.drop_edge(owner, &place);
        }
        for owner in &has {
            self.dependents.entry(owner.clone()).or_default().insert(place.clone());
        }
        // An owner that waits learns of every change of what it waits for.
        for owner in had.union(&has) {
            if let Some(owner) = self.waiting.get(owner) {
                keys.push(owner.to_key());
            }
        }
        if let Some(b) = before.filter(|_| now.is_none() || replaced) {
            self.waiting.remove(&b.uid);
            if let Some(dependents) = self.dependents.get(&b.uid) {
                self.gone.insert(b.uid.clone());
                for d in dependents {
                    keys.push(d.to_key());
                }
            }
        }
        let Some(now) = now else { return };
        if now.deleting && now.has_finalizers {
            self.wait(&now.uid, &place);
            keys.push(place.to_key());
        } else {
            self.waiting.remove(&now.uid);
            // Edges that are new may lead nowhere.
            if has != had || replaced {
                keys.push(place.to_key());
            }
        }
    }

    fn drop_edge(&mut self, owner: &str, place: &Place) {
        if let Some(d) = self.dependents.get_mut(owner) {
            d.remove(place);
            if d.is_empty() {
                self.dependents.remove(owner);
                self.gone.remove(owner);
            }
        }
    }
}
