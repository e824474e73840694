//! The self-managed road: install, and clusters on a management cluster of one's own.

use super::Format;
use super::prereqs::{Account, How};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Which management cluster.
#[derive(Debug, Args)]
pub struct Management {
    /// Kubeconfig of the management cluster; by default KUBECONFIG, the cluster of this pod, or ~/.kube/config
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
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
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
    /// How long the namespace may take to go
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = self_managed::flags::duration)]
    pub timeout: String,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
}

/// Where streams of releases are looked up.
#[derive(Debug, Args)]
pub struct Source {
    /// Where --release-stream is looked up: a release controller ({arch} is filled in), or oci://HOST/REPOSITORY, whose tags are taken
    #[arg(long, value_name = "URL", env = "ZAFFRE_RELEASE_SOURCE", hide_env_values = true, default_value = self_managed::stream::SOURCE)]
    pub release_source: String,
}

#[derive(Debug, Args)]
pub struct ClusterArgs {
    #[command(flatten)]
    pub management: Management,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub account: Account,
    #[command(flatten)]
    pub what: self_managed::cluster::Args,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
}

#[derive(Debug, Args)]
pub struct NodepoolArgs {
    #[command(flatten)]
    pub management: Management,
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub what: self_managed::nodepool::Args,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
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
    /// Lead private clusters through `kubectl port-forward` on this machine, and say with which command
    #[arg(long)]
    pub port_forward: bool,
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
    ///
    /// While there is a HostedCluster, it says so itself; name the group when it is gone, or when others may have its infra
    /// id in their names.
    #[arg(long, value_name = "GROUP")]
    pub resource_group_name: Option<String>,
    /// Keep the cluster's main group, delete what the cluster has in it
    #[arg(long)]
    pub preserve_resource_group: bool,
    #[command(flatten)]
    pub how: How,
}

#[derive(Debug, Args)]
pub struct VersionArgs {
    #[command(flatten)]
    pub management: Management,
    /// Print only what --version-check compares: the version that this program was built as
    #[arg(long, conflicts_with_all = ["output", "client_only"])]
    pub commit_only: bool,
    /// Ask no cluster
    #[arg(long)]
    pub client_only: bool,
    /// Namespace of the operators
    #[arg(long, value_name = "NAME", default_value = "hypershift")]
    pub namespace: String,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
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
    /// Stay, and show what changes: control plane, node pools, machines, Azure, events; q leaves
    ///
    /// Without a terminal, one line for each change.
    #[arg(short, long, conflicts_with = "output")]
    pub watch: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
}

#[derive(Debug, Subcommand)]
pub enum Upgrade {
    /// The control plane of a hosted cluster; its nodes stay
    ///
    /// Looks first: whether the release can be read and is of that version, whether the cluster objects, whether nodes would
    /// be left too far behind, whether new pods have a place. Then changes one field, spec.release.image.
    #[command(after_help = "Examples:\n  \
        zaffre upgrade cluster demo --to 4.21.0 --dry-run        what would happen; exit status 2 if anything\n  \
        zaffre upgrade cluster demo --to 4.21.0 --wait\n  \
        zaffre upgrade cluster demo --release-image quay.io/openshift-release-dev/ocp-release:4.21.0-multi")]
    Cluster(UpgradeArgs),
    /// The nodes of one pool
    ///
    /// Looks first: whether the cluster has reached that version, whether nodes can be drained (PodDisruptionBudgets), whether
    /// there is room and quota for the nodes that come. Then changes one field, spec.release.image.
    #[command(after_help = "Examples:\n  \
        zaffre upgrade nodepool demo --to 4.21.0 --dry-run\n  \
        zaffre upgrade nodepool demo --to 4.21.0 --wait --timeout 1h")]
    Nodepool(UpgradeArgs),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("wanted").required(true))]
pub struct UpgradeArgs {
    #[command(flatten)]
    pub management: Management,
    #[command(flatten)]
    pub source: Source,
    /// Name of the HostedCluster or NodePool
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Its namespace
    #[arg(short, long, value_name = "NAME", default_value = "clusters")]
    pub namespace: String,
    /// The version, found beside the release that runs: same registry, same repository
    #[arg(long, value_name = "VERSION", group = "wanted")]
    pub to: Option<apis::version::Version>,
    /// The release, by its image
    #[arg(long, value_name = "IMAGE", group = "wanted")]
    pub release_image: Option<String>,
    /// The newest release of this stream, such as 4-stable-multi
    #[arg(long, value_name = "STREAM", group = "wanted")]
    pub release_stream: Option<String>,
    /// Show what would happen, change nothing; exit status 2 if there is anything to do
    #[arg(long)]
    pub dry_run: bool,
    /// Go on although a check refuses; what can never work is refused all the same
    #[arg(long)]
    pub force: bool,
    /// Wait until it is rolled out
    #[arg(long)]
    pub wait: bool,
    /// How long --wait waits
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = self_managed::flags::duration, requires = "wait")]
    pub timeout: String,
    /// A plan for people, or the same for programs
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
}

#[derive(Debug, Subcommand)]
pub enum Dump {
    /// A hosted cluster: its objects, events and logs in the management cluster, and the guest if asked for
    ///
    /// What cannot be read is noted and does not end the rest. Values of Secrets are never written.
    #[command(after_help = "Examples:\n  \
        zaffre dump cluster --name demo --artifact-dir demo-dump\n  \
        zaffre dump cluster --name demo --artifact-dir demo-dump --dump-guest-cluster")]
    Cluster(DumpArgs),
}

#[derive(Debug, Args)]
pub struct DumpArgs {
    #[command(flatten)]
    pub management: Management,
    /// Name of the HostedCluster; what is left of one is dumped, too
    #[arg(long, value_name = "NAME", default_value = "example")]
    pub name: String,
    /// Its namespace
    #[arg(long, value_name = "NAME", default_value = "clusters")]
    pub namespace: String,
    /// Namespace of the operators
    #[arg(long, value_name = "NAME", default_value = "hypershift")]
    pub operator_namespace: String,
    /// Directory to write into; made if it is not there
    #[arg(long, value_name = "DIR")]
    pub artifact_dir: PathBuf,
    /// Read as this user (impersonation)
    #[arg(long = "as", value_name = "USER")]
    pub impersonate: Option<String>,
    /// Also write hypershift-dump.tar.gz
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub archive_dump: bool,
    /// Also the guest: its objects, and logs of its system's pods
    #[arg(long)]
    pub dump_guest_cluster: bool,
    /// The same, through the Service of its API server in place of its public address: where Services are reached, as in a pod
    #[arg(long, conflicts_with = "dump_guest_cluster")]
    pub dump_guest_cluster_through_kube_service: bool,
    /// Accepted for scripts; Azure has no agents
    #[arg(long, value_name = "NAME", hide = true)]
    pub agent_namespace: Option<String>,
    /// At most this much of each log
    #[arg(long, value_name = "MIB", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub log_limit_mib: u16,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
}
