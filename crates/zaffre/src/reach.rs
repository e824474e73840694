//! From flags to a client of a cluster: one way for all commands.

use anyhow::{Context, bail};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

const VARIABLE: &str = "KUBECONFIG";

/// Where to look if no kubeconfig is given.
#[derive(Clone, Copy, Debug)]
pub enum Otherwise {
    /// The service account of this pod: whoever is to run in a cluster must not find another one by chance.
    Pod,
    /// KUBECONFIG, the service account of this pod, and at last what is at home. Who set the variable means that cluster:
    /// it is never passed over for another one.
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
        (Some(path), _) => of_files(&[path.to_owned()], flag).await?,
        (None, Otherwise::Pod) => Config::incluster().with_context(|| {
            format!("not in a cluster: give {flag} FILE, or run as a pod with a service account")
        })?,
        (None, Otherwise::Anywhere) => anywhere(flag).await?,
    };
    if let Some(user) = user {
        config.auth_info.impersonate = Some(user.to_owned());
    }
    made(config)
}

async fn anywhere(flag: &str) -> anyhow::Result<Config> {
    let listed = std::env::var_os(VARIABLE).unwrap_or_default();
    let listed: Vec<PathBuf> =
        std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
    if !listed.is_empty() {
        return of_files(&listed, VARIABLE).await;
    }
    if let Ok(config) = Config::incluster() {
        return Ok(config);
    }
    let home = std::env::home_dir().unwrap_or_default().join(".kube/config");
    if !home.exists() {
        bail!(
            "there is no cluster to ask: this is no pod, and there is no {}: give {flag} FILE, or set {VARIABLE}",
            home.display()
        );
    }
    of_files(&[home], &format!("{flag} names another")).await
}

/// What kubeconfigs say together; `by` is what named them.
async fn of_files(paths: &[PathBuf], by: &str) -> anyhow::Result<Config> {
    // As kubectl does it: of several, some may be missing.
    let there: Vec<&PathBuf> = match paths {
        [one] => vec![one],
        many => many.iter().filter(|path| path.exists()).collect(),
    };
    let shown = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    if there.is_empty() {
        bail!("cannot read {shown} ({by}): there is none of them");
    }
    let read = || format!("cannot read {shown} ({by})");
    let mut all = Kubeconfig::default();
    for path in there {
        let file = Kubeconfig::read_from(path).with_context(read)?;
        all = all.merge(file).with_context(read)?;
    }
    match Config::from_custom_kubeconfig(all, &KubeConfigOptions::default()).await {
        Ok(config) => Ok(config),
        Err(KubeconfigError::LoadContext(name)) if !name.is_empty() => {
            bail!("{shown} ({by}) has no context {name}: `kubectl config get-contexts` lists them")
        }
        Err(KubeconfigError::LoadContext(_) | KubeconfigError::CurrentContextNotSet) => {
            bail!(
                "{shown} ({by}) does not say which context to use: choose one with `kubectl config use-context`"
            )
        }
        Err(e) => Err(e).with_context(read),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dir: &Path, name: &str, current: &str) -> PathBuf {
        let path = dir.join(name);
        let text = format!(
            "apiVersion: v1\nkind: Config\n{current}\nclusters: [{{name: c, cluster: {{server: 'https://{name}.example'}}}}]\n\
             users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: here, context: {{cluster: c, user: u}}}}]\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    #[tokio::test]
    async fn kubeconfigs_say_where_or_why_not() {
        let dir = tempfile::tempdir().unwrap();
        let good = file(dir.path(), "good", "current-context: here");
        let missing = dir.path().join("missing");
        let both = of_files(&[missing.clone(), good], "KUBECONFIG").await.unwrap();
        assert_eq!(both.cluster_url.host(), Some("good.example"));
        for (path, words) in [
            (missing, ["missing (KUBECONFIG)", "cannot read"]),
            (
                file(dir.path(), "stale", "current-context: gone"),
                ["stale (KUBECONFIG) has no context gone", "`kubectl config get-contexts` lists them"],
            ),
            (file(dir.path(), "none", ""), ["none (KUBECONFIG)", "kubectl config use-context"]),
        ] {
            let said = of_files(&[path], "KUBECONFIG").await.map(drop).unwrap_err().to_string();
            assert!(words.iter().all(|w| said.contains(w)), "{said}");
        }
    }
}
