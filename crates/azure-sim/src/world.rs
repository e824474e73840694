//! The simulator without its sockets: requests in, answers out.

use crate::access;
use crate::edge::ProxiedProvider;
use crate::entra::{self, Caller, Issuers, KeyError, Keys};
use crate::gateway::{self, Answer, Buckets, Limits, Rules, Seen};
use crate::graph;
use crate::journal::{Entry, Journal};
use crate::memory::{Files, Memory, MemoryError};
use crate::planes::Contents;
use crate::profile::{Pace, Profile};
use crate::provider::{self, Providers};
use crate::rbac::Role;
use crate::seed::{self, Login};
use crate::state::{Certificate, Secret, State, guid, hash};
use crate::time::{Dial, ScaleError};
use crate::trouble::{Due, History, Lags, Rule, Trouble, TroubleError, around, preset};
use crate::wire::{Call, Fault, Reply};
use clock::{Random, SharedClock};
use http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
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
        let state = seed::seed(setup.seed, &setup.roles, setup.clock.now());
        World::with(setup, state, Arc::new(Keys::generate()), None, 0)
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
        let (memory, state, ahead) = Memory::open(files, fresh, empty).map_err(WorldError::Memory)?;
        contents.sweep();
        Ok(World::with(setup, state, Arc::new(keys), Some(memory), ahead))
    }

    fn with(setup: Setup, state: State, keys: Arc<Keys>, memory: Option<Memory>, ahead: i64) -> World {
        let dial = Dial::new(setup.clock.clone(), ahead);
        let trouble = Trouble::default();
        if setup.profile == Profile::BadDay
            && let Err(error) = trouble.add(preset("bad-day").unwrap_or_default())
        {
            tracing::error!(%error, "a bad day without faults");
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

    /// From now on the clock runs so many times as fast as the machine's; 0 stands still.
    pub fn run_clock_at(&self, scale: f64) -> Result<(), ScaleError> {
        self.dial.run_at(scale)?;
        self.remember_clock();
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

    /// Makes requests go wrong; the names that the rules have.
    pub fn add_faults(&self, rules: Vec<Rule>) -> Result<Vec<String>, TroubleError> {
        self.trouble.add(rules)
    }

    /// The rules with how often each met a request and fired.
    pub fn faults(&self) -> Vec<Value> {
        self.trouble.report()
    }

    /// Whether there was one of that name.
    pub fn remove_fault(&self, name: &str) -> bool {
        self.trouble.remove(name)
    }

    /// How many there were.
    pub fn clear_faults(&self) -> usize {
        self.trouble.clear()
    }

    pub(crate) fn each_entry(&self, look: impl FnMut(Timestamp, u16, Option<&str>, bool)) -> u64 {
        self.journal.lock().each(look)
    }

    /// Writes down a request that was not served, or not by Resource Manager.
    pub(crate) fn note_trouble(&self, call: &Call, reply: &Reply, due: &Due) {
        let seen = Seen { fault: due.text(), ..Seen::default() };
        let now = self.now();
        self.journal.lock().add(call, reply, seen, now, 0);
    }

    /// Rotates; with `forget`, what the old keys signed is refused.
    pub(crate) fn rotate_keys_and(&self, forget: bool) -> Result<(), WorldError> {
        self.rotate_keys()?;
        if forget {
            self.keys.forget_old();
        }
        Ok(())
    }

    pub fn advance(&self, by: SignedDuration) {
        self.dial.advance(by);
        self.remember_clock();
    }

    /// A clock that runs at its own pace is written down now and then: what was seen must not be in the future after
    /// a restart.
    fn remember_pace(&self, memory: &Memory, state: &State) {
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

    fn remember_clock(&self) {
        let total = self.dial.ahead();
        let state = self.state.lock();
        if let Ledger::Open(memory) = &*self.ledger.lock()
            && let Err(error) = memory.note_ahead(total, &state)
        {
            tracing::error!(%error, "the clock's change cannot be remembered");
        }
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

    /// Gives a principal a role, by the role's GUID.
    pub fn assign(&self, principal: &str, role: &str, scope: &str) {
        let name = guid(hash(self.setup.seed, &["assign", principal, role, scope]));
        let now = self.now();
        self.change_or_warn(|state| seed::assign(state, principal, role, scope, &name, now));
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

    async fn token(
        &self,
        tenant: &str,
        form: &[(String, String)],
        v2: bool,
    ) -> Result<Value, entra::Refusal> {
        let mut state = self.state.lock().clone();
        state.lags.route = self.logins.fetch_add(1, Ordering::Relaxed);
        let issuers = Inside { world: self, beyond: &*self.setup.issuers };
        entra::exchange(&state, &self.keys, &issuers, tenant, form, v2, self.now()).await
    }

    /// Where uploads go.
    pub(crate) fn contents(&self) -> Contents {
        self.look(|s| s.data.contents.clone())
    }

    /// Writes a call to a data plane down, under the URL it was for.
    pub(crate) fn note_call(&self, call: &Call, url: &str, reply: &Reply, seen: Seen, now: Timestamp) {
        let call = Call { path: url.to_owned(), body: bytes::Bytes::new(), ..call.clone() };
        self.note(&call, reply, seen, now);
    }

    /// Resource Manager, but for what others answer for: see [`World::serve`].
    pub fn arm(&self, call: &Call) -> Reply {
        let now = self.now();
        if let Some(reply) = self.open_to_all(call) {
            return reply;
        }
        let (answer, seen) = self.gate(call, now, &Due::default());
        let reply = match answer {
            Answer::Reply(reply) | Answer::Drain(reply, _) => reply,
            Answer::Forward(f) => f.unreachable().reply(),
        };
        self.finish(call, reply, seen, now)
    }

    /// Resource Manager, with providers elsewhere.
    pub async fn serve(self: &Arc<World>, call: &Call) -> Reply {
        self.serve_under(call, &Due::default()).await
    }

    /// Resource Manager with all that goes wrong on the way; `None` if the connection breaks.
    pub async fn meet(self: &Arc<World>, call: Call) -> Option<Reply> {
        let inner = async |call: Call, due: Due| self.serve_under(&call, &due).await;
        around(self, "arm", call, inner).await
    }

    pub(crate) async fn serve_under(self: &Arc<World>, call: &Call, due: &Due) -> Reply {
        let now = self.now();
        if let Some(reply) = self.open_to_all(call) {
            return reply;
        }
        let (answer, seen) = self.gate(call, now, due);
        let reply = match answer {
            Answer::Reply(reply) => {
                provider::registration(self, call, &reply);
                reply
            }
            Answer::Drain(reply, drain) => {
                provider::drain(self, drain);
                reply
            }
            Answer::Forward(f) => provider::forward(self, *f, call).await,
        };
        self.finish(call, reply, seen, now)
    }

    /// What needs no token.
    fn open_to_all(&self, call: &Call) -> Option<Reply> {
        let path = call.path.trim_end_matches('/');
        path.eq_ignore_ascii_case("/metadata/endpoints").then(|| Reply::ok(metadata(&call.base)))
    }

    fn gate(&self, call: &Call, now: Timestamp, due: &Due) -> (Answer, Seen) {
        let caller = self.caller(call, now);
        let rules = Rules { profile: self.pace(), proxied: &self.providers, due };
        let reads = matches!(call.method, Method::GET | Method::HEAD);
        let stale = due.stale.filter(|_| reads).and_then(|how| self.history.lock().look(how, now));
        if let Some((mut then, at)) = stale {
            let (answer, seen) =
                gateway::handle(&mut then, &mut self.buckets.lock(), call, caller, at, &rules);
            return (answer, Seen { fault: due.text(), ..seen });
        }
        let mut outcome = None;
        let written = self.change(|state| {
            let before = (!reads).then(|| state.clone());
            let done = gateway::handle(state, &mut self.buckets.lock(), call, caller, now, &rules);
            if let (Some(before), Answer::Reply(reply) | Answer::Drain(reply, _)) = (before, &done.0)
                && reply.status.is_success()
            {
                self.history.lock().keep(before, now);
            }
            outcome = Some(done);
        });
        match (written, outcome) {
            (Ok(()), Some((answer, seen))) => (answer, Seen { fault: due.text(), ..seen }),
            (Err(error), _) => {
                tracing::error!(%error, "a request was refused: it cannot be remembered");
                (Answer::Reply(unremembered()), Seen::default())
            }
            (Ok(()), None) => (Answer::Reply(unremembered()), Seen::default()),
        }
    }

    fn finish(&self, call: &Call, reply: Reply, seen: Seen, now: Timestamp) -> Reply {
        self.note(call, &reply, seen, now);
        self.dressed(call, reply)
    }

    /// With the headers that every answer has.
    pub(crate) fn dressed(&self, call: &Call, reply: Reply) -> Reply {
        let now = self.now();
        let request = self.random.uuid();
        let correlation = call.header("x-ms-correlation-request-id").unwrap_or(&request).to_owned();
        let routing = format!("SIM:{}:{request}", now.strftime("%Y%m%dT%H%M%SZ"));
        // A provider's own request id is the one to ask it about.
        let request =
            reply.headers.get("x-ms-request-id").and_then(|v| v.to_str().ok()).unwrap_or(&request).to_owned();
        let mut reply = reply
            .with("x-ms-request-id", &request)
            .with("x-ms-correlation-request-id", &correlation)
            .with("x-ms-routing-request-id", &routing)
            .with("cache-control", "no-cache")
            .with("x-content-type-options", "nosniff");
        if call.header("x-ms-return-client-request-id").is_some_and(|v| v.eq_ignore_ascii_case("true"))
            && let Some(id) = call.header("x-ms-client-request-id")
        {
            reply = reply.with("x-ms-client-request-id", id);
        }
        reply
    }

    fn caller(&self, call: &Call, now: Timestamp) -> Result<Caller, Fault> {
        self.keys.authenticate(call.header("authorization"), &self.login.tenant, &call.base, now)
    }

    /// Entra ID.
    pub async fn login(&self, call: &Call) -> Reply {
        self.login_under(call, &Due::default()).await
    }

    pub(crate) async fn login_under(&self, call: &Call, due: &Due) -> Reply {
        let now = self.now();
        let reply = self.sign_in(call).await;
        // Who asked for a token is known by the application it named, whether it got one or not.
        let client = url::form_urlencoded::parse(&call.body).find(|(k, _)| k == "client_id");
        let principal = client.and_then(|(_, id)| {
            self.look(|state| state.directory.by_client(&id).map(|p| p.object_id.clone()))
        });
        self.note(call, &reply, Seen { principal, fault: due.text(), ..Seen::default() }, now);
        reply
    }

    fn note(&self, call: &Call, reply: &Reply, seen: Seen, began: Timestamp) {
        let micros = u64::try_from(self.now().duration_since(began).as_micros()).unwrap_or(0);
        self.journal.lock().add(call, reply, seen, began, micros);
    }

    async fn sign_in(&self, call: &Call) -> Reply {
        let words: Vec<&str> = call.path.trim_matches('/').split('/').collect();
        let tenant_id = &self.login.tenant;
        match (call.method.as_str(), words.as_slice()) {
            ("GET", ["common", "discovery", "instance"]) => Reply::ok(entra::instance(&call.base, tenant_id)),
            ("GET", [tenant, .., ".well-known", "openid-configuration"])
                if !entra::is_tenant(tenant_id, tenant) =>
            {
                let (trace, correlation) = (self.random.uuid(), self.random.uuid());
                let why = entra::Refusal::tenant(tenant);
                Reply::json(StatusCode::BAD_REQUEST, why.json(&trace, &correlation, self.now()))
            }
            ("GET", [_, "v2.0", ".well-known", "openid-configuration"]) => {
                Reply::ok(entra::discovery(&call.base, tenant_id, true))
            }
            ("GET", [_, ".well-known", "openid-configuration"]) => {
                Reply::ok(entra::discovery(&call.base, tenant_id, false))
            }
            ("GET", [_, "discovery", "v2.0", "keys"] | [_, "discovery", "keys"]) => {
                Reply::ok(self.keys.jwks())
            }
            ("POST", [tenant, "oauth2", rest @ ..]) if matches!(rest, ["v2.0", "token"] | ["token"]) => {
                let form: Vec<(String, String)> =
                    url::form_urlencoded::parse(&call.body).into_owned().collect();
                match self.token(tenant, &form, rest.len() == 2).await {
                    Ok(body) => Reply::ok(body).with("cache-control", "no-store, no-cache"),
                    Err(why) => {
                        let (trace, correlation) = (self.random.uuid(), self.random.uuid());
                        let given = call.header("client-request-id").unwrap_or(&correlation);
                        let status = StatusCode::from_u16(why.status).unwrap_or(StatusCode::BAD_REQUEST);
                        Reply::json(status, why.json(&trace, given, self.now()))
                    }
                }
            }
            _ => Reply::json(StatusCode::NOT_FOUND, json!({"error": "invalid_request"})),
        }
    }

    /// Graph. Its tokens are checked like Resource Manager's, for its own audience.
    pub fn graph(&self, call: &Call) -> Reply {
        self.graph_under(call, &Due::default())
    }

    pub(crate) fn graph_under(&self, call: &Call, due: &Due) -> Reply {
        let now = self.now();
        let (reply, principal) = self.directory(call, now);
        self.note(call, &reply, Seen { principal, fault: due.text(), ..Seen::default() }, now);
        reply
    }

    fn directory(&self, call: &Call, now: Timestamp) -> (Reply, Option<String>) {
        let audiences = [graph::AUDIENCE, graph::AUDIENCE_ID, call.base.as_str()];
        let header = call.header("authorization");
        let Some(caller) = self.keys.authenticate_for(header, &self.login.tenant, &audiences, now) else {
            let body = json!({"error": {"code": "InvalidAuthenticationToken", "message": "Access token is empty, invalid or expired."}});
            return (Reply::json(StatusCode::UNAUTHORIZED, body), None);
        };
        let mut reply = None;
        let written =
            self.change(|state| reply = Some(graph::handle(state, call, &caller, now, &self.random)));
        let reply = match (written, reply) {
            (Ok(()), Some(reply)) => reply,
            _ => unremembered(),
        };
        (reply, Some(caller.object_id))
    }

    /// CheckAccess, version 2: what somebody may do, by the evaluator that decides it.
    pub fn check_access(&self, call: &Call) -> Reply {
        let now = self.now();
        let own = [
            access::AUDIENCE,
            "https://management.azure.com",
            "https://management.core.windows.net",
            call.base.as_str(),
        ];
        let header = call.header("authorization");
        if self.keys.authenticate_for(header, &self.login.tenant, &own, now).is_none() {
            return access::refuse(
                StatusCode::UNAUTHORIZED,
                "The token is missing, invalid, expired or for another audience.",
            );
        }
        let mut state = self.state.lock().clone();
        state.settle(now);
        access::check(&state, call)
    }

    /// Where a resource's provider asks for the credentials of its identities: what `x-ms-identity-url` says.
    pub fn identity_url(&self, id: &arm::ResourceId, base: &str) -> String {
        self.look(|state| entra::identity_url(state, id, base))
    }

    /// The credential service of managed identities, for resource providers.
    pub async fn identity(&self, call: &Call) -> Reply {
        let now = self.now();
        let header = call.header("authorization");
        let audience = header
            .and_then(|h| entra::peek(h.strip_prefix("Bearer ")?))
            .and_then(|(_, claims)| claims["aud"].as_str().map(|a| a.trim_end_matches('/').to_owned()))
            .filter(|a| entra::is_identity_audience(a) || *a == call.base);
        let audiences: Vec<&str> = audience.iter().map(String::as_str).collect();
        let caller = self.keys.authenticate_for(header, &self.login.tenant, &audiences, now);
        let asked = call.clone();
        let mut keys = match caller.is_some() {
            true => {
                tokio::task::spawn_blocking(move || entra::identity_keys(&asked)).await.unwrap_or_default()
            }
            false => Vec::new(),
        };
        let done = self.change(|state| entra::identity_service(state, call, caller.as_ref(), &mut keys, now));
        done.unwrap_or_else(|_| unremembered())
    }

    /// What a machine's console said, for whoever has the link.
    pub fn console(&self, call: &Call) -> Reply {
        let mut parts = call.path.trim_matches('/').split('/').skip(1);
        let (vm, file) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let good = self.look(|state| call.query("sig") == Some(&crate::machines::signature(state, vm)));
        let log = self.boot_log(vm).filter(|_| good && file == "serialconsole.log");
        let Some(log) = log else { return Reply::empty(StatusCode::NOT_FOUND) };
        let mut reply = Reply::empty(StatusCode::OK).with("content-type", "text/plain; charset=utf-8");
        reply.raw = Some(log.into());
        reply
    }

    /// The public half of the signing keys.
    pub fn signing_keys(&self) -> Value {
        self.keys.jwks()
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

/// Issuers whose documents the simulator itself serves are asked in the process, others over the network.
struct Inside<'a> {
    world: &'a World,
    beyond: &'a dyn Issuers,
}

impl Issuers for Inside<'_> {
    fn get<'a>(
        &'a self,
        text: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Value, entra::FetchError>> + Send + 'a>> {
        Box::pin(async move {
            let own = url::Url::parse(text).ok().and_then(|url| self.world.published(&url));
            let Some(reply) = own else { return self.beyond.get(text).await };
            if reply.status != StatusCode::OK {
                let status = reply.status.as_u16();
                return Err(entra::FetchError::Status { url: text.to_owned(), status });
            }
            serde_json::from_slice(&reply.bytes()).map_err(|_| entra::FetchError::Body(text.to_owned()))
        })
    }
}

/// What the principals are called, by object id.
fn names<'a>(state: &State, ids: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, String> {
    ids.filter_map(|id| Some((id, state.directory.principal(id)?.name.clone()))).collect()
}

fn unremembered() -> Reply {
    let why = "The simulator cannot write to its data directory, so nothing was changed.";
    Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", why).reply()
}

/// `/metadata/endpoints`: how a client learns of a cloud it does not know.
fn metadata(base: &str) -> Value {
    json!({
        "name": "ZaffreSim", "resourceManager": base, "portal": base, "graph": base, "graphAudience": "https://graph.windows.net/",
        "microsoftGraphResourceId": base, "gallery": base, "batch": "https://batch.core.windows.net/", "media": base,
        "sqlManagement": "https://management.core.windows.net:8443/",
        "authentication": {
            "loginEndpoint": base, "audiences": ["https://management.core.windows.net/", "https://management.azure.com/"],
            "tenant": "common", "identityProvider": "AAD",
        },
        "suffixes": {
            "storage": "core.windows.net", "keyVaultDns": "vault.azure.net", "sqlServerHostname": "database.windows.net",
            "acrLoginServer": "azurecr.io", "azureDataLakeStoreFileSystem": "azuredatalakestore.net",
            "azureDataLakeAnalyticsCatalogAndJob": "azuredatalakeanalytics.net",
        },
    })
}
