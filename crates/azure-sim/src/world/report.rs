//! What a world can tell of itself: its journal, what is left over, and rights that were used or not.

use crate::journal::Entry;
use crate::state::State;
use crate::world::World;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl World {
    pub(crate) fn each_entry(&self, look: impl FnMut(Timestamp, u16, Option<&str>, bool)) -> u64 {
        self.journal.lock().each(look)
    }

    pub fn journal(&self) -> Vec<Entry> {
        self.journal.lock().entries()
    }

    /// The newest `limit` entries after number `after`, of one principal if it is given (name, object or client id).
    pub fn journal_page(&self, after: u64, limit: usize, principal: Option<&str>) -> Value {
        let state = self.state.lock();
        let known = |id: &str| state.directory.principal(id);
        let fits = |who: Option<&str>| {
            principal.is_none_or(|wanted| {
                let same = |id: &str| id.eq_ignore_ascii_case(wanted);
                let named = |id: &str| known(id).is_some_and(|p| p.name == wanted || same(&p.client_id));
                who.is_some_and(|id| same(id) || named(id))
            })
        };
        let (page, last) = {
            let journal = self.journal.lock();
            (journal.page(after, limit, fits), journal.last())
        };
        let who = page.iter().filter_map(|e| e.principal.as_deref());
        let names = names(&state, who);
        json!({"value": page, "last": last, "names": names})
    }

    /// Changes when the journal grows.
    pub fn journal_news(&self) -> tokio::sync::watch::Receiver<u64> {
        self.journal.lock().watch()
    }

    /// Ends all operations under way; how many there were.
    pub fn finish_operations(&self) -> usize {
        let now = self.now();
        let finish = |state: &mut State| {
            let ids: Vec<Arc<str>> = state.running().filter(|o| !o.drains).map(|o| o.id.clone()).collect();
            for id in &ids {
                state.finish(id, now);
            }
            ids.len() + crate::planes::vault::finish(state)
        };
        self.change(finish).unwrap_or(0)
    }

    /// What exists beyond the seed, and who made it.
    pub fn leaks(&self) -> Value {
        // Looked at on a copy: asking changes nothing.
        let mut state = self.state.lock().clone();
        state.settle(self.now());
        let made = || state.records.values().filter(|r| !r.seeded);
        let left: Vec<Value> = made()
            .map(|r| {
                let mut left = json!({"id": r.id.as_str(), "createdBy": &*r.created_by, "createdAt": r.created.to_string()});
                // What an account holds is left over with it.
                if r.kind.path == "storageAccounts" {
                    let (blobs, bytes) = crate::planes::blob::holds(&state, r.id.name());
                    (left["blobs"], left["bytes"]) = (blobs.into(), bytes.into());
                }
                left
            })
            .collect();
        let names = names(&state, made().map(|r| &*r.created_by));
        json!({"value": left, "names": names})
    }

    /// Per principal: actions used, and the patterns granted of which none was used.
    pub fn least_privilege(&self) -> Value {
        let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for e in self.journal.lock().entries() {
            if let (Some(p), Some(a), Some(_)) = (e.principal, e.action, e.granted_by) {
                used.entry(p).or_default().insert(a);
            }
        }
        let state = self.state.lock();
        let report: Vec<Value> = used
            .iter()
            .map(|(p, actions)| {
                let granted: BTreeSet<String> = state
                    .assignments
                    .of(p)
                    .filter_map(|a| state.assignments.role(&a.role))
                    .flat_map(|r| {
                        r.permissions.iter().flat_map(|x| x.actions.iter().chain(&x.data_actions).cloned())
                    })
                    .collect();
                let idle: Vec<&String> =
                    granted.iter().filter(|g| !actions.iter().any(|a| crate::rbac::matches(g, a))).collect();
                let name = state.directory.principal(p).map(|x| x.name.clone());
                json!({"principal": p, "name": name, "used": actions, "granted": granted, "unused": idle})
            })
            .collect();
        json!({"value": report})
    }
}

/// What the principals are called, by object id.
fn names<'a>(state: &State, ids: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, String> {
    ids.filter_map(|id| Some((id, state.directory.principal(id)?.name.clone()))).collect()
}
