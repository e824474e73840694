//! The verbs of the resource API, each on one resource of one cluster.

mod accept;
mod create;
mod delete;
mod graft;
mod pods;
mod read;
mod repeats;
mod reviews;
mod scale;
mod streams;
mod token;
mod update;
mod watch;
mod write;

use crate::cluster::{Cluster, tables};
use crate::convert::unchanged;
use crate::present::{self, IncludeObject};
use crate::registry::Resource;
use crate::wire::info::RequestInfo;
use crate::wire::negotiate::{self, Accepted, Shape};
use crate::wire::params::{Params, WriteOptions};
use crate::wire::respond::{self, Reply};
use bytes::Bytes;
use ek_auth::User;
use ek_builtin::Flags;
use ek_meta::object::{self, metadata_mut};
use ek_meta::{Status, gvk};
use ek_store::Entry;
use http::HeaderMap;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;

/// One authorized request on one resource.
#[derive(Clone)]
pub struct Call {
    pub cluster: Arc<Cluster>,
    pub res: Arc<Resource>,
    pub info: RequestInfo,
    pub params: Params,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub user: User,
    pub upgrade: Option<hyper::upgrade::OnUpgrade>,
    pub warnings: Arc<Mutex<Vec<String>>>,
    /// What admission has to say to the audit log.
    pub annotations: Arc<Mutex<Vec<(String, String)>>>,
    /// Ends its streams, where its socket ends before the cluster does.
    pub stop: Option<tokio_util::sync::CancellationToken>,
}

/// An object that is stored under a key we do not have is an error, not an absent object.
pub(crate) fn readable(entry: &Entry) -> Result<(), Status> {
    entry.locked().map_or(Ok(()), |why| Err(Status::internal(why)))
}

impl Call {
    /// Done when streams have to end: with the cluster, or with the socket they came by.
    pub fn ending(&self) -> futures::future::BoxFuture<'static, ()> {
        let cluster = self.cluster.shutdown.clone();
        match self.stop.clone() {
            None => Box::pin(cluster.cancelled_owned()),
            Some(socket) => Box::pin(async move {
                tokio::select! {
                    () = cluster.cancelled() => {}
                    () = socket.cancelled() => {}
                }
            }),
        }
    }

    /// The form the client takes the answer in; `transforms` if it may be a table or metadata alone.
    pub(crate) fn accepted(&self, transforms: bool) -> Result<Accepted, Status> {
        negotiate::accept(&self.headers, transforms, !self.res.is_custom())
    }

    pub fn warn(&self, text: impl Into<String>) {
        let mut w = self.warnings.lock();
        let text = text.into();
        if !w.contains(&text) {
            w.push(text);
        }
    }

    pub fn warn_all(&self, texts: Vec<String>) {
        for t in texts {
            self.warn(t);
        }
    }

    /// The object this request names.
    pub fn live(&self) -> Result<Arc<Entry>, Status> {
        let entry = self.cluster.entry(&self.res.table, &self.info.namespace, &self.info.name);
        let entry = entry.ok_or_else(|| self.res.not_found(&self.info.name))?;
        readable(&entry).map(|()| entry)
    }

    pub fn flags(&self) -> Flags {
        if self.res.is_custom() {
            Flags::default()
        } else {
            ek_builtin::flags(&self.res.group, &self.res.plural)
        }
    }

    pub fn has_generation(&self) -> bool {
        self.res.is_custom() || ek_builtin::has_generation(&self.res.group, &self.res.plural)
    }

    /// The subresource as managed fields record it.
    pub fn managed_subresource(&self) -> &str {
        &self.info.subresource
    }

    /// One entry in the shape the client asked for.
    pub async fn object_reply(&self, code: u16, accepted: Accepted, entry: &Entry) -> Result<Reply, Status> {
        if accepted.shape == Shape::Object {
            let bytes = match unchanged(&self.res, entry) {
                Some(b) => b,
                None => self.cluster.read_bytes(&self.res, entry).await?,
            };
            return Ok(respond::bytes(code, accepted.encoding, bytes));
        }
        let include = IncludeObject::parse(self.params.get("includeObject"))?;
        let obj = self.cluster.read(&self.res, entry).await?;
        let v = present::object(&self.res, obj, accepted.shape, include, self.cluster.now());
        Ok(respond::value(code, accepted.encoding, &v))
    }

    /// Gives the object the namespace of the URL, and refuses another one.
    pub fn place(&self, obj: &mut Value) -> Result<(), Status> {
        let sent = object::namespace(obj).to_owned();
        let url = &self.info.namespace;
        if self.res.namespaced {
            if !sent.is_empty() && sent != *url {
                return Err(Status::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            metadata_mut(obj).insert("namespace".into(), json!(url));
        } else if sent.is_empty() {
            metadata_mut(obj).remove("namespace");
        }
        Ok(())
    }

    /// CRDs decide over names together, and Services over addresses, so they are written one at a time.
    pub async fn sibling_lock(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let tables = [&*tables::CRDS, &*tables::CLUSTER_ROLES, &*tables::SERVICES];
        if tables.contains(&&self.res.table) { Some(self.cluster.sibling_writes.lock().await) } else { None }
    }

    /// Namespaces the system cannot live without.
    pub fn refuse_protected(&self, name: &str) -> Result<(), Status> {
        const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];
        if self.res.table == *tables::NAMESPACES && PROTECTED.contains(&name) {
            return Err(Status::forbidden("", "namespaces", name, "this namespace may not be deleted"));
        }
        Ok(())
    }

    /// Work that a stored state asks for.
    pub fn after_write(&self, entry: &Entry) {
        if entry.meta.deleting {
            self.cluster.clone().deletion_requested(&self.res, &self.info.name, entry);
        } else if self.res.table == *tables::CLUSTER_ROLES {
            self.cluster.refresh_siblings(&self.res);
        }
    }

    /// Work that a removal asks for.
    pub fn after_delete(&self) {
        if self.res.table == *tables::CLUSTER_ROLES || self.res.table == *tables::CRDS {
            self.cluster.refresh_siblings(&self.res);
        }
    }

    fn status_for(&self, verb: &str) -> Status {
        if !self.res.is_custom() {
            return Status::method_not_allowed();
        }
        Status::method_not_supported(&self.res.group, &self.res.plural, verb)
    }
}

pub use delete::DeleteOptions;
pub use repeats::Repeats;
pub use update::Next;

/// Writes an object on the server's own behalf.
pub async fn update_object(
    call: &Call,
    transform: update::Transform<'_>,
    options: &WriteOptions,
) -> Result<Arc<Entry>, Status> {
    update::run(call, transform, options, None).await
}

/// The same for those who may find on looking that there is nothing to write; nothing then.
pub async fn change_object(
    call: &Call,
    change: &(dyn Fn(&Value) -> Option<Next> + Sync),
    options: &WriteOptions,
) -> Result<Option<Arc<Entry>>, Status> {
    update::change(call, change, options).await
}

/// Creates an object on the server's own behalf.
pub async fn create_entry(call: &Call, obj: Value, options: &WriteOptions) -> Result<Arc<Entry>, Status> {
    create::create_entry(call, obj, options, false).await
}

/// Deletes an object on the server's own behalf.
pub async fn delete_object(call: &Call, options: &DeleteOptions) -> Result<(), Status> {
    delete::delete_one(call, &call.info.name, options).await.map(|_| ())
}

/// Deletes an object on the server's own behalf; its dependents are collected later.
pub async fn delete_background(call: &Call) -> Result<(), Status> {
    delete_object(call, &DeleteOptions::default()).await
}

/// Gives a pod to a node, on the server's own behalf.
pub async fn bind(call: &Call) -> Result<(), Status> {
    pods::bind(call).await.map(|_| ())
}

/// Runs an authorized request.
pub async fn run(call: &Call) -> Result<Reply, Status> {
    run_verb(call).await.map_err(|s| in_its_words(call, s))
}

/// Built-in resources are served behind a router that refuses media types before anybody else does.
fn in_its_words(call: &Call, mut s: Status) -> Status {
    let text = match s.code {
        _ if call.res.is_custom() => return s,
        406 if !knows_type(call) => s
            .message
            .strip_prefix("only the following media types are accepted: ")
            .map(|types| format!("406: Not Acceptable\n\nAvailable representations: {types}")),
        415 if call.info.verb == "patch" => Some("415: Unsupported Media Type".to_owned()),
        _ => None,
    };
    if let Some(text) = text {
        s.message = text;
        s.details.get_or_insert_default();
    }
    s
}

/// Whether the client takes any type there is, in whatever shape.
fn knows_type(call: &Call) -> bool {
    let accept = call.headers.get(http::header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "*/*"]
        .iter()
        .any(|t| accept.contains(t))
}

async fn run_verb(call: &Call) -> Result<Reply, Status> {
    if let Some(d) = call.res.custom.as_ref().and_then(|c| c.deprecation.as_ref()) {
        call.warn(d.clone());
    }
    if let Some(text) = ek_builtin::deprecation(&call.res.group, &call.res.plural) {
        call.warn(text);
    }
    let verb = call.info.verb;
    if !call.info.subresource.is_empty() {
        return subresource(call).await;
    }
    if reviews::is_review(&call.res) {
        return if verb == "create" { reviews::create(call).await } else { Err(call.status_for(verb)) };
    }
    if !call.res.allows(verb) {
        return Err(method_error(call, verb));
    }
    // Objects are created in collections, and only named ones are replaced.
    let collection = call.info.name.is_empty();
    if (call.res.namespaced && call.info.namespace.is_empty() && verb == "create")
        || (collection && matches!(verb, "update" | "patch"))
        || (call.res.namespaced && call.info.namespace.is_empty() && verb == "deletecollection")
    {
        return Err(Status::method_not_allowed());
    }
    match verb {
        "get" => read::get(call).await,
        "list" => read::list(call).await,
        "watch" => watch::watch(call),
        "create" if call.info.name.is_empty() => match (call.res.group.as_str(), call.res.plural.as_str()) {
            ("", "bindings") => pods::bind(call).await,
            _ => create::create(call).await,
        },
        "update" => update::put(call).await,
        "patch" => update::patch(call).await,
        "delete" => delete::delete(call).await,
        "deletecollection" => delete::delete_collection(call).await,
        _ => Err(Status::method_not_allowed()),
    }
}

fn method_error(call: &Call, verb: &str) -> Status {
    let _ = gvk::group_resource(&call.res.group, &call.res.plural);
    call.status_for(verb)
}

async fn subresource(call: &Call) -> Result<Reply, Status> {
    let sub = call.info.subresource.as_str();
    let verb = call.info.verb;
    let Some(def) = call.res.subresource(sub) else {
        if call.res.is_custom() {
            return Err(call.res.not_found(&call.info.name));
        }
        return Err(Status::failure(
            404,
            ek_meta::Reason::NotFound,
            "the server could not find the requested resource",
        ));
    };
    if !def.verbs.iter().any(|v| v == verb) {
        return Err(call.status_for(verb));
    }
    match (sub, verb) {
        ("scale", _) => scale::run(call).await,
        ("token", "create") => token::create(call).await,
        ("binding", "create") => pods::bind(call).await,
        ("eviction", "create") => pods::evict(call).await,
        ("log" | "exec" | "attach" | "portforward" | "proxy", _) => Box::pin(streams::run(call)).await,
        (_, "get") => read::get(call).await,
        (_, "update") => update::put(call).await,
        (_, "patch") => update::patch(call).await,
        _ => Err(call.status_for(verb)),
    }
}
