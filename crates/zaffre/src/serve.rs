//! `zaffre serve kube`, and beside it the other things that are served.

pub mod azure;
pub mod control_plane_operator;
pub mod ground;
mod guest;
mod hypershift_operator;
mod ignition;
mod machines;
mod observe;
mod sidecar;
mod webhooks;

use crate::cli::{KubeArgs, ServeWhat};
use crate::living::{self, Living, Wanted};
use crate::output;
use anyhow::{Context, bail};
use ek_server::{ApiServer, ClusterConfig, Config, Storage};
use serde_json::Value;
use std::path::Path;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

pub async fn run(what: ServeWhat) -> anyhow::Result<ExitCode> {
    match what {
        ServeWhat::Kube(args) => Box::pin(kube(args)).await?,
        ServeWhat::Azure(args) => Box::pin(azure::run(args)).await?,
        ServeWhat::ControlPlaneOperator(args) => Box::pin(control_plane_operator::run(args)).await?,
        ServeWhat::HypershiftOperator(args) => Box::pin(hypershift_operator::run(args)).await?,
        ServeWhat::IgnitionServer(args) => Box::pin(ignition::run(args)).await?,
        ServeWhat::Machines(args) => Box::pin(machines::run(args)).await?,
        ServeWhat::EtcdBackup(args) => etcd_backup(args).await?,
        ServeWhat::HostedClusterConfigOperator(args) => Box::pin(guest::config_operator(args)).await?,
        ServeWhat::KasConnectionChecker(args) => guest::connection_checker(args).await?,
        ServeWhat::TokenMinter(args) => return sidecar::token_minter(args).await,
        ServeWhat::AvailabilityProber(args) => return sidecar::availability_prober(args).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// Uploads a snapshot.
async fn etcd_backup(args: control_plane::etcd::upload::UploadArgs) -> anyhow::Result<()> {
    let env = ::azure::Env::of_process();
    let url = control_plane::etcd::upload::upload(&env, &args, &args.file).await?;
    output::line(&format!("the snapshot is at {url}"));
    Ok(())
}

async fn kube(args: KubeArgs) -> anyhow::Result<()> {
    // Listen for signals first: one that comes during start must end us in order, too.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let authenticators = match &args.authentication_config {
        Some(p) => {
            let text = std::fs::read_to_string(p).with_context(|| format!("cannot read {}", p.display()))?;
            let v: Value =
                serde_saphyr::from_str(&text).with_context(|| format!("{} is not YAML", p.display()))?;
            ek_auth::oidc::parse(&v).with_context(|| format!("{} is not usable", p.display()))?
        }
        None => Vec::new(),
    };
    let storage = if args.in_memory { Storage::Memory } else { Storage::Directory(args.data_dir.clone()) };
    let server = ApiServer::start(Config {
        storage,
        audit_log: args.audit_log.clone(),
        authenticators,
        keys: std::sync::Arc::new(ek_server::HttpKeys),
        issuer_url: args.service_account_issuer.clone(),
        names: args.tls_names.clone(),
        ..Config::memory()
    })
    .await
    .context("the API server cannot start")?;
    for name in &args.clusters {
        let made = server.host().ensure(name, ClusterConfig::default()).await;
        made.with_context(|| format!("cannot serve cluster {name}"))?;
    }
    // Volumes live beside the data; without any, in a directory that goes with the process.
    let scratch = args.in_memory.then(tempfile::tempdir).transpose();
    let scratch = scratch.context("cannot make a directory for the nodes' volumes")?;
    let node_dir = scratch.as_ref().map_or(args.data_dir.as_path(), |dir| dir.path());
    let wanted = Wanted { controllers: args.controllers, nodes: args.nodes };
    let living = Living::start(server.host(), wanted, living::node_options(node_dir)).await?;
    let listening = server.listen(args.listen).await.with_context(|| {
        format!(
            "cannot serve on {}: choose another address with --listen, or port 0 for any free one",
            args.listen
        )
    })?;
    let url = format!("https://{}", listening.address);
    if let Some(path) = &args.kubeconfig_out {
        write_kubeconfig(path, &server.kubeconfig(&url)?)?;
        for name in server.host().names().iter().filter(|n| *n != server.name()) {
            let Some(cluster) = server.host().cluster(name) else { continue };
            let mut file = path.as_os_str().to_owned();
            file.push(format!(".{name}"));
            write_kubeconfig(Path::new(&file), &cluster.kubeconfig_below(&url, server.ca_pem())?)?;
        }
    }
    output::line(&format!("ready {url}"));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    tracing::info!("draining; a second Ctrl-C ends it at once");
    let drained = async {
        listening.drain().await;
        server.stop().await;
        living.end().await;
    };
    tokio::select! {
        () = drained => Ok(()),
        _ = interrupt.recv() => bail!("interrupted while draining; acknowledged writes are safe"),
    }
}

pub fn write_kubeconfig(path: &Path, config: &Value) -> anyhow::Result<()> {
    let text = serde_saphyr::to_string(config)?;
    ek_server::write_private(path, &text).with_context(|| format!("cannot write {}", path.display()))
}
