//! What an instance costs: `cargo run --release -p guest-config --example cost [INSTANCES]`.
//!
//! One management cluster and many guests in this process, each with a config operator and a version operator. Memory is
//! that of the process, so it contains what the API servers keep for watches of ours.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example that prints"
)]

#[path = "../tests/world.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod world;

use clock::Random;
use ek_server::{ApiServer, ClusterConfig, Config};
use guest_config::operate::{REPORT, RESOURCES};
use guest_config::probe::Nobody;
use guest_config::{Around, definitions, facts::Told, start};
use reconcile::{Handle, Metrics, Runtime};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = text.split(' ').nth(1).and_then(|p| p.parse().ok()).unwrap_or(0);
    pages * 4
}

fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: u64 = text.split(' ').skip(13).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn count(metrics: &Metrics, line: &str, without: &str) -> i64 {
    let text = metrics.text();
    let lines = text.lines().filter(|l| l.starts_with(line) && !l.contains(without));
    lines.filter_map(|l| l.rsplit(' ').next()?.parse::<i64>().ok()).sum()
}

async fn put(server: &ApiServer, mut object: Value, namespace: &str) {
    let kinds = guest_config::kinds::all().with([guest_config::kinds::PLANE]);
    if object["metadata"]["namespace"].is_string() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    let at = kinds.locate(&object).unwrap();
    let api = at.kind.api(&server.client(), &at.namespace);
    let status = json!({"status": object["status"]});
    api.create(&Default::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    if !status["status"].is_null() {
        api.patch_status(&at.name, &Default::default(), &kube::api::Patch::Merge(&status)).await.unwrap();
    }
}

/// Until every guest is complete and nothing was run for a while.
async fn settle(all: &[(Handle, Metrics)], quiet: Duration) {
    let mut last = (0, Instant::now());
    loop {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let runs = all.iter().map(|(_, m)| count(m, "controller_runtime_reconcile_total", "\0")).sum::<i64>();
        let is_complete = |h: &Handle| {
            let e = h.explain(RESOURCES);
            e.error.is_none() && e.waiting.is_empty() && e.due.is_some()
        };
        if runs != last.0 {
            last = (runs, Instant::now());
        }
        if runs > 0 && all.iter().all(|(h, _)| is_complete(h)) && last.1.elapsed() >= quiet {
            return;
        }
    }
}

fn operator(
    server: &ApiServer,
    ns: &str,
    guest: &ApiServer,
    stop: &CancellationToken,
) -> (Handle, Metrics, tokio::task::JoinHandle<reconcile::Drained>) {
    let metrics = Metrics::default();
    let mut runtime = Runtime::new(clock::system(), &metrics);
    let handle = start(
        &mut runtime,
        Around {
            management: server.client(),
            guest: guest.client_as(ek_auth::User::new(definitions::USER, &["system:authenticated"])),
            told: Told { namespace: ns.to_owned(), ..world::told() },
            backends: Arc::new(Nobody),
            clock: clock::system(),
            random: Random::from_os(),
            metrics: metrics.clone(),
        },
    );
    (handle, metrics, tokio::spawn(runtime.run(stop.clone())))
}

#[tokio::main]
async fn main() {
    let n: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(50);
    let server = ApiServer::start(Config::memory()).await.unwrap();
    for crd in apis::hypershift_crds() {
        put(&server, serde_json::to_value(crd).unwrap(), "").await;
    }
    let mut guests = Vec::new();
    for i in 0..n {
        let ns = format!("clusters-{i}");
        put(&server, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}}), "").await;
        for object in world::material().into_iter().chain([world::openshift_apiserver(true), world::plane()])
        {
            put(&server, object, &ns).await;
        }
        guests
            .push((ns, server.host().ensure(&format!("guest-{i}"), ClusterConfig::default()).await.unwrap()));
    }
    let (empty, cpu_empty) = (resident(), cpu());
    for (_, guest) in &guests {
        definitions::bootstrap(&guest.client(), &Random::from_os()).await.unwrap();
    }
    let (bare, cpu_bare) = (resident(), cpu());
    println!(
        "bootstrap of a guest: {} KiB, {:.1} ms CPU",
        (bare - empty) / n,
        (cpu_bare - cpu_empty).as_secs_f64() * 1000.0 / n as f64
    );
    // One after the other, each ended when its guest is complete: what is left are the guests' objects.
    let started = Instant::now();
    for (ns, guest) in &guests {
        let stop = CancellationToken::new();
        let (handle, metrics, running) = operator(&server, ns, guest, &stop);
        settle(&[(handle, metrics)], Duration::ZERO).await;
        stop.cancel();
        running.await.unwrap();
    }
    let (kept, cpu_kept) = (resident(), cpu());
    println!(
        "resources of a guest: {} KiB, {:.1} ms CPU, {:?} each",
        (kept - bare) / n,
        (cpu_kept - cpu_bare).as_secs_f64() * 1000.0 / n as f64,
        started.elapsed() / n as u32
    );
    let stop = CancellationToken::new();
    let (mut all, mut running) = (Vec::new(), Vec::new());
    for (ns, guest) in &guests {
        let (handle, metrics, task) = operator(&server, ns, guest, &stop);
        running.push(task);
        all.push((handle, metrics));
    }
    settle(&all, Duration::from_secs(3)).await;
    let (grown, cpu_again) = (resident(), cpu());
    println!(
        "an operator: {} KiB, {:.1} ms CPU to find everything as it should be",
        grown.saturating_sub(kept) / n,
        (cpu_again - cpu_kept).as_secs_f64() * 1000.0 / n as f64
    );
    const ROUNDS: i64 = 20;
    let before = cpu();
    for _ in 0..ROUNDS {
        let runs: Vec<i64> =
            all.iter().map(|(_, m)| count(m, "controller_runtime_reconcile_total", "\0")).collect();
        for (h, _) in &all {
            h.poke(RESOURCES);
            h.poke(REPORT);
        }
        for ((_, m), runs) in all.iter().zip(runs) {
            while count(m, "controller_runtime_reconcile_total", "\0") < runs + 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
    let each = (cpu() - before).as_secs_f64() * 1000.0 / (n as f64 * ROUNDS as f64);
    println!("a settled run of resources and report: {each:.2} ms CPU");
    let sent: i64 = all.iter().map(|(_, m)| count(m, "reconcile_applies_total", "skipped")).sum();
    println!("objects sent: {} per guest", sent / n as i64);
    stop.cancel();
    for r in running {
        r.await.unwrap();
    }
    let before = resident();
    for (_, guest) in &guests {
        let around = cluster_version::Around {
            guest: guest.client(),
            payload: cluster_version::Payload {
                version: "4.19.3".into(),
                image: "i".into(),
                components: cluster_version::operators::PARTS
                    .iter()
                    .map(|p| p.component.to_owned())
                    .collect(),
            },
            clock: clock::system(),
            random: Random::from_os(),
            metrics: Metrics::default(),
        };
        tokio::spawn(cluster_version::run(around, CancellationToken::new()));
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    println!("a version operator and its objects: {} KiB", resident().saturating_sub(before) / n);
}
