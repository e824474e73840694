//! How long to wait before trying again what failed again.

use crate::objects::seconds_after;
use ek_store::ClusterId;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::HashMap;

const FIRST: i64 = 1;
const LAST: i64 = 900;

#[derive(Default)]
pub struct Backoffs(Mutex<HashMap<ClusterId, HashMap<String, (u32, Timestamp)>>>);

impl Backoffs {
    /// Whether the next try may be now; if not, when. Each permission doubles the next wait, and a quiet spell
    /// twice the longest wait forgets.
    pub fn may(&self, cluster: &ClusterId, id: &str, now: Timestamp) -> Result<(), Timestamp> {
        let mut all = self.0.lock();
        let known = all.entry(cluster.clone()).or_default();
        known.retain(|_, (_, at)| seconds_after(*at, 2 * LAST) > now);
        let (tries, at) = known.get(id).copied().unwrap_or((0, now));
        if at > now {
            return Err(at);
        }
        let wait = FIRST.saturating_mul(1 << tries.min(20)).min(LAST);
        known.insert(id.to_owned(), (tries + 1, seconds_after(now, wait)));
        Ok(())
    }

    pub fn forget(&self, cluster: &ClusterId) {
        self.0.lock().remove(cluster);
    }
}
