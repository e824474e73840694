//! An API server to embed: made from a [`Config`], asked in process or through a socket, stopped on request.

use crate::access::Access;
use crate::admission::{NoServices, ServiceResolver};
use crate::client::LocalService;
use crate::cluster::Cluster;
use crate::given::{Given, GivenError};
use crate::host::{self, ClusterConfig, Host, HostConfig};
use crate::identity::{KeySource, NoKeys};
use crate::listen::{self, Listening};
use clock::{Random, SharedClock};
use ek_auth::User;
use ek_auth::oidc::JwtAuthenticator;
use ek_auth::token;
use ek_store::{CommitError, OpenError};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where objects are kept.
#[derive(Clone, Debug)]
pub enum Storage {
    Memory,
    /// A directory of our own, created if missing.
    Directory(PathBuf),
}

/// What a server is made with. [`Config::memory`] is enough for tests.
pub struct Config {
    pub cluster: String,
    pub storage: Storage,
    pub clock: SharedClock,
    pub random: Random,
    /// Issuer of service-account tokens.
    pub issuer_url: String,
    pub audit_log: Option<PathBuf>,
    pub authenticators: Vec<JwtAuthenticator>,
    pub keys: Arc<dyn KeySource>,
    pub services: Arc<dyn ServiceResolver>,
    /// Further DNS names clients reach us by.
    pub names: Vec<String>,
}

impl Config {
    pub fn memory() -> Config {
        Config {
            cluster: "main".into(),
            storage: Storage::Memory,
            clock: clock::system(),
            random: Random::from_os(),
            issuer_url: "https://kubernetes.default.svc.cluster.local".into(),
            audit_log: None,
            authenticators: Vec::new(),
            keys: Arc::new(NoKeys),
            services: Arc::new(NoServices),
            names: Vec::new(),
        }
    }

    pub fn directory(dir: impl Into<PathBuf>) -> Config {
        Config { storage: Storage::Directory(dir.into()), ..Config::memory() }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot {action} {path}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot prepare the cluster's certificate authority")]
    Authority(#[source] ek_auth::pki::Error),
    #[error("cannot prepare the cluster's token issuer")]
    Issuer(#[source] token::Error),
    #[error("cannot write the objects every cluster starts with")]
    Bootstrap(#[source] CommitError),
    #[error("cannot remove the cluster's objects")]
    Delete(#[source] CommitError),
    #[error(
        "{name:?} is no name for a cluster: use at most 63 lower-case letters, digits and dashes, beginning and ending with a letter or digit"
    )]
    Name { name: String },
    #[error("{name:?} is the name of a cluster that is not a guest")]
    Taken { name: String },
    #[error(transparent)]
    Given(#[from] GivenError),
    #[error(transparent)]
    Listen(#[from] listen::Error),
}

pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { action, path: path.to_owned(), source }
}

/// One running cluster.
#[derive(Clone)]
pub struct ApiServer {
    host: Host,
    cluster: Arc<Cluster>,
    names: Vec<String>,
}

impl ApiServer {
    /// A host with one cluster in it.
    pub async fn start(config: Config) -> Result<ApiServer, Error> {
        let host = Host::start(HostConfig {
            storage: config.storage,
            clock: config.clock,
            random: config.random,
            audit_log: config.audit_log,
            keys: config.keys,
        })
        .await?;
        host.set_services(config.services);
        let cluster = ClusterConfig {
            issuer_url: config.issuer_url,
            authenticators: config.authenticators,
            names: config.names.clone(),
        };
        let server = host.ensure(&config.cluster, cluster).await?;
        Ok(ApiServer { names: config.names, ..server })
    }

    pub(crate) fn new(host: Host, cluster: Arc<Cluster>) -> ApiServer {
        ApiServer { host, cluster, names: Vec::new() }
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    pub fn name(&self) -> &str {
        self.cluster.id.as_str()
    }

    /// The cluster for code of this process that writes as `manager`.
    pub fn access(&self, manager: &'static str) -> Access {
        Access::new(self.cluster.clone(), User::loopback(), manager)
    }

    /// Serves on a socket; port 0 picks a free one.
    pub async fn listen(&self, address: SocketAddr) -> Result<Listening, Error> {
        Ok(listen::listen(&self.host, &self.cluster, address, &self.names).await?)
    }

    /// A client in this process with all rights.
    pub fn client(&self) -> kube::Client {
        self.client_as(User::loopback())
    }

    pub fn client_as(&self, user: User) -> kube::Client {
        kube::Client::new(self.service(user), "default")
    }

    /// The bare service behind [`ApiServer::client_as`].
    pub fn service(&self, user: User) -> LocalService {
        LocalService::new(self.cluster.clone(), user)
    }

    /// Signs service-account tokens with a new key from now on; tokens of the old one stay valid. With a data
    /// directory both are kept, so this survives a restart.
    pub fn rotate_token_key(&self) -> Result<(), Error> {
        let mut issuer = self.cluster.identity.issuer.write();
        let retired = issuer.keys();
        issuer.rotate().map_err(Error::Issuer)?;
        let dir = self.host.keys_dir(&self.cluster.id);
        let (Some(dir), Some(old), Some(new)) = (dir, retired.first(), issuer.keys().into_iter().next())
        else {
            return Ok(());
        };
        host::keep_rotated(&dir, retired.len(), old.expose(), new.expose())
    }

    /// Takes on another identity and other encryption, for a guest; requests and watches under way go on.
    pub async fn reload(&self, given: Given) -> Result<(), Error> {
        self.cluster.take_all_on(given).await?;
        self.host.tell_of(&self.cluster).await.map_err(Error::Bootstrap)
    }

    /// Asks a KMS for the keys of a guest's objects and uses them; waits as long as its plugins do.
    pub async fn bring_keys(&self, encryption: &crate::Encryption) -> Result<(), Error> {
        self.cluster.bring_keys(Some(encryption)).await?;
        self.host.tell_of(&self.cluster).await.map_err(Error::Bootstrap)
    }

    /// Trusts other issuers from now on.
    pub fn reload_authenticators(&self, all: Vec<JwtAuthenticator>) {
        self.cluster.identity.set_authenticators(all);
    }

    /// Who signs requests for certificates in a guest; `None` takes it back. What is returned is how it is known later.
    pub fn set_signer(
        &self,
        authority: Option<ek_auth::pki::Authority>,
    ) -> Option<Arc<ek_auth::pki::Authority>> {
        let given = authority.map(Arc::new);
        self.cluster.identity.signer.write().clone_from(&given);
        given
    }

    /// Takes a signer back, unless another has come in its place: of two that overlap, the first must not take the
    /// second one with it.
    pub fn withdraw_signer(&self, given: &Arc<ek_auth::pki::Authority>) {
        let mut signer = self.cluster.identity.signer.write();
        if signer.as_ref().is_some_and(|s| Arc::ptr_eq(s, given)) {
            *signer = None;
        }
    }

    /// What clients inside of a guest trust from now on, whatever identity it is given.
    pub fn set_root_ca(&self, pem: &str) {
        self.cluster.identity.set_ca(pem);
    }

    /// The store behind it.
    pub fn store(&self) -> &ek_store::Store {
        &self.cluster.store
    }

    /// Writes every object of a resource that is stored under another key than the first of the configuration; says
    /// how many. Each is an update that changes nothing, so watchers see it and conflicts are nobody's loss.
    pub async fn rewrite(&self, group: &str, plural: &str) -> Result<usize, ek_meta::Status> {
        let table = crate::registry::table_name(group, plural);
        let access = self.access("storage-version-migrator");
        let mut written = 0;
        for (key, entry) in &access.table(&table).objects {
            if self.cluster.store.is_current(&table, entry) {
                continue;
            }
            let (namespace, name) = key.split_once('/').unwrap_or(("", key));
            match access.update(&table, namespace, name, "", |_| true).await {
                Ok(_) => written += 1,
                Err(s) if s.code == 404 => {}
                Err(s) => return Err(s),
            }
        }
        Ok(written)
    }

    pub(crate) fn serves(&self, cluster: &Arc<Cluster>) -> bool {
        Arc::ptr_eq(&self.cluster, cluster)
    }

    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    pub fn ca_pem(&self) -> &str {
        self.cluster.identity.authority.cert_pem()
    }

    /// A kubeconfig for `url`, where this cluster's own certificate is shown, as its administrator.
    pub fn kubeconfig(&self, url: &str) -> Result<Value, Error> {
        self.kubeconfig_for(json!({"server": url, "certificate-authority-data": b64(self.ca_pem())}))
    }

    /// A kubeconfig for this cluster under its path at `url`, where another's certificate is shown.
    pub fn kubeconfig_below(&self, url: &str, shown_by: &str) -> Result<Value, Error> {
        let server = format!("{url}/clusters/{}", self.name());
        self.kubeconfig_for(json!({"server": server, "certificate-authority-data": b64(shown_by)}))
    }

    /// A kubeconfig for this cluster by its name at `url`, where others are, too.
    pub fn kubeconfig_by_name(&self, url: &str) -> Result<Value, Error> {
        let name = format!("{}.{}", self.name(), host::DOMAIN);
        let ca = b64(self.ca_pem());
        self.kubeconfig_for(json!({"server": url, "tls-server-name": name, "certificate-authority-data": ca}))
    }

    fn kubeconfig_for(&self, at: Value) -> Result<Value, Error> {
        let authority = &self.cluster.identity.authority;
        let year = SignedDuration::from_hours(24 * 365);
        let admin = authority
            .issue_client("kubernetes-admin", ek_auth::MASTERS, self.cluster.now(), year)
            .map_err(Error::Authority)?;
        let name = self.cluster.id.as_str();
        Ok(json!({
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": name, "cluster": at}],
            "users": [{"name": format!("{name}-admin"), "user": {
                "client-certificate-data": b64(&admin.cert_pem), "client-key-data": b64(admin.key_pem.expose())}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": format!("{name}-admin"), "namespace": "default"}}],
        }))
    }

    /// Stops the whole host: ends watches, finishes accepted writes, closes the log. Call after
    /// [`Listening::drain`].
    pub async fn stop(&self) {
        self.host.stop().await;
    }
}

fn b64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// Writes a file that only we may read, whole or not at all.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut tmp = path.as_os_str().to_owned();
    tmp.push(".tmp");
    let tmp = PathBuf::from(tmp);
    let mut f = fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&tmp)?;
    f.write_all(text.as_bytes())?;
    f.sync_all()?;
    drop(f);
    fs::rename(&tmp, path)
}
