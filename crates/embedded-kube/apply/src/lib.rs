//! How a write changes an object, and who owns what afterwards.
//!
//! Four ways to say "change this" reach the API server: JSON patch and merge patch ([`json`]), strategic
//! merge patch ([`strategic`]) and server-side apply ([`managed::apply`]). All of them, and plain updates,
//! leave a trace in `metadata.managedFields` ([`managed::update`]), which clients read, rewrite and base
//! later writes on; so the trace is part of the contract and not a decoration.
//!
//! [`fieldset`] is the vocabulary (sets of field paths), [`typed`] walks a value under its schema in those
//! terms, [`managed`] keeps the books. Everything here is a pure function of its arguments: time enters as a
//! string, conversion between versions as a trait.

pub mod fieldset;
pub mod json;
pub mod managed;
pub mod strategic;
pub mod typed;

pub use fieldset::{Element, Path, Set};
pub use managed::{Applied, ApplyError, Conflict, SingleType, Types, Writer, apply, conflict_status, update};
