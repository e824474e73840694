//! Doing it: plan, rights, steps; again if somebody was quicker.

use crate::Error;
use crate::extras::Extra;
use crate::iam::{self, Iam};
use crate::identities::WorkloadIdentities;
use crate::infra::{Facts, Infra};
use crate::patience::{Patient, Wait};
use crate::rights;
use crate::survey::{self, Survey};
use arm::ResourceId;
use azure::Client;
use azure::plan::{Event, Observed, Plan, Report, Step, StepResult, apply_watched, plan};
use serde_json::Value;
use std::time::Duration;

/// What happens, for whoever watches.
#[derive(Debug)]
pub enum Progress<'a> {
    /// What is going to be done; told again if it has to be planned again.
    Planned(&'a Plan),
    Started(&'a Step),
    Waiting {
        id: &'a ResourceId,
        why: &'a str,
        pause: Duration,
    },
    Finished(&'a Step, &'a StepResult),
    /// Something outside of Resource Manager was done.
    Extra(&'a Extra),
}

pub type Watch<'a> = &'a (dyn Fn(Progress<'_>) + Sync);

/// How a run is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// At most this many steps at once.
    pub parallel: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { parallel: 16 }
    }
}

/// Somebody else may change things between looking and writing; then it is looked again.
const ROUNDS: usize = 3;

/// How it went, and everything as it is now.
#[derive(Debug)]
pub struct Outcome {
    pub plan: Plan,
    pub report: Report,
    pub observed: Observed,
    pub survey: Survey,
}

impl Outcome {
    pub fn is_good(&self) -> bool {
        self.report.is_good()
    }

    /// A resource as it is now.
    pub fn look(&self, id: &ResourceId) -> Option<Value> {
        self.report.resources.get(id).or_else(|| self.observed.get(id)).cloned()
    }
}

/// Does a plan that was looked at.
pub async fn carry_out(
    client: &Client,
    plan: &Plan,
    options: Options,
    watch: Watch<'_>,
) -> Result<Report, Error> {
    if !plan.is_empty() {
        let missing = rights::missing(client, &rights::needed(plan)).await?;
        if !missing.is_empty() {
            return Err(Error::Rights(missing));
        }
    }
    watch(Progress::Planned(plan));
    let waits =
        |id: &ResourceId, w: &Wait, pause: Duration| watch(Progress::Waiting { id, why: w.why, pause });
    let hands = Patient { client, tell: &waits };
    let events = |e: Event<'_>| match e {
        Event::Started(s) => watch(Progress::Started(s)),
        Event::Finished(s, r) => watch(Progress::Finished(s, r)),
    };
    Ok(apply_watched(plan, &hands, options.parallel, &events).await)
}

/// Looks, plans and does, until it is done or fails for a reason that looking again does not change.
pub async fn converge<X>(
    client: &Client,
    look: impl AsyncFn() -> Result<(Survey, X), Error>,
    options: Options,
    watch: Watch<'_>,
) -> Result<(Outcome, X), Error> {
    let mut round = 1;
    loop {
        let (survey, extra) = look().await?;
        let steps = plan(&survey.goal, &survey.observed)?;
        let report = carry_out(client, &steps, options, watch).await?;
        let overtaken = report.failures().count() > 0
            && report
                .failures()
                .all(|(_, e)| e.is_precondition() || e.has_code("RoleAssignmentUpdateNotPermitted"));
        if !overtaken || round == ROUNDS {
            let observed = survey.observed.clone();
            return Ok((Outcome { plan: steps, report, observed, survey }, extra));
        }
        round += 1;
    }
}

pub async fn create_iam(
    client: &Client,
    iam: &Iam,
    options: Options,
    watch: Watch<'_>,
) -> Result<(Outcome, Option<WorkloadIdentities>), Error> {
    iam.check()?;
    let tell = |id: &ResourceId, why: &str, pause| watch(Progress::Waiting { id, why, pause });
    let look = async || Ok((survey::iam(client, iam, &tell).await?, ()));
    let (outcome, ()) = converge(client, look, options, watch).await?;
    let made = outcome.is_good().then(|| iam::identities(iam, |id| outcome.look(id))).transpose()?;
    Ok((outcome, made))
}

pub async fn create_infra(
    client: &Client,
    infra: &Infra,
    options: Options,
    watch: Watch<'_>,
) -> Result<(Outcome, Facts), Error> {
    infra.check()?;
    let tell = |id: &ResourceId, why: &str, pause| watch(Progress::Waiting { id, why, pause });
    let look = async || survey::infra(client, infra, &tell).await;
    converge(client, look, options, watch).await
}
