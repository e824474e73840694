//! `cargo xtask bench hosted`: what hosted clusters cost, with everything in this process.
//!
//! A cluster is made as a user makes it, by objects, on a landing zone that was made before, and is up when its object
//! says so: its API has answered where it is published, and all of its components are available. CPU is what the kernel accounts to the process, memory what it counts as resident.

mod census;
mod pools;
mod stores;
mod timeline;

use anyhow::{Context, ensure};
use clap::Parser;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use reconcile::metrics::RECONCILES;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testkit::bench::{Figure, cpu_seconds, report, resident_kib};
use world::sample::{NAMESPACE, Sample};
use world::{Flavour, Landing, Options, World};

#[cfg(not(feature = "system-allocator"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(about = "Measures hosted clusters")]
struct Args {
    /// Write the figures as JSON here as well as to standard output
    #[arg(long)]
    json: Option<PathBuf>,
    /// Scale the number of clusters: 0.01 for a quick look
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Say how each cluster went
    #[arg(long)]
    verbose: bool,
    /// Say when each pod, component and condition came along
    #[arg(long)]
    timeline: bool,
    /// Measure nodes in place of control planes
    #[arg(long)]
    nodepools: bool,
    /// Count who writes what, and who runs how often, while the second cluster is made
    #[arg(long)]
    census: bool,
    /// Say how many objects are in the stores at the end, and how large they are
    #[arg(long)]
    stores: bool,
}

/// On one machine.
const MANY: f64 = 500.0;
/// For all of them.
const MEMORY_MIB: f64 = 4096.0;
/// What a management cluster remembers of its changes, with what watchers were sent of the last.
const HISTORY_MIB: f64 = 128.0;
/// A control plane with one of everything.
const PODS: usize = 48;
const PATIENCE: Duration = Duration::from_secs(300);

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let census = args.census.then(census::Census::begin).transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut all = Vec::new();
    let name = if args.nodepools { "nodepools" } else { "hosted" };
    match args.nodepools {
        true => runtime.block_on(Box::pin(pools::measure(args.scale, args.verbose, &mut all)))?,
        false => runtime.block_on(Box::pin(measure(&args, census.as_ref(), &mut all)))?,
    }
    report(name, &all, args.json.as_deref()).context("cannot report")
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small counts")]
async fn measure(args: &Args, census: Option<&census::Census>, all: &mut Vec<Figure>) -> anyhow::Result<()> {
    let count = ((MANY * args.scale) as usize).max(2);
    let begun = Instant::now();
    let nodes = (count * PODS).div_ceil(240).div_ceil(3).max(1);
    let world = World::start(Options { nodes_per_zone: nodes, ..Options::default() }).await?;
    push(all, "a world starts", "ms", millis(begun), 5_000.0);
    let begun = Instant::now();
    let landing = Landing::make(world.cloud(), world.dir(), "bench", Flavour::Workload).await?;
    push(all, "a landing zone is made", "ms", millis(begun), 5_000.0);
    if args.timeline {
        timeline::begin(&world);
    }
    let (before, files_before) = (resident_kib(), open_files());
    let mut times = Vec::new();
    for n in 0..count {
        if let Some(census) = census.filter(|_| n == 1) {
            settled(&world, 0).await?;
            census.clear();
        }
        let (begun, cpu) = (Instant::now(), cpu_seconds());
        up(&world, &landing, n).await?;
        times.push(begun.elapsed().as_secs_f64());
        if let Some(census) = census.filter(|_| n == 1) {
            census.print();
        }
        if args.verbose {
            let cpu = (cpu_seconds() - cpu) * 1e3;
            let (ms, mib) = (millis(begun), resident_kib() / 1024.0);
            let (files, writes) = (open_files(), revision(&world).await?);
            eprintln!(
                "{n}: {ms:.0} ms, {cpu:.0} ms of CPU; now {mib:.0} MiB, {files} files, {writes} writes"
            );
        }
        if n == 0 {
            push(all, "the first cluster is available", "ms", times[0] * 1e3, 1_000.0);
            steady(&world, n, all).await?;
        }
    }
    settled(&world, count - 1).await?;
    steady(&world, count - 1, all).await?;
    let memory = resident_kib() / 1024.0;
    // What all of them would need, by what these do.
    let files = open_files();
    let all_files = files_before + (files - files_before) / count as f64 * MANY;
    push(all, &format!("open files of {MANY} clusters, by {count}"), "files", all_files, most_files());
    // All of them fit with everything else; some have their share beside it and beside history, which does not grow with
    // clusters.
    let beside = if args.scale < 1.0 { before / 1024.0 + HISTORY_MIB } else { 0.0 };
    let share = MEMORY_MIB * count as f64 / MANY + beside;
    push(all, &format!("memory of the process with {count} clusters"), "MiB", memory, share);
    let some = (count / 10).clamp(1, 5);
    let median = |times: &[f64]| {
        let mut times = times.to_vec();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let ratio = median(&times[count - some..]) / median(&times[..some]);
    push(all, &format!("the last of {count} compared to the first"), "times", ratio, 1.5);
    if args.stores {
        stores::print(&world, count);
    }
    // An idle world does nothing but renew leases and look at pods.
    let idle = idle(Duration::from_secs(10)).await * 100.0;
    push(all, "CPU while nothing happens", "% of a core", idle, 100.0 * args.scale.max(0.1));
    let begun = Instant::now();
    let left = world.stop().await;
    push(all, "it stops", "ms", millis(begun), 10_000.0);
    // Tens of thousands of files, and as fast as the disk.
    drop(left);
    Ok(())
}

fn push(all: &mut Vec<Figure>, name: &str, unit: &'static str, value: f64, target: f64) {
    all.push(Figure { name: name.to_owned(), unit, value, target });
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn open_files() -> f64 {
    std::fs::read_dir("/proc/self/fd").map_or(0.0, |d| d.count() as f64)
}

/// What this process may have open.
fn most_files() -> f64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|l| l.strip_prefix("Max open files"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(f64::INFINITY)
}

/// How often anything in the management cluster was written.
async fn revision(world: &World) -> anyhow::Result<String> {
    let all = clusters(world).list(&kube::api::ListParams::default().limit(1)).await?;
    Ok(all.metadata.resource_version.unwrap_or_default())
}

fn names(n: usize) -> (String, String) {
    (format!("clusters-c{n}"), format!("c{n}"))
}

fn kind(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "hypershift.openshift.io".into(),
        version: "v1beta1".into(),
        api_version: "hypershift.openshift.io/v1beta1".into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

fn clusters(world: &World) -> Api<DynamicObject> {
    Api::namespaced_with(world.client(), NAMESPACE, &kind("HostedCluster", "hostedclusters"))
}

fn planes(world: &World, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(world.client(), namespace, &kind("HostedControlPlane", "hostedcontrolplanes"))
}

/// Makes one and waits until it is available.
async fn up(world: &World, landing: &Landing, n: usize) -> anyhow::Result<()> {
    let (namespace, name) = names(n);
    Sample::new(world, landing, &name, "4.19.3")?.create(world).await?;
    let available = |o: Option<&DynamicObject>| {
        let conditions = o.and_then(|o| o.data["status"]["conditions"].as_array());
        conditions.into_iter().flatten().any(|c| c["type"] == "Available" && c["status"] == "True")
    };
    let wait = kube::runtime::wait::await_condition(clusters(world), &name, available);
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    waited.with_context(|| {
        let key = format!("{namespace}/{name}");
        format!("{key} is not available: {:#?}", world.planes().explain(&key))
    })??;
    Ok(())
}

/// Until nothing is waited for.
async fn settled(world: &World, n: usize) -> anyhow::Result<()> {
    let (namespace, name) = names(n);
    let key = format!("{namespace}/{name}");
    let quiet = async {
        let mut before = i64::MAX;
        loop {
            let (waiting, runs) = (world.planes().explain(&key).waiting.len(), runs(world));
            if waiting == 0 && runs == before {
                return;
            }
            before = runs;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(PATIENCE, quiet).await.context("it does not settle")
}

const WRITES: &str = "reconcile_applies_total";

/// How often both operators have run. Not read off the page of metrics, the making of which would be measured, too.
fn runs(world: &World) -> i64 {
    const RESULTS: [&str; 6] = ["success", "requeue_after", "waiting", "error", "panic", "timeout"];
    let metrics = world.metrics();
    let of = |controller| {
        RESULTS.map(|result| metrics.value(&RECONCILES, &[controller, result])).iter().sum::<i64>()
    };
    of("hosted-cluster") + of("hosted-control-plane")
}

/// The sum of a counter, without what was skipped.
fn counter(world: &World, name: &str) -> u64 {
    let text = world.metrics().text();
    let lines = text.lines().filter(|l| l.starts_with(name) && !l.contains("skipped"));
    lines.filter_map(|l| l.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// What a run costs when there is nothing to do.
async fn steady(world: &World, n: usize, all: &mut Vec<Figure>) -> anyhow::Result<()> {
    const TIMES: u32 = 100;
    settled(world, n).await?;
    let (namespace, name) = names(n);
    let key = format!("{namespace}/{name}");
    let (writes, version) = (counter(world, WRITES), version(world, n).await?);
    // What all clusters do meanwhile, leases and probes, is no part of a run; it is a figure of its own.
    let idle = idle(Duration::from_secs(3)).await;
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    for _ in 0..TIMES {
        let before = runs(world);
        world.planes().poke(&key);
        world.clusters().poke(&format!("{NAMESPACE}/{name}"));
        while runs(world) < before + 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let spent = cpu_seconds() - cpu - idle * begun.elapsed().as_secs_f64();
    let each = spent / f64::from(TIMES) * 1e3;
    let wrote = counter(world, WRITES) - writes;
    ensure!(wrote == 0, "{wrote} objects were written although nothing changed");
    ensure!(version == self::version(world, n).await?, "the status was written although nothing changed");
    push(all, &format!("a settled run of both operators, {} clusters there", n + 1), "ms of CPU", each, 2.0);
    Ok(())
}

/// CPU seconds per second that nobody asks for.
async fn idle(over: Duration) -> f64 {
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    tokio::time::sleep(over).await;
    (cpu_seconds() - cpu) / begun.elapsed().as_secs_f64()
}

async fn version(world: &World, n: usize) -> anyhow::Result<Option<String>> {
    let (namespace, name) = names(n);
    Ok(planes(world, &namespace).get(&name).await?.metadata.resource_version)
}
