//! A world's clock: shown, moved, and remembered.

use crate::memory::Memory;
use crate::state::State;
use crate::time::ScaleError;
use crate::world::{Ledger, World};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

impl World {
    /// From now on the clock runs so many times as fast as the machine's; 0 stands still.
    pub fn run_clock_at(&self, scale: f64) -> Result<(), ScaleError> {
        self.dial.run_at(scale)?;
        self.remember_clock();
        let state = self.state.lock();
        if let Ledger::Open(memory) = &*self.ledger.lock()
            && let Err(error) = memory.note_scale(scale, &state)
        {
            tracing::error!(%error, "the clock's scale cannot be remembered");
        }
        Ok(())
    }

    /// Moves the clock to the next thing that happens by itself; `None` if there is nothing.
    pub fn advance_to_next(&self) -> Option<Timestamp> {
        let now = self.now();
        let next = self.look(|s| s.next_event(now))?;
        self.advance(next.duration_since(now));
        Some(next)
    }

    /// What the clock shows and how it runs.
    pub fn clock_shown(&self) -> Value {
        let now = self.now();
        let next = self.look(|s| s.next_event(now)).map(|t| t.to_string());
        json!({
            "now": now.to_string(), "mode": self.dial.mode(), "scale": self.dial.scale(),
            "wall": self.dial.wall().to_string(), "nextEvent": next,
        })
    }

    pub fn advance(&self, by: SignedDuration) {
        self.dial.advance(by);
        self.remember_clock();
    }

    /// A clock that runs at its own pace is written down now and then: what was seen must not be in the future after
    /// a restart.
    pub(super) fn remember_pace(&self, memory: &Memory, state: &State) {
        if self.dial.scale() == 1.0 {
            return;
        }
        let ahead = self.dial.ahead();
        if (ahead - self.noted.load(Ordering::Relaxed)).abs() < 1_000 {
            return;
        }
        self.noted.store(ahead, Ordering::Relaxed);
        if let Err(error) = memory.note_ahead(ahead, state) {
            tracing::error!(%error, "the clock's pace cannot be remembered");
        }
    }

    pub(super) fn remember_clock(&self) {
        let total = self.dial.ahead();
        let state = self.state.lock();
        if let Ledger::Open(memory) = &*self.ledger.lock()
            && let Err(error) = memory.note_ahead(total, &state)
        {
            tracing::error!(%error, "the clock's change cannot be remembered");
        }
    }
}
