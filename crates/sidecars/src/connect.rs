//! From a kubeconfig to a client.

use crate::Place;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use std::io;
use std::time::Duration;

/// No kubeconfig is larger.
const LARGEST: u64 = 1 << 20;
/// For one call.
pub(crate) const CALL: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(
        "there is nothing at {0}: mount the Secret that holds the kubeconfig there, or change --kubeconfig"
    )]
    NoPlace(String),
    #[error("cannot read the kubeconfig {path} (--kubeconfig)")]
    Read { path: String, source: io::Error },
    #[error("the kubeconfig {path} has more than {LARGEST} bytes")]
    Large { path: String },
    #[error("{of} is no kubeconfig")]
    Parse { of: String, source: Box<KubeconfigError> },
    #[error(
        "the kubeconfig {of} asks for a command or a plugin (user {user:?}), and none is run here: use a certificate or a token"
    )]
    Plugin { of: String, user: String },
    #[error("the kubeconfig {of} names a file, {path}, that this container does not have")]
    NoFile { of: String, path: String },
    #[error("cannot reach the management cluster, where Secret {secret} is: {why}")]
    Here { secret: String, why: String },
    #[error("cannot read Secret {secret} (--kubeconfig-secret-namespace, --kubeconfig-secret-name)")]
    Secret { secret: String, source: Box<kube::Error> },
    #[error("no answer in {CALL:?} when asked for Secret {secret}")]
    Slow { secret: String },
    #[error("Secret {secret} has no key \"kubeconfig\"")]
    NoKey { secret: String },
    #[error("{host}:{port} leads nowhere: {why}")]
    Route { host: String, port: u16, why: String },
    #[error("cannot make a client from {of}")]
    Client { of: String, source: Box<kube::Error> },
    #[error("{0:?} is no https URL of an API server")]
    Url(String),
}

/// Where a kubeconfig comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeconfigFrom {
    File(String),
    /// A Secret of the cluster that the pod is in, key `kubeconfig`.
    Secret {
        namespace: String,
        name: String,
    },
}

impl std::fmt::Display for KubeconfigFrom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KubeconfigFrom::File(path) => f.write_str(path),
            KubeconfigFrom::Secret { namespace, name } => write!(f, "Secret {namespace}/{name}"),
        }
    }
}

impl KubeconfigFrom {
    async fn text(&self, place: &dyn Place) -> Result<String, ConnectError> {
        match self {
            KubeconfigFrom::File(path) => {
                let real = place.path(path).ok_or_else(|| ConnectError::NoPlace(path.clone()))?;
                let read = tokio::task::spawn_blocking(move || {
                    let size = std::fs::metadata(&real)?.len();
                    if size > LARGEST { Ok(None) } else { std::fs::read_to_string(real).map(Some) }
                });
                let failed = |source| ConnectError::Read { path: path.clone(), source };
                let text = read.await.map_err(|e| failed(io::Error::other(e)))?.map_err(failed)?;
                text.ok_or_else(|| ConnectError::Large { path: path.clone() })
            }
            KubeconfigFrom::Secret { namespace, name } => {
                let secret = format!("{namespace}/{name}");
                let client = place.here().await;
                let client = client.map_err(|why| ConnectError::Here { secret: secret.clone(), why })?;
                let api: Api<Secret> = Api::namespaced(client, namespace);
                let found = tokio::time::timeout(CALL, api.get(name)).await;
                let found = found.map_err(|_| ConnectError::Slow { secret: secret.clone() })?;
                let found = found
                    .map_err(|e| ConnectError::Secret { secret: secret.clone(), source: Box::new(e) })?;
                let bytes = found.data.and_then(|mut d| d.remove("kubeconfig"));
                let text = bytes.and_then(|b| String::from_utf8(b.0).ok());
                text.ok_or(ConnectError::NoKey { secret })
            }
        }
    }

    /// The kubeconfig's current context, led to where its host really is.
    pub(crate) async fn config(&self, place: &dyn Place) -> Result<kube::Config, ConnectError> {
        config_of(&self.to_string(), &self.text(place).await?, place).await
    }

    /// A client by what the kubeconfig says now.
    pub async fn client(&self, place: &dyn Place) -> Result<kube::Client, ConnectError> {
        client_of(self.config(place).await?, &self.to_string())
    }
}

/// A client by a kubeconfig that was put together by the caller; `of` is what errors call it.
pub async fn client_by_text(of: &str, text: &str, place: &dyn Place) -> Result<kube::Client, ConnectError> {
    client_of(config_of(of, text, place).await?, of)
}

async fn config_of(of: &str, text: &str, place: &dyn Place) -> Result<kube::Config, ConnectError> {
    let parse = |e: KubeconfigError| ConnectError::Parse { of: of.to_owned(), source: Box::new(e) };
    let mut file = Kubeconfig::from_yaml(text).map_err(parse)?;
    checked(of, &mut file, place)?;
    let proxied = file.clusters.iter().filter_map(|c| c.cluster.as_ref()).any(|c| c.proxy_url.is_some());
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(parse)?;
    if !proxied {
        // A proxy in the environment is the way out to Azure, not to an API server beside us.
        config.proxy_url = None;
    }
    routed(config, place)
}

pub(crate) fn client_of(config: kube::Config, of: &str) -> Result<kube::Client, ConnectError> {
    kube::Client::try_from(config)
        .map_err(|e| ConnectError::Client { of: of.to_owned(), source: Box::new(e) })
}

/// A kubeconfig is data from a Secret: it may name files of the container, and nothing that is run.
fn checked(of: &str, file: &mut Kubeconfig, place: &dyn Place) -> Result<(), ConnectError> {
    let lead = |named: &mut Option<String>| -> Result<(), ConnectError> {
        let Some(path) = named else { return Ok(()) };
        let missing = || ConnectError::NoFile { of: of.to_owned(), path: path.clone() };
        *path = place.path(path).ok_or_else(missing)?.to_string_lossy().into_owned();
        Ok(())
    };
    for c in file.clusters.iter_mut().filter_map(|c| c.cluster.as_mut()) {
        lead(&mut c.certificate_authority)?;
    }
    for u in &mut file.auth_infos {
        let Some(auth) = &mut u.auth_info else { continue };
        if auth.exec.is_some() || auth.auth_provider.is_some() {
            return Err(ConnectError::Plugin { of: of.to_owned(), user: u.name.clone() });
        }
        lead(&mut auth.client_certificate)?;
        lead(&mut auth.client_key)?;
        lead(&mut auth.token_file)?;
    }
    Ok(())
}

/// Leads a configuration to where its host really is; the certificate is still checked against its name.
pub(crate) fn routed(mut config: kube::Config, place: &dyn Place) -> Result<kube::Config, ConnectError> {
    config.connect_timeout = Some(CALL);
    config.read_timeout = Some(CALL);
    config.write_timeout = Some(CALL);
    config.default_retry = false;
    let url = config.cluster_url.clone();
    let bad = || ConnectError::Url(url.to_string());
    let host = url.host().ok_or_else(bad)?.trim_matches(['[', ']']).to_owned();
    let port = url.port_u16().unwrap_or_else(|| if url.scheme_str() == Some("http") { 80 } else { 443 });
    let found =
        place.route(&host, port).map_err(|why| ConnectError::Route { host: host.clone(), port, why })?;
    if let Some(address) = found {
        config.tls_server_name.get_or_insert(host);
        let mut parts = url.clone().into_parts();
        parts.authority = Some(address.to_string().parse().map_err(|_| bad())?);
        config.cluster_url = http::Uri::from_parts(parts).map_err(|_| bad())?;
    }
    Ok(config)
}
