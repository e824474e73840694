//! Deletions that take more than one write: a namespace and a CRD go when what they contain is gone.
//!
//! Each runs as one task, started when the deletion is requested and again when a server finds it unfinished
//! at start. A task waits for changes (and, where somebody refused a deletion, asks again after a while) and
//! writes what blocks it into the object's status.

use crate::cluster::{Cluster, tables};
use crate::crd;
use crate::registry::Resource;
use crate::verbs::{self, Call, Next};
use crate::wire::info::RequestInfo;
use crate::wire::params::{FieldValidation, Params, WriteOptions};
use ek_auth::User;
use ek_meta::{Status, object};
use ek_store::{Cursor, Entry, TableName};
use http::HeaderMap;
use serde_json::{Value, json};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

impl Cluster {
    /// A request of the server's own, on one object.
    pub(crate) fn own_call(
        self: &Arc<Self>,
        res: &Arc<Resource>,
        namespace: &str,
        name: &str,
        subresource: &str,
    ) -> Call {
        Call {
            cluster: self.clone(),
            res: res.clone(),
            info: RequestInfo {
                is_resource: true,
                verb: "update",
                group: res.group.clone(),
                version: res.version.clone(),
                resource: res.plural.clone(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                subresource: subresource.to_owned(),
                ..RequestInfo::default()
            },
            params: Params::default(),
            headers: HeaderMap::new(),
            body: Default::default(),
            user: User::loopback(),
            upgrade: None,
            warnings: Arc::default(),
            annotations: Arc::default(),
            stop: None,
        }
    }

    /// Starts what the deletion of an object asks for.
    pub(crate) fn deletion_requested(self: Arc<Self>, res: &Arc<Resource>, name: &str, entry: &Entry) {
        let uid = entry.meta.uid.to_string();
        let name = name.to_owned();
        let namespaces = res.table == *tables::NAMESPACES;
        if !namespaces && res.table != *tables::CRDS {
            return;
        }
        if !self.deleting.lock().insert(uid.clone()) {
            return;
        }
        tokio::spawn(async move {
            let stop = self.shutdown.clone();
            let work = async {
                if namespaces { self.empty_namespace(&name).await } else { self.empty_crd(&name).await }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                result = work => if let Err(e) = result {
                    tracing::warn!(name, error = %e, "deletion did not finish; it resumes at the next start");
                }
            }
            self.deleting.lock().remove(&uid);
        });
    }

    /// Takes up deletions that an earlier process did not finish.
    pub(crate) fn resume_deletions(self: &Arc<Self>) {
        let registry = self.registry();
        for (group, plural) in [("", "namespaces"), ("apiextensions.k8s.io", "customresourcedefinitions")] {
            let Some(res) = registry.find(group, "v1", plural) else { continue };
            let view = self.store.view(&self.id, &res.table);
            for (name, entry) in view.objects.iter().filter(|(_, e)| e.meta.deleting) {
                self.clone().deletion_requested(res, name, entry);
            }
        }
    }

    /// Asks for the deletion of all objects of `resources` in `namespace` (all, if empty).
    async fn delete_all(self: &Arc<Self>, resources: &[Arc<Resource>], namespace: &str) -> Left {
        let mut left = Left::default();
        for res in resources {
            let view = self.store.view(&self.id, &res.table);
            let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
            let all = view
                .objects
                .range::<_, str>((Bound::Included(prefix.as_str()), Bound::Unbounded))
                .take_while(|(k, _)| k.starts_with(&prefix));
            for (key, entry) in all {
                let (ns, name) = key.split_once('/').unwrap_or(("", key));
                if !entry.meta.deleting {
                    let mut call = self.own_call(res, ns, name, "");
                    call.info.verb = "delete";
                    match verbs::delete_background(&call).await {
                        Ok(()) => {}
                        Err(s) if s.code == 404 => {}
                        // One that is refused, by a webhook say, must not keep the others.
                        Err(s) => left.refused.push(s.message),
                    }
                }
                if let Some(e) = self.store.get(&self.id, &res.table, key) {
                    left.held.push(Held { res: res.clone(), entry: e });
                }
            }
        }
        left
    }

    /// Waits until one of the tables changes after it was looked at; if a deletion was refused, not for ever,
    /// since whoever refused may change its mind without a word.
    async fn any_change(cursors: &mut [Cursor], left: &Left, attempt: u32) {
        let changed = async {
            if cursors.is_empty() {
                return;
            }
            let waits = cursors.iter_mut().map(|c| Box::pin(c.next(1)));
            futures::future::select_all(waits).await;
        };
        if left.refused.is_empty() {
            changed.await;
        } else {
            let patience = Duration::from_secs(1 << attempt.min(5));
            _ = tokio::time::timeout(patience, changed).await;
        }
    }

    fn cursors(&self, tables: &[TableName]) -> Vec<Cursor> {
        tables.iter().map(|t| self.store.view_and_watch(&self.id, t, None).1).collect()
    }

    async fn empty_namespace(self: &Arc<Self>, name: &str) -> Result<(), Status> {
        for attempt in 0.. {
            let resources: Vec<Arc<Resource>> = (self.registry().storage_resources().into_iter())
                .filter(|r| r.namespaced && r.allows("delete"))
                .collect();
            let names: Vec<TableName> = resources.iter().map(|r| r.table.clone()).collect();
            // Cursors first: a change between looking and waiting must wake us.
            let mut cursors = self.cursors(&names);
            // Pods first: what they use (secrets, policies) stays until the last of them is gone.
            let (pods, others): (Vec<_>, Vec<_>) =
                resources.into_iter().partition(|r| r.table == *tables::PODS);
            let mut left = self.delete_all(&pods, name).await;
            if left.held.is_empty() {
                left = self.delete_all(&others, name).await;
            }
            self.namespace_conditions(name, &left).await?;
            if left.held.is_empty() {
                break;
            }
            let waiting: Vec<TableName> = left.held.iter().map(|h| h.res.table.clone()).collect();
            let mut relevant: Vec<Cursor> = names
                .iter()
                .zip(cursors.drain(..))
                .filter(|(t, _)| waiting.contains(t))
                .map(|(_, c)| c)
                .collect();
            Self::any_change(&mut relevant, &left, attempt).await;
        }
        let registry = self.registry();
        let Some(res) = registry.find("", "v1", "namespaces").cloned() else { return Ok(()) };
        drop(registry);
        let call = self.own_call(&res, "", name, "finalize");
        let done = |old: &Value| {
            let mut new = old.clone();
            if let Some(Value::Array(f)) = new.pointer_mut("/spec/finalizers") {
                f.retain(|f| f != "kubernetes");
            }
            Ok(Next { object: new, applied: false })
        };
        gone_is_fine(verbs::update_object(&call, &done, &own_options()).await)
    }

    /// What holds a namespace, in its status, so that nobody has to guess.
    async fn namespace_conditions(self: &Arc<Self>, name: &str, left: &Left) -> Result<(), Status> {
        let registry = self.registry();
        let Some(res) = registry.find("", "v1", "namespaces").cloned() else { return Ok(()) };
        drop(registry);
        let call = self.own_call(&res, "", name, "status");
        let now = self.timestamp();
        let mut content: Vec<String> = Vec::new();
        let mut finalizers: Vec<String> = Vec::new();
        for h in &left.held {
            // With the dot even when there is no group: that is the text tools look for.
            let text = format!("{}.{}", h.res.plural, h.res.group);
            content.push(text);
            let obj: Value = serde_json::from_slice(&h.entry.bytes()).unwrap_or_default();
            for f in obj["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
            {
                finalizers.push(f.to_owned());
            }
        }
        let list = |v: &[String], what: &str| {
            let mut seen: Vec<(String, usize)> = Vec::new();
            for s in v {
                match seen.iter_mut().find(|(k, _)| k == s) {
                    Some((_, n)) => *n += 1,
                    None => seen.push((s.clone(), 1)),
                }
            }
            seen.iter()
                .map(|(k, n)| format!("{k} {what} {n} resource instances"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let condition = |ty: &str, yes: bool, reason: &str, message: String| json!({"type": ty, "status": if yes { "True" } else { "False" }, "reason": reason, "message": message});
        let conditions = [
            condition(
                "NamespaceDeletionDiscoveryFailure",
                false,
                "ResourcesDiscovered",
                "All resources successfully discovered".into(),
            ),
            condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                false,
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed".into(),
            ),
            if left.refused.is_empty() {
                condition(
                    "NamespaceDeletionContentFailure",
                    false,
                    "ContentDeleted",
                    "All content successfully deleted, may be waiting on finalization".into(),
                )
            } else {
                condition(
                    "NamespaceDeletionContentFailure",
                    true,
                    "ContentDeletionFailed",
                    format!("Failed to delete all resource types, {}", left.refusals()),
                )
            },
            if content.is_empty() {
                condition(
                    "NamespaceContentRemaining",
                    false,
                    "ContentRemoved",
                    "All content successfully removed".into(),
                )
            } else {
                condition(
                    "NamespaceContentRemaining",
                    true,
                    "SomeResourcesRemain",
                    format!("Some resources are remaining: {}", list(&content, "has")),
                )
            },
            if finalizers.is_empty() {
                condition(
                    "NamespaceFinalizersRemaining",
                    false,
                    "ContentHasNoFinalizers",
                    "All content-preserving finalizers finished".into(),
                )
            } else {
                condition(
                    "NamespaceFinalizersRemaining",
                    true,
                    "SomeFinalizersRemain",
                    format!(
                        "Some content in the namespace has finalizers remaining: {}",
                        list(&finalizers, "in")
                    ),
                )
            },
        ];
        let set = |old: &Value| {
            let mut new = old.clone();
            let before = old["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let merged: Vec<Value> = conditions
                .iter()
                .map(|c| {
                    let mut c = c.clone();
                    let since = before
                        .iter()
                        .find(|b| b["type"] == c["type"] && b["status"] == c["status"])
                        .and_then(|b| b["lastTransitionTime"].as_str())
                        .unwrap_or(&now);
                    c["lastTransitionTime"] = json!(since);
                    c
                })
                .collect();
            new["status"]["conditions"] = json!(merged);
            Ok(Next { object: new, applied: false })
        };
        gone_is_fine(verbs::update_object(&call, &set, &own_options()).await)
    }

    async fn empty_crd(self: &Arc<Self>, name: &str) -> Result<(), Status> {
        let Some(object) = self.object(&tables::CRDS, "", name) else { return Ok(()) };
        let group = object::str_at(&object, &["spec", "group"]).unwrap_or_default().to_owned();
        let plural = object::str_at(&object, &["spec", "names", "plural"]).unwrap_or_default().to_owned();
        for attempt in 0.. {
            let resources: Vec<Arc<Resource>> = (self.registry().storage_resources().into_iter())
                .filter(|r| r.group == group && r.plural == plural && r.is_custom())
                .collect();
            let names: Vec<TableName> = resources.iter().map(|r| r.table.clone()).collect();
            let mut cursors = self.cursors(&names);
            let left = self.delete_all(&resources, "").await;
            self.crd_condition(name, &left).await?;
            if left.held.is_empty() {
                break;
            }
            Self::any_change(&mut cursors, &left, attempt).await;
        }
        let registry = self.registry();
        let Some(res) = registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions").cloned()
        else {
            return Ok(());
        };
        drop(registry);
        let call = self.own_call(&res, "", name, "");
        let done = |old: &Value| {
            let mut new = old.clone();
            if let Some(Value::Array(f)) = new.pointer_mut("/metadata/finalizers") {
                f.retain(|f| f != crd::FINALIZER);
            }
            Ok(Next { object: new, applied: false })
        };
        gone_is_fine(verbs::update_object(&call, &done, &own_options()).await)
    }

    /// What holds a CRD, in its status.
    async fn crd_condition(self: &Arc<Self>, name: &str, left: &Left) -> Result<(), Status> {
        let (status, reason, message) = if left.held.is_empty() {
            ("False", "InstanceDeletionCompleted", "removed all instances".to_owned())
        } else if left.refused.is_empty() {
            let n = left.held.len();
            let message = format!("CustomResource deletion is in progress, {n} instances have finalizers");
            ("True", "InstanceDeletionInProgress", message)
        } else {
            let message = format!("could not delete all instances, {}", left.refusals());
            ("True", "InstanceDeletionFailed", message)
        };
        let registry = self.registry();
        let Some(res) = registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions").cloned()
        else {
            return Ok(());
        };
        drop(registry);
        let call = self.own_call(&res, "", name, "status");
        let now = self.timestamp();
        let set = |old: &Value| {
            let mut new = old.clone();
            let conditions = new["status"]["conditions"].as_array_mut();
            if let Some(c) = conditions.and_then(|l| l.iter_mut().find(|c| c["type"] == "Terminating")) {
                if c["status"] != status {
                    c["lastTransitionTime"] = json!(now);
                }
                c["status"] = json!(status);
                c["reason"] = json!(reason);
                c["message"] = json!(message);
            }
            Ok(Next { object: new, applied: false })
        };
        gone_is_fine(verbs::update_object(&call, &set, &own_options()).await)
    }

    /// Roles that collect other roles, and CRDs that waited for a name, are written again: preparing them
    /// recomputes what depends on their siblings, and an unchanged one is not stored.
    pub(crate) fn refresh_siblings(self: &Arc<Self>, res: &Arc<Resource>) {
        let (me, res) = (self.clone(), res.clone());
        tokio::spawn(async move {
            // Few are of that kind, and there may be thousands of the others.
            let view = me.store.view(&me.id, &res.table);
            let may = |e: &Entry| {
                let holds = |text: &[u8]| memchr::memmem::find(&e.bytes(), text).is_some();
                holds(b"aggregationRule") || (res.table == *tables::CRDS && holds(b"\"False\""))
            };
            let all: Vec<Value> =
                view.objects.values().filter(|e| may(e)).filter_map(|e| crate::parse(e)).collect();
            let dependent = all.iter().filter(|o| {
                o["aggregationRule"].is_object()
                    || (res.table == *tables::CRDS && !crd::condition(o, crd::ACCEPTED))
            });
            for o in dependent {
                let call = me.own_call(&res, "", object::name(o), "");
                let same = |old: &Value| Ok(Next { object: old.clone(), applied: false });
                if let Err(e) = gone_is_fine(verbs::update_object(&call, &same, &own_options()).await) {
                    tracing::warn!(name = object::name(o), error = %e, "cannot refresh");
                }
            }
        });
    }
}

/// What is still there after a round of deletions.
#[derive(Default)]
struct Left {
    held: Vec<Held>,
    /// Why deletions were refused.
    refused: Vec<String>,
}

impl Left {
    /// The first few refusals: a status is read by people.
    fn refusals(&self) -> String {
        const SHOWN: usize = 3;
        let mut text = format!("{} remaining: ", self.refused.len());
        text.push_str(&self.refused.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; "));
        if self.refused.len() > SHOWN {
            text.push_str("; …");
        }
        text
    }
}

struct Held {
    res: Arc<Resource>,
    entry: Arc<Entry>,
}

fn gone_is_fine(r: Result<Arc<Entry>, Status>) -> Result<(), Status> {
    match r {
        Ok(_) => Ok(()),
        Err(s) if s.code == 404 => Ok(()),
        Err(s) => Err(s),
    }
}

fn own_options() -> WriteOptions {
    WriteOptions {
        dry_run: false,
        field_manager: Some("zaffre".into()),
        field_validation: FieldValidation::Ignore,
        force: false,
    }
}
