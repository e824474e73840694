//! The vocabulary of the Kubernetes API: kinds and resources, `Status` errors, field errors, selectors,
//! names, times, quantities, and the schema node that pruning, defaulting, validation, strategic merge and
//! server-side apply all walk.
//!
//! Nothing here does IO, reads a clock or knows HTTP. Every other embedded-kube crate may depend on it; it
//! depends on none of them.

pub mod field;
pub mod gvk;
pub mod names;
pub mod object;
pub mod quantity;
pub mod schema;
pub mod selector;
pub mod status;
pub mod time;

pub use field::{FieldError, FieldPath};
pub use gvk::{GroupVersion, Gvk, Gvr};
pub use schema::{Additional, Definitions, ListType, MapType, Node, Schema, SchemaType};
pub use status::{Cause, Reason, Status};
