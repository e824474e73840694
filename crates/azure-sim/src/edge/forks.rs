//! Worlds that were split off through the admin API, each at its own address until it is deleted.

use crate::edge::authority::Authority;
use crate::edge::start::{AzureSim, StartError};
use crate::world::World;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Each has three listeners.
const MAX_FORKS: usize = 256;

pub struct Forks {
    world: Arc<World>,
    authority: Arc<Authority>,
    ca_file: Option<PathBuf>,
    made: AtomicU64,
    alive: Mutex<BTreeMap<u64, AzureSim>>,
}

#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    #[error("there are {MAX_FORKS} forks already: delete some")]
    TooMany,
    #[error("cannot start a fork")]
    Start(#[source] Box<StartError>),
}

fn shown(id: u64, sim: &AzureSim) -> Value {
    let env: serde_json::Map<String, Value> =
        sim.variables().into_iter().map(|(k, v)| (k.to_owned(), v.into())).collect();
    json!({
        "id": id.to_string(), "armUrl": sim.arm_url(), "proxyUrl": sim.proxy_url(), "adminUrl": sim.admin_url(),
        "env": env,
    })
}

impl Forks {
    pub fn new(world: Arc<World>, authority: Arc<Authority>, ca_file: Option<PathBuf>) -> Forks {
        Forks { world, authority, ca_file, made: AtomicU64::new(0), alive: Mutex::default() }
    }

    /// Boxed, because a fork has an admin API that makes forks.
    pub fn make(self: Arc<Forks>) -> Pin<Box<dyn Future<Output = Result<Value, ForkError>> + Send>> {
        Box::pin(async move {
            if self.alive.lock().len() >= MAX_FORKS {
                return Err(ForkError::TooMany);
            }
            let sim = AzureSim::forked(&self.world, &self.authority, self.ca_file.clone()).await;
            let sim = sim.map_err(|e| ForkError::Start(Box::new(e)))?;
            let id = self.made.fetch_add(1, Ordering::Relaxed) + 1;
            let body = shown(id, &sim);
            self.alive.lock().insert(id, sim);
            Ok(body)
        })
    }

    pub fn list(&self) -> Value {
        json!({"value": self.alive.lock().iter().map(|(id, sim)| shown(*id, sim)).collect::<Vec<_>>()})
    }

    /// Whether there was one.
    pub fn delete(&self, id: &str) -> bool {
        let gone = id.parse().ok().and_then(|id: u64| self.alive.lock().remove(&id));
        gone.is_some()
    }

    pub fn clear(&self) {
        let gone = std::mem::take(&mut *self.alive.lock());
        drop(gone);
    }
}
