//! What would change, before it is changed.
//!
//! A [`Goal`] says what should exist and what should not; [`observe`] looks; [`plan`] compares, purely, and gives a
//! [`Plan`]: a value that can be shown, stored, tested, and applied. Nothing is decided while applying.
//!
//! Desired bodies are partial: a field that is not mentioned is left as it is, so defaults and generated fields never
//! show as differences. A change writes what is there merged with what is wanted, under the etag that was seen.
//! Order comes from the ids themselves: a resource waits for its parent, for what its body refers to, and (since
//! Azure allows one writer per tree) for its siblings. Values that exist only after a step are written as
//! `{"$ref": {"id": "...", "at": "/properties/principalId"}}` (see [`reference()`]) and filled in while applying.
//!
//! Rejected: deployments (ARM templates) for this: their `what-if` cannot see identities across tenants, their errors
//! come at the end, and a partial failure leaves nothing to resume.

mod apply;
mod diff;
mod order;

pub use apply::{Event, Hands, Report, Result as StepResult, apply, apply_watched, observe};
pub use diff::Difference;

use crate::ops::{ArmType, Row};
use arm::{ApiVersion, ResourceId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("{0} is wanted twice")]
    Twice(ResourceId),
    #[error("{0} is of a type without a known api-version: give one")]
    Version(ResourceId),
    #[error("{wanted} is wanted, but {unwanted}, which it needs, is not")]
    Contradiction { wanted: ResourceId, unwanted: ResourceId },
    #[error("these wait for each other: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Cycle(Vec<ResourceId>),
    #[error("the body wanted for {0} is not an object")]
    Body(ResourceId),
    #[error("{id} refers to '{at}' of {of}, which is not part of the plan and does not have it")]
    Reference { id: ResourceId, of: ResourceId, at: String },
}

/// One resource that should exist.
#[derive(Clone, Debug)]
pub struct Desired {
    pub id: ResourceId,
    /// By default that of the type's row.
    pub version: Option<ApiVersion>,
    /// What should be so; everything else may be as it is.
    pub body: Value,
    /// What must be done first and cannot be seen in the body.
    pub after: Vec<ResourceId>,
}

impl Desired {
    pub fn new(id: ResourceId, body: Value) -> Desired {
        Desired { id, version: None, body, after: Vec::new() }
    }

    pub fn typed<T: ArmType>(id: ResourceId, body: &T::Body) -> Result<Desired, serde_json::Error> {
        Ok(Desired::new(id, serde_json::to_value(body)?))
    }

    #[must_use]
    pub fn after(mut self, id: ResourceId) -> Desired {
        self.after.push(id);
        self
    }

    #[must_use]
    pub fn at(mut self, version: ApiVersion) -> Desired {
        self.version = Some(version);
        self
    }
}

/// A value that a step will give: `at` is a JSON pointer into the resource `id`.
pub fn reference(id: &ResourceId, at: &str) -> Value {
    json!({"$ref": {"id": id, "at": at}})
}

/// What should be.
#[derive(Clone, Debug, Default)]
pub struct Goal {
    pub present: Vec<Desired>,
    pub absent: Vec<(ResourceId, Option<ApiVersion>)>,
    /// Deletes that wait for others though no body shows why: `(first, later)`. Groups refer to each other by what is
    /// in them.
    pub deletes: Vec<(ResourceId, ResourceId)>,
}

impl Goal {
    #[must_use]
    pub fn present(mut self, d: Desired) -> Goal {
        self.present.push(d);
        self
    }

    #[must_use]
    pub fn absent(mut self, id: ResourceId) -> Goal {
        self.absent.push((id, None));
        self
    }

    fn targets(&self) -> impl Iterator<Item = (&ResourceId, Option<&ApiVersion>)> {
        let present = self.present.iter().map(|d| (&d.id, d.version.as_ref()));
        present.chain(self.absent.iter().map(|(id, v)| (id, v.as_ref())))
    }
}

/// What was seen; what is not in it does not exist.
pub type Observed = BTreeMap<ResourceId, Value>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "do")]
pub enum Action {
    Create {
        body: Value,
    },
    Keep,
    /// As wanted, but still being provisioned (by an earlier run, perhaps): others wait until it is done.
    Await,
    Change {
        body: Value,
        differences: Vec<Difference>,
        etag: Option<String>,
    },
    Delete,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub id: ResourceId,
    pub api_version: String,
    pub action: Action,
    /// Steps that must have succeeded first.
    pub after: Vec<usize>,
}

/// What would be done, in an order in which it could be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub steps: Vec<Step>,
}

impl Plan {
    /// Whether all is as it should be.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(|s| matches!(s.action, Action::Keep | Action::Await))
    }

    pub fn step(&self, id: &ResourceId) -> Option<&Step> {
        self.steps.iter().find(|s| s.id == *id)
    }
}

/// For people: a line per step, a line per difference. Bodies are not shown, they may hold secrets.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for s in &self.steps {
            match &s.action {
                Action::Create { .. } => writeln!(f, "+ {}", s.id)?,
                Action::Keep => writeln!(f, "= {}", s.id)?,
                Action::Await => writeln!(f, "… {}", s.id)?,
                Action::Delete => writeln!(f, "- {}", s.id)?,
                Action::Change { differences, .. } => {
                    writeln!(f, "~ {}", s.id)?;
                    for d in differences {
                        writeln!(f, "    {d}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn version(id: &ResourceId, given: Option<&ApiVersion>) -> Result<String, PlanError> {
    match (given, Row::of(id)) {
        (Some(v), _) => Ok(v.as_str().to_owned()),
        (None, Some(row)) => Ok(row.api_version.to_owned()),
        (None, None) => Err(PlanError::Version(id.clone())),
    }
}

/// Compares what should be with what is.
pub fn plan(goal: &Goal, observed: &Observed) -> Result<Plan, PlanError> {
    let mut seen = std::collections::BTreeSet::new();
    for (id, _) in goal.targets() {
        if !seen.insert(id) {
            return Err(PlanError::Twice(id.clone()));
        }
    }
    let wanted: Vec<&ResourceId> = goal.present.iter().map(|d| &d.id).collect();
    let mut steps = Vec::new();
    let mut needs = Vec::new();
    for d in &goal.present {
        let api_version = version(&d.id, d.version.as_ref())?;
        if !d.body.is_object() {
            return Err(PlanError::Body(d.id.clone()));
        }
        let mut body = d.body.clone();
        let refers = order::references(&d.id, &d.body);
        fill(&mut body, &d.id, &wanted, observed)?;
        let action = match observed.get(&d.id) {
            None => Action::Create { body },
            Some(actual) => {
                let hidden = Row::of(&d.id).map_or(&[][..], |r| r.write_only);
                diff::action(&d.id, &body, actual, &wanted, hidden)
            }
        };
        steps.push(Step { id: d.id.clone(), api_version, action, after: Vec::new() });
        needs.push(order::Needs { ids: refers.into_iter().chain(d.after.iter().cloned()).collect() });
    }
    for (id, v) in &goal.absent {
        let api_version = version(id, v.as_ref())?;
        // What is not there needs no step.
        if observed.contains_key(id) {
            steps.push(Step { id: id.clone(), api_version, action: Action::Delete, after: Vec::new() });
            needs.push(order::Needs { ids: Vec::new() });
        }
    }
    let absent: Vec<&ResourceId> = goal.absent.iter().map(|(id, _)| id).collect();
    order::contradictions(&steps, &needs, &absent)?;
    order::sort(steps, &needs, &goal.deletes, observed)
}

/// Puts values that are known already in place of references to them.
fn fill(
    body: &mut Value,
    id: &ResourceId,
    wanted: &[&ResourceId],
    observed: &Observed,
) -> Result<(), PlanError> {
    let mut missing = None;
    apply::substitute(body, &mut |of, at| {
        let found = observed.get(of).and_then(|v| v.pointer(at)).filter(|v| !v.is_null());
        if found.is_none() && !wanted.contains(&of) {
            missing = Some(PlanError::Reference { id: id.clone(), of: of.clone(), at: at.to_owned() });
        }
        found.cloned()
    });
    missing.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests;
