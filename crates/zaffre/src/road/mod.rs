//! The self-managed road: flags become objects in `self-managed`, and objects are printed or applied here.

mod again;
mod apply;
mod cluster;
mod destroy;
mod dump;
mod inputs;
mod install;
mod kubeconfig;
mod nodepool;
pub mod releases;
mod shown;
mod ssh;
mod status;
mod upgrade;
mod version;
mod watch;

pub use cluster::create as create_cluster;
pub use destroy::destroy as destroy_cluster;
pub use dump::dump;
pub use install::{install, uninstall};
pub use kubeconfig::create as create_kubeconfig;
pub use nodepool::create as create_nodepool;
pub use status::status;
pub use upgrade::upgrade;
pub use version::version;

use crate::cli::road::Management;
use crate::reach::{self, Otherwise};
use kube::Client;

async fn reach(management: &Management) -> anyhow::Result<Client> {
    reach::cluster(management.kubeconfig.as_deref(), "--kubeconfig", Otherwise::Anywhere).await
}

/// As somebody else, if one is named.
async fn reach_as(management: &Management, user: Option<&str>) -> anyhow::Result<Client> {
    let kubeconfig = management.kubeconfig.as_deref();
    reach::cluster_as(kubeconfig, "--kubeconfig", Otherwise::Anywhere, user).await
}
