//! Machines as a runtime sees them.

use crate::kinds::compute_text as text;
use crate::kinds::power;
use crate::machines::{Happening, find, vm_id};
use crate::state::{Record, Secret, State};
use crate::world::World;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// A network interface of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    pub id: String,
    pub primary: bool,
    pub addresses: Vec<String>,
}

/// A machine as it is when it is asked about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    pub id: String,
    pub vm_id: String,
    pub name: String,
    pub location: String,
    pub zone: Option<String>,
    pub size: String,
    pub power: &'static str,
    pub provisioning_state: &'static str,
    pub computer_name: String,
    pub image: Value,
    pub interfaces: Vec<Interface>,
    pub tags: Value,
    /// Base64, as it was given. Holds what a machine boots with, so it is not printed.
    pub custom_data: Option<Secret>,
    pub user_data: Option<Secret>,
}

/// Something that happened, and the machine if it is still there.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineEvent {
    /// Where to go on from.
    pub number: u64,
    pub at: Timestamp,
    pub what: Happening,
    pub id: String,
    pub vm_id: String,
    pub machine: Option<Machine>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineEvents {
    pub value: Vec<MachineEvent>,
    /// The newest there is.
    pub last: u64,
    /// Whether happenings after the cursor are no longer kept: list the machines instead.
    pub lost: bool,
}

fn shown(state: &State, r: &Record) -> Machine {
    let p = |path: &[&str]| {
        let p = r.doc.get("properties").unwrap_or(&Value::Null);
        text(p, path).map(str::to_owned)
    };
    let nics = r.property("networkProfile").and_then(|n| n["networkInterfaces"].as_array());
    let several = nics.is_some_and(|n| n.len() > 1);
    let interfaces = nics
        .into_iter()
        .flatten()
        .map(|n| {
            let id = text(n, &["id"]).unwrap_or_default().to_owned();
            let record = state.get(&id.to_lowercase());
            let ips = record.and_then(|r| r.property("ipConfigurations")).and_then(Value::as_array);
            Interface {
                addresses: ips
                    .into_iter()
                    .flatten()
                    .filter_map(|c| text(c, &["properties", "privateIPAddress"]).map(str::to_owned))
                    .collect(),
                primary: !several || n["properties"]["primary"].as_bool() == Some(true),
                id,
            }
        })
        .collect();
    Machine {
        id: r.id.to_string(),
        vm_id: vm_id(r).to_owned(),
        name: r.id.name().to_owned(),
        location: r.location().unwrap_or_default().to_owned(),
        zone: r.doc.get("zones").and_then(|z| z.get(0)).and_then(Value::as_str).map(str::to_owned),
        size: p(&["hardwareProfile", "vmSize"]).unwrap_or_default(),
        power: power(r).as_str(),
        provisioning_state: r.phase.as_str(),
        computer_name: p(&["osProfile", "computerName"]).unwrap_or_else(|| r.id.name().to_owned()),
        image: r.property("storageProfile").map(|s| s["imageReference"].clone()).unwrap_or_default(),
        interfaces,
        tags: r.doc.get("tags").cloned().unwrap_or_default(),
        custom_data: p(&["osProfile", "customData"]).map(|d| Secret::new(&d)),
        user_data: p(&["userData"]).map(|d| Secret::new(&d)),
    }
}

/// As many happenings as are told at once.
const PAGE: usize = 500;
/// How often a waiting reader looks whether an operation has come to its end: they end by being looked at.
const LOOK: Duration = Duration::from_millis(100);

impl World {
    /// What happened to machines after number `after`, oldest first.
    pub fn machine_events(&self, after: u64) -> MachineEvents {
        self.settle_now();
        self.look(|state| {
            let machines = &state.machines;
            let value: Vec<MachineEvent> = machines
                .events
                .range(after.saturating_add(1)..)
                .take(PAGE)
                .map(|(_, e)| {
                    let there = state.get(&e.id.to_lowercase()).filter(|r| *vm_id(r) == *e.vm_id);
                    MachineEvent {
                        number: e.number,
                        at: e.at,
                        what: e.what,
                        id: e.id.to_string(),
                        vm_id: e.vm_id.to_string(),
                        machine: there.map(|r| shown(state, r)),
                    }
                })
                .collect();
            let first = machines.events.get_min().map_or(1, |(n, _)| *n);
            MachineEvents { value, last: machines.last(), lost: after.saturating_add(1) < first }
        })
    }

    /// The same, but waits until there is something, at most so long.
    pub async fn next_machine_events(&self, after: u64, wait: Duration) -> MachineEvents {
        let deadline = tokio::time::Instant::now() + wait;
        let mut news = self.machine_news();
        loop {
            news.borrow_and_update();
            let page = self.machine_events(after);
            let now = tokio::time::Instant::now();
            if !page.value.is_empty() || now >= deadline {
                return page;
            }
            let until = deadline.min(now + LOOK);
            let _ = tokio::time::timeout_at(until, news.changed()).await;
        }
    }

    /// All machines there are.
    pub fn machines(&self) -> Vec<Machine> {
        self.settle_now();
        self.look(|state| {
            let kind = crate::kinds::kind("Microsoft.Compute/virtualMachines");
            kind.into_iter().flat_map(|k| state.of_kind(k, "", None)).map(|r| shown(state, r)).collect()
        })
    }

    /// One machine, by its resource id or its own.
    pub fn machine(&self, named: &str) -> Option<Machine> {
        self.settle_now();
        self.look(|state| find(state, named).map(|r| shown(state, r)))
    }
}

/// Processors and memory in GiB of a size, and whether it is an ARM one; what a machine of it can find out.
pub fn capacity(size: &str) -> Option<(u32, u32, bool)> {
    let size = crate::kinds::size(size)?;
    // The memory of sizes is at most a few tebibytes.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded and positive")]
    Some((size.cpus, size.memory.max(1.0) as u32, size.arm))
}
