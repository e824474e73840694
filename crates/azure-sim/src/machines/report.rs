//! What a runtime says back: how a boot went.

use crate::kinds::HIDDEN;
use crate::machines::{Happening, find, note};
use crate::memory::MemoryError;
use crate::state::{Phase, State, hash};
use crate::world::World;
use arm::ErrorDetail;
use jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;

/// How a boot went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Boot {
    /// The machine is up.
    Ready,
    /// It is not, and why: a code such as `OSProvisioningClientError`, and words.
    Failed { code: String, message: String },
    /// Nothing new but what the console says.
    Running,
}

#[derive(Debug, thiserror::Error)]
pub enum BootError {
    #[error("there is no machine '{0}': name it by its resource id or its vmId")]
    Unknown(String),
    #[error("the report cannot be remembered")]
    Memory(#[source] MemoryError),
}

/// Of a console log the end is kept.
const MAX_LOG: usize = 256 << 10;

fn tail(log: &str) -> &str {
    let mut from = log.len().saturating_sub(MAX_LOG);
    while !log.is_char_boundary(from) {
        from += 1;
    }
    &log[from..]
}

impl World {
    /// Whether machines wait, from now on, until a runtime reports them ready. Without a report their creation fails
    /// after twenty minutes.
    pub fn await_boots(&self, awaited: bool) -> Result<(), MemoryError> {
        self.change(|state| state.machines.awaited = awaited)
    }

    /// Sets how much of something a subscription may have in a region: `cores` or a family's name.
    pub fn set_quota(
        &self,
        subscription: &str,
        location: &str,
        name: &str,
        limit: u64,
    ) -> Result<(), MemoryError> {
        let key = format!("{subscription}/{location}/{name}").to_lowercase();
        self.change(|state| {
            state.machines.quotas.insert(key, limit);
        })
    }

    /// A runtime's report about a machine, with what its console said if that is known.
    pub fn report_boot(&self, machine: &str, boot: &Boot, log: Option<&str>) -> Result<(), BootError> {
        let now = self.now();
        let known = self.change(|state| {
            state.settle(now);
            report(state, machine, boot, log, now)
        });
        match known {
            Ok(true) => Ok(()),
            Ok(false) => Err(BootError::Unknown(machine.to_owned())),
            Err(e) => Err(BootError::Memory(e)),
        }
    }

    /// How long a machine takes, in the time of whoever runs it, until its system looks for what it is to be: as long as
    /// Azure was measured to take over one that boots at once, in this profile.
    pub fn boot_takes(&self, machine: &str) -> Duration {
        let bits = self.look(|state| hash(state.seed, &[&machine.to_lowercase(), "boot"]));
        let pace = self.pace();
        let takes = pace.takes("Microsoft.Compute/virtualMachines", false, 43.0, 1, bits);
        pace.for_client(takes.map_or(0.0, |t| t.as_secs_f64()))
    }

    /// What a machine's console said.
    pub fn boot_log(&self, machine: &str) -> Option<String> {
        self.look(|state| {
            let r = find(state, machine)?;
            Some(r.doc.get(HIDDEN).and_then(|h| h["log"].as_str()).unwrap_or_default().to_owned())
        })
    }
}

fn report(state: &mut State, machine: &str, boot: &Boot, log: Option<&str>, now: Timestamp) -> bool {
    let Some(record) = find(state, machine).cloned() else { return false };
    let key = record.id.key().clone();
    let mut next = (*record).clone();
    let hidden = next.doc.entry(HIDDEN).or_insert_with(|| Value::Object(serde_json::Map::new()));
    if let Some(log) = log {
        hidden["log"] = tail(log).into();
    }
    if let Boot::Failed { code, .. } = boot {
        hidden["failure"] = code.as_str().into();
    }
    state.replace(next);
    let creating =
        record.busy.as_deref().filter(|_| record.phase == Phase::Creating).map(|(op, _)| op.clone());
    match (boot, creating) {
        (Boot::Running, _) => {}
        (Boot::Ready, Some(op)) => state.succeed(&op, &key, now),
        (Boot::Failed { code, message }, Some(op)) => {
            state.fail(&op, &key, ErrorDetail::new(code, message.as_str()), now);
        }
        // A machine may come up after it was given up, and break after it was up.
        (Boot::Ready, None) if record.phase == Phase::Failed => {
            mark(state, &key, Phase::Succeeded);
            record.kind.rules.after(state, &key, now);
        }
        (Boot::Ready, None) => {}
        (Boot::Failed { .. }, None) => {
            mark(state, &key, Phase::Failed);
            note(state, &record, Happening::Failed, now);
        }
    }
    true
}

fn mark(state: &mut State, key: &crate::state::Key, phase: Phase) {
    if let Some(r) = state.get(key).cloned() {
        let mut r = (*r).clone();
        r.phase = phase;
        state.replace(r);
    }
}
