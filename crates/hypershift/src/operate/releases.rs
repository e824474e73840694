//! Releases, looked up once per image, pull secret and mirrors.
//!
//! A digest is what it is for good. A tag may move, so it is asked for again now and then; if nobody answers by then, or
//! somebody took it away, its last word is taken: nothing about a cluster that runs depends on whether a registry answers
//! today.

use crate::around::{NoRelease, Payload, Surroundings};
use apis::hypershift::HostedCluster;
use aws_lc_rs::digest::{Context, SHA256, digest};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// What failed is tried again after this long.
const AGAIN: SignedDuration = SignedDuration::from_secs(20);
/// What a tag led to is believed for this long, as control planes do.
const BELIEVED: SignedDuration = SignedDuration::from_secs(600);
/// More images than a management cluster runs at once.
const KEPT: usize = 512;

type Answer = Arc<Result<Payload, NoRelease>>;

/// Which image, seen with which pull secret, by which mirrors.
type Question = (String, [u8; 32]);

/// What was answered, and until when that holds; for good, if nothing says until when.
#[derive(Clone)]
struct Known {
    answer: Answer,
    until: Option<Timestamp>,
}

#[derive(Default)]
pub struct Releases(Mutex<HashMap<Question, Known>>);

/// What an image is read with and where it is looked for.
fn means(hc: &HostedCluster, pull_secret: &[u8]) -> [u8; 32] {
    let mut sum = Context::new(&SHA256);
    sum.update(digest(&SHA256, pull_secret).as_ref());
    sum.update(&serde_json::to_vec(&hc.spec.shared.image_content_sources).unwrap_or_default());
    let mut hash = [0; 32];
    hash.copy_from_slice(sum.finish().as_ref());
    hash
}

/// What is answered from now on, and for how long.
fn settle(
    image: &str,
    before: Option<Answer>,
    asked: Result<Payload, NoRelease>,
) -> (Answer, Option<SignedDuration>) {
    let good = before.filter(|b| b.is_ok());
    match (good, asked) {
        (Some(before), Err(_)) => (before, Some(AGAIN)),
        (None, Err(e)) => (Arc::new(Err(e)), Some(AGAIN)),
        (before, Ok(payload)) => {
            let asked = Ok(payload);
            // The same is the same object: who planned by it need not plan again.
            let answer = before.filter(|b| **b == asked).unwrap_or_else(|| Arc::new(asked));
            (answer, (!image.contains('@')).then_some(BELIEVED))
        }
    }
}

impl Releases {
    /// The release, and after how long to ask again, if ever.
    pub async fn get(
        &self,
        around: &dyn Surroundings,
        hc: &HostedCluster,
        image: &str,
        pull_secret: &[u8],
        now: Timestamp,
    ) -> (Answer, Option<SignedDuration>) {
        let question = (image.to_owned(), means(hc, pull_secret));
        let known = self.0.lock().get(&question).cloned();
        match &known {
            Some(Known { answer, until: None }) => return (answer.clone(), None),
            Some(Known { answer, until: Some(until) }) if now < *until => {
                return (answer.clone(), Some(until.duration_since(now)));
            }
            _ => {}
        }
        let asked = around.release(hc, image, pull_secret).await;
        let (answer, again) = settle(image, known.map(|k| k.answer), asked);
        let mut kept = self.0.lock();
        if kept.len() >= KEPT {
            kept.clear();
        }
        let until = again.map(|again| now.checked_add(again).unwrap_or(Timestamp::MAX));
        kept.insert(question, Known { answer: answer.clone(), until });
        (answer, again)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use control_plane::scope::Release;

    const TAG: &str = "quay.example/ocp-release:4.19";
    const DIGEST: &str = "quay.example/ocp-release@sha256:abc";

    fn payload(version: &str) -> Payload {
        let release = Release {
            image: TAG.into(),
            version: version.into(),
            kubernetes: "1.32.5".into(),
            images: Arc::default(),
            ours: String::new(),
            registry_overrides: String::new(),
        };
        Payload { release, arch: None, boot: Arc::new([]) }
    }

    fn version(answer: &Answer) -> &str {
        &answer.as_ref().as_ref().unwrap().release.version
    }

    #[test]
    fn a_digest_is_for_good_and_a_tag_is_asked_for_again() {
        assert_eq!(settle(DIGEST, None, Ok(payload("4.19.3"))).1, None);
        let (first, again) = settle(TAG, None, Ok(payload("4.19.3")));
        assert_eq!(again, Some(BELIEVED));
        let (same, _) = settle(TAG, Some(first.clone()), Ok(payload("4.19.3")));
        assert!(Arc::ptr_eq(&first, &same), "nobody plans anew for the same");
        let (moved, _) = settle(TAG, Some(first.clone()), Ok(payload("4.19.4")));
        assert_eq!(version(&moved), "4.19.4");
        let (kept, again) = settle(TAG, Some(first), Err(NoRelease::Unreachable("away".into())));
        assert_eq!((version(&kept), again), ("4.19.3", Some(AGAIN)), "the last word is taken");
        let (none, again) = settle(TAG, None, Err(NoRelease::Invalid("none".into())));
        assert_eq!((none.is_err(), again), (true, Some(AGAIN)));
    }

    #[test]
    fn mirrors_are_part_of_the_question() {
        let (one, mut other) = (HostedCluster::default(), HostedCluster::default());
        assert_eq!(means(&one, b"secret"), means(&other, b"secret"));
        assert_ne!(means(&one, b"secret"), means(&one, b"another"));
        let sources = serde_json::json!([{"source": "quay.example", "mirrors": ["mirror.example"]}]);
        other.spec.shared.image_content_sources = serde_json::from_value(sources).unwrap();
        assert_ne!(means(&one, b"secret"), means(&other, b"secret"));
    }
}
