//! Certificates as plans: what a cluster's PKI holds, what must be issued, and when an authority may be replaced.
//!
//! Everything here is a pure function of what is stored, what is wanted and the time; nothing is read or written.
//! Whoever keeps certificates (the control plane, in Secrets) asks [`Leaf::assess`] about each one and issues what
//! comes back as [`Verdict::Issue`], and asks [`rotation::next`] about each authority.
//!
//! ```text
//! wanted Leaf ─┐
//! stored Pair ─┼─> assess ─> Keep { until } | Issue(why) ─> Authority::issue ─> Pair
//! issuer, now ─┘
//! ```
//!
//! * A leaf is issued again when it runs out, when its names, subject, usages or life differ from what is wanted,
//!   when its key does not fit, **and when its issuer is another one**: a new authority with old leaves is a cluster
//!   that trusts nobody.
//! * An authority is replaced in steps that overlap ([`rotation`]): the new one is trusted everywhere before it signs,
//!   the old one until nothing it signed is left.
//! * Keys are P-256: a control plane has some fifty, and as many RSA keys take seconds of a core to make. What must
//!   be RSA (the service-account signer) says so ([`KeyKind`]).

#![forbid(unsafe_code)]

mod authority;
mod kubeconfig;
mod leaf;
mod pair;
mod request;
pub mod rotation;

pub use authority::{Authority, signed};
pub use kubeconfig::{Access, kubeconfig};
pub use leaf::{Leaf, Usage, Verdict, Why};
pub use pair::{Bundle, Facts, KeyKind, Pair, Private};
pub use request::Request;

/// What can go wrong with a certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action}")]
    Make { action: &'static str, source: rcgen::Error },
    #[error("cannot read {what}: {why}")]
    Read { what: &'static str, why: String },
    #[error("{name:?} cannot stand in a certificate as a DNS name")]
    Name { name: String, source: rcgen::Error },
}

fn failed(action: &'static str) -> impl FnOnce(rcgen::Error) -> Error {
    move |source| Error::Make { action, source }
}
