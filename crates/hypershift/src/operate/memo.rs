//! What is remembered of a cluster between passes, so that a settled one costs next to nothing.
//!
//! Nothing here is truth: it says what was made from what. If everything that planning reads is as it was and the
//! [ledger](reconcile::Ledger) says that the objects are as they were left, there is nothing to plan. Without a memory
//! everything is planned once and, being the same, written not at all.

use crate::around::{NoRelease, Payload};
use crate::inputs::{Data, Found, Given};
use apis::hypershift::HostedCluster;
use control_plane::scope::Settings;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use reconcile::{Applier, Failure, ObjectRef, Print};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Everything that planning reads.
#[derive(Clone)]
pub struct Basis {
    /// Spec and metadata; what our own status says is not read.
    pub uid: Option<String>,
    pub generation: Option<i64>,
    pub annotations: Option<BTreeMap<String, String>>,
    pub labels: Option<BTreeMap<String, String>>,
    pub image: String,
    pub release: Arc<Result<Payload, NoRelease>>,
    pub found: Found,
    /// What the management cluster trusts.
    pub trusted: Option<Given>,
    /// The set of metrics that people wrote; nothing where it is not asked for.
    pub metrics: Option<Given>,
    pub mounted: BTreeMap<String, Arc<Data>>,
    pub endpoint: Value,
    /// Whether pools scale by themselves; whether machines are managed.
    pub flags: [bool; 2],
    pub user: Option<i64>,
    pub vault_reader: String,
    /// Networks that routers must not reach.
    pub blocked: Vec<String>,
    pub settings: Settings,
}

impl Basis {
    fn is(&self, other: &Basis) -> bool {
        // Destructured, so that no field is forgotten.
        let Basis {
            uid,
            generation,
            annotations,
            labels,
            image,
            release,
            found,
            trusted,
            metrics,
            mounted,
            endpoint,
            flags,
            user,
            vault_reader,
            blocked,
            settings,
        } = other;
        Arc::ptr_eq(&self.release, release)
            && (&self.uid, &self.generation) == (uid, generation)
            && (&self.annotations, &self.labels) == (annotations, labels)
            && (&self.image, &self.flags, &self.user) == (image, flags, user)
            && (&self.found.0, &self.trusted) == (&found.0, trusted)
            && (&self.blocked, &self.settings, &self.metrics) == (blocked, settings, metrics)
            && (&self.mounted, &self.endpoint, &self.vault_reader) == (mounted, endpoint, vault_reader)
    }
}

/// What a plan was made into.
pub struct Made {
    pub basis: Basis,
    pub prints: Box<[Print]>,
    /// What is not pruned.
    pub kept: Vec<ObjectRef>,
    pub troubles: Vec<String>,
}

#[derive(Default)]
struct Memo {
    read: Option<(Arc<DynamicObject>, Arc<HostedCluster>)>,
    made: Option<Arc<Made>>,
}

/// By key.
#[derive(Default)]
pub struct Memos(Mutex<HashMap<String, Memo>>);

impl Memos {
    /// The typed object; read again only when it is another.
    pub fn read(&self, key: &str, seen: &Arc<DynamicObject>) -> Result<Arc<HostedCluster>, Failure> {
        if let Some((known, hc)) = self.0.lock().get(key).and_then(|m| m.read.as_ref())
            && Arc::ptr_eq(known, seen)
        {
            return Ok(hc.clone());
        }
        let hc: HostedCluster = serde_json::from_value(serde_json::to_value(&**seen)?)?;
        let hc = Arc::new(hc);
        self.0.lock().entry(key.to_owned()).or_default().read = Some((seen.clone(), hc.clone()));
        Ok(hc)
    }

    /// What was made from exactly this, if it stands.
    pub fn standing(&self, key: &str, basis: &Basis, applier: &Applier) -> Option<Arc<Made>> {
        let made = self.0.lock().get(key)?.made.clone()?;
        (made.basis.is(basis) && applier.stand(&made.prints)).then_some(made)
    }

    pub fn keep(&self, key: &str, made: Made) {
        self.0.lock().entry(key.to_owned()).or_default().made = Some(Arc::new(made));
    }

    pub fn forget(&self, key: &str) {
        self.0.lock().remove(key);
    }
}
