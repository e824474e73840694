//! The resource types that Zaffre works with, as structs that keep what they do not know.
//!
//! A type's struct is [`crate::Resource`] of its properties. Properties name the fields that somebody here reads or
//! writes; all others, and explicit nulls, are kept in `other` and written back. Azure adds fields weekly and
//! versions differ, so every field is optional: what a service requires, it says.
//!
//! Rejected: deriving serde with `flatten` for these; it turns an explicit null into an absence, and the error for a
//! field of a wrong kind does not name the field.

mod authorization;
mod compute;
mod dns;
mod identity;
mod network;
mod private_link;
mod registry;
mod resources;
mod storage;
mod vault;

pub use authorization::*;
pub use compute::*;
pub use dns::*;
pub use identity::*;
pub use network::*;
pub use private_link::*;
pub use registry::*;
pub use resources::*;
pub use storage::*;
pub use vault::*;

use crate::ResourceId;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Takes a field out of a map, unless it is absent or null. The error names the field.
fn take<T: DeserializeOwned>(map: &mut Map<String, Value>, name: &str) -> Result<Option<T>, String> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => {
            let value = map.shift_remove(name).unwrap_or_default();
            serde_json::from_value(value).map(Some).map_err(|e| format!("{name}: {e}"))
        }
    }
}

/// A struct of optional fields, each with its name on the wire, and `other` for the rest.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident $wire:literal : $ty:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: Option<$ty>,)*
            /// What is not named above, explicit nulls included.
            pub other: serde_json::Map<String, serde_json::Value>,
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<$name, D::Error> {
                let mut other = serde_json::Map::deserialize(d)?;
                Ok($name {
                    $($field: crate::types::take(&mut other, $wire).map_err(serde::de::Error::custom)?,)*
                    other,
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = s.serialize_map(None)?;
                $(if let Some(v) = &self.$field { map.serialize_entry($wire, v)?; })*
                for (k, v) in &self.other {
                    // A null that was read and then set is no longer null.
                    let set = false $(|| (self.$field.is_some() && k == $wire))*;
                    if !set { map.serialize_entry(k, v)?; }
                }
                map.end()
            }
        }
    )*};
}
use fields;

fields! {
    /// A reference: an object with the id of another resource.
    SubResource { id "id": ResourceId }
}

impl From<ResourceId> for SubResource {
    fn from(id: ResourceId) -> SubResource {
        SubResource { id: Some(id), ..SubResource::default() }
    }
}

#[cfg(test)]
mod tests;
