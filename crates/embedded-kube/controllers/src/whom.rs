//! Whom a change concerns.

use crate::objects::{controller_of, text};
use ek_engine::{Delta, Keys, split};
use ek_meta::selector::LabelSelector;
use ek_server::{Access, parse};
use ek_store::TableName;
use serde_json::Value;

/// A kind of owner: where it is stored and how references name it.
#[derive(Clone, Copy)]
pub struct Owners {
    pub kind: &'static str,
    pub group: &'static str,
    pub table: fn() -> &'static TableName,
    pub selector: fn(&Value) -> Option<LabelSelector>,
}

impl Owners {
    /// The object itself, or the owner of a dependent; for a dependent without one, everybody who wants it.
    pub fn of(&self, access: &Access, delta: &Delta, keys: &mut Keys) {
        if *delta.table == **(self.table)() {
            keys.push(delta.key.clone());
            return;
        }
        let (namespace, _) = split(&delta.key);
        for entry in [&delta.previous, &delta.current].into_iter().flatten() {
            if let Some(o) = controller_of(entry)
                && o.kind == self.kind
                && o.api_version.rsplit_once('/').map_or("", |(g, _)| g) == self.group
            {
                keys.object(namespace, &o.name);
            }
        }
        let Some(current) = &delta.current else { return };
        if current.meta.deleting || controller_of(current).is_some() {
            return;
        }
        for (key, entry) in access.in_namespace((self.table)(), namespace) {
            let Some(owner) = parse(&entry) else { continue };
            let wants = |s: LabelSelector| s.matches(|k| current.meta.label(k));
            if (self.selector)(&owner).is_some_and(wants) {
                keys.push(key);
            }
        }
    }
}

/// `spec.selector` as most kinds have it. An empty one is not allowed there, so it selects nothing.
pub fn selector_of(owner: &Value) -> Option<LabelSelector> {
    crate::objects::selector(owner.pointer("/spec/selector")).filter(|s| !s.is_everything())
}

/// Whether an object was made for another one of the same name that is gone.
pub fn is_uid(owner: &Value, uid: &str) -> bool {
    text(owner, "/metadata/uid") == uid
}
