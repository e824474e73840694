//! The garbage collector: what is owned goes with its owners.
//!
//! A graph of uids per cluster follows the feed. It holds only edges, taken from the side record of each entry;
//! bodies are read when something is to be done. Three things can be to do with an object, and one key (the
//! table and the key of the object) stands for all of them:
//!
//! * its deletion waits for its dependents (`foregroundDeletion`) or for them to be set free (`orphan`);
//! * some of its owners are gone or going: the references go, or the object does.
//!
//! Whether an owner is there is asked of the store by kind and name, never of the graph: a reference may be
//! wrong, and a wrong guess deletes somebody's data.

mod graph;
mod plan;

use crate::events::{self, Note};
use crate::objects::{OwnerRef, has_finalizer, owner_refs, remove_finalizer};
use crate::{MANAGER, tables};
use ek_engine::{Controller, Delta, Keys, Outcome, split};
use ek_meta::{Status, object};
use ek_server::{Access, Deletion, parse};
use ek_store::{ClusterId, Entry};
use futures::future::BoxFuture;
use graph::{Graph, Place};
use parking_lot::Mutex;
use plan::{Owner, Step};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
const COMPONENT: &str = "garbage-collector-controller";

#[derive(Default)]
pub struct GarbageCollector {
    graphs: Mutex<HashMap<ClusterId, Graph>>,
}

impl Controller for GarbageCollector {
    fn name(&self) -> &'static str {
        "garbage-collector"
    }

    fn watches(&self) -> &'static [&'static str] {
        &[]
    }

    fn concerns(&self, _: &Access, delta: &Delta, keys: &mut Keys) {
        // Nothing depends on an event, and there are many.
        if *delta.table == **tables::EVENTS {
            return;
        }
        let mut graphs = self.graphs.lock();
        // Most clusters never have an owned object.
        let edges = |e: &Option<Arc<Entry>>| e.as_ref().is_some_and(|e| !e.meta.owners.is_empty());
        if !graphs.contains_key(&delta.cluster) && !edges(&delta.previous) && !edges(&delta.current) {
            if let Some(e) = delta.current.as_ref().filter(|e| e.meta.deleting && e.meta.has_finalizers) {
                let graph = graphs.entry(delta.cluster.clone()).or_default();
                graph.wait(&e.meta.uid, &Place::of(delta));
                keys.push(Place::of(delta).to_key());
            }
            return;
        }
        graphs.entry(delta.cluster.clone()).or_default().follow(delta, keys);
    }

    fn reconcile<'a>(&'a self, access: &'a Access, key: &'a str) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            let access = access.manager(MANAGER);
            if let Some(place) = Place::from_key(key) {
                self.tidy(&access, &place).await?;
            }
            Ok(Outcome::Done)
        })
    }

    fn forget(&self, cluster: &ClusterId) {
        self.graphs.lock().remove(cluster);
    }
}

impl GarbageCollector {
    fn dependents(&self, access: &Access, uid: &str) -> Vec<Place> {
        self.graphs.lock().get(access.id()).map(|g| g.dependents(uid)).unwrap_or_default()
    }

    async fn tidy(&self, access: &Access, place: &Place) -> Result<(), Status> {
        let (namespace, name) = split(&place.key);
        let Some(entry) = access.entry(&place.table, namespace, name) else { return Ok(()) };
        if entry.meta.deleting {
            let Some(obj) = parse(&entry) else { return Ok(()) };
            if has_finalizer(&obj, ORPHAN) {
                return self.set_free(access, place, &entry).await;
            }
            if has_finalizer(&obj, FOREGROUND) {
                return self.wait_for_dependents(access, place, &entry, &obj).await;
            }
            return Ok(());
        }
        self.collect(access, place, &entry).await
    }

    /// Takes the reference to a going owner out of everything that has it, then lets the owner go.
    async fn set_free(&self, access: &Access, place: &Place, entry: &Entry) -> Result<(), Status> {
        let uid = &*entry.meta.uid;
        for dependent in self.dependents(access, uid) {
            let (ns, name) = split(&dependent.key);
            let Some(e) = access.entry(&dependent.table, ns, name) else { continue };
            crate::pods::disown(access, &dependent.table, ns, name, &e.meta.uid, uid).await?;
        }
        self.release(access, place, uid, ORPHAN).await
    }

    async fn release(&self, access: &Access, place: &Place, uid: &str, hold: &str) -> Result<(), Status> {
        let (ns, name) = split(&place.key);
        let go = |o: &mut Value| object::uid(o) == uid && remove_finalizer(o, hold);
        match access.update(&place.table, ns, name, "", go).await {
            Err(e) if e.code != 404 => Err(e),
            _ => Ok(()),
        }
    }

    /// Deletes what depends on the object and lets it go when nothing that blocks is left.
    async fn wait_for_dependents(
        &self,
        access: &Access,
        place: &Place,
        entry: &Entry,
        obj: &Value,
    ) -> Result<(), Status> {
        let uid = &*entry.meta.uid;
        for dependent in self.dependents(access, uid) {
            let (ns, name) = split(&dependent.key);
            let Some(e) = access.entry(&dependent.table, ns, name) else { continue };
            if !e.meta.deleting {
                Box::pin(self.collect(access, &dependent, &e)).await?;
            }
        }
        let blocks = |p: &Place| {
            let (ns, name) = split(&p.key);
            let entry = access.entry(&p.table, ns, name);
            entry.is_some_and(|e| e.meta.owners.iter().any(|o| &*o.uid == uid && o.block_deletion))
        };
        if self.dependents(access, uid).iter().any(blocks) {
            return Ok(());
        }
        self.release(access, place, object::uid(obj), FOREGROUND).await
    }

    /// Deletes an object whose owners are gone, or drops references to those that are.
    async fn collect(&self, access: &Access, place: &Place, entry: &Arc<Entry>) -> Result<(), Status> {
        let mut owners = Vec::new();
        for reference in owner_refs(entry) {
            let owner = self.look_up(access, split(&place.key).0, entry, &reference).await;
            owners.push((reference.uid, owner));
        }
        // Nearly always: looked at because it is new, and all is well.
        if owners.iter().all(|(_, o)| *o == Owner::There) {
            return Ok(());
        }
        let Some(obj) = parse(entry) else { return Ok(()) };
        let uid = &*entry.meta.uid;
        let dependents = self.dependents(access, uid);
        let waits = |p: &Place| {
            let (ns, name) = split(&p.key);
            access
                .get(&p.table, ns, name)
                .is_some_and(|o| crate::objects::is_deleting(&o) && has_finalizer(&o, FOREGROUND))
        };
        let (ns, name) = split(&place.key);
        match plan::decide(&owners, &obj, !dependents.is_empty(), || dependents.iter().any(waits)) {
            Step::Keep => Ok(()),
            Step::Drop(gone) => {
                for owner in gone {
                    crate::pods::disown(access, &place.table, ns, name, uid, &owner).await?;
                }
                Ok(())
            }
            Step::Delete { propagation, unblock } => {
                if unblock {
                    let unblock = |o: &mut Value| {
                        let Some(Value::Array(all)) = o.pointer_mut("/metadata/ownerReferences") else {
                            return false;
                        };
                        let blocking = all.iter_mut().filter(|r| r["blockOwnerDeletion"] == true);
                        blocking.map(|r| r["blockOwnerDeletion"] = false.into()).count() > 0
                    };
                    access.update(&place.table, ns, name, "", unblock).await?;
                }
                let how = Deletion { uid: Some(uid), propagation: Some(propagation), ..Deletion::default() };
                access.delete(&place.table, ns, name, how).await
            }
        }
    }

    /// What has become of an owner.
    async fn look_up(&self, access: &Access, namespace: &str, entry: &Entry, reference: &OwnerRef) -> Owner {
        if self.graphs.lock().get(access.id()).is_some_and(|g| g.is_gone(&reference.uid)) {
            return Owner::Gone;
        }
        // A kind nobody serves may come back; what it owns is not ours to judge.
        let Some(res) = access.resource_of_kind(&reference.api_version, &reference.kind) else {
            return Owner::There;
        };
        if namespace.is_empty() && res.namespaced {
            report(access, entry, reference).await;
            return Owner::There;
        }
        let within = if res.namespaced { namespace } else { "" };
        let found = access.entry(&res.table, within, &reference.name);
        let Some(owner) = found.filter(|e| *e.meta.uid == *reference.uid) else {
            let elsewhere = |e: &Arc<Entry>| *e.meta.uid == *reference.uid;
            if res.namespaced && access.table(&res.table).objects.values().any(elsewhere) {
                report(access, entry, reference).await;
            }
            return Owner::Gone;
        };
        if !owner.meta.deleting {
            return Owner::There;
        }
        let waits = parse(&owner).is_some_and(|o| has_finalizer(&o, FOREGROUND));
        if waits { Owner::Waits } else { Owner::There }
    }
}

/// An owner in another namespace, or in one at all for something that has none, is a mistake somebody made.
async fn report(access: &Access, entry: &Entry, reference: &OwnerRef) {
    let Some(obj) = parse(entry) else { return };
    let ns = object::namespace(&obj);
    let message = format!(
        "ownerRef [{}/{}, namespace: {ns}, name: {}, uid: {}] does not exist in namespace {ns:?}",
        reference.api_version, reference.kind, reference.name, reference.uid
    );
    events::tell(access, COMPONENT, &obj, &Note::warning("OwnerRefInvalidNamespace", message)).await;
}
