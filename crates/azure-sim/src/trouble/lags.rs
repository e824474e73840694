//! Things that are there before everybody knows: rights, principals, federated credentials.
//!
//! What was written can be read at once; what it means arrives later. How much later is drawn by seed and name, so
//! it follows from the world and not from the order of requests, and is the same after a restart.

use crate::profile::{Profile, exponential, log_normal};
use crate::state::{App, Directory, Principal, PrincipalKind, State, hash};
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;

/// How many servers answer for Entra ID. Each learns of a federated credential in its own time.
const REPLICAS: u64 = 4;

#[derive(Clone, Copy, Debug, Default)]
pub struct Lags {
    /// What a second of lag lasts; 0 is none.
    factor: f64,
    /// Which replica answers the token request that is being served.
    pub route: u64,
}

impl Lags {
    pub fn of(profile: Profile) -> Lags {
        Lags { factor: profile.lag(), route: 0 }
    }

    pub fn is_none(&self) -> bool {
        self.factor <= 0.0
    }

    fn after(&self, from: Timestamp, seconds: f64) -> Timestamp {
        if self.is_none() {
            return from;
        }
        let late = SignedDuration::try_from_secs_f64(seconds * self.factor).unwrap_or(SignedDuration::ZERO);
        from.checked_add(late).unwrap_or(Timestamp::MAX)
    }

    /// When a role assignment is enforced: mostly within seconds, sometimes only after five minutes.
    pub fn rights(&self, seed: u64, id: &str, made: Timestamp) -> Timestamp {
        if self.is_none() {
            return Timestamp::MIN;
        }
        let bits = hash(seed, &["lag", "rights", id, &made.to_string()]);
        self.after(made, log_normal(5.0, 47.0, bits).min(300.0))
    }

    /// When a principal is known everywhere.
    pub fn principal(&self, seed: u64, p: &Principal) -> Timestamp {
        // Who was there from the start is known.
        if p.owner.is_none() && p.kind == PrincipalKind::Application {
            return Timestamp::MIN;
        }
        let bits = hash(seed, &["lag", "principal", &p.object_id]);
        self.after(p.created, exponential(8.0, bits).min(60.0))
    }

    /// When Graph's readers see what was written.
    fn graph(&self, seed: u64, id: &str, made: Timestamp) -> Timestamp {
        let bits = hash(seed, &["lag", "graph", id]);
        self.after(made, exponential(2.0, bits).min(20.0))
    }

    /// Whether the replica that answers knows a federated credential.
    pub fn knows(&self, seed: u64, id: &str, made: Timestamp, now: Timestamp) -> bool {
        if self.is_none() {
            return true;
        }
        let replica = hash(seed, &["route", &self.route.to_string()]) % u128::from(REPLICAS);
        let bits = hash(seed, &["lag", "credential", id, &made.to_string(), &replica.to_string()]);
        now >= self.after(made, log_normal(40.0, 120.0, bits).min(300.0))
    }
}

/// What Graph does not know of yet, taken out of the directory.
#[derive(Default)]
pub struct Hidden {
    apps: Vec<Arc<App>>,
    principals: Vec<Arc<Principal>>,
}

impl Hidden {
    pub fn take(state: &mut State, now: Timestamp) -> Hidden {
        if state.lags.is_none() {
            return Hidden::default();
        }
        let (lags, seed) = (state.lags, state.seed);
        let apps: Vec<_> = state
            .directory
            .apps
            .values()
            .filter(|a| a.owner.is_some() && lags.graph(seed, &a.object_id, a.created) > now)
            .cloned()
            .collect();
        let young = |p: &&Arc<Principal>| {
            let seeded = p.owner.is_none() && p.kind == PrincipalKind::Application;
            !seeded && lags.graph(seed, &p.object_id, p.created) > now
        };
        let principals: Vec<_> = state.directory.principals.values().filter(young).cloned().collect();
        for a in &apps {
            state.directory.apps.remove(&a.client_id.to_lowercase());
        }
        for p in &principals {
            state.directory.remove_principal(&p.object_id);
        }
        Hidden { apps, principals }
    }

    /// Nobody who asked Graph can have changed what it did not know.
    pub fn put_back(self, directory: &mut Directory) {
        for a in self.apps {
            directory.apps.insert(a.client_id.to_lowercase(), a);
        }
        for p in self.principals {
            directory.add((*p).clone());
        }
    }
}

impl State {
    /// The next time after `now` at which something becomes known.
    pub fn next_arrival(&self, now: Timestamp) -> Option<Timestamp> {
        if self.lags.is_none() {
            return None;
        }
        let gone = self.assignments.lingering.values().map(|l| l.until);
        let rights = self.assignments.all().map(|a| a.since).chain(gone);
        let principals = self.directory.principals.values().map(|p| self.lags.principal(self.seed, p));
        rights.chain(principals).filter(|t| *t > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_profiles_lag_and_replicas_disagree() {
        let made = Timestamp::from_second(1_000).unwrap();
        let none = Lags::of(Profile::Fast);
        assert_eq!(none.rights(1, "a", made), Timestamp::MIN);
        assert!(none.knows(1, "a", made, made));
        let real = Lags::of(Profile::Real);
        assert!(real.rights(1, "a", made) > made);
        let at = made + SignedDuration::from_secs(40);
        let seen: Vec<bool> = (0..64).map(|route| Lags { route, ..real }.knows(1, "a", made, at)).collect();
        assert!(seen.contains(&true) && seen.contains(&false), "after the median time they disagree");
        let at = made + SignedDuration::from_secs(301);
        assert!((0..64).all(|route| Lags { route, ..real }.knows(1, "a", made, at)), "in the end all know");
    }
}
