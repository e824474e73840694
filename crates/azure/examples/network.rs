//! Makes a group with a network in it, by plan: shows the plan, does it, shows that nothing is left to do, and
//! deletes it all. Takes cloud and credential from the environment; see `docs/azure-client.md`.
#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use arm::ResourceId;
use azure::ops::ResourceGroups;
use azure::plan::{Desired, Goal, apply, observe, plan};
use azure::{ClientOptions, Connected, Env, connect};
use serde_json::json;

type Failure = Box<dyn std::error::Error>;

pub async fn run(env: &Env, group: &str) -> Result<String, Failure> {
    let Connected { client, subscription } = connect(env, ClientOptions::default()).await?;
    let subscription = subscription.ok_or("set AZURE_SUBSCRIPTION_ID")?;
    let group = ResourceId::group_scope(&subscription, group)?;
    let vnet = group.provider("Microsoft.Network", "virtualNetworks", "example")?;
    let nsg = group.provider("Microsoft.Network", "networkSecurityGroups", "example")?;
    let goal = Goal::default()
        .present(Desired::new(group.clone(), json!({"location": "westus2"})))
        .present(Desired::new(nsg.clone(), json!({"location": "westus2"})))
        .present(Desired::new(
            vnet.clone(),
            json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}}}),
        ))
        .present(Desired::new(
            vnet.child("subnets", "nodes")?,
            json!({"properties": {"addressPrefix": "10.0.0.0/24", "networkSecurityGroup": {"id": nsg}}}),
        ));

    let seen = observe(&client, &goal, 8).await.map_err(|failed| format!("cannot look: {failed:?}"))?;
    let steps = plan(&goal, &seen)?;
    let mut said = steps.to_string();
    let report = apply(&steps, &client, 4).await;
    for (id, error) in report.failures() {
        said.push_str(&format!("{id}: {error}\n"));
    }

    let seen = observe(&client, &goal, 8).await.map_err(|failed| format!("cannot look: {failed:?}"))?;
    said.push_str(&plan(&goal, &seen)?.to_string());
    client.arm::<ResourceGroups>().delete(&group).await?;
    Ok(said.replace(group.as_str(), "GROUP"))
}

#[allow(dead_code, reason = "tests include this file and call run")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    print!("{}", run(&Env::of_process(), "zaffre-example").await?);
    Ok(())
}
