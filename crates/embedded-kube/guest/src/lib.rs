//! Hosted clusters that really run: `etcd` and `kube-apiserver` as programs of the node runtime.
//!
//! A hosted control plane's pods name images whose programs this process has. They are given what the real ones are
//! given (arguments, mounted Secrets and ConfigMaps, a volume, ports behind Services) and read nothing else, so a wrong
//! path, an expired certificate or a missing Secret fails here as it would there.
//!
//! ```text
//! kubectl ──TLS, SNI──> router ──bytes──> pod kube-apiserver (a Door) ─> cluster of embedded-kube ─┐
//!                                              │ mTLS through Service etcd-client:2379             │ in process
//!                                              └───────> pods etcd-0..2: members of one store  <───┘
//!                                                        (PVC /var/lib/data: log, snapshots)
//! ```
//!
//! What is real:
//! * the guest is a whole API server with this cluster's certificates, client authorities, front proxy, issuer, keys,
//!   audiences, authentication configuration and encryption at rest, all read from mounted files; serving certificates,
//!   client authorities and the authentication configuration are replaced while it runs;
//! * its data lies in the etcd pods' volumes and nowhere else; a write is acknowledged when a majority of the members
//!   has synced it; two of three members serve, one does not; a member that lost its volume is given the state by the
//!   others, and when a majority lost theirs nothing is made up: a snapshot must be restored;
//! * snapshots are consistent and summed, and `etcdctl snapshot save`, `etcdutl snapshot status|restore` work by `exec`;
//! * kube-apiserver reaches etcd by its Service, with its client certificate, and etcd checks it.
//!
//! What is simulated:
//! * the protocol behind that TLS connection. It proves who is there; objects then pass in memory, because both ends
//!   are this process. Port 2379 answers `/health` and `/version` and speaks no gRPC;
//! * Raft. Members are directories of this process; whoever opens the group decides what Raft would by votes
//!   (`ek_store::Directory`). There is no leader to lose, so failing over takes no time;
//! * replicas of kube-apiserver share one cluster in memory. What concerns connections is each replica's own; issuer,
//!   audiences, authenticators and encryption are those that a replica loaded last;
//! * the controllers of the guest are those of this process. They work as soon as an API server of the guest runs; the
//!   `kube-controller-manager` pod only brings the authority that signs certificates, and the root certificate;
//! * konnectivity ([`stand_ins`]), and shell scripts (`script`), of which only what others wait for is done.

mod etcd;
mod etcdctl;
mod group;
mod haproxy;
mod kas;
mod kcm;
pub mod proxy;
mod readyz;
pub mod router;
mod script;
pub mod stand_ins;
mod tls;

pub use group::GroupError;
pub use router::{Router, RouterError};

use ek_engine::ClusterId;
use ek_node::Programs;
use ek_server::{ApiServer, Host, KmsPlugins, NoKms};
use futures::future::BoxFuture;
use group::Groups;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// All guests of a host; cheap to clone.
#[derive(Clone)]
pub struct Guests(Arc<Inner>);

struct Inner {
    host: Host,
    groups: Groups,
    /// Guests that are served, and by how many API servers.
    served: Mutex<HashMap<String, (ApiServer, usize)>>,
    /// Counts how often one was added to these.
    changed: tokio::sync::watch::Sender<u64>,
    kms: Arc<dyn KmsFinder>,
    fetch: OnceLock<Arc<dyn Fetch>>,
}

/// Finds the KMS plugins of one API server pod; the sockets it names are in a volume it shares with them.
pub trait KmsFinder: Send + Sync + 'static {
    fn plugins(&self, pod: &ek_node::ProgramContext) -> Arc<dyn KmsPlugins>;
}

/// Fetches a snapshot that a cluster is to begin from.
pub trait Fetch: Send + Sync + 'static {
    /// Writes what a URL leads to into a file.
    fn fetch<'a>(&'a self, url: &'a str, to: &'a Path) -> BoxFuture<'a, Result<(), String>>;
}

struct NoFinder;

impl KmsFinder for NoFinder {
    fn plugins(&self, _: &ek_node::ProgramContext) -> Arc<dyn KmsPlugins> {
        Arc::new(NoKms)
    }
}

impl Guests {
    pub fn new(host: &Host) -> Guests {
        Guests::with_kms(host, NoFinder)
    }

    pub fn with_kms(host: &Host, kms: impl KmsFinder) -> Guests {
        Guests(Arc::new(Inner {
            host: host.clone(),
            groups: Groups::new(host),
            served: Mutex::default(),
            changed: tokio::sync::watch::Sender::new(0),
            kms: Arc::new(kms),
            fetch: OnceLock::new(),
        }))
    }

    /// How snapshots are fetched; can be said once.
    pub fn fetch_with(&self, fetch: impl Fetch) {
        let _ = self.0.fetch.set(Arc::new(fetch));
    }

    pub(crate) fn fetch(&self) -> Option<Arc<dyn Fetch>> {
        self.0.fetch.get().cloned()
    }

    /// Makes containers of these images programs. `image` turns the name a release payload gives an image (`etcd`,
    /// `hyperkube`, `cli`…) into a pattern of what pods call it.
    pub fn register(&self, programs: &mut Programs, image: impl Fn(&str) -> String) {
        let shell = |c: &serde_json::Value| {
            let first = c["command"][0].as_str().unwrap_or_default();
            matches!(first.rsplit('/').next(), Some("sh" | "bash"))
        };
        let script = Arc::new(script::Script::default());
        for key in [
            "cli",
            "hyperkube",
            "controlplane-operator",
            "cluster-config-api",
            "cluster-authentication-operator",
        ] {
            programs.register_where(&image(key), shell, script.clone());
        }
        programs.register(&image("etcd"), etcd::Etcd(self.clone()));
        programs.register(&image("cluster-etcd-operator"), readyz::Readyz(self.clone()));
        programs.register(&image("apiserver-network-proxy"), stand_ins::Konnectivity);
        // The image also holds scripts that write a configuration of their own; those have no program.
        programs.register_where(&image("haproxy-router"), move |c| !shell(c), Arc::new(haproxy::Haproxy));
        let is = |word: &'static str| {
            move |c: &serde_json::Value| {
                let words = [&c["command"], &c["args"]].into_iter().filter_map(|w| w.as_array()).flatten();
                words.filter_map(|w| w.as_str()).take(2).any(|w| w.rsplit('/').next() == Some(word))
            }
        };
        let hyperkube = image("hyperkube");
        programs.register_where(&hyperkube, is("kube-apiserver"), Arc::new(kas::KubeApiServer(self.clone())));
        let kcm = Arc::new(kcm::KubeControllerManager(self.clone()));
        programs.register_where(&hyperkube, is("kube-controller-manager"), kcm);
    }

    /// What the guest of a control plane's namespace is called among the clusters of the host.
    pub fn name(cluster: &ClusterId, namespace: &str) -> String {
        format!("{}.{namespace}", cluster.as_str())
    }

    /// The guest whose control plane is in this namespace, while one of its API servers runs.
    pub fn server(&self, cluster: &ClusterId, namespace: &str) -> Option<ApiServer> {
        self.0.served.lock().get(&Guests::name(cluster, namespace)).map(|(s, _)| s.clone())
    }

    /// How many members of a guest's etcd are up, and of how many; `None` while there is no store.
    pub fn members(&self, cluster: &ClusterId, namespace: &str) -> Option<(usize, usize)> {
        self.0.groups.store(&Guests::name(cluster, namespace)).map(|s| s.members())
    }
}
