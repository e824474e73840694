//! Whose objects are worked on.
//!
//! In production an operator of one control plane is a pod that works in its own namespace. Where one process stands for
//! many such pods, it works for those whose pod runs: an operator that is scaled down, not yet started or crashed is one
//! that does nothing.

use crate::{Handle, View};
use kube::core::DynamicObject;
use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::sync::Arc;

type Wake = Arc<dyn Fn(&str) + Send + Sync>;

/// The namespaces that are served; can be changed at any time.
pub struct Tenants {
    /// Nothing: all.
    served: Option<RwLock<BTreeSet<String>>>,
    /// The controllers, as they are now: those that are started again take the place of the ones before.
    woken: RwLock<Option<Wake>>,
}

impl Tenants {
    /// Everybody, always.
    pub fn all() -> Arc<Tenants> {
        Arc::new(Tenants { served: None, woken: RwLock::default() })
    }

    /// Nobody until admitted.
    pub fn admitted() -> Arc<Tenants> {
        Arc::new(Tenants { served: Some(RwLock::default()), woken: RwLock::default() })
    }

    pub fn serves(&self, namespace: &str) -> bool {
        self.served.as_ref().is_none_or(|s| s.read().contains(namespace))
    }

    /// Serves a namespace from now on; everything in it is looked at at once.
    pub fn admit(&self, namespace: &str) {
        if self.served.as_ref().is_some_and(|s| s.write().insert(namespace.to_owned())) {
            self.wake(namespace);
        }
    }

    /// Begins nothing there any more; what has begun ends by itself.
    pub fn dismiss(&self, namespace: &str) {
        if self.served.as_ref().is_some_and(|s| s.write().remove(namespace)) {
            self.wake(namespace);
        }
    }

    /// Whom to wake for a namespace that comes or goes; see [`Tenants::poke`].
    pub fn attach(&self, wake: impl Fn(&str) + Send + Sync + 'static) {
        *self.woken.write() = Some(Arc::new(wake));
    }

    /// Has a controller look at everything that it has in a namespace.
    pub fn poke(namespace: &str, handle: &Handle, view: &View<DynamicObject>) {
        for o in view.within(namespace) {
            handle.poke(&format!("{namespace}/{}", o.metadata.name.as_deref().unwrap_or_default()));
        }
    }

    fn wake(&self, namespace: &str) {
        let woken = self.woken.read().clone();
        if let Some(wake) = woken {
            wake(namespace);
        }
    }
}
