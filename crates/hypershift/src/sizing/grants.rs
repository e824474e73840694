//! Changes that were granted and that views may not tell of yet.
//!
//! Ten passes run at the same time, and a view is a moment behind what was written: without a memory, ten clusters would
//! take the same last place in the window. A grant is remembered for as long as the window, by which time the status of its
//! cluster has told of it, or nothing came of it. After a restart only statuses are left, which tell of each cluster's last
//! change: one that changed twice in a window before it counts once then, and its last change is kept when it changes again.

use super::Sizes;
use super::plan::{Decision, Observed, plan};
use jiff::Timestamp;
use parking_lot::Mutex;

#[derive(Debug)]
struct Grant {
    key: String,
    size: String,
    at: Timestamp,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Grants(Mutex<Vec<Grant>>);

impl Grants {
    /// Decides for a cluster. `seen` are clusters and when they last changed, as statuses tell.
    pub fn decide(
        &self,
        key: &str,
        observed: &Observed<'_>,
        sizes: &Sizes,
        seen: impl FnOnce() -> Vec<(String, Timestamp)>,
        now: Timestamp,
    ) -> Decision {
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let mut grants = self.0.lock();
        let begin = now.saturating_sub(sizes.window).unwrap_or(Timestamp::MIN);
        grants.retain(|g| g.at > begin);
        let last = grants.iter().rev().find(|g| g.key == key).map(|g| (g.size.clone(), g.at));
        let recent = || {
            let mut all: Vec<Timestamp> = grants.iter().map(|g| g.at).collect();
            let new = |(k, at): &(String, Timestamp)| !grants.iter().any(|g| g.key == *k && g.at == *at);
            all.extend(seen().into_iter().filter(new).map(|(_, at)| at));
            all
        };
        // Granted, and not to be seen yet: the same again, with the same time.
        if let (Some((size, at)), Some((has, since))) = (&last, observed.size)
            && has != size
            && since < *at
            && sizes.get(size).is_some()
        {
            return Decision::Becomes { size: size.clone(), at: *at, first: false };
        }
        let decision = plan(observed, sizes, recent, now);
        if let Decision::Becomes { size, at, first: false } = &decision {
            // Its status is about to forget the change before this one, which may be of before a restart.
            if let Some((had, since)) = observed.size.filter(|(_, since)| *since > begin)
                && !grants.iter().any(|g| g.key == key && g.at == since)
            {
                grants.push(Grant { key: key.to_owned(), size: had.to_owned(), at: since });
            }
            grants.push(Grant { key: key.to_owned(), size: size.clone(), at: *at });
        }
        decision
    }
}
