//! Delete and deletecollection.

use super::Call;
use super::update::deletion_complete;
use crate::admission::Operation;
use crate::cluster::tables;
use crate::select::Filter;
use crate::wire::body;
use crate::wire::negotiate::{self, BodyType};
use crate::wire::params::{FieldValidation, WriteOptions, parse_dry_run};
use crate::wire::respond::{self, Reply};
use ek_meta::object::{self, metadata_mut};
use ek_meta::status::Details;
use ek_meta::{FieldError, FieldPath, Status};
use ek_store::{Entry, Expect};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::Arc;

/// What a deletion asks for.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub grace: Option<i64>,
    pub propagation: Option<String>,
    pub uid: Option<String>,
    pub revision: Option<String>,
    pub dry_run: bool,
}

impl DeleteOptions {
    /// From the body, or from the query when there is no body.
    fn parse(call: &Call) -> Result<DeleteOptions, Status> {
        let p = &call.params;
        let value = if call.body.is_empty() {
            Value::Null
        } else {
            let ty = negotiate::body_type(&call.headers, true)?;
            // Upstream hands on what its decoder says, without a reason.
            let as_is = |text: String| Status {
                reason: None,
                ..Status::failure(500, ek_meta::Reason::InternalError, text)
            };
            let value = match ty {
                BodyType::Json => {
                    let read = body::read_json(&call.body);
                    read.map_err(|e| as_is(format!("couldn't get version/kind; json parse error: {e}")))?
                        .value
                }
                ty => body::decode(&call.body, ty)?.value,
            };
            if let Some(k) = value.get("kind").and_then(Value::as_str)
                && k != "DeleteOptions"
            {
                let version = value["apiVersion"].as_str().unwrap_or("meta.k8s.io/v1");
                return Err(as_is(format!(
                    "no kind {k:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:110\""
                )));
            }
            value
        };
        let mut errors = Vec::new();
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let dry = value["dryRun"].as_array().map(Vec::as_slice).unwrap_or_default();
        let dry_run = parse_dry_run(dry.iter().filter_map(Value::as_str).chain(p.all("dryRun")), &mut errors);
        let grace = match value["gracePeriodSeconds"].as_i64() {
            Some(g) => Some(g),
            None => p.int("gracePeriodSeconds")?,
        };
        let mut propagation =
            text(&value["propagationPolicy"]).or_else(|| p.get("propagationPolicy").map(str::to_owned));
        let orphan =
            value["orphanDependents"].as_bool().or_else(|| p.get("orphanDependents").map(|v| v != "false"));
        let path = FieldPath::new("propagationPolicy");
        match (orphan, &propagation) {
            (Some(_), Some(policy)) => errors.push(FieldError::invalid(
                &path,
                policy.as_str(),
                "orphanDependents and deletionPropagation cannot be both set",
            )),
            (Some(o), None) => propagation = Some(if o { "Orphan" } else { "Background" }.to_owned()),
            (None, Some(policy)) if !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan") => {
                errors.push(FieldError::not_supported(
                    &path,
                    policy.as_str(),
                    &["Foreground", "Background", "Orphan", "nil"],
                ));
            }
            _ => {}
        }
        if !errors.is_empty() {
            return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &errors));
        }
        let pre = &value["preconditions"];
        Ok(DeleteOptions {
            grace,
            propagation,
            uid: text(&pre["uid"]),
            revision: text(&pre["resourceVersion"]),
            dry_run,
        })
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions {
            dry_run: self.dry_run,
            field_manager: None,
            field_validation: FieldValidation::Ignore,
            force: false,
        }
    }
}

pub async fn delete(call: &Call) -> Result<Reply, Status> {
    let accepted = call.accepted(true)?;
    let options = DeleteOptions::parse(call)?;
    match delete_one(call, &call.info.name, &options).await? {
        Outcome::Gone(entry) if !call.flags().returns_deleted => {
            let details = Details {
                name: Some(call.info.name.clone()),
                group: Some(call.res.group.clone()).filter(|g| !g.is_empty()),
                kind: Some(call.res.plural.clone()),
                uid: Some(entry.meta.uid.to_string()),
                ..Details::default()
            };
            let mut s = serde_json::to_value(Status::success(details)).map_err(Status::internal)?;
            if let Some(m) = s.as_object_mut() {
                m.remove("code");
            }
            Ok(respond::value(200, accepted.encoding, &s))
        }
        Outcome::Gone(entry) | Outcome::Pending(entry) => call.object_reply(200, accepted, &entry).await,
    }
}

pub(super) enum Outcome {
    Gone(Arc<Entry>),
    /// Marked; finalizers or grace hold it.
    Pending(Arc<Entry>),
}

pub(super) async fn delete_one(call: &Call, name: &str, options: &DeleteOptions) -> Result<Outcome, Status> {
    let res = &call.res;
    let _siblings = call.sibling_lock().await;
    for _ in 0..64 {
        let entry =
            call.cluster.entry(&res.table, &call.info.namespace, name).ok_or_else(|| res.not_found(name))?;
        super::readable(&entry)?;
        let old = call.cluster.read(res, &entry).await?;
        check_preconditions(call, name, &old, options)?;
        call.refuse_protected(name)?;
        call.admit_validating(Operation::Delete, None, Some(&old), &options.write_options()).await?;
        let mut new = old.clone();
        let pending = mark(call, &mut new, &old, options);
        // A deletion that was under way ends as it was last asked for.
        let graceful = !old["metadata"]["deletionTimestamp"].is_null();
        if graceful && !pending && !old["metadata"]["deletionGracePeriodSeconds"].is_null() {
            new["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        }
        if !pending {
            match call.remove(if graceful { &new } else { &old }, entry.revision, options.dry_run).await? {
                Ok(gone) => {
                    if !options.dry_run {
                        call.after_delete();
                    }
                    return Ok(Outcome::Gone(if graceful { gone } else { entry }));
                }
                Err(()) => continue,
            }
        }
        if new == old {
            return Ok(Outcome::Pending(entry));
        }
        if let Ok(stored) = call.store(new, Expect::Revision(entry.revision), options.dry_run).await? {
            if !options.dry_run {
                call.after_write(&stored);
            }
            return Ok(Outcome::Pending(stored));
        }
    }
    Err(Status::modified(&res.group, &res.plural, name))
}

fn check_preconditions(call: &Call, name: &str, old: &Value, o: &DeleteOptions) -> Result<(), Status> {
    // Named by its kind: that is how it has always been said.
    let fail = |why: String| Err(Status::conflict(&call.res.group, &call.res.kind, name, &why));
    if let Some(uid) = o.uid.as_deref().filter(|u| *u != object::uid(old)) {
        let is = object::uid(old);
        return fail(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({is}). The object might have been deleted and then recreated"
        ));
    }
    if let Some(rv) = o.revision.as_deref().filter(|r| *r != object::resource_version(old)) {
        let is = object::resource_version(old);
        return fail(format!(
            "the ResourceVersion in the precondition ({rv}) does not match the ResourceVersion in record ({is}). The object might have been modified"
        ));
    }
    Ok(())
}

/// Marks the object for deletion if something holds it; returns whether it is held.
fn mark(call: &Call, new: &mut Value, old: &Value, o: &DeleteOptions) -> bool {
    let namespace_object = call.res.table == *tables::NAMESPACES;
    let mut finalizers = wanted_finalizers(call, old, o);
    let first = old["metadata"]["deletionTimestamp"].is_null();
    if call.res.table == *tables::CRDS && first && !finalizers.iter().any(|f| f == crate::crd::FINALIZER) {
        // Held until its instances are gone.
        finalizers.push(crate::crd::FINALIZER.to_owned());
    }
    let grace = grace_seconds(call, old, o);
    let namespace_held =
        namespace_object && old["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
    if finalizers.is_empty() && grace == 0 && !namespace_held {
        return false;
    }
    let now = call.cluster.now();
    let has_generation = call.has_generation();
    let meta = metadata_mut(new);
    if finalizers.is_empty() {
        meta.remove("finalizers");
    } else {
        meta.insert("finalizers".into(), json!(finalizers));
    }
    let already = meta.get("deletionTimestamp").is_some_and(|v| !v.is_null());
    let old_grace = meta.get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    // A deletion under way can only be hastened.
    if !already || old_grace.is_some_and(|g| grace < g) {
        let at = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
        meta.insert("deletionTimestamp".into(), json!(ek_meta::time::rfc3339(at)));
        // Definitions and namespaces are marked by their own rules: at once, and as no change of what is desired.
        let plain = call.res.table != *tables::CRDS && !namespace_object;
        if plain {
            meta.insert("deletionGracePeriodSeconds".into(), json!(grace));
        }
        if !already && has_generation && plain {
            let g = meta.get("generation").and_then(Value::as_i64).unwrap_or(0);
            meta.insert("generation".into(), json!(g + 1));
        }
    }
    if namespace_object {
        new["status"]["phase"] = json!("Terminating");
    }
    if call.res.table == *tables::CRDS && !already {
        let c = json!({"type": "Terminating", "status": "True", "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            "lastTransitionTime": ek_meta::time::rfc3339(now)});
        if let Some(Value::Array(a)) = new.pointer_mut("/status/conditions") {
            a.push(c);
        }
    }
    // Force-deleting a pod whose only hold was its grace completes at once.
    !deletion_complete(call, new)
}

/// The object's finalizers, with those of the garbage collector as the policy wants them.
fn wanted_finalizers(call: &Call, old: &Value, o: &DeleteOptions) -> Vec<String> {
    let mut list: Vec<String> = (old["metadata"]["finalizers"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let policy = o.propagation.as_deref();
    let (orphan, foreground) = match policy {
        Some("Orphan") => (true, false),
        Some("Foreground") => (false, true),
        Some(_) => (false, false),
        // Without a policy, what was decided before stands.
        None => return list,
    };
    if call.flags().no_dependents {
        return list;
    }
    list.retain(|f| f != "orphan" && f != "foregroundDeletion");
    if orphan {
        list.push("orphan".into());
    }
    if foreground {
        list.push("foregroundDeletion".into());
    }
    list
}

/// Only pods on a node are deleted gracefully.
fn grace_seconds(call: &Call, old: &Value, o: &DeleteOptions) -> i64 {
    if call.res.table != *tables::PODS {
        return 0;
    }
    let scheduled = old["spec"]["nodeName"].as_str().is_some_and(|n| !n.is_empty());
    let ended = matches!(old["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !scheduled || ended {
        return 0;
    }
    o.grace.or_else(|| old["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30).max(0)
}

pub async fn delete_collection(call: &Call) -> Result<Reply, Status> {
    let accepted = call.accepted(true)?;
    let options = DeleteOptions::parse(call)?;
    let filter = Filter::parse(&call.res, &call.info.namespace, "", &call.params)?;
    let view = call.cluster.store.view(&call.cluster.id, &call.res.table);
    let mut found: Vec<(Arc<str>, Arc<Entry>)> =
        filter.among(&view).map(|(k, e)| (k.clone(), e.clone())).collect();
    // What is listed is deleted, and answered with: as it was.
    let limit = call.params.int("limit")?.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
    let remaining = limit.map_or(0, |n| found.len().saturating_sub(n));
    found.truncate(limit.unwrap_or(usize::MAX));
    let mut items = Vec::with_capacity(found.len());
    for (key, before) in found {
        let (ns, name) = key.split_once('/').unwrap_or(("", &key));
        let mut one = call.clone();
        one.info.namespace = ns.to_owned();
        one.info.name = name.to_owned();
        match delete_one(&one, name, &options).await {
            Ok(Outcome::Gone(_) | Outcome::Pending(_)) => {
                let mut item = call.cluster.read(&call.res, &before).await?;
                if let (false, Some(m)) = (call.res.is_custom(), item.as_object_mut()) {
                    m.remove("kind");
                    m.remove("apiVersion");
                }
                items.push(item);
            }
            // Somebody else deleted it: that is what was asked for.
            Err(s) if s.code == 404 => {}
            Err(s) => return Err(s),
        }
    }
    let mut list = json!({
        "kind": call.res.list_kind, "apiVersion": call.res.api_version,
        "metadata": {"resourceVersion": call.cluster.store.current(&call.cluster.id).to_string()}, "items": items
    });
    if remaining > 0 && filter.selects_all() {
        list["metadata"]["remainingItemCount"] = json!(remaining);
    }
    Ok(respond::value(200, accepted.encoding, &list))
}
