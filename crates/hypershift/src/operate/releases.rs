//! Releases, looked up once per image and pull secret.

use crate::around::{NoRelease, Payload, Surroundings};
use apis::hypershift::HostedCluster;
use aws_lc_rs::digest::{SHA256, digest};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// What failed is tried again after this long.
const AGAIN: SignedDuration = SignedDuration::from_secs(20);
/// More images than a management cluster runs at once.
const KEPT: usize = 512;

type Answer = Arc<Result<Payload, NoRelease>>;

/// Which image, seen with which pull secret.
type Question = (String, [u8; 32]);

#[derive(Default)]
pub struct Releases(Mutex<HashMap<Question, (Answer, Timestamp)>>);

impl Releases {
    /// The release, and after how long to ask again if there was none.
    pub async fn get(
        &self,
        around: &dyn Surroundings,
        hc: &HostedCluster,
        image: &str,
        pull_secret: &[u8],
        now: Timestamp,
    ) -> (Answer, Option<SignedDuration>) {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, pull_secret).as_ref());
        let question = (image.to_owned(), hash);
        if let Some((answer, until)) = self.0.lock().get(&question) {
            if answer.is_ok() {
                return (answer.clone(), None);
            }
            if now < *until {
                return (answer.clone(), Some(until.duration_since(now)));
            }
        }
        let answer: Answer = Arc::new(around.release(hc, image, pull_secret).await);
        let mut kept = self.0.lock();
        if kept.len() >= KEPT {
            kept.clear();
        }
        let until = now.checked_add(AGAIN).unwrap_or(Timestamp::MAX);
        kept.insert(question, (answer.clone(), until));
        let again = answer.is_err().then_some(AGAIN);
        (answer, again)
    }
}
