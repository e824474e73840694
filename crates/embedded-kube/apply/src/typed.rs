//! Values under a schema, seen as sets of paths.
//!
//! The schema decides what one path is: a field of a granular map, an item of an associative list by its
//! keys, an item of a set by its value, or an atomic whole. Everything else in server-side apply is set
//! algebra on top of the four walks here: which paths a value sets, how two values differ, how one value is
//! laid over another, and how paths are cut out.
//!
//! Where no schema is known (`None`, preserved unknown fields, raw extensions) maps are granular and lists
//! atomic: the only reading that loses nothing. Live objects may break the rules of their own schema
//! (duplicate list keys from before a schema change); the walks stay total on them. What a client applies is
//! held to the rules by [`check`].

mod check;
mod diff;
mod merge;
mod paths;
mod prune;
mod shape;

pub use check::check;
pub use diff::{Diff, compare};
pub use merge::merge;
pub use paths::to_fieldset;
pub use prune::{extract, remove_items};

pub(crate) use merge::{covers, merge_into};
pub(crate) use paths::{read, with_named_fields};

#[cfg(test)]
pub(crate) mod fixture;
