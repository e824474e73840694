//! Whose control planes are served.
//!
//! In production each control plane's operator is a pod that serves its own namespace. Where one process serves many,
//! a namespace is served while its `control-plane-operator` pod runs, so that an operator that is scaled down, not yet
//! started or crashed is one that does nothing.

use kube::core::DynamicObject;
use parking_lot::RwLock;
use reconcile::{Handle, View};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The namespaces that are served; can be changed at any time.
pub struct Tenants {
    /// Nothing: all.
    served: Option<RwLock<BTreeSet<String>>>,
    /// The operator, as it is now: one that is started again takes the place of the one before.
    woken: RwLock<Option<(Handle, Arc<View<DynamicObject>>)>>,
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

    /// Serves a namespace from now on; its control plane is looked at at once.
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

    pub(super) fn attach(&self, handle: Handle, planes: Arc<View<DynamicObject>>) {
        *self.woken.write() = Some((handle, planes));
    }

    fn wake(&self, namespace: &str) {
        let Some((handle, planes)) = self.woken.read().clone() else { return };
        for plane in planes.within(namespace) {
            handle.poke(&format!("{namespace}/{}", plane.metadata.name.as_deref().unwrap_or_default()));
        }
    }
}
