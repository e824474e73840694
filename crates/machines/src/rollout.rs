//! How a deployment moves from old machines to new ones: pure arithmetic.
//!
//! Two promises, whatever the state it starts from. A step never wishes for more machines than `replicas + maxSurge`
//! (unless there are more already, and then for no further one), and never gives up a machine that works while fewer
//! than `replicas - maxUnavailable` would be left. What does not work is given up first, because it costs nothing.
//!
//! A set's `available` may be older than its `desired`: only what both allow is counted, so a step that was just taken
//! is not taken again on old news. For the surge, a machine counts until it is really on its way out: a new one is not
//! asked for in place of an old one that its set has yet to give up. Machines that are going do not count.
//!
//! Rejected: proportional scaling of old and new when the size changes in the middle of a rollout. New machines are what
//! is wanted; growth goes to them, shrinking takes the old ones.

/// What a deployment asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    pub replicas: u32,
    pub max_surge: u32,
    pub max_unavailable: u32,
    /// Old machines go when somebody deletes them, not before.
    pub on_delete: bool,
}

impl Wish {
    /// With neither surge nor unavailability nothing could ever move: then one may be missing.
    pub fn new(replicas: u32, max_surge: u32, max_unavailable: u32, on_delete: bool) -> Wish {
        let max_unavailable = if max_surge == 0 && max_unavailable == 0 { 1 } else { max_unavailable };
        Wish { replicas, max_surge, max_unavailable: max_unavailable.min(replicas), on_delete }
    }

    fn least(&self) -> u32 {
        self.replicas.saturating_sub(self.max_unavailable)
    }

    fn most(&self) -> u32 {
        self.replicas.saturating_add(self.max_surge)
    }
}

/// A machine set as the arithmetic sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    /// Of the wanted template. At most one is.
    pub current: bool,
    /// `spec.replicas`.
    pub desired: u32,
    /// Machines that work, as far as is known.
    pub available: u32,
    /// Machines that are there and not going.
    pub live: u32,
}

impl Set {
    /// What certainly works after the set was told `desired`: broken ones go first.
    fn working(&self) -> u32 {
        self.available.min(self.desired)
    }
}

/// The sizes that the sets should have now, in their order. Old sets are given oldest first.
pub fn sizes(wish: &Wish, sets: &[Set]) -> Vec<u32> {
    let mut sets = sets.to_vec();
    match wish.on_delete {
        true => on_delete(wish, &mut sets),
        false => rolling(wish, &mut sets),
    }
    sets.iter().map(|s| s.desired).collect()
}

fn total(sets: &[Set]) -> u32 {
    sets.iter().fold(0, |n, s| n.saturating_add(s.desired))
}

/// Machines that there are or will be.
fn load(sets: &[Set]) -> u32 {
    sets.iter().fold(0, |n, s| n.saturating_add(s.desired.max(s.live)))
}

fn rolling(wish: &Wish, sets: &mut [Set]) {
    let all = load(sets);
    if let Some(new) = sets.iter_mut().find(|s| s.current) {
        let room = wish.most().saturating_sub(all);
        new.desired = match new.desired > wish.replicas {
            true => wish.replicas,
            false => new.desired + room.min(wish.replicas - new.desired),
        };
    }
    // Of the new ones that are on their way, none can stand in for an old one yet.
    let coming: u32 = sets.iter().filter(|s| s.current).map(|s| s.desired - s.working()).sum();
    let mut budget = total(sets).saturating_sub(wish.least()).saturating_sub(coming);
    for old in sets.iter_mut().filter(|s| !s.current) {
        let cut = (old.desired - old.working()).min(budget);
        old.desired -= cut;
        budget -= cut;
    }
    let working = sets.iter().map(Set::working).sum::<u32>();
    let mut spare = working.saturating_sub(wish.least()).min(budget);
    for old in sets.iter_mut().filter(|s| !s.current) {
        let cut = old.desired.min(spare);
        old.desired -= cut;
        spare -= cut;
    }
}

fn on_delete(wish: &Wish, sets: &mut [Set]) {
    for old in sets.iter_mut().filter(|s| !s.current) {
        old.desired = old.desired.min(old.live);
    }
    let mut excess =
        sets.iter().filter(|s| !s.current).map(|s| s.desired).sum::<u32>().saturating_sub(wish.replicas);
    for old in sets.iter_mut().filter(|s| !s.current) {
        let cut = old.desired.min(excess);
        old.desired -= cut;
        excess -= cut;
    }
    let old: u32 = sets.iter().filter(|s| !s.current).map(|s| s.desired).sum();
    if let Some(new) = sets.iter_mut().find(|s| s.current) {
        new.desired = wish.replicas.saturating_sub(old);
    }
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
mod tests;
