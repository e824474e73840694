//! Machines with an interface and a disk each, made through our client over real sockets.

use crate::{Args, scaled};
use anyhow::Context;
use arm::ResourceId;
use azure::ops::{NetworkInterfaces, ResourceGroups, VirtualMachines, VirtualNetworks};
use azure::{ArmType, Budget, Budgets, Client, ClientOptions, Env, connect};
use azure_sim::{AzureSim, Config};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use std::time::Instant;
use testkit::bench::Figure;

/// As many as a careful program has under way.
const AT_ONCE: usize = 16;

async fn put<T: ArmType>(
    client: &Client,
    scope: &ResourceId,
    name: &str,
    body: Value,
) -> anyhow::Result<ResourceId> {
    let arm = client.arm::<T>();
    let id = arm.id(scope, name)?;
    arm.put(&id, &serde_json::from_value(body)?).await?;
    Ok(id)
}

pub async fn made(args: &Args, all: &mut Vec<Figure>) -> anyhow::Result<()> {
    let count = scaled(1000, args);
    let dir = tempfile::tempdir()?;
    let mut config = Config::local(3);
    config.ca_file = Some(dir.path().join("ca.pem"));
    let sim = AzureSim::start(config).await?;
    // The client paces itself to what Azure documents (ten writes a second); this world has no such limits.
    let plenty = (1e9, 1e9);
    let budgets = Budgets::new(Budget { reads: plenty, writes: plenty, deletes: plenty });
    let options = ClientOptions { budgets, ..ClientOptions::default() };
    let connected = connect(&Env::parse(&sim.env()), options).await?;
    let client = connected.client;
    let subscription = ResourceId::subscription_scope(&connected.subscription.context("a subscription")?)?;
    let g = put::<ResourceGroups>(&client, &subscription, "g", json!({"location": "westus2"})).await?;
    let network = json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/8"]}, "subnets": [{"name": "s", "properties": {"addressPrefix": "10.0.0.0/16"}}]}});
    let network = put::<VirtualNetworks>(&client, &g, "v", network).await?;
    // A new subscription may have a hundred or so; a region of ours asked for more.
    for name in ["cores", "standardDSv5Family"] {
        let world = sim.world();
        world.set_quota(world.subscription(), "westus2", name, 100_000)?;
    }
    let begun = Instant::now();
    futures::stream::iter(0..count)
        .map(|i| {
            let (client, g, network) = (&client, &g, &network);
            async move {
                let nic = json!({"location": "westus2", "properties": {"ipConfigurations": [{"name": "c", "properties": {"subnet": {"id": format!("{network}/subnets/s")}}}]}});
                let nic = put::<NetworkInterfaces>(client, g, &format!("n{i}"), nic).await?;
                let vm = json!({"location": "westus2", "properties": {
                    "hardwareProfile": {"vmSize": "Standard_D2s_v5"},
                    "storageProfile": {"imageReference": {"publisher": "azureopenshift", "offer": "aro4", "sku": "420-v2", "version": "latest"}},
                    "osProfile": {"adminUsername": "core", "customData": "aWduaXRpb24="},
                    "networkProfile": {"networkInterfaces": [{"id": nic.as_str()}]},
                }});
                put::<VirtualMachines>(client, g, &format!("m{i}"), vm).await.map(|_| ())
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    let name = format!("{count} machines with interface and disk, through the client");
    all.push(Figure { name, unit: "s", value: begun.elapsed().as_secs_f64(), target: 3.0 });
    sim.stop();
    Ok(())
}
