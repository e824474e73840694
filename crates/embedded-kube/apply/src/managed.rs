//! Who owns which field: `metadata.managedFields`.
//!
//! Every write passes through here. A plain write ([`update`]) takes what it changed from everyone else. An
//! apply ([`apply`]) states the whole of what its manager wants: it may not take from others without force,
//! shares fields whose value it agrees on, and gives up (and, if nobody else holds them, removes) the fields
//! it no longer mentions. Both are written so that saying the same thing twice changes no byte, because a
//! byte changed is an event, and an event wakes every controller that watches.

mod apply;
mod conflict;
mod entries;
mod last_applied;
mod scale;
mod update;

pub use apply::{Applied, ApplyError, apply, group_version};
pub use conflict::{Conflict, conflict_message, conflict_status};
pub use entries::{DecodeError, ManagedEntry, Managers, Operation};
pub use last_applied::LAST_APPLIED;
pub use scale::{parent_to_scale, scale_to_parent};
pub use update::{create, update};

use crate::fieldset::Set;
use ek_meta::Node;
use serde_json::Value;
use std::sync::LazyLock;

/// Who writes, through which door, and when.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    pub manager: &'a str,
    /// Empty for the main endpoint.
    pub subresource: &'a str,
    /// The version of the request, in which the object is given.
    pub api_version: &'a str,
    /// RFC 3339, UTC, whole seconds.
    pub now: &'a str,
}

/// The versions of a kind. Sets are kept in the version they were written in, so a write in one version
/// must be weighed against sets in others.
pub trait Types {
    fn node(&self, api_version: &str) -> Option<Node<'_>>;

    /// The object in another version; `None` if that version no longer exists.
    fn convert(&self, object: &Value, api_version: &str) -> Option<Value>;
}

/// A kind whose versions differ in name only: every built-in kind here, and CRDs without conversion.
#[derive(Clone, Copy, Debug)]
pub struct SingleType<'a>(pub Option<Node<'a>>);

impl Types for SingleType<'_> {
    fn node(&self, _: &str) -> Option<Node<'_>> {
        self.0
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let mut object = object.clone();
        if let Some(v) = object.get_mut("apiVersion") {
            *v = api_version.into();
        }
        Some(object)
    }
}

/// Fields the server owns or that identify the object: nobody is recorded as their manager.
static STRIPPED: LazyLock<Set> = LazyLock::new(|| {
    Set::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// The books themselves, which no comparison of objects looks at.
static BOOKS: LazyLock<Set> = LazyLock::new(|| Set::of_fields(&[&["metadata", "managedFields"]]));

/// What of `set` may be recorded for a writer behind an endpoint that ignores `reset`.
fn recordable(mut set: Set, reset: &Set) -> Set {
    set.subtract(&STRIPPED, false);
    set.subtract(reset, true);
    set
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata").and_then(|m| m.get("managedFields"))
}

fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata").and_then(Value::as_object_mut).and_then(|m| m.shift_remove("managedFields"))
}

fn put_managed_fields(object: &mut Value, fields: Option<Value>) {
    if let Some(fields) = fields {
        ek_meta::object::metadata_mut(object).insert("managedFields".to_owned(), fields);
    }
}
