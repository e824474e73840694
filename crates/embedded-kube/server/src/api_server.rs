//! An API server to embed: made from a [`Config`], asked in process or through a socket, stopped on request.

use crate::admission::{NoServices, ServiceResolver, Webhooks};
use crate::audit::Audit;
use crate::client::LocalService;
use crate::cluster::{Cluster, ClusterParts};
use crate::identity::{Identity, KeySource, NoKeys};
use crate::listen::{self, Listening};
use clock::{Random, SharedClock};
use ek_auth::User;
use ek_auth::oidc::JwtAuthenticator;
use ek_auth::pki::{Authority, Pair, Secret};
use ek_auth::token::{self, Issuer};
use ek_store::{ClusterId, CommitError, OpenError, Options, Store};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

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
    #[error(transparent)]
    Listen(#[from] listen::Error),
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { action, path: path.to_owned(), source }
}

/// One running cluster.
#[derive(Clone)]
pub struct ApiServer {
    cluster: Arc<Cluster>,
    names: Vec<String>,
    keys_dir: Option<PathBuf>,
}

impl ApiServer {
    /// Opens storage, identity and, on first start, the initial objects.
    pub async fn start(config: Config) -> Result<ApiServer, Error> {
        let options = Options::new(config.clock.clone());
        let (store, keys_dir) = match &config.storage {
            Storage::Memory => (Store::memory(options), None),
            Storage::Directory(dir) => (Store::open(&dir.join("store"), options)?, Some(dir.join("pki"))),
        };
        let (authority, issuer) = identity(&config, keys_dir.as_deref())?;
        let audit = match &config.audit_log {
            Some(p) => Audit::to_file(p).map_err(io("open audit log", p))?,
            None => Audit::off(),
        };
        let cluster = Cluster::new(ClusterParts {
            id: ClusterId::new(&config.cluster),
            store,
            clock: config.clock,
            random: config.random,
            identity: Identity::new(authority, issuer, config.authenticators, config.keys),
            audit,
            webhooks: Webhooks::new(config.services),
            shutdown: CancellationToken::new(),
        });
        cluster.bootstrap().await.map_err(Error::Bootstrap)?;
        cluster.resume_deletions();
        Ok(ApiServer { cluster, names: config.names, keys_dir })
    }

    /// Serves on a socket; port 0 picks a free one.
    pub async fn listen(&self, address: SocketAddr) -> Result<Listening, Error> {
        Ok(listen::listen(self.cluster.clone(), address, &self.names).await?)
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
        let (Some(dir), Some(old), Some(new)) =
            (&self.keys_dir, retired.first(), issuer.keys().into_iter().next())
        else {
            return Ok(());
        };
        // The old key first: a crash in between leaves it twice, never lost.
        let kept = dir.join(format!("sa-{:06}.key", retired.len()));
        write_private(&kept, old.expose()).map_err(io("write", &kept))?;
        let signing = dir.join("sa.key");
        write_private(&signing, new.expose()).map_err(io("write", &signing))
    }

    pub fn ca_pem(&self) -> &str {
        self.cluster.identity.authority.cert_pem()
    }

    /// A kubeconfig for `url` with a client certificate of the cluster's administrator.
    pub fn kubeconfig(&self, url: &str) -> Result<Value, Error> {
        use base64::Engine;
        let b64 = |s: &str| base64::engine::general_purpose::STANDARD.encode(s);
        let authority = &self.cluster.identity.authority;
        let year = SignedDuration::from_hours(24 * 365);
        let admin = authority
            .issue_client("kubernetes-admin", ek_auth::MASTERS, self.cluster.now(), year)
            .map_err(Error::Authority)?;
        let name = self.cluster.id.as_str();
        Ok(json!({
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": b64(authority.cert_pem())}}],
            "users": [{"name": format!("{name}-admin"), "user": {
                "client-certificate-data": b64(&admin.cert_pem), "client-key-data": b64(admin.key_pem.expose())}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": format!("{name}-admin"), "namespace": "default"}}],
        }))
    }

    /// Ends watches, finishes accepted writes, closes the log. Call after [`Listening::drain`].
    pub async fn stop(&self) {
        self.cluster.shutdown.cancel();
        let cluster = self.cluster.clone();
        let _ = tokio::task::spawn_blocking(move || {
            cluster.store.close();
            cluster.audit.close();
        })
        .await;
    }
}

/// The cluster's own keys: kept beside the data when there is any, new otherwise.
fn identity(config: &Config, dir: Option<&Path>) -> Result<(Authority, Issuer), Error> {
    let now = config.clock.now();
    let fresh_authority = || Authority::generate("kubernetes", now).map_err(Error::Authority);
    let Some(dir) = dir else {
        let key = token::generate_key().map_err(Error::Issuer)?;
        let issuer = Issuer::new(&config.issuer_url, vec![key]).map_err(Error::Issuer)?;
        return Ok((fresh_authority()?, issuer));
    };
    fs::create_dir_all(dir).map_err(io("create", dir))?;
    let (cert, key, sa) = (dir.join("ca.crt"), dir.join("ca.key"), dir.join("sa.key"));
    let authority = match (read(&cert)?, read(&key)?) {
        (Some(cert_pem), Some(key_pem)) => {
            Authority::from_pair(Pair { cert_pem, key_pem: Secret::new(key_pem) })
                .map_err(Error::Authority)?
        }
        _ => {
            let a = fresh_authority()?;
            write_private(&key, a.pair().key_pem.expose()).map_err(io("write", &key))?;
            write_private(&cert, a.cert_pem()).map_err(io("write", &cert))?;
            a
        }
    };
    let signing = match read(&sa)? {
        Some(pem) => Secret::new(pem),
        None => {
            let k = token::generate_key().map_err(Error::Issuer)?;
            write_private(&sa, k.expose()).map_err(io("write", &sa))?;
            k
        }
    };
    let mut keys = vec![signing];
    keys.extend(retired_keys(dir)?);
    Ok((authority, Issuer::new(&config.issuer_url, keys).map_err(Error::Issuer)?))
}

/// Keys that no longer sign but still verify: `sa-*.key` beside `sa.key`, newest first. Deleting one of these
/// files ends the tokens it signed at the next start.
fn retired_keys(dir: &Path) -> Result<Vec<Secret>, Error> {
    let mut names: Vec<PathBuf> = fs::read_dir(dir)
        .map_err(io("list", dir))?
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| {
            let name = p.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            name.starts_with("sa-") && name.ends_with(".key")
        })
        .collect();
    names.sort();
    names.reverse();
    names.iter().filter_map(|p| read(p).transpose()).map(|r| r.map(Secret::new)).collect()
}

fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(s) => Ok(Some(s)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io("read", path)(e)),
    }
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
