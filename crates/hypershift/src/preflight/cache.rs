//! Verdicts, kept by what was asked.

use super::{Asked, Preflight, Verdict};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A good answer is asked for again after this long: roles are taken away, networks deleted.
const GOOD: SignedDuration = SignedDuration::from_mins(30);
/// Somebody is mending what was wrong.
const BAD: SignedDuration = SignedDuration::from_secs(30);
/// An issuer that only Entra reaches, perhaps: nobody waits for it.
const UNREAD: SignedDuration = SignedDuration::from_mins(2);
/// Azure was away.
const UNKNOWN: SignedDuration = SignedDuration::from_secs(15);

struct Kept {
    asked: Asked,
    verdict: Arc<Verdict>,
    until: Timestamp,
}

/// The last verdict of each cluster.
#[derive(Default)]
pub struct Verdicts(Mutex<BTreeMap<String, Kept>>);

impl Verdicts {
    /// The verdict on a cluster, asked for only if it is not known, and when it is to be asked for again.
    pub async fn get(
        &self,
        key: &str,
        asked: Asked,
        azure: &dyn Preflight,
        now: Timestamp,
    ) -> (Arc<Verdict>, SignedDuration) {
        let before = {
            let kept = self.0.lock();
            let same = kept.get(key).filter(|k| k.asked == asked);
            match same {
                Some(k) if now < k.until => return (k.verdict.clone(), k.until.duration_since(now)),
                same => same.map(|k| k.verdict.clone()),
            }
        };
        let mut verdict = azure.ask(&asked).await;
        let away = !verdict.unknown.is_empty();
        // What was known stays so while nobody can be asked.
        if let Some(before) = before
            && away
            && before.unknown.is_empty()
        {
            let unknown = std::mem::take(&mut verdict.unknown);
            verdict = (*before).clone();
            tracing::warn!(cluster = key, why = ?unknown, "Azure cannot be asked; the last answer stands");
        }
        let wait = match (away, verdict.good()) {
            (true, _) => UNKNOWN,
            (false, true) if verdict.unread.is_some() => UNREAD,
            (false, true) => GOOD,
            (false, false) => BAD,
        };
        let verdict = Arc::new(verdict);
        let until = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        self.0.lock().insert(key.to_owned(), Kept { asked, verdict: verdict.clone(), until });
        (verdict, wait)
    }

    pub fn forget(&self, key: &str) {
        self.0.lock().remove(key);
    }
}
