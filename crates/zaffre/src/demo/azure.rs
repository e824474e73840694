//! The Azure half of the demo: a simulator in this process, reached over TLS by the client that also reaches Azure.
//! A network, an identity and its role are planned and made; the journal tells what that took.

use super::Report;
use crate::azure::report;
use anyhow::{Context, bail};
use arm::ResourceId;
use azure::credential::{self, Entra};
use azure::plan::{self, Desired, Goal, Plan, reference};
use azure::{Client, ClientOptions, Cloud, Credential, Env, Http, HttpOptions, Timing};
use azure_sim::{AzureSim, Config};
use serde_json::json;

/// The built-in role Reader, and the name of its assignment here.
const READER: &str = "acdd72a7-3385-48ef-bd42-f606fba81ae7";
const ASSIGNMENT: &str = "5e1f5f0e-9d3c-4c58-8c55-0c0ffee0d3a0";
/// At most this many steps of a plan at once.
const PARALLEL: usize = 4;

pub async fn work(r: &mut Report) -> anyhow::Result<()> {
    let sim = AzureSim::start(Config::local(1)).await?;
    r.step("Azure ready (simulated)", &sim.arm_url());
    let client = client(&sim).await?;
    let subscription = sim.creds().subscription_id;
    let group = ResourceId::parse(&format!("/subscriptions/{subscription}/resourceGroups/demo"))?;

    let goal = goal(&group, &subscription)?;
    let planned = look(&client, &goal).await?;
    r.step("planned, nothing done yet", &format!("{} resources to create", planned.steps.len()));
    apply(&client, &planned).await?;
    r.step("created, each after what it needs", "group, network, identity, role assignment");
    let again = look(&client, &goal).await?;
    if !again.is_empty() {
        bail!("what was just made is not as wanted:\n{again}");
    }
    r.step("planned again", "nothing to change");

    let journal = sim.world().journal_page(0, 8, None);
    let calls = sim.world().journal().len();
    r.step("journal of Resource Manager", &format!("{calls} calls, the last {}:", 8.min(calls)));
    if r.text {
        report::journal(&journal, true);
    }
    let gone = look(&client, &Goal::default().absent(group)).await?;
    apply(&client, &gone).await?;
    let left = sim.world().leaks();
    if left["value"].as_array().is_none_or(|v| !v.is_empty()) {
        bail!("resources were left over: {left}");
    }
    r.step("group deleted, with all that was in it", "nothing is left over");
    sim.stop();
    Ok(())
}

/// As any program finds its Azure: by the environment. Only the authority is handed over without a file.
async fn client(sim: &AzureSim) -> anyhow::Result<Client> {
    let env = Env::parse(&sim.env());
    let options = HttpOptions { extra_roots: vec![sim.ca_pem().to_owned()], ..HttpOptions::from_env(&env) };
    let http = Http::new(&options)?;
    let cloud = Cloud::from_env(&http, &env).await?;
    let timing = Timing::system();
    let entra = Entra { http: http.clone(), login: cloud.login.clone(), timing: timing.clone() };
    let found = credential::from_env(&env, entra).await?;
    Ok(Client::new(cloud, http, Credential::new(found.source, timing), ClientOptions::default()))
}

fn goal(group: &ResourceId, subscription: &str) -> anyhow::Result<Goal> {
    let place = "westeurope";
    let vnet = group.provider("Microsoft.Network", "virtualNetworks", "net")?;
    let identity = group.provider("Microsoft.ManagedIdentity", "userAssignedIdentities", "robot")?;
    let assignment = ResourceId::parse(&format!(
        "{group}/providers/Microsoft.Authorization/roleAssignments/{ASSIGNMENT}"
    ))?;
    let role =
        format!("/subscriptions/{subscription}/providers/Microsoft.Authorization/roleDefinitions/{READER}");
    let network = json!({"location": place, "properties": {
        "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
        "subnets": [{"name": "nodes", "properties": {"addressPrefix": "10.0.0.0/24"}}]}});
    let may = json!({"properties": {"roleDefinitionId": role, "principalType": "ServicePrincipal",
        "principalId": reference(&identity, "/properties/principalId")}});
    Ok(Goal::default()
        .present(Desired::new(group.clone(), json!({"location": place})))
        .present(Desired::new(vnet, network))
        .present(Desired::new(identity, json!({"location": place})))
        .present(Desired::new(assignment, may)))
}

async fn look(client: &Client, goal: &Goal) -> anyhow::Result<Plan> {
    match plan::observe(client, goal, PARALLEL).await {
        Ok(observed) => Ok(plan::plan(goal, &observed)?),
        Err(failed) => {
            let (id, e) = failed.into_iter().next().context("looking failed without a reason")?;
            Err(anyhow::Error::new(e).context(format!("cannot look at {id}")))
        }
    }
}

async fn apply(client: &Client, planned: &Plan) -> anyhow::Result<()> {
    let done = plan::apply(planned, client, PARALLEL).await;
    if let Some((id, e)) = done.failures().next() {
        bail!("{id}: {e}");
    }
    if !done.is_good() {
        bail!("not everything was done");
    }
    Ok(())
}
