//! A version operator for guests of the embedded world.
//!
//! The real cluster-version operator applies hundreds of manifests of a payload and watches the operators they start.
//! Here nothing starts them, so this stands in for both: it drives ClusterVersion `version` through a release as the
//! real one does (desired, history from Partial to Completed, conditions), and reports ClusterOperators in place of
//! operators that do not run. **It is not for production**, where the payload's own image runs.
//!
//! What is real: the order of levels; that parts on nodes are available only with a ready node; that a part which
//! somebody really reports (another field manager wrote its conditions or version) is believed and waited for; that an
//! operator which complains makes the cluster Failing, and one that objects makes it not Upgradeable; overrides and
//! capabilities. What is not: manifests of the payload, signatures, update services, retries that take forty minutes.
//!
//! [`plan`](plan::plan) is pure; [`start`] runs it on a guest. An instance watches ClusterVersion, ClusterOperators and
//! nodes, and holds a few kilobytes.

#![forbid(unsafe_code)]

pub mod look;
pub mod operate;
pub mod operators;
pub mod plan;

pub use operate::{Args, Around, MANAGER, run, start};

use std::collections::BTreeSet;

/// What is known of the release that the control plane runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    pub version: String,
    pub image: String,
    /// Keys of its images.
    pub components: BTreeSet<String>,
}

impl Payload {
    pub fn new(image: &str, release: &release::Payload) -> Payload {
        Payload {
            version: release.version.clone(),
            image: image.to_owned(),
            components: release.images.keys().cloned().collect(),
        }
    }
}
