//! Following token Secrets: payloads, rotation, results.

use crate::cache::{Payloads, Print};
use crate::metrics;
use crate::names::{TOKEN_PREFIX, annotation, input, key};
use crate::provider::{Ask, InputError, Inputs, PayloadProvider, Refused};
use crate::token::{self, Hidden, Next, Token};
use crate::{checks, data};
use apis::conditions::reason;
use aws_lc_rs::digest;
use bytes::Bytes;
use clock::{Random, SharedClock};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Api, Client};
use parking_lot::{Mutex, RwLock};
use reconcile::{
    Backoff, Controller, Failure, Handle, Kind, Metrics, Options, Outcome, Runtime, View, Waiting, Watch,
};
use serde_json::{Map, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub const PLANE: Kind =
    Kind::new("hypershift.openshift.io", "v1beta1", "HostedControlPlane", "hostedcontrolplanes");
const SECRET: Kind = Kind::of::<Secret>();
const CONFIG_MAP: Kind = Kind::of::<ConfigMap>();
const MANAGER: &str = "ignition-server";
/// After something failed that no watch tells of.
const AGAIN: SignedDuration = SignedDuration::from_secs(15);
/// What a NodePool is told when all is well.
const GENERATED: &str = "Payload generated successfully";

/// What the server works from.
pub struct Setup {
    pub client: Client,
    pub namespace: String,
    pub provider: Arc<dyn PayloadProvider>,
    pub clock: SharedClock,
    pub random: Random,
    pub metrics: Metrics,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {what} Secret {name}")]
    Secret { what: &'static str, name: String, source: Box<kube::Error> },
    #[error("cannot read what payloads are made of")]
    Inputs(#[from] InputError),
}

/// A token that is good.
#[derive(Clone)]
struct Entry {
    secret: Arc<str>,
    until: Timestamp,
}

/// What the port needs: who may have which payload. Cheap to share.
pub struct Door {
    pub(crate) clock: SharedClock,
    pub(crate) metrics: Metrics,
    /// By the token's digest.
    tokens: RwLock<HashMap<[u8; 32], Entry>>,
    prints: RwLock<BTreeMap<Arc<str>, Print>>,
    payloads: Payloads,
    /// Secrets whose payload was fetched, until that is written down.
    reached: Mutex<HashSet<Arc<str>>>,
    handle: OnceLock<Handle>,
    /// Pools that requests are counted for.
    pools: Mutex<HashSet<String>>,
}

/// What somebody who shows a token is given.
pub enum Given {
    Payload(Bytes),
    /// The token is good, and its payload is being made.
    NotYet,
    Unknown,
}

fn sha(bytes: &[u8]) -> [u8; 32] {
    digest::digest(&digest::SHA256, bytes).as_ref().try_into().unwrap_or_default()
}

impl Door {
    fn new(clock: SharedClock, metrics: Metrics) -> Door {
        Door {
            clock,
            metrics,
            tokens: RwLock::default(),
            prints: RwLock::default(),
            payloads: Payloads::default(),
            reached: Mutex::default(),
            handle: OnceLock::new(),
            pools: Mutex::default(),
        }
    }

    /// Whether a pool is one of the first so many.
    pub(crate) fn name_pool(&self, pool: &str, most: usize) -> bool {
        let mut pools = self.pools.lock();
        pools.contains(pool) || (pools.len() < most && pools.insert(pool.to_owned()))
    }

    /// What a token opens. A payload that is given away is noted.
    pub fn ask(&self, token: &[u8]) -> Given {
        let found = self.tokens.read().get(&sha(token)).cloned();
        let Some(entry) = found.filter(|e| self.clock.now() < e.until) else { return Given::Unknown };
        let print = self.prints.read().get(&entry.secret).copied();
        match print.and_then(|p| self.payloads.get(&p)) {
            Some(bytes) => {
                self.note(&entry.secret);
                Given::Payload(bytes)
            }
            None => {
                // It may have had to make room for others.
                self.poke(&entry.secret);
                Given::NotYet
            }
        }
    }

    fn poke(&self, secret: &str) {
        if let Some(handle) = self.handle.get() {
            handle.poke(secret);
        }
    }

    fn note(&self, secret: &Arc<str>) {
        if self.reached.lock().insert(secret.clone()) {
            self.poke(secret);
        }
    }

    /// Replaces what is known of a Secret's tokens.
    fn know(&self, name: &Arc<str>, good: &[(&Hidden, Timestamp)]) {
        let mut tokens = self.tokens.write();
        tokens.retain(|_, e| e.secret != *name);
        for (token, until) in good {
            tokens.insert(sha(token.expose()), Entry { secret: name.clone(), until: *until });
        }
    }

    fn forget(&self, name: &str) {
        let name: Arc<str> = name.into();
        self.know(&name, &[]);
        self.reached.lock().remove(&name);
        self.made(&name, None);
    }

    fn made(&self, name: &Arc<str>, print: Option<Print>) {
        let mut prints = self.prints.write();
        match print {
            Some(p) => prints.insert(name.clone(), p),
            None => prints.remove(name),
        };
        let needed: HashSet<Print> = prints.values().copied().collect();
        drop(prints);
        self.payloads.retain(|p| needed.contains(p));
        self.metrics.set(&metrics::CACHED, &[], i64::try_from(self.payloads.size()).unwrap_or(i64::MAX));
    }
}

struct Operator {
    setup: Setup,
    door: Arc<Door>,
    /// Versions of what payloads are made of.
    secrets: Arc<View<String>>,
    config_maps: Arc<View<String>>,
    planes: Arc<View<i64>>,
    tokens: Arc<View<String>>,
}

fn name_of(o: &DynamicObject) -> &str {
    o.metadata.name.as_deref().unwrap_or_default()
}

fn is_token(o: &DynamicObject) -> bool {
    let marked = o.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(annotation::IGNITION_CONFIG));
    name_of(o).starts_with(TOKEN_PREFIX) && marked
}

fn version_if(names: &'static [&'static str]) -> impl Fn(&DynamicObject) -> Option<String> {
    move |o| names.contains(&name_of(o)).then(|| o.metadata.resource_version.clone().unwrap_or_default())
}

/// Sets the server up in a runtime. What it returns is for [`crate::serve`].
pub fn start(runtime: &mut Runtime, setup: Setup) -> Arc<Door> {
    let door = Arc::new(Door::new(setup.clock.clone(), setup.metrics.clone()));
    let (client, namespace) = (setup.client.clone(), setup.namespace.clone());
    let secrets = View::new(version_if(&input::SECRETS));
    let config_maps = View::new(version_if(&input::CONFIG_MAPS));
    let planes = View::new(|o: &DynamicObject| o.metadata.generation);
    let tokens = View::new(|o: &DynamicObject| is_token(o).then(|| name_of(o).to_owned()));
    let operator = Arc::new(Operator {
        setup,
        door: door.clone(),
        secrets: secrets.clone(),
        config_maps: config_maps.clone(),
        planes: planes.clone(),
        tokens: tokens.clone(),
    });
    let backoff = Backoff { first: Duration::from_millis(250), last: Duration::from_secs(20) };
    let handle = runtime.controller(operator, Options { workers: 4, backoff, ..Options::default() });
    let _ = door.handle.set(handle.clone());
    let known = tokens.clone();
    // Whatever payloads are made of concerns all of them.
    let everybody = move |keys: &mut reconcile::Keys| {
        for name in known.all() {
            keys.push(name.as_str());
        }
    };
    let (of_secret, of_map, of_plane) = (everybody.clone(), everybody.clone(), everybody);
    let watch = Watch::metadata(&client, &SECRET).namespace(&namespace);
    let watch = watch.into_sink(secrets).into_sink(tokens).wakes(handle.keys(move |o, keys| {
        if is_token(o) {
            keys.push(name_of(o));
        } else if input::SECRETS.contains(&name_of(o)) {
            of_secret(keys);
        }
    }));
    runtime.watch(watch);
    let watch = Watch::metadata(&client, &CONFIG_MAP).namespace(&namespace).into_sink(config_maps);
    runtime.watch(watch.wakes(handle.keys(move |o, keys| {
        if input::CONFIG_MAPS.contains(&name_of(o)) {
            of_map(keys);
        }
    })));
    let watch = Watch::metadata(&client, &PLANE).namespace(&namespace).into_sink(planes);
    runtime.watch(watch.wakes(handle.keys(move |_, keys| of_plane(keys))));
    door
}

impl Controller for Operator {
    fn name(&self) -> &'static str {
        "ignition-tokens"
    }

    fn reconcile<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Outcome, Failure>> {
        Box::pin(self.run(key))
    }
}

fn failed(what: &'static str, name: &str) -> impl FnOnce(kube::Error) -> Error {
    let name = name.to_owned();
    move |e| Error::Secret { what, name, source: Box::new(e) }
}

fn is_code(e: &kube::Error, code: u16) -> bool {
    matches!(e, kube::Error::Api(s) if s.code == code)
}

impl Operator {
    fn api(&self) -> Api<Secret> {
        Api::namespaced(self.setup.client.clone(), &self.setup.namespace)
    }

    async fn run(&self, name: &str) -> Result<Outcome, Failure> {
        let there = self.tokens.get(&self.setup.namespace, name).is_some();
        let secret = match there {
            true => self.api().get_opt(name).await.map_err(failed("read", name))?,
            false => None,
        };
        let Some(secret) = secret.filter(|s| s.metadata.deletion_timestamp.is_none()) else {
            self.door.forget(name);
            return Ok(Outcome::Done);
        };
        let now = self.setup.clock.now();
        let token = match Token::read(&secret) {
            Ok(t) => t,
            Err(e) => {
                self.door.forget(name);
                let hint = "the NodePool controller writes this Secret; see its conditions";
                let on = Waiting::new(format!("Secret {name} to be usable: {e}"), hint, now);
                return Ok(Outcome::Waiting { on: vec![on], again: None });
            }
        };
        let until = match token::next(&token, now) {
            Next::Delete => return self.delete(&token).await,
            Next::Rotate { keep_old } => return self.rotate(&token, keep_old, now).await,
            Next::Serve { until } => until,
        };
        let shared: Arc<str> = name.into();
        self.door.know(&shared, &token.good_until());
        let made = self.payload(&token).await?;
        self.door.made(&shared, made.as_ref().ok().map(|(print, _)| *print));
        self.report(&token, &made.as_ref().map(|(_, bytes)| bytes.clone()).map_err(Clone::clone)).await?;
        let wait = until.duration_since(now).max(SignedDuration::from_millis(10));
        Ok(Outcome::After(match made {
            Err(r) if r.again => wait.min(AGAIN),
            _ => wait,
        }))
    }

    async fn delete(&self, token: &Token) -> Result<Outcome, Failure> {
        self.door.forget(&token.name);
        let only = Preconditions { resource_version: Some(token.resource_version.clone()), uid: None };
        let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
        match self.api().delete(&token.name, &params).await {
            Ok(_) => self.setup.metrics.count(&metrics::EXPIRED, &[]),
            // Somebody was faster, or changed its mind: the watch tells.
            Err(e) if is_code(&e, 404) || is_code(&e, 409) => {}
            Err(e) => return Err(failed("delete", &token.name)(e).into()),
        }
        Ok(Outcome::Done)
    }

    /// Another of us may do the same: only one write has the version that it was made for.
    async fn rotate(&self, token: &Token, keep_old: bool, now: Timestamp) -> Result<Outcome, Failure> {
        let old = keep_old.then(|| json!(base64(token.token.expose())));
        let patch = json!({
            "metadata": {"resourceVersion": token.resource_version,
                "annotations": {annotation::GENERATED: now.to_string()}},
            "data": {key::TOKEN: base64(self.setup.random.uuid().as_bytes()), key::OLD_TOKEN: old},
        });
        match self.patch(&token.name, &patch).await {
            Ok(()) => self.setup.metrics.count(&metrics::ROTATIONS, &[]),
            Err(e) if is_code(&e, 404) || is_code(&e, 409) => {}
            Err(e) => return Err(failed("rotate the token of", &token.name)(e).into()),
        }
        // The write comes back by the watch, and so does anybody else's.
        Ok(Outcome::Done)
    }

    async fn patch(&self, name: &str, patch: &serde_json::Value) -> Result<(), kube::Error> {
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        self.api().patch(name, &params, &Patch::Merge(patch)).await.map(drop)
    }

    fn print(&self, token: &Token) -> Print {
        let mut all = digest::Context::new(&digest::SHA256);
        let mut add = |bytes: &[u8]| {
            all.update(&u64::try_from(bytes.len()).unwrap_or_default().to_le_bytes());
            all.update(bytes);
        };
        for text in [token.config_version(), &token.release, &token.version, &token.os_stream] {
            add(text.as_bytes());
        }
        add(token.config.expose());
        for (key, hash) in &token.hashes {
            add(key.as_bytes());
            add(hash.as_bytes());
        }
        let namespace = &self.setup.namespace;
        for version in self.secrets.within(namespace).iter().chain(&self.config_maps.within(namespace)) {
            add(version.as_bytes());
        }
        for generation in self.planes.within(namespace) {
            add(&generation.to_le_bytes());
        }
        all.finish().as_ref().try_into().unwrap_or_default()
    }

    async fn payload(&self, token: &Token) -> Result<Result<(Print, Bytes), Refused>, Error> {
        let print = self.print(token);
        let made = self.door.payloads.get_or_make(print, self.make(token)).await;
        match made {
            Ok(bytes) => Ok(Ok((print, bytes))),
            Err(Trouble::Refused(r)) => Ok(Err(r)),
            Err(Trouble::Error(e)) => Err(e),
        }
    }

    async fn make(&self, token: &Token) -> Result<Bytes, Trouble> {
        let begun = self.setup.clock.now();
        self.setup.metrics.count(&metrics::MISSES, &[]);
        let config = data::unpack(token.config.expose())
            .map_err(|e| Refused::invalid(format!("key \"config\" of Secret {}: {e}", token.name)))?;
        let inputs = Inputs::read(&self.setup.client, &self.setup.namespace).await.map_err(Error::from)?;
        checks::agree(token, &inputs)?;
        let ask = Ask { token, config: &config, inputs: &inputs };
        let bytes = self.setup.provider.payload(ask).await?;
        let took = self.setup.clock.now().duration_since(begun);
        self.setup.metrics.observe(&metrics::GENERATION, &[], took.as_secs_f64());
        Ok(bytes)
    }

    /// Writes down how it went, once.
    async fn report(&self, token: &Token, made: &Result<Bytes, Refused>) -> Result<(), Error> {
        let (reason, message) = match made {
            Ok(_) => (reason::AS_EXPECTED, GENERATED),
            Err(r) => {
                self.setup.metrics.count(&metrics::FAILURES, &[r.reason]);
                (r.reason, r.message.as_str())
            }
        };
        let mut fresh = Map::new();
        for (key, was, is) in [(key::REASON, &token.reason, reason), (key::MESSAGE, &token.message, message)]
        {
            if was != is {
                fresh.insert(key.into(), base64(is.as_bytes()).into());
            }
        }
        // Nodes that stay are given the payload by others, through the API.
        let payload = made.as_ref().ok().filter(|_| token.in_place).map(|bytes| data::pack(bytes));
        if let Some(packed) = payload
            && token.payload.as_ref().is_none_or(|p| p.expose() != packed.as_bytes())
        {
            fresh.insert(key::PAYLOAD.into(), base64(packed.as_bytes()).into());
        }
        let name: Arc<str> = token.name.as_str().into();
        let reached = self.door.reached.lock().contains(&name);
        let mut patch = json!({});
        if !fresh.is_empty() {
            patch["data"] = fresh.into();
        }
        if reached && !token.reached {
            patch["metadata"] = json!({"annotations": {annotation::REACHED: "True"}});
        }
        if patch.as_object().is_some_and(|p| !p.is_empty()) {
            match self.patch(&token.name, &patch).await {
                Ok(()) => {}
                Err(e) if is_code(&e, 404) => {}
                Err(e) => return Err(failed("write results to", &token.name)(e)),
            }
        }
        if reached {
            self.door.reached.lock().remove(&name);
        }
        Ok(())
    }
}

enum Trouble {
    Refused(Refused),
    Error(Error),
}

impl From<Refused> for Trouble {
    fn from(r: Refused) -> Trouble {
        Trouble::Refused(r)
    }
}

impl From<Error> for Trouble {
    fn from(e: Error) -> Trouble {
        Trouble::Error(e)
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
