//! Word that a file of a pod was replaced, from who did it to who reads it.
//!
//! A real program would ask its kernel. Volumes that programs share (`emptyDir`) and those of drivers are outside of
//! what the node runtime watches, and looking at hundreds of files every second is what this saves.

use ek_engine::ClusterId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::sync::watch;

type Ring = watch::Sender<u64>;

/// One ring per pod, for as long as somebody listens.
#[derive(Clone, Default)]
pub struct Rings(Arc<Mutex<HashMap<(ClusterId, String), Weak<Ring>>>>);

/// Somebody who listens.
pub struct Listener {
    _ring: Arc<Ring>,
    heard: watch::Receiver<u64>,
}

impl Rings {
    pub fn listen(&self, cluster: &ClusterId, namespace: &str, pod: &str) -> Listener {
        let mut all = self.0.lock();
        let key = (cluster.clone(), format!("{namespace}/{pod}"));
        if let Some(ring) = all.get(&key).and_then(Weak::upgrade) {
            return Listener { heard: ring.subscribe(), _ring: ring };
        }
        // Pods come and go: whenever there might be twice as many as are heard, the silent ones are dropped.
        if all.len().is_power_of_two() {
            all.retain(|_, r| r.strong_count() > 0);
        }
        let ring = Arc::new(watch::Sender::new(0));
        all.insert(key, Arc::downgrade(&ring));
        Listener { heard: ring.subscribe(), _ring: ring }
    }

    pub fn ring(&self, cluster: &ClusterId, namespace: &str, pod: &str) {
        let key = (cluster.clone(), format!("{namespace}/{pod}"));
        if let Some(ring) = self.0.lock().get(&key).and_then(Weak::upgrade) {
            ring.send_modify(|n| *n += 1);
        }
    }
}

impl Listener {
    /// Done when something was replaced since this was last done.
    pub async fn heard(&mut self) {
        if self.heard.changed().await.is_err() {
            std::future::pending().await
        }
    }
}
