//! `zaffre explain`: reads a management cluster and draws what it says.

use crate::cli::Format;
use crate::cli::explain::{Explain, HostedClusterArgs};
use crate::output;
use anyhow::Context;
use hypershift::explain;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

pub async fn run(what: Explain) -> anyhow::Result<()> {
    match what {
        Explain::Hostedcluster(args) => hosted_cluster(args).await,
    }
}

async fn client(args: &HostedClusterArgs) -> anyhow::Result<Client> {
    let mut config = match &args.kubeconfig {
        Some(path) => {
            let file =
                Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
        None => kube::Config::infer()
            .await
            .context("there is no cluster to ask: give --kubeconfig, or set KUBECONFIG")?,
    };
    // As kubectl does it: a proxy of the environment is not the way to this machine.
    let host = config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']);
    if host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()) {
        config.proxy_url = None;
    }
    Ok(Client::try_from(config)?)
}

async fn hosted_cluster(args: HostedClusterArgs) -> anyhow::Result<()> {
    let client = client(&args).await?;
    let facts = explain::read::facts(&client, &args.namespace, &args.name).await?;
    let tree = explain::explain(&facts);
    match args.output {
        Format::Text => {
            output::line(explain::text(&tree, clock::system().now(), args.all).trim_end());
            Ok(())
        }
        format => output::value(format, &serde_json::to_value(&tree)?),
    }
}
