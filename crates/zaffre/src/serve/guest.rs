//! `zaffre serve hosted-cluster-config-operator` and `serve kas-connection-checker`: what a hosted cluster needs in itself.

use super::observe::{self, Seen};
use super::sidecar::until_told;
use crate::output;
use crate::reach::{self, Otherwise};
use anyhow::{Context, bail};
use guest_config::probe::ByName;
use guest_config::{Args, Means, checker};
use kube::{Client, Config};
use reconcile::{Elector, Led, Metrics, Timing};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Guests are asked through a control plane that may be upgrading: leases outlast that.
const LEASE: Timing = Timing {
    duration: Duration::from_secs(137),
    deadline: Duration::from_secs(107),
    retry: Duration::from_secs(26),
};

pub async fn config_operator(args: Args) -> anyhow::Result<()> {
    let stop = until_told()?;
    let management = reach::cluster(args.kubeconfig.as_deref(), "--kubeconfig", Otherwise::Pod).await?;
    let guest = reach::cluster(Some(&args.target_kubeconfig), "--target-kubeconfig", Otherwise::Pod).await?;
    let (metrics, random) = (Metrics::default(), clock::Random::from_os());
    let working = Arc::new(AtomicBool::new(false));
    let ready = working.clone();
    let page = Box::new(String::new);
    let seen =
        Seen { metrics: metrics.clone(), page, ready: Box::new(move || ready.load(Ordering::Relaxed)) };
    let seen = Arc::new(seen);
    let at = observe::serve(args.metrics_address, seen.clone(), stop.clone()).await?;
    if args.health_address != args.metrics_address {
        observe::serve(args.health_address, seen, stop.clone()).await?;
    }
    #[allow(clippy::disallowed_methods, reason = "the environment is how pods are told of images")]
    let told = args.told(|name| std::env::var(name).ok());
    let holder = format!("{}_{:016x}", args.hosted_control_plane, u64::from_le_bytes(random.bytes()));
    let lease = "hosted-cluster-config-operator";
    let elector = Elector::new(&management, &args.namespace, lease, &holder, clock::system());
    let elector = elector.timing(LEASE).with_metrics(&metrics);
    output::line(&format!("ready http://{at}"));
    // Whoever stands by is as ready as can be.
    working.store(true, Ordering::Relaxed);
    let led = elector
        .lead(&stop, |stop| {
            let means = Means {
                management: management.clone(),
                guest,
                backends: Arc::new(ByName { namespace: args.namespace.clone() }),
                clock: clock::system(),
                random: random.clone(),
                metrics: metrics.clone(),
            };
            guest_config::run(told, means, stop)
        })
        .await;
    match led {
        Led::Lost(_) => bail!("the Lease {lease} was lost; starting again is safe"),
        Led::Finished(_) | Led::Never => Ok(()),
    }
}

pub async fn connection_checker(args: checker::Args) -> anyhow::Result<()> {
    let stop = until_told()?;
    let client =
        Client::try_from(Config::incluster().context("not in a cluster: this runs as a pod of the guest")?)?;
    checker::run(&args, &client, &clock::system(), &stop).await;
    Ok(())
}
