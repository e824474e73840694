//! From a goal to how it went.

use arm::ResourceId;
use azure::plan::{self, Goal, Observed, PlanError, StepResult};
use serde_json::Value;
use std::collections::BTreeMap;

/// Calls to Azure at a time, for one link.
const PARALLEL: usize = 4;

/// Why nothing was tried.
#[derive(Debug)]
pub enum Failed {
    /// What is there could not be seen.
    Look(ResourceId, azure::Error),
    Plan(PlanError),
}

/// How it went.
#[derive(Debug, Default)]
pub struct Reached {
    failed: Vec<(ResourceId, azure::Error)>,
    /// What was not tried, because of what failed.
    skipped: BTreeMap<ResourceId, ResourceId>,
    bodies: BTreeMap<ResourceId, Value>,
}

impl Reached {
    /// The error that keeps this from being so: its own, or that of what it waits for.
    pub fn error(&self, id: &ResourceId) -> Option<(&ResourceId, &azure::Error)> {
        let mut id = id;
        // A chain of waits is no longer than there are steps.
        for _ in 0..=self.skipped.len() {
            match self.skipped.get(id) {
                Some(because) => id = because,
                None => break,
            }
        }
        self.failed.iter().find(|(i, _)| i == id).map(|(i, e)| (i, e))
    }

    pub fn first(&self) -> Option<(&ResourceId, &azure::Error)> {
        self.failed.first().map(|(i, e)| (i, e))
    }

    pub fn body(&self, id: &ResourceId) -> Option<&Value> {
        self.bodies.get(id)
    }
}

/// Looks, compares, and does what differs.
pub async fn reach(client: &azure::Client, goal: &Goal) -> Result<Reached, Failed> {
    let seen = plan::observe(client, goal, PARALLEL).await;
    let seen: Observed = seen.map_err(|failed| match failed.into_iter().next() {
        Some((id, e)) => Failed::Look(id, e),
        // Nothing failed, and yet it did.
        None => Failed::Plan(PlanError::Cycle(Vec::new())),
    })?;
    let plan = plan::plan(goal, &seen).map_err(Failed::Plan)?;
    let report = plan::apply(&plan, client, PARALLEL).await;
    let mut reached = Reached { bodies: seen.into_iter().collect(), ..Reached::default() };
    reached.bodies.extend(report.resources);
    for (id, result) in report.results {
        match result {
            StepResult::Failed(e) => reached.failed.push((id, e)),
            StepResult::Skipped { because } => drop(reached.skipped.insert(id, because)),
            StepResult::Deleted => drop(reached.bodies.remove(&id)),
            StepResult::Created | StepResult::Kept | StepResult::Changed => {}
        }
    }
    Ok(reached)
}
