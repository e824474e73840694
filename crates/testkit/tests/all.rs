//! One test binary per crate: linking is what costs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows test functions, not the helpers beside them"
)]

mod kit {
    mod adversarial;
    mod golden;
    mod transcript;
}
