//! Typed operations: one handle, a row of data per type.
//!
//! [`Arm`] does get, put, patch, delete, list and actions for any [`ArmType`]; a type is its name, where it lives, its
//! api-version and its struct (`types.rs`). Adding one is adding a row. What has no place in a resource id
//! (providers, permissions, the list of all resources) is in `scopes.rs`.

mod compute;
mod deployments;
mod handle;
mod pages;
mod registry;
mod scopes;
mod storage;
mod types;
mod vault;

pub use compute::BootDiagnostics;
pub use deployments::{WhatIf, WhatIfChange};
pub(crate) use handle::absent;
pub use handle::{Arm, Condition, Deleted};
pub use registry::{ImageImport, ImportFrom, RegistryLogin, RegistryPassword};
pub use scopes::Health;
pub use storage::StorageKey;
pub use types::*;

use arm::{ApiVersion, IdError, ResourceId};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Where resources of a type live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Resource groups themselves.
    Subscription,
    Group,
    /// Below another resource.
    Child,
    /// Attached to any scope.
    Extension,
}

/// What the client knows about a type.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// `Microsoft.Network/virtualNetworks`.
    pub kind: &'static str,
    pub api_version: &'static str,
    pub place: Place,
    /// Where in a body things are that are never shown again; a plan cannot compare them.
    pub write_only: &'static [&'static str],
}

impl Row {
    pub fn version(&self) -> Option<ApiVersion> {
        self.api_version.parse().ok()
    }

    fn namespace(&self) -> &'static str {
        self.kind.split('/').next().unwrap_or_default()
    }

    /// What a collection of them is called.
    fn last(&self) -> &'static str {
        self.kind.rsplit('/').next().unwrap_or_default()
    }

    /// The id of one: `scope` is the subscription, group, parent or whatever it attaches to.
    pub fn id(&self, scope: &ResourceId, name: &str) -> Result<ResourceId, IdError> {
        match self.place {
            Place::Subscription => ResourceId::group_scope(scope.subscription().unwrap_or_default(), name),
            Place::Child => scope.child(self.last(), name),
            Place::Group | Place::Extension => scope.provider(self.namespace(), self.last(), name),
        }
    }

    /// The path that lists them within a scope.
    pub fn collection(&self, scope: &ResourceId) -> String {
        match self.place {
            Place::Subscription | Place::Child => format!("{scope}/{}", self.last()),
            Place::Group | Place::Extension => {
                format!("{scope}/providers/{}/{}", self.namespace(), self.last())
            }
        }
    }

    /// The row of a type, by the id of a resource.
    pub fn of(id: &ResourceId) -> Option<&'static Row> {
        let kind = id.resource_type();
        TYPES.iter().find(|r| kind.is(r.kind))
    }
}

/// A resource type.
pub trait ArmType: Send + Sync + 'static {
    type Body: Serialize + DeserializeOwned + Send + Sync + 'static;
    const ROW: Row;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sound_and_make_ids_of_their_type() {
        let mut kinds = std::collections::BTreeSet::new();
        for row in TYPES {
            assert!(row.version().is_some(), "{}", row.kind);
            assert!(kinds.insert(row.kind.to_lowercase()), "{} twice", row.kind);
            let group = ResourceId::group_scope("s", "g").unwrap();
            let depth = row.kind.split('/').count();
            assert_eq!(row.place == Place::Child, depth > 2, "{}", row.kind);
            let scope = if row.place == Place::Child {
                let parent = row.kind.rsplit_once('/').unwrap().0;
                let parent = TYPES
                    .iter()
                    .find(|r| r.kind == parent)
                    .unwrap_or_else(|| panic!("parent of {}", row.kind));
                // A grandchild's parent has one of its own.
                let above = match parent.place == Place::Child {
                    true => TYPES
                        .iter()
                        .find(|r| r.kind == parent.kind.rsplit_once('/').unwrap().0)
                        .unwrap_or_else(|| panic!("parent of {}", parent.kind))
                        .id(&group, "a")
                        .unwrap(),
                    false => group,
                };
                parent.id(&above, "p").unwrap()
            } else {
                group
            };
            let id = row.id(&scope, "n").unwrap();
            assert!(id.resource_type().is(row.kind), "{id} is not a {}", row.kind);
            assert_eq!(Row::of(&id).unwrap().kind, row.kind);
            let list = row.collection(&scope);
            assert!(
                id.as_str().starts_with(&format!("{list}/")) || row.place == Place::Subscription,
                "{list} {id}"
            );
        }
    }
}
