//! A world's faults: added, shown, taken away, and remembered.

use crate::memory::Faults;
use crate::profile::Profile;
use crate::trouble::{Rule, TroubleError, preset};
use crate::world::{Ledger, World};
use serde_json::Value;

/// What a profile brings with it.
fn of_profile(profile: &str) -> Vec<Rule> {
    match profile == Profile::BadDay.name() {
        true => preset("bad-day").unwrap_or_default(),
        false => Vec::new(),
    }
}

/// The rules that a world begins with: those it had. In another profile than before, with that profile's own in place of
/// those of the one before.
pub fn at_start(profile: Profile, remembered: Option<Faults>) -> Vec<Rule> {
    let own = of_profile(profile.name());
    let Some(before) = remembered else { return own };
    if before.profile == profile.name() {
        return before.rules;
    }
    let theirs = of_profile(&before.profile);
    let kept: Vec<Rule> = before.rules.into_iter().filter(|r| !theirs.contains(r)).collect();
    let own = own.into_iter().filter(|r| !kept.iter().any(|k| k.name == r.name));
    own.chain(kept.iter().cloned()).collect()
}

impl World {
    /// Makes requests go wrong; the names that the rules have.
    pub fn add_faults(&self, rules: Vec<Rule>) -> Result<Vec<String>, TroubleError> {
        let names = self.trouble.add(rules)?;
        self.remember_faults();
        Ok(names)
    }

    /// The same, but for those that are there already: what a start asks for, a world that goes on may have.
    pub(crate) fn want_faults(&self, mut rules: Vec<Rule>) -> Result<(), TroubleError> {
        let known = self.trouble.list();
        rules.retain(|r| !known.iter().any(|k| **k == *r));
        if !rules.is_empty() {
            self.add_faults(rules)?;
        }
        Ok(())
    }

    /// The rules with how often each met a request and fired.
    pub fn faults(&self) -> Vec<Value> {
        self.trouble.report()
    }

    /// Whether there was one of that name.
    pub fn remove_fault(&self, name: &str) -> bool {
        let removed = self.trouble.remove(name);
        self.remember_faults();
        removed
    }

    /// How many there were.
    pub fn clear_faults(&self) -> usize {
        let cleared = self.trouble.clear();
        self.remember_faults();
        cleared
    }

    fn remember_faults(&self) {
        let rules = self.trouble.list().iter().map(|r| (**r).clone()).collect();
        let faults = Faults { profile: self.setup.profile.name().to_owned(), rules };
        let state = self.state.lock();
        if let Ledger::Open(memory) = &*self.ledger.lock()
            && let Err(error) = memory.note_faults(faults, &state)
        {
            tracing::error!(%error, "the faults cannot be remembered");
        }
    }
}
