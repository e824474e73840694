//! The simulator without its sockets: requests in, answers out.

mod doors;
mod faults;
mod report;
mod time;

use crate::edge::ProxiedProvider;
use crate::entra::{Caller, Issuers, KeyError, Keys};
use crate::gateway::{Buckets, Limits};
use crate::journal::Journal;
use crate::memory::{Beside, Files, Memory, MemoryError};
use crate::planes::Contents;
use crate::profile::{Pace, Profile};
use crate::provider::Providers;
use crate::rbac::Role;
use crate::seed::{self, Login};
use crate::state::{Certificate, Record, Secret, State, guid, hash};
use crate::time::Dial;
use crate::trouble::{History, Lags, Trouble};
use arm::ResourceId;
use clock::{Random, SharedClock};
use jiff::Timestamp;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use tokio_util::sync::CancellationToken;

#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    #[error("cannot use the remembered signing keys")]
    Keys(#[source] KeyError),
    #[error("cannot use the data directory")]
    Memory(#[source] MemoryError),
}

/// What a world is made with.
#[derive(Clone)]
pub struct Setup {
    pub seed: u64,
    pub profile: Profile,
    /// `None` does not throttle.
    pub limits: Option<Limits>,
    /// Roles beside those built in.
    pub roles: Vec<Role>,
    pub issuers: Arc<dyn Issuers>,
    pub clock: SharedClock,
    /// Namespaces that others answer for.
    pub proxied: Vec<ProxiedProvider>,
    /// Authorities (PEM) that those others may be known by.
    pub trust: Vec<String>,
}

/// Where changes are written down.
enum Ledger {
    /// Nowhere.
    None,
    Open(Memory),
    /// They were, until the world was closed: nothing may change any more.
    Closed,
}

/// One simulated Azure.
pub struct World {
    state: Mutex<State>,
    ledger: Mutex<Ledger>,
    buckets: Mutex<Buckets>,
    journal: Mutex<Journal>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) providers: Arc<Providers>,
    setup: Setup,
    dial: Arc<Dial>,
    /// How far ahead the clock was when that was last written down.
    noted: AtomicI64,
    pub(crate) trouble: Trouble,
    history: Mutex<History>,
    /// Requests so far, and of those for tokens: what is drawn for each depends on its number.
    requests: AtomicU64,
    logins: AtomicU64,
    random: Random,
    pub(crate) login: Login,
    machine_news: tokio::sync::watch::Sender<u64>,
    /// Ends what works on in the background.
    pub(crate) stop: CancellationToken,
}

impl World {
    /// A world that forgets.
    pub fn new(
        seed: u64,
        profile: Profile,
        limits: Option<Limits>,
        roles: &[Role],
        issuers: Arc<dyn Issuers>,
        clock: SharedClock,
    ) -> Result<World, WorldError> {
        let roles = roles.to_vec();
        let setup =
            Setup { seed, profile, limits, roles, issuers, clock, proxied: Vec::new(), trust: Vec::new() };
        Ok(World::fresh(setup))
    }

    /// A world that forgets.
    pub fn fresh(setup: Setup) -> World {
        World::signing(setup, Keys::generate())
    }

    /// A world that forgets, and signs with the [keys](World::signing_pems) of another one if there are any.
    pub(crate) fn signed_by(setup: Setup, pems: Vec<String>) -> Result<World, WorldError> {
        match pems.is_empty() {
            true => Ok(World::fresh(setup)),
            false => Ok(World::signing(setup, Keys::remembered(pems).map_err(WorldError::Keys)?)),
        }
    }

    fn signing(setup: Setup, keys: Keys) -> World {
        let state = seed::seed(setup.seed, &setup.roles, setup.clock.now());
        World::with(setup, state, Arc::new(keys), None, Beside::default())
    }

    /// What this world signs tokens with, as PEM, the newest first. Secret.
    pub fn signing_pems(&self) -> Vec<String> {
        self.keys.pems()
    }

    /// A world that goes on where `dir` ends; a new one if there is nothing. An existing directory's seed counts,
    /// not the setup's.
    pub fn open(setup: Setup, dir: &Path) -> Result<World, WorldError> {
        let files = Files::open(dir, setup.seed).map_err(WorldError::Memory)?;
        World::resume(setup, files)
    }

    pub(crate) fn resume(mut setup: Setup, files: Files) -> Result<World, WorldError> {
        setup.seed = files.seed();
        let mut secrets = files.secrets().map_err(WorldError::Memory)?.unwrap_or_default();
        let keys = if secrets.signing_keys.is_empty() {
            let keys = Keys::generate();
            secrets.signing_keys = keys.pems();
            files.keep_secrets(&secrets).map_err(WorldError::Memory)?;
            keys
        } else {
            Keys::remembered(secrets.signing_keys).map_err(WorldError::Keys)?
        };
        let mut fresh = seed::seed(setup.seed, &setup.roles, setup.clock.now());
        let mut empty = seed::empty(setup.seed, &setup.roles);
        let contents = Contents::open(&files.contents());
        fresh.data.contents = contents.clone();
        empty.data.contents = contents.clone();
        empty.lags = Lags::of(setup.profile);
        let (memory, state, beside) = Memory::open(files, fresh, empty).map_err(WorldError::Memory)?;
        contents.sweep();
        Ok(World::with(setup, state, Arc::new(keys), Some(memory), beside))
    }

    fn with(setup: Setup, state: State, keys: Arc<Keys>, memory: Option<Memory>, beside: Beside) -> World {
        let dial = Dial::new(setup.clock.clone(), beside.ahead);
        if let Some(Err(error)) = beside.scale.map(|scale| dial.run_at(scale)) {
            tracing::error!(%error, "the clock runs at the machine's pace");
        }
        let trouble = Trouble::default();
        let rules = faults::at_start(setup.profile, beside.faults);
        if let Err(error) = trouble.add(rules) {
            tracing::error!(%error, "a day without faults");
        }
        World::on(setup, state, &keys, memory, dial, trouble)
    }

    fn on(
        setup: Setup,
        mut state: State,
        keys: &Keys,
        memory: Option<Memory>,
        dial: Dial,
        trouble: Trouble,
    ) -> World {
        let dial = Arc::new(dial);
        state.lags = Lags::of(setup.profile);
        // On a bad day Azure keeps its limits.
        let bad = (setup.profile == Profile::BadDay).then_some(Limits::DOCUMENTED);
        World {
            state: Mutex::new(state),
            ledger: Mutex::new(memory.map_or(Ledger::None, Ledger::Open)),
            buckets: Mutex::new(Buckets::new(setup.limits.or(bad))),
            journal: Mutex::new(Journal::default()),
            keys: Arc::new(keys.by(dial.clone())),
            providers: Arc::new(Providers::new(&setup.proxied, &setup.trust)),
            noted: AtomicI64::new(dial.ahead()),
            dial,
            trouble,
            history: Mutex::default(),
            requests: AtomicU64::new(0),
            logins: AtomicU64::new(0),
            random: Random::seeded(setup.seed),
            login: seed::login(setup.seed),
            machine_news: tokio::sync::watch::channel(0).0,
            setup,
            stop: CancellationToken::new(),
        }
    }

    /// A world that starts as this one is now, and forgets. Tokens of either are good in both.
    pub fn fork(&self) -> World {
        let state = self.state.lock().clone();
        World::on(self.setup.clone(), state, &self.keys, None, self.dial.fork(), self.trouble.fork())
    }

    /// A new world with the keys of this one, with the measured times, on another clock.
    #[cfg(test)]
    pub(crate) fn fork_at(&self, clock: SharedClock) -> World {
        let mut setup = self.setup.clone();
        (setup.clock, setup.profile) = (clock.clone(), Profile::Real);
        let state = self.state.lock().clone();
        World::on(setup, state, &self.keys, None, Dial::new(clock, 0), Trouble::default())
    }

    /// Ends what is under way in the background and lets go of the data directory. A world that remembers changes
    /// no more after this.
    pub fn close(&self) {
        self.stop.cancel();
        let mut ledger = self.ledger.lock();
        if let Ledger::Open(memory) = &*ledger {
            memory.close();
            *ledger = Ledger::Closed;
        }
    }

    /// Changes the state and writes the change down; without the one the other does not happen.
    pub(crate) fn change<T>(&self, how: impl FnOnce(&mut State) -> T) -> Result<T, MemoryError> {
        let mut state = self.state.lock();
        let ledger = self.ledger.lock();
        let memory = match &*ledger {
            Ledger::None => {
                let result = how(&mut state);
                self.tell(&state);
                return Ok(result);
            }
            Ledger::Closed => return Err(MemoryError::Closed),
            Ledger::Open(memory) => memory,
        };
        let before = state.clone();
        let result = how(&mut state);
        match memory.note(&before, &state) {
            Ok(()) => {
                self.remember_pace(memory, &state);
                self.tell(&state);
                Ok(result)
            }
            Err(error) => {
                *state = before;
                Err(error)
            }
        }
    }

    /// Wakes who waits for machines.
    fn tell(&self, state: &State) {
        let last = state.machines.last();
        self.machine_news.send_if_modified(|seen| std::mem::replace(seen, last) != last);
    }

    /// For what has nobody to answer to.
    fn change_or_warn(&self, how: impl FnOnce(&mut State)) {
        if let Err(error) = self.change(how) {
            tracing::error!(%error, "a change was not made: it cannot be remembered");
        }
    }

    /// Looks at the state as it is.
    pub(crate) fn look<T>(&self, how: impl FnOnce(&State) -> T) -> T {
        how(&self.state.lock())
    }

    /// Ends what is due. Operations end by being looked at; this is a look.
    pub(crate) fn settle_now(&self) {
        let now = self.now();
        if self.look(|state| state.idle_until().is_some_and(|due| due <= now)) {
            self.change_or_warn(|state| state.settle(now));
        }
    }

    /// Changes when something happens to a machine.
    pub fn machine_news(&self) -> tokio::sync::watch::Receiver<u64> {
        self.machine_news.subscribe()
    }

    pub(crate) fn uuid(&self) -> String {
        self.random.uuid()
    }

    /// A value that belongs to an id.
    pub(crate) fn guid_of(&self, id: &arm::ResourceId, purpose: &str) -> String {
        guid(hash(self.setup.seed, &[id.key(), purpose]))
    }

    /// Resource Manager itself, when nobody asked it to.
    pub(crate) fn own_caller(&self) -> Caller {
        let l = &self.login;
        Caller { object_id: l.object.clone(), client_id: l.client.clone(), tenant: l.tenant.clone() }
    }

    pub fn now(&self) -> Timestamp {
        self.dial.now()
    }

    pub(crate) fn seed(&self) -> u64 {
        self.setup.seed
    }

    pub(crate) fn pace(&self) -> Pace {
        Pace { profile: self.setup.profile, scale: self.dial.scale() }
    }

    pub(crate) fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed)
    }

    /// Rotates; with `forget`, what the old keys signed is refused.
    pub(crate) fn rotate_keys_and(&self, forget: bool) -> Result<(), WorldError> {
        self.rotate_keys()?;
        if forget {
            self.keys.forget_old();
        }
        Ok(())
    }

    /// A new signing key; old tokens stay good.
    pub fn rotate_keys(&self) -> Result<(), WorldError> {
        self.keys.rotate().map_err(WorldError::Keys)?;
        let ledger = self.ledger.lock();
        let Ledger::Open(memory) = &*ledger else { return Ok(()) };
        let files = memory.files();
        let mut secrets = files.secrets().map_err(WorldError::Memory)?.unwrap_or_default();
        secrets.signing_keys = self.keys.pems();
        files.keep_secrets(&secrets).map_err(WorldError::Memory)
    }

    /// An application with a secret and certificates (DER); its client id and its principal's object id.
    pub fn add_app(&self, name: &str, secret: &str, certificates: Vec<Vec<u8>>) -> (String, String) {
        let of = |what: &str| guid(hash(self.setup.seed, &["app", name, what]));
        let (client, object) = (of("client"), of("object"));
        let now = self.now();
        self.change_or_warn(|state| {
            seed::add_app(state, &client, &object, name, &Secret::new(secret), now);
            if let Some(app) = state.directory.apps.get(&client).cloned() {
                let mut app = (*app).clone();
                app.certificates = certificates.into_iter().map(|c| Certificate(c.into())).collect();
                state.directory.add_app(app);
            }
        });
        (client, object)
    }

    /// Grants an application a permission of Microsoft Graph by its name, as an administrator consents to it; says
    /// whether there are such a principal and such a permission.
    pub fn grant(&self, principal: &str, role: &str) -> bool {
        if !crate::graph::ROLES.iter().any(|(name, _)| *name == role) {
            return false;
        }
        let mut known = false;
        self.change_or_warn(|state| {
            let Some(p) = state.directory.principal(principal).cloned() else { return };
            let mut p = (*p).clone();
            if !p.graph_roles.iter().any(|r| r == role) {
                p.graph_roles.push(role.to_owned());
            }
            state.directory.add(p);
            known = true;
        });
        known
    }

    /// Gives a principal a role, by the role's GUID.
    pub fn assign(&self, principal: &str, role: &str, scope: &str) {
        let name = guid(hash(self.setup.seed, &["assign", principal, role, scope]));
        let now = self.now();
        self.change_or_warn(|state| seed::assign(state, principal, role, scope, &name, now));
    }

    /// Counts a resource, and what is below it, to what there was at the beginning: it is nobody's leak.
    pub fn furnish(&self, id: &ResourceId) {
        self.change_or_warn(|state| {
            let mut found: Vec<Record> = state.below(id.key()).map(|r| (**r).clone()).collect();
            found.extend(state.records.get(id.key()).map(|r| (**r).clone()));
            for record in found {
                state.replace(Record { seeded: true, ..record });
            }
        });
    }

    pub fn tenant(&self) -> &str {
        &self.login.tenant
    }

    pub fn subscription(&self) -> &str {
        &self.login.subscription
    }

    /// Client id and secret of the seeded owner.
    pub fn owner_login(&self) -> (String, String) {
        (self.login.client.clone(), self.login.secret.expose().to_owned())
    }

    /// The object id of the seeded owner.
    pub fn owner_object(&self) -> &str {
        &self.login.object
    }

    /// A token of the seeded owner, for callers in this process.
    pub async fn owner_token(&self) -> String {
        self.token_for(&self.login.client, self.login.secret.expose()).await
    }

    /// A token for Resource Manager of an application with a secret; empty if it is refused.
    pub async fn token_for(&self, client: &str, secret: &str) -> String {
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", client),
            ("client_secret", secret),
            ("scope", "https://management.azure.com/.default"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()));
        self.token(&self.login.tenant, &form, true)
            .await
            .ok()
            .and_then(|v| v["access_token"].as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// Where uploads go.
    pub(crate) fn contents(&self) -> Contents {
        self.look(|s| s.data.contents.clone())
    }
}
