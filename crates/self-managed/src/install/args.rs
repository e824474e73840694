//! The flags.

use crate::flags::{cidr, duration, pair};
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum PrivatePlatform {
    None,
    #[value(name = "Azure")]
    Azure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Monitoring {
    None,
    OperatorOnly,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MetricsSet {
    #[value(name = "Telemetry")]
    Telemetry,
    #[value(name = "SRE")]
    Sre,
    #[value(name = "All")]
    All,
}

impl MetricsSet {
    pub fn as_str(self) -> &'static str {
        match self {
            MetricsSet::Telemetry => "Telemetry",
            MetricsSet::Sre => "SRE",
            MetricsSet::All => "All",
        }
    }
}

/// Which half of the installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    All,
    Crds,
    Resources,
}

/// Which half is rendered.
pub type Outputs = Scope;

/// The operators' installation.
#[derive(Clone, Debug, ClapArgs)]
pub struct Args {
    /// Namespace of the operators
    #[arg(long, global = true, value_name = "NAME", default_value = "hypershift")]
    pub namespace: String,
    /// Image of the operators
    #[arg(long, global = true, value_name = "IMAGE", default_value = DEFAULT_IMAGE)]
    pub hypershift_image: String,
    /// ImageStream file that names the images (tag hypershift-operator)
    #[arg(long, global = true, value_name = "FILE")]
    pub image_refs: Option<PathBuf>,
    /// When the image is pulled
    #[arg(long, global = true, value_name = "POLICY", default_value = "IfNotPresent", value_parser = ["Always", "Never", "IfNotPresent"])]
    pub image_pull_policy: String,
    /// Everything but a running operator: you run it yourself
    #[arg(long, global = true)]
    pub development: bool,
    /// Which platforms' machines to install definitions for (comma-separated); all by default
    #[arg(long, global = true, value_name = "PLATFORM", value_delimiter = ',')]
    pub limit_crd_install: Vec<String>,
    /// Who keeps machines of clusters: builtin (this operator's own controllers), or external (Cluster API and its provider, out
    /// of the release; their definitions must be there before, ours are left out)
    #[arg(long, global = true, value_name = "WHO", default_value = "builtin", value_parser = ["builtin", "external"])]
    pub machines: String,
    /// Accepted for scripts: nothing here is held back as a preview; written down for whoever reads HYPERSHIFT_FEATURESET
    #[arg(long, global = true)]
    pub tech_preview_no_upgrade: bool,

    /// Fill in releases that HostedClusters and NodePools leave out, before they are stored
    #[arg(long, global = true)]
    pub enable_defaulting_webhook: bool,
    /// Refuse HostedClusters that the operator would not make, before they are stored
    #[arg(long, global = true)]
    pub enable_validating_webhook: bool,
    /// Accepted for scripts; each definition has one version
    #[arg(long, global = true, hide = true, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_conversion_webhook: bool,
    /// Accepted for scripts; each definition has one version
    #[arg(long, global = true, hide = true)]
    pub disable_capi_conversion_webhook: bool,
    /// Accepted for scripts; each definition has one version
    #[arg(long, global = true, hide = true)]
    pub disable_capi_migration: bool,

    /// Where private clusters are reached through: None or Azure (private link)
    #[arg(long, global = true, value_enum, value_name = "PLATFORM", default_value_t = PrivatePlatform::None)]
    pub private_platform: PrivatePlatform,
    /// The operator's account in Azure, which makes private links and looks before machines are made (file)
    #[arg(long, global = true, value_name = "FILE")]
    pub azure_private_creds: Option<PathBuf>,
    /// The operator's account in Azure (Secret in --namespace)
    #[arg(long, global = true, value_name = "NAME")]
    pub azure_private_secret: Option<String>,
    /// Key of that Secret
    #[arg(long, global = true, value_name = "KEY", default_value = "credentials")]
    pub azure_private_secret_key: String,
    /// The operator's account in Azure as a workload identity (client id)
    #[arg(long, global = true, value_name = "ID")]
    pub azure_pls_managed_identity_client_id: Option<String>,
    /// Subscription of the private links
    #[arg(long, global = true, value_name = "ID")]
    pub azure_pls_subscription_id: Option<String>,
    /// Group of the private links
    #[arg(long, global = true, value_name = "GROUP")]
    pub azure_pls_resource_group: Option<String>,

    /// Publish names of clusters by external-dns: azure
    #[arg(long, global = true, value_name = "PROVIDER", value_parser = ["azure"])]
    pub external_dns_provider: Option<String>,
    /// Credentials of external-dns (azure.json)
    #[arg(long, global = true, value_name = "FILE")]
    pub external_dns_credentials: Option<PathBuf>,
    /// Credentials of external-dns (Secret in --namespace)
    #[arg(long, global = true, value_name = "NAME")]
    pub external_dns_secret: Option<String>,
    /// Domain that external-dns looks after
    #[arg(long, global = true, value_name = "DOMAIN")]
    pub external_dns_domain_filter: Option<String>,
    /// Marks records as ours; by default a new id
    #[arg(long, global = true, value_name = "ID")]
    pub external_dns_txt_owner_id: Option<String>,
    /// Image of external-dns
    #[arg(
        long,
        global = true,
        value_name = "IMAGE",
        default_value = "registry.redhat.io/edo/external-dns-rhel8:latest"
    )]
    pub external_dns_image: String,
    /// How often external-dns looks
    #[arg(long, global = true, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub external_dns_interval: String,

    /// For a managed service: ARO-HCP
    #[arg(long, global = true, value_name = "SERVICE", value_parser = ["ARO-HCP"])]
    pub managed_service: Option<String>,
    /// Identity that reads the vaults of the managed flavour (client id)
    #[arg(long, global = true, value_name = "ID")]
    pub aro_hcp_key_vault_users_client_id: Option<String>,
    /// Router that public clusters of the managed service share (HAProxy from 2.9 on); without it each is reached by
    /// Routes of the management cluster
    #[arg(long, global = true, value_name = "IMAGE")]
    pub shared_ingress_image: Option<String>,

    /// Credentials for registries (JSON), for the operators' own images
    #[arg(long, global = true, value_name = "FILE")]
    pub pull_secret: Option<PathBuf>,
    /// Authorities that the operators trust besides the usual ones (PEM)
    #[arg(long, global = true, value_name = "FILE")]
    pub additional_trust_bundle: Option<PathBuf>,
    /// Registries to use in place of others: a=b,c=d
    #[arg(long, global = true, value_name = "A=B", value_parser = pair, value_delimiter = ',')]
    pub registry_overrides: Vec<(String, String)>,

    /// Whose machine sizes are looked up, with an account for that alone, for pools that begin with none: azure
    #[arg(long, global = true, value_name = "PROVIDER", value_parser = ["azure"])]
    pub scale_from_zero_provider: Option<String>,
    /// Credentials for that (file)
    #[arg(long, global = true, value_name = "FILE")]
    pub scale_from_zero_creds: Option<PathBuf>,
    /// Credentials for that (Secret in --namespace)
    #[arg(long, global = true, value_name = "NAME")]
    pub scale_from_zero_secret: Option<String>,
    /// Key of that Secret
    #[arg(long, global = true, value_name = "KEY", default_value = "credentials")]
    pub scale_from_zero_secret_key: String,

    /// What the platform's Prometheus looks at: None, OperatorOnly (default), or All (control planes too)
    #[arg(long, global = true, value_enum, value_name = "WHAT", default_value_t = Monitoring::OperatorOnly)]
    pub platform_monitoring: Monitoring,
    /// How many metrics of control planes are scraped: Telemetry (few), SRE (as ConfigMap sre-metric-set in --namespace says), or
    /// All; a cluster's own spec.monitoring.metricsSet goes before it
    #[arg(long, global = true, value_enum, value_name = "SET", default_value_t = MetricsSet::Telemetry)]
    pub metrics_set: MetricsSet,
    /// Alerts for service levels
    #[arg(long, global = true)]
    pub slos_alerts: bool,
    /// Accepted for scripts; there are no dashboards yet
    #[arg(long, global = true, hide = true)]
    pub monitoring_dashboards: bool,

    /// A day in the lives of certificates for emergencies (break-glass), at most 24h; shorter for tests
    #[arg(long, global = true, value_name = "DURATION", default_value = "24h", value_parser = duration)]
    pub cert_rotation_scale: String,
    /// Accepted for scripts; API servers get no nodes of their own
    #[arg(long, global = true, hide = true, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_dedicated_request_serving_isolation: bool,
    /// Accepted for scripts; lost members of etcd are always brought back
    #[arg(long, global = true, hide = true, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_etcd_recovery: bool,
    /// Sort clusters by their number of nodes, and give them what follows from their size
    #[arg(long, global = true)]
    pub enable_size_tagging: bool,
    /// Roles for people: hypershift-client and hypershift-readers
    #[arg(long, global = true)]
    pub enable_admin_rbac_generation: bool,
    /// Accepted for scripts; ZAFFRE_LOG in --additional-operator-env-vars says how much is said
    #[arg(long, global = true, hide = true)]
    pub enable_ci_debug_output: bool,
    /// Accepted for scripts; control planes run this operator's own image, of which there are no exceptions
    #[arg(long, global = true, hide = true, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_cpo_overrides: bool,
    /// Accepted for scripts; nothing is sent anywhere
    #[arg(long, global = true, hide = true, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_uwm_telemetry_remote_write: bool,
    /// Accepted for scripts; risks of updates that need the management cluster's metrics stay unknown
    #[arg(long, global = true, hide = true, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_cvo_management_cluster_metrics_access: bool,
    /// Accepted for scripts; etcd has no definitions of its own
    #[arg(long, global = true, hide = true, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub exclude_etcd: bool,
    /// Refused: audit logs are not kept
    #[arg(long, global = true, hide = true, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_audit_log_persistence: bool,
    /// Refused: monitors are those of monitoring.coreos.com
    #[arg(long, global = true, hide = true, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub rhobs_monitoring: bool,
    /// Refused: nodes come from NodePools
    #[arg(long, global = true, hide = true, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_standalone_karpenter_operator: bool,
    /// Refused: nobody asks it
    #[arg(long, global = true, hide = true, value_name = "URL")]
    pub cvo_prometheus_url: Option<String>,
    /// Environment of the operator (repeatable)
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = pair, value_delimiter = ',')]
    pub additional_operator_env_vars: Vec<(String, String)>,
    /// Networks that control planes must not reach (comma-separated)
    #[arg(long, global = true, value_name = "CIDR", value_parser = cidr, value_delimiter = ',')]
    pub hcp_egress_block_cidrs: Vec<String>,
}

/// One image for all of them.
pub const DEFAULT_IMAGE: &str = "quay.io/zaffre/zaffre:latest";

impl Args {
    /// As if these were the flags.
    pub fn of(words: &[&str]) -> Result<Args, clap::Error> {
        use clap::FromArgMatches;
        let command = <Args as clap::Args>::augment_args(clap::Command::new("install").no_binary_name(true));
        Args::from_arg_matches(&command.try_get_matches_from(words)?)
    }
}
