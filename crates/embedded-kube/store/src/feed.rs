//! What changed anywhere, for whoever follows all clusters at once.
//!
//! A [`Feed`] is not a log: it holds, per object, the state before the first change its reader has not seen
//! and the state now. A reader that falls behind therefore misses steps, never outcomes, and what waits for it
//! is bounded by the number of objects.

use crate::{ClusterId, Entry, TableName};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// An object that is not as the reader last knew it.
#[derive(Clone, Debug)]
pub struct Delta {
    pub cluster: ClusterId,
    pub table: TableName,
    pub key: Arc<str>,
    pub previous: Option<Arc<Entry>>,
    pub current: Option<Arc<Entry>>,
}

impl Delta {
    /// The newest state there is: the present one, or the last before it went.
    pub fn latest(&self) -> Option<&Arc<Entry>> {
        self.current.as_ref().or(self.previous.as_ref())
    }
}

/// What one look at a feed found.
#[derive(Debug, Default)]
pub struct News {
    /// In the order in which objects first changed.
    pub deltas: Vec<Delta>,
    /// Clusters that are gone, with everything in them.
    pub dropped: Vec<ClusterId>,
}

/// The reading end.
pub struct Feed(Arc<Shared>);

#[derive(Default)]
pub(crate) struct Shared {
    pending: Mutex<Pending>,
    wake: Notify,
}

#[derive(Default)]
struct Pending {
    news: News,
    places: HashMap<(ClusterId, TableName, Arc<str>), usize>,
}

impl Feed {
    pub(crate) fn new() -> (Feed, Weak<Shared>) {
        let shared = Arc::<Shared>::default();
        let weak = Arc::downgrade(&shared);
        (Feed(shared), weak)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// What has changed since the last call; empty when nothing has.
    pub fn take(&self) -> News {
        let mut pending = self.0.pending.lock();
        pending.places.clear();
        pending.places.shrink_to(1024);
        std::mem::take(&mut pending.news)
    }

    /// Returns when there is something to take.
    pub async fn changed(&self) {
        loop {
            let woken = self.0.wake.notified();
            {
                let pending = self.0.pending.lock();
                if !pending.news.deltas.is_empty() || !pending.news.dropped.is_empty() {
                    return;
                }
            }
            woken.await;
        }
    }
}

impl Shared {
    pub(crate) fn push(&self, delta: Delta) {
        let mut pending = self.pending.lock();
        let at = pending.news.deltas.len();
        let place = (delta.cluster.clone(), delta.table.clone(), delta.key.clone());
        let at = *pending.places.entry(place).or_insert(at);
        match pending.news.deltas.get_mut(at) {
            Some(waiting) => waiting.current = delta.current,
            None => pending.news.deltas.push(delta),
        }
        drop(pending);
        self.wake.notify_one();
    }

    /// An object that stood there before the feed began; a change that came first already tells of it.
    pub(crate) fn push_present(&self, delta: Delta) {
        let known = {
            let pending = self.pending.lock();
            pending.places.contains_key(&(delta.cluster.clone(), delta.table.clone(), delta.key.clone()))
        };
        if !known {
            self.push(delta);
        }
    }

    pub(crate) fn drop_cluster(&self, id: &ClusterId) {
        let mut pending = self.pending.lock();
        pending.news.deltas.retain(|d| d.cluster != *id);
        let places = pending.news.deltas.iter().enumerate();
        let places = places.map(|(i, d)| ((d.cluster.clone(), d.table.clone(), d.key.clone()), i)).collect();
        pending.places = places;
        pending.news.dropped.push(id.clone());
        drop(pending);
        self.wake.notify_one();
    }
}
