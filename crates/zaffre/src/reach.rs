//! From flags to a client of a cluster: one way for all commands.

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::net::IpAddr;
use std::path::Path;

/// Where to look if no kubeconfig is given.
#[derive(Clone, Copy, Debug)]
pub enum Otherwise {
    /// The service account of this pod: whoever is to run in a cluster must not find another one by chance.
    Pod,
    /// Wherever kubectl would look.
    Anywhere,
}

/// The cluster of a kubeconfig (`flag` is what it was given by), or the one that is found without.
pub async fn cluster(kubeconfig: Option<&Path>, flag: &str, otherwise: Otherwise) -> anyhow::Result<Client> {
    cluster_as(kubeconfig, flag, otherwise, None).await
}

/// The same, as another user if one is named.
pub async fn cluster_as(
    kubeconfig: Option<&Path>,
    flag: &str,
    otherwise: Otherwise,
    user: Option<&str>,
) -> anyhow::Result<Client> {
    let mut config = match (kubeconfig, otherwise) {
        (Some(path), _) => {
            let read = || format!("cannot read {} ({flag})", path.display());
            let file = Kubeconfig::read_from(path).with_context(read)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.with_context(read)?
        }
        (None, Otherwise::Pod) => Config::incluster().with_context(|| {
            format!("not in a cluster: give {flag} FILE, or run as a pod with a service account")
        })?,
        (None, Otherwise::Anywhere) => Config::infer()
            .await
            .with_context(|| format!("there is no cluster to ask: give {flag} FILE, or set KUBECONFIG"))?,
    };
    if let Some(user) = user {
        config.auth_info.impersonate = Some(user.to_owned());
    }
    made(config)
}

/// The cluster of a kubeconfig that was read.
pub async fn by(file: Kubeconfig) -> anyhow::Result<Client> {
    made(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
}

fn made(mut config: Config) -> anyhow::Result<Client> {
    // As kubectl does it: a proxy of the environment is not the way to this machine.
    let host = config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']);
    if host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()) {
        config.proxy_url = None;
    }
    Ok(Client::try_from(config)?)
}
