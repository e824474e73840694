//! Changes of the state as they are written down: the difference of two states, and its way back.
//!
//! Only what cannot be computed is written. Indices, edges, role assignments and custom roles follow from the
//! records, so that they cannot disagree with them.

use crate::kinds;
use crate::machines::Event;
use crate::rbac::{Assignment, Lingering, Permission, Role};
use crate::state::{App, Key, Operation, Phase, Principal, Record, State, Subscription};
use crate::trouble::Rule;
use arm::ResourceId;
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error("a record is of the type '{0}', which this version does not know")]
    Kind(String),
    #[error("'{0}' is not a state of registration")]
    Registration(String),
}

#[derive(Serialize, Deserialize)]
pub struct Stored {
    id: ResourceId,
    kind: String,
    doc: Map<String, Value>,
    etag: String,
    phase: Phase,
    busy: Option<(Arc<str>, Option<(String, String)>)>,
    by: Arc<str>,
    at: Timestamp,
    changed_by: Arc<str>,
    changed_at: Timestamp,
    seeded: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    Record(Box<Stored>),
    NoRecord(Key),
    Operation(Box<Operation>),
    NoOperation(Arc<str>),
    Generation(Key, u32),
    Registration(String, String, String),
    Subscription(Box<Subscription>),
    App(Box<App>),
    NoApp(String),
    Principal(Box<Principal>),
    NoPrincipal(String),
    Data(Arc<str>, Box<crate::planes::Datum>),
    NoData(Arc<str>),
    MachineEvent(Box<Event>),
    NoMachineEvent(u64),
    Quota(String, u64),
    /// A right that was taken away and is still enforced.
    Lingering(Key, Lingering),
    NoLingering(Key),
    /// Whether a runtime says when machines have booted.
    BootsAwaited(bool),
    /// Milliseconds that the clock was moved ahead.
    Ahead(i64),
    /// How many times as fast it runs.
    Scale(f64),
    /// What is to go wrong.
    Faults(Faults),
}

/// Fault rules, and the profile they were made in: its own come and go with it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Faults {
    pub profile: String,
    pub rules: Vec<Rule>,
}

/// What is remembered beside the state.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Milliseconds that the clock was moved ahead.
    pub ahead: i64,
    pub scale: Option<f64>,
    pub faults: Option<Faults>,
}

impl Beside {
    pub fn changes(self) -> Vec<Change> {
        let mut all = vec![Change::Ahead(self.ahead)];
        all.extend(self.scale.map(Change::Scale));
        all.extend(self.faults.map(Change::Faults));
        all
    }
}

fn stored(r: &Record) -> Change {
    Change::Record(Box::new(Stored {
        id: r.id.clone(),
        kind: r.kind.full(),
        doc: r.doc.clone(),
        etag: r.etag.clone(),
        phase: r.phase.clone(),
        busy: r.busy.as_deref().cloned(),
        by: r.created_by.clone(),
        at: r.created,
        changed_by: r.changed_by.clone(),
        changed_at: r.changed,
        seeded: r.seeded,
    }))
}

fn differ<K: Ord + Clone, V: PartialEq>(
    out: &mut Vec<Change>,
    (old, new): (&OrdMap<K, V>, &OrdMap<K, V>),
    put: impl Fn(&K, &V) -> Change,
    gone: impl Fn(&K) -> Option<Change>,
) {
    // Shared parts are not looked at, so this costs what changed.
    for item in old.diff(new) {
        match item {
            DiffItem::Add(k, v) | DiffItem::Update { new: (k, v), .. } => out.push(put(k, v)),
            DiffItem::Remove(k, _) => out.extend(gone(k)),
        }
    }
}

/// What leads from `old` to `new`.
pub fn between(old: &State, new: &State) -> Vec<Change> {
    let mut out = Vec::new();
    let o = &mut out;
    differ(
        o,
        (&old.subscriptions, &new.subscriptions),
        |_, s| Change::Subscription(Box::new(s.clone())),
        |_| None,
    );
    differ(
        o,
        (&old.registrations, &new.registrations),
        |(s, n), w| Change::Registration(s.clone(), n.clone(), (*w).to_owned()),
        |_| None,
    );
    differ(o, (&old.records, &new.records), |_, r| stored(r), |k| Some(Change::NoRecord(k.clone())));
    differ(
        o,
        (&old.operations, &new.operations),
        |_, p| Change::Operation(Box::new((**p).clone())),
        |k| Some(Change::NoOperation(k.clone())),
    );
    differ(
        o,
        (&old.data.map, &new.data.map),
        |k, d| Change::Data(k.clone(), Box::new((**d).clone())),
        |k| Some(Change::NoData(k.clone())),
    );
    differ(o, (&old.generations, &new.generations), |k, n| Change::Generation(k.clone(), *n), |_| None);
    differ(
        o,
        (&old.assignments.lingering, &new.assignments.lingering),
        |k, l| Change::Lingering(k.clone(), (**l).clone()),
        |k| Some(Change::NoLingering(k.clone())),
    );
    let (was, is) = (&old.directory, &new.directory);
    differ(
        o,
        (&was.apps, &is.apps),
        |_, a| Change::App(Box::new((**a).clone())),
        |k| Some(Change::NoApp(k.clone())),
    );
    differ(
        o,
        (&was.principals, &is.principals),
        |_, p| Change::Principal(Box::new((**p).clone())),
        |k| Some(Change::NoPrincipal(k.clone())),
    );
    let (was, is) = (&old.machines, &new.machines);
    differ(
        o,
        (&was.events, &is.events),
        |_, e| Change::MachineEvent(Box::new((**e).clone())),
        |n| Some(Change::NoMachineEvent(*n)),
    );
    differ(o, (&was.quotas, &is.quotas), |k, n| Change::Quota(k.clone(), *n), |_| None);
    if was.awaited != is.awaited {
        out.push(Change::BootsAwaited(is.awaited));
    }
    out
}

/// The words a registration can be in.
fn word(text: &str) -> Option<&'static str> {
    ["Registered", "Registering", "NotRegistered", "Unregistering"].into_iter().find(|w| *w == text)
}

/// Puts a change back.
pub fn apply(state: &mut State, beside: &mut Beside, change: Change) -> Result<(), ChangeError> {
    match change {
        Change::Record(s) => put(state, *s)?,
        Change::NoRecord(key) => {
            let role = state.get(&key).filter(|r| r.id.resource_type().is(kinds::DEFINITIONS)).cloned();
            if let Some(r) = role {
                state.assignments.roles.remove(&r.id.name().to_lowercase());
            }
            state.forget_record(&key);
        }
        Change::Operation(op) => state.restore_operation(*op),
        Change::NoOperation(id) => state.forget_operation(&id),
        Change::Generation(key, n) => {
            state.generations.insert(key, n);
        }
        Change::Registration(s, ns, text) => {
            let word = word(&text).ok_or(ChangeError::Registration(text))?;
            state.registrations.insert((s, ns), word);
        }
        Change::Subscription(s) => {
            state.subscriptions.insert(s.id.to_lowercase(), *s);
        }
        Change::App(a) => state.directory.add_app(*a),
        Change::NoApp(client) => {
            state.directory.apps.remove(&client);
        }
        Change::Principal(p) => state.directory.add(*p),
        Change::NoPrincipal(object) => state.directory.remove_principal(&object),
        Change::Data(key, datum) => state.data.put(&key, *datum),
        Change::NoData(key) => {
            state.data.remove(&key);
        }
        Change::MachineEvent(e) => state.machines.add(*e),
        Change::NoMachineEvent(n) => {
            state.machines.events.remove(&n);
        }
        Change::Quota(key, n) => {
            state.machines.quotas.insert(key, n);
        }
        Change::Lingering(key, l) => {
            state.assignments.lingering.insert(key, Arc::new(l));
        }
        Change::NoLingering(key) => {
            state.assignments.lingering.remove(&key);
        }
        Change::BootsAwaited(awaited) => state.machines.awaited = awaited,
        Change::Ahead(ms) => beside.ahead = ms,
        Change::Scale(scale) => beside.scale = Some(scale),
        Change::Faults(faults) => beside.faults = Some(faults),
    }
    Ok(())
}

fn put(state: &mut State, s: Stored) -> Result<(), ChangeError> {
    let kind = kinds::stored_kind(&s.kind).ok_or_else(|| ChangeError::Kind(s.kind.clone()))?;
    let edges = kinds::edges(kind, &s.id, &s.doc);
    let [by, changed_by] = [&s.by, &s.changed_by].map(|t| state.share(t));
    let record = Record {
        kind,
        targets: kinds::targets(&edges),
        id: s.id,
        doc: s.doc,
        etag: s.etag,
        phase: s.phase,
        busy: s.busy.map(Box::new),
        created_by: by,
        created: s.at,
        changed_by,
        changed: s.changed_at,
        seeded: s.seeded,
    };
    if record.id.resource_type().is(kinds::ASSIGNMENTS) {
        let text = |f: &str| record.property(f).and_then(Value::as_str).unwrap_or_default().to_owned();
        let role = text("roleDefinitionId");
        state.assignments.add(Assignment {
            id: record.id.key().clone(),
            principal: text("principalId"),
            role: role.rsplit('/').next().unwrap_or_default().to_lowercase(),
            scope: record.id.extended().map_or_else(|| "".into(), |s| s.key().clone()),
            since: match record.seeded {
                true => Timestamp::MIN,
                false => state.lags.rights(state.seed, record.id.key(), record.created),
            },
        });
    }
    if record.id.resource_type().is(kinds::DEFINITIONS) {
        let given = record.property("permissions").and_then(Value::as_array);
        let id = record.id.name().to_lowercase();
        let role = Role {
            id: id.clone(),
            name: record.property("roleName").and_then(Value::as_str).unwrap_or_default().to_owned(),
            builtin: false,
            permissions: given.into_iter().flatten().map(Permission::read).collect(),
        };
        state.assignments.roles.insert(id, Arc::new(role));
    }
    state.put(record, edges);
    Ok(())
}
