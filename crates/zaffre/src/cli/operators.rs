//! Flags of operators that run in a management cluster.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

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
    /// Where to read images instead: SOURCE=MIRROR, separated by commas
    #[arg(long, value_name = "LIST", default_value = "")]
    pub registry_overrides: String,
    /// Image with our own programs; that of this pod if not given
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// This pod, which knows its image and user
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod: Option<String>,
    /// Client id of the identity that reads vaults, where managed identities are used
    #[arg(long, env = "ARO_HCP_KEY_VAULT_USER_CLIENT_ID", value_name = "ID", default_value = "")]
    pub vault_reader: String,
    /// Credentials of the control plane operator's managed identity, as a vault holds them; to ask Azure about networks
    #[arg(long, value_name = "FILE")]
    pub azure_credential: Option<PathBuf>,
    /// Credentials of the KMS identity, as a vault holds them; to try the key that encrypts data
    #[arg(long, value_name = "FILE")]
    pub kms_credential: Option<PathBuf>,
    /// How to reach the management cluster; inside of it, its service account if not given
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Serve /metrics here
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub metrics_address: SocketAddr,
    /// Serve /healthz and /readyz here
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6060")]
    pub health_address: SocketAddr,
}
