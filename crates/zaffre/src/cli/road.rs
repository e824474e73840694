//! The self-managed road: install, and clusters on a management cluster of one's own.

use super::Format;
use super::prereqs::{Account, How};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Which management cluster.
#[derive(Debug, Args)]
pub struct Management {
    /// Kubeconfig of the management cluster; by default wherever kubectl would look
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct InstallArgs {
    #[command(subcommand)]
    pub how: Option<InstallHow>,
    #[command(flatten)]
    pub management: Management,
    #[command(flatten)]
    pub what: self_managed::install::Args,
    /// Which half: definitions, the rest, or both
    #[arg(long, value_enum, value_name = "PART", default_value = "all")]
    pub install_scope: self_managed::install::Scope,
    /// Wait until the operator is available (at most 5 minutes)
    #[arg(long)]
    pub wait_until_available: bool,
    /// Wait until the definitions are served (at most 5 minutes)
    #[arg(long)]
    pub wait_until_crds_established: bool,
}

#[derive(Debug, Subcommand)]
pub enum InstallHow {
    /// Print what would be installed; no cluster is asked
    #[command(after_help = "Examples:\n  \
        zaffre install render > operator.yaml\n  \
        zaffre install render --outputs crds --format json")]
    Render(RenderArgs),
    /// Write what would be installed as a chart; no cluster is asked
    #[command(
        after_help = "Example:\n  zaffre install helm --output-dir ./chart && helm install hypershift ./chart"
    )]
    Helm(HelmArgs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TextFormat {
    Yaml,
    Json,
}

#[derive(Debug, Args)]
pub struct RenderArgs {
    /// YAML documents, or JSON (several objects are one List)
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = TextFormat::Yaml)]
    pub format: TextFormat,
    /// Which half: definitions, the rest, or both
    #[arg(long, value_enum, value_name = "PART")]
    pub outputs: Option<self_managed::install::Scope>,
    /// An OpenShift Template with parameters in place of objects; needs --render-sensitive
    #[arg(long)]
    pub template: bool,
    /// Write here in place of standard output
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
    /// Render secrets as well
    #[arg(long)]
    pub render_sensitive: bool,
}

#[derive(Debug, Args)]
pub struct HelmArgs {
    /// Directory of the chart
    #[arg(long, value_name = "DIR", default_value = "./chart")]
    pub output_dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct UninstallArgs {
    #[command(flatten)]
    pub management: Management,
    /// Namespace of the operators
    #[arg(long, value_name = "NAME", default_value = "hypershift")]
    pub namespace: String,
    /// Also the definitions, and with them every object of these kinds; refused while there are clusters
    #[arg(long)]
    pub crds: bool,
}

#[derive(Debug, Args)]
pub struct ClusterArgs {
    #[command(flatten)]
    pub management: Management,
    #[command(flatten)]
    pub account: Account,
    #[command(flatten)]
    pub what: self_managed::cluster::Args,
}

#[derive(Debug, Args)]
pub struct NodepoolArgs {
    #[command(flatten)]
    pub management: Management,
    #[command(flatten)]
    pub what: self_managed::nodepool::Args,
}

/// The kubeconfig of a hosted cluster, or of all of them
///
/// With --name the cluster's admin kubeconfig as it is; without, one file with a context for every cluster of the
/// namespace, named NAMESPACE-CLUSTER.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zaffre create kubeconfig --name demo > demo.kubeconfig")]
pub struct KubeconfigArgs {
    #[command(flatten)]
    pub management: Management,
    /// The cluster
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Its namespace
    #[arg(long, value_name = "NAME", default_value = "clusters")]
    pub namespace: String,
}

/// A hosted cluster, and what was made for it in Azure
///
/// Deletes the HostedCluster and waits until all of it is gone, then takes away the infrastructure that was made for it.
/// Identities stay: `zaffre destroy iam azure` takes those away. Run again, it goes on where it stopped.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zaffre destroy cluster azure --name demo --azure-creds creds.json")]
pub struct DestroyClusterArgs {
    #[command(flatten)]
    pub management: Management,
    #[command(flatten)]
    pub account: Account,
    /// The cluster
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Its namespace
    #[arg(long, value_name = "NAME", default_value = "clusters")]
    pub namespace: String,
    /// Its infra id; needed only when the HostedCluster is gone already
    #[arg(long, value_name = "ID")]
    pub infra_id: Option<String>,
    /// How long the cluster itself may take; 10m by default, 20m if it is private
    #[arg(long, value_name = "DURATION", value_parser = self_managed::flags::duration)]
    pub cluster_grace_period: Option<String>,
    /// Let the cluster take away what it made in Azure: load balancers, disks
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub destroy_cloud_resources: bool,
    /// Take finalizers off when the time is over, and say what may be left
    #[arg(long)]
    pub force: bool,
    /// Accepted for scripts; roles are found at every scope
    #[arg(long, value_name = "GROUP")]
    pub dns_zone_rg_name: Option<String>,
    /// Accepted for scripts; regions are found in Azure
    #[arg(long, value_name = "REGION")]
    pub location: Option<String>,
    /// The group of yours that the infrastructure was made in; it is kept
    #[arg(long, value_name = "GROUP")]
    pub resource_group_name: Option<String>,
    /// Keep the cluster's main group, delete what the cluster has in it
    #[arg(long)]
    pub preserve_resource_group: bool,
    #[command(flatten)]
    pub how: How,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub management: Management,
    /// One cluster; all by default
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Its namespace; all by default
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
}
