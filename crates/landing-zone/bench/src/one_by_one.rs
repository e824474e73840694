//! What step-by-step tools do: one call after the other, in their order. Each role is a question to Graph, a list, a
//! look and a write; everything else is a look at groups and a write. They poll as Azure tells them, and so does this.

use anyhow::Context;
use arm::ResourceId;
use azure::ops::{ResourceGroups, RoleAssignments};
use azure::plan::{Action, Hands, Plan, plan};
use azure::{ArmType, Client};
use futures::TryStreamExt;
use landing_zone::iam::{self, Iam};
use landing_zone::identities::Identities;
use landing_zone::infra::Infra;
use landing_zone::patience::Patient;
use landing_zone::survey;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The steps of a plan, one after the other, with the reads that go with each; what was made.
async fn steps(client: &Client, plan: &Plan) -> anyhow::Result<BTreeMap<ResourceId, serde_json::Value>> {
    let hands = Patient { client, tell: &|_, _, _| {} };
    let mut made = BTreeMap::new();
    for step in &plan.steps {
        let Action::Create { body } = &step.action else { continue };
        if step.id.namespace().is_none() {
            client.arm::<ResourceGroups>().find(&step.id).await?;
        }
        if step.id.resource_type().is(RoleAssignments::ROW.kind) {
            let at = step.id.extended().context("an assignment has a scope")?;
            let all = client.arm::<RoleAssignments>().list_with(&at, &[("$filter", "atScope()")]);
            all.try_collect::<Vec<_>>().await?;
            client.arm::<RoleAssignments>().find(&step.id).await?;
        }
        if let Some(done) = hands.perform(step, Some(body.clone())).await? {
            made.insert(step.id.clone(), done);
        }
    }
    Ok(made)
}

/// How long identities and infrastructure take.
pub(crate) async fn run(client: &Client, iam: &Iam, mut infra: Infra) -> anyhow::Result<Duration> {
    // What would be made is asked for outside of the time that is measured.
    let wanted = survey::iam(client, iam, &|_, _, _| {}).await?;
    let todo = plan(&wanted.goal, &wanted.observed)?;
    let began = Instant::now();
    let made = steps(client, &todo).await?;
    let mut took = began.elapsed();
    let ids = iam::identities(iam, |id| made.get(id).cloned())?;
    infra.identities = Identities::Workload(ids);
    let (wanted, facts) = survey::infra(client, &infra, &|_, _, _| {}).await?;
    let todo = plan(&wanted.goal, &wanted.observed)?;
    let began = Instant::now();
    let zone = survey::zone(client, &infra.subscription, &infra.base_domain, None).await?;
    anyhow::ensure!(facts.zone == Some(zone), "another zone");
    for client_id in facts.principals.keys() {
        client.graph().service_principal_of(client_id).await?.context("no principal")?;
    }
    steps(client, &todo).await?;
    took += began.elapsed();
    Ok(took)
}
