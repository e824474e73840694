//! What the operator must be told about the world around it.

use crate::preflight::Preflight;
use apis::hypershift::HostedCluster;
use apis::hypershift::status::PayloadArch;
use control_plane::scope::{Release, Settings};
use futures::future::BoxFuture;
use std::sync::Arc;

/// A release, looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub release: Release,
    /// For which processors; nothing if its image does not say, which makes it one that no cluster may run.
    pub arch: Option<PayloadArch>,
    /// What machines of this release boot from.
    pub boot: Arc<[BootImage]>,
}

/// An image of the marketplace that a release names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootImage {
    /// `x86_64` or `aarch64`.
    pub arch: String,
    /// Of virtual hardware; the second otherwise.
    pub first_generation: bool,
    pub publisher: String,
    pub offer: String,
    pub sku: String,
    pub version: String,
}

/// Why there is no release. The texts are for users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRelease {
    /// There is none, or it is none, and asking again will not help.
    #[error("{0}")]
    Invalid(String),
    /// Nobody could say.
    #[error("{0}")]
    Unreachable(String),
}

/// The management cluster.
#[derive(Clone, Copy, Debug)]
pub struct Management {
    /// OpenShift picks user ids itself.
    pub openshift: bool,
    /// Minor version of its Kubernetes.
    pub minor: u32,
    /// It serves Routes.
    pub routes: bool,
}

/// Who keeps machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Machinery {
    /// Our own controllers, in the place of Cluster API's and its provider's.
    #[default]
    Builtin,
    /// Cluster API and its provider for Azure, out of the release.
    External,
}

/// See the module.
pub trait Surroundings: Send + Sync + 'static {
    /// The release that an image is. `pull_secret` is a docker configuration.
    fn release<'a>(
        &'a self,
        hc: &'a HostedCluster,
        image: &'a str,
        pull_secret: &'a [u8],
    ) -> BoxFuture<'a, Result<Payload, NoRelease>>;

    fn management(&self) -> Management;

    /// Client id of the identity that reads vaults.
    fn vault_reader(&self) -> String;

    /// Where the operator itself lives: trusted CAs are copied from there, `supported-versions` is written there.
    fn home(&self) -> String;

    fn machinery(&self) -> Machinery {
        Machinery::default()
    }

    /// Whether clusters are sorted by size, as [`crate::sizing`] has it.
    fn sizing(&self) -> bool {
        false
    }

    /// Whether the platform's Prometheus looks at control planes too, not at the operator alone.
    fn monitored(&self) -> bool {
        false
    }

    /// Image of the router that is shared by public clusters of the managed flavour. None: there is no such router, and
    /// Routes lead to the management cluster's own.
    fn shared_ingress(&self) -> Option<String> {
        None
    }

    /// Networks (CIDRs) that routers of control planes must not reach.
    fn blocked(&self) -> Vec<String> {
        Vec::new()
    }

    /// What whoever installed this chose for every control plane.
    fn settings(&self) -> Settings {
        Settings::default()
    }

    /// Whether nodes will find this name. Machines that ask too early remember for minutes that there is none.
    fn resolves<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async { true })
    }

    /// Who is asked what sizes of machines there are. Whoever checks clusters, unless there is an account for it alone.
    fn catalogue(&self) -> Option<Arc<dyn Preflight>> {
        self.preflight()
    }

    /// What Azure is asked before anything is made. None: nothing is asked, and conditions say so.
    fn preflight(&self) -> Option<Arc<dyn Preflight>>;
}
