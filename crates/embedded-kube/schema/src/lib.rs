//! Schemas at work: what a custom resource definition may declare, and what its objects must then be.
//!
//! - [`structural`] decides whether an `openAPIV3Schema` is acceptable at all.
//! - [`prune`] drops what the schema does not know and [`default`] fills in what it does.
//! - [`validate`] checks values, list types, ratcheting and CEL rules, in the words of kube-apiserver.
//! - [`types`] finds the JSON a built-in kind could not be decoded from.
//! - [`cel`] is the expression language, usable beyond CRDs: admission policies, match conditions, claims.
//!
//! Everything here is pure: no clock, no IO. Compiled artefacts are immutable and meant to be built once per
//! CRD version and shared.

pub mod cel;
pub mod default;
pub mod formats;
pub mod prune;
pub mod structural;
pub mod types;
pub mod validate;

pub use default::default;
pub use prune::prune;
pub use types::{TypeMismatch, check_types};
pub use validate::Validator;
