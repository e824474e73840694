//! A cluster as code of this process works with it: reads are looks into the store, writes go the way of every
//! request (admission, validation, managed fields) without HTTP in between.
//!
//! This is what controllers and nodes are given. They name themselves by a field manager, so that what they
//! write can be told apart, and they see clusters only through this type.

use crate::cluster::Cluster;
use crate::registry::{Resource, table_name};
use crate::verbs::{self, Call, DeleteOptions, Next};
use crate::wire::params::{FieldValidation, WriteOptions};
use clock::Random;
use ek_auth::User;
use ek_meta::{Status, object};
use ek_store::{ClusterId, Entry, TableName, View};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use std::ops::Bound;
use std::sync::{Arc, LazyLock};

/// How a deletion is to go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deletion<'a> {
    /// Only the object of this uid.
    pub uid: Option<&'a str>,
    pub grace_seconds: Option<i64>,
    pub propagation: Option<&'a str>,
}

/// One cluster, in somebody's name.
#[derive(Clone)]
pub struct Access {
    cluster: Arc<Cluster>,
    user: Arc<User>,
    manager: &'static str,
}

impl Access {
    pub(crate) fn new(cluster: Arc<Cluster>, user: User, manager: &'static str) -> Access {
        Access { cluster, user: Arc::new(user), manager }
    }

    /// The same cluster under another name.
    pub fn manager(&self, manager: &'static str) -> Access {
        Access { manager, ..self.clone() }
    }

    pub fn id(&self) -> &ClusterId {
        &self.cluster.id
    }

    pub fn now(&self) -> Timestamp {
        self.cluster.now()
    }

    /// The present second, as objects carry it.
    pub fn timestamp(&self) -> String {
        self.cluster.timestamp()
    }

    pub fn random(&self) -> &Random {
        &self.cluster.random
    }

    /// The certificate of the cluster's authority, as clients are given it.
    pub fn ca_pem(&self) -> String {
        self.cluster.identity.ca_pem()
    }

    /// The authority itself.
    pub fn authority(&self) -> &ek_auth::pki::Authority {
        &self.cluster.identity.authority
    }

    /// Who signs requests for certificates. A cluster that was given its identity has nobody until somebody brings
    /// the authority ([`crate::ApiServer::set_signer`]).
    pub fn signer(&self) -> Option<Arc<ek_auth::pki::Authority>> {
        self.cluster.identity.signer()
    }

    /// Whether RBAC lets somebody do something in the whole cluster.
    pub fn may(&self, user: &User, verb: &str, group: &str, resource: &str, subresource: &str) -> bool {
        let attributes = ek_auth::rbac::Attributes {
            verb,
            namespace: "",
            group,
            resource,
            subresource,
            name: "",
            path: None,
        };
        self.cluster.authorizer("").authorize(user, &attributes).allowed
    }

    /// A kube client of this cluster in this process, for programs that speak the ordinary API.
    pub fn client_as(&self, user: User) -> kube::Client {
        kube::Client::new(crate::LocalService::new(self.cluster.clone(), user), "default")
    }

    pub fn table(&self, table: &TableName) -> View {
        self.cluster.store.view(&self.cluster.id, table)
    }

    pub fn entry(&self, table: &TableName, namespace: &str, name: &str) -> Option<Arc<Entry>> {
        self.cluster.entry(table, namespace, name)
    }

    /// The stored object, in its storage version.
    pub fn get(&self, table: &TableName, namespace: &str, name: &str) -> Option<Value> {
        self.cluster.object(table, namespace, name)
    }

    /// The same for those who only read, and often.
    pub fn look(&self, table: &TableName, namespace: &str, name: &str) -> Option<Arc<Value>> {
        shared(&self.entry(table, namespace, name)?)
    }

    /// The Service that has an address, as `namespace/name`.
    pub fn service_at(&self, ip: &str) -> Option<Arc<str>> {
        self.cluster.services.holder(&self.cluster, ip)
    }

    /// Entries of one namespace, in the order of their names. Filter by [`ek_store::Meta`] before parsing.
    pub fn in_namespace(&self, table: &TableName, namespace: &str) -> Vec<(Arc<str>, Arc<Entry>)> {
        let prefix = format!("{namespace}/");
        let view = self.table(table);
        (view.objects.range::<_, str>((Bound::Included(prefix.as_str()), Bound::Unbounded)))
            .take_while(|(k, _)| k.starts_with(&prefix))
            .map(|(k, e)| (k.clone(), e.clone()))
            .collect()
    }

    /// Objects of a namespace whose owners include this uid.
    pub fn owned(&self, table: &TableName, namespace: &str, owner: &str) -> Vec<Value> {
        (self.in_namespace(table, namespace).into_iter())
            .filter(|(_, e)| e.meta.owners.iter().any(|o| &*o.uid == owner))
            .filter_map(|(_, e)| parse(&e))
            .collect()
    }

    /// Every resource that is stored, custom ones included, once each.
    pub fn resources(&self) -> Vec<Arc<Resource>> {
        self.cluster.registry().storage_resources()
    }

    /// The resource of a kind, if it is served.
    pub fn resource_of_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let gv = ek_meta::gvk::GroupVersion::parse(api_version)?;
        self.cluster.registry().by_kind(&gv.group, &gv.version, kind).cloned()
    }

    fn resource(&self, table: &TableName) -> Result<Arc<Resource>, Status> {
        let found = self.cluster.registry().of_table(table).cloned();
        found.ok_or_else(|| Status::internal(format!("no resource is stored in table {table}")))
    }

    fn call(
        &self,
        table: &TableName,
        verb: &'static str,
        namespace: &str,
        name: &str,
        sub: &str,
    ) -> Result<Call, Status> {
        let res = self.resource(table)?;
        let mut call = self.cluster.own_call(&res, namespace, name, sub);
        call.info.verb = verb;
        call.user = (*self.user).clone();
        Ok(call)
    }

    fn options(&self) -> WriteOptions {
        WriteOptions {
            dry_run: false,
            field_manager: Some(self.manager.to_owned()),
            field_validation: FieldValidation::Ignore,
            force: false,
        }
    }

    /// Creates an object where its metadata says.
    pub async fn create(&self, table: &TableName, obj: Value) -> Result<Value, Status> {
        let entry = self.add(table, obj).await?;
        let made = shared(&entry).ok_or_else(|| Status::internal("a stored object cannot be read"))?;
        Ok((*made).clone())
    }

    /// The same for those who do not look at what became of it.
    pub async fn add(&self, table: &TableName, obj: Value) -> Result<Arc<Entry>, Status> {
        let call = self.call(table, "create", object::namespace(&obj), "", "")?;
        Box::pin(verbs::create_entry(&call, obj, &self.options())).await
    }

    /// Reads, changes, writes, and starts over when somebody else was faster. `change` says whether it changed
    /// anything; when it did not, nothing is written.
    pub async fn update(
        &self,
        table: &TableName,
        namespace: &str,
        name: &str,
        subresource: &str,
        change: impl Fn(&mut Value) -> bool + Sync,
    ) -> Result<Option<Arc<Entry>>, Status> {
        let call = self.call(table, "update", namespace, name, subresource)?;
        let transform = |old: &Value| {
            let mut new = old.clone();
            change(&mut new).then_some(Next { object: new, applied: false })
        };
        Box::pin(verbs::change_object(&call, &transform, &self.options())).await
    }

    /// As [`Self::update`], for those who make the new state by themselves; nothing, if there is nothing to write.
    pub async fn replace(
        &self,
        table: &TableName,
        namespace: &str,
        name: &str,
        subresource: &str,
        make: impl Fn(&Value) -> Option<Value> + Sync,
    ) -> Result<Option<Arc<Entry>>, Status> {
        let call = self.call(table, "update", namespace, name, subresource)?;
        let transform = |old: &Value| make(old).map(|object| Next { object, applied: false });
        Box::pin(verbs::change_object(&call, &transform, &self.options())).await
    }

    /// Deletes; an object that is already gone is fine.
    pub async fn delete(
        &self,
        table: &TableName,
        namespace: &str,
        name: &str,
        how: Deletion<'_>,
    ) -> Result<(), Status> {
        let call = self.call(table, "delete", namespace, name, "")?;
        let options = DeleteOptions {
            grace: how.grace_seconds,
            propagation: how.propagation.map(str::to_owned),
            uid: how.uid.map(str::to_owned),
            ..DeleteOptions::default()
        };
        match Box::pin(verbs::delete_object(&call, &options)).await {
            Err(s) if s.code == 404 => Ok(()),
            // Another object has the name by now: ours is gone.
            Err(s) if s.code == 409 && how.uid.is_some() => Ok(()),
            other => other,
        }
    }

    /// Gives a pod to a node.
    pub async fn bind(&self, namespace: &str, pod: &str, node: &str) -> Result<(), Status> {
        let table = table_name("", "pods");
        let mut call = self.call(&table, "create", namespace, pod, "binding")?;
        let binding = serde_json::json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "namespace": namespace}, "target": {"kind": "Node", "name": node}});
        call.headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        call.body = binding.to_string().into();
        Box::pin(verbs::bind(&call)).await
    }
}

/// An entry's object.
pub fn parse(entry: &Entry) -> Option<Value> {
    serde_json::from_slice(&entry.bytes()).ok()
}

/// How many objects are remembered in parsed form, by all controllers of the process together: those that change just
/// now, which several controllers look at several times before they change again.
const REMEMBERED: usize = 512;

type Parsed = Mutex<Option<(Arc<Entry>, Arc<Value>)>>;

static PARSED: LazyLock<Box<[Parsed]>> =
    LazyLock::new(|| (0..REMEMBERED).map(|_| Parsed::default()).collect());

/// Entries are found by where they are. One that is remembered is held, so nothing else can be there.
fn place(entry: &Arc<Entry>) -> &'static Parsed {
    let at = Arc::as_ptr(entry) as usize / align_of::<Entry>();
    &PARSED[(at ^ (at >> 9)) % REMEMBERED]
}

/// An entry's object; the same one for all who ask soon enough.
pub fn shared(entry: &Arc<Entry>) -> Option<Arc<Value>> {
    if let Some((known, value)) = &*place(entry).lock()
        && Arc::ptr_eq(known, entry)
    {
        return Some(value.clone());
    }
    let value: Arc<Value> = Arc::new(serde_json::from_slice(&entry.bytes()).ok()?);
    remember(entry, value.clone());
    Some(value)
}

/// `value` is what the entry's bytes say: who wrote them need not read them.
pub(crate) fn remember(entry: &Arc<Entry>, value: Arc<Value>) {
    let before = place(entry).lock().replace((entry.clone(), value));
    drop(before);
}
