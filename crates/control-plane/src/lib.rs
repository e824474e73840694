//! The control plane of a hosted cluster, as a function of facts.
//!
//! A control plane is some forty components in one namespace of a management cluster. Each is **data**: a workload and
//! objects as plain YAML (`assets/<component>/`), and one row of [`table`] that says when it is wanted, what it waits
//! for, how many there are, how it reaches the guest's network and which Azure identity it needs. Code adapts only what
//! depends on the cluster.
//!
//! ```text
//! Scope (facts of one cluster) ─┐
//! table + assets ───────────────┼─> render ─> objects of each component
//! Materials (what is mounted) ──┘      words, adaptation, injections, pod defaults, config hash
//! ```
//!
//! Rendering is pure: the same facts give the same objects, byte for byte, which is what the golden files hold us to.
//! Facts are validated where they are made; here they are taken as true.
//!
//! * [`scope`]: the facts; [`facts`]: how they are read from a HostedControlPlane. [`words`]: the few of them that assets may name, as `{{word}}`.
//! * [`component`], [`table`]: what a component is, and all of them.
//! * [`inject`]: sidecars and credentials that several components share: konnectivity, token minter, vault mounts, probers.
//! * [`defaults`]: what every pod of a control plane has in common.
//! * [`config`]: configuration files that the programs read.
//! * [`publish`]: the Services and Routes everything is reached by. [`links`]: the private ways to them.
//! * [`encryption`]: how the key of data at rest is changed.
//! * [`certificates`]: which authorities, certificates, bundles and kubeconfigs there are.
//!
//! * [`etcd`]: snapshots and lost members. [`azure_checks`]: what Azure says of a cluster.
//! * [`operate`]: the controller that keeps all this in a management cluster. Only there a client is known.
//!
//! Rejected: a template language (a typo becomes a bad manifest; our words are a closed list and an unknown one is an
//! error), and typed manifests in Rust (four thousand lines nobody can paste into kubectl).

#![forbid(unsafe_code)]

pub mod azure_checks;
pub mod certificates;
pub mod component;
pub mod config;
pub mod defaults;
pub mod encryption;
pub mod etcd;
pub mod facts;
pub mod inject;
pub mod links;
pub mod monitoring;
mod network;
pub mod operate;
pub mod pod;
pub mod publish;
pub mod render;
pub mod scope;
pub mod table;
pub mod tls;
pub mod words;

pub use component::Component;
pub use network::policies;
pub use render::{Materials, Rendered, render};
pub use scope::Scope;

/// What keeps a control plane from being rendered.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error(
        "the release {version} has no image {key:?}, which {component} runs: use a release that has it, or name one with the annotation hypershift.openshift.io/image-overrides"
    )]
    Image { component: String, key: String, version: String },
    #[error("{place} names {word:?}, which is no word we know")]
    Word { place: String, word: String },
    #[error("{component}: {what} is missing from its manifest")]
    Manifest { component: String, what: String },
    #[error("{field} cannot be used: {why}")]
    Configuration { field: String, why: String },
}
