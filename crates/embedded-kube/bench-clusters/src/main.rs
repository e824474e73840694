//! `cargo xtask bench clusters`: what many living clusters in one process cost.
//!
//! Everything runs in this process, as the product runs it. Memory is what the kernel counts as resident, CPU what
//! it accounts to the process; times are of the wall.

mod alive;

use clap::Parser;
use ek_server::ClusterConfig;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testkit::bench::{Figure, cpu_seconds, report, resident_kib, small_pages};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(about = "Measures many clusters in one process")]
pub struct Args {
    /// Write the figures as JSON here as well as to standard output
    #[arg(long)]
    json: Option<PathBuf>,
    /// Scale every count: 0.1 for a quick look
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
}

fn main() -> anyhow::Result<()> {
    small_pages();
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let figures = runtime.block_on(run(&args))?;
    Ok(report("clusters", &figures, args.json.as_deref())?)
}

async fn run(args: &Args) -> anyhow::Result<Vec<Figure>> {
    let mut all = Vec::new();
    empty_clusters(args, &mut all).await?;
    alive::rollout(args, &mut all).await?;
    alive::fleet(args, &mut all).await?;
    Ok(all)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small counts")]
pub fn scaled(count: usize, args: &Args) -> usize {
    ((count as f64 * args.scale) as usize).max(1)
}

/// Clusters in which nothing happens but what controllers do to every cluster.
async fn empty_clusters(args: &Args, all: &mut Vec<Figure>) -> anyhow::Result<()> {
    let count = scaled(1000, args);
    let world = alive::World::start().await?;
    let host = &world.host;
    // The first pays for what all share.
    host.ensure("first", ClusterConfig::default()).await?;
    alive::furnished(host, "first").await?;
    let before = resident_kib();
    let begun = Instant::now();
    for i in 0..count {
        host.ensure(&format!("c{i}"), ClusterConfig::default()).await?;
    }
    let each = begun.elapsed().as_secs_f64() * 1e3 / count as f64;
    for i in 0..count {
        alive::furnished(host, &format!("c{i}")).await?;
    }
    let grown = resident_kib() - before;
    all.push(Figure { name: "create a cluster".into(), unit: "ms", value: each, target: 2.0 });
    all.push(Figure {
        name: "empty extra cluster".into(),
        unit: "KiB",
        value: grown / count as f64,
        target: 64.0,
    });
    all.push(Figure {
        name: format!("{count} clusters, whole process"),
        unit: "MiB",
        value: resident_kib() / 1024.0,
        target: 100.0,
    });
    let (spent, slept) = (cpu_seconds(), Instant::now());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let idle = (cpu_seconds() - spent) / slept.elapsed().as_secs_f64() * 100.0;
    all.push(Figure {
        name: format!("idle, {count} clusters"),
        unit: "% of a core",
        value: idle,
        target: 1.0,
    });
    for i in 0..count {
        host.delete(&format!("c{i}")).await?;
    }
    // The allocator keeps what it had; what counts is that another round does not need more.
    let held = resident_kib();
    for i in 0..2 * count {
        let name = format!("d{i}");
        host.ensure(&name, ClusterConfig::default()).await?;
        host.delete(&name).await?;
    }
    let more = (resident_kib() - held).max(0.0) / 1024.0;
    let name = format!("memory gained by {} more, each created and deleted", 2 * count);
    all.push(Figure { name, unit: "MiB", value: more, target: 2.0 });
    world.stop().await;
    Ok(())
}
