//! The controllers: one for each side, and one that holds a HostedControlPlane while it has endpoints.

mod endpoints;
mod planes;
mod reach;
mod services;
mod watches;

pub use watches::{Endpoints, Services, options, start_endpoints, start_services};

use crate::kinds;
use crate::link::{Link, Unreadable};
use crate::trouble::Trouble;
use apis::conditions::reason;
use clock::SharedClock;
use jiff::{SignedDuration, Timestamp};
use kube::core::DynamicObject;
use parking_lot::Mutex;
use reconcile::{Applier, Failure, Outcome, View, Waiting, split};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// How often what is as it should be is looked at again: Azure has no watches, and people delete things.
const LOOK: SignedDuration = SignedDuration::from_mins(10);

/// What both sides work with.
struct Shared<T> {
    links: Arc<View<DynamicObject>>,
    applier: Applier,
    clock: SharedClock,
    settled: Mutex<HashMap<String, Settled<T>>>,
}

/// What a key leads to, before either side does anything about it.
enum Found {
    /// Nobody, or nobody of ours.
    Nothing,
    Unreadable(Arc<DynamicObject>, Trouble),
    Going(Arc<DynamicObject>, Link),
    There(Arc<DynamicObject>, Link),
}

fn unreadable(e: Unreadable) -> Trouble {
    Trouble::unreadable(reason::AZURE_ERROR, &e)
}

/// What was found to be good, for whom, and when.
struct Settled<T> {
    basis: String,
    at: Timestamp,
    found: Arc<T>,
}

impl<T> Shared<T> {
    fn new(links: Arc<View<DynamicObject>>, applier: Applier, clock: SharedClock) -> Shared<T> {
        Shared { links, applier, clock, settled: Mutex::default() }
    }

    /// The link of a key. What is known of one that goes or has gone is forgotten.
    fn find(&self, key: &str, serves: impl FnOnce(&str) -> bool) -> Found {
        let (ns, n) = split(key);
        let Some(seen) = self.links.get(ns, n).filter(|_| serves(ns)) else {
            self.forget(key);
            return Found::Nothing;
        };
        match Link::read(&seen) {
            Err(e) => Found::Unreadable(seen, unreadable(e)),
            Ok(link) if link.going => {
                self.forget(key);
                Found::Going(seen, link)
            }
            Ok(link) => Found::There(seen, link),
        }
    }

    /// Writes a side's half of the status.
    async fn say(
        &self,
        seen: &DynamicObject,
        status: impl Fn(&DynamicObject, Timestamp) -> Value + Send + Sync,
    ) -> Result<(), Failure> {
        let m = &seen.metadata;
        let at =
            kinds::LINK.at(m.namespace.as_deref().unwrap_or_default(), m.name.clone().unwrap_or_default());
        let now = self.clock.now();
        self.applier.status(&at, seen, |o| status(o, now)).await?;
        Ok(())
    }

    /// Takes a side's finalizer off: nothing of it is left in Azure.
    async fn release(&self, seen: &DynamicObject, link: &Link, finalizer: &str) -> Result<Outcome, Failure> {
        let at = kinds::LINK.at(&link.namespace, &link.name);
        self.applier.remove_finalizer(&at, seen, finalizer).await?;
        Ok(Outcome::Done)
    }

    /// What was found a while ago, if it still is about the same.
    fn known(&self, key: &str, basis: &str) -> Option<(Arc<T>, SignedDuration)> {
        let settled = self.settled.lock();
        let s = settled.get(key).filter(|s| s.basis == basis)?;
        let left = LOOK - self.clock.now().duration_since(s.at);
        left.is_positive().then(|| (s.found.clone(), left))
    }

    fn keep(&self, key: &str, basis: String, found: Arc<T>) {
        self.settled.lock().insert(key.to_owned(), Settled { basis, at: self.clock.now(), found });
    }

    fn forget(&self, key: &str) {
        self.settled.lock().remove(key);
    }

    /// Other links of the same control plane.
    fn others(&self, link: &Link) -> Vec<Link> {
        let all = self.links.within(&link.namespace);
        all.iter().filter_map(|o| Link::read(o).ok()).filter(|l| l.name != link.name).collect()
    }

    fn waits(&self, on: impl Into<String>, t: &Trouble) -> Outcome {
        let waiting = Waiting::new(on.into(), t.message.clone(), self.clock.now());
        Outcome::Waiting { on: vec![waiting], again: Some(t.again) }
    }
}

/// The status as an object to add to.
fn status_of(o: &DynamicObject) -> serde_json::Value {
    let status = o.data.get("status").cloned().filter(serde_json::Value::is_object);
    status.unwrap_or_else(|| serde_json::json!({}))
}
