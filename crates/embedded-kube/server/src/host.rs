//! All clusters of one process: one store, one audit log, one way in; each cluster with its own authority,
//! issuer, objects and revisions.
//!
//! A cluster costs what it stores. There is no task, thread or channel per cluster: background work follows
//! [`Host::feed`], which tells of all of them.

use crate::access::Access;
use crate::admission::{NoServices, ServiceResolver, Webhooks};
use crate::api_server::{ApiServer, Error, Storage, io, write_private};
use crate::audit::Audit;
use crate::bootstrap;
use crate::cluster::{Cluster, ClusterParts};
use crate::given::Given;
use crate::identity::{Identity, KeySource, NoKeys};
use crate::keys::{self, Keys};
use crate::pods::{PodRuntime, Pods};
use arc_swap::ArcSwap;
use clock::{Random, SharedClock};
use ek_auth::User;
use ek_auth::oidc::JwtAuthenticator;
use ek_store::{Base, ClusterId, CommitError, Feed, FeedHandle, Options, Shared, Store};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

/// What a host is made with.
pub struct HostConfig {
    pub storage: Storage,
    pub clock: SharedClock,
    pub random: Random,
    pub audit_log: Option<PathBuf>,
    /// Where the keys of outside issuers come from.
    pub keys: Arc<dyn KeySource>,
}

impl HostConfig {
    pub fn memory() -> HostConfig {
        HostConfig {
            storage: Storage::Memory,
            clock: clock::system(),
            random: Random::from_os(),
            audit_log: None,
            keys: Arc::new(NoKeys),
        }
    }
}

/// What one cluster is made with.
pub struct ClusterConfig {
    /// Issuer of service-account tokens. An existing cluster keeps the one it was made with.
    pub issuer_url: String,
    pub authenticators: Vec<JwtAuthenticator>,
    /// Host names that mean this cluster, besides `<name>.clusters.zaffre.internal`.
    pub names: Vec<String>,
}

impl Default for ClusterConfig {
    fn default() -> ClusterConfig {
        ClusterConfig {
            issuer_url: "https://kubernetes.default.svc.cluster.local".into(),
            authenticators: Vec::new(),
            names: Vec::new(),
        }
    }
}

/// A cluster is reached by its name under this domain, whatever address leads here.
pub const DOMAIN: &str = "clusters.zaffre.internal";

/// The cluster that stands at the root of every address.
pub const MAIN: &str = "main";

/// A handle to all clusters; cheap to clone.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    store: Store,
    clock: SharedClock,
    random: Random,
    audit: Audit,
    keys: Arc<dyn KeySource>,
    services: Arc<ArcSwap<Box<dyn ServiceResolver>>>,
    pods: Pods,
    /// Where clusters keep their keys.
    dir: Option<PathBuf>,
    clusters: RwLock<HashMap<ClusterId, Arc<Cluster>>>,
    /// Names beyond their own that clusters are reached by.
    names: RwLock<HashMap<String, ClusterId>>,
    /// What new clusters begin with; made for the first.
    base: OnceLock<Arc<Base>>,
    /// Bounds creation to one at a time: a name is looked up, then taken.
    creating: tokio::sync::Mutex<()>,
    /// Readers of everything, for guests that come later.
    feeds: Mutex<Vec<FeedHandle>>,
    /// What guests have in common in memory.
    shared: Shared,
    shutdown: CancellationToken,
}

impl Host {
    /// Opens storage and the clusters in it.
    pub async fn start(config: HostConfig) -> Result<Host, Error> {
        let options = Options::new(config.clock.clone());
        let (store, dir) = match &config.storage {
            Storage::Memory => (Store::memory(options), None),
            Storage::Directory(dir) => (Store::open(&dir.join("store"), options)?, Some(dir.clone())),
        };
        let audit = match &config.audit_log {
            Some(p) => Audit::to_file(p).map_err(io("open audit log", p))?,
            None => Audit::off(),
        };
        let host = Host(Arc::new(Inner {
            store,
            clock: config.clock,
            random: config.random,
            audit,
            keys: config.keys,
            services: Arc::new(ArcSwap::from_pointee(Box::new(NoServices))),
            pods: Pods::default(),
            dir,
            clusters: RwLock::default(),
            names: RwLock::default(),
            base: OnceLock::new(),
            creating: tokio::sync::Mutex::new(()),
            feeds: Mutex::default(),
            shared: Shared::default(),
            shutdown: CancellationToken::new(),
        }));
        for id in host.0.store.clusters() {
            // The main one is opened by whoever knows its configuration.
            if id.as_str() != MAIN {
                host.open(&id, ClusterConfig::default()).await?;
            }
        }
        Ok(host)
    }

    pub fn clock(&self) -> &SharedClock {
        &self.0.clock
    }

    pub fn random(&self) -> &Random {
        &self.0.random
    }

    /// Everything there is and everything that changes, in all clusters.
    pub fn feed(&self) -> Feed {
        let feed = Feed::default();
        let handle = feed.handle();
        // Whoever opens a guest meanwhile waits, and then finds this feed.
        let mut feeds = self.0.feeds.lock();
        feeds.retain(FeedHandle::is_read);
        feeds.push(handle.clone());
        self.0.store.feed_into(&handle);
        let guests: Vec<Arc<Cluster>> =
            self.0.clusters.read().values().filter(|c| c.is_guest && c.is_told()).cloned().collect();
        for guest in guests {
            guest.store.feed_into(&handle);
        }
        feed
    }

    /// From now on Services are found by `resolver`.
    pub fn set_services(&self, resolver: impl ServiceResolver) {
        self.0.services.store(Arc::new(Box::new(resolver)));
    }

    /// From now on logs, commands and ports of pods are answered by `runtime`.
    pub fn set_pods(&self, runtime: impl PodRuntime) {
        self.0.pods.set(runtime);
    }

    /// The cluster of this name, made if there is none. The name is a DNS label.
    pub async fn ensure(&self, name: &str, config: ClusterConfig) -> Result<ApiServer, Error> {
        // One that is just being made is waited for.
        drop(self.0.creating.lock().await);
        if let Some(there) = self.cluster(name) {
            return Ok(there);
        }
        if !ek_meta::names::dns_label(name).is_empty() {
            return Err(Error::Name { name: name.to_owned() });
        }
        let cluster = self.open(&ClusterId::new(name), config).await?;
        Ok(ApiServer::new(self.clone(), cluster))
    }

    async fn open(&self, id: &ClusterId, config: ClusterConfig) -> Result<Arc<Cluster>, Error> {
        let inner = &self.0;
        let _one = inner.creating.lock().await;
        if let Some(there) = inner.clusters.read().get(id) {
            return Ok(there.clone());
        }
        let names = config.names;
        let keys_dir = self.keys_dir(id);
        let Keys { authority, issuer } =
            keys::load(keys_dir.as_deref(), &config.issuer_url, inner.clock.now())?;
        let cluster = Cluster::new(ClusterParts {
            is_guest: false,
            id: id.clone(),
            store: inner.store.clone(),
            clock: inner.clock.clone(),
            random: inner.random.clone(),
            identity: Identity::new(authority, issuer, config.authenticators, inner.keys.clone()),
            audit: inner.audit.clone(),
            webhooks: Webhooks::new(id.clone(), inner.services.clone()),
            pods: inner.pods.clone(),
            shutdown: inner.shutdown.child_token(),
        });
        // Known before its first write: whoever follows the feed must find it, or its first changes are lost.
        inner.clusters.write().insert(id.clone(), cluster.clone());
        let begun = async {
            cluster.bootstrap(self.base()).await?;
            cluster.publish_config().await
        };
        if let Err(e) = begun.await {
            inner.clusters.write().remove(id);
            return Err(Error::Bootstrap(e));
        }
        cluster.resume_deletions();
        inner.names.write().extend(names.into_iter().map(|n| (n, id.clone())));
        Ok(cluster)
    }

    fn base(&self) -> &Arc<Base> {
        self.0.base.get_or_init(|| Arc::new(bootstrap::base(self.0.clock.now(), &self.0.random)))
    }

    /// How the store of a guest is opened, so that it is small and shares what it can with the others. Where the host
    /// itself is forgotten with its process, a guest need not survive the machine.
    pub fn guest_options(&self, name: &str) -> Options {
        let small = Options::small(self.0.clock.clone(), ClusterId::new(name));
        Options { shared: self.0.shared.clone(), sync: self.0.dir.is_some(), ..small }
    }

    /// Serves a cluster whose objects lie in a store of their own and whose identity is made elsewhere. Controllers
    /// hear of it from now on; clients reach it through a [`crate::Door`]. The store was opened with
    /// [`Host::guest_options`]; one that is there already takes on what it is given.
    ///
    /// The keys of a KMS are not waited for: until [`ApiServer::bring_keys`] has them, what is encrypted can neither be
    /// read nor written, and controllers hear nothing of the cluster.
    pub async fn open_guest(&self, name: &str, store: &Store, given: Given) -> Result<ApiServer, Error> {
        let inner = &self.0;
        let id = ClusterId::new(name);
        let _one = inner.creating.lock().await;
        let there = inner.clusters.read().get(&id).cloned();
        if let Some(there) = there {
            if there.is_guest && there.store.is(store) {
                there.take_on(given).await?;
                return Ok(ApiServer::new(self.clone(), there));
            }
            if !there.is_guest {
                return Err(Error::Taken { name: name.to_owned() });
            }
            // Its store was replaced: whoever still asks the old one is told to come back.
            self.forget_guest(&there);
        }
        let encryption = given.encryption.clone();
        let cluster = Cluster::new(ClusterParts {
            is_guest: true,
            id: id.clone(),
            store: store.clone(),
            clock: inner.clock.clone(),
            random: inner.random.clone(),
            identity: Identity::given(given, inner.clock.now(), inner.keys.clone())?,
            audit: inner.audit.clone(),
            webhooks: Webhooks::new(id.clone(), inner.services.clone()),
            pods: inner.pods.clone(),
            shutdown: inner.shutdown.child_token(),
        });
        cluster.begin_sealed(encryption.as_ref()).await?;
        inner.clusters.write().insert(id.clone(), cluster.clone());
        let begun = async {
            cluster.bootstrap(self.base()).await?;
            if cluster.has_keys() {
                self.tell_of(&cluster).await?;
            }
            Ok(())
        };
        if let Err(e) = begun.await {
            inner.clusters.write().remove(&id);
            return Err(Error::Bootstrap(e));
        }
        Ok(ApiServer::new(self.clone(), cluster))
    }

    /// A guest whose objects can all be read: what it says of itself is written, and controllers hear of it.
    pub(crate) async fn tell_of(&self, cluster: &Arc<Cluster>) -> Result<(), CommitError> {
        if cluster.is_told() {
            return Ok(());
        }
        cluster.publish_config().await?;
        let feeds = self.0.feeds.lock();
        if cluster.keys.told.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        cluster.resume_deletions();
        for feed in feeds.iter() {
            cluster.store.feed_into(feed);
        }
        Ok(())
    }

    /// Stops serving a guest: its watches end, its store stays with whoever owns it.
    pub async fn close_guest(&self, server: &ApiServer) {
        let _one = self.0.creating.lock().await;
        let there = self.find(&ClusterId::new(server.name()));
        if let Some(cluster) = there.filter(|c| server.serves(c)) {
            self.forget_guest(&cluster);
        }
    }

    fn forget_guest(&self, cluster: &Arc<Cluster>) {
        cluster.shutdown.cancel();
        self.0.clusters.write().remove(&cluster.id);
        cluster.store.end_feeds();
    }

    /// The cluster a TLS client asked for by name.
    pub(crate) fn by_server_name(&self, name: &str) -> Option<Arc<Cluster>> {
        let own = name.strip_suffix(DOMAIN).and_then(|n| n.strip_suffix('.')).map(ClusterId::new);
        let id = own.or_else(|| self.0.names.read().get(name).cloned())?;
        self.find(&id).filter(|c| !c.is_guest)
    }

    /// Where a cluster's keys are: the main one's beside the data, as they always were.
    pub(crate) fn keys_dir(&self, id: &ClusterId) -> Option<PathBuf> {
        let dir = self.0.dir.as_ref()?;
        Some(match id.as_str() {
            MAIN => dir.join("pki"),
            other => dir.join("clusters").join(other),
        })
    }

    pub fn cluster(&self, name: &str) -> Option<ApiServer> {
        let cluster = self.0.clusters.read().get(&ClusterId::new(name)).cloned()?;
        Some(ApiServer::new(self.clone(), cluster))
    }

    /// Names of all clusters of its own, sorted.
    pub fn names(&self) -> Vec<String> {
        let clusters = self.0.clusters.read();
        let own = clusters.values().filter(|c| !c.is_guest);
        let mut names: Vec<String> = own.map(|c| c.id.as_str().to_owned()).collect();
        drop(clusters);
        names.sort();
        names
    }

    pub(crate) fn find(&self, id: &ClusterId) -> Option<Arc<Cluster>> {
        self.0.clusters.read().get(id).cloned()
    }

    /// A cluster for code of this process that writes as `manager`.
    pub fn access(&self, id: &ClusterId, manager: &'static str) -> Option<Access> {
        Some(Access::new(self.find(id)?, User::loopback(), manager))
    }

    /// Ends a cluster's watches and forgets everything in it, its keys included. Returns whether there was one.
    pub async fn delete(&self, name: &str) -> Result<bool, Error> {
        let id = ClusterId::new(name);
        let _one = self.0.creating.lock().await;
        // A guest's objects are its etcd's, not ours to forget.
        if self.find(&id).is_some_and(|c| c.is_guest) {
            return Ok(false);
        }
        let Some(cluster) = self.0.clusters.write().remove(&id) else { return Ok(false) };
        cluster.shutdown.cancel();
        self.0.names.write().retain(|_, of| *of != id);
        self.0.store.drop_cluster(&id).await.map_err(Error::Delete)?;
        if let Some(dir) = self.keys_dir(&id).filter(|d| d.exists()) {
            fs::remove_dir_all(&dir).map_err(io("remove", &dir))?;
        }
        Ok(true)
    }

    /// Ends watches, finishes accepted writes, closes the log. Call after draining what listens.
    pub async fn stop(&self) {
        self.0.shutdown.cancel();
        // What answers for pods and Services knows the host; somebody must let go first.
        self.set_services(NoServices);
        self.set_pods(crate::pods::NoPods);
        let inner = self.0.clone();
        let _ = tokio::task::spawn_blocking(move || {
            inner.store.close();
            inner.audit.close();
        })
        .await;
    }

    /// Ends when the host does.
    pub fn shutdown(&self) -> &CancellationToken {
        &self.0.shutdown
    }
}

/// Keeps what a rotation made.
pub(crate) fn keep_rotated(dir: &std::path::Path, retired: usize, old: &str, new: &str) -> Result<(), Error> {
    // The old key first: a crash in between leaves it twice, never lost.
    let kept = dir.join(format!("sa-{retired:06}.key"));
    write_private(&kept, old).map_err(io("write", &kept))?;
    let signing = dir.join("sa.key");
    write_private(&signing, new).map_err(io("write", &signing))
}
