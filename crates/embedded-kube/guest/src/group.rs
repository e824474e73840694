//! The members of each guest's etcd, and the store they are together.
//!
//! A member comes with its directory and waits here until there is a store it is part of. Which directories may be one
//! is `ek_store`'s to say; this module decides when to ask, and what happens to a store whose members all went: it
//! stays, without accepting anything, for as long as an API server holds it, and goes on when a member of the same
//! cluster comes back. If others come instead (restored, or begun anew) it is replaced, and API servers attach again.

use ek_server::Host;
use ek_store::{Directory, MemberError, Store, WeakStore};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use tokio::sync::watch;

/// Why a member cannot take part.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    #[error(transparent)]
    Refused(MemberError),
    #[error("the members of an etcd must agree on how many they are: {0} and {1}")]
    Size(usize, usize),
}

pub(crate) struct Groups {
    host: Host,
    all: Mutex<HashMap<String, Weak<Group>>>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Directory>,
    members: HashSet<String>,
    store: Option<Store>,
    /// The last store, which API servers may still hold.
    last: WeakStore,
    refused: HashMap<String, MemberError>,
    /// Why there is no store.
    why: String,
}

pub(crate) struct Group {
    name: String,
    host: Host,
    size: usize,
    state: tokio::sync::Mutex<State>,
    /// What can be seen from outside: whether there is a store, and why not.
    seen: watch::Sender<Seen>,
    left: Mutex<Vec<String>>,
}

/// What is known of a group.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) store: WeakStore,
    pub(crate) why: String,
    /// Changes with every store.
    pub(crate) generation: u64,
}

/// A member that takes part for as long as this lives.
pub(crate) struct Membership {
    pub(crate) group: Arc<Group>,
    name: String,
}

impl Groups {
    pub(crate) fn new(host: &Host) -> Groups {
        Groups { host: host.clone(), all: Mutex::default() }
    }

    /// The group of a guest, made if there is none.
    pub(crate) fn group(&self, name: &str, size: usize) -> Result<Arc<Group>, GroupError> {
        let mut all = self.all.lock();
        if let Some(there) = all.get(name).and_then(Weak::upgrade) {
            return match there.size == size {
                true => Ok(there),
                false => Err(GroupError::Size(there.size, size)),
            };
        }
        all.retain(|_, g| g.strong_count() > 0);
        let group = Arc::new(Group {
            name: name.to_owned(),
            host: self.host.clone(),
            size,
            state: tokio::sync::Mutex::default(),
            seen: watch::Sender::new(Seen::default()),
            left: Mutex::default(),
        });
        all.insert(name.to_owned(), Arc::downgrade(&group));
        Ok(group)
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Group>> {
        self.all.lock().get(name).and_then(Weak::upgrade)
    }

    pub(crate) fn store(&self, name: &str) -> Option<Store> {
        self.find(name)?.store()
    }
}

impl Group {
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn seen(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    pub(crate) fn store(&self) -> Option<Store> {
        self.seen.borrow().store.upgrade()
    }

    /// Brings a directory; returns when it is part of a store. `tell` hears what is waited for.
    pub(crate) async fn enter(
        self: &Arc<Group>,
        dir: Directory,
        tell: impl Fn(&str),
    ) -> Result<Membership, GroupError> {
        let name = dir.name().to_owned();
        // From here on, going away takes it out again.
        let me = Membership { group: self.clone(), name: name.clone() };
        let mut seen = self.seen.subscribe();
        {
            let mut state = self.state.lock().await;
            self.take_left(&mut state);
            state.refused.remove(&name);
            state.waiting.retain(|d| d.name() != name);
            state.waiting.push(dir);
            self.settle(&mut state).await;
        }
        let mut said = String::new();
        loop {
            let why = {
                let mut state = self.state.lock().await;
                if state.members.contains(&name) {
                    return Ok(me);
                }
                if let Some(e) = state.refused.remove(&name) {
                    return Err(GroupError::Refused(e));
                }
                state.why.clone()
            };
            if why != said {
                tell(&why);
                said = why;
            }
            if seen.changed().await.is_err() {
                return Err(GroupError::Refused(MemberError::Closed));
            }
        }
    }

    /// Members that went without waiting for the lock.
    fn take_left(&self, state: &mut State) {
        for name in std::mem::take(&mut *self.left.lock()) {
            state.waiting.retain(|d| d.name() != name);
            if state.members.remove(&name)
                && let Some(store) = &state.store
            {
                store.leave(&name);
            }
        }
        if state.members.is_empty()
            && let Some(store) = state.store.take()
        {
            state.last = store.downgrade();
        }
    }

    /// Makes the best of who is here.
    async fn settle(&self, state: &mut State) {
        let need = self.size / 2 + 1;
        let before = state.store.clone().or_else(|| state.last.upgrade());
        if let Some(store) = before {
            let id = store.cluster_id().map(str::to_owned);
            // Those who know this cluster go on with it.
            let (known, others): (Vec<_>, Vec<_>) =
                std::mem::take(&mut state.waiting).into_iter().partition(|d| d.cluster() == id.as_deref());
            state.waiting = others;
            for dir in known {
                self.join(state, &store, dir).await;
            }
            if state.members.len() >= need {
                let (new, others): (Vec<_>, Vec<_>) =
                    std::mem::take(&mut state.waiting).into_iter().partition(Directory::is_new);
                state.waiting = others;
                for dir in new {
                    self.join(state, &store, dir).await;
                }
            }
            if !state.members.is_empty() {
                // What is of another cluster is told so.
                if state.members.len() >= need {
                    for dir in std::mem::take(&mut state.waiting) {
                        self.join(state, &store, dir).await;
                    }
                    state.why.clear();
                } else {
                    let up = state.members.len();
                    state.why = format!("{up} of {} members are up, and {need} are needed", self.size);
                }
                state.store = Some(store.clone());
                self.show(state, &store);
                return;
            }
        }
        self.form(state).await;
    }

    async fn join(&self, state: &mut State, store: &Store, dir: Directory) {
        let name = dir.name().to_owned();
        match store.join(dir).await {
            Ok(()) => _ = state.members.insert(name),
            Err(e) => _ = state.refused.insert(name, e),
        }
    }

    async fn form(&self, state: &mut State) {
        let dirs = std::mem::take(&mut state.waiting);
        let names: Vec<String> = dirs.iter().map(|d| d.name().to_owned()).collect();
        let (size, fresh) = (self.size, self.host.random().uuid());
        let options = self.host.guest_options(&self.name);
        let made = tokio::task::spawn_blocking(move || Store::of_members(dirs, size, &fresh, options)).await;
        match made {
            Ok(Ok(store)) => {
                state.members = names.into_iter().collect();
                state.why.clear();
                state.store = Some(store.clone());
                self.show(state, &store);
            }
            Ok(Err((dirs, e))) => {
                state.why = crate::tls::chain(&e);
                // Those whose directories were not given back have to begin again.
                let kept: HashSet<String> = dirs.iter().map(|d| d.name().to_owned()).collect();
                for name in names.into_iter().filter(|n| !kept.contains(n)) {
                    state.refused.insert(name, MemberError::Closed);
                }
                if let MemberError::Foreign { member, .. } = &e {
                    let member = member.clone();
                    state.waiting = dirs.into_iter().filter(|d| d.name() != member).collect();
                    state.refused.insert(member, e);
                } else {
                    state.waiting = dirs;
                }
                self.seen.send_modify(|s| s.why = state.why.clone());
            }
            Err(e) => state.why = format!("the store could not be opened: {e}"),
        }
    }

    fn show(&self, state: &State, store: &Store) {
        self.seen.send_modify(|s| {
            if !s.store.upgrade().is_some_and(|old| old.is(store)) {
                s.generation += 1;
                s.store = store.downgrade();
            }
            s.why = state.why.clone();
        });
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.group.left.lock().push(self.name.clone());
        let group = self.group.clone();
        // Whoever holds the lock now takes it along; otherwise we do.
        if let Ok(mut state) = group.state.try_lock() {
            group.take_left(&mut state);
            return;
        }
        if let Ok(handle) = tokio::runtime::Handle::try_current() {
            let group = self.group.clone();
            handle.spawn(async move {
                let mut state = group.state.lock().await;
                group.take_left(&mut state);
            });
        }
    }
}
