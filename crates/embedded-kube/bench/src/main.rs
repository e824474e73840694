//! `cargo xtask bench kube`: what the embedded API server costs, measured from outside.
//!
//! The server runs as its own process and is asked over HTTPS with client certificates, like any client
//! would. Cost is the server's CPU time (all its processes) from the kernel's accounting, so the client's own
//! work and the machine's other load do not count; latency is what the client saw. With KUBE_APISERVER and
//! ETCD naming real binaries, the same load runs against them and the ratios are printed.

mod client;
mod load;
mod process;
mod report;

use anyhow::Context;
use clap::Parser;
use std::path::PathBuf;

#[derive(Debug, Parser)]
#[command(
    about = "Measures the embedded API server, and a real one beside it when KUBE_APISERVER and ETCD are set"
)]
struct Args {
    /// The zaffre binary (default: beside this one)
    #[arg(long)]
    zaffre: Option<PathBuf>,
    /// A real kube-apiserver to compare with
    #[arg(long, env = "KUBE_APISERVER", requires = "etcd")]
    kube_apiserver: Option<PathBuf>,
    /// The etcd for it
    #[arg(long, env = "ETCD")]
    etcd: Option<PathBuf>,
    /// Write the figures as JSON here as well as to standard output
    #[arg(long)]
    json: Option<PathBuf>,
    /// Scale every count: 0.1 for a quick look
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Run only these loads, for profiling
    #[arg(long, value_delimiter = ',')]
    only: Vec<load::Load>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(args))
}

async fn run(args: Args) -> anyhow::Result<()> {
    let zaffre = match args.zaffre {
        Some(p) => p,
        None => std::env::current_exe()?.parent().context("no directory")?.join("zaffre"),
    };
    let ours = {
        let server = process::zaffre(&zaffre).await?;
        load::all(server, args.scale, &args.only).await?
    };
    let peer = match (&args.kube_apiserver, &args.etcd) {
        (Some(api), Some(etcd)) => {
            let server = process::kubernetes(api, etcd).await?;
            Some(load::all(server, args.scale, &args.only).await?)
        }
        _ => None,
    };
    report::print(&ours, peer.as_ref(), args.json.as_deref())
}
