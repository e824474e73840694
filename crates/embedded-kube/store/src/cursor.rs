//! A watcher's place in a table's history.

use crate::HistoryError;
use crate::table::{Cluster, Event};
use crate::{TableName, View};
use parking_lot::RwLock;
use std::sync::Arc;
use tokio::sync::watch;

/// What a cursor found.
#[derive(Debug)]
pub enum Next {
    /// In order, each exactly once; never empty.
    Events(Vec<Arc<Event>>),
    /// The cursor fell out of the kept history.
    TooOld { oldest: u64 },
    /// The cluster is gone.
    Closed,
}

/// Delivers every change after a revision, once, in order; of all namespaces or of one.
pub struct Cursor {
    cluster: Arc<RwLock<Cluster>>,
    table: TableName,
    within: Option<Box<str>>,
    after: u64,
    wake: watch::Receiver<u64>,
}

impl Cursor {
    pub(crate) fn at(
        cluster: Arc<RwLock<Cluster>>,
        table: TableName,
        within: Option<&str>,
        after: u64,
    ) -> Result<Cursor, HistoryError> {
        let wake = {
            let mut c = cluster.write();
            let t = c.table(&table);
            if after < t.floor {
                return Err(HistoryError::TooOld { requested: after, oldest: t.floor });
            }
            t.subscribe(within)
        };
        Ok(Cursor { cluster, table, within: within.map(Into::into), after, wake })
    }

    /// The present state and a cursor right behind it.
    pub(crate) fn now(
        cluster: Arc<RwLock<Cluster>>,
        table: TableName,
        within: Option<&str>,
    ) -> (View, Cursor) {
        let (view, wake) = {
            let mut c = cluster.write();
            let revision = c.revision;
            let t = c.table(&table);
            (View { revision, objects: t.objects.clone() }, t.subscribe(within))
        };
        let after = view.revision;
        (view, Cursor { cluster, table, within: within.map(Into::into), after, wake })
    }

    pub(crate) fn is_of(&self, cluster: &Arc<RwLock<Cluster>>) -> bool {
        Arc::ptr_eq(&self.cluster, cluster)
    }

    /// Up to `max` changes, waiting for the first. Cancel-safe: a dropped call loses nothing.
    pub async fn next(&mut self, max: usize) -> Next {
        loop {
            // Mark the counter as seen before reading, so that a change in between wakes us again.
            self.wake.borrow_and_update();
            if let Some(next) = self.poll(max) {
                return next;
            }
            if self.wake.changed().await.is_err() {
                return Next::Closed;
            }
        }
    }

    /// What is there now, without waiting.
    pub fn poll(&mut self, max: usize) -> Option<Next> {
        let c = self.cluster.read();
        let Some(t) = c.tables.get(&self.table) else { return Some(Next::Closed) };
        let oldest = t.floor_within(self.within.as_deref());
        if self.after < oldest {
            return Some(Next::TooOld { oldest });
        }
        let mut events = Vec::new();
        for e in t.after(self.within.as_deref(), self.after).take(max) {
            self.after = e.revision();
            events.push(e.clone());
        }
        (!events.is_empty()).then_some(Next::Events(events))
    }

    /// The revision a bookmark may carry: everything up to it has been delivered. `None` while changes wait.
    pub fn bookmark(&mut self) -> Option<u64> {
        let c = self.cluster.read();
        let t = c.tables.get(&self.table)?;
        let within = self.within.as_deref();
        if self.after < t.floor_within(within) || t.after(within, self.after).next().is_some() {
            return None;
        }
        // Advancing is safe: no event of this cursor lies between.
        self.after = self.after.max(c.revision);
        Some(self.after)
    }
}
