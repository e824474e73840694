//! The flags.

use crate::flags::{cidr, duration, pair, toleration};
use crate::nodepool::{Arch, Machines, UpgradeType};
use clap::{Args as ClapArgs, ValueEnum};
use serde_json::Value;
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Availability {
    SingleReplica,
    HighlyAvailable,
}

impl Availability {
    pub fn as_str(self) -> &'static str {
        match self {
            Availability::SingleReplica => "SingleReplica",
            Availability::HighlyAvailable => "HighlyAvailable",
        }
    }
}

/// From where the cluster's API is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Access {
    Public,
    PublicAndPrivate,
    Private,
}

impl Access {
    pub fn as_str(self) -> &'static str {
        match self {
            Access::Public => "Public",
            Access::PublicAndPrivate => "PublicAndPrivate",
            Access::Private => "Private",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum OAuth {
    Route,
    LoadBalancer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Placement {
    Management,
    Guest,
}

/// A hosted cluster on Azure
///
/// Reads what `create infra azure` and `create iam azure` wrote (--infra-json), writes a HostedCluster, the secrets it
/// names and its node pools into the management cluster. Without --infra-json the infrastructure is made first. With
/// --render the objects are printed, and neither Azure nor a cluster is asked.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
        zaffre create cluster azure --name demo --infra-json infra.yaml --azure-creds creds.json \\\n    \
        --pull-secret pull-secret.json --release-image \"$ZAFFRE_RELEASE\" \\\n    \
        --oidc-issuer-url \"$(cat oidc/issuer-url)\" \\\n    \
        --sa-token-issuer-private-key-path oidc/serviceaccount-signer.private --node-pool-replicas 2\n  \
        zaffre create cluster azure ... --render --render-sensitive > cluster.yaml")]
pub struct Args {
    /// Name of the cluster
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Namespace of the HostedCluster; made if it does not exist
    #[arg(long, value_name = "NAME", default_value = "clusters")]
    pub namespace: String,
    /// What `create infra azure` wrote
    #[arg(long, value_name = "FILE")]
    pub infra_json: Option<PathBuf>,
    /// Infra id; by default made from the name
    #[arg(long, value_name = "ID")]
    pub infra_id: Option<String>,
    /// Domain under which the cluster's names are; a zone of it must be in Azure DNS
    #[arg(long, value_name = "DOMAIN")]
    pub base_domain: Option<String>,
    /// Accepted for scripts; names on Azure have no prefix of their own
    #[arg(long, value_name = "PREFIX", hide = true)]
    pub base_domain_prefix: Option<String>,
    /// Publish endpoints under this domain, by external-dns
    #[arg(long, value_name = "DOMAIN")]
    pub external_dns_domain: Option<String>,
    /// Credentials for registries (JSON, as docker and podman have it)
    #[arg(long, value_name = "FILE")]
    pub pull_secret: PathBuf,
    /// Release of the cluster
    #[arg(long, value_name = "IMAGE")]
    pub release_image: Option<String>,
    /// Take the newest release of this stream, such as 4-stable-multi
    #[arg(long, value_name = "STREAM")]
    pub release_stream: Option<String>,
    /// Copies of the control plane
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = Availability::SingleReplica)]
    pub control_plane_availability_policy: Availability,
    /// Copies of what runs on the cluster's nodes for the cluster itself
    #[arg(long, value_enum, value_name = "POLICY")]
    pub infra_availability_policy: Option<Availability>,

    /// Print the objects, change nothing
    #[arg(long)]
    pub render: bool,
    /// The same, because `plan` was asked for.
    #[arg(skip)]
    pub planned: bool,
    /// Write the objects to this file, change nothing
    #[arg(long, value_name = "FILE")]
    pub render_into: Option<PathBuf>,
    /// Render secrets as well
    #[arg(long)]
    pub render_sensitive: bool,
    /// Wait until the cluster is rolled out
    #[arg(long)]
    pub wait: bool,
    /// How long to wait: 30m by default, 0 for as long as it takes
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<String>,
    /// Refuse a management cluster whose operator is of another version
    #[arg(long)]
    pub version_check: bool,

    /// Public key that may log in to nodes
    #[arg(long, value_name = "FILE")]
    pub ssh_key: Option<PathBuf>,
    /// Make a key that may log in to nodes
    #[arg(long)]
    pub generate_ssh: bool,
    /// Authorities that the cluster trusts besides the usual ones (PEM)
    #[arg(long, value_name = "FILE")]
    pub additional_trust_bundle: Option<PathBuf>,
    /// Mirrors of images: a YAML list of {source, mirrors}
    #[arg(long, value_name = "FILE")]
    pub image_content_sources: Option<PathBuf>,

    /// Annotation of the HostedCluster (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub annotations: Vec<(String, String)>,
    /// Label of the HostedCluster (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub labels: Vec<(String, String)>,
    /// Labels of control-plane pods (comma-separated)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair, value_delimiter = ',')]
    pub pods_labels: Vec<(String, String)>,
    /// Labels of the nodes that control-plane pods run on (comma-separated)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair, value_delimiter = ',')]
    pub node_selector: Vec<(String, String)>,
    /// Toleration of control-plane pods: key=,operator=,effect=,value=,tolerationSeconds= (repeatable)
    #[arg(long, value_name = "TOLERATION", value_parser = toleration)]
    pub toleration: Vec<Value>,
    /// Cryptography by FIPS modules only
    #[arg(long)]
    pub fips: bool,
    /// Storage class of etcd's volumes
    #[arg(long, value_name = "NAME")]
    pub etcd_storage_class: Option<String>,
    /// Size of etcd's volumes
    #[arg(long, value_name = "SIZE")]
    pub etcd_storage_size: Option<String>,
    /// Do nothing until then: true, or a time such as 2030-01-02T15:04:05Z
    #[arg(long = "pausedUntil", alias = "paused-until", value_name = "WHEN")]
    pub paused_until: Option<String>,
    /// Features beyond the usual: TechPreviewNoUpgrade or DevPreviewNoUpgrade
    #[arg(long, value_name = "SET", value_parser = ["TechPreviewNoUpgrade", "DevPreviewNoUpgrade"])]
    pub feature_set: Option<String>,
    /// Optional parts to have (comma-separated)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub enable_cluster_capabilities: Vec<String>,
    /// Optional parts to do without (comma-separated)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub disable_cluster_capabilities: Vec<String>,
    /// A further name of the API server
    #[arg(long, value_name = "HOST")]
    pub kas_dns_name: Option<String>,
    /// Where catalogs of operators run
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = Placement::Management, ignore_case = true)]
    pub olm_catalog_placement: Placement,
    /// Begin without the default catalogs
    #[arg(long)]
    pub olm_disable_default_sources: bool,
    /// Image of the control-plane operator, for trying one
    #[arg(long, value_name = "IMAGE")]
    pub control_plane_operator_image: Option<String>,

    /// Network provider: OVNKubernetes, OpenShiftSDN, Calico or Other
    #[arg(long, value_name = "TYPE", default_value = "OVNKubernetes", value_parser = ["OVNKubernetes", "OpenShiftSDN", "Calico", "Other"])]
    pub network_type: String,
    /// Network of services (repeatable)
    #[arg(long, value_name = "CIDR", value_parser = cidr, default_value = "172.31.0.0/16")]
    pub service_cidr: Vec<String>,
    /// Network of pods (repeatable)
    #[arg(long, value_name = "CIDR", value_parser = cidr, default_value = "10.132.0.0/14")]
    pub cluster_cidr: Vec<String>,
    /// Network of machines (repeatable)
    #[arg(long, value_name = "CIDR", value_parser = cidr)]
    pub machine_cidr: Vec<String>,
    /// Accepted for scripts; has no effect on Azure
    #[arg(long, hide = true)]
    pub default_dual: bool,
    /// Only one network per pod (network type Other)
    #[arg(long)]
    pub disable_multi_network: bool,
    /// MTU of OVN-Kubernetes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(i32).range(576..=9216))]
    pub ovn_kubernetes_mtu: Option<i32>,
    /// Let the controller manager give networks to nodes (network type Other)
    #[arg(long)]
    pub allocate_node_cidrs: bool,

    /// Machines in each first node pool; a negative number makes no pool
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub node_pool_replicas: i32,
    /// How long pods may take to leave a node; 0s for as long as they need
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub node_drain_timeout: String,
    /// How long volumes may take to leave a node; 0s for as long as they need
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub node_volume_detach_timeout: String,
    /// Replace machines whose node is unhealthy
    #[arg(long)]
    pub auto_repair: bool,
    /// How nodes change their version
    #[arg(long, value_enum, value_name = "TYPE", default_value_t = UpgradeType::Replace, ignore_case = true)]
    pub node_upgrade_type: UpgradeType,
    /// Architecture of the machines
    #[arg(long, value_enum, value_name = "ARCH", default_value_t = Arch::Amd64)]
    pub arch: Arch,
    /// A node pool in each of these zones (comma-separated)
    #[arg(long, value_name = "ZONE", value_delimiter = ',', value_parser = ["1", "2", "3"])]
    pub availability_zones: Vec<String>,
    #[command(flatten)]
    pub machines: Machines,

    /// Region
    #[arg(long, value_name = "REGION", default_value = "eastus")]
    pub location: String,
    /// Key that encrypts secrets at rest: https://VAULT.vault.azure.net/keys/NAME/VERSION
    #[arg(long, value_name = "URL")]
    pub encryption_key_id: Option<String>,
    /// Vault secret with the credentials of the key's identity (managed flavour)
    #[arg(long, value_name = "NAME")]
    pub kms_credentials_secret_name: Option<String>,
    /// Issuer of the cluster's service-account tokens
    #[arg(long, value_name = "URL")]
    pub oidc_issuer_url: Option<String>,
    /// Private key of the issuer (PEM)
    #[arg(long, value_name = "FILE")]
    pub sa_token_issuer_private_key_path: Option<PathBuf>,
    /// How logging in is published; LoadBalancer is for self-managed clusters only
    #[arg(long, value_enum, value_name = "STRATEGY", default_value_t = OAuth::Route)]
    pub oauth_publishing_strategy: OAuth,
    /// From where the cluster is reached
    #[arg(long, value_enum, value_name = "ACCESS", default_value_t = Access::Public)]
    pub endpoint_access: Access,
    /// Subnet for the private link service (resource id); by default that of --infra-json
    #[arg(long, value_name = "ID")]
    pub endpoint_access_private_nat_subnet_id: Option<String>,
    /// Subscriptions that may also connect privately (comma-separated)
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub endpoint_access_private_additional_allowed_subscriptions: Vec<String>,

    /// Make infrastructure in this group of yours
    #[arg(long, value_name = "GROUP")]
    pub resource_group_name: Option<String>,
    /// Tag of groups that are made (repeatable)
    #[arg(short = 't', long, value_name = "KEY=VALUE", value_parser = pair, value_delimiter = ',')]
    pub resource_group_tags: Vec<(String, String)>,
    /// Your virtual network (resource id)
    #[arg(long, value_name = "ID")]
    pub vnet_id: Option<String>,
    /// Your subnet (resource id)
    #[arg(long, value_name = "ID")]
    pub subnet_id: Option<String>,
    /// Your network security group (resource id)
    #[arg(long, value_name = "ID")]
    pub network_security_group_id: Option<String>,
    /// Group of the public DNS zone; needed to assign roles
    #[arg(long, value_name = "GROUP")]
    pub dns_zone_rg_name: Option<String>,
    /// Give the identities their roles
    #[arg(long, visible_alias = "auto-assign-roles")]
    pub assign_service_principal_roles: bool,
    /// Give the identities the roles made for hosted clusters
    #[arg(long)]
    pub assign_custom_hcp_roles: bool,
    /// Identities of a self-managed cluster: what `create iam azure` wrote
    #[arg(long, value_name = "FILE")]
    pub workload_identities_file: Option<PathBuf>,
    /// Control-plane identities of the managed flavour
    #[arg(long, value_name = "FILE")]
    pub managed_identities_file: Option<PathBuf>,
    /// Data-plane identities of the managed flavour
    #[arg(long, value_name = "FILE")]
    pub data_plane_identities_file: Option<PathBuf>,
}
