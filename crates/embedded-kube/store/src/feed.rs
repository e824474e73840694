//! What changed anywhere, for whoever follows all clusters at once.
//!
//! A [`Feed`] is not a log: it holds, per object, the state before the first change its reader has not seen
//! and the state now. A reader that falls behind therefore misses steps, never outcomes, and what waits for it
//! is bounded by the number of objects. That an object came and went is an outcome, too: whoever made it counts on
//! hearing of it. Its last state then stands for the one before.

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
    /// Clusters that nobody serves any more. They may come back, and then all of their objects are news.
    pub closed: Vec<ClusterId>,
}

/// The reading end.
#[derive(Default)]
pub struct Feed(Arc<Shared>);

/// Names a feed to stores; does not keep it.
#[derive(Clone)]
pub struct FeedHandle(pub(crate) Weak<Shared>);

impl FeedHandle {
    pub fn is_read(&self) -> bool {
        self.0.strong_count() > 0
    }
}

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
    pub fn handle(&self) -> FeedHandle {
        FeedHandle(Arc::downgrade(&self.0))
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
                let news = &pending.news;
                if !news.deltas.is_empty() || !news.dropped.is_empty() || !news.closed.is_empty() {
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
            Some(waiting) => {
                if waiting.previous.is_none() && delta.current.is_none() {
                    waiting.previous = delta.previous;
                }
                waiting.current = delta.current;
            }
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
        self.forget(id, |news| news.dropped.push(id.clone()));
    }

    pub(crate) fn close_cluster(&self, id: &ClusterId) {
        self.forget(id, |news| news.closed.push(id.clone()));
    }

    fn forget(&self, id: &ClusterId, note: impl FnOnce(&mut News)) {
        let mut pending = self.pending.lock();
        pending.news.deltas.retain(|d| d.cluster != *id);
        let places = pending.news.deltas.iter().enumerate();
        let places = places.map(|(i, d)| ((d.cluster.clone(), d.table.clone(), d.key.clone()), i)).collect();
        pending.places = places;
        note(&mut pending.news);
        drop(pending);
        self.wake.notify_one();
    }
}
