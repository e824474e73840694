//! Small programs that stand beside others in a control plane's pods.
//!
//! * [`minter`]: keeps a token of a guest's service account fresh in a file. What Azure exchanges for its own tokens,
//!   and what programs show to the guest's API where no kubeconfig is mounted.
//! * [`prober`]: waits until the guest's API serves what the next container needs, then ends.
//!
//! Both are libraries: `zaffre serve token-minter` runs one on a machine, the embedded node runtime runs hundreds in
//! one process. What differs between the two is a [`Place`]: where a path of the container is, where a host name leads,
//! who the pod is, where lines of the log go. What must not differ (flags, behaviour, exit codes) is here.
//!
//! A client is made for each attempt, from the kubeconfig as it is then. Attempts are rare (a renewal per hour, a look
//! per second for as long as a start takes), and in return rotated certificates and moved endpoints need no watching.
//!
//! This crate may touch the token's file, the kubeconfig, and the API servers they name. It does not know Azure.

mod connect;
mod file;
pub mod minter;
mod place;
pub mod prober;
mod words;

pub use connect::{ConnectError, KubeconfigFrom, client_by_text};
pub use file::FileError;
pub use place::{Machine, Place, Timing};
pub use words::{UsageError, parse};

/// An error with what caused it, for a line of a log.
pub fn chain(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut source = e.source();
    while let Some(s) = source {
        let boxed = s.downcast_ref::<Box<kube::Error>>().map(|b| &**b);
        let more = match boxed.or_else(|| s.downcast_ref()) {
            // Its own words are those of a debugger.
            Some(kube::Error::Api(status)) => status.message.clone(),
            _ => s.to_string(),
        };
        // Some of the errors we pass on repeat what caused them.
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = s.source();
    }
    text
}
