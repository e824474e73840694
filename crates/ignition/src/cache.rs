//! Payloads in memory: made once however many ask, and not more of them than there is room for.
//!
//! A payload is known by what it was made of ([`Print`]), not by a token, so a rotation costs nothing. One lock guards
//! the map, and is held for looking things up only; whoever makes a payload holds a lock of that payload's own, at which
//! others wait for what the first one finds. What was not asked for the longest goes first when room is short.

use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// What a payload was made of.
pub type Print = [u8; 32];

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub payloads: usize,
    pub bytes: usize,
}

impl Default for Room {
    fn default() -> Room {
        Room { payloads: 256, bytes: 128 << 20 }
    }
}

struct Held {
    bytes: Bytes,
    asked: u64,
}

#[derive(Default)]
struct Inner {
    held: HashMap<Print, Held>,
    size: usize,
    turn: u64,
    making: HashMap<Print, Arc<tokio::sync::Mutex<()>>>,
}

#[derive(Default)]
pub struct Payloads {
    room: Room,
    inner: Mutex<Inner>,
}

impl Payloads {
    pub fn new(room: Room) -> Payloads {
        Payloads { room, inner: Mutex::default() }
    }

    pub fn get(&self, print: &Print) -> Option<Bytes> {
        let mut inner = self.inner.lock();
        inner.turn += 1;
        let turn = inner.turn;
        let held = inner.held.get_mut(print)?;
        held.asked = turn;
        Some(held.bytes.clone())
    }

    /// What is held, or what `make` makes; a failure is not remembered.
    pub async fn get_or_make<E>(
        &self,
        print: Print,
        make: impl Future<Output = Result<Bytes, E>>,
    ) -> Result<Bytes, E> {
        let turn = self.inner.lock().making.entry(print).or_default().clone();
        let alone = turn.lock().await;
        let made = match self.get(&print) {
            Some(there) => Ok(there),
            None => make.await.inspect(|bytes| self.put(print, bytes.clone())),
        };
        drop(alone);
        let mut inner = self.inner.lock();
        // Ours and the map's: nobody else waits.
        if Arc::strong_count(&turn) <= 2 {
            inner.making.remove(&print);
        }
        made
    }

    fn put(&self, print: Print, bytes: Bytes) {
        let mut inner = self.inner.lock();
        inner.turn += 1;
        let asked = inner.turn;
        inner.size += bytes.len();
        if let Some(old) = inner.held.insert(print, Held { bytes, asked }) {
            inner.size -= old.bytes.len();
        }
        while inner.held.len() > self.room.payloads || (inner.size > self.room.bytes && inner.held.len() > 1)
        {
            let oldest = inner.held.iter().min_by_key(|(_, h)| h.asked).map(|(p, _)| *p);
            let Some(gone) = oldest.and_then(|p| inner.held.remove(&p)) else { return };
            inner.size -= gone.bytes.len();
        }
    }

    /// Keeps only what somebody still needs.
    pub fn retain(&self, needed: impl Fn(&Print) -> bool) {
        let mut inner = self.inner.lock();
        inner.held.retain(|print, _| needed(print));
        inner.size = inner.held.values().map(|h| h.bytes.len()).sum();
    }

    pub fn size(&self) -> usize {
        self.inner.lock().size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_payload_is_made_once_for_all_who_ask_at_the_same_time() {
        let (payloads, made) = (Payloads::default(), AtomicUsize::new(0));
        let ask = || {
            payloads.get_or_make([1; 32], async {
                made.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                Ok::<_, Infallible>(Bytes::from_static(b"x"))
            })
        };
        let all = futures::future::join_all((0..50).map(|_| ask())).await;
        assert!(all.into_iter().all(|p| p.unwrap() == "x"));
        assert_eq!(made.load(Ordering::SeqCst), 1);
        assert!(payloads.inner.lock().making.is_empty());
    }

    #[tokio::test]
    async fn a_failure_is_not_remembered() {
        let payloads = Payloads::default();
        assert!(payloads.get_or_make([1; 32], async { Err::<Bytes, _>("no") }).await.is_err());
        assert!(
            payloads.get_or_make([1; 32], async { Ok::<_, &str>(Bytes::from_static(b"y")) }).await.is_ok()
        );
    }

    #[tokio::test]
    async fn what_was_asked_for_last_stays() {
        let payloads = Payloads::new(Room { payloads: 2, bytes: 1000 });
        for n in [1, 2] {
            let made = async { Ok::<_, Infallible>(Bytes::from(vec![n; 100])) };
            payloads.get_or_make([n; 32], made).await.unwrap();
        }
        payloads.get(&[1; 32]).unwrap();
        let large = async { Ok::<_, Infallible>(Bytes::from(vec![3; 950])) };
        payloads.get_or_make([3; 32], large).await.unwrap();
        assert!(
            payloads.get(&[2; 32]).is_none() && payloads.get(&[1; 32]).is_none() && payloads.size() == 950
        );
        payloads.retain(|_| false);
        assert_eq!(payloads.size(), 0);
    }
}
