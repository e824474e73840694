//! User ids of namespaces, given out without collisions.

use super::Views;
use crate::plan::namespace::free_uid;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, thiserror::Error)]
#[error(
    "all ten thousand user ids of this management cluster are taken: delete hosted clusters, or use another management cluster"
)]
pub struct Exhausted;

/// Ids that were promised and may not be seen by the watch yet.
#[derive(Default)]
pub struct Uids(Mutex<BTreeMap<String, i64>>);

impl Uids {
    /// The id of a namespace: the one it has, the one it was promised, or a free one.
    pub fn of(&self, views: &Views, namespace: &str) -> Result<i64, Exhausted> {
        let mut promised = self.0.lock();
        if let Some(uid) = views.spaces.get("", namespace).and_then(|s| s.uid) {
            promised.remove(namespace);
            return Ok(uid);
        }
        if let Some(uid) = promised.get(namespace) {
            return Ok(*uid);
        }
        let mut taken: BTreeSet<i64> = views.spaces.all().iter().filter_map(|s| s.uid).collect();
        taken.extend(promised.values());
        let uid = free_uid(namespace, &taken).ok_or(Exhausted)?;
        promised.insert(namespace.to_owned(), uid);
        Ok(uid)
    }

    /// The cluster is gone, and what it was promised is free again.
    pub fn forget(&self, namespace: &str) {
        self.0.lock().remove(namespace);
    }
}
