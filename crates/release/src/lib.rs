//! Release payloads: which images an OpenShift version consists of.
//!
//! A release is a container image. Two files in it say everything we need: `image-references`, an ImageStream with one
//! tag per component, and the boot images of its nodes. [`Releases`] fetches them through a registry, once per digest
//! however many clusters ask, and keeps the answer: a digest never changes its mind.
//!
//! ```text
//! image ─> Releases ─> manifest ─> layers, the last first ─> two files ─> Payload
//!                        │ digest                              (bounded, never unpacked to disk)
//!                        └─> kept
//! ```
//!
//! [`make`] goes the other way and builds a release image, which is how the embedded world gets its own and how mirrors
//! are tested.

#![forbid(unsafe_code)]

mod archive;
mod lookup;
pub mod make;
mod payload;

pub use lookup::{Error, Releases};
pub use payload::{BootImages, Marketplace, Payload, PayloadError};
