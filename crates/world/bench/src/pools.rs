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
use reconcile::Kind;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use testkit::bench::{Figure, cpu_seconds, resident_kib};
use world::landing::LOCATION;
use world::sample::NAMESPACE;
use world::{Flavour, Landing, Options, World};

const NODE: Kind = Kind::new("", "v1", "Node", "nodes").cluster_wide();
const PATIENCE: Duration = Duration::from_secs(600);
const FROM: &str = "4.19.3";
const TO: &str = "4.19.4";
/// Of the large figure.
const POOLS: f64 = 200.0;
const NODES: i64 = 3;
/// Pools are spread over so many clusters.
const CLUSTERS: usize = 4;
/// Machines on a page of Azure's lists.
const PAGE: i64 = 100;
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
    // A look at all machines of a group now and then is how lost ones are found; it has nothing to do with the roll.
    let looks = (took / 1e3 / world::operators::LOOK.as_secs_f64()).ceil() + 1.0;
    let pages: i64 = (0..clusters)
        .map(|n| {
            let of_first = if n == 0 { NODES + nodes + 1 } else { 0 };
            (NODES * count.div_ceil(clusters) as i64 + of_first + PAGE - 1) / PAGE
        })
        .sum();
    push(
        all,
        &format!("pages of lists of all machines, roll of {nodes}"),
        "pages",
        lists as f64,
        looks * pages as f64,
    );
    if verbose {
        eprintln!("rolled {nodes} nodes in {took:.0} ms: {writes} writes, {lists} lists");
    }
    world.stop().await;
    Box::pin(real(verbose, all)).await
}

/// Nothing of ours may show beside what Azure takes for machines and pods take for a control plane.
const SLACK: f64 = 1.2;
/// How long Azure takes at most until a role that was given counts.
const SPREAD: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);
/// What is made before the clock counts need not take as long as it does in Azure.
const QUICKLY: f64 = 20.0;

/// A cluster with nodes at the pace of real ones: Azure takes the times that were measured, and pods start about as fast as
/// real ones. What cannot be had faster is the way of the control plane until it is available, and then that of the
/// slowest machine: from its interface to a node that is ready.
async fn real(verbose: bool, all: &mut Vec<Figure>) -> anyhow::Result<()> {
    let options = Options {
        profile: azure_sim::Profile::Real,
        azure_pace: QUICKLY,
        pace: world::Pace::Realistic,
        ..Options::default()
    };
    let world = World::start(options).await?;
    let landings = [landing(&world, 0).await?];
    let azure = world.cloud().sim.world();
    // Rights take minutes to be known everywhere. Who has made them waits; that is not what is measured.
    azure.advance(SPREAD);
    azure.run_clock_at(1.0)?;
    let before = azure.journal().last().map_or(0, |e| e.number);
    let begun = Instant::now();
    pool(&world, &landings, 0, "first", NODES).await?;
    let available = async {
        up(&world, &landings[0], 0).await?;
        anyhow::Ok(millis(begun))
    };
    let first = ["first".to_owned()].into();
    let told = async {
        match verbose {
            true => tell(&world, "first", begun).await,
            false => std::future::pending().await,
        }
    };
    let done = async { futures::try_join!(available, ready(&world, 0, begun), settle(&world, &first, FROM)) };
    let (available, ready, ()) = tokio::select! {
        done = done => done?,
        told = told => { told?; anyhow::bail!("the watch of the pool has ended") }
    };
    let total = millis(begun);
    let entries = azure.journal();
    let began = entries
        .iter()
        .find(|e| e.number > before && e.method == "PUT" && e.path.contains("networkInterfaces"))
        .and_then(|e| e.at.parse::<jiff::Timestamp>().ok())
        .context("no interface was made")?;
    let since = azure.now().duration_since(began).as_secs_f64() * 1e3;
    let boot = ready - (millis(begun) - since);
    if verbose {
        eprintln!(
            "real: available after {available:.0} ms, machines take {boot:.0} ms, done after {total:.0} ms"
        );
    }
    push(
        all,
        "profile real: nodes ready / (control plane + boot)",
        "times",
        total / (available + boot),
        SLACK,
    );
    world.stop().await;
    Ok(())
}

/// Says what a pool says of its machines, whenever that is something else: what a slow run has waited for.
async fn tell(world: &World, name: &str, begun: Instant) -> anyhow::Result<()> {
    let api = kinds::POOL.api(&world.client(), NAMESPACE);
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
    let mut last = String::new();
    while let Some(event) = events.try_next().await? {
        let (watcher::Event::InitApply(pool) | watcher::Event::Apply(pool)) = event else { continue };
        let all = pool.data["status"]["conditions"].as_array();
        let ready = all.into_iter().flatten().find(|c| c["type"] == "AllMachinesReady");
        let said = ready.map(|c| format!("{}: {}", c["reason"], c["message"])).unwrap_or_default();
        if pool.metadata.name.as_deref() == Some(name) && said != last {
            eprintln!("{:.1} s: {said}", millis(begun) / 1e3);
            last = said;
        }
    }
    Ok(())
}

/// When all nodes of a guest were ready, in milliseconds.
async fn ready(world: &World, n: usize, begun: Instant) -> anyhow::Result<f64> {
    let management = world.management().access("bench");
    let guest = async {
        loop {
            match world.guests().server(management.id(), &super::names(n).0) {
                Some(guest) => return guest,
                None => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let guest = tokio::time::timeout(PATIENCE, guest).await.context("no guest is served")?;
    let api = NODE.api(&guest.client(), "");
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
    let mut ready = BTreeSet::new();
    let watched = async {
        while let Some(event) = events.try_next().await? {
            if let watcher::Event::InitApply(node) | watcher::Event::Apply(node) = event
                && holds(&node.data["status"], "Ready")
            {
                ready.insert(node.metadata.name.unwrap_or_default());
            }
            if i64::try_from(ready.len())? == NODES {
                break;
            }
        }
        Ok(millis(begun))
    };
    tokio::time::timeout(PATIENCE, watched).await.context("nodes do not get ready")?
}

/// Whether a path names a collection and no member of it. Each page of a list is a request of its own.
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

fn holds(status: &Value, kind: &str) -> bool {
    let all = status["conditions"].as_array();
    all.into_iter().flatten().any(|c| c["type"] == kind && c["status"] == "True")
}

/// Whether a pool has all of its nodes, at a version.
fn done(pool: &DynamicObject, version: &str) -> bool {
    let (spec, status) = (&pool.data["spec"], &pool.data["status"]);
    let holds = |kind: &str| holds(status, kind);
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
