//! Two sorts of Secrets matter: what machines wait to boot with, and the kubeconfigs of guests. Only metadata travels.

use super::Shared;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use reconcile::{Handle, News, Sink, Source, place};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Cluster API's name for the kubeconfig of a cluster.
const SUFFIX: &str = "-kubeconfig";

pub struct Secrets {
    shared: Arc<Shared>,
    pub azure_machines: OnceLock<Handle>,
    /// Versions of kubeconfigs.
    seen: Mutex<HashMap<(String, String), String>>,
}

impl Secrets {
    pub fn new(shared: Arc<Shared>) -> Secrets {
        Secrets { shared, azure_machines: OnceLock::new(), seen: Mutex::default() }
    }

    fn there(&self, o: &DynamicObject) {
        let at = place(o);
        if let Some(handle) = self.azure_machines.get() {
            self.shared.boots.come(&at).iter().for_each(|key| handle.poke(key));
        }
        let Some(cluster) = at.1.strip_suffix(SUFFIX) else { return };
        // Only of those that are Clusters' by name; there are many other kubeconfigs.
        if self.shared.views.clusters.get(&at.0, cluster).is_none() {
            return;
        }
        let version = o.metadata.resource_version.clone().unwrap_or_default();
        let before = self.seen.lock().insert(at.clone(), version.clone());
        if before.is_some_and(|b| b != version) {
            self.shared.guests.forget(&at.0, cluster);
        }
    }
}

impl Sink for Secrets {
    fn hear(&self, _: &Source, news: News<'_>) {
        match news {
            News::Listed(o) | News::Changed(o) => self.there(o),
            News::Gone(o) => {
                self.seen.lock().remove(&place(o));
            }
            News::Begin | News::Complete => {}
        }
    }
}
