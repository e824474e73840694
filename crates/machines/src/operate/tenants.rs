//! Whose machines are kept.
//!
//! In production a pod in each control plane's namespace keeps the machines of that one. Where one process stands for many
//! such pods, it keeps only the machines of those whose pod runs: no pod, no progress.

use super::views::Views;
use super::watches::Handles;
use kube::core::DynamicObject;
use parking_lot::RwLock;
use reconcile::{Handle, View};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The namespaces that are served; can be changed at any time.
pub struct Tenants {
    /// Nothing: all.
    served: Option<RwLock<BTreeSet<String>>>,
    /// The controllers, as they are now: those that are started again take the place of the ones before.
    woken: RwLock<Option<(Handles, Arc<Views>)>>,
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
        if let Some(served) = &self.served {
            served.write().remove(namespace);
        }
    }

    pub(super) fn attach(&self, handles: &Handles, views: &Arc<Views>) {
        *self.woken.write() = Some((handles.clone(), views.clone()));
    }

    fn wake(&self, namespace: &str) {
        let Some((h, v)) = self.woken.read().clone() else { return };
        let poke = |handle: &Handle, view: &View<DynamicObject>| {
            for o in view.within(namespace) {
                handle.poke(&format!("{namespace}/{}", o.metadata.name.as_deref().unwrap_or_default()));
            }
        };
        poke(&h.clusters, &v.clusters);
        poke(&h.deployments, &v.deployments);
        poke(&h.sets, &v.sets);
        poke(&h.machines, &v.machines);
        poke(&h.checks, &v.checks);
        poke(&h.azure_machines, &v.azure_machines);
    }
}
