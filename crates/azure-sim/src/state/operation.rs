//! Long-running operations: accepted, pending, done.

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
    RemovePart(Key, String, String),
    /// A resource group is gone with all it contains.
    RemoveGroup(Key),
    /// A resource group loses some of what it contains, and the deletion fails.
    RemoveSome(Key, Box<ErrorDetail>),
    /// A provider is registered in a subscription.
    Register(String, String),
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
            | Effect::RemoveSome(key, _) => key,
            Effect::Register(_, namespace) => namespace,
            Effect::Nothing => "",
        }
    }
}

/// Carries out the effect; an error is the operation's failure.
pub fn apply(state: &mut State, op: &Operation) -> Result<(), Box<ErrorDetail>> {
    match &op.effect {
        Effect::Nothing => {}
        Effect::Settle(key) => settle(state, key, Phase::Succeeded),
        Effect::Fail(key, why) => {
            settle(state, key, Phase::Failed);
            return Err(why.clone());
        }
        Effect::Remove(key) => state.remove(key),
        Effect::RemovePart(key, list, name) => remove_part(state, key, list, name),
        Effect::RemoveGroup(key) => return remove_group(state, key),
        Effect::RemoveSome(key, why) => {
            remove_some(state, key);
            settle(state, key, Phase::Succeeded);
            return Err(why.clone());
        }
        Effect::Register(subscription, namespace) => {
            state.registrations.insert((subscription.clone(), namespace.clone()), "Registered");
        }
    }
    Ok(())
}

fn settle(state: &mut State, key: &Key, phase: Phase) {
    let Some(old) = state.get(key).cloned() else { return };
    state.bump(key);
    let mut record = (*old).clone();
    record.kind.rules.settled(state, &mut record);
    record.phase = phase;
    record.busy = None;
    record.etag = state.guid(key, "etag");
    state.replace(record);
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
fn remove_some(state: &mut State, group: &Key) {
    let roots: Vec<Key> =
        state.below(group).filter(|r| r.id.root() == r.id).map(|r| r.id.key().clone()).collect();
    for key in roots.iter().step_by(2) {
        if state.used_by(key, key).is_none() {
            state.remove(key);
        }
    }
}

fn remove_group(state: &mut State, key: &Key) -> Result<(), Box<ErrorDetail>> {
    if let Some(user) = state.used_by(key, key).cloned() {
        settle(state, key, Phase::Succeeded);
        let name = key.rsplit('/').next().unwrap_or_default();
        return Err(Box::new(ErrorDetail::new(
            "ResourceGroupDeletionBlocked",
            format!(
                "Deletion of resource group '{name}' failed as resources with identifiers '{}' could not be deleted: they are used by '{}'.",
                user.target, user.text
            ),
        )));
    }
    state.remove(key);
    Ok(())
}
