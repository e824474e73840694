//! What happens to machines, for whoever runs them.
//!
//! The simulator knows what a machine is made of, not how to boot one. A node runtime reads the log of happenings
//! from a cursor of its own, does what they say, and reports how a boot went. The log is part of the state: it is
//! remembered, forked and replayed with everything else. It is bounded; a reader that fell behind is told so and
//! lists what exists.
//!
//! Rejected: callbacks (they die with the process), a channel per reader (who has not read is not known).

mod filter;
mod quota;
mod report;
mod view;

pub use filter::Denied;
pub use quota::{allow, usage, within_quota};
pub use report::{Boot, BootError};
pub use view::{Interface, Machine, MachineEvent, MachineEvents, capacity};

use crate::kinds::{MACHINES, kind};
use crate::state::{Record, State, hash};
use imbl::OrdMap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// What can happen to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Happening {
    /// Its creation was accepted: boot it.
    Created,
    /// Its provisioning succeeded.
    Ready,
    /// Its size, disks or tags changed.
    Updated,
    Started,
    Restarted,
    Stopped,
    Deallocated,
    Deleted,
    /// Its provisioning failed.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub number: u64,
    pub at: Timestamp,
    pub what: Happening,
    pub id: Arc<str>,
    pub vm_id: Arc<str>,
}

/// How many happenings are kept.
const KEPT: usize = 20_000;

#[derive(Clone, Debug, Default)]
pub struct Machines {
    pub events: OrdMap<u64, Arc<Event>>,
    /// Whether a runtime says when a machine has booted.
    pub awaited: bool,
    /// Limits other than the usual: `subscription/location/name`, lower case.
    pub quotas: OrdMap<String, u64>,
}

impl Machines {
    /// The number of the newest happening.
    pub fn last(&self) -> u64 {
        self.events.get_max().map_or(0, |(n, _)| *n)
    }

    pub fn add(&mut self, event: Event) {
        self.events.insert(event.number, Arc::new(event));
        while self.events.len() > KEPT {
            let Some((first, _)) = self.events.get_min().cloned() else { return };
            self.events.remove(&first);
        }
    }
}

pub fn vm_id(record: &Record) -> &str {
    record.property("vmId").and_then(Value::as_str).unwrap_or_default()
}

/// Writes down that something happened to a machine.
pub fn note(state: &mut State, record: &Record, what: Happening, at: Timestamp) {
    let number = state.machines.last() + 1;
    let (id, vm_id) = (record.id.as_str().into(), vm_id(record).into());
    state.machines.add(Event { number, at, what, id, vm_id });
}

/// What a link to a machine's console log must carry.
pub fn signature(state: &State, vm_id: &str) -> String {
    format!("{:032x}", hash(state.seed, &[&vm_id.to_lowercase(), "console"]))
}

/// A machine by its resource id or by what it calls itself.
pub fn find<'a>(state: &'a State, named: &str) -> Option<&'a Arc<Record>> {
    if named.starts_with('/') {
        return state.get(&named.to_lowercase()).filter(|r| r.kind.path == MACHINES);
    }
    let machines = kind("Microsoft.Compute/virtualMachines")?;
    state.of_kind(machines, "", None).find(|r| vm_id(r).eq_ignore_ascii_case(named))
}
