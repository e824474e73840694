//! What the server knows about built-in kinds beyond their schema.
//!
//! A schema says which fields an object may have; it does not say that a Deployment without `replicas` means one,
//! that a Service keeps its address, or which columns `kubectl get` shows. Upstream holds this in one Go type per
//! kind. Here it is plain functions over JSON values, chosen by `(group, plural)`: objects arrive as JSON, are
//! stored as JSON, and a typed detour would cost more than everything done here. Nothing in this crate does IO,
//! reads a clock or fails: shape errors are the schema's to report, so code here reads what is there, skips what
//! has another shape, and must never panic on any JSON.
//!
//! One module per question the server asks, one file per family of kinds inside it.

pub mod bootstrap;
pub mod convert;
pub mod defaults;
mod flags;
mod json;
pub mod prepare;
pub mod printers;
pub mod quota;
pub mod validate;

pub use flags::{Flags, deprecation, flags, has_generation, name_rule};
