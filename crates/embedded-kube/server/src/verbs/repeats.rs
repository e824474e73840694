//! Applies that were found to change nothing, so that the same words said again need not be read again.
//!
//! Controllers apply on every round, mostly the same bytes to an object that has not moved. What an apply does
//! depends on its bytes and on the object alone (as long as no webhook or policy is asked), so a request that
//! changed nothing at some revision changes nothing as long as that revision stands.

use super::Call;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use xxhash_rust::xxh3::Xxh3;

/// Remembered requests: some 200 KB at most.
const MAX: usize = 4096;

pub struct Repeats {
    /// Not known outside the process, so nobody can prepare two requests that look alike.
    seed: u64,
    /// The revision and schema stamp at which a request changed nothing.
    known: Mutex<HashMap<u128, (u64, u64)>>,
}

impl Default for Repeats {
    fn default() -> Self {
        Repeats { seed: RandomState::new().hash_one(0), known: Mutex::default() }
    }
}

impl Repeats {
    /// Names a request: where it goes, its options and its body.
    pub fn key(&self, call: &Call) -> u128 {
        let mut h = Xxh3::with_seed(self.seed);
        let i = &call.info;
        let path = [&*call.res.api_version, &*call.res.table, &*i.namespace, &*i.name, &*i.subresource];
        for part in path.into_iter().chain(call.params.iter().flat_map(|(k, v)| [k, v])) {
            h.update(&(part.len() as u64).to_le_bytes());
            h.update(part.as_bytes());
        }
        h.update(&call.body);
        h.digest128()
    }

    pub fn contains(&self, key: u128, revision: u64, stamp: u64) -> bool {
        self.known.lock().get(&key) == Some(&(revision, stamp))
    }

    pub fn remember(&self, key: u128, revision: u64, stamp: u64) {
        let mut known = self.known.lock();
        if known.len() >= MAX {
            // Whoever still repeats itself is back after one more round.
            known.clear();
        }
        known.insert(key, (revision, stamp));
    }
}
