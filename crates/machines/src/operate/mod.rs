//! The controllers. Only here a client is known.

mod azure;
mod checks;
mod clusters;
mod deployments;
mod drain;
mod guests;
mod index;
mod machines;
mod secrets;
mod sets;
mod views;
mod watches;
mod write;

pub use reconcile::Tenants;
pub use views::Views;
pub use watches::{Handles, Setup, start};
pub use write::MANAGER;

use crate::around::Clouds;
use clock::{Random, SharedClock};
use guests::Guests;
use index::{Boots, Versions};
use jiff::SignedDuration;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use reconcile::{Applier, ApplyError, Kind, ObjectRef, Place, StatusWrite};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use write::{Changed, Writer};

/// What all controllers have in common.
pub struct Shared {
    views: Arc<Views>,
    writer: Writer,
    /// For statuses and finalizers.
    applier: Applier,
    clock: SharedClock,
    random: Random,
    guests: Guests,
    clouds: Arc<dyn Clouds>,
    tenants: Arc<Tenants>,
    /// By identity, with the version that they were made from.
    clients: Mutex<HashMap<Place, (String, ::azure::Client)>>,
    offers: azure::Offers,
    census: azure::Census,
    /// What Azure is busy with, by object: the status says it too, but a watch may be late with it, and the cause of a
    /// failure is told to whoever asks about the operation and to nobody else.
    operations: Mutex<HashMap<String, ::azure::Lro>>,
    boots: Arc<Boots>,
    versions: Arc<Versions>,
    /// How often machines that are ready are looked for in Azure.
    look: SignedDuration,
}

impl Shared {
    /// Whether a view is behind what we ourselves wrote: then the watch will wake us, and whatever is decided now
    /// would be refused.
    fn is_stale(&self, seen: &DynamicObject) -> bool {
        self.versions.is_stale(seen)
    }

    /// Whether an object is to be left alone: by somebody's wish, or because nobody keeps this namespace.
    fn rests(&self, o: &DynamicObject) -> bool {
        !self.tenants.serves(views::namespace(o)) || self.views.paused(o)
    }

    /// See [`Applier::status`].
    async fn status(
        &self,
        at: &ObjectRef,
        seen: &DynamicObject,
        compute: impl Fn(&DynamicObject) -> Value + Send,
    ) -> Result<(), ApplyError> {
        if let StatusWrite::Written(live) = self.applier.status(at, seen, compute).await? {
            self.versions.wrote(&live);
        }
        Ok(())
    }

    /// See [`Writer::change`].
    async fn change(
        &self,
        kind: &Kind,
        seen: &DynamicObject,
        change: impl FnOnce(&mut Value),
    ) -> Result<Changed, write::Error> {
        let changed = self.writer.change(kind, seen, change).await?;
        if let Changed::Written(live) = &changed {
            self.versions.wrote(live);
        }
        Ok(changed)
    }
}
