//! Create.

use super::Call;
use super::write::{VersionTypes, reset_fields};
use crate::admission::Operation;
use crate::wire::negotiate::Accepted;
use crate::wire::params::WriteOptions;
use crate::wire::respond::Reply;
use ek_meta::object::{self, metadata_mut};
use ek_meta::{Status, names};
use ek_store::{Entry, Expect};
use serde_json::{Value, json};
use std::sync::Arc;

/// Collisions of generated names are tried again this often.
const NAME_TRIES: usize = 8;

pub async fn create(call: &Call) -> Result<Reply, Status> {
    let accepted = call.accepted(true)?;
    let options = WriteOptions::parse(&call.params, "CreateOptions")?;
    let obj = call.decode_object(&options)?;
    create_object(call, obj, &options, accepted, false).await
}

/// Creates `obj` and answers with it.
pub async fn create_object(
    call: &Call,
    obj: Value,
    options: &WriteOptions,
    accepted: Accepted,
    applied: bool,
) -> Result<Reply, Status> {
    let entry = create_entry(call, obj, options, applied).await?;
    call.object_reply(201, accepted, &entry).await
}

/// Creates `obj`. `applied`: it comes from an apply, which has already said who owns its fields.
pub async fn create_entry(
    call: &Call,
    mut obj: Value,
    options: &WriteOptions,
    applied: bool,
) -> Result<Arc<Entry>, Status> {
    call.place(&mut obj)?;
    if !object::resource_version(&obj).is_empty() {
        return Err(Status {
            reason: None,
            ..Status::failure(
                500,
                ek_meta::Reason::InternalError,
                "resourceVersion should not be set on objects to be created",
            )
        });
    }
    let generated = object::name(&obj).is_empty()
        && obj["metadata"]["generateName"].as_str().is_some_and(|b| !b.is_empty());
    for attempt in 1.. {
        // Only a generated name is tried again.
        let mut candidate = if generated { obj.clone() } else { std::mem::take(&mut obj) };
        if generated {
            let base = obj["metadata"]["generateName"].as_str().unwrap_or_default();
            let name = names::generate(base, |n| call.cluster.random.below(n));
            metadata_mut(&mut candidate).insert("name".into(), json!(name));
        }
        let name = object::name(&candidate).to_owned();
        match attempt_create(call, candidate, options, applied).await? {
            Some(entry) => {
                if !options.dry_run {
                    call.told(options);
                    call.after_write(&entry);
                }
                return Ok(entry);
            }
            None if generated && attempt < NAME_TRIES => {}
            None => {
                let mut s = Status::already_exists(&call.res.group, &call.res.plural, &name);
                if generated {
                    s.message = format!(
                        "{}, the server was not able to generate a unique name for the object",
                        s.message
                    );
                    return Err(s.retry_after(1));
                }
                return Err(s);
            }
        }
    }
    Err(Status::internal("name generation gave up"))
}

/// One try; `None` when the name is taken.
async fn attempt_create(
    call: &Call,
    mut obj: Value,
    options: &WriteOptions,
    applied: bool,
) -> Result<Option<Arc<Entry>>, Status> {
    let _siblings = call.sibling_lock().await;
    server_metadata(call, &mut obj);
    call.complete(&mut obj);
    if !applied {
        // Before the server and its webhooks add theirs: a creator owns what it wrote.
        let (now, manager) = (call.cluster.timestamp(), call.manager(options));
        let writer = call.writer(&manager, "", &call.res.api_version, &now);
        let reset = reset_fields(&call.res, "");
        ek_apply::managed::create(&VersionTypes::new(call), &call.blank(), &mut obj, &writer, &reset);
    }
    call.own(&mut obj, None);
    let mut obj = call.admit_mutating(Operation::Create, obj, None, options).await?;
    // The name must be there for error messages, but a name that is taken is said before what is invalid.
    if !call.res.is_custom() {
        ek_builtin::prepare::reset_on_create(&call.res.group, &call.res.plural, &mut obj);
    } else if call.res.has_status()
        && let Some(m) = obj.as_object_mut()
    {
        m.remove("status");
    }
    call.prepare_crd(&mut obj, None);
    crate::admission::policy::prepare(call, &mut obj);
    call.cluster.prepare_rbac(call, &mut obj, None)?;
    crate::allocate::service(call, &mut obj, None)?;
    call.normalize(&mut obj);
    call.validate(&obj, None, "")?;
    call.admit_validating(Operation::Create, Some(&obj), None, options).await?;
    let _counted = crate::admission::quota::reserve(call, Operation::Create, &obj, None).await?;
    if options.dry_run {
        let taken =
            call.cluster.entry(&call.res.table, object::namespace(&obj), object::name(&obj)).is_some();
        if taken {
            return Ok(None);
        }
    }
    Ok(call.store(obj, Expect::Absent, options.dry_run).await?.ok())
}

/// What the server alone sets.
fn server_metadata(call: &Call, obj: &mut Value) {
    let generation = call.has_generation();
    let now = call.cluster.timestamp();
    let uid = call.cluster.random.uuid();
    let meta = metadata_mut(obj);
    for f in ["selfLink", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"]
    {
        meta.remove(f);
    }
    meta.insert("uid".into(), json!(uid));
    meta.insert("creationTimestamp".into(), json!(now));
    if generation {
        meta.insert("generation".into(), json!(1));
    }
}
