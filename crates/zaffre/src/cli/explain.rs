//! Flags of `zaffre explain`.

use super::Format;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum Explain {
    /// A hosted cluster, from its spec to its nodes
    ///
    /// A tree of what the cluster consists of: ✓ is ready, … goes on by itself, ✗ needs somebody, ? is not known. Reads any
    /// management cluster; needs no more than to read HostedClusters, HostedControlPlanes, ControlPlaneComponents and
    /// NodePools.
    #[command(
        visible_alias = "hc",
        after_help = "Examples:\n  \
            zaffre explain hostedcluster demo -n clusters\n  \
            zaffre explain hostedcluster demo -n clusters --all          what is ready too\n  \
            zaffre explain hostedcluster demo -n clusters -o json | jq '.parts[] | select(.state == \"blocked\")'"
    )]
    Hostedcluster(HostedClusterArgs),
}

#[derive(Debug, Args)]
pub struct HostedClusterArgs {
    /// Name of the HostedCluster
    pub name: String,
    /// Its namespace
    #[arg(short, long, default_value = "clusters", value_name = "NAMESPACE")]
    pub namespace: String,
    /// How to reach the management cluster; KUBECONFIG, the service account or ~/.kube/config if not given
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Take apart what is ready, too
    #[arg(short, long)]
    pub all: bool,
    /// A tree for people, or the same for programs
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
}
