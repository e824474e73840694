//! One cluster: its objects, what is derived from them, and what it was given to work with.
//!
//! Derived state (the registry, the authorizer, admission configuration) is never updated by hooks. Each
//! piece remembers the revisions of the tables it was built from and is rebuilt by whoever finds it stale,
//! so a write and everything that follows from it are visible together.

use crate::admission::Webhooks;
use crate::audit::Audit;
use crate::crd::{self, CustomVersion};
use crate::identity::Identity;
use crate::registry::{self, Registry, Resource, table_name};
use arc_swap::ArcSwapOption;
use clock::{Random, SharedClock};
use ek_auth::rbac::Authorizer;
use ek_meta::Status;
use ek_store::{ClusterId, Entry, Store, TableName};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use tokio_util::sync::CancellationToken;

/// Tables the server itself reads.
pub mod tables {
    use super::*;
    macro_rules! tables {
        ($($name:ident = $group:literal, $plural:literal;)*) => {
            $(pub static $name: LazyLock<TableName> = LazyLock::new(|| table_name($group, $plural));)*
        };
    }
    tables! {
        NAMESPACES = "", "namespaces";
        SECRETS = "", "secrets";
        SERVICE_ACCOUNTS = "", "serviceaccounts";
        PODS = "", "pods";
        NODES = "", "nodes";
        CRDS = "apiextensions.k8s.io", "customresourcedefinitions";
        ROLES = "rbac.authorization.k8s.io", "roles";
        CLUSTER_ROLES = "rbac.authorization.k8s.io", "clusterroles";
        ROLE_BINDINGS = "rbac.authorization.k8s.io", "rolebindings";
        CLUSTER_ROLE_BINDINGS = "rbac.authorization.k8s.io", "clusterrolebindings";
        MUTATING = "admissionregistration.k8s.io", "mutatingwebhookconfigurations";
        VALIDATING = "admissionregistration.k8s.io", "validatingwebhookconfigurations";
        POLICIES = "admissionregistration.k8s.io", "validatingadmissionpolicies";
        POLICY_BINDINGS = "admissionregistration.k8s.io", "validatingadmissionpolicybindings";
        PRIORITY_CLASSES = "scheduling.k8s.io", "priorityclasses";
        STORAGE_CLASSES = "storage.k8s.io", "storageclasses";
        SERVICES = "", "services";
        CLAIMS = "", "persistentvolumeclaims";
        VOLUMES = "", "persistentvolumes";
        LIMIT_RANGES = "", "limitranges";
        QUOTAS = "", "resourcequotas";
        DISRUPTION_BUDGETS = "policy", "poddisruptionbudgets";
    }
}

/// A value rebuilt when the tables behind it have changed.
pub struct Derived<T> {
    value: ArcSwapOption<(Box<[u64]>, Arc<T>)>,
    building: Mutex<()>,
}

impl<T> Default for Derived<T> {
    fn default() -> Self {
        Derived { value: ArcSwapOption::empty(), building: Mutex::new(()) }
    }
}

impl<T> Derived<T> {
    /// `revisions` says how new the sources are; `build` gets the previous value to reuse parts of it.
    pub fn get<const N: usize, R: Into<Arc<T>>>(
        &self,
        revisions: impl Fn() -> [u64; N],
        build: impl FnOnce(Option<&T>) -> R,
    ) -> Arc<T> {
        let now = revisions();
        if let Some(v) = &*self.value.load()
            && *v.0 == now
        {
            return v.1.clone();
        }
        let _one = self.building.lock();
        // Read the revisions before the data: a write in between only causes one more rebuild.
        let now = revisions();
        let old = self.value.load_full();
        if let Some(v) = &old
            && *v.0 == now
        {
            return v.1.clone();
        }
        let built: Arc<T> = build(old.as_ref().map(|v| &*v.1)).into();
        self.value.store(Some(Arc::new((now.into(), built.clone()))));
        built
    }
}

/// What a cluster without CRDs serves: the same for all of them.
static BUILTIN: LazyLock<Arc<Served>> =
    LazyLock::new(|| Arc::new(Served { registry: Registry::new(Vec::new(), 0), compiled: HashMap::new() }));

struct Served {
    registry: Registry,
    /// By CRD uid and revision; nothing for those that are not served.
    compiled: HashMap<(Box<str>, u64), Vec<Arc<CustomVersion>>>,
}

pub struct Cluster {
    pub id: ClusterId,
    pub store: Store,
    pub clock: SharedClock,
    pub random: Random,
    pub identity: Identity,
    pub audit: Audit,
    pub metrics: crate::metrics::Metrics,
    pub webhooks: Webhooks,
    pub pods: crate::pods::Pods,
    /// Ends watches and background work.
    pub shutdown: CancellationToken,
    served: Derived<Served>,
    authorizer: crate::authorizers::Authorizers,
    pub(crate) policies: Derived<crate::admission::policy::Policies>,
    pub(crate) hooks: Derived<crate::admission::Configured>,
    pub(crate) openapi: crate::openapi::Cache,
    pub(crate) repeats: crate::verbs::Repeats,
    /// Bounds concurrent CRD and RBAC-aggregation writes to one at a time, as both look at their siblings.
    pub(crate) sibling_writes: tokio::sync::Mutex<()>,
    /// Addresses and ports that Services hold.
    pub(crate) services: crate::allocate::Taken,
    /// Held while something is counted against a quota and stored.
    pub(crate) quota_writes: tokio::sync::Mutex<()>,
    /// Uids whose deletion is under way.
    pub(crate) deleting: Mutex<std::collections::HashSet<String>>,
    pub(crate) me: std::sync::Weak<Cluster>,
    /// What objects are stored under; a guest's only.
    pub(crate) keys: crate::given::Keys,
    /// Reached through doors of its own only, never by name or path through the host's.
    pub(crate) is_guest: bool,
}

/// What a cluster is made with.
pub struct ClusterParts {
    pub is_guest: bool,
    pub id: ClusterId,
    pub store: Store,
    pub clock: SharedClock,
    pub random: Random,
    pub identity: Identity,
    pub audit: Audit,
    pub webhooks: Webhooks,
    pub pods: crate::pods::Pods,
    pub shutdown: CancellationToken,
}

impl Cluster {
    pub fn new(p: ClusterParts) -> Arc<Cluster> {
        Arc::new_cyclic(|me| Cluster {
            id: p.id,
            store: p.store,
            clock: p.clock,
            random: p.random,
            identity: p.identity,
            audit: p.audit,
            metrics: Default::default(),
            webhooks: p.webhooks,
            pods: p.pods,
            shutdown: p.shutdown,
            served: Derived::default(),
            authorizer: Default::default(),
            policies: Derived::default(),
            hooks: Derived::default(),
            openapi: Default::default(),
            repeats: Default::default(),
            sibling_writes: tokio::sync::Mutex::new(()),
            services: Default::default(),
            quota_writes: tokio::sync::Mutex::new(()),
            deleting: Mutex::default(),
            me: me.clone(),
            keys: Default::default(),
            is_guest: p.is_guest,
        })
    }

    pub fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    /// The present second, as objects carry it.
    pub fn timestamp(&self) -> String {
        ek_meta::time::rfc3339(self.now())
    }

    pub(crate) fn revisions<const N: usize>(&self, tables: [&TableName; N]) -> [u64; N] {
        self.store.last_changes(&self.id, tables)
    }

    fn served(&self) -> Arc<Served> {
        self.served.get(|| self.revisions([&tables::CRDS]), |old| self.build_registry(old))
    }

    /// What is served right now.
    pub fn registry(&self) -> ServedRegistry {
        ServedRegistry(self.served())
    }

    fn build_registry(&self, old: Option<&Served>) -> Arc<Served> {
        let view = self.store.view(&self.id, &tables::CRDS);
        if view.objects.is_empty() {
            return BUILTIN.clone();
        }
        let mut compiled = HashMap::new();
        let mut custom = Vec::new();
        for entry in view.objects.values() {
            let key = (entry.meta.uid.clone(), entry.revision);
            let versions = match old.and_then(|o| o.compiled.get(&key)) {
                Some(v) => v.clone(),
                // A terminating CRD is still served for reads and deletes; creation is refused at admission.
                None => match serde_json::from_slice::<Value>(&entry.bytes()) {
                    Ok(crd) if crd::condition(&crd, crd::ESTABLISHED) => crd::compiled(&crd),
                    _ => Vec::new(),
                },
            };
            custom.extend(versions.iter().map(|v| registry::custom_resource(v.clone())));
            compiled.insert(key, versions);
        }
        Arc::new(Served { registry: Registry::new(custom, view.revision), compiled })
    }

    /// Who may do what in a namespace, or in none.
    pub fn authorizer(&self, namespace: &str) -> Arc<Authorizer> {
        self.authorizer.of(self, namespace)
    }

    /// All objects of a table, parsed.
    pub fn objects(&self, table: &TableName) -> Vec<Value> {
        let view = self.store.view(&self.id, table);
        view.objects.values().filter_map(|e| serde_json::from_slice(&e.bytes()).ok()).collect()
    }

    pub fn entry(&self, table: &TableName, namespace: &str, name: &str) -> Option<Arc<Entry>> {
        self.store.get(&self.id, table, &ek_store::object_key(namespace, name))
    }

    /// A stored object as it lies, parsed.
    pub fn object(&self, table: &TableName, namespace: &str, name: &str) -> Option<Value> {
        serde_json::from_slice(&self.entry(table, namespace, name)?.bytes()).ok()
    }

    /// An owned handle, for background work that outlives the request.
    pub(crate) fn handle(&self) -> Result<Arc<Cluster>, Status> {
        self.me.upgrade().ok_or_else(|| Status::unavailable("the cluster is shutting down"))
    }
}

/// A registry held for the length of a request.
pub struct ServedRegistry(Arc<Served>);

impl std::ops::Deref for ServedRegistry {
    type Target = Registry;

    fn deref(&self) -> &Registry {
        &self.0.registry
    }
}

/// A commit that did not happen, in the words of the API.
pub fn commit_status(res: &Resource, name: &str, e: ek_store::CommitError) -> Status {
    match e {
        ek_store::CommitError::Conflict { .. } => Status::modified(&res.group, &res.plural, name),
        other => Status::internal(other),
    }
}
