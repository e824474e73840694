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

pub use views::Views;
pub use watches::{Handles, Setup, start};
pub use write::MANAGER;

use crate::around::Clouds;
use clock::{Random, SharedClock};
use guests::Guests;
use index::Place;
use jiff::SignedDuration;
use parking_lot::Mutex;
use reconcile::Applier;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use write::Writer;

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
    /// By identity, with the version that they were made from.
    clients: Mutex<HashMap<Place, (String, ::azure::Client)>>,
    offers: azure::Offers,
    census: azure::Census,
    /// What Azure is busy with, by object: the status says it too, but a watch may be late with it, and the cause of a
    /// failure is told to whoever asks about the operation and to nobody else.
    operations: Mutex<HashMap<String, ::azure::Lro>>,
    /// AzureMachines by the Secret that they wait for.
    boots: Mutex<HashMap<Place, BTreeSet<String>>>,
    /// How often machines that are ready are looked for in Azure.
    look: SignedDuration,
}
