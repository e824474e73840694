//! Long-running operations: accepted, pending, done.

use crate::kinds::Operations;
use crate::state::{Key, Phase, State};
use arm::ErrorDetail;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// What happens when an operation ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Effect {
    /// The resource, or a part of it, is provisioned.
    Settle(Key),
    /// Was done when it was accepted.
    Nothing,
    /// It fails, and leaves the resource so.
    Fail(Key, Box<ErrorDetail>),
    /// The resource is gone.
    Remove(Key),
    /// An element of an embedded list is gone.
    RemovePart(Key, Box<str>, Box<str>),
    /// A resource group is gone with all it contains.
    RemoveGroup(Key),
    /// A resource group loses some of what it contains, and the deletion fails.
    RemoveSome(Key, Box<ErrorDetail>),
    /// A provider is registered in a subscription.
    Register(Box<str>, Box<str>),
    /// An action on a resource is done.
    Act(Key, Box<str>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Operation {
    pub id: Arc<str>,
    pub due: Option<Timestamp>,
    pub effect: Effect,
    pub outcome: Option<Result<(), Box<ErrorDetail>>>,
    /// Seconds for `Retry-After` while it runs.
    pub retry: u32,
    /// Whether its status is answered with 202 while it runs.
    pub accepted: bool,
    /// Such as `PutSubnetOperation`, for the errors that name it.
    pub name: Arc<str>,
    /// Which of those due at the same time comes first.
    #[serde(default)]
    pub serial: u64,
    /// When it ended.
    #[serde(default)]
    pub ended: Option<Timestamp>,
    /// Whether it waits until providers elsewhere have deleted what is theirs.
    #[serde(default)]
    pub drains: bool,
    /// The resource that its result shows.
    #[serde(default)]
    pub shows: Option<Key>,
    /// Since when, of those whose status says so.
    #[serde(default)]
    pub started: Option<Timestamp>,
    /// What its status shows when it is over.
    #[serde(default)]
    pub output: Option<Key>,
    /// What its status says when it is over, if that is no resource.
    #[serde(default)]
    pub said: Option<Box<Value>>,
}

impl Operation {
    pub fn new(id: Arc<str>, due: Option<Timestamp>, effect: Effect, name: Arc<str>) -> Operation {
        Operation {
            id,
            due,
            effect,
            outcome: None,
            retry: 0,
            accepted: false,
            name,
            serial: 0,
            ended: None,
            drains: false,
            shows: None,
            started: None,
            output: None,
            said: None,
        }
    }
}

/// An operation is a version of itself: another allocation is another version.
impl PartialEq for Operation {
    fn eq(&self, other: &Operation) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Operation {}

impl Effect {
    /// What it is about.
    pub fn about(&self) -> &str {
        match self {
            Effect::Settle(key)
            | Effect::Fail(key, _)
            | Effect::Remove(key)
            | Effect::RemovePart(key, ..)
            | Effect::RemoveGroup(key)
            | Effect::RemoveSome(key, _)
            | Effect::Act(key, _) => key,
            Effect::Register(_, namespace) => namespace,
            Effect::Nothing => "",
        }
    }
}

/// Carries out the effect; an error is the operation's failure.
pub fn apply(state: &mut State, op: &Operation, at: Timestamp) -> Result<(), Box<ErrorDetail>> {
    match &op.effect {
        Effect::Nothing => {}
        Effect::Settle(key) => settle(state, key, Phase::Succeeded, at),
        Effect::Fail(key, why) => {
            settle(state, key, Phase::Failed, at);
            return Err(why.clone());
        }
        Effect::Remove(key) => state.remove(key, at),
        Effect::Act(key, action) => {
            // An action writes nothing: it only leaves the resource idle.
            if let Some(old) = state.get(key).cloned() {
                let mut record = (*old).clone();
                record.phase = Phase::Succeeded;
                record.busy = None;
                state.replace(record);
                old.kind.rules.acted(state, key, action, at);
            }
        }
        Effect::RemovePart(key, list, name) => remove_part(state, key, list, name),
        Effect::RemoveGroup(key) => return remove_group(state, key, at),
        Effect::RemoveSome(key, why) => {
            remove_some(state, key, at);
            settle(state, key, Phase::Succeeded, at);
            return Err(why.clone());
        }
        Effect::Register(subscription, namespace) => {
            state.registrations.insert((subscription.to_string(), namespace.to_string()), "Registered");
        }
    }
    Ok(())
}

fn settle(state: &mut State, key: &Key, phase: Phase, at: Timestamp) {
    let Some(old) = state.get(key).cloned() else { return };
    state.bump(key);
    let mut record = (*old).clone();
    if phase == Phase::Succeeded || !matches!(record.kind.operations, Operations::Compute) {
        record.kind.rules.settled(state, &mut record);
    }
    record.phase = phase;
    record.busy = None;
    record.etag = state.guid(key, "etag");
    let kind = record.kind;
    state.replace(record);
    kind.rules.after(state, key, at);
}

fn remove_part(state: &mut State, key: &Key, list: &str, name: &str) {
    let Some(old) = state.get(key).cloned() else { return };
    state.bump(key);
    let mut record = (*old).clone();
    let elements =
        record.doc.get_mut("properties").and_then(|p| p.get_mut(list)).and_then(Value::as_array_mut);
    if let Some(elements) = elements {
        elements.retain(|e| !e["name"].as_str().is_some_and(|n| n.eq_ignore_ascii_case(name)));
    }
    record.phase = Phase::Succeeded;
    record.busy = None;
    record.etag = state.guid(key, "etag");
    let edges = crate::kinds::edges(record.kind, &record.id, &record.doc);
    record.targets = crate::kinds::targets(&edges);
    state.put(record, edges);
}

/// Every other resource of a group goes, as far as nothing refers to it: what is left is whole.
fn remove_some(state: &mut State, group: &Key, at: Timestamp) {
    let roots: Vec<Key> =
        state.below(group).filter(|r| r.id.root() == r.id).map(|r| r.id.key().clone()).collect();
    for key in roots.iter().step_by(2) {
        if state.used_by(key, key).is_none() {
            state.remove(key, at);
        }
    }
}

fn remove_group(state: &mut State, key: &Key, at: Timestamp) -> Result<(), Box<ErrorDetail>> {
    if let Some(user) = state.used_by(key, key).cloned() {
        settle(state, key, Phase::Succeeded, at);
        let name = key.rsplit('/').next().unwrap_or_default();
        return Err(Box::new(ErrorDetail::new(
            "ResourceGroupDeletionBlocked",
            format!(
                "Deletion of resource group '{name}' failed as resources with identifiers '{}' could not be deleted: they are used by '{}'.",
                user.target, user.text
            ),
        )));
    }
    state.remove(key, at);
    Ok(())
}
