//! Flags and environment of the config operator: those of the program whose place it takes.

use crate::facts::Told;
use crate::operate::{Around, start};
use crate::probe::Backends;
use clock::{Random, SharedClock};
use kube::Client;
use reconcile::{Drained, Metrics, Runtime};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Flags of `zaffre serve hosted-cluster-config-operator`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Namespace of the control plane, in the management cluster
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: String,
    /// Name of the HostedControlPlane
    #[arg(long, value_name = "NAME")]
    pub hosted_control_plane: String,
    /// Kubeconfig of the guest
    #[arg(long, value_name = "FILE")]
    pub target_kubeconfig: PathBuf,
    /// How to reach the management cluster; inside of it, the service account if not given
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Serve /metrics here
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub metrics_address: SocketAddr,
    /// Serve /healthz and /readyz here
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:6060")]
    pub health_address: SocketAddr,
    /// Where nodes reach the konnectivity server; as the HostedControlPlane says if empty
    #[arg(long, default_value = "", value_name = "HOST")]
    pub konnectivity_address: String,
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub konnectivity_port: u16,
    /// Where users reach the OAuth server; as the HostedControlPlane says if empty
    #[arg(long, default_value = "", value_name = "HOST")]
    pub oauth_address: String,
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub oauth_port: u16,
    /// Taken for compatibility: bundles are read from ConfigMap root-ca, so that a change is seen
    #[arg(long, value_name = "FILE")]
    pub initial_ca_file: Option<PathBuf>,
    /// Taken for compatibility: bundles are read from ConfigMap kubelet-client-ca, so that a change is seen
    #[arg(long, value_name = "FILE")]
    pub cluster_signer_ca_file: Option<PathBuf>,
    /// Azure, and nothing else
    #[arg(long, default_value = "Azure", value_parser = ["Azure"], value_name = "PLATFORM")]
    pub platform_type: String,
    /// Taken for compatibility
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub enable_ci_debug_output: bool,
    /// Taken for compatibility: images come resolved
    #[arg(long, default_value = "", value_name = "SOURCE=MIRROR,…")]
    pub registry_overrides: String,
}

/// Environment variables that name images, and the images' keys in the payload.
pub const IMAGES: [(&str, &str); 3] = [
    ("HOSTED_CLUSTER_CONFIG_OPERATOR_IMAGE", "zaffre"),
    ("KONNECTIVITY_AGENT_IMAGE", "apiserver-network-proxy"),
    ("AZURE_CLOUD_NODE_MANAGER_IMAGE", "azure-cloud-node-manager"),
];

impl Args {
    /// What the flags and the environment tell; `env` reads a variable.
    pub fn told(&self, env: impl Fn(&str) -> Option<String>) -> Told {
        let text = |name: &str| env(name).unwrap_or_default();
        let images = IMAGES
            .into_iter()
            .filter_map(|(variable, key)| Some((key.to_owned(), env(variable).filter(|i| !i.is_empty())?)));
        Told {
            namespace: self.namespace.clone(),
            name: self.hosted_control_plane.clone(),
            version: text("OPENSHIFT_RELEASE_VERSION"),
            image: text("OPERATE_ON_RELEASE_IMAGE"),
            kubernetes: text("KUBERNETES_VERSION"),
            images: images.collect(),
            konnectivity: (self.konnectivity_address.clone(), self.konnectivity_port),
            oauth: (self.oauth_address.clone(), self.oauth_port),
        }
    }
}

/// Everything `run` cannot make itself.
pub struct Means {
    pub management: Client,
    pub guest: Client,
    pub backends: Arc<dyn Backends>,
    pub clock: SharedClock,
    pub random: Random,
    pub metrics: Metrics,
}

/// Keeps one guest until stopped.
pub async fn run(told: Told, means: Means, stop: CancellationToken) -> Drained {
    let Means { management, guest, backends, clock, random, metrics } = means;
    let mut runtime = Runtime::new(clock.clone(), &metrics);
    start(&mut runtime, Around { management, guest, told, backends, clock, random, metrics });
    runtime.run(stop).await
}
