//! `create`, `destroy`, `plan` and `doctor`: flags named and defaulted as scripts for hosted clusters know them.

use super::road::{ClusterArgs, DestroyClusterArgs, KubeconfigArgs, NodepoolArgs};
use super::shared::{DestroyIssuerArgs, DestroyManagedArgs, ManagedArgs, OidcIssuerArgs};
use clap::{Args, Subcommand, ValueEnum};
use self_managed::cluster::Access;
use self_managed::flags::pair;
use std::path::PathBuf;

/// The platform; there is one.
#[derive(Debug, Subcommand)]
pub enum On<A: Args> {
    Azure(A),
}

impl<A: Args> On<A> {
    pub fn args(self) -> A {
        let On::Azure(args) = self;
        args
    }
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, parsed once")]
pub enum Create {
    /// A hosted cluster: its object, secrets and node pools
    #[command(subcommand)]
    Cluster(On<ClusterArgs>),
    /// One more node pool of a hosted cluster
    #[command(subcommand)]
    Nodepool(On<NodepoolArgs>),
    /// The kubeconfig of a hosted cluster, or of all of them
    Kubeconfig(KubeconfigArgs),
    /// Identities of a self-managed cluster, and the service accounts that may use them
    #[command(subcommand)]
    Iam(On<IamArgs>),
    /// Groups, network, private DNS, load balancer, and the identities' roles
    #[command(subcommand)]
    Infra(On<InfraArgs>),
    /// A public issuer of service-account tokens, and its key
    #[command(subcommand)]
    OidcIssuer(On<OidcIssuerArgs>),
    /// Key vault, applications and identities that clusters of the managed flavour share
    #[command(subcommand)]
    ManagedIdentities(On<ManagedArgs>),
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, parsed once")]
pub enum Destroy {
    /// A hosted cluster, and the infrastructure that was made for it
    #[command(subcommand)]
    Cluster(On<DestroyClusterArgs>),
    /// Identities, with their roles wherever they were given
    #[command(subcommand)]
    Iam(On<DestroyIamArgs>),
    /// Groups or what was made in yours, and roles wherever they were given
    #[command(subcommand)]
    Infra(On<DestroyInfraArgs>),
    /// The account with the public keys; key files stay
    #[command(subcommand)]
    OidcIssuer(On<DestroyIssuerArgs>),
    /// Key vault, applications and identities of the managed flavour
    #[command(subcommand)]
    ManagedIdentities(On<DestroyManagedArgs>),
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, parsed once")]
pub enum Change {
    /// What `create` would do
    #[command(subcommand)]
    Create(Create),
    /// What `destroy` would do
    #[command(subcommand)]
    Destroy(Destroy),
}

#[derive(Debug, Subcommand)]
pub enum Doctor {
    /// Account, permissions, providers, region, quota, sizes, DNS, names
    #[command(after_help = "Example:\n  \
        zaffre doctor azure --for infra --base-domain example.com --name demo --infra-id demo-x2b4c")]
    Azure(DoctorArgs),
}

// Whose Azure.
#[derive(Debug, Args)]
pub struct Account {
    /// Credentials file, YAML or JSON: subscriptionId, tenantId, clientId, clientSecret
    ///
    /// Without it the environment says who you are, as `docs/azure-client.md` has it: AZURE_* variables, a managed
    /// identity, or az login.
    #[arg(long, value_name = "FILE")]
    pub azure_creds: Option<PathBuf>,
    /// The cloud; all of its endpoints are used
    ///
    /// AzurePublicCloud, AzureUSGovernmentCloud, AzureChinaCloud, AzureGermanCloud or AzureBleuCloud; by default that
    /// of the environment (ZAFFRE_AZURE_ARM_URL, AZURE_ENVIRONMENT), else AzurePublicCloud.
    #[arg(long, value_name = "CLOUD")]
    pub cloud: Option<String>,
}

// Which cluster.
#[derive(Debug, Args)]
pub struct Which {
    /// Name of the cluster
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Infra id of the cluster: what tells its things from those of another
    #[arg(long, value_name = "ID")]
    pub infra_id: String,
}

// How to go about it.
#[derive(Debug, Args)]
pub struct How {
    /// Show what would be done, do nothing; exit status 2 if there is anything
    #[arg(long)]
    pub dry_run: bool,
    /// Text for people; json: a plan as one document, a run as one event per line; yaml: the same as YAML documents
    #[arg(short, long, value_enum, default_value_t = Shown::Text)]
    pub output: Shown,
    /// Say nothing but the result and errors
    #[arg(short, long)]
    pub quiet: bool,
    /// At most this many changes at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub parallel: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shown {
    Text,
    Json,
    Yaml,
}

/// Identities of a self-managed cluster on Azure
///
/// One identity per component, with federated credentials for its service accounts. Run again, it makes what is missing
/// and changes what differs.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
        zaffre create iam azure --name demo --infra-id demo-x2b4c --azure-creds creds.json \\\n    \
        --resource-group-name demo-identities --oidc-issuer-url https://oidc.example.com/demo \\\n    \
        --output-file workload-identities.json")]
pub struct IamArgs {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub account: Account,
    /// Group of the identities; made if it does not exist
    #[arg(long, value_name = "GROUP")]
    pub resource_group_name: String,
    /// Issuer of the cluster's service-account tokens
    #[arg(long, value_name = "URL")]
    pub oidc_issuer_url: String,
    /// Write the client ids here (JSON, mode 0600): what `create infra` and `create cluster` read
    #[arg(long, value_name = "FILE")]
    pub output_file: PathBuf,
    /// Region
    #[arg(long, default_value = "eastus", value_name = "REGION")]
    pub location: String,
    /// Also an identity for encryption of etcd with a key vault
    #[arg(long)]
    pub enable_kms: bool,
    /// Take over resources that have the right names and were not made by this command
    #[arg(long)]
    pub adopt: bool,
    #[command(flatten)]
    pub how: How,
}

/// Infrastructure of a cluster on Azure
///
/// Groups, security group, network, private DNS zone, public address, load balancer, and the identities' roles. Run
/// again, it makes what is missing and changes what differs.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
        zaffre create infra azure --name demo --infra-id demo-x2b4c --azure-creds creds.json \\\n    \
        --base-domain example.com --workload-identities-file workload-identities.json \\\n    \
        --assign-identity-roles --dns-zone-rg-name dns --output-file infra.yaml")]
pub struct InfraArgs {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub account: Account,
    /// Domain whose public zone exists in the subscription
    #[arg(long, value_name = "DOMAIN")]
    pub base_domain: String,
    /// Region
    #[arg(long, default_value = "eastus", value_name = "REGION")]
    pub location: String,
    /// An existing group of yours for everything that is made, in place of three groups
    #[arg(long, value_name = "GROUP")]
    pub resource_group_name: Option<String>,
    /// An existing network of yours; needs --subnet-id
    #[arg(long, value_name = "ID")]
    pub vnet_id: Option<String>,
    /// The subnet of the nodes in --vnet-id
    #[arg(long, value_name = "ID")]
    pub subnet_id: Option<String>,
    /// An existing network security group of yours
    #[arg(long, value_name = "ID")]
    pub network_security_group_id: Option<String>,
    /// Further tags of the groups that are made (repeatable, or separated by commas)
    #[arg(short = 't', long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = pair)]
    pub resource_group_tags: Vec<(String, String)>,
    /// Write the result here (YAML, mode 0600): what `create cluster --infra-json` reads; by default to standard output
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
    /// Control-plane identities of the managed flavour; needs --data-plane-identities-file
    #[arg(long, value_name = "FILE", requires = "data_plane_identities_file")]
    pub managed_identities_file: Option<PathBuf>,
    /// Data-plane identities of the managed flavour
    #[arg(long, value_name = "FILE", requires = "managed_identities_file")]
    pub data_plane_identities_file: Option<PathBuf>,
    /// Identities of the self-managed flavour: the output of `create iam azure`
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["managed_identities_file", "data_plane_identities_file"],
        required_unless_present = "managed_identities_file"
    )]
    pub workload_identities_file: Option<PathBuf>,
    /// Give the identities their roles; needs --dns-zone-rg-name
    #[arg(long, alias = "auto-assign-roles", requires = "dns_zone_rg_name")]
    pub assign_identity_roles: bool,
    /// The same, with custom roles for control plane operator and node pools in place of Contributor
    #[arg(long, requires = "dns_zone_rg_name")]
    pub assign_custom_hcp_roles: bool,
    /// Group of the public zone
    #[arg(long, value_name = "GROUP")]
    pub dns_zone_rg_name: Option<String>,
    /// Capabilities that the cluster does without; ImageRegistry then gets no role
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub disable_cluster_capabilities: Vec<String>,
    /// Who will reach the API server; nothing is made for it here, `create cluster azure` needs it again
    #[arg(long, value_enum, default_value_t = Access::Public, value_name = "ACCESS")]
    pub endpoint_access: Access,
    /// An existing subnet for the private link service, in the management cluster's network
    #[arg(long, value_name = "ID")]
    pub endpoint_access_private_nat_subnet_id: Option<String>,
    /// Take over resources that have the right names and were not made by this command
    #[arg(long)]
    pub adopt: bool,
    #[command(flatten)]
    pub how: How,
}

/// Take away the identities of a cluster on Azure
///
/// They are found by their mark, their roles by name at every scope. What is not marked is kept, and it is said why.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  zaffre destroy iam azure --name demo --infra-id demo-x2b4c --azure-creds creds.json"
)]
pub struct DestroyIamArgs {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub account: Account,
    /// Checked if given; what is deleted is found in Azure
    #[arg(long, value_name = "FILE")]
    pub workload_identities_file: Option<PathBuf>,
    /// Accepted for scripts; the identities are found wherever they are
    #[arg(long, value_name = "GROUP")]
    pub resource_group_name: Option<String>,
    /// Accepted for scripts; roles are found at every scope
    #[arg(long, value_name = "GROUP")]
    pub dns_zone_rg_name: Option<String>,
    #[command(flatten)]
    pub how: How,
}

/// Take away the infrastructure of a cluster on Azure
///
/// Groups, or what was made in yours, are found by their mark, roles by name at every scope. What you brought is kept,
/// and it is said why.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  zaffre destroy infra azure --name demo --infra-id demo-x2b4c --azure-creds creds.json"
)]
pub struct DestroyInfraArgs {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub account: Account,
    /// Accepted for scripts; regions are found in Azure
    #[arg(long, default_value = "eastus", value_name = "REGION")]
    pub location: String,
    /// The group of yours that `create infra` was given; it is kept
    #[arg(long, value_name = "GROUP")]
    pub resource_group_name: Option<String>,
    /// Keep the cluster's main group, delete what the cluster has in it
    #[arg(long)]
    pub preserve_resource_group: bool,
    #[command(flatten)]
    pub how: How,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub account: Account,
    /// For which commands
    #[arg(long = "for", value_enum, default_value_t = Purpose::Infra, value_name = "WHAT")]
    pub purpose: Purpose,
    /// Region
    #[arg(long, default_value = "eastus", value_name = "REGION")]
    pub location: String,
    /// Is its zone there, and does its parent lead to it?
    #[arg(long, value_name = "DOMAIN")]
    pub base_domain: Option<String>,
    /// Group of the public zone, where roles are given
    #[arg(long, value_name = "GROUP")]
    pub dns_zone_rg_name: Option<String>,
    /// Are the names of this cluster free? Needs --infra-id
    #[arg(long, value_name = "NAME", requires = "infra_id")]
    pub name: Option<String>,
    /// Infra id of the cluster
    #[arg(long, value_name = "ID", requires = "name")]
    pub infra_id: Option<String>,
    /// Name of the storage account of a token issuer: is it to be had?
    #[arg(long, value_name = "NAME")]
    pub oidc_issuer_name: Option<String>,
    /// Name of a key vault: is it to be had?
    #[arg(long, value_name = "NAME")]
    pub key_vault_name: Option<String>,
    /// Size of the nodes: is it offered here? With --for cluster or managed
    #[arg(long, default_value = "Standard_D4s_v5", value_name = "SIZE")]
    pub instance_type: String,
    /// How many nodes: do their processors fit into the quota?
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub node_pool_replicas: u64,
    /// Zones of the nodes: is the size to be had there?
    #[arg(long, value_name = "ZONE", value_delimiter = ',')]
    pub availability_zones: Vec<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Shown::Text)]
    pub output: Shown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Purpose {
    Infra,
    Iam,
    Cluster,
    Managed,
}
