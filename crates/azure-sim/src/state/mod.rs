//! Everything the simulated Azure remembers, as one value.
//!
//! All maps are persistent: cloning a [`State`] costs nothing, a fork shares what it does not change, and a
//! request that fails half way is thrown away with its copy. Resources are keyed by their id in lower case, so a
//! group's contents and a resource's children are ranges.

mod directory;
mod operation;
mod record;

pub use directory::{
    App, Certificate, Directory, FederatedCredential, Password, Principal, PrincipalKind, Secret,
};
pub use operation::{Effect, Operation};
pub use record::{Phase, Record};

use crate::kinds::Kind;
use crate::machines::Machines;
use crate::rbac::Assignments;
use crate::trouble::Lags;
use arm::ResourceId;
use imbl::{OrdMap, OrdSet};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use std::ops::Bound;
use std::sync::{Arc, LazyLock};

/// How long the status of an operation can be asked for after its end.
const KEPT: SignedDuration = SignedDuration::from_hours(24);

/// A resource id in lower case.
pub type Key = Arc<str>;

/// "`source` refers to `target`", declared by a row of the type table. Ids of parts (a subnet, a frontend) count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    pub target: Key,
    pub source: Key,
    /// The property of the target that lists the source, or empty.
    pub back: &'static str,
    /// Whether that property holds one reference instead of a list.
    pub one: bool,
    /// Whether the target need not be there.
    pub loose: bool,
    /// The source in its own casing.
    pub text: Arc<str>,
}

/// An empty `Arc<str>` is an allocation, too.
static NOTHING: LazyLock<Key> = LazyLock::new(|| "".into());

impl Edge {
    /// Before all edges to `target`.
    fn first(target: Key) -> Edge {
        Edge { target, source: NOTHING.clone(), back: "", one: false, loose: false, text: NOTHING.clone() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    pub id: String,
    pub name: String,
    pub tenant: String,
}

#[derive(Clone, Debug)]
pub struct State {
    pub seed: u64,
    pub tenant: String,
    pub subscriptions: OrdMap<String, Subscription>,
    pub records: OrdMap<Key, Arc<Record>>,
    by_kind: OrdSet<(usize, Key)>,
    edges: OrdSet<Edge>,
    pub operations: OrdMap<Arc<str>, Arc<Operation>>,
    due: OrdSet<(Timestamp, u64, Arc<str>)>,
    /// Operations that ended, by when: forgotten after a day.
    ended: OrdSet<(Timestamp, Arc<str>)>,
    /// How often an id was written: makes generated values differ from those of a former life.
    pub generations: OrdMap<Key, u32>,
    /// `(subscription, namespace)`, lower case.
    pub registrations: OrdMap<(String, String), &'static str>,
    pub directory: Directory,
    pub assignments: Assignments,
    /// What data planes store.
    pub data: crate::planes::Data,
    /// The time of the request that is worked on.
    pub at: Timestamp,
    /// What happened to machines, and what is set about them.
    pub machines: Machines,
    serial: u64,
    /// How late what is written becomes known.
    pub lags: Lags,
    /// Texts that are kept once.
    words: OrdSet<Arc<str>>,
}

impl State {
    pub fn new(seed: u64, tenant: String) -> State {
        State {
            seed,
            tenant,
            subscriptions: OrdMap::new(),
            records: OrdMap::new(),
            by_kind: OrdSet::new(),
            edges: OrdSet::new(),
            operations: OrdMap::new(),
            due: OrdSet::new(),
            ended: OrdSet::new(),
            generations: OrdMap::new(),
            registrations: OrdMap::new(),
            directory: Directory::default(),
            assignments: Assignments::default(),
            data: crate::planes::Data::default(),
            at: Timestamp::UNIX_EPOCH,
            machines: Machines::default(),
            serial: 0,
            lags: Lags::default(),
            words: OrdSet::new(),
        }
    }

    pub fn get(&self, key: &str) -> Option<&Arc<Record>> {
        self.records.get(key)
    }

    /// A value that depends on the seed and on what it is for, not on the order of requests.
    pub fn derive(&self, key: &str, purpose: &str) -> u128 {
        let generation = self.generations.get(key).copied().unwrap_or(0);
        hash(self.seed, &[key, purpose, &generation.to_string()])
    }

    pub fn guid(&self, key: &str, purpose: &str) -> String {
        guid(self.derive(key, purpose))
    }

    /// Starts a new life, or a new version, of what `key` names.
    pub fn bump(&mut self, key: &Key) {
        let n = self.generations.get(key).copied().unwrap_or(0);
        self.generations.insert(key.clone(), n.wrapping_add(1));
    }

    pub fn put(&mut self, mut record: Record, edges: Vec<Edge>) {
        record.fit();
        let key = record.id.key().clone();
        self.forget_edges(&key);
        self.edges.extend(edges);
        self.by_kind.insert((record.kind.index(), key.clone()));
        self.records.insert(key, Arc::new(record));
    }

    /// Gives a resource an identity: the application and the principal that nobody else manages.
    pub fn enrol(&mut self, id: &ResourceId, client_id: String, object_id: String, now: Timestamp) {
        self.directory.add_app(App {
            client_id: client_id.clone(),
            object_id: self.guid(id.key(), "application"),
            name: id.name().to_owned(),
            passwords: Vec::new(),
            certificates: Vec::new(),
            federated: Vec::new(),
            enabled: true,
            created: now,
            owner: None,
            managed: true,
            other: Map::new(),
        });
        let kind = PrincipalKind::Identity(id.key().clone(), id.as_str().into());
        let name = id.name().to_owned();
        self.directory.add(Principal {
            object_id,
            client_id,
            name,
            kind,
            created: now,
            owner: None,
            graph_roles: Vec::new(),
        });
    }

    /// Replaces a record whose references did not change.
    pub fn replace(&mut self, mut record: Record) {
        record.fit();
        self.records.insert(record.id.key().clone(), Arc::new(record));
    }

    /// Removes a resource, its children and what extends them.
    pub fn remove(&mut self, key: &str, at: Timestamp) {
        let mut lost = Vec::new();
        let mut gone: Vec<Key> = self.below(key).map(|r| r.id.key().clone()).collect();
        gone.extend(self.records.get(key).map(|r| r.id.key().clone()));
        for k in gone {
            self.forget_edges(&k);
            if let Some(r) = self.records.remove(&k) {
                self.by_kind.remove(&(r.kind.index(), k.clone()));
                if r.kind.path == "userAssignedIdentities" || r.doc.contains_key("identity") {
                    self.directory.remove_resource(&k);
                }
                lost.push(r);
            }
            self.assignments.remove(&k);
            self.bump(&k);
        }
        for r in lost {
            r.kind.rules.removed(self, &r, at);
        }
    }

    fn forget_edges(&mut self, source: &str) {
        let gone: Vec<Edge> = match self.get(source) {
            // The record knows whom it refers to: no need to look at all edges.
            Some(r) => r.targets.iter().flat_map(|t| self.edges_to(t)).cloned().collect(),
            None => return,
        };
        for e in gone.into_iter().filter(|e| is_within(&e.source, source)) {
            self.edges.remove(&e);
        }
    }

    /// Records strictly below `key`.
    pub fn below<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a Arc<Record>> + use<'a> {
        let prefix = format!("{key}/");
        let from: Key = prefix.as_str().into();
        self.records
            .range::<_, Key>((Bound::Included(from), Bound::Unbounded))
            .map(|(_, r)| r)
            .take_while(move |r| r.id.key().starts_with(&prefix))
    }

    /// Records of a kind within a scope, in order of their keys, after `after`.
    pub fn of_kind<'a>(
        &'a self,
        kind: &'static Kind,
        scope: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = &'a Arc<Record>> + use<'a> {
        let scope = scope.to_owned();
        let from: Key = after.map_or_else(|| scope.as_str().into(), Into::into);
        let start = (kind.index(), from);
        let bound = if after.is_some() { Bound::Excluded(start) } else { Bound::Included(start) };
        self.by_kind
            .range((bound, Bound::Unbounded))
            .take_while(move |(k, key)| *k == kind.index() && key.starts_with(&scope))
            .filter_map(|(_, key)| self.records.get(key))
    }

    /// Who refers to `target`.
    pub fn edges_to<'a>(&'a self, target: &str) -> impl Iterator<Item = &'a Edge> + use<'a> {
        let target: Key = target.into();
        let from = Edge::first(target.clone());
        self.edges.range(from..).take_while(move |e| e.target == target)
    }

    /// A reference from outside into `key` or anything below it.
    pub fn used_by(&self, key: &str, outside: &str) -> Option<&Edge> {
        let from = Edge::first(key.into());
        self.edges
            .range(from..)
            .take_while(|e| e.target.starts_with(key))
            .find(|e| is_within(&e.target, key) && !is_within(&e.source, outside))
    }

    /// A text that many records or operations have, kept once: names of operations, ids of principals.
    pub fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.words.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.words.insert(new.clone());
        new
    }

    /// Starts an operation; without `due` it waits to be told.
    pub fn begin(&mut self, mut operation: Operation) {
        self.serial += 1;
        operation.serial = self.serial;
        if let Some(at) = operation.due {
            self.due.insert((at, self.serial, operation.id.clone()));
        }
        self.operations.insert(operation.id.clone(), Arc::new(operation));
    }

    /// Ends all operations that are due.
    pub fn settle(&mut self, now: Timestamp) {
        self.at = now;
        self.assignments.at = now;
        while let Some((at, serial, id)) = self.due.get_min().cloned() {
            if at > now {
                break;
            }
            self.due.remove(&(at, serial, id.clone()));
            self.finish(&id, at);
        }
        while let Some((at, id)) = self.ended.get_min().cloned() {
            if now.duration_since(at) < KEPT {
                break;
            }
            self.ended.remove(&(at, id.clone()));
            self.operations.remove(&id);
        }
    }

    /// When the next operation ends.
    pub fn idle_until(&self) -> Option<Timestamp> {
        self.due.get_min().map(|(at, ..)| *at)
    }

    /// Ends an operation, whether or not it is due.
    pub fn finish(&mut self, id: &str, at: Timestamp) {
        let Some(op) = self.operations.get(id).cloned() else { return };
        if op.outcome.is_some() {
            return;
        }
        let outcome = operation::apply(self, &op, at);
        let mut op = (*op).clone();
        op.outcome = Some(outcome);
        op.effect = Effect::Nothing;
        op.ended = Some(at);
        self.ended.insert((at, op.id.clone()));
        self.operations.insert(op.id.clone(), Arc::new(op));
    }

    /// Makes an operation wait until it is told to end.
    pub fn wait(&mut self, id: &Arc<str>) {
        let Some(op) = self.operations.get(id).cloned() else { return };
        if let Some(at) = op.due {
            self.due.remove(&(at, op.serial, id.clone()));
        }
        let op = Operation { due: None, drains: true, ..(*op).clone() };
        self.operations.insert(id.clone(), Arc::new(op));
    }

    /// Gives an operation another time to end at.
    pub fn put_off(&mut self, id: &str, at: Timestamp) {
        let Some(op) = self.operations.get(id).filter(|o| o.outcome.is_none()).cloned() else { return };
        if let Some(was) = op.due {
            self.due.remove(&(was, op.serial, op.id.clone()));
        }
        let op = Operation { due: Some(at), ..(*op).clone() };
        self.due.insert((at, op.serial, op.id.clone()));
        self.operations.insert(op.id.clone(), Arc::new(op));
    }

    /// Gives an operation that waited a time to end at.
    pub fn end_at(&mut self, id: &str, at: Timestamp) {
        let Some(op) = self.operations.get(id).filter(|o| o.outcome.is_none() && o.due.is_none()) else {
            return;
        };
        let op = Operation { due: Some(at), ..(**op).clone() };
        self.due.insert((at, op.serial, op.id.clone()));
        self.operations.insert(op.id.clone(), Arc::new(op));
    }

    /// Ends an operation that waited with an error, and leaves what it was about.
    pub fn fail(&mut self, id: &str, about: &Key, why: arm::ErrorDetail, at: Timestamp) {
        let Some(op) = self.operations.get(id).filter(|o| o.outcome.is_none()).cloned() else { return };
        let failed = Operation { effect: Effect::Fail(about.clone(), Box::new(why)), ..(*op).clone() };
        self.operations.insert(op.id.clone(), Arc::new(failed));
        self.finish(id, at);
    }

    /// Ends an operation well, whatever it would have come to.
    pub fn succeed(&mut self, id: &str, about: &Key, at: Timestamp) {
        let Some(op) = self.operations.get(id).filter(|o| o.outcome.is_none()).cloned() else { return };
        let done = Operation { effect: Effect::Settle(about.clone()), ..(*op).clone() };
        self.operations.insert(op.id.clone(), Arc::new(done));
        self.finish(id, at);
    }

    /// What an operation's status will say.
    pub fn says(&mut self, id: &str, said: Option<serde_json::Value>) {
        let Some(op) = self.operations.get(id).cloned() else { return };
        let op = Operation { said: said.map(Box::new), output: None, ..(*op).clone() };
        self.operations.insert(op.id.clone(), Arc::new(op));
    }

    /// Puts back what was remembered; with its place in the orders of what is due and of what ended.
    pub fn restore_operation(&mut self, operation: Operation) {
        self.forget_operation(&operation.id);
        self.serial = self.serial.max(operation.serial);
        match (&operation.outcome, operation.ended, operation.due) {
            (Some(_), Some(at), _) => {
                self.ended.insert((at, operation.id.clone()));
            }
            (None, _, Some(at)) => {
                self.due.insert((at, operation.serial, operation.id.clone()));
            }
            _ => {}
        }
        self.operations.insert(operation.id.clone(), Arc::new(operation));
    }

    pub fn forget_operation(&mut self, id: &Arc<str>) {
        let Some(old) = self.operations.remove(id) else { return };
        if let Some(at) = old.due {
            self.due.remove(&(at, old.serial, id.clone()));
        }
        if let Some(at) = old.ended {
            self.ended.remove(&(at, id.clone()));
        }
    }

    /// Takes one record out and nothing else: what follows from it was remembered by itself.
    pub fn forget_record(&mut self, key: &str) {
        self.forget_edges(key);
        if let Some(r) = self.records.remove(key) {
            self.by_kind.remove(&(r.kind.index(), r.id.key().clone()));
        }
        self.assignments.remove(key);
    }

    /// The next time after `now` at which something happens by itself.
    pub fn next_event(&self, now: Timestamp) -> Option<Timestamp> {
        let due = self.due.get_min().map(|(at, ..)| *at);
        [due, self.next_arrival(now)].into_iter().flatten().min()
    }

    /// Operations under way.
    pub fn running(&self) -> impl Iterator<Item = &Arc<Operation>> {
        self.operations.values().filter(|o| o.outcome.is_none())
    }
}

#[cfg(test)]
impl State {
    /// What must hold whatever happened: indices say what records say, references lead somewhere and are known at
    /// both ends, and whoever is busy is busy with something that runs.
    pub fn check(&self) -> Result<(), String> {
        let kinds =
            self.records.values().filter(|r| !self.by_kind.contains(&(r.kind.index(), r.id.key().clone())));
        let mut wrong: Vec<String> = kinds.map(|r| format!("{} is not in the index", r.id)).collect();
        if self.by_kind.len() != self.records.len() {
            wrong.push("the index has what does not exist".into());
        }
        for (key, r) in &self.records {
            let edges = crate::kinds::edges(r.kind, &r.id, &r.doc);
            wrong.extend(
                edges
                    .iter()
                    .filter(|e| !self.edges.contains(*e))
                    .map(|e| format!("{key}: {e:?} is not known")),
            );
            let roots = r.targets.iter().filter_map(|t| arm::ResourceId::parse(t).ok());
            for root in roots.map(|t| t.root()) {
                if self.get(root.key()).is_none() {
                    wrong.push(format!("{key} refers to {root}, which is gone"));
                }
            }
            if let Some((op, _)) = r.busy.as_deref()
                && self.operations.get(op).is_none_or(|o| o.outcome.is_some())
            {
                wrong.push(format!("{key} is busy with {op}, which does not run"));
            }
        }
        let gone = self.edges.iter().filter(|e| {
            let source = arm::ResourceId::parse(&e.source).map(|s| s.root().key().clone());
            source.map_or(true, |s| self.get(&s).is_none())
        });
        wrong.extend(gone.map(|e| format!("{e:?} comes from nowhere")));
        for o in self.operations.values().filter(|o| o.outcome.is_none()) {
            if let Some(at) = o.due
                && !self.due.contains(&(at, o.serial, o.id.clone()))
            {
                wrong.push(format!("nobody will end {}", o.id));
            }
        }
        for a in self.assignments.all() {
            if self.get(&a.id).is_none() {
                wrong.push(format!("the right {} is not a resource", a.id));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }
}

pub fn is_within(key: &str, scope: &str) -> bool {
    key.strip_prefix(scope).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub fn hash(seed: u64, parts: &[&str]) -> u128 {
    let mut h = xxhash_rust::xxh3::Xxh3::with_seed(seed);
    for p in parts {
        h.update(p.as_bytes());
        h.update(&[0]);
    }
    h.digest128()
}

/// 128 bits in the shape of a random UUID.
pub fn guid(bits: u128) -> String {
    let b = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let t = format!("{b:032x}");
    format!("{}-{}-{}-{}-{}", &t[..8], &t[8..12], &t[12..16], &t[16..20], &t[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_look_random_and_repeat() {
        let a = guid(hash(1, &["x"]));
        assert_eq!(a, guid(hash(1, &["x"])));
        assert_ne!(a, guid(hash(2, &["x"])));
        assert_eq!((a.len(), &a[14..15]), (36, "4"));
        assert!(matches!(&a[19..20], "8" | "9" | "a" | "b"));
    }
}
