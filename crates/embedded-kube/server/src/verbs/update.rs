//! Update, patch and apply: one loop that reads, transforms, prepares, admits, checks and stores, and starts
//! over when somebody else was faster, unless the client said which version it meant.

use super::Call;
use super::accept::Source;
use super::create;
use super::graft::{date_conditions, graft};
use super::write::{VersionTypes, reset_fields};
use crate::admission::Operation;
use crate::cluster::tables;
use crate::wire::body::{self, Decoded, Oddities};
use crate::wire::negotiate::{self, Accepted, PatchType};
use crate::wire::params::WriteOptions;
use crate::wire::respond::Reply;
use ek_apply::managed::ApplyError;
use ek_meta::object::{self, metadata_mut};
use ek_meta::{FieldError, FieldPath, Status};
use ek_store::{Entry, Expect};
use serde_json::{Value, json};
use std::sync::Arc;

/// A loop that loses this often meets a writer that never pauses; the client is told to come back.
const MAX_TRIES: usize = 64;

/// The new state, made from the old.
pub struct Next {
    pub object: Value,
    /// Ownership of fields is already in `object` (it comes from an apply).
    pub applied: bool,
}

/// Makes the new state. Called again, on newer state, after a lost race.
pub type Transform<'a> = &'a (dyn Fn(&Value) -> Result<Next, Status> + Sync);

/// What is to happen to an object.
pub(super) enum Step {
    Write(Next),
    /// An apply found everything in place.
    Keep,
    /// Whoever asked wants nothing of it after all.
    Leave,
}

pub async fn put(call: &Call) -> Result<Reply, Status> {
    let accepted = call.accepted(true)?;
    let options = WriteOptions::parse(&call.params, "UpdateOptions")?;
    let mut obj = call.decode_object(&options)?;
    call.place(&mut obj)?;
    let name = object::name(&obj);
    same_name(call, name)?;
    let sent = object::resource_version(&obj).to_owned();
    let flags = call.flags();
    if call.live().is_err() && flags.create_on_update && call.info.subresource.is_empty() {
        metadata_mut(&mut obj).remove("resourceVersion");
        metadata_mut(&mut obj).remove("uid");
        return create::create_object(call, obj, &options, accepted, false).await;
    }
    if sent.is_empty() && !flags.unconditional_update {
        // Only objects that exist can be told to name a version.
        call.live()?;
        let e = FieldError::invalid(
            &FieldPath::new("metadata.resourceVersion"),
            json!(0),
            "must be specified for an update",
        );
        return Err(Status::invalid(&call.res.group, &call.res.plural, name, &[e]));
    }
    let transform = |_: &Value| Ok(Next { object: obj.clone(), applied: false });
    let entry = run(call, &transform, &options, (!sent.is_empty()).then_some(sent.as_str())).await?;
    call.object_reply(200, accepted, &entry).await
}

pub async fn patch(call: &Call) -> Result<Reply, Status> {
    let accepted = call.accepted(true)?;
    let ty = negotiate::patch_type(&call.headers, !call.res.is_custom())?;
    let options = WriteOptions::parse(&call.params, "PatchOptions")?;
    if options.force && ty != PatchType::Apply {
        let e = FieldError::forbidden(&FieldPath::new("force"), "may not be specified for non-apply patch");
        return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[e]));
    }
    match ty {
        PatchType::Apply => apply(call, &options, accepted).await,
        _ => {
            let patch = body::patch(&call.body, ty)?;
            let transform = |old: &Value| {
                let object = accept_patch(call, old, &patch, ty, &options)?;
                same_identity(call, &object)?;
                Ok(Next { object, applied: false })
            };
            let entry = run(call, &transform, &options, None).await?;
            call.object_reply(200, accepted, &entry).await
        }
    }
}

/// `old` with the patch applied, still an object of its kind.
pub(super) fn accept_patch(
    call: &Call,
    old: &Value,
    patch: &Decoded,
    ty: PatchType,
    options: &WriteOptions,
) -> Result<Value, Status> {
    let value = patched(call, old.clone(), &patch.value, ty)?;
    let oddities = match &patch.oddities {
        Oddities::JsonPatch(v) => Oddities::JsonPatch(v.clone()),
        _ => Oddities::None,
    };
    let sorted = ty == PatchType::Strategic;
    let decoded = Decoded { value, duplicates: patch.duplicates.clone(), oddities, sorted };
    call.accept_object(decoded, options, Source::Patch).map_err(|s| bad_patch(call, s, old, patch, ty))
}

/// An object is written under its own name.
fn same_name(call: &Call, name: &str) -> Result<(), Status> {
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.info.name
        )));
    }
    if name != call.info.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.info.name
        )));
    }
    Ok(())
}

/// A patch cannot turn an object into another one.
fn same_identity(call: &Call, obj: &Value) -> Result<(), Status> {
    let (name, ns) = (object::name(obj), object::namespace(obj));
    same_name(call, name)?;
    if !ns.is_empty() && ns != call.info.namespace {
        return Err(Status::bad_request(format!(
            "the namespace of the object ({ns}) does not match the namespace on the URL ({})",
            call.info.namespace
        )));
    }
    Ok(())
}

/// What is wrong with the result of a patch is the patch's fault. The result is shown, or, where the patch is
/// merged as the type says, the patch itself as Go prints it.
fn bad_patch(call: &Call, s: Status, old: &Value, patch: &Decoded, ty: PatchType) -> Status {
    if s.code != 400 {
        return s;
    }
    let (kind, version) = (&call.res.kind, &call.res.version);
    let prefix = format!("{kind} in version {version:?} cannot be handled as a {kind}: ");
    let why = s.message.strip_prefix(&prefix).unwrap_or(&s.message).to_owned();
    let shown = match ty {
        PatchType::Strategic => ek_apply::strategic::go_format(&patch.value),
        _ => {
            let mut shown = patched(call, old.clone(), &patch.value, ty).unwrap_or_default();
            // Nobody looks for a mistake in the books.
            metadata_mut(&mut shown).remove("managedFields");
            // As maps are written in Go: who wrote the object last, and how, is not to be seen in it.
            shown.sort_all_objects();
            shown.to_string()
        }
    };
    let e = FieldError::invalid(&FieldPath::new("patch"), shown, why);
    Status::invalid("", "", "", &[e])
}

/// `doc` with the patch applied.
pub fn patched(call: &Call, doc: Value, patch: &Value, ty: PatchType) -> Result<Value, Status> {
    match ty {
        PatchType::Json => ek_apply::json::json_patch(doc, patch).map_err(|e| patch_status(&e)),
        PatchType::Merge => Ok(ek_apply::json::merge_patch(doc, patch)),
        PatchType::Strategic => ek_apply::strategic::merge(doc, patch, call.res.node())
            // Without a reason, as upstream hands these on.
            .map_err(|e| Status {
                reason: None,
                ..Status::failure(500, ek_meta::Reason::InternalError, e.to_string())
            }),
        PatchType::Apply => Err(Status::internal("apply is not a patch of a document")),
    }
}

/// A patch too large is refused as such; one that does not fit the object is invalid.
fn patch_status(e: &ek_apply::json::PatchError) -> Status {
    use ek_apply::json::PatchError;
    match e {
        PatchError::TooMany(_) | PatchError::CopyTooLarge(_) => Status::too_large(e.to_string()),
        PatchError::TooDeep(_) => Status::bad_request(e.to_string()),
        _ => {
            // As upstream, which keeps what was wrong to itself.
            let text = "the server rejected our request due to an error in our request";
            let mut s = Status::failure(422, ek_meta::Reason::Invalid, text);
            s.details = Some(Box::default());
            s
        }
    }
}

/// What an apply asks for, and in whose name.
pub(super) fn applied_configuration(call: &Call, options: &WriteOptions) -> Result<(Value, String), Status> {
    let Some(manager) = &options.field_manager else {
        let e = FieldError::required(&FieldPath::new("fieldManager"), "is required for apply patch");
        return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[e]));
    };
    let decoded = body::yaml(&call.body)?;
    // The applier must say what it applies; nothing is taken from the URL but the name.
    let said = |f: &str| decoded.value.get(f).and_then(Value::as_str).unwrap_or_default();
    if said("apiVersion") != call.res.api_version || said("kind") != call.res.kind {
        let (group, version) = said("apiVersion").split_once('/').unwrap_or_else(|| ("", said("apiVersion")));
        return Err(Status::bad_request(format!(
            "invalid object type: {group}/{version}, Kind={}",
            said("kind")
        )));
    }
    Ok((call.accept_applied(decoded, options)?, manager.clone()))
}

/// Server-side apply.
async fn apply(call: &Call, options: &WriteOptions, accepted: Accepted) -> Result<Reply, Status> {
    let repeats = may_keep(call).then(|| (&call.cluster.repeats, call.cluster.repeats.key(call)));
    if let Some((repeats, key)) = repeats
        && let Ok(entry) = call.live()
        && repeats.contains(key, entry.revision, call.res.stamp())
    {
        return call.object_reply(200, accepted, &entry).await;
    }
    let (mut config, manager) = applied_configuration(call, options)?;
    let body_name = object::name(&config);
    if !body_name.is_empty() && body_name != call.info.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({body_name}) does not match the name on the URL ({})",
            call.info.name
        )));
    }
    metadata_mut(&mut config).insert("name".into(), json!(call.info.name));
    let said_namespace = object::namespace(&config).to_owned();
    call.place(&mut config)?;
    let sent = object::resource_version(&config).to_owned();
    let uid = object::uid(&config).to_owned();
    let sub = call.managed_subresource();
    let reset = reset_fields(&call.res, sub);
    let make = |old: Option<&Value>| -> Result<Step, Status> {
        let now = call.cluster.timestamp();
        let types = VersionTypes::new(call);
        let writer = call.writer(&manager, sub, &call.res.api_version, &now);
        let out = ek_apply::managed::apply(&types, old, &config, &writer, options.force, &reset)
            .map_err(|e| apply_status(in_own_words(e, &said_namespace)))?;
        if !out.changed {
            return Ok(Step::Keep);
        }
        Ok(Step::Write(Next { object: out.object.into_owned(), applied: true }))
    };
    for _ in 0..2 {
        if call.live().is_ok() || !call.info.subresource.is_empty() {
            let step = |old: &Value| make(Some(old));
            let revision = (!sent.is_empty()).then_some(sent.as_str());
            let (entry, kept) = run_steps(call, &step, options, revision).await?;
            if let Some((repeats, key)) = repeats
                && kept
                && call.warnings.lock().is_empty()
            {
                repeats.remember(key, entry.revision, call.res.stamp());
            }
            return call.object_reply(200, accepted, &entry).await;
        }
        if !uid.is_empty() {
            return Err(Status::conflict(
                &call.res.group,
                &call.res.plural,
                &call.info.name,
                &format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                ),
            ));
        }
        let Step::Write(Next { mut object, .. }) = make(None)? else {
            return Err(Status::internal("an apply that creates changed nothing"));
        };
        metadata_mut(&mut object).remove("resourceVersion");
        match create::create_object(call, object, options, accepted, true).await {
            // Somebody created it in between: apply to that.
            Err(s) if s.reason == Some(ek_meta::Reason::AlreadyExists) => {}
            other => return other,
        }
    }
    Err(Status::modified(&call.res.group, &call.res.plural, &call.info.name))
}

/// An error about a configuration names the namespace that is in it, not the one of the URL.
fn in_own_words(e: ApplyError, said: &str) -> ApplyError {
    match e {
        ApplyError::Invalid { name, api_version, kind, errors, .. } => {
            ApplyError::Invalid { namespace: said.to_owned(), name, api_version, kind, errors }
        }
        other => other,
    }
}

pub(super) fn apply_status(e: ApplyError) -> Status {
    match e {
        ApplyError::Conflicts(c) => ek_apply::managed::conflict_status(&c),
        ApplyError::ManagedFields => Status::bad_request(e.to_string()),
        // A code without a reason is how clients know it from upstream.
        ApplyError::Invalid { .. } => {
            Status { reason: None, ..Status::failure(500, ek_meta::Reason::InternalError, e.to_string()) }
        }
    }
}

/// Whether an apply that changes nothing may end at that. Not where others have a say (webhooks, policies), nor
/// where the state of siblings makes part of the object.
fn may_keep(call: &Call) -> bool {
    use crate::cluster::tables;
    let table = &call.res.table;
    *table != *tables::CRDS && *table != *tables::CLUSTER_ROLES && !crate::admission::is_configured(call)
}

pub async fn run(
    call: &Call,
    transform: Transform<'_>,
    options: &WriteOptions,
    revision: Option<&str>,
) -> Result<Arc<Entry>, Status> {
    let step = |old: &Value| transform(old).map(Step::Write);
    run_steps(call, &step, options, revision).await.map(|(entry, _)| entry)
}

/// As [`run`], for those who may find on looking that there is nothing to do; nothing then.
pub async fn change(
    call: &Call,
    change: &(dyn Fn(&Value) -> Option<Next> + Sync),
    options: &WriteOptions,
) -> Result<Option<Arc<Entry>>, Status> {
    let step = |old: &Value| Ok(change(old).map_or(Step::Leave, Step::Write));
    let (entry, kept) = run_steps(call, &step, options, None).await?;
    Ok((!kept).then_some(entry))
}

/// The loop. `revision` is the version the client insists on. Also says whether the object was kept as it is.
pub(super) async fn run_steps(
    call: &Call,
    step: &(dyn Fn(&Value) -> Result<Step, Status> + Sync),
    options: &WriteOptions,
    revision: Option<&str>,
) -> Result<(Arc<Entry>, bool), Status> {
    let res = &call.res;
    let conflict = || Status::modified(&res.group, &res.plural, &call.info.name);
    let _siblings = call.sibling_lock().await;
    for _ in 0..MAX_TRIES {
        let entry = call.live()?;
        let old = call.cluster.look(res, &entry).await?;
        let old_rv = object::resource_version(&old).to_owned();
        if revision.is_some_and(|r| r != old_rv) {
            return Err(conflict());
        }
        let Next { object: new, applied } = match step(&old)? {
            Step::Write(next) => next,
            Step::Keep if call.is_current(&entry) && !entry.meta.deleting && may_keep(call) => {
                return Ok((entry, true));
            }
            Step::Leave => return Ok((entry, true)),
            Step::Keep => Next { object: (*old).clone(), applied: true },
        };
        // A patch that carries a version insists on it too.
        let new_rv = object::resource_version(&new);
        if !new_rv.is_empty() && new_rv != old_rv {
            return Err(conflict());
        }
        let uid = object::uid(&new);
        if !uid.is_empty() && uid != object::uid(&old) && call.info.verb == "patch" {
            let e = FieldError::invalid(&FieldPath::new("metadata.uid"), uid, "field is immutable");
            return Err(Status::invalid(&res.group, &res.kind, &call.info.name, &[e]));
        }
        if !uid.is_empty() && uid != object::uid(&old) {
            return Err(Status::conflict(
                &res.group,
                &res.plural,
                &call.info.name,
                &format!(
                    "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                    object::uid(&old)
                ),
            ));
        }
        let mut new = new;
        // Who writes a status of a custom resource, or resizes a pod, is recorded with all it sent, though only
        // part of it is taken.
        let custom_status = res.is_custom() && call.info.subresource == "status";
        let whole = custom_status || call.info.subresource == "resize";
        if whole && !applied {
            carry_over(&mut new, &old);
            record(call, options, &mut new, &old);
        }
        let applied = applied || whole;
        let mut new = graft(call, new, &old);
        carry_over(&mut new, &old);
        if res.group == "certificates.k8s.io" {
            date_conditions(&mut new, &old, &call.cluster.timestamp());
        }
        call.complete(&mut new);
        if !applied {
            record(call, options, &mut new, &old);
        }
        call.own(&mut new, Some(&old));
        let mut new = call.admit_mutating(Operation::Update, new, Some(&old), options).await?;
        carry_over(&mut new, &old);
        call.prepare_crd(&mut new, Some(&old));
        call.cluster.prepare_rbac(call, &mut new, Some(&old))?;
        if call.info.subresource != "binding" {
            bump_generation(call, &mut new, &old);
        }
        crate::admission::policy::prepare(call, &mut new);
        crate::allocate::service(call, &mut new, Some(&old))?;
        call.validate(&new, Some(&old), &call.info.subresource)?;
        call.admit_validating(Operation::Update, Some(&new), Some(&old), options).await?;
        let _counted = crate::admission::quota::reserve(call, Operation::Update, &new, Some(&old)).await?;
        metadata_mut(&mut new).insert("resourceVersion".into(), json!(old_rv));
        if deletion_complete(call, &new) {
            // The answer is the last state there was; only watchers learn the version of its end.
            let last = call.remove(&new, entry.revision, true).await?;
            match call.remove(&new, entry.revision, options.dry_run).await? {
                Ok(gone) => {
                    call.after_delete();
                    return Ok((last.unwrap_or(gone), false));
                }
                Err(()) if revision.is_some() => return Err(conflict()),
                Err(()) => continue,
            }
        }
        if new == *old && call.is_current(&entry) {
            return Ok((entry, false));
        }
        match call.store(new, Expect::Revision(entry.revision), options.dry_run).await? {
            Ok(stored) => {
                if !options.dry_run {
                    call.told(options);
                    call.after_write(&stored);
                }
                return Ok((stored, false));
            }
            Err(_) if revision.is_some() => return Err(conflict()),
            Err(_) => {}
        }
    }
    Err(conflict())
}

/// Enters a plain write into the books.
fn record(call: &Call, options: &WriteOptions, new: &mut Value, old: &Value) {
    let now = call.cluster.timestamp();
    let manager = call.manager(options);
    let sub = call.managed_subresource();
    let types = VersionTypes::new(call);
    let writer = call.writer(&manager, sub, &call.res.api_version, &now);
    ek_apply::managed::update(&types, Some(old), new, &writer, &reset_fields(&call.res, sub));
}

/// Finalizers are gone, grace has passed: the object may go.
pub fn deletion_complete(call: &Call, obj: &Value) -> bool {
    let meta = &obj["metadata"];
    let empty = |v: &Value| v.as_array().is_none_or(Vec::is_empty);
    !meta["deletionTimestamp"].is_null()
        && empty(&meta["finalizers"])
        && meta["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && (call.res.table != *tables::NAMESPACES || empty(&obj["spec"]["finalizers"]))
}

/// What a client may leave out, and what is not its to write. A time that is sent and differs stays, for
/// validation to refuse.
fn carry_over(new: &mut Value, old: &Value) {
    let old = &old["metadata"];
    let meta = metadata_mut(new);
    meta.remove("selfLink");
    let mut set = |f: &str| match &old[f] {
        Value::Null => {
            meta.remove(f);
        }
        v => {
            meta.insert(f.into(), v.clone());
        }
    };
    for f in ["uid", "generation", "name", "namespace", "creationTimestamp"] {
        set(f);
    }
    for f in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if meta.get(f).is_none_or(|v| v.is_null() || same_instant(v, &old[f])) {
            match &old[f] {
                Value::Null => meta.remove(f),
                v => meta.insert(f.into(), v.clone()),
            };
        }
    }
}

/// Clients in other languages send times back with an offset or with fractions of a second.
fn same_instant(a: &Value, b: &Value) -> bool {
    let second = |v: &Value| v.as_str().and_then(ek_meta::time::parse).map(|t| t.as_second());
    second(a).is_some_and(|s| second(b) == Some(s))
}

/// Counts changes of what is desired: everything but metadata and, where it has its own endpoint, status.
fn bump_generation(call: &Call, new: &mut Value, old: &Value) {
    if !call.has_generation() {
        return;
    }
    let status = call.res.has_status();
    let desired = |k: &str| !(k == "metadata" || (status && k == "status"));
    let (Some(a), Some(b)) = (new.as_object(), old.as_object()) else { return };
    // A deployment's annotations are copied to what it makes.
    let annotations = |o: &serde_json::Map<String, Value>| o["metadata"].get("annotations").cloned();
    let copied =
        call.res.group == "apps" && call.res.plural == "deployments" && call.info.subresource.is_empty();
    let same = !(copied && annotations(a) != annotations(b))
        && a.iter().filter(|(k, _)| desired(k)).all(|(k, v)| b.get(k) == Some(v))
        && b.iter().filter(|(k, _)| desired(k)).all(|(k, _)| a.contains_key(k));
    let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
    let next = if same { generation } else { generation + 1 };
    if next > 0 {
        metadata_mut(new).insert("generation".into(), json!(next));
    }
}
