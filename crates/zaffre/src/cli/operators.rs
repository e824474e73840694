//! Flags of operators that run in a management cluster.

use apis::hypershift::settings::MetricsSet;
use clap::Args;
use control_plane::scope::Settings;
use self_managed::install::PrivatePlatform;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// What every operator is told.
#[derive(Debug, Args)]
pub struct Operator {
    /// How to reach the management cluster; inside of it, its service account if not given
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Where to read images instead: SOURCE=MIRROR, separated by commas
    #[arg(long, value_name = "LIST", default_value = "")]
    pub registry_overrides: String,
    /// Image with our own programs; that of this pod if not given
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// This pod, which knows its image and user
    #[arg(long, visible_alias = "pod-name", env = "POD_NAME", value_name = "NAME")]
    pub pod: Option<String>,
    /// Client id of the identity that reads vaults, where managed identities are used
    #[arg(long, env = "ARO_HCP_KEY_VAULT_USER_CLIENT_ID", value_name = "ID", default_value = "")]
    pub vault_reader: String,
    /// Networks that routers of control planes must not reach (CIDRs, separated by commas): the management cluster's API
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub hcp_egress_block_cidrs: Vec<String>,
    /// How many metrics of control planes are scraped: Telemetry (few), SRE (as ConfigMap sre-metric-set says), or All; a
    /// cluster's own spec.monitoring.metricsSet goes before it
    #[arg(long, env = "METRICS_SET", value_name = "SET", default_value = "Telemetry", value_parser = metrics_set)]
    pub metrics_set: MetricsSet,
    /// A day in the lives of certificates for emergencies; shorter for tests
    #[arg(long, env = "CERT_ROTATION_SCALE", value_name = "DURATION", default_value = "24h0m0s", value_parser = day)]
    pub cert_rotation_scale: String,
    /// Serve /healthz and /readyz here
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6060", value_parser = address)]
    pub health_address: SocketAddr,
    /// How long those who stand by wait for a sign of life, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(3..=3600))]
    pub lease_duration: u64,
}

impl Operator {
    /// Networks that are blocked.
    pub fn blocked(&self) -> Vec<String> {
        self.hcp_egress_block_cidrs.iter().filter(|c| !c.is_empty()).cloned().collect()
    }

    /// What is chosen for every control plane.
    pub fn settings(&self) -> Settings {
        Settings { metrics: self.metrics_set, certificate_day: self.cert_rotation_scale.clone() }
    }

    /// As the operators have it whose place we take: two thirds to give up, a quarter to say that one is there.
    pub fn timing(&self) -> reconcile::Timing {
        let duration = Duration::from_secs(self.lease_duration);
        reconcile::Timing { duration, deadline: duration * 2 / 3, retry: duration / 4 }
    }
}

/// In any case of letters, as upstream takes it.
fn metrics_set(text: &str) -> Result<MetricsSet, String> {
    let known = MetricsSet::ALL.iter().find(|set| set.as_str().eq_ignore_ascii_case(text));
    known.copied().ok_or_else(|| format!("{text:?} is no set of metrics: say Telemetry, SRE or All"))
}

/// A duration that Go reads.
fn day(text: &str) -> Result<String, String> {
    let long = apis::duration::go_duration(text);
    let long = long.ok_or_else(|| format!("{text:?} is no duration: say 24h, or 30m"))?;
    match long.is_positive() && Some(long) <= apis::duration::go_duration("24h") {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not between nothing and 24h")),
    }
}

/// `HOST:PORT`, or `:PORT` for everybody.
fn address(text: &str) -> Result<SocketAddr, String> {
    let whole = match text.strip_prefix(':') {
        Some(port) => format!("{}:{port}", Ipv4Addr::UNSPECIFIED),
        None => text.to_owned(),
    };
    whole.parse().map_err(|_| format!("{text:?} is no address: give IP:PORT, or :PORT"))
}

#[derive(Debug, Args)]
pub struct ControlPlaneOperatorArgs {
    /// The namespace of the control plane; nothing outside of it is watched or written
    #[arg(long, env = "MY_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: String,
    /// Name of the control plane; any in the namespace if not given
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Work only on control planes of this release: during an upgrade, another pod does the other
    #[arg(long, value_name = "IMAGE")]
    pub release_image: Option<String>,
    /// Credentials of the control plane operator's managed identity, as a vault holds them; to ask Azure about networks
    #[arg(long, value_name = "FILE")]
    pub azure_credential: Option<PathBuf>,
    /// Credentials of the KMS identity, as a vault holds them; to try the key that encrypts data
    #[arg(long, value_name = "FILE")]
    pub kms_credential: Option<PathBuf>,
    /// Serve /metrics here
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = address)]
    pub metrics_address: SocketAddr,
    #[command(flatten)]
    pub operator: Operator,
}

/// Who keeps machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Machinery {
    Builtin,
    External,
}

#[derive(Debug, Args)]
pub struct HypershiftOperatorArgs {
    /// Where this operator lives: its Lease is there, and what it says of itself
    #[arg(long, env = "MY_NAMESPACE", value_name = "NAMESPACE", default_value = "hypershift")]
    pub namespace: String,
    /// Serve /metrics here
    #[arg(
        long,
        visible_alias = "metrics-addr",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9000",
        value_parser = address
    )]
    pub metrics_address: SocketAddr,
    /// Keep only clusters with this word in their annotation hypershift.openshift.io/scope; those without one if it is
    /// empty
    #[arg(long, env = "HOSTEDCLUSTERS_SCOPE_ANNOTATION", value_name = "WORD", default_value = "")]
    pub scope: String,
    /// Share clusters with other operators by --scope; without this, all clusters are kept whatever they say
    #[arg(
        long,
        env = "ENABLE_HOSTEDCLUSTERS_ANNOTATION_SCOPING",
        value_name = "BOOL",
        num_args = 0..=1,
        default_value_t = false,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    pub enable_scoping: bool,
    /// Sort clusters by their number of nodes, as ClusterSizingConfiguration `cluster` says: label, conditions, and what
    /// follows from a size
    #[arg(
        long,
        env = "ENABLE_SIZE_TAGGING",
        value_name = "BOOL",
        num_args = 0..=1,
        default_value_t = false,
        default_missing_value = "true",
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::Set
    )]
    pub enable_size_tagging: bool,
    /// Let the platform's Prometheus look into namespaces of control planes: label openshift.io/cluster-monitoring
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        default_value_t = false,
        default_missing_value = "true",
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::Set
    )]
    pub enable_ocp_cluster_monitoring: bool,
    /// Image of the router that public clusters of the managed flavour share (HAProxy from 2.9 on); there is none if not
    /// given
    #[arg(long, env = "IMAGE_SHARED_INGRESS_HAPROXY", value_name = "IMAGE")]
    pub shared_ingress_image: Option<String>,
    /// Who keeps machines: builtin (zaffre serve machines), or external (Cluster API and its provider, out of the release)
    #[arg(long, value_enum, value_name = "WHO", default_value_t = Machinery::Builtin)]
    pub machines: Machinery,
    /// Whose sizes of machines are looked up for pools that begin with none: azure
    #[arg(long, env = "SCALE_FROM_ZERO_PROVIDER", value_name = "PROVIDER", value_parser = ["azure"], requires = "scale_from_zero_creds")]
    pub scale_from_zero_provider: Option<String>,
    /// The account to ask for them; the operator's own if not given
    #[arg(long, env = "SCALE_FROM_ZERO_CREDS", value_name = "FILE")]
    pub scale_from_zero_creds: Option<PathBuf>,
    /// What leads into private clusters: None, or Azure (private links)
    #[arg(long, value_enum, value_name = "PLATFORM", default_value_t = PrivatePlatform::None)]
    pub private_platform: PrivatePlatform,
    /// Group of the management cluster's load balancers; private link services are made in it
    #[arg(long, env = "AZURE_RESOURCE_GROUP", value_name = "GROUP")]
    pub azure_pls_resource_group: Option<String>,
    /// Subscription of that group; the account's own if not given
    #[arg(long, env = "AZURE_SUBSCRIPTION_ID", value_name = "ID")]
    pub azure_pls_subscription_id: Option<String>,
    /// Client id of the workload identity that makes private links; that of the environment if not given
    #[arg(long, env = "AZURE_PLS_CLIENT_ID", value_name = "ID")]
    pub azure_pls_managed_identity_client_id: Option<String>,
    /// Answer what the API server asks about HostedClusters and NodePools before it stores them, here; nobody is asked if
    /// not given
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub webhook_address: Option<SocketAddr>,
    /// Where the newest release is looked up for clusters that name none: a release controller, or oci://REPOSITORY
    #[arg(long, value_name = "URL", env = "ZAFFRE_RELEASE_SOURCE", hide_env_values = true, default_value = self_managed::stream::SOURCE)]
    pub release_source: String,
    #[command(flatten)]
    pub operator: Operator,
}

#[derive(Debug, Args)]
pub struct MachinesArgs {
    /// The namespace of one control plane, and nothing outside of it; all namespaces if not given
    #[arg(long, env = "MY_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Where the Lease is by which one of several works, if no namespace is given
    #[arg(long, value_name = "NAMESPACE", default_value = "hypershift")]
    pub lease_namespace: String,
    /// Token of the workload identity that machines are made with
    #[arg(long, env = "AZURE_FEDERATED_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// How often machines that are ready are looked for in Azure, in seconds: one list per resource group
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(i64).range(10..=86400))]
    pub look: i64,
    /// Serve /metrics here
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081", value_parser = address)]
    pub metrics_address: SocketAddr,
    #[command(flatten)]
    pub operator: Operator,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_days_are_those_that_there_are() {
        assert_eq!(metrics_set("sre"), Ok(MetricsSet::Sre));
        assert!(metrics_set("Some").unwrap_err().contains("Telemetry, SRE or All"));
        assert_eq!(day("30m"), Ok("30m".to_owned()));
        for wrong in ["0s", "25h", "-1h", "soon"] {
            assert!(day(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_may_leave_the_host_out() {
        assert_eq!(address(":9000"), Ok("0.0.0.0:9000".parse().unwrap()));
        assert_eq!(address("127.0.0.1:0"), Ok("127.0.0.1:0".parse().unwrap()));
        assert!(address("9000").unwrap_err().contains("IP:PORT"));
    }
}
