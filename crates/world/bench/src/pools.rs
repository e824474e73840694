//! `cargo xtask bench nodepools`: what nodes cost, from a NodePool to machines that are ready.
//!
//! Time is counted from the first object that a user writes to the moment at which the NodePools say that all of their
//! nodes are there; what Azure was asked is counted in its journal.

use super::{millis, push, up};
use anyhow::{Context, ensure};
use futures::TryStreamExt;
use hypershift::kinds;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use testkit::bench::{Figure, cpu_seconds, resident_kib};
use world::landing::LOCATION;
use world::sample::NAMESPACE;
use world::{Flavour, Landing, Options, World};

const PATIENCE: Duration = Duration::from_secs(600);
const FROM: &str = "4.19.3";
const TO: &str = "4.19.4";
/// Of the large figure.
const POOLS: f64 = 200.0;
const NODES: i64 = 3;
/// Pools are spread over so many clusters.
const CLUSTERS: usize = 4;
/// Nodes that are rolled.
const ROLLED: f64 = 50.0;

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small counts")]
pub async fn measure(scale: f64, verbose: bool, all: &mut Vec<Figure>) -> anyhow::Result<()> {
    let world = World::start(Options::default()).await?;
    for family in ["cores", "standardDSv5Family"] {
        world.cloud().sim.world().set_quota(&world.cloud().subscription, LOCATION, family, 100_000)?;
    }
    let mut landings = vec![landing(&world, 0).await?];

    let begun = Instant::now();
    pool(&world, &landings, 0, "first", NODES).await?;
    up(&world, &landings[0], 0).await?;
    let available = millis(begun);
    settle(&world, &["first".to_owned()].into(), FROM).await?;
    push(all, "a cluster and its 3 nodes are ready", "ms", millis(begun), 2_000.0);
    if verbose {
        eprintln!("available after {available:.0} ms, nodes after {:.0} ms", millis(begun));
    }

    let clusters = CLUSTERS.min((POOLS * scale) as usize).max(1);
    for n in 1..clusters {
        landings.push(landing(&world, n).await?);
        up(&world, &landings[n], n).await?;
    }
    let count = ((POOLS * scale) as usize).max(2);
    let (begun, cpu, memory) = (Instant::now(), cpu_seconds(), resident_kib());
    let mut names = BTreeSet::new();
    for n in 0..count {
        let name = format!("many-{n}");
        pool(&world, &landings, n % clusters, &name, NODES).await?;
        names.insert(name);
    }
    settle(&world, &names, FROM).await?;
    let target = 60_000.0 * (count as f64 / POOLS);
    push(all, &format!("{count} pools of {NODES} nodes settle"), "ms", millis(begun), target.max(2_000.0));
    if verbose {
        let (cpu, each) =
            (cpu_seconds() - cpu, (resident_kib() - memory) / 1024.0 / (count as f64 * NODES as f64));
        eprintln!("{cpu:.1} s of CPU, {each:.2} MiB a node");
    }

    let nodes = ((ROLLED * scale) as i64).max(3);
    let rolled: BTreeSet<String> = ["rolled".to_owned()].into();
    pool(&world, &landings, 0, "rolled", nodes).await?;
    settle(&world, &rolled, FROM).await?;
    let before = world.cloud().sim.world().journal().last().map_or(0, |e| e.number);
    let begun = Instant::now();
    let image = world.cloud().release(TO).context("no such release")?;
    let patch = Patch::Merge(json!({"spec": {"release": {"image": image}}}));
    // Nodes may not be newer than the control plane.
    kinds::CLUSTER.api(&world.client(), NAMESPACE).patch("c0", &PatchParams::default(), &patch).await?;
    kinds::POOL.api(&world.client(), NAMESPACE).patch("rolled", &PatchParams::default(), &patch).await?;
    settle(&world, &rolled, TO).await?;
    let took = millis(begun);
    let entries = world.cloud().sim.world().journal();
    let entries: Vec<_> = entries.iter().filter(|e| e.number > before).collect();
    ensure!(!entries.is_empty(), "the journal of Azure does not go back to the beginning of the roll");
    let compute =
        |path: &str| ["virtualMachines", "networkInterfaces", "disks"].iter().any(|k| path.contains(k));
    let writes = entries.iter().filter(|e| e.method != "GET" && compute(&e.path)).count();
    let lists = entries.iter().filter(|e| e.method == "GET" && lists_all(&e.path)).count();
    push(
        all,
        &format!("Azure writes per node, roll of {nodes}"),
        "writes",
        writes as f64 / nodes as f64,
        6.0,
    );
    // One look per half minute at all machines of a group is how lost ones are found.
    let looks = (took / 30_000.0).ceil() + 2.0;
    push(
        all,
        &format!("lists of all machines, roll of {nodes}"),
        "lists",
        lists as f64,
        looks * clusters as f64,
    );
    if verbose {
        eprintln!("rolled {nodes} nodes in {took:.0} ms: {writes} writes, {lists} lists");
    }
    world.stop().await;
    Ok(())
}

/// Whether a path names a collection and no member of it.
fn lists_all(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default().trim_end_matches('/');
    ["virtualMachines", "networkInterfaces", "disks"].iter().any(|k| path.ends_with(k))
}

/// Where a cluster's machines are: its load balancer is named after it.
async fn landing(world: &World, n: usize) -> anyhow::Result<Landing> {
    Ok(Landing::make(world.cloud(), world.dir(), &format!("c{n}"), Flavour::Workload).await?)
}

/// Makes a NodePool of a cluster that may not be there yet.
async fn pool(
    world: &World,
    landings: &[Landing],
    cluster: usize,
    name: &str,
    replicas: i64,
) -> anyhow::Result<()> {
    let release = world.cloud().release(FROM).context("no such release")?;
    let object: Value = json!({
        "apiVersion": "hypershift.openshift.io/v1beta1", "kind": "NodePool",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"clusterName": format!("c{cluster}"), "replicas": replicas, "arch": "amd64",
            "release": {"image": release},
            "management": {"autoRepair": false, "upgradeType": "Replace", "replace": {"strategy": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}},
            "platform": {"type": "Azure", "azure": {"vmSize": "Standard_D4s_v5", "subnetID": landings[cluster].layout.subnet,
                "image": {"type": "AzureMarketplace", "azureMarketplace": {
                    "publisher": "azureopenshift", "offer": "aro4", "sku": "419-v2", "version": "419.6.20250523"}},
                "osDisk": {"sizeGiB": 120, "diskStorageAccountType": "Premium_LRS"}}}},
    });
    let object: DynamicObject = serde_json::from_value(object)?;
    kinds::POOL.api(&world.client(), NAMESPACE).create(&PostParams::default(), &object).await?;
    Ok(())
}

/// Whether a pool has all of its nodes, at a version.
fn done(pool: &DynamicObject, version: &str) -> bool {
    let (spec, status) = (&pool.data["spec"], &pool.data["status"]);
    let holds = |kind: &str| {
        let all = status["conditions"].as_array();
        all.into_iter().flatten().any(|c| c["type"] == kind && c["status"] == "True")
    };
    spec["replicas"] == status["replicas"]
        && status["version"] == version
        && holds("Ready")
        && holds("AllMachinesReady")
        && holds("AllNodesHealthy")
        && !holds("UpdatingVersion")
}

/// Until all of these pools are done.
async fn settle(world: &World, names: &BTreeSet<String>, version: &str) -> anyhow::Result<()> {
    let api = kinds::POOL.api(&world.client(), NAMESPACE);
    let mut open = names.clone();
    let mut last: Option<DynamicObject> = None;
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
    let watched = async {
        while !open.is_empty() {
            let event = events.try_next().await?.context("the watch has ended")?;
            if let watcher::Event::InitApply(p) | watcher::Event::Apply(p) = event {
                let name = p.metadata.name.clone().unwrap_or_default();
                match done(&p, version) {
                    true => _ = open.remove(&name),
                    false if names.contains(&name) => {
                        open.insert(name);
                        last = Some(p);
                    }
                    false => {}
                }
            }
        }
        anyhow::Ok(())
    };
    let waited = tokio::time::timeout(PATIENCE, watched).await;
    waited.with_context(|| {
        let status = last.map(|p| p.data["status"].clone()).unwrap_or_default();
        format!("{} of {} pools are not done, one of them: {status:#}", open.len(), names.len())
    })?
}
